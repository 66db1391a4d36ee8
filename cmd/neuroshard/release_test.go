package main

import (
	"encoding/json"
	"io"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
)

// content returns a file of the checkout.
func content(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path.Join("../..", name)))(t)
	return string(text)
}

// TestOneVersion wants all files that state the version of the next release to state the same.
func TestOneVersion(t *testing.T) {
	want := strings.TrimSuffix(neuroshard.Version, "-dev")
	for name, pattern := range map[string]string{
		"python/pyproject.toml":                    `(?m)^version = "(.*)"$`,
		"python/src/neuroshard_torchrec/binary.py": `(?m)^VERSION = "(.*)"$`,
		"python/src/neuroshard_worker/__init__.py": `(?m)^__version__ = "(.*)"$`,
		"CITATION.cff":                             `(?m)^version: (.*)$`,
		"CHANGELOG.md":                             `(?m)^## ([0-9].*)$`,
		"Dockerfile":                               `(?m)^ARG VERSION=(.*)-dev$`,
	} {
		match := regexp.MustCompile(pattern).FindStringSubmatch(content(t, name))
		if match == nil || match[1] != want {
			t.Errorf("%s: got version %q, want %s, which neuroshard.go states", name, match, want)
		}
	}
}

// TestDockerfile wants what the container runs to be commands and flags of the binary, and what it
// copies to exist.
func TestDockerfile(t *testing.T) {
	text := strings.ReplaceAll(content(t, "Dockerfile"), "\\\n", " ")
	entry := lists(t, text, "ENTRYPOINT")[0]
	if len(entry) != 1 || !strings.Contains(text, "COPY --from=build /image/neuroshard "+entry[0]+"\n") {
		t.Errorf("got entry point %q, want the binary that is copied", entry)
	}
	runs := [][]string{lists(t, text, "CMD")[0]}
	for _, check := range lists(t, text, `HEALTHCHECK .* CMD`) {
		if check[0] != entry[0] {
			t.Errorf("got health check %q, want one by the binary: the container has no other", check)
		}
		runs = append(runs, check[1:])
	}
	for _, words := range runs {
		root := newRootCommand(&app{stdout: &output{to: io.Discard}, stderr: io.Discard, env: quiet()})
		c, rest, err := root.Find(words)
		if err == nil && c != root {
			err = c.ParseFlags(rest)
		}
		if err != nil || c == root {
			t.Errorf("the container runs neuroshard %q: got command %q, error %v", words, c.Name(), err)
		}
	}
	for _, variable := range regexp.MustCompile(`-X (\S+)=`).FindAllStringSubmatch(text+content(t, ".goreleaser.yaml"), -1) {
		if variable[1] != "github.com/neuroshard/neuroshard.Version" {
			t.Errorf("got -X %s, which is no variable of the module", variable[1])
		}
	}
	for _, copied := range regexp.MustCompile(`(?m)^COPY ([^-\s].*) \S+$`).FindAllStringSubmatch(text, -1) {
		for _, name := range strings.Fields(copied[1]) {
			if _, err := os.Stat(path.Join("../..", name)); err != nil {
				t.Error(err)
			}
		}
	}
	if user := regexp.MustCompile(`(?m)^USER (\d+):`).FindStringSubmatch(text); user == nil || user[1] == "0" {
		t.Errorf("got user %q, want one that is not root", user)
	}
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(content(t, "go.mod"))[1]
	if !strings.Contains(text, "golang:"+goVersion+" ") {
		t.Errorf("the container is not built with Go %s, which go.mod wants", goVersion)
	}
}

// lists returns the words of instructions in JSON form.
func lists(t *testing.T, text, instruction string) (all [][]string) {
	t.Helper()
	for _, match := range regexp.MustCompile(`(?m)^`+instruction+` (\[.*\])$`).FindAllStringSubmatch(text, -1) {
		var words []string
		if err := json.Unmarshal([]byte(match[1]), &words); err != nil {
			t.Fatalf("%s: %v", instruction, err)
		}
		all = append(all, words)
	}
	if len(all) == 0 {
		t.Fatalf("got no %s in the form of a list", instruction)
	}
	return all
}
