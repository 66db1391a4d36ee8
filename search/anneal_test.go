package search

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// Whatever changes are tried, taken and taken back, by whatever cost model and in all forms: the layout is the one that has these
// parts from the start. Its shards are those of the problem, and fit where it says so; the bytes that moved are those that it says.
func TestLayoutKeepsItsBooks(t *testing.T) {
	seen := map[bool]int{}
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 5))
		p := drawn(random.IntN, 2+2*random.IntN(3), 3+random.IntN(5))
		p.Topology.DevicesPerHost, p.Batch = 2, 64<<random.IntN(4)
		bytes := unit.Bytes(0)
		for i := range p.Tables {
			p.Tables[i].Features[0].PoolingFactor++
			bytes += p.ShardMemory(p.Whole(i))[problem.ForwardExchange].Used()
		}
		opt := Options{Method: NeuroShard, ShardingTypes: problem.ShardingTypes(), Workers: 1, ChosenRows: true}
		newScorer := formlessFactory(p)
		switch seed % 4 {
		case 1:
			base := additiveFactory(p)
			newScorer = func() Scorer { return twoSteps{base().(*additive)} }
			opt.ShardingTypes = nil
		case 2:
			p.Topology.HostMemory = unit.GiB
		case 3:
			p.Engine = problem.HugeCTR
		}
		_, fixed := p.DeviceMemory(0).Peak()
		p.Topology.Memory = fixed.Used() + bytes/unit.Bytes(p.Topology.Devices)*unit.Bytes(4+random.IntN(5))/4
		r := newRun(t.Context(), p, newScorer, opt)
		old := inTurn(p)
		r.catalog.former = newFormer(p, &From{Shards: old, Price: 1e-9})
		a := newAnnealer(r.catalog, r.scorer(), seed, r.forms)
		a.crowding, a.renumbers = 1, seed%2 == 0
		var parts []placed
		for _, k := range r.catalog.whole() {
			on := r.catalog.allowed(&r.catalog.pieces[k])
			parts = append(parts, placed{k, on[random.IntN(len(on))]})
		}
		a.reset(parts)
		for step := range 300 {
			if !a.propose() {
				continue
			}
			before := a.softSums
			if a.try(); random.IntN(2) > 0 {
				a.undo(before)
			} else {
				a.accept()
			}
			if step%10 == 0 {
				seen[checkBooks(t, r, a.layout)]++
			}
		}
	}
	if min(seen[true], seen[false]) < 50 {
		t.Errorf("got placements that fit and that do not: %v, want 50 of each", seen)
	}
}

// checkBooks compares a layout with one that gets its parts at once, and with what package problem says about its shards. It reports
// whether the placement fits.
func checkBooks(t *testing.T, r *run, l *layout) bool {
	t.Helper()
	fresh := newLayout(r.catalog, r.newScorer(), l.forms)
	fresh.crowding = l.crowding
	fresh.reset(l.all())
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
			t.Fatalf("%s: got %v, want %v", what, got, want)
		}
	}
	near("cost", l.scorer.Cost(), fresh.scorer.Cost())
	near("sum of computes", l.computeSum, fresh.computeSum)
	near("sum of columns", l.dimSum, fresh.dimSum)
	near("sum of hosts", l.hostSum, fresh.hostSum)
	near("bytes above the memory", float64(l.over), float64(fresh.over))
	for d := range l.compute {
		near("compute", l.compute[d], fresh.compute[d])
	}
	if !slices.Equal(l.own, fresh.own) || !slices.Equal(l.host, fresh.host) || !slices.Equal(l.dims, fresh.dims) || !slices.Equal(l.hostDims, fresh.hostDims) || l.budget != fresh.budget {
		t.Fatal("got other bytes or columns of a device or host than in a new layout")
	}
	shards := r.catalog.shards(l.all())
	if moved := int64(r.catalog.former.movedShards(shards)); l.moved != moved {
		t.Fatalf("got %d bytes moved, want %d", l.moved, moved)
	}
	if l.compute[l.slowest] != slices.Max(l.compute) {
		t.Fatalf("got device %d with compute %v as the slowest, want one with %v", l.slowest, l.compute[l.slowest], slices.Max(l.compute))
	}
	fits := l.lack(false) == 0
	if want := withinMemory(r.catalog.problem, shards); fits != want {
		t.Fatalf("got a placement that fits: %v, want %v", fits, want)
	}
	return fits
}

// withinMemory reports whether no device exceeds its memory in any phase, nor its host's.
func withinMemory(p *problem.Problem, shards [][]problem.Shard) bool {
	var every problem.StepMemory
	for _, held := range shards {
		for _, s := range held {
			if s.ShardingType != problem.DataParallel {
				every = every.Add(p.SharedMemory(s))
			}
		}
	}
	for d, held := range shards {
		all := p.DeviceMemory(d).Add(every)
		for _, s := range held {
			all = all.Add(p.ShardMemory(s))
		}
		if _, peak := all.Peak(); peak.Total() > p.Topology.DeviceMemory(d) || peak.Host > p.HostBudget(d) {
			return false
		}
	}
	return true
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
	r, err := Run(context.Background(), p, additiveFactory(p), Options{Budget: 100 * time.Millisecond})
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

// Problems of any size are counted before they are tried. On one device, tables that may
// not be split have one placement, and other tables have one for each cut.
func TestExactLeavesLargeProblems(t *testing.T) {
	for _, devices := range []int{1, 4, 1024} {
		for _, whole := range []bool{false, true} {
			var tables []table
			for i := range 150 {
				tables = append(tables, table{100, 256, 1 + float64(i%17)})
			}
			p := handMade(unit.GiB, devices, tables...)
			for i := range p.Tables {
				p.Tables[i].Constraint.NoSplit = whole
			}
			s := newRun(context.Background(), p, additiveFactory(p), Options{Method: NeuroShard, Workers: 1})
			var after state
			columns := onlyColumns(s.catalog)
			tryAll(s, &after, &columns, true)
			if want := devices == 1 && whole; after.complete != want {
				t.Errorf("%d devices, whole tables: %v: got complete %v, want %v", devices, whole, after.complete, want)
			}
			if tried := after.best.parts != nil; tried != (devices == 1) {
				t.Errorf("%d devices, whole tables: %v: got a placement: %v, want one on one device", devices, whole, tried)
			}
		}
	}
}

// formless estimates a slice in any form as a slice in HBM. What several devices hold together costs nothing.
type formless struct{ *additive }

// jointItem is above all items of slices on one device.
const jointItem = 1 << 20

func (f formless) Item(table, width int, form problem.Form) int {
	item := f.additive.Item(table, width, problem.Form{})
	if form.ShardingType.Joint() {
		item += jointItem
	}
	return item
}

func (f formless) Add(device, item int) {
	if item < jointItem {
		f.additive.Add(device, item)
	}
}

func (f formless) Remove(device, item int) {
	if item < jointItem {
		f.additive.Remove(device, item)
	}
}

func formlessFactory(p *problem.Problem) Factory {
	base := additiveFactory(p)
	return func() Scorer { return formless{base().(*additive)} }
}

// twoSteps is an additive cost model with a hierarchical exchange on hosts of two devices: a tenth
// of the columns of the device with the most, and as much again for each direction and for the
// columns of the host with the most.
type twoSteps struct{ *additive }

func (s twoSteps) HostSize() int             { return 2 }
func (s twoSteps) Columns(device int) int64  { return int64(s.dims[device]) }
func (s twoSteps) Hides() bool               { return true }
func (s twoSteps) Rates() (_, _, ms float64) { return .1, .1, .5 }
func (s twoSteps) AllToAlls() (times, free [2]float64) {
	most, mostOfHost := int64(0), int64(0)
	for d := range s.dims {
		most, mostOfHost = max(most, s.Columns(d)), max(mostOfHost, s.HostColumns(d/2))
	}
	time := .1*float64(most) + .1*float64(mostOfHost) + .5
	return [2]float64{time, time}, free
}

func (s twoSteps) HostColumns(host int) (sum int64) {
	for d := 2 * host; d < min(2*host+2, len(s.dims)); d++ {
		sum += s.Columns(d)
	}
	return sum
}

func (s twoSteps) Cost() float64 {
	slowest := 0.0
	times, _ := s.AllToAlls()
	for d := range s.time {
		slowest = max(slowest, s.time[d])
	}
	return slowest + times[0] + times[1]
}
