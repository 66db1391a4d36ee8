package simulate

import (
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// TestReplicasDifferByTheirUpdate: with any optimizer, the gradients of a replica are
// written as SGD writes rows. In addition, Adam's 8 bytes of state for each of
// 1,000,000 x 16 weights are read and written once.
func TestReplicasDifferByTheirUpdate(t *testing.T) {
	of := func(o problem.Optimizer) plan.StepTimes {
		p := on(t, "a100-80", 4, 0, tableOf("t", 1_000_000, 16, 20, false))
		p.Tables[0].Optimizer = o
		return place(p).replicate(0).price(t).Devices[0]
	}
	sgd, adam := of(problem.SGD), of(problem.Adam)
	near(t, "forward", adam.Forward, sgd.Forward)
	near(t, "backward", adam.Backward, sgd.Backward+unit.Millis(2*8*1e6*16/a100Stream))
	near(t, "backward comm", adam.BackwardComm, sgd.BackwardComm)
}

// TestGridOfUnequalSlices: one host has 32 of 128 columns and the next 96. Each device
// takes as long as by itself.
func TestGridOfUnequalSlices(t *testing.T) {
	p := on(t, "a100-80", 4, 2, tableOf("t", 1_000_000, 128, 20, false))
	l := place(p).
		blocks(0, problem.Grid, problem.Range{Start: 0, End: 32}, 0, 2).
		blocks(0, problem.Grid, problem.Range{Start: 32, End: 128}, 2, 4)
	cost, pricer := l.price(t), NewPricer(p)
	for d := range l.shards {
		forward, backward := pricer.GroupCost(l.shards[d])
		near(t, "forward", cost.Devices[d].Forward, forward)
		near(t, "backward", cost.Devices[d].Backward, backward)
	}
	if narrow, wide := cost.Devices[1].Forward, cost.Devices[2].Forward; !(narrow < wide) {
		t.Errorf("got %v for 32 columns and %v for 96, want more for 96", narrow, wide)
	}
}

// TestMoreToAHostThanThereAre: four devices in hosts of eight are one host of four.
func TestMoreToAHostThanThereAre(t *testing.T) {
	c := Comm{PerHost: 4, Batch: 1000, RowWise: 32, ByHost: []int{24}, Replicated: 1e6}
	d := NewDevice(a100(t))
	forward, backward := together(t, d, 4, c)
	for _, perHost := range []int{0, 5, 8} {
		c.PerHost = perHost
		if f, b := together(t, d, 4, c); f != forward || b != backward {
			t.Errorf("%d to a host: got %v, %v, want %v, %v", perHost, f, b, forward, backward)
		}
	}
}

// TestRowWiseOnOneOfAll: a single block or replica is refused, as half of them is.
func TestRowWiseOnOneOfAll(t *testing.T) {
	p := on(t, "a100-80", 4, 2, tableOf("t", 1000, 16, 5, false))
	for what, l := range map[string]*placed{"row_wise": place(p).rowWise(0), "data_parallel": place(p).replicate(0)} {
		for kept := range l.shards {
			alone := place(p)
			alone.shards[kept] = l.shards[kept]
			_, err := NewPricer(p).Price(alone.shards)
			if want := `table "t": ` + what + ` on 1 of 4 devices: all must have a part`; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("device %d alone: got %v, want %q", kept, err, want)
			}
		}
	}
}

// TestSpreadTablesInHostMemory: tables that devices hold together must lie in HBM.
func TestSpreadTablesInHostMemory(t *testing.T) {
	p := on(t, "a100-80", 4, 2, tableOf("t", 1000, 16, 5, false))
	for kind, l := range map[problem.ShardingType]*placed{
		problem.RowWise: place(p).rowWise(0), problem.TableRowWise: place(p).hostWise(0, 1),
		problem.Grid: place(p).grid(0, 0, 1), problem.DataParallel: place(p).replicate(0),
	} {
		for _, tier := range []problem.Tier{problem.Host, problem.HostCached} {
			for d := range l.shards {
				for i := range l.shards[d] {
					l.shards[d][i].Tier, l.shards[d][i].Cache = tier, 0
					if tier == problem.HostCached {
						l.shards[d][i].Cache = .5
					}
				}
			}
			_, err := NewPricer(p).Price(l.shards)
			if want := string(kind) + " shards in tier " + string(tier); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s in %s: got %v, want %q", kind, tier, err, want)
			}
		}
	}
}

// TestSpreadTablesWithAPartOfTheColumns: only a grid may have a part of the columns.
func TestSpreadTablesWithAPartOfTheColumns(t *testing.T) {
	p := on(t, "a100-80", 4, 2, tableOf("t", 1000, 16, 5, false))
	half := problem.Range{Start: 0, End: 8}
	replicas := place(p).replicate(0)
	for d := range replicas.shards {
		replicas.shards[d][0].Columns = half
	}
	for kind, l := range map[problem.ShardingType]*placed{
		problem.RowWise: place(p).blocks(0, problem.RowWise, half, 0, 4), problem.TableRowWise: place(p).blocks(0, problem.TableRowWise, half, 0, 2),
		problem.DataParallel: replicas,
	} {
		_, err := NewPricer(p).Price(l.shards)
		if want := `table "t": columns 0 to 8 of 16: ` + string(kind) + " shards have all columns"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", kind, err, want)
		}
	}
}
