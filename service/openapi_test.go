package service_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/service"
)

// described returns the description of the API, and its schemas, compiled.
func described(t *testing.T) (api map[string]any, compile func(pointer string) *jsonschema.Schema) {
	t.Helper()
	s := must.Get(service.New(service.Options{Store: broken{}}))(t)
	api = map[string]any{}
	must.Do(t, json.Unmarshal(s.OpenAPI(), &api))
	document := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(s.OpenAPI())))(t)
	c := jsonschema.NewCompiler()
	must.Do(t, c.AddResource("openapi.json", document))
	return api, func(pointer string) *jsonschema.Schema {
		t.Helper()
		return must.Get(c.Compile("openapi.json#" + pointer))(t)
	}
}

// TestOpenAPI holds the description of the API to a golden file, so that a change of the API is seen.
func TestOpenAPI(t *testing.T) {
	s := must.Get(service.New(service.Options{Store: broken{}}))(t)
	must.Match(t, "testdata/openapi.json", s.OpenAPI())
}

// TestSchemas wants schemas that compile, and operations that say what they need.
func TestSchemas(t *testing.T) {
	api, compile := described(t)
	for name := range api["components"].(map[string]any)["schemas"].(map[string]any) {
		compile("/components/schemas/" + name)
	}
	parameter := regexp.MustCompile(`\{(\w+)\}`)
	ids := map[string]bool{}
	for path, methods := range api["paths"].(map[string]any) {
		for method, value := range methods.(map[string]any) {
			op := value.(map[string]any)
			where := method + " " + path
			if id, _ := op["operationId"].(string); id == "" || ids[id] || op["summary"] == nil {
				t.Errorf("%s: the id is missing or there twice, or the summary is missing", where)
			} else {
				ids[id] = true
			}
			responses := op["responses"].(map[string]any)
			if responses["200"] == nil && responses["202"] == nil || responses["default"] == nil {
				t.Errorf("%s: got responses %v", where, responses)
			}
			var stated []string
			parameters, _ := op["parameters"].([]any)
			for _, p := range parameters {
				if p := p.(map[string]any); p["in"] == "path" {
					stated = append(stated, p["name"].(string))
				}
			}
			for _, m := range parameter.FindAllStringSubmatch(path, -1) {
				if !slices.Contains(stated, m[1]) {
					t.Errorf("%s: parameter %s is not described", where, m[1])
				}
			}
			if (op["requestBody"] != nil) != (method == "post") {
				t.Errorf("%s: got body %v", where, op["requestBody"])
			}
		}
	}
}

// TestAllRoutesAreDescribed wants every route in the description, but for the page and the description itself.
func TestAllRoutesAreDescribed(t *testing.T) {
	s := must.Get(service.New(service.Options{Store: broken{}}))(t)
	api, _ := described(t)
	var listed []string
	for path, methods := range api["paths"].(map[string]any) {
		for method := range methods.(map[string]any) {
			listed = append(listed, strings.ToUpper(method)+" "+path)
		}
	}
	listed = append(listed, "GET /{$}", "GET /assets/{name}", "GET /openapi.json")
	slices.Sort(listed)
	if got := s.Routes(); !slices.Equal(got, listed) {
		t.Errorf("got routes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(listed, "\n"))
	}
}

// TestAnswersFitTheirSchemas asks for every sort of answer.
func TestAnswersFitTheirSchemas(t *testing.T) {
	api, compile := described(t)
	s := start(t, service.Options{})
	id := s.object(200, "POST", "/v1/plan", `{`+tiny+`}`)["id"].(string)
	job := s.object(202, "POST", "/v1/plan?async=true", strings.Replace(quickBody, `"devices": 2`, `"devices": 3`, 1))["id"].(string)
	s.ask("GET", "/v1/jobs/"+job+"/events", "")
	old := `{` + tiny + `, "old": "` + id + `"}`
	replanned := s.object(200, "POST", "/v1/replan", old)["job"].(string)
	bodies := map[string]string{
		"/v1/plan": quickBody, "/v1/price": `{"plan": "` + id + `"}`, "/v1/validate": `{"plan": "` + id + `"}`,
		"/v1/diff": `{"before": "` + id + `", "after": "` + id + `"}`, "/v1/replan": old,
	}
	for path, methods := range api["paths"].(map[string]any) {
		for method := range methods.(map[string]any) {
			if method == "delete" || path == "/v1/sweep" || path == "/metrics" || strings.HasSuffix(path, "/events") {
				continue
			}
			body, where := bodies[path], strings.Replace(path, "{id}", id, 1)
			switch {
			case path == "/v1/jobs/{id}/page":
				where = "/v1/jobs/" + replanned + "/page"
			case strings.HasPrefix(path, "/v1/jobs/"):
				where = "/v1/jobs/" + job
			}
			w := s.ask(strings.ToUpper(method), where, body)
			if w.Code != 200 {
				t.Errorf("%s %s: got %d: %s", method, where, w.Code, w.Body)
				continue
			}
			answer := must.Get(jsonschema.UnmarshalJSON(w.Body))(t)
			pointer := "/paths/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(path) + "/" + method + "/responses/200/content/application~1json/schema"
			if err := compile(strings.NewReplacer("{", "%7B", "}", "%7D").Replace(pointer)).Validate(answer); err != nil {
				t.Errorf("%s %s: %v", method, path, err)
			}
		}
	}
	refused := must.Get(jsonschema.UnmarshalJSON(s.ask("POST", "/v1/plan", `{"problem": {"workload": "x"}}`).Body))(t)
	if err := compile("/components/schemas/Refusal").Validate(refused); err != nil {
		t.Error(err)
	}
}
