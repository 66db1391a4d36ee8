package search

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// drawHandMade draws a small problem with constraints whose devices are not large.
func drawHandMade(t *rapid.T) *problem.Problem {
	devices := rapid.IntRange(2, 5).Draw(t, "devices")
	var tables []table
	bytes := 0.0
	for range rapid.IntRange(1, 12).Draw(t, "tables") {
		one := table{rapid.Int64Range(1, 1000).Draw(t, "rows"), 4 * rapid.IntRange(1, 12).Draw(t, "dim/4"), float64(rapid.IntRange(0, 9).Draw(t, "pooling"))}
		tables = append(tables, one)
		bytes += 4 * float64(one.rows) * float64(one.dim)
	}
	slack := rapid.SampledFrom([]float64{1.05, 1.3, 2, 10}).Draw(t, "slack")
	p := handMade(unit.Bytes(math.Ceil(slack*bytes/float64(devices))), devices, tables...)
	for i := range p.Tables {
		c := &p.Tables[i].Constraint
		switch rapid.IntRange(0, 9).Draw(t, "constraint") {
		case 0:
			c.NoSplit = true
		case 1:
			c.Colocation = "g"
		case 2:
			c.Devices = rapid.SliceOfNDistinct(rapid.IntRange(0, devices-1), 1, 3, rapid.ID[int]).Draw(t, "allowed")
		case 3:
			c.MinWidth = min(p.Tables[i].Dim, 8)
		}
	}
	return p
}

// Whatever changes are tried, taken and taken back: the lists say what the scorer
// holds, every table is there once, and what is on a device fits and may be there.
func TestRefinementKeepsItsBooks(t *testing.T) {
	changed := 0
	rapid.Check(t, func(t *rapid.T) {
		p := drawHandMade(t)
		s, first := firstFitted(t, p)
		if s == nil {
			return
		}
		r := newAnnealer(s.catalog, s.scorer(), s.opt.Seed, s.forms)
		r.reset(first.parts)
		best, early := r.anneal(int64(rapid.IntRange(1, 3000).Draw(t, "evaluations")), func() bool { return false })
		if early {
			t.Fatal("the run was ended, and nobody ended it")
		}
		checkBooks(t, r.layout)
		if best == nil {
			return
		}
		changed++
		if cost := checkParts(t, s.catalog, best).Cost(); cost > first.cost*(1+1e-9) || math.Abs(cost-r.best) > 1e-9*cost {
			t.Fatalf("best: got cost %v, want the least cost of the run, %v, and at most the first cost, %v", cost, r.best, first.cost)
		}
	})
	if changed == 0 && !testing.Short() { // 20 draws may contain no such layout, 100 draws contain one
		t.Error("no annealing found a cheaper placement")
	}
}

// A shape's placement keeps the books, too, and what it says of widths and rows
// wherever the tables leave room for that.
func TestShapesKeepTheBooks(t *testing.T) {
	built := 0
	rapid.Check(t, func(t *rapid.T) {
		p := drawHandMade(t)
		s, first := firstFitted(t, p)
		if s == nil {
			return
		}
		r := newLayout(s.catalog, s.scorer(), s.forms)
		r.reset(first.parts)
		b := newBuilder(r, r.c.whole(), nil, slices.Max(r.compute))
		shape := rapid.SampledFrom(shapes()).Draw(t, "shape")
		if !b.build(shape) {
			return
		}
		built++
		checkParts(t, s.catalog, r.all())
		r.begin()
		checkBooks(t, r)
		rows := make([]int64, len(r.held))
		for k, slots := range b.slots {
			for _, slot := range slots {
				rows[r.parts[slot].device] += s.catalog.rows(k)
			}
		}
		if !slices.Equal(rows, b.rows) {
			t.Fatalf("rows: got %v, want %v", b.rows, rows)
		}
	})
	if built == 0 && !testing.Short() {
		t.Error("no shape was built")
	}
}

func TestShapesSetWidthsAndRows(t *testing.T) {
	// Four wide and four narrow tables of few rows, four narrow ones of many.
	var tables []table
	for range 4 {
		tables = append(tables, table{1000, 128, 2}, table{1000, 32, 2}, table{6_000_000, 32, 1})
	}
	p := handMade(100*unit.GiB, 4, tables...)
	s := newRun(context.Background(), p, additiveFactory(p), Options{Method: NeuroShard, Workers: 1})
	first := s.offer(placement{}, pair(s.catalog.whole(), []int32{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}))
	r := newLayout(s.catalog, s.scorer(), s.forms)
	r.reset(first.parts)
	b := newBuilder(r, r.c.whole(), nil, slices.Max(r.compute))
	if !b.build(shape{quarters: [6]int{1, 2, 1, 0, 0, 0}}) {
		t.Fatal("the shape was not built")
	}
	if want := []limit{{5, true}, {5, false}, {5, false}, {6, true}}; !slices.Equal(b.limits, want) {
		t.Fatalf("got limits %v, want %v", b.limits, want)
	}
	for d, slots := range r.held {
		widest := 0
		for _, slot := range slots {
			widest = max(widest, r.width(slot))
		}
		if most := map[uint8]int{5: 32, 6: 64}[b.limits[d].class]; widest > most || widest == 0 {
			t.Errorf("device %d: got a slice of %d columns, want some, of at most %d", d, widest, most)
		}
		if b.limits[d].few && b.rows[d] > fewRows {
			t.Errorf("device %d: got %d rows, want at most %d", d, b.rows[d], fewRows)
		}
	}
}

// firstFitted returns a run for the problem and first fit's placement, nil where there
// is none.
func firstFitted(t *rapid.T, p *problem.Problem) (*run, placement) {
	if p.Validate() != nil {
		return nil, placement{}
	}
	s := newRun(context.Background(), p, additiveFactory(p), Options{Method: NeuroShard, Workers: 1, Seed: rapid.Uint64().Draw(t, "seed")})
	pieces, failed := forced(s.catalog)
	devices, lacks := firstFit(s.catalog, pieces)
	if failed != none || lacks != none {
		return nil, placement{}
	}
	return s, s.offer(placement{}, pair(pieces, devices))
}

// checkParts fails where parts are not a valid placement, and returns a fresh scorer
// that holds them.
func checkParts(t *rapid.T, c *catalog, parts []placed) Scorer {
	p := c.problem
	widths := make([]int, len(p.Tables))
	bytes := make([]int64, len(c.all))
	fresh := additiveFactory(p)()
	for _, placed := range parts {
		piece := &c.pieces[placed.piece]
		bytes[placed.device] += piece.bytes
		if piece.devices != nil && !slices.Contains(piece.devices, placed.device) {
			t.Fatalf("piece %d is on device %d, want one of %v", placed.piece, placed.device, piece.devices)
		}
		for _, m := range piece.members {
			widths[m.table] += m.width
			if m.width != p.Tables[m.table].Dim && m.width < p.Tables[m.table].MinWidth() {
				t.Fatalf("a slice of table %d is %d wide, the least is %d", m.table, m.width, p.Tables[m.table].MinWidth())
			}
			fresh.Add(int(placed.device), fresh.Item(m.table, m.width, problem.Form{}))
		}
	}
	for i, w := range widths {
		if w != p.Tables[i].Dim {
			t.Fatalf("table %d has %d columns placed of %d", i, w, p.Tables[i].Dim)
		}
	}
	if most := slices.Max(bytes); most > c.budget {
		t.Fatalf("a device holds %d bytes of %d", most, c.budget)
	}
	return fresh
}

// checkBooks fails if the layout's sums, bytes or lists do not match its parts.
func checkBooks(t *rapid.T, r *layout) {
	fresh := checkParts(t, r.c, r.all())
	bytes, dims := make([]int64, len(r.held)), make([]int64, len(r.held))
	for _, p := range r.all() {
		bytes[p.device] += r.c.pieces[p.piece].bytes
		dims[p.device] += r.c.pieces[p.piece].dims
	}
	if !slices.Equal(bytes, r.own) || !slices.Equal(dims, r.dims) {
		t.Fatalf("got bytes %v and columns %v, want %v and %v", r.own, r.dims, bytes, dims)
	}
	if got, want := r.scorer.Cost(), fresh.Cost(); math.Abs(got-want) > 1e-9*want {
		t.Fatalf("cost: got %v, want %v, the cost of the placement built anew", got, want)
	}
	var want softSums
	for d := range r.compute {
		compute := fresh.Compute(d)
		if math.Abs(r.compute[d]-compute) > 1e-9*(1+compute) {
			t.Fatalf("compute of device %d: got %v, want %v", d, r.compute[d], compute)
		}
		want.computeSum += compute
		want.computePower += math.Pow(compute/r.computeScale, 32)
		want.dimPower += math.Pow(float64(dims[d])/r.dimScale, 32)
	}
	for name, pair := range map[string][2]float64{
		"sum": {r.computeSum, want.computeSum}, "power of computes": {r.computePower, want.computePower}, "power of columns": {r.dimPower, want.dimPower},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-6*(1+pair[1]) {
			t.Fatalf("%s: got %v, want %v", name, pair[0], pair[1])
		}
	}
	if longest := slices.Max(r.compute); r.compute[r.slowest] != longest {
		t.Fatalf("got device %d with compute %v as the slowest, want one with %v", r.slowest, r.compute[r.slowest], longest)
	}
}

// Two tables of 32 columns and three devices: even shares need unequal splits, which
// halving cannot make.
func TestRefinementSplitsUnequally(t *testing.T) {
	p := handMade(unit.GiB, 3, table{10, 36, 1}, table{10, 36, 1})
	s := newRun(context.Background(), p, additiveFactory(p), Options{Method: NeuroShard, Workers: 1})
	c := s.catalog
	best := annealed(t, s, s.offer(placement{}, pair(c.whole(), []int32{0, 1})))
	if want := 24 * 1.1; best.cost > want*(1+1e-9) {
		t.Errorf("got cost %v, want %v: 24 columns on each device", best.cost, want)
	}
}

func TestRefinementMerges(t *testing.T) {
	// A device that holds the whole of A, and one the whole of B, is best; they begin
	// in pieces everywhere. Slices cost a launch each here.
	p := handMade(unit.GiB, 2, table{10, 64, 1}, table{10, 64, 1})
	factory := func() Scorer { return &launches{additiveFactory(p)().(*additive)} }
	s := newRun(context.Background(), p, factory, Options{Method: NeuroShard, Workers: 1})
	c := s.catalog
	entries := c.halved(c.whole(), func(k int32) bool { return c.pieces[k].class > 4 })
	devices := make([]int32, len(entries))
	for i := range devices {
		devices[i] = int32(i % 2)
	}
	best := annealed(t, s, s.offer(placement{}, pair(entries, devices)))
	if got := len(best.parts); got != 2 {
		t.Errorf("got %d slices, want the two tables", got)
	}
}

// annealed returns the best placement after the race.
func annealed(t *testing.T, r *run, best placement) placement {
	t.Helper()
	return race(r, state{best: best})
}

// launches is additive with 5 ms for each slice.
type launches struct{ *additive }

func (l *launches) Add(device, item int)    { l.additive.Add(device, item); l.time[device] += 5 }
func (l *launches) Remove(device, item int) { l.additive.Remove(device, item); l.time[device] -= 5 }
func (l *launches) ComputeWith(item int, devices []int32, out []float64) {
	l.additive.ComputeWith(item, devices, out)
	for i := range out {
		out[i] += 5
	}
}

func TestBudgetOfTime(t *testing.T) {
	var tables []table
	for i := range 60 {
		tables = append(tables, table{100, 64, 1 + float64(i%17)})
	}
	p := handMade(unit.GiB, 8, tables...)
	whole, err := Run(context.Background(), p, additiveFactory(p), Options{})
	if err != nil || whole.Status != Complete {
		t.Fatalf("got status %q, error %v", whole.Status, err)
	}
	// A search with a budget goes on until the budget has passed.
	r, err := Run(context.Background(), p, additiveFactory(p), Options{Budget: 700 * time.Millisecond})
	if err != nil || r.Status != OutOfTime {
		t.Errorf("got status %q, error %v, want %q", r.Status, err, OutOfTime)
	}
	if r.Stats.Evaluations > whole.Stats.Evaluations && r.Cost > whole.Cost {
		t.Errorf("got cost %v with more work, want at most %v", r.Cost, whole.Cost)
	}
	// A context that ends is another thing than the budget.
	ctx, cancel := context.WithCancel(context.Background())
	interrupted, err := Run(ctx, p, additiveFactory(p), Options{Budget: time.Hour, OnEvent: func(e Event) {
		if e.Phase == "anneal" {
			cancel()
		}
	}})
	cancel()
	if err != nil || interrupted.Status != Interrupted {
		t.Errorf("got status %q, error %v, want %q", interrupted.Status, err, Interrupted)
	}
	// Before there is a placement, the budget still leaves the first one.
	if r, err := Run(context.Background(), p, additiveFactory(p), Options{Budget: time.Nanosecond}); err != nil || r.Status != OutOfTime {
		t.Errorf("a nanosecond: got status %q, error %v, want a plan and %q", r.Status, err, OutOfTime)
	}
}

// Work that is allowed is used, and no more.
func TestBudgetOfRefinement(t *testing.T) {
	var tables []table
	for i := range 20 {
		tables = append(tables, table{100, 32, 1 + float64(i%7)})
	}
	p := handMade(unit.GiB, 4, tables...)
	const limit = 2_000_000
	r, err := Run(context.Background(), p, additiveFactory(p), Options{MaxEvaluations: limit})
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != OutOfBudget || r.Stats.Evaluations < limit || r.Stats.Evaluations > limit+limit/100 {
		t.Errorf("got status %q after %d evaluations, want %q after %d", r.Status, r.Stats.Evaluations, OutOfBudget, limit)
	}
}

// Problems of any size are counted before they are tried. On one device, tables that may
// not be split have one placement, and other tables have one for each cut.
func TestExactLeavesLargeProblems(t *testing.T) {
	for _, devices := range []int{1, 4, 1024} {
		for _, whole := range []bool{false, true} {
			var tables []table
			for i := range 400 {
				tables = append(tables, table{100, 256, 1 + float64(i%17)})
			}
			p := handMade(unit.GiB, devices, tables...)
			for i := range p.Tables {
				p.Tables[i].Constraint.NoSplit = whole
			}
			s := newRun(context.Background(), p, additiveFactory(p), Options{Method: NeuroShard, Workers: 1})
			var after state
			tryAll(s, &after)
			if want := devices == 1 && whole; after.complete != want {
				t.Errorf("%d devices, whole tables: %v: got complete %v, want %v", devices, whole, after.complete, want)
			}
			if tried := after.best.parts != nil; tried != (devices == 1) {
				t.Errorf("%d devices, whole tables: %v: got a placement: %v, want one on one device", devices, whole, tried)
			}
		}
	}
}

// A run finds a placement that no change which fits leads to: two devices are full, and two tables of each must change
// places. The price of bytes beyond HBM must not stay behind, and the result must fit.
func TestRunsPassFullDevices(t *testing.T) {
	const rowBytes = 16
	p := handMade(20_000*rowBytes, 2, table{7000, 4, 8}, table{3000, 4, 2}, table{5000, 4, 5}, table{5000, 4, 5}, table{6000, 4, 2}, table{4000, 4, 2}, table{8000, 4, 2}, table{2000, 4, 2})
	r := newRun(context.Background(), p, additiveFactory(p), Options{Method: NeuroShard, Workers: 1})
	var parts []placed
	for i, k := range r.catalog.whole() {
		parts = append(parts, placed{k, int32(i / 4)})
	}
	best := r.offer(placement{}, parts)
	c := &course{r: r, best: best, forms: r.forms}
	racers := []racer{{placement: best}}
	c.anneal(racers, 3000, hot, mover{})
	if got, want := racers[0].cost, best.cost-4*(20-14); math.Abs(got-want) > 1e-9 {
		t.Errorf("got a cost of %v, want %v, that of the even placement", got, want)
	}
	if breaks(r.catalog, racers[0].parts) {
		t.Error("got a placement that breaks a rule")
	}
	w := newAnnealing(r, best, r.forms)
	if w.reset(racers[0].parts); w.lack(false) > 0 {
		t.Errorf("got %d bytes too many on a device, want none", w.lack(false))
	}
}
