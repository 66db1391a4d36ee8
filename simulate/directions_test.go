package simulate

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// directions_test.go tests which of two placements must cost more, for any sizes.

// drawPlaced draws a cluster, tables, and a way to place each table.
func drawPlaced(t *rapid.T) *placed {
	perHost := rapid.IntRange(1, 4).Draw(t, "per host")
	hosts := rapid.IntRange(1, 3).Draw(t, "hosts")
	tail := rapid.IntRange(0, perHost-1).Draw(t, "tail")
	p := &problem.Problem{
		Batch:         rapid.SampledFrom([]int{1, 100, 8192, 65536}).Draw(t, "batch"),
		CommPrecision: problem.Precision(rapid.IntRange(0, 2).Draw(t, "comm precision")),
		Topology:      hardware.Topology{Profile: rapid.SampledFrom(hardware.Profiles()[1:]).Draw(t, "profile"), Devices: perHost*hosts + tail, DevicesPerHost: perHost},
	}
	l := place(p)
	for i := range rapid.IntRange(0, 8).Draw(t, "tables") {
		table := tableOf(string(rune('a'+i)), int64(math.Exp(rapid.Float64Range(0, 20).Draw(t, "ln rows"))),
			8*rapid.IntRange(1, 16).Draw(t, "dim/8"), math.Exp(rapid.Float64Range(-4, 4).Draw(t, "ln pooling")), rapid.Bool().Draw(t, "skewed"))
		table.Optimizer = problem.Optimizer(rapid.IntRange(0, 3).Draw(t, "optimizer"))
		table.Precision = problem.Precision(rapid.IntRange(0, 2).Draw(t, "precision"))
		table.Weighted = rapid.Bool().Draw(t, "weighted")
		p.Tables = append(p.Tables, table)
		device := rapid.IntRange(0, len(l.shards)-1).Draw(t, "device")
		host := rapid.IntRange(0, hosts-1).Draw(t, "host")
		kind := rapid.SampledFrom([]string{"row", "host", "grid", "replica", "host memory", "cached", "slice"}).Draw(t, "kind")
		switch {
		case kind == "row" && table.CutsByRows(len(l.shards)):
			l.rowWise(i)
		case kind == "host" && table.CutsByRows(perHost):
			l.hostWise(i, host)
		case kind == "grid" && table.CutsByRows(perHost) && hosts > 1:
			l.grid(i, host, (host+1)%hosts)
		case kind == "replica":
			l.replicate(i)
		case kind == "host memory":
			l.slice(i, device, problem.Host, 0)
		case kind == "cached":
			l.slice(i, device, problem.HostCached, rapid.Float64Range(1e-6, .999).Draw(t, "cache"))
		default:
			l.on(i, device)
		}
	}
	return l
}

func priced(t *rapid.T, l *placed) plan.Breakdown {
	return must.Get(NewPricer(l.p).Price(l.shards))(t)
}

// TestPricesAreSound: times are finite, not negative, the same for each device by itself,
// and no higher if smaller elements travel.
func TestPricesAreSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawPlaced(t)
		cost := priced(t, l)
		pricer := NewPricer(l.p)
		for r, d := range cost.Devices {
			for _, x := range []unit.Millis{d.Forward, d.Backward, d.ForwardComm, d.BackwardComm, cost.Cost - d.Total()} {
				if !(x >= 0) || math.IsInf(float64(x), 0) {
					t.Fatalf("device %d: got %+v of %v", r, d, cost.Cost)
				}
			}
			if f, b := pricer.GroupCost(l.shards[r]); f != d.Forward || b != d.Backward {
				t.Fatalf("device %d computes %v and %v in a placement, %v and %v by itself", r, d.Forward, d.Backward, f, b)
			}
		}
		other := *l.p
		other.CommPrecision = problem.FP32
		if wide := priced(t, &placed{&other, l.shards}); cost.Cost > wide.Cost*(1+1e-12) {
			t.Fatalf("%v elements that travel cost %v, fp32 %v", l.p.CommPrecision, cost.Cost, wide.Cost)
		} else if l.p.CommPrecision != problem.FP32 && wide.Devices[0].BackwardComm > 0 && cost.Devices[0].BackwardComm > wide.Devices[0].BackwardComm {
			t.Fatalf("the exchange of %v elements takes %v, of fp32 %v", l.p.CommPrecision, cost.Devices[0].BackwardComm, wide.Devices[0].BackwardComm)
		}
	})
}

// TestMonotone: blocks take less time with more devices, and caches save time, apart from
// the time in which their places are sorted.
func TestMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := tableOf("t", int64(math.Exp(rapid.Float64Range(6, 20).Draw(t, "ln rows"))), 4*rapid.IntRange(1, 64).Draw(t, "dim/4"),
			math.Exp(rapid.Float64Range(-4, 4).Draw(t, "ln pooling")), rapid.Bool().Draw(t, "skewed"))
		table.Optimizer = problem.Optimizer(rapid.IntRange(0, 3).Draw(t, "optimizer"))
		compute := func(n int) unit.Millis {
			p := &problem.Problem{Tables: []problem.Table{table}, Batch: 8192, Topology: hardware.Topology{Profile: hardware.Profiles()[4], Devices: n}}
			forward, backward := NewPricer(p).GroupCost(place(p).rowWise(0).shards[0])
			return forward + backward
		}
		n := rapid.IntRange(2, 8).Draw(t, "devices")
		if few, many := compute(n), compute(2*n); many > few*(1+1e-12) {
			t.Fatalf("a block of %d devices computes %v, one of %d %v", n, few, 2*n, many)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		p := &problem.Problem{Batch: 8192, Topology: hardware.Topology{Profile: hardware.Profiles()[4], Devices: 1}}
		p.Tables = []problem.Table{tableOf("t", int64(math.Exp(rapid.Float64Range(0, 20).Draw(t, "ln rows"))), 4*rapid.IntRange(1, 64).Draw(t, "dim/4"),
			math.Exp(rapid.Float64Range(-4, 4).Draw(t, "ln pooling")), rapid.Bool().Draw(t, "skewed"))}
		p.Tables[0].Optimizer = problem.Optimizer(rapid.IntRange(0, 3).Draw(t, "optimizer"))
		small := rapid.Float64Range(1e-6, .999).Draw(t, "cache")
		large := rapid.Float64Range(small, .999).Draw(t, "larger cache")
		d, rows := NewDevice(p.Topology.Profile), p.Tables[0].Rows
		cached := func(share float64) unit.Millis {
			sort := d.SortPlaces(p.Tables[0].Counts(p.Batch).Lookups, float64(problem.CachedRows(rows, share)))
			return priced(t, place(p).slice(0, 0, problem.HostCached, share)).Cost - sort
		}
		// A cache that misses nearly all rows may cost one way of the optimizer's state more than
		// none.
		state := p.Tables[0].Counts(p.Batch).Unique * float64(p.Tables[0].Optimizer.StateBytes(1, p.Tables[0].Dim))
		before := priced(t, place(p).slice(0, 0, problem.Host, 0)).Cost + unit.Millis(state/(p.Topology.Profile.HostLinkGBps()*1e6))
		for _, got := range []unit.Millis{cached(small), cached(large), priced(t, place(p).on(0, 0)).Cost} {
			if got > before*(1+1e-12) {
				t.Fatalf("more in HBM costs %v, less %v", got, before)
			} else {
				before = got
			}
		}
	})
}
