package plan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// TestCauses changes a problem after its plan was made: the first violation names the change,
// and the sums that follow from it take one line.
func TestCauses(t *testing.T) {
	profile := must.Get(hardware.ByName("a100-80"))(t)
	made := func() *problem.Problem {
		p := &problem.Problem{Topology: hardware.Topology{Profile: profile, Devices: 4}, Batch: 8192}
		for i := range 6 {
			features := []problem.Feature{{Name: fmt.Sprintf("f%d", i), PoolingFactor: float64(i + 1)}}
			if i == 3 {
				features = append(features, problem.Feature{Name: "second", PoolingFactor: 7})
			}
			p.Tables = append(p.Tables, problem.Table{
				Name: fmt.Sprintf("t%d", i), Rows: int64(1000 * (i + 1)), Dim: 32 + 32*(i%2), Features: features,
				Precision: problem.FP32, Optimizer: problem.Adagrad,
			})
		}
		return p
	}
	p := made()
	half := p.Whole(3)
	other := half
	half.Columns.End, other.Columns.Start = 32, 32
	pl := plan.New(p, [][]problem.Shard{{p.Whole(0), half}, {p.Whole(1), p.Whole(4)}, {p.Whole(2), other}, {p.Whole(5)}})
	must.Do(t, pl.Validate(p))
	for _, test := range []struct {
		name   string
		change func(p *problem.Problem)
		want   []string
		most   int
	}{
		{"a feature less", func(p *problem.Problem) { p.Tables[3].Features = p.Tables[3].Features[:1] }, []string{
			`tables: table "t3": 1 feature, the plan has 2`, `tables: table "t3": 4 lookups a sample, the plan has 11`,
		}, 7},
		{"a feature more", func(p *problem.Problem) { p.Tables[5].Features = append(p.Tables[5].Features, problem.Feature{}) }, []string{
			`tables: table "t5": 2 features, the plan has 1`,
		}, 6},
		{"other lookups", func(p *problem.Problem) { p.Tables[0].Features = []problem.Feature{{PoolingFactor: 20}} }, []string{
			`tables: table "t0": 20 lookups a sample, the plan has 1`,
		}, 2},
		{"a precision", func(p *problem.Problem) { p.Tables[4].Precision = problem.FP16 }, []string{
			`tables: table "t4": weights in fp16, the plan has fp32`,
		}, 2},
		{"all precisions", func(p *problem.Problem) {
			for i := range p.Tables {
				p.Tables[i].Precision = problem.FP16
			}
		}, []string{`tables: 6 tables (t0, t1, t2, t3, t4 and 1 more): weights in fp16, the plan has fp32`}, 2},
		{"all optimizers", func(p *problem.Problem) {
			for i := range p.Tables {
				p.Tables[i].Optimizer = problem.SGD
			}
		}, []string{`tables: 6 tables (t0, t1, t2, t3, t4 and 1 more): optimizer sgd, the plan has adagrad`}, 2},
		{"a feature and a precision", func(p *problem.Problem) {
			p.Tables[5].Features, p.Tables[0].Precision = append(p.Tables[5].Features, problem.Feature{}), problem.FP16
		}, []string{`tables: table "t0": weights in fp16, the plan has fp32`, `tables: table "t5": 2 features, the plan has 1`}, 7},
	} {
		changed := made()
		test.change(changed)
		var invalid *plan.Invalid
		if err := pl.Validate(changed); !errors.As(err, &invalid) {
			t.Fatalf("%s: got error %v", test.name, err)
		}
		var lines []string
		for _, v := range invalid.Violations {
			lines = append(lines, fmt.Sprintf("%s: %v", v.Rule, v))
		}
		for i, want := range test.want {
			if i >= len(lines) || lines[i] != want {
				t.Errorf("%s: got\n%s\nwant line %d to be %q", test.name, strings.Join(lines, "\n"), i, want)
			}
		}
		if len(lines) > test.most {
			t.Errorf("%s: got %d lines, want at most %d:\n%s", test.name, len(lines), test.most, strings.Join(lines, "\n"))
		}
	}
}
