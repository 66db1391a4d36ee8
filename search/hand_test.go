package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// additive is a cost model that can be computed by hand. A slice costs its table's
// pooling factor times its width; a plan costs the sum of its most expensive device plus
// a tenth of its largest dim sum, all in ms.
type additive struct {
	p          *problem.Problem
	items      *[]member
	time, dims []float64
	held       []int
}

func additiveFactory(p *problem.Problem) Factory {
	items := new([]member)
	return func() Scorer {
		n := p.Topology.Devices
		return &additive{p, items, make([]float64, n), make([]float64, n), make([]int, n)}
	}
}

func (a *additive) Item(table, width int, form problem.Form) int {
	if form != (problem.Form{}) {
		panic("search: additive estimates slices of columns in HBM only")
	}
	for i, s := range *a.items {
		if s == (member{table: table, width: width}) {
			return i
		}
	}
	*a.items = append(*a.items, member{table: table, width: width})
	return len(*a.items) - 1
}

func (a *additive) Shared() float64 { return 0 }

func (a *additive) Reset() { clear(a.time); clear(a.dims); clear(a.held) }

func (a *additive) price(item int) (time, dims float64) {
	s := (*a.items)[item]
	return a.p.Tables[s.table].PoolingFactor() * float64(s.width), float64(s.width)
}

func (a *additive) shift(device, item int, sign float64) {
	time, dims := a.price(item)
	a.time[device] += sign * time
	a.dims[device] += sign * dims
}

func (a *additive) Add(device, item int)       { a.shift(device, item, 1) }
func (a *additive) Remove(device, item int)    { a.shift(device, item, -1) }
func (a *additive) Compute(device int) float64 { return a.time[device] }

func (a *additive) ComputeWith(item int, devices []int32, out []float64) {
	time, _ := a.price(item)
	for i, d := range devices {
		out[i] = a.time[d] + time
	}
}

func (a *additive) Cost() float64 {
	time, dims := 0.0, 0.0
	for d := range a.time {
		time, dims = max(time, a.time[d]), max(dims, a.dims[d])
	}
	return time + dims/10
}

// table is a table of the hand-made problems: fp32, SGD, one feature.
type table struct {
	rows    int64
	dim     int
	pooling float64
}

func handMade(memory unit.Bytes, devices int, tables ...table) *problem.Problem {
	p := &problem.Problem{
		Batch:      1,
		Accounting: problem.CountWeights,
		Topology:   hardware.Topology{Profile: hardware.Profiles()[0], Devices: devices, Memory: memory, ReserveShare: hardware.NoReserve},
	}
	for i, t := range tables {
		p.Tables = append(p.Tables, problem.Table{
			Name: string(rune('A' + i)), Rows: t.rows, Dim: t.dim,
			Features: []problem.Feature{{PoolingFactor: t.pooling}},
		})
	}
	return p
}

// listing writes a result as a line a device: "A0-16 C0-8".
func listing(p *problem.Problem, r Result) []string {
	lines := make([]string, len(r.Shards))
	for d, shards := range r.Shards {
		var words []string
		for _, s := range shards {
			words = append(words, fmt.Sprintf("%s%d-%d", p.Tables[s.Table].Name, s.Columns.Start, s.Columns.End))
		}
		lines[d] = strings.Join(words, " ")
	}
	return lines
}

func TestPaperByHand(t *testing.T) {
	for _, c := range []struct {
		name           string
		p              *problem.Problem
		steps          int
		want           []string
		cost           float64
		states, levels int
	}{
		{
			// Unsplit: mean dim sum 24, so A (32 columns) fits from threshold 1.35
			// on, and the plan costs 32 + 3.2. In step 1, A, B and C are candidates.
			// With A in halves, the order is A", A', C, B (among equals the highest
			// index first; A" comes last), C joins A" on device 0 (all equal, lowest
			// number), B the other: 24 + 2.4 at any threshold.
			name: "one split", p: handMade(unit.GiB, 2, table{10, 32, 1}, table{10, 8, 1}, table{10, 8, 1}), steps: 1,
			want: []string{"A0-16 C0-8", "A16-32 B0-8"}, cost: 26.4, states: 4, levels: 1,
		},
		{
			// Mean dim sum 38: no threshold lets A in unsplit, so the start is worth
			// +Inf. A is the only one that can be split, and 32 + 4 + 4 against 32 + 4
			// is 40 + 4.0: capped at 1.1 * 38 = 41.8.
			name: "cap forbids the start", p: handMade(unit.GiB, 2, table{10, 64, 1}, table{10, 4, 1}, table{10, 4, 1}, table{10, 4, 1}), steps: 1,
			want: []string{"A0-32 B0-4 D0-4", "A32-64 C0-4"}, cost: 44, states: 2, levels: 1,
		},
		{
			// 12 columns have no exact halves of a multiple of 4, nor have 4: the
			// search ends at once though steps remain.
			name: "nothing to split", p: handMade(unit.GiB, 2, table{10, 12, 1}, table{10, 12, 2}), steps: 5,
			want: []string{"B0-12", "A0-12"}, cost: 25.2, states: 1, levels: 0,
		},
		{
			// A device holds 2,000 bytes: A takes 40 * 16 * 4 = 2,560 and must be
			// split whatever the method; the halves of 1,280 do not share a device.
			// Step 1 tries either half.
			name: "forced split", p: handMade(2000, 2, table{40, 16, 1}, table{10, 4, 1}), steps: 1,
			want: []string{"A0-8 B0-4", "A8-16"}, cost: 13.2, states: 3, levels: 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := must.Get(Run(context.Background(), c.p, additiveFactory(c.p), Options{Method: Paper, Steps: c.steps}))(t)
			if diff := cmp.Diff(c.want, listing(c.p, r)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if math.Abs(r.Cost-c.cost) > 1e-9 {
				t.Errorf("cost: got %v, want %v", r.Cost, c.cost)
			}
			if r.Stats.States != c.states || r.Stats.Levels != c.levels {
				t.Errorf("got %d states in %d levels, want %d in %d", r.Stats.States, r.Stats.Levels, c.states, c.levels)
			}
		})
	}
}

func TestBaselinesByHand(t *testing.T) {
	// Keys:           size (rows*dim)  dim  dim*pooling  and times log10 rows
	// A 1000 16 2     16000            16   32           96
	// B 10000 8 5     80000            8    40           160
	// C 10 32 0.5     320              32   16           16
	// D 100 8 8       800              8    64           128
	p := handMade(unit.GiB, 2, table{1000, 16, 2}, table{10000, 8, 5}, table{10, 32, 0.5}, table{100, 8, 8})
	for m, want := range map[Method][]string{
		Size:       {"B0-8", "A0-16 C0-32 D0-8"},
		Dim:        {"C0-32", "A0-16 B0-8 D0-8"},
		Lookup:     {"C0-32 D0-8", "A0-16 B0-8"},
		SizeLookup: {"B0-8 C0-32", "A0-16 D0-8"},
	} {
		r, err := Run(context.Background(), p, additiveFactory(p), Options{Method: m})
		if err != nil {
			t.Errorf("%s: %v", m, err)
			continue
		}
		if diff := cmp.Diff(want, listing(p, r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", m, diff)
		}
	}
}

func TestHugeCTRByHand(t *testing.T) {
	cases := []struct {
		name   string
		memory unit.Bytes
		tables []table
		want   []string
	}{
		{
			// In lookups of 128 columns, a shard costs its lookups and 2.25. Whole tables: A alone
			// 22.25. A cut: 10+2.25+2+2.25 = 16.5 and 10+2.25+1+2.25. B cut, too: 18.75 and 15.5.
			// All cut: 18.25. A is cut.
			"the hottest table is cut", unit.GiB,
			[]table{{10, 128, 20}, {10, 128, 2}, {10, 128, 1}},
			[]string{"A0-64 B0-128", "A64-128 C0-128"},
		},
		{
			// Cut or not, the vectors cost more than the lookups: whole tables, 5.5 and 3.25.
			"shards cost too much", unit.GiB,
			[]table{{10, 128, 3}, {10, 128, 1}},
			[]string{"A0-128", "B0-128"},
		},
		{
			// A table of 64 columns costs half of that. B: 12.25, A and C: (8+2.25)/2 + (6+2.25)/2.
			"columns count", unit.GiB,
			[]table{{10, 64, 8}, {10, 128, 10}, {10, 64, 6}},
			[]string{"B0-128", "A0-64 C0-64"},
		},
		{
			// Each table takes 5,984 bytes of 10,000: C finds no room until it is cut. Then A is
			// cut, and the second half of C has no room beside the first one.
			"no room", 10_000,
			[]table{{187, 8, 3}, {187, 8, 2}, {187, 8, 1}},
			[]string{"A0-8 C0-4", "B0-8 C4-8"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := handMade(c.memory, 2, c.tables...)
			r := must.Get(Run(context.Background(), p, additiveFactory(p), Options{Method: HugeCTR}))(t)
			if diff := cmp.Diff(c.want, listing(p, r)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// A time that ends before the first complete plan is the error, and not that a table finds no room:
// three tables of 5,984 bytes need a second round on two devices of 10,000, and a drawn rollout may
// find the room that the greedy one does not.
func TestCutShortWithoutPlan(t *testing.T) {
	p := handMade(10_000, 2, table{187, 8, 3}, table{187, 8, 2}, table{187, 8, 1})
	for _, opt := range []Options{{Method: HugeCTR}, {Method: DreamShard, Policy: lastDevice{}, Samples: 3}} {
		for budget, want := range map[time.Duration]error{0: context.Canceled, 1: ErrOutOfTime} {
			ctx, cancel := context.WithCancel(context.Background())
			opt.Budget, opt.Clock = budget, looks()
			_, err := Run(ctx, p, func() Scorer {
				if budget == 0 {
					cancel() // the run has begun
				}
				return additiveFactory(p)()
			}, opt)
			cancel()
			if !errors.Is(err, want) || budget > 0 && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("method %s, budget %v: got error %v, want %v", opt.Method, budget, err, want)
			}
		}
	}
	// A greedy rollout is all of its method: its error stays.
	var infeasible *Infeasible
	if _, err := Run(context.Background(), p, additiveFactory(p), Options{Method: DreamShard, Policy: lastDevice{}, Budget: 1, Clock: looks()}); !errors.As(err, &infeasible) {
		t.Errorf("one rollout: got error %v, want an *Infeasible", err)
	}
}

// lastDevice is a policy of method DreamShard that takes the last device with room.
type lastDevice struct{}

func (lastDevice) Method() string { return string(DreamShard) }

func (lastDevice) Begin(_ *problem.Problem, pieces [][]problem.Shard, _ *rand.Rand) ([]int32, func(int32, []int32) int32) {
	return inOrder(len(pieces)), func(_ int32, room []int32) int32 { return room[len(room)-1] }
}

func TestBaselineDoesNotRepair(t *testing.T) {
	// By dim, A and B (wide, small) come first and part, then C (4,000 bytes)
	// finds 3,360 free on each: placing it first would do.
	p := handMade(4000, 2, table{10, 16, 1}, table{10, 16, 1}, table{250, 4, 1})
	_, err := Run(context.Background(), p, additiveFactory(p), Options{Method: Dim})
	var infeasible *Infeasible
	if !errors.As(err, &infeasible) {
		t.Fatalf("got error %v, want an *Infeasible", err)
	}
	want := Infeasible{
		Method: Dim, Table: "C", Width: 4, Device: 0, Need: 4000, Have: 3360, Missing: 640, DevicesNeeded: 2,
		Reason: `method "dim" finds no room for it, but method "neuroshard" does`,
	}
	if diff := cmp.Diff(want, *infeasible); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	r, err := Run(context.Background(), p, additiveFactory(p), Options{})
	if err != nil {
		t.Fatalf("method %q: %v", Default, err)
	}
	if len(r.Shards[0])+len(r.Shards[1]) < 3 {
		t.Errorf("got %v, want all three tables placed", listing(p, r))
	}
}

func TestPaperFailsByItsCap(t *testing.T) {
	// As "cap forbids the start" above, but A must stay whole: the paper's search
	// finds nothing, ours goes without a cap.
	p := handMade(unit.GiB, 2, table{10, 4, 1}, table{10, 64, 1}, table{10, 4, 1}, table{10, 4, 1})
	p.Tables[1].Constraint.NoSplit = true
	_, err := Run(context.Background(), p, additiveFactory(p), Options{Method: Paper})
	want := `table "B": no device takes a slice of 64 columns, although it takes only 2.50 KiB and device 0 has 1.00 GiB free; method "paper" finds no room for it, but method "neuroshard" does`
	if err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
	r := must.Get(Run(context.Background(), p, additiveFactory(p), Options{}))(t)
	if diff := cmp.Diff([]string{"B0-64", "A0-4 C0-4 D0-4"}, listing(p, r)); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestInfeasibleSaysWhy(t *testing.T) {
	pinned := func(p *problem.Problem, devices ...int) *problem.Problem {
		for i := range p.Tables {
			p.Tables[i].Constraint.Devices = devices
		}
		return p
	}
	whole := func(p *problem.Problem) *problem.Problem {
		p.Tables[0].Constraint.NoSplit = true
		return p
	}
	together := func(p *problem.Problem) *problem.Problem {
		for i := range p.Tables {
			p.Tables[i].Constraint.Colocation = "all"
		}
		return p
	}
	for _, c := range []struct {
		name    string
		p       *problem.Problem
		table   string
		width   int
		missing unit.Bytes
		devices int
	}{
		{
			"more devices", handMade(4096, 2, table{256, 4, 1}, table{256, 4, 1}, table{256, 4, 1}), "C", 4, 4096, 3,
		},
		{
			"splits spread over more devices", handMade(4096, 2, table{256, 64, 1}), "A", 4, 4096, 16,
		},
		{
			"the narrowest slice", handMade(unit.GiB, 2, table{1 << 30, 64, 1}), "A", 4, 15 * unit.GiB, 0,
		},
		{
			"not to be split", whole(handMade(unit.GiB, 2, table{1 << 24, 64, 1})), "A", 64, 3 * unit.GiB, 0,
		},
		{
			"a co-location", together(handMade(unit.GiB, 2, table{1 << 24, 16, 1}, table{1 << 24, 32, 1})), "A", 16, 2 * unit.GiB, 0,
		},
		{
			"pins", pinned(handMade(4096, 4, table{256, 4, 1}, table{256, 4, 1}), 2), "B", 4, 4096, 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			must.Do(t, c.p.Validate())
			_, err := Run(context.Background(), c.p, additiveFactory(c.p), Options{})
			var e *Infeasible
			if !errors.As(err, &e) {
				t.Fatalf("got error %v, want an *Infeasible", err)
			}
			if e.Table != c.table || e.Width != c.width || e.Missing != c.missing || e.DevicesNeeded != c.devices {
				t.Errorf("got table %q, width %d, missing %d, devices %d, want %q, %d, %d, %d",
					e.Table, e.Width, e.Missing, e.DevicesNeeded, c.table, c.width, c.missing, c.devices)
			}
			if n := DevicesNeeded(c.p); n != c.devices {
				t.Errorf("DevicesNeeded: got %d, want %d", n, c.devices)
			}
		})
	}
}

func TestBudgetLimitsWork(t *testing.T) {
	var tables []table
	for i := range 60 {
		tables = append(tables, table{100, 64, 1 + float64(i%17)})
	}
	p := handMade(unit.GiB, 8, tables...)
	const limit = 200_000
	r, err := Run(context.Background(), p, additiveFactory(p), Options{MaxEvaluations: limit})
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != OutOfBudget || r.Stats.Evaluations > 2*limit {
		t.Errorf("got status %q after %d evaluations, want %q and about %d", r.Status, r.Stats.Evaluations, OutOfBudget, limit)
	}
	one, err := Run(context.Background(), p, additiveFactory(p), Options{MaxEvaluations: 1})
	if err != nil || one.Status != OutOfBudget {
		t.Errorf("got status %q, error %v with a budget of 1, want %q and a plan", one.Status, err, OutOfBudget)
	}
}

func TestOptionsRefused(t *testing.T) {
	p := handMade(unit.GiB, 1, table{10, 4, 1})
	for _, c := range []struct {
		opt  Options
		want string
	}{
		{Options{Method: "best"}, `search method "best" is unknown`},
		{Options{Method: Paper, Beam: -1}, "beam: -1 is negative"},
		{Options{Candidates: 10}, `candidates: method "neuroshard" runs no beam search, only method "paper" does`},
		{Options{Method: Size, Grid: 1}, `grid: method "size" runs no beam search, only method "paper" does`},
		{Options{Workers: -2}, "workers: -2 is negative"},
		{Options{MaxEvaluations: -3}, "max evaluations: -3 is negative"},
	} {
		if _, err := Run(context.Background(), p, additiveFactory(p), c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("options %+v: got error %v, want it to say %q", c.opt, err, c.want)
		}
	}
}
