package plan

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
)

// TestOperator puts one table into operator 1: the number comes back from a file and from
// ByDevice, and counts as a change of the table. Plans without numbers do not mention them.
func TestOperator(t *testing.T) {
	p, pl := sample(t)
	before := *pl
	before.Tables = slices.Clone(pl.Tables)
	var file bytes.Buffer
	if err := pl.Write(&file); err != nil || strings.Contains(file.String(), "operator") {
		t.Fatalf("got error %v and %s, want no key operator", err, file.String())
	}
	pl.Tables[1].Operator = 1
	file.Reset()
	must.Do(t, pl.Write(&file))
	text := file.String()
	back, err := Read(&file)
	if err != nil || back.Tables[1].Operator != 1 || back.Divided() != 1 {
		t.Fatalf("read back: got error %v and operators of %d tables, want 1", err, back.Divided())
	}
	again := New(p, back.ByDevice())
	for i := range again.Tables {
		if got, want := again.Tables[i].Operator, pl.Tables[i].Operator; got != want {
			t.Errorf("table %d from its shards: got operator %d, want %d", i, got, want)
		}
	}
	changes := Diff(&before, pl)
	if len(changes.Tables) != 1 || !changes.Tables[0].Regrouped || changes.Tables[0].Moved || changes.Transfer.Bytes != 0 || changes.Tables[0].After.Operator != 1 {
		t.Errorf("diff: got %+v, want table 1 in another operator and nothing else", changes.Tables)
	}
	for value, want := range map[string]string{"3": "between 0 and 2", "-1": "-1", "1.5": "1.5"} {
		_, err := Read(strings.NewReader(strings.Replace(text, `"operator":1`, `"operator":`+value, 1)))
		if err == nil || !strings.Contains(err.Error(), "operator") || !strings.Contains(err.Error(), want) {
			t.Errorf("operator %s: got error %v, want one that says %q", value, err, want)
		}
	}
}

// TestValidateOperator checks who may number operators, and how far.
func TestValidateOperator(t *testing.T) {
	p, pl := sample(t)
	for _, test := range []struct {
		engine   problem.Engine
		operator problem.Operator
		want     Rule
	}{
		{"", 2, ""},
		{"", problem.Operators, RuleOperator},
		{problem.TorchRec, 2, ""},
		{problem.HugeCTR, 1, RuleEngine},
	} {
		pl.Tables[1].Operator = test.operator
		p.Engine, pl.Cluster.Engine = test.engine, test.engine
		found := slices.Concat(pl.CheckTables(), pl.CheckEngine(problem.EngineRules{Name: "engine", Undivided: test.engine.Rules().Undivided}))
		var got []Rule
		for _, v := range found {
			got = append(got, v.Rule)
		}
		if want := slices.DeleteFunc([]Rule{test.want}, func(r Rule) bool { return r == "" }); !slices.Equal(got, want) {
			t.Errorf("engine %q, operator %d: got %v, want %v", test.engine, test.operator, found, want)
		}
	}
	pl.Tables[1].Operator = problem.Operators
	if err := pl.Write(&bytes.Buffer{}); err == nil {
		t.Errorf("a plan with operator %d was written", problem.Operators)
	}
}
