package service_test

import (
	"encoding/json"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/service"
)

// What the service says of the problem of a plan is all that it takes to find that plan again.
func TestKeptProblemsPlanTheSame(t *testing.T) {
	s := start(t, service.Options{})
	body := `{"problem": {"workload": "paper-d4_m64-0", "name": "m", "overrides": {"batch": 4096}},
		"options": {"seed": 7, "sharding_types": ["column_wise"], "max_evaluations": 200, "baselines": false, "time_limit_ms": 60000}}`
	first := s.object(200, "POST", "/v1/plan", body)
	kept := s.object(200, "GET", "/v1/plans/"+first["id"].(string)+"/problem", "")
	options, _ := kept["options"].(map[string]any)
	if options["seed"] != 7.0 || options["time_limit_ms"] != nil || kept["name"] != nil {
		t.Errorf("got options %v of name %v, want seed 7, no limit of time and no name", options, kept["name"])
	}
	delete(kept, "options")
	again := must.Get(json.Marshal(map[string]any{"problem": kept, "options": options}))(t)
	if second := s.object(200, "POST", "/v1/plan", string(again)); second["id"] != first["id"] || second["cached"] != true {
		t.Errorf("got plan %v, cached %v, want %v, true", second["id"], second["cached"], first["id"])
	}
}
