package neuroshard_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// TestAlternativeOfTwoDevices places three tables on two devices by hand, so that the cheapest
// other place is known: the small table changes its device.
func TestAlternativeOfTwoDevices(t *testing.T) {
	table := func(name string, pooling float64) problem.Table {
		return problem.Table{Name: name, Rows: 100000, Dim: 64, Features: []problem.Feature{{Name: name, PoolingFactor: pooling}}, Constraint: problem.Constraint{NoSplit: true}}
	}
	p := &problem.Problem{
		Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: 2}, Batch: 65536,
		Tables: []problem.Table{table("large", 100), table("small", 1), table("other", 99)},
	}
	opt := neuroshard.Options{}
	opt.Search.ShardingTypes = []problem.ShardingType{problem.TableWise}
	r := must.Get(neuroshard.Evaluate(t.Context(), p, [][]problem.Shard{{p.Whole(0), p.Whole(1)}, {p.Whole(2)}}, opt))(t)
	cost, all := must.Get2(neuroshard.Alternatives(t.Context(), r.Plan, p, opt))(t)
	if got := all[1]; got.ShardingType != problem.TableWise || got.Shards[0].Device != 1 || got.Cost > cost {
		t.Errorf("small: got %+v at a cost of %v, want device 1 at no more", got, cost)
	}
	if got := all[0]; got.Shards[0].Device != 1 || got.Cost < 6*cost/5 {
		t.Errorf("large: got %+v at a cost of %v, want device 1 at a much larger cost", got, cost)
	}
}

// chosenRows returns a problem for HugeCTR on 8 devices, and a placement: rows of the largest
// table on devices 0, 3 and 5, without Shard.Blocks, and the other tables whole, dealt out in turn.
func chosenRows(t *testing.T) (*problem.Problem, [][]problem.Shard) {
	p := workloadNamed(t, "criteo-kaggle")
	p.Topology.Devices, p.Topology.DevicesPerHost, p.Engine = 8, 4, problem.HugeCTR
	largest := 0
	for i := range p.Tables {
		if p.Tables[i].Rows > p.Tables[largest].Rows {
			largest = i
		}
	}
	shards := make([][]problem.Shard, 8)
	for k, d := range []int{0, 3, 5} {
		s, rows := p.Whole(largest), p.Tables[largest].BlockRows(3)
		s.Rows = problem.Range{Start: int64(k) * rows, End: min(p.Tables[largest].Rows, int64(k+1)*rows)}
		shards[d] = append(shards[d], s)
	}
	for i := range p.Tables {
		if i != largest {
			shards[i%8] = append(shards[i%8], p.Whole(i))
		}
	}
	return &p, shards
}

// TestRowsOnChosenDevices: a plan with a table's rows on devices 0, 3 and 5 conforms, and has no bound
// and no estimate by TorchRec's formulas.
func TestRowsOnChosenDevices(t *testing.T) {
	p, shards := chosenRows(t)
	r := evaluated(t, p, shards, neuroshard.Options{})
	if _, bounded := r.Gap(); bounded || r.Plan.Chosen() != 1 {
		t.Errorf("got a bound %v and %d tables on chosen devices, want none and 1", bounded, r.Plan.Chosen())
	}
	conform(t, p, neuroshard.Options{}, r)
	var unpriceable *neuroshard.Unpriceable
	err := neuroshard.Price(t.Context(), r.Plan, p, neuroshard.Options{Prices: neuroshard.TorchRec()})
	if !errors.As(err, &unpriceable) || len(unpriceable.Tables) != 1 || !strings.Contains(err.Error(), "rows on devices that a plan chose") {
		t.Errorf("TorchRec's formulas: got %v, want an *Unpriceable of one table", err)
	}
}
