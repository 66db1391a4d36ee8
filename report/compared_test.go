package report_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// comparisons are the golden cases of plans of other planners.
func comparisons() []goldenCase {
	r, p := result(4, 7)
	mixed, _ := kinds(true)
	r.Baselines = append(r.Baselines,
		neuroshard.Baseline{Method: "torchrec", Valid: true, Predicted: 1.1 * r.Predicted.Cost, Simulated: 1.2 * r.Simulated.Cost, Wall: 31_400, Plan: mixed.Plan, Memory: 5 * unit.MiB},
		neuroshard.Baseline{Method: "hugectr", Reason: "device 0: its shards take 9 bytes, 1 more than there are", Predicted: 0.9 * r.Predicted.Cost, Simulated: 0.9 * r.Simulated.Cost, Plan: r.Plan},
		neuroshard.Baseline{Method: "mine", Reason: "PlannerError:\x1b[2J no plan", Wall: 0.25},
	)
	early, _ := result(4, 7)
	early.Status, early.Plan.Provenance.Status = search.Interrupted, string(search.Interrupted)
	early.Baselines = []neuroshard.Baseline{{Method: search.Dim}, {Method: "mine", Reason: "no plan"}}
	return []goldenCase{
		{"compared", func(b *bytes.Buffer) error {
			return report.Result(b, r, report.Options{Full: true, Name: "tables.json", Problem: p})
		}},
		{"compared_json", func(b *bytes.Buffer) error { return report.JSON(b, r, nil, nil, 12.5) }},
		{"compared_interrupted", func(b *bytes.Buffer) error { return report.Result(b, early, report.Options{Full: true}) }},
	}
}

// What JSON writes of a plan is read again, and so is a plan file.
func TestReadCompared(t *testing.T) {
	r, _ := result(4, 7)
	var object, file bytes.Buffer
	must.Do(t, report.JSON(&object, r, nil, nil, 12.5))
	must.Do(t, r.Plan.Write(&file))
	for name, c := range map[string]struct {
		text string
		want neuroshard.Baseline
	}{
		"object":  {object.String(), neuroshard.Baseline{Wall: 12.5}},
		"file":    {file.String(), neuroshard.Baseline{}},
		"long":    {`{"valid": false, "error": {"message": "` + strings.Repeat("ü", 3000) + `"}}`, neuroshard.Baseline{Reason: strings.Repeat("ü", 2000) + "..."}},
		"no plan": {`{"valid": false, "error": {"message": "too\nlarge"}, "wall_ms": 3}`, neuroshard.Baseline{Reason: "too large", Wall: 3}},
	} {
		got, err := report.ReadCompared(strings.NewReader(c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if pl := got.Plan; pl != nil {
			var again bytes.Buffer
			must.Do(t, pl.Write(&again))
			if diff := cmp.Diff(file.String(), again.String()); diff != "" {
				t.Errorf("%s: the plan differs (-want +got):\n%s", name, diff)
			}
		} else if c.want.Reason == "" {
			t.Errorf("%s: got no plan", name)
		}
		if got.Wall != c.want.Wall || got.Reason != c.want.Reason {
			t.Errorf("%s: got %v and reason %q, want %v and %q", name, got.Wall, got.Reason, c.want.Wall, c.want.Reason)
		}
	}
}

func TestReadComparedRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "plan"},
		{"[]", "plan"},
		{`{"format": "neuroshard-tables"}`, "neuroshard-tables"},
		{`{"valid": true}`, "valid is true, but the key plan is missing"},
		{`{"valid": true, "plan": {"format": "other"}}`, "its plan: "},
		{`{"valid": false}`, "error.message is empty"},
		{`{"valid": false, "wall_ms": -1, "error": {"message": "m"}}`, "wall_ms is -1, not a time"},
		{`{"valid": false, "wall_ms": 1e300, "error": {"message": "m"}}`, "wall_ms is 1e+300, not a time"},
		{`{"valid": false, "wall_ms": "3", "error": {"message": "m"}}`, "wall_ms is of type string, not a number"},
		{`{"valid": "false"}`, "valid is of type string, not true or false"},
		{`{"valid": false, "error": "m"}`, "error is of type string, not an object"},
		{`{"valid": false, "error": {"message": [1]}}`, "error.message is of type array, not a string"},
	} {
		_, err := report.ReadCompared(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got error %v, want %q in it", c.text, err, c.want)
		}
	}
}

// Whatever a file holds, it is a plan, the reason why there is none, or an error.
func FuzzReadCompared(f *testing.F) {
	text := must.Get(os.ReadFile("testdata/report/json.golden"))(f)
	f.Add(text)
	f.Add([]byte(`{"valid": false, "wall_ms": 3, "error": {"message": "m"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := report.ReadCompared(bytes.NewReader(data))
		if err == nil && (c.Plan == nil) == (c.Reason == "") {
			t.Errorf("got plan %v and reason %q, want one of them", c.Plan, c.Reason)
		}
	})
}
