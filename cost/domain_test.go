package cost_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
)

// TestInexact wants a doubt about a model whose card states large errors, of lookups or of
// exchanges.
func TestInexact(t *testing.T) {
	for _, c := range []struct {
		name          string
		compute, comm float64
		want          string
	}{
		{"exact", 9.9, 9.9, ""},
		{"lookups", 15, 1, "a mean error of 15 % for the times of lookups"},
		{"exchanges", 1, 12, "a mean error of 12 % for the times of exchanges"},
	} {
		_, file := load(t)
		file.Manifest.Domain = modelfile.Domain{}
		file.Manifest.Card.Compute.Mean, file.Manifest.Card.Comm.Mean = c.compute, c.comm
		p := &problem.Problem{Topology: topology(t, 2, 0), Batch: 8192, Tables: []problem.Table{{Name: "a", Rows: 1000, Dim: 16, Features: []problem.Feature{{PoolingFactor: 1}}}}}
		got := strings.Join(loadFile(t, file).Doubts(p, [][]problem.Shard{{p.Whole(0)}, nil}), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestDoubts(t *testing.T) {
	one := []problem.Feature{{PoolingFactor: 20}}
	domain := modelfile.Domain{
		MinBatch: 1024, MaxBatch: 65536, MinDim: 8, MaxDim: 128, MaxPoolingFactor: 50, MaxRows: 1e6, MaxShards: 3, JudgedShards: 3,
		MinDevices: 2, MaxDevices: 4, Optimizers: []string{"sgd", "rowwise_adagrad"}, Precisions: []string{"fp32"}, Unweighted: true,
	}
	for _, c := range []struct {
		name   string
		change func(d *modelfile.Domain, p *problem.Problem)
		want   string
	}{
		{"inside", func(*modelfile.Domain, *problem.Problem) {}, ""},
		{"a small batch", func(_ *modelfile.Domain, p *problem.Problem) { p.Batch = 512 }, "a batch of 512, only 1024 to 65536"},
		{"a large batch", func(_ *modelfile.Domain, p *problem.Problem) { p.Batch = 131072 }, "a batch of 131072"},
		{"many devices", func(_ *modelfile.Domain, p *problem.Problem) { p.Topology.Devices = 5 }, "5 devices, only up to 4"},
		{"few devices", func(d *modelfile.Domain, _ *problem.Problem) { d.MinDevices = 3 }, "2 devices, only 3 and more"},
		{"one device", func(d *modelfile.Domain, p *problem.Problem) { d.MinDevices, p.Topology.Devices = 3, 1 }, ""},
		{"many shards", func(d *modelfile.Domain, _ *problem.Problem) { d.JudgedShards = 1 }, "2 shards on a device, only up to 1"},
		{"a wide shard", func(d *modelfile.Domain, _ *problem.Problem) { d.MaxDim = 32 }, "shards of 64 columns, only up to 32"},
		{"a narrow shard", func(d *modelfile.Domain, _ *problem.Problem) { d.MinDim = 32 }, "shards of 16 columns, only of 32 and more"},
		{"a long table", func(_ *modelfile.Domain, p *problem.Problem) { p.Tables[0].Rows = 2e6 }, "a table of 2000000 rows"},
		{"much pooling", func(_ *modelfile.Domain, p *problem.Problem) {
			p.Tables[0].Features = []problem.Feature{{PoolingFactor: 60}}
		}, "a pooling factor of 60"},
		{"another optimizer", func(_ *modelfile.Domain, p *problem.Problem) {
			p.Tables[0].Optimizer, p.Tables[1].Optimizer = problem.Adam, problem.Adam
		}, "the optimizer adam, only sgd, rowwise_adagrad"},
		{"another precision", func(_ *modelfile.Domain, p *problem.Problem) { p.Tables[1].Precision = problem.FP16 }, "weights in fp16, only fp32"},
		{"weighted", func(_ *modelfile.Domain, p *problem.Problem) { p.Tables[1].Weighted = true }, "weighted lookups, only unweighted ones"},
		{"a domain without operations", func(d *modelfile.Domain, p *problem.Problem) {
			d.Optimizers, d.Precisions, d.Unweighted, d.MinDim, d.MinDevices = nil, nil, false, 0, 0
			p.Tables[0].Optimizer, p.Tables[1].Precision, p.Tables[0].Weighted = problem.Adam, problem.BF16, true
		}, ""},
		{"no domain", func(d *modelfile.Domain, p *problem.Problem) { *d, p.Batch = modelfile.Domain{}, 1 }, ""},
	} {
		d := domain
		p := &problem.Problem{Topology: topology(t, 2, 0), Batch: 8192, Tables: []problem.Table{
			{Name: "a", Rows: 1000, Dim: 16, Features: one}, {Name: "b", Rows: 1000, Dim: 64, Features: one},
		}}
		c.change(&d, p)
		_, file := load(t)
		file.Manifest.Domain = d
		got := loadFile(t, file).Doubts(p, [][]problem.Shard{{p.Whole(0), p.Whole(1)}, nil})
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s: got %q, want no doubts", c.name, got)
		case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], "has not seen "+c.want)):
			t.Errorf("%s: got %q, want one doubt, of %q", c.name, got, c.want)
		}
	}
}

// TestDoubtsOfVectors wants a doubt about tables of several bags and one about sequences, with the
// number of such tables, from models of measured samples, without a domain, too, and from models whose
// samples have one bag; and none from the shipped models.
func TestDoubtsOfVectors(t *testing.T) {
	one := problem.Feature{Name: "f", PoolingFactor: 3}
	several, part := one, one
	one.Bags, several.Bags, part.Bags = 1, 2, .5
	const bags, sequences = "bags other than 1, .* samples have one pooled vector", "pooling none, .* samples have one pooled vector"
	for _, c := range []struct {
		name     string
		features []problem.Feature
		none     int // the first tables that are sequences
		want     []string
	}{
		{"one bag", []problem.Feature{one, one, one}, 0, nil},
		{"a table of two bags", []problem.Feature{one, several, one}, 0, []string{"^1 table has " + bags}},
		{"a table of half a bag", []problem.Feature{one, part, several}, 0, []string{"^2 tables have " + bags}},
		{"sequences", []problem.Feature{{PoolingFactor: 3}, {PoolingFactor: 1}, one}, 2, []string{"^2 tables have " + sequences}},
		{"both", []problem.Feature{{PoolingFactor: 3}, several, one}, 1, []string{"^1 table has " + bags, "^1 table has " + sequences}},
	} {
		p := &problem.Problem{Topology: topology(t, 2, 0), Batch: 8192}
		var shards []problem.Shard
		for i, f := range c.features {
			table := problem.Table{Name: fmt.Sprint(i), Rows: 1000, Dim: 16, Features: []problem.Feature{f}}
			if i < c.none {
				table.Pooling = problem.PoolingNone
			}
			p.Tables = append(p.Tables, table)
			shards = append(shards, p.Whole(i))
		}
		for _, stated := range []bool{true, false} {
			_, file := load(t)
			if !stated {
				file.Manifest.Domain = modelfile.Domain{}
			}
			if got := loadFile(t, file).Doubts(p, [][]problem.Shard{shards, nil}); len(got) > 0 {
				t.Errorf("%s, a domain: %t, simulated samples: got %q, want no doubts", c.name, stated, got)
			}
			if stated {
				file.Manifest.Domain.OneBag = true
			} else {
				file.Manifest.Source = plan.Measured
			}
			got := loadFile(t, file).Doubts(p, [][]problem.Shard{shards, nil})
			if len(got) != len(c.want) {
				t.Errorf("%s, a domain: %t: got %q, want %d doubts", c.name, stated, got, len(c.want))
				continue
			}
			for i := range got {
				if !regexp.MustCompile(c.want[i]).MatchString(got[i]) {
					t.Errorf("%s, a domain: %t: got %q, want %q", c.name, stated, got[i], c.want[i])
				}
			}
		}
	}
}

// TestSources: a model says where its samples come from, in the source of a plan's times,
// and doubts tables that its samples do not cover: of measured samples, all tables in
// other forms than columns in HBM. Each table counts once.
func TestSources(t *testing.T) {
	for _, c := range []struct {
		name, source, comm string
		note               string
		doubts             int
	}{
		{"simulated", plan.Simulated, "", "trained on SIMULATED kernels", 0},
		{"measured", plan.Measured, "", "", 1},
		{"measured, but the all-to-alls", plan.Measured, plan.Simulated, "all-to-alls are predicted by a model trained on SIMULATED ones", 1},
	} {
		_, file := load(t)
		file.Manifest.Source, file.Manifest.CommSource, file.Manifest.Domain = c.source, c.comm, modelfile.Domain{}
		model := loadFile(t, file)
		got := model.Estimator()
		if got.Model != file.Manifest.ID || got.ModelSource != c.source || !strings.Contains(got.Note, c.note) || c.note == "" && got.Note != "" {
			t.Errorf("%s: got %+v, want model %q of source %q with note %q", c.name, got, file.Manifest.ID, c.source, c.note)
		}
		p := oneTable(t, 1000, 2, 0)
		columns, block, replica := p.Whole(0), p.Whole(0), p.Whole(0)
		block.ShardingType, block.Rows.End = problem.RowWise, 500
		replica.ShardingType = problem.DataParallel
		if got := model.Doubts(p, [][]problem.Shard{{columns}, nil}); len(got) != 0 {
			t.Errorf("%s, columns: got %q, want no doubts", c.name, got)
		}
		for _, shards := range [][][]problem.Shard{{{block}, {block}}, {{replica}, {replica}}} {
			got := model.Doubts(p, shards)
			if len(got) != c.doubts || c.doubts > 0 && !strings.HasPrefix(got[0], "1 tables are cut by rows") {
				t.Errorf("%s, %s: got %q, want %d doubts", c.name, shards[0][0].ShardingType, got, c.doubts)
			}
		}
	}
}
