package service_test

import (
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/service"
)

// A stated zero is a value like any other: it is refused where the schema refuses it, and an empty
// object is not a missing one. null is no element of a list.
func TestStatedZeros(t *testing.T) {
	s := start(t, service.Options{})
	for _, c := range []struct {
		path, body string
		status     int
		where      string
	}{
		{"/v1/plan", `{"problem": {"workload": "criteo-kaggle"}, "options": {"time_limit_ms": 0}}`, 422, "options.time_limit_ms"},
		{"/v1/plan", `{"problem": {}}`, 422, "tables"},
		{"/v1/replan", `{"problem": {"workload": "criteo-kaggle"}, "old": "x", "options": {"lost_devices": [null]}}`, 422, "options.lost_devices"},
		{"/v1/sweep", `{"problem": {"workload": "criteo-kaggle"}, "axes": {}}`, 202, "id"},
	} {
		answer := s.ask("POST", c.path, c.body)
		if answer.Code != c.status || !strings.Contains(answer.Body.String(), c.where) {
			t.Errorf("%s %s: got %d %s, want %d with %q", c.path, c.body, answer.Code, answer.Body, c.status, c.where)
		}
	}
}
