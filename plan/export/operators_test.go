package export

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
)

// fused is a case of testdata/operators.json: tables, where they lie, and the operators that
// TorchRec makes of them on each device, each with the names of its tables, one for each
// shard. python/tests/test_torchrec_operators.py runs the cases under TorchRec.
type fused struct {
	Name   string
	Tables []struct {
		Name, Module string
		Rows         int64
		Dim          int
		Pooling      string
		Precision    string
		Optimizer    string
		Weighted     bool
		Prefetch     bool
		ShardingType problem.ShardingType `json:"sharding_type"`
		Tier         problem.Tier
		Operator     problem.Operator
		Settings     string `json:"kernel_settings"`
		Shards       []struct {
			Rows, Columns [2]int64
			Device        int
		}
	}
	Operators [][][]string
}

// TestOperatorsAreThoseOfTorchRec compares the slices that the rules of TorchRec fuse with
// what TorchRec fuses.
func TestOperatorsAreThoseOfTorchRec(t *testing.T) {
	t.Parallel()
	data := must.Get(os.ReadFile("testdata/operators.json"))(t)
	var file struct {
		Devices int
		Cases   []fused
	}
	must.Do(t, json.Unmarshal(data, &file))
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			for device, want := range c.Operators {
				if got := c.on(t, device); !slices.EqualFunc(got, want, slices.Equal) {
					t.Errorf("device %d has operators of %v, under TorchRec of %v", device, got, want)
				}
			}
			if len(c.Operators) != file.Devices {
				t.Errorf("%d lists of operators for %d devices", len(c.Operators), file.Devices)
			}
		})
	}
}

// on returns the operators of a device, by the rules of TorchRec.
func (c *fused) on(t *testing.T, device int) [][]string {
	p := problem.Problem{Engine: problem.TorchRec}
	tables := map[problem.OperatorKey][]string{}
	for i, table := range c.Tables {
		p.Tables = append(p.Tables, problem.Table{
			Name: table.Name, Module: table.Module, Rows: table.Rows, Dim: table.Dim, Weighted: table.Weighted, Prefetch: table.Prefetch, KernelSettings: table.Settings,
			Pooling:   named(t, table.Pooling, problem.ParsePooling),
			Precision: named(t, table.Precision, problem.ParsePrecision),
			Optimizer: named(t, table.Optimizer, problem.ParseOptimizer),
		})
		for _, s := range table.Shards {
			if s.Device != device && s.Device >= 0 {
				continue
			}
			shard := problem.Shard{
				Table: i, Rows: problem.Range{Start: s.Rows[0], End: s.Rows[1]}, Columns: problem.Range{Start: s.Columns[0], End: s.Columns[1]},
				ShardingType: table.ShardingType, Tier: table.Tier, Operator: table.Operator,
			}
			key := p.OperatorKey(i, shard.Dim(), p.Form(shard))
			tables[key] = append(tables[key], table.Name)
		}
	}
	var all [][]string
	for _, names := range tables {
		slices.Sort(names)
		all = append(all, names)
	}
	slices.SortFunc(all, slices.Compare)
	return all
}

// named returns the value that a name stands for, and the zero value for no name.
func named[T any](t *testing.T, name string, parse func(string) (T, error)) (value T) {
	if name == "" {
		return value
	}
	value = must.Get(parse(name))(t)
	return value
}
