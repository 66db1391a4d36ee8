package report_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/report"
)

// What ReplanJSON writes is read again: the lines and the points of the re-plan are the same.
func TestReadReplan(t *testing.T) {
	for name, r := range map[string]*replan.Outcome{"kept": kept(), "moved": movedOn(), "after a loss": afterLoss()} {
		var b bytes.Buffer
		if err := report.ReplanJSON(&b, r); err != nil {
			t.Fatal(err)
		}
		again, err := report.ReadReplan(&b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(report.ReplanLines(r), report.ReplanLines(again)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for i := range r.Curve {
			want, got := &r.Curve[i], &again.Curve[i]
			wantSteps, wantOK := report.PaysBack(want)
			gotSteps, gotOK := report.PaysBack(got)
			if want.Cost != got.Cost || want.Transfer.Bytes != got.Transfer.Bytes || report.PointLabel(want) != report.PointLabel(got) || wantSteps != gotSteps || wantOK != gotOK {
				t.Errorf("%s, point %d: got %+v, want %+v", name, i, got, want)
			}
		}
		if again.Chosen != r.Chosen || again.Verdict != r.Verdict || !again.Judged {
			t.Errorf("%s: got point %d, %s, want %d, %s", name, again.Chosen, again.Verdict, r.Chosen, r.Verdict)
		}
	}
}

func TestReadReplanRefuses(t *testing.T) {
	var b bytes.Buffer
	if err := report.ReplanJSON(&b, kept()); err != nil {
		t.Fatal(err)
	}
	whole := b.String()
	for _, c := range []struct{ text, want string }{
		{"", "it is not what replan --json prints"},
		{"{}", "which has the keys verdict, curve, transfer and plan"},
		{strings.Replace(whole, `"verdict": "keep"`, `"verdict": "perhaps"`, 1), "which has the keys verdict"},
		{strings.Replace(whole, `"chosen":true`, `"chosen":false`, 1), "no point of its curve is chosen"},
		{strings.ReplaceAll(whole, `"chosen":false`, `"chosen":true`), "two points of its curve are chosen"},
		{strings.Replace(whole, `"seconds":0`, `"seconds":-1`, 1), "is out of range"},
		{strings.Replace(whole, `"format": "neuroshard-plan"`, `"format": "other"`, 1), "its plan: "},
	} {
		_, err := report.ReadReplan(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: got error %v, want %q in it", c.text, err, c.want)
		}
	}
}

// Whatever a file holds, reading it and reporting what was read end without a panic.
func FuzzReadReplan(f *testing.F) {
	text, err := os.ReadFile("testdata/report/replan_json.golden")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := report.ReadReplan(bytes.NewReader(data))
		if err != nil {
			return
		}
		if len(report.ReplanLines(r)) == 0 {
			t.Error("got no lines of a re-plan")
		}
		for i := range r.Curve {
			_ = report.PointLabel(&r.Curve[i])
		}
	})
}
