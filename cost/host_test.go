package cost_test

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// oneTable is a problem of one table of 16 columns. A batch reads 300 rows once and 100
// rows twice.
func oneTable(t *testing.T, rows int64, devices, perHost int) *problem.Problem {
	p := &problem.Problem{Batch: 100, Topology: topology(t, devices, perHost)}
	p.Topology.HostMemory = unit.TiB
	table := problem.Table{
		Name: "t", Rows: rows, Dim: 16, Features: []problem.Feature{{Name: "f", PoolingFactor: 5}},
		Access: access.Distribution{Kind: access.Histogram, Batch: 100},
	}
	table.Access.Reuse[0], table.Access.Reuse[1] = .75, .25
	p.Tables = []problem.Table{table}
	return p
}

// TestHostLinkByHand: a table in host memory takes its time in HBM and the time of a link
// of 25.2 GB/s, by the simulated device and by hand. 500 lookups read rows of 64 bytes.
// 400 rows and their state are read and written at the same time: the state of rowwise_adagrad in sectors
// of 32 bytes, other state in granules of 64.
func TestHostLinkByHand(t *testing.T) {
	model, _ := load(t)
	const link = 25.2e6 // bytes a millisecond
	for optimizer, state := range map[problem.Optimizer]float64{
		problem.SGD: 0, problem.RowwiseAdagrad: 2 * 32, problem.Adagrad: 2 * 64, problem.Adam: 4 * 64,
	} {
		p := oneTable(t, 1000, 1, 0)
		p.Tables[0].Optimizer = optimizer
		s, pricer := newEstimates(t, model, p).NewScorer(0), simulate.NewPricer(p)
		inTier := func(form problem.Form) (predicted plan.StepTimes, forward, backward unit.Millis) {
			s.Reset()
			s.Add(0, s.Item(0, 16, form))
			shard := p.Whole(0)
			shard.Tier = form.Tier
			forward, backward = pricer.GroupCost([]problem.Shard{shard})
			return s.Breakdown().Devices[0], forward, backward
		}
		hbm, hbmForward, hbmBackward := inTier(problem.Form{})
		host, hostForward, hostBackward := inTier(problem.Form{Tier: problem.Host})
		for _, test := range []struct {
			what                 string
			got, simulated, want float64
		}{
			{"forward", float64(host.Forward - hbm.Forward), float64(hostForward - hbmForward), 500 * 64 / link},
			{"backward", float64(host.Backward - hbm.Backward), float64(hostBackward - hbmBackward), 400 * (64 + state/2) / link},
		} {
			// Times are kept in units of 2^-30 ms.
			if math.Abs(test.got-test.want) > 2e-9 || math.Abs(test.simulated-test.want) > 2e-9 {
				t.Errorf("%s of %s: got %v ms, of the simulated device %v, want %v", test.what, optimizer, test.got, test.simulated, test.want)
			}
		}
	}
}

// TestReplicasTravelInHalf: gradients of twice the rows in bf16 are the same number of bytes, in
// hosts and between them.
func TestReplicasTravelInHalf(t *testing.T) {
	model, _ := load(t)
	travel := func(rows int64, devices, perHost int, comm problem.Precision) float64 {
		p := oneTable(t, rows, devices, perHost)
		p.CommPrecision = comm
		s := newEstimates(t, model, p).NewScorer(0)
		s.Add(0, s.Item(0, 16, problem.Form{ShardingType: problem.DataParallel}))
		return float64(s.Breakdown().Devices[0].BackwardComm)
	}
	for _, perHost := range []int{1, 4, 8} {
		half, full := travel(2_000_000, 8, perHost, problem.BF16), travel(1_000_000, 8, perHost, problem.FP32)
		if !(half > 0) || math.Abs(half-full) > 1e-9*full {
			t.Errorf("%d to a host: got %v ms in bf16, want %v as of half the rows in fp32", perHost, half, full)
		}
	}
}

// TestCachedSortByHand: the backward of cached slices sorts the places of their lookups, too:
// 4 bytes of a place once, and in each pass 8 bytes read and 8 written, at 0.68 of the
// bandwidth. The passes follow from the rows of the whole operator: with 200 cached rows,
// 9 bits and two passes; with 100, 8 bits and one pass.
func TestCachedSortByHand(t *testing.T) {
	model, _ := load(t)
	p := oneTable(t, 1000, 1, 0)
	second := p.Tables[0]
	second.Name, second.Features = "second", []problem.Feature{{Name: "g", PoolingFactor: 5}}
	p.Tables = append(p.Tables, second)
	s := newEstimates(t, model, p).NewScorer(0)
	cached, host := problem.Form{Tier: problem.HostCached, Cache: .1}, problem.Form{Tier: problem.Host}
	_, link := simulate.NewDevice(model.Hardware()).HostLink(&p.Tables[0], p.Tables[0].Counts(100), 16, cached)
	_, hostLink := simulate.NewDevice(model.Hardware()).HostLink(&p.Tables[0], p.Tables[0].Counts(100), 16, host)
	memory := 2039 * .894 * 1e6 * .68
	backward := func(form problem.Form, numbers ...problem.Operator) float64 {
		s.Reset()
		for table, number := range numbers {
			form.Operator = number
			s.Add(0, s.Item(table, 16, form))
		}
		return float64(s.Breakdown().Devices[0].Backward)
	}
	for _, c := range []struct {
		numbers []problem.Operator
		want    float64
	}{
		{[]problem.Operator{0}, 500 * (4 + 16)},
		{[]problem.Operator{0, 0}, 1000 * (4 + 2*16)},
		{[]problem.Operator{0, 1}, 2 * 500 * (4 + 16)},
	} {
		got := backward(cached, c.numbers...) - backward(host, c.numbers...) - float64(len(c.numbers))*float64(link-hostLink)
		if math.Abs(got-c.want/memory) > 1e-8 {
			t.Errorf("operators %v: got %v ms for the sort of places, want %v", c.numbers, got, c.want/memory)
		}
	}
}
