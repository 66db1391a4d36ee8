package bench

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// What Run found, Score prices alike, under all prices.
func TestScoreOurResults(t *testing.T) {
	tasks, opt := comparison(t)
	for _, prices := range []neuroshard.Prices{opt.Prices, neuroshard.Pretrained(), nil} {
		opt.Prices = prices
		records, err := Run(context.Background(), tasks, opt)
		if err != nil {
			t.Fatal(err)
		}
		scored, err := Score(context.Background(), tasks, GivenResults(NewResults(records, opt)), Options{Prices: prices})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(records, scored, cmpopts.IgnoreFields(Record{}, "WallMS", "Evaluations", "Status")); diff != "" {
			t.Errorf("%T (-planned +scored):\n%s", prices, diff)
		}
		for _, r := range scored {
			if r.WallMS != 0 || r.Status != "" {
				t.Errorf("got %v ms and status %q of a scored plan, want none", r.WallMS, r.Status)
			}
		}
	}
}

// A plan that divides operators is scored with these operators.
func TestScoreKeepsOperators(t *testing.T) {
	tasks, opt := comparison(t)
	opt.Prices, opt.Methods = neuroshard.Pretrained(), []search.Method{search.Dim}
	records, err := Run(context.Background(), tasks[:1], opt)
	if err != nil {
		t.Fatal(err)
	}
	divided := records[0]
	divided.Plan = append([]Placed(nil), divided.Plan...)
	// One of the several tables of a device gets an operator of its own.
	device := slices.IndexFunc(divided.Devices, func(d Device) bool { return d.Shards > 1 })
	first := slices.IndexFunc(divided.Plan, func(s Placed) bool { return s.Device == device })
	divided.Plan[first].Operator = 1
	scored, err := Score(context.Background(), tasks[:1], GivenResults(NewResults([]Record{divided}, opt)), opt)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(divided.Plan, scored[0].Plan); diff != "" {
		t.Errorf("the plan (-given +scored):\n%s", diff)
	}
	if got := scored[0].Devices[device].ComputeMS; got == records[0].Devices[device].ComputeMS {
		t.Errorf("device %d: got the time %v ms of operators that are not divided", device, got)
	}
}

// The prototype's plans cost what it says, under our names of its methods; what
// it marks as not valid stays so.
func TestScorePrototypeResults(t *testing.T) {
	prices := nets(t, ".pt")
	names := map[string]search.Method{
		"neuroshard": search.Paper, "size_greedy": search.Size, "dim_greedy": search.Dim, "lookup_greedy": search.Lookup,
		"size_lookup_greedy": search.SizeLookup, "random": search.Random,
	}
	for _, setting := range []string{"d4_m16", "d4_m64"} {
		tasks := suite(t, setting, 4, 30)
		var given []Given
		var saved []prototype.Result
		for theirs := range names {
			file := setting + "_" + theirs + ".json.gz"
			results, err := prototype.ReadResults(file, open(t, "results", file))
			if err != nil {
				t.Fatal(err)
			}
			given, saved = append(given, GivenPrototype("elsewhere", results)...), append(saved, results...)
		}
		records, err := Score(context.Background(), tasks, given, Options{Prices: prices})
		if err != nil {
			t.Fatal(err)
		}
		if len(records) != 180 {
			t.Fatalf("%s: got %d records, want 180", setting, len(records))
		}
		for i, r := range records {
			if r.Valid != saved[i].Valid || r.Method != names[saved[i].Method] {
				t.Errorf("%s: record %d by %s: got valid %v, want %v by %s", setting, i, r.Method, r.Valid, saved[i].Valid, saved[i].Method)
			} else if r.Valid && math.Abs(*r.CostMS / *saved[i].Cost - 1) > 1e-4 {
				t.Errorf("%s: task %s by %s: got %v ms, want %v", setting, r.Task, r.Method, *r.CostMS, *saved[i].Cost)
			}
		}
	}
}

func TestGivenPrototypeNames(t *testing.T) {
	given := GivenPrototype("here", []prototype.Result{{Task: 3, Method: "size_greedy"}, {Task: 4, Method: "own", Setting: "there"}})
	if given[0].Task != "here/3" || given[0].Method != search.Size || given[1].Task != "there/4" || given[1].Method != "own" {
		t.Errorf("got %s by %s and %s by %s, want here/3 by size and there/4 by own", given[0].Task, given[0].Method, given[1].Task, given[1].Method)
	}
}

func TestScoreRefuses(t *testing.T) {
	tasks, opt := comparison(t)
	tasks, opt.Methods = tasks[:1], []search.Method{search.Dim}
	sound, err := Run(context.Background(), tasks, opt)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(r *Record) []Record
		want   string
	}{
		{"another task", func(r *Record) []Record { r.Task = "d4_m64/7"; return nil }, `task "d4_m64/7", which is not among the 1 tasks`},
		{"two by one method", func(r *Record) []Record { return []Record{*r} }, `task "d4_m64/0" has two plans by method "dim"`},
		{"another table", func(r *Record) []Record { r.Plan[2].Table = "none"; return nil }, `table "none", which the task does not have`},
		{"device 4", func(r *Record) []Record { r.Plan[2].Device = 4; return nil }, "on device 4 of 4"},
		{"device -1", func(r *Record) []Record { r.Plan[2].Device = -1; return nil }, "on device -1 of 4"},
		{"operator 3", func(r *Record) []Record { r.Plan[2].Operator = 3; return nil }, "in operator 3: operators have numbers below 3"},
		{"columns before the first", func(r *Record) []Record { r.Plan[2].Columns[0] = -4; return nil }, "columns -4 to"},
		{"columns behind the last", func(r *Record) []Record { r.Plan[2].Columns[1] += 4; return nil }, "which has"},
		{"no columns", func(r *Record) []Record { r.Plan[2].Columns[1] = 0; return nil }, "columns 0 to 0"},
		{"turned round", func(r *Record) []Record { r.Plan[2].Columns = [2]int64{8, 4}; return nil }, "columns 8 to 4"},
		{"huge", func(r *Record) []Record { r.Plan[2].Columns = [2]int64{math.MinInt64, math.MaxInt64}; return nil }, "which has"},
		{"a table missing", func(r *Record) []Record { r.Plan = r.Plan[1:]; return nil }, "task d4_m64/0, method dim: "},
		{"a table twice", func(r *Record) []Record { r.Plan = append(r.Plan, r.Plan[0]); return nil }, "task d4_m64/0, method dim: "},
		{"no table", func(r *Record) []Record { r.Plan = nil; return nil }, "task d4_m64/0, method dim: "},
		{"overlapping columns", func(r *Record) []Record {
			half := r.Plan[0]
			half.Columns[1] -= 4
			half.Device = 3 - half.Device
			r.Plan = append(r.Plan, half)
			return nil
		}, "task d4_m64/0, method dim: "},
	} {
		r := sound[0]
		r.Plan = append([]Placed(nil), r.Plan...)
		more := c.change(&r)
		given := GivenResults(&Results{Records: append([]Record{r}, more...)})
		if records, err := Score(context.Background(), tasks, given, opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %d records and error %v, want an error with %q", c.name, len(records), err, c.want)
		}
	}
	small := tasks[0]
	small.Problem.Topology.Memory = unit.Bytes(sound[0].Devices[0].Bytes) - 1
	if _, err := Score(context.Background(), []Task{small}, GivenResults(&Results{Records: sound}), opt); err == nil || !strings.Contains(err.Error(), "task d4_m64/0, method dim: ") {
		t.Errorf("a byte too large for device 0: got error %v, want one of the plan", err)
	}
	theirs := prototype.Result{Setting: "d4_m64", Method: "x", Valid: true, Shards: make([][]int, 5)}
	if _, err := Score(context.Background(), tasks, GivenPrototype("", []prototype.Result{theirs}), opt); err == nil || !strings.Contains(err.Error(), "5 devices, want 4") {
		t.Errorf("the prototype's plan on 5 devices: got error %v, want one of the devices", err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if records, err := Score(ended, tasks, GivenResults(&Results{Records: sound}), opt); !errors.Is(err, context.Canceled) || len(records) != 0 {
		t.Errorf("cancelled: got %d records and error %v, want none and %v", len(records), err, context.Canceled)
	}
	none := Given{Task: tasks[0].Name, Method: "none", Place: func(*problem.Problem) ([][]problem.Shard, error) { return nil, nil }}
	if records, err := Score(context.Background(), tasks, []Given{none}, opt); err != nil || len(records) != 1 || records[0].Valid || records[0].CostMS != nil {
		t.Errorf("no plan: got %+v and error %v, want a record that is not valid", records, err)
	}
}
