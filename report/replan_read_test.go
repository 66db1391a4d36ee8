package report_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/report"
)

// What ReplanJSON writes is read again: the lines, the points and the plan of the re-plan are the same.
func TestReadReplan(t *testing.T) {
	for name, r := range map[string]*replan.Outcome{"kept": kept(), "moved": movedOn(), "after a loss": afterLoss()} {
		var b bytes.Buffer
		must.Do(t, report.ReplanJSON(&b, r))
		again, pl, err := report.ReadReplan(&b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(report.ReplanOf(r), again); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(r.Result.Plan.Tables, pl.Tables); diff != "" {
			t.Errorf("%s, the plan (-want +got):\n%s", name, diff)
		}
	}
}

func TestReadReplanRefuses(t *testing.T) {
	var b bytes.Buffer
	must.Do(t, report.ReplanJSON(&b, kept()))
	whole := b.String()
	for _, c := range []struct{ text, want string }{
		{"", "it is not what replan --json prints"},
		{"{}", "which has the keys verdict, title, curve and plan"},
		{strings.Replace(whole, `"verdict": "keep"`, `"verdict": "perhaps"`, 1), "which has the keys verdict"},
		{strings.Replace(whole, `"curve": [`, `"curve": [`+strings.Repeat("{},", plan.MaxWarnings), 1), "curve: there are more than 10000 elements"},
		{strings.Replace(whole, `"format": "neuroshard-plan"`, `"format": "other"`, 1), "its plan: "},
	} {
		_, _, err := report.ReadReplan(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: got error %v, want %q in it", c.text, err, c.want)
		}
	}
}

// Whatever a file holds, reading it ends without a panic.
func FuzzReadReplan(f *testing.F) {
	text := must.Get(os.ReadFile("testdata/report/replan_json.golden"))(f)
	f.Add(text)
	f.Fuzz(func(t *testing.T, data []byte) {
		o, pl, err := report.ReadReplan(bytes.NewReader(data))
		if (err == nil) != (o != nil && pl != nil) {
			t.Errorf("got %v, %v and %v", o, pl, err)
		}
	})
}
