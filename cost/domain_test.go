package cost_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// narrowDomain is what the samples of the model of TestDoubts cover.
var narrowDomain = modelfile.Domain{
	MinBatch: 1024, MaxBatch: 65536, MinDim: 8, MaxDim: 128, MaxPoolingFactor: 50, MaxRows: 1e6, MaxShards: 3, JudgedShards: 3,
	MinDevices: 2, MaxDevices: 4, Optimizers: []string{"sgd", "rowwise_adagrad"}, Precisions: []string{"fp32"}, Unweighted: true,
}

// unlimited takes the domain away, and adds a measured source.
func unlimited(m *modelfile.Manifest) { m.Domain = modelfile.Domain{} }
func measured(m *modelfile.Manifest)  { m.Domain, m.Source = modelfile.Domain{}, plan.Measured }

// inForm returns a placement of the problem's first table in a sharding type on all devices.
func inForm(p *problem.Problem, k problem.ShardingType) [][]problem.Shard {
	shards := make([][]problem.Shard, p.Topology.Devices)
	for d := range shards {
		s := p.Whole(0)
		if s.ShardingType = k; k == problem.RowWise {
			rows := p.Tables[0].BlockRows(len(shards))
			s.Rows = problem.Range{Start: int64(d) * rows, End: int64(d+1) * rows}
		}
		shards[d] = []problem.Shard{s}
	}
	return shards
}

// TestDoubts: a model doubts what its samples do not cover, what its card says is not exact, links and
// exchanges that no sample has, and, if its samples are measured, tables in forms that were not measured.
func TestDoubts(t *testing.T) {
	const unseen, oneBag = "has not seen ", ", .* samples have one pooled vector"
	none := func(*modelfile.Manifest, *problem.Problem) {}
	several := []problem.Feature{{PoolingFactor: 20, Bags: 2}}
	mixedVectors := func(p *problem.Problem) { p.Tables[0].Pooling, p.Tables[1].Features = problem.PoolingNone, several }
	network := func(devices int, change func(p *problem.Problem)) func(*modelfile.Manifest, *problem.Problem) {
		return func(m *modelfile.Manifest, p *problem.Problem) {
			unlimited(m)
			p.Topology = topology(t, devices, 8)
			p.Topology.NetworkBandwidth = unit.Bandwidth(2 * p.Topology.Profile.NICGBps * 1e9)
			change(p)
		}
	}
	for _, c := range []struct {
		name   string
		change func(m *modelfile.Manifest, p *problem.Problem)
		kind   problem.ShardingType // of the first table alone, on all devices; else both tables are on the first
		want   []string
	}{
		{"inside", none, "", nil},
		{"a small batch", func(_ *modelfile.Manifest, p *problem.Problem) { p.Batch = 512 }, "", []string{unseen + "a batch of 512, only 1024 to 65536"}},
		{"a large batch", func(_ *modelfile.Manifest, p *problem.Problem) { p.Batch = 131072 }, "", []string{unseen + "a batch of 131072"}},
		{"many devices", func(_ *modelfile.Manifest, p *problem.Problem) { p.Topology.Devices = 5 }, "", []string{unseen + "5 devices, only up to 4"}},
		{"few devices", func(m *modelfile.Manifest, _ *problem.Problem) { m.Domain.MinDevices = 3 }, "", []string{unseen + "2 devices, only 3 and more"}},
		{"one device", func(m *modelfile.Manifest, p *problem.Problem) { m.Domain.MinDevices, p.Topology.Devices = 3, 1 }, "", nil},
		{"many shards", func(m *modelfile.Manifest, _ *problem.Problem) { m.Domain.JudgedShards = 1 }, "", []string{unseen + "2 shards on a device, only up to 1"}},
		{"a wide shard", func(m *modelfile.Manifest, _ *problem.Problem) { m.Domain.MaxDim = 32 }, "", []string{unseen + "shards of 64 columns, only up to 32"}},
		{"a narrow shard", func(m *modelfile.Manifest, _ *problem.Problem) { m.Domain.MinDim = 32 }, "", []string{unseen + "shards of 16 columns, only of 32 and more"}},
		{"a long table", func(_ *modelfile.Manifest, p *problem.Problem) { p.Tables[0].Rows = 2e6 }, "", []string{unseen + "a table of 2000000 rows"}},
		{"much pooling", func(_ *modelfile.Manifest, p *problem.Problem) {
			p.Tables[0].Features = []problem.Feature{{PoolingFactor: 60}}
		}, "", []string{unseen + "a pooling factor of 60"}},
		{"another optimizer", func(_ *modelfile.Manifest, p *problem.Problem) {
			p.Tables[0].Optimizer, p.Tables[1].Optimizer = problem.Adam, problem.Adam
		}, "", []string{unseen + "the optimizer adam, only sgd, rowwise_adagrad"}},
		{"another precision", func(_ *modelfile.Manifest, p *problem.Problem) { p.Tables[1].Precision = problem.FP16 }, "", []string{unseen + "weights in fp16, only fp32"}},
		{"weighted", func(_ *modelfile.Manifest, p *problem.Problem) { p.Tables[1].Weighted = true }, "", []string{unseen + "weighted lookups, only unweighted ones"}},
		{"a domain without operations", func(m *modelfile.Manifest, p *problem.Problem) {
			d := &m.Domain
			d.Optimizers, d.Precisions, d.Unweighted, d.MinDim, d.MinDevices = nil, nil, false, 0, 0
			p.Tables[0].Optimizer, p.Tables[1].Precision, p.Tables[0].Weighted = problem.Adam, problem.BF16, true
		}, "", nil},
		{"no domain", func(m *modelfile.Manifest, p *problem.Problem) { unlimited(m); p.Batch = 1 }, "", nil},
		{"an exact card", func(m *modelfile.Manifest, _ *problem.Problem) { m.Card.Compute.Mean, m.Card.Comm.Mean = 9.9, 9.9 }, "", nil},
		{"errors of lookups", func(m *modelfile.Manifest, _ *problem.Problem) { m.Card.Compute.Mean = 15 }, "", []string{"a mean error of 15 % for the times of lookups"}},
		{"errors of exchanges", func(m *modelfile.Manifest, _ *problem.Problem) { m.Card.Comm.Mean = 12 }, "", []string{"a mean error of 12 % for the times of exchanges"}},
		{"vectors in the samples", func(_ *modelfile.Manifest, p *problem.Problem) { mixedVectors(p) }, "", nil},
		{"vectors outside the samples", func(m *modelfile.Manifest, p *problem.Problem) { m.Domain.OneBag = true; mixedVectors(p) }, "", []string{"^1 table has bags other than 1" + oneBag, "^1 table has pooling none" + oneBag}},
		{"vectors that were not measured", func(m *modelfile.Manifest, p *problem.Problem) { measured(m); mixedVectors(p) }, "", []string{"^1 table has bags other than 1" + oneBag, "^1 table has pooling none" + oneBag}},
		{"two tables of bags", func(m *modelfile.Manifest, p *problem.Problem) {
			measured(m)
			p.Tables[0].Features, p.Tables[1].Features = several, []problem.Feature{{PoolingFactor: 20, Bags: .5}}
		}, "", []string{"^2 tables have bags other than 1"}},
		{"simulated blocks", func(m *modelfile.Manifest, _ *problem.Problem) { unlimited(m) }, problem.RowWise, nil},
		{"blocks that were not measured", func(m *modelfile.Manifest, _ *problem.Problem) { measured(m) }, problem.RowWise, []string{"^1 tables are cut by rows"}},
		{"replicas that were not measured", func(m *modelfile.Manifest, _ *problem.Problem) { measured(m); m.CommSource = plan.Simulated }, problem.DataParallel, []string{"^1 tables are cut by rows"}},
		{"a simulated hierarchical exchange", func(_ *modelfile.Manifest, p *problem.Problem) { p.Hierarchy = inside }, "", nil},
		{"a hierarchical exchange that was not measured", func(m *modelfile.Manifest, p *problem.Problem) { measured(m); p.Hierarchy = inside }, "", []string{"reduces vectors inside hosts first"}},
		{"a large all-reduce", func(m *modelfile.Manifest, p *problem.Problem) {
			m.Domain.MaxBatch, m.Domain.MaxRows = 131072, 1e10
			*p = *oneTable(t, 4e9, 4, 2)
			p.Batch = 1024
		}, problem.DataParallel, []string{unseen + "an exchange in which a device sends .* GiB, only up to 3.00 GiB"}},
		{"a small all-reduce", func(m *modelfile.Manifest, p *problem.Problem) { *p = *oneTable(t, 1e6, 4, 2); p.Batch = 1024 }, problem.DataParallel, nil},
		{"a large all-to-all", func(_ *modelfile.Manifest, p *problem.Problem) {
			p.Batch, p.Tables[0].Dim = 65536, 128
			p.Tables[0].Features = make([]problem.Feature, 401)
		}, "", []string{unseen + "an exchange in which a device sends"}},
		{"the profile's network", network(16, func(p *problem.Problem) { p.Topology.NetworkBandwidth /= 2 }), "", nil},
		{"twice the network", network(16, func(*problem.Problem) {}), "", []string{"scaled by the ratio"}},
		{"a network without an effect", network(16, func(p *problem.Problem) { p.Topology.NVLinkDomain = 72 }), "", []string{"has no effect: all 16 devices are in one NVLink domain", "no NVLink domain of several hosts"}},
		{"a network of one host", network(8, func(*problem.Problem) {}), "", []string{"has no effect: all 8 devices are on one host"}},
		{"two sharding groups of a host", network(8, func(p *problem.Problem) { p.Topology.Replicas = 2 }), "", nil}, // they reduce over the network
	} {
		p := &problem.Problem{Topology: topology(t, 2, 0), Batch: 8192, Tables: []problem.Table{
			{Name: "a", Rows: 1000, Dim: 16, Features: []problem.Feature{{PoolingFactor: 20}}}, {Name: "b", Rows: 1000, Dim: 64, Features: []problem.Feature{{PoolingFactor: 20}}},
		}}
		_, file := load(t)
		file.Manifest.Domain = narrowDomain
		c.change(&file.Manifest, p)
		shards := make([][]problem.Shard, p.Topology.Devices)
		if c.kind != "" {
			shards = inForm(p, c.kind)
		} else {
			shards[0] = []problem.Shard{p.Whole(0), p.Whole(1)}
		}
		got := must.Get(cost.Load(file))(t).Doubts(p, shards)
		if len(got) != len(c.want) {
			t.Errorf("%s: got %q, want %d doubts", c.name, got, len(c.want))
			continue
		}
		for i, want := range c.want {
			if !regexp.MustCompile(want).MatchString(got[i]) {
				t.Errorf("%s: got %q, want %q", c.name, got[i], want)
			}
		}
	}
}

// TestSources: a model says where its samples come from, in the source of a plan's times.
func TestSources(t *testing.T) {
	for _, c := range []struct{ source, comm, note string }{
		{plan.Simulated, "", "trained on SIMULATED kernels"},
		{plan.Measured, "", ""},
		{plan.Measured, plan.Simulated, "all-to-alls are predicted by a model trained on SIMULATED ones"},
	} {
		_, file := load(t)
		file.Manifest.Source, file.Manifest.CommSource = c.source, c.comm
		got := must.Get(cost.Load(file))(t).Estimator()
		if got.Model != file.Manifest.ID || got.ModelSource != c.source || !strings.Contains(got.Note, c.note) || c.note == "" && got.Note != "" {
			t.Errorf("%+v: got %+v, want model %q with the note", c, got, file.Manifest.ID)
		}
	}
}
