package cost_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/feature"
	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

const profileName = "a100-80"

func load(t testing.TB) (*cost.Model, *modelfile.Model) {
	t.Helper()
	file := must.Get(pretrained.File(profileName))(t)
	model := must.Get(cost.Load(file))(t)
	return model, file
}

func newEstimates(t testing.TB, m *cost.Model, p *problem.Problem) *cost.Estimates {
	t.Helper()
	must.Do(t, p.Validate())
	return must.Get(cost.NewEstimates(t.Context(), m, p))(t)
}

func topology(t testing.TB, devices, perHost int) hardware.Topology {
	t.Helper()
	profile := must.Get(hardware.ByName(profileName))(t)
	return hardware.Topology{Profile: profile, Devices: devices, DevicesPerHost: perHost}
}

// mixed returns a problem with very different tables: every optimizer and precision,
// weighted and not, several features, tables without lookups, bags of equal and of unequal
// lengths, less and more than one bag for a feature, sequences, widths of 4 to 256 columns. If oneOperation is true, all tables have the same
// operation and fuse.
func mixed(t testing.TB, seed uint64, tables, devices, perHost int, oneOperation bool) *problem.Problem {
	t.Helper()
	draw := rand.New(rand.NewPCG(seed, 1))
	p := &problem.Problem{Topology: topology(t, devices, perHost), Batch: 1 << (9 + draw.IntN(8))}
	for i := range tables {
		table := problem.Table{
			Name: fmt.Sprint("t", i), Rows: int64(math.Exp(draw.Float64()*14)) + 10, Dim: 4 << draw.IntN(7),
			Access: access.Distribution{Kind: access.Zipf, Exponent: 0.8 + draw.Float64()},
		}
		for range 1 + draw.IntN(2) {
			pooling := 1 + 60*draw.Float64()*draw.Float64()
			if i%5 == 4 {
				pooling = 0
			}
			table.Features = append(table.Features, problem.Feature{PoolingFactor: pooling, LengthCV: []float64{0, .3, 2}[i%3]})
		}
		if i%7 == 3 {
			table.Features[0].Bags = []float64{.4, 6}[i%2]
		}
		if !oneOperation {
			table.Optimizer = problem.Optimizer(draw.IntN(4))
			table.Precision = problem.Precision(draw.IntN(2))
			table.Weighted = draw.IntN(4) == 0
		}
		if i%7 == 5 && !table.Weighted && !oneOperation {
			table.Pooling = problem.PoolingNone
		}
		p.Tables = append(p.Tables, table)
	}
	return p
}

// placement spreads every table over random devices, some cut into halves or
// quarters.
func placement(p *problem.Problem, draw *rand.Rand) [][]problem.Shard {
	shards := make([][]problem.Shard, p.Topology.Devices)
	for i := range p.Tables {
		slices := 1
		for slices < 4 && p.Tables[i].Dim/slices >= 8 && draw.IntN(3) == 0 {
			slices *= 2
		}
		width := int64(p.Tables[i].Dim / slices)
		for k := range int64(slices) {
			s := p.Whole(i)
			s.Columns = problem.Range{Start: k * width, End: (k + 1) * width}
			d := draw.IntN(len(shards))
			shards[d] = append(shards[d], s)
		}
	}
	return shards
}

// group predicts a device's shards by Model.Group, operator by operator.
func group(m *cost.Model, p *problem.Problem, shards []problem.Shard) (forward, backward float64) {
	slices := map[problem.OperatorKey][]cost.Slice{}
	for _, s := range shards {
		t := &p.Tables[s.Table]
		described := feature.Describe(t, t.Counts(p.Batch))
		key := p.OperatorKey(s.Table, s.Dim(), p.Form(s))
		slices[key] = append(slices[key], cost.Slice{Table: &described, Dim: s.Dim()})
	}
	for key, held := range slices {
		f, b := m.Group(key.Operation, held)
		forward, backward = forward+float64(f), backward+float64(b)
	}
	return forward, backward
}

// near reports whether got is within the relative tolerance of want.
func near(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*math.Abs(want)
}

// addAll adds the slices of a placement: the parts of a slice that devices hold together are one.
func addAll(s *cost.Scorer, p *problem.Problem, shards [][]problem.Shard) {
	type slice struct {
		table int
		first int64
	}
	seen := map[slice]bool{}
	for d, held := range shards {
		for _, shard := range held {
			form, key := p.Form(shard), slice{shard.Table, shard.Columns.Start}
			if form.ShardingType == "" || !seen[key] {
				s.Add(d, s.Item(shard.Table, shard.Dim(), form))
			}
			seen[key] = true
		}
	}
}
