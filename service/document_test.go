package service_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/marks"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/service"
)

const page = "../docs/SERVICE.md"

// TestDocumentListsEndpoints holds the table of docs/SERVICE.md to the description of the API.
func TestDocumentListsEndpoints(t *testing.T) {
	s := must.Get(service.New(service.Options{Store: broken{}}))(t)
	var api struct {
		Paths map[string]map[string]struct{ Summary string }
	}
	must.Do(t, json.Unmarshal(s.OpenAPI(), &api))
	var rows []string
	for path, methods := range api.Paths {
		for method, op := range methods {
			rows = append(rows, fmt.Sprintf("| `%s %s` | %s |", strings.ToUpper(method), path, op.Summary))
		}
	}
	slices.SortFunc(rows, func(a, b string) int {
		_, pathA, _ := strings.Cut(a, " /")
		_, pathB, _ := strings.Cut(b, " /")
		return strings.Compare(pathA+a, pathB+b)
	})
	table := "| method and path | what it does |\n|---|---|\n" + strings.Join(rows, "\n")
	if *must.Update {
		must.Do(t, marks.Replace(page, "endpoints", []string{table}))
	}
	text := must.Get(os.ReadFile(page))(t)
	if part, ok := marks.Part(string(text), "endpoints"); !ok || part != table {
		t.Errorf("the table of endpoints is out of date: go test ./service -run TestDocumentListsEndpoints -update")
	}
}

// TestDocumentListsMetrics wants every metric of the service in docs/SERVICE.md, and no other.
func TestDocumentListsMetrics(t *testing.T) {
	text := must.Get(os.ReadFile(page))(t)
	s := start(t, service.Options{})
	s.object(200, "POST", "/v1/plan", quickBody)
	name := regexp.MustCompile(`(?m)^(neuroshard_\w+?)(_bucket|_count|_sum)?(\{| )`)
	shown := map[string]bool{}
	for _, m := range name.FindAllStringSubmatch(s.ask("GET", "/metrics", "").Body.String(), -1) {
		shown[m[1]] = true
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("`(neuroshard_[a-z_]+?)(_sum|_count)?[`{]").FindAllStringSubmatch(string(text), -1) {
		if m[1] != "neuroshard_torchrec" {
			listed[m[1]] = true
		}
	}
	for metric := range shown {
		if !listed[metric] {
			t.Errorf("metric %s is not in the document", metric)
		}
	}
	for metric := range listed {
		if !shown[metric] {
			t.Errorf("there is no metric %s", metric)
		}
	}
}
