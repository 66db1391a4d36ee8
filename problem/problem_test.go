package problem_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// sample returns a valid problem of four tables on eight devices.
func sample() problem.Problem {
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		panic(err)
	}
	one := []problem.Feature{{Name: "f", PoolingFactor: 3}}
	return problem.Problem{
		Batch:    65536,
		Topology: hardware.Topology{Profile: profile, Devices: 8, ReserveShare: 0.15},
		Tables: []problem.Table{
			{Name: "a", Rows: 1000, Dim: 64, Features: one},
			{Name: "b", Rows: 2000, Dim: 32, Features: one, Precision: problem.FP16, Optimizer: problem.Adam, Access: access.Distribution{Kind: access.Zipf, Exponent: 1.1}},
			{Name: "c", Rows: 3000, Dim: 128, Features: one, Access: histogram(0.5, 0.5)},
			{Name: "d", Rows: 4000, Dim: 4, Features: one, Weighted: true, Access: access.Distribution{Kind: access.Uniform}},
		},
	}
}

func histogram(shares ...float64) access.Distribution {
	d := access.Distribution{Kind: access.Histogram, Batch: 65536}
	copy(d.Reuse[:], shares)
	return d
}

// checkFaults compares the faults of an error of Validate, in order.
func checkFaults(t *testing.T, name string, err error, want []string) {
	t.Helper()
	var got []string
	if err != nil {
		var invalid *problem.Invalid
		if !errors.As(err, &invalid) {
			t.Errorf("%s: got error %T, want *problem.Invalid", name, err)
			return
		}
		for _, f := range invalid.Faults {
			got = append(got, f.String())
		}
		if joined := strings.Join(got, "\n"); err.Error() != joined {
			t.Errorf("%s: got message %q, want %q", name, err, joined)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: got faults\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestValidate(t *testing.T) {
	const rows, dim = 1 << 40, 1 << 14
	for _, c := range []struct {
		name   string
		change func(*problem.Problem)
		want   []string
	}{
		{"valid", func(*problem.Problem) {}, nil},
		{"valid: the limits", func(p *problem.Problem) {
			p.Tables = []problem.Table{
				{Name: "long", Rows: rows, Dim: 4, Features: []problem.Feature{{}}},
				{Name: "wide", Rows: 1, Dim: dim, Features: []problem.Feature{{PoolingFactor: 1}}},
				{Name: "read often", Rows: 1, Dim: 4, Features: []problem.Feature{{PoolingFactor: 1 << 20}}},
			}
		}, nil},
		{"valid: Adam of a huge table", func(p *problem.Problem) { // the state is not repeated by slices
			p.Tables = []problem.Table{{Name: "a", Rows: rows, Dim: 1 << 12, Optimizer: problem.Adam, Features: []problem.Feature{{PoolingFactor: 1}}}}
		}, nil},
		{"tables that TorchRec does not average", func(p *problem.Problem) {
			p.Engine, p.Topology.Replicas, p.Topology.HostMemory = problem.TorchRec, 2, 1<<30
			p.Tables[0].Optimizer, p.Tables[1].Optimizer = problem.Adam, problem.Adam
			p.Tables[1].Constraint.ShardingTypes = []problem.ShardingType{problem.DataParallel}
			p.Tables[2].Constraint.Tiers = []problem.Tier{problem.HostCached}
		}, []string{
			`table "a": optimizer: TorchRec averages no state of adam, and there are 2 sharding groups`,
			`table "c": its tier is host_cached alone: TorchRec averages the rows in host memory of 2 sharding groups without those in caches`,
		}},
		{"valid: the same tables with one group", func(p *problem.Problem) {
			p.Engine, p.Topology.HostMemory = problem.TorchRec, 1<<30
			p.Tables[0].Optimizer = problem.Adam
			p.Tables[2].Constraint.Tiers = []problem.Tier{problem.HostCached}
		}, nil},
		{"valid: the same tables without an engine", func(p *problem.Problem) {
			p.Topology.Replicas, p.Topology.HostMemory = 2, 1<<30
			p.Tables[0].Optimizer = problem.Adam
			p.Tables[2].Constraint.Tiers = []problem.Tier{problem.HostCached}
		}, nil},
		{"valid: tables near the largest total", func(p *problem.Problem) { p.Tables = large(problem.SGD) }, nil},
		{"the state of each slice is too much", func(p *problem.Problem) { p.Tables = large(problem.RowwiseAdagrad) }, []string{
			"the tables and their buffers add up to 1.3e+18 bytes: more than the 1.15e+18 that can be planned",
		}},
		{"valid: a minimum width of the whole table", func(p *problem.Problem) { p.Tables[0].Constraint.MinWidth = 64 }, nil},
		{"valid: sharding types", func(p *problem.Problem) {
			p.Engine = problem.TorchRec
			p.Tables[0].Constraint.ShardingTypes = []problem.ShardingType{problem.RowWise, problem.Grid}
		}, nil},
		{"unknown sharding type", func(p *problem.Problem) { p.Tables[0].Constraint.ShardingTypes = []problem.ShardingType{"rows"} }, []string{`table "a": sharding type "rows" is unknown`}},
		{"sharding type twice", func(p *problem.Problem) {
			p.Tables[0].Constraint.ShardingTypes = []problem.ShardingType{problem.TableWise, problem.TableWise}
		}, []string{`table "a": sharding type table_wise is listed twice`}},
		{"sharding types of several devices for a pinned table", func(p *problem.Problem) {
			p.Tables[0].Constraint = problem.Constraint{Devices: []int{1}, ShardingTypes: []problem.ShardingType{problem.RowWise}}
		}, []string{`table "a": only some devices are allowed, and tables of its sharding types row_wise lie on all devices of a host or of the cluster`}},
		{"sharding types that split a table of one piece", func(p *problem.Problem) {
			p.Tables[0].Constraint = problem.Constraint{NoSplit: true, ShardingTypes: []problem.ShardingType{problem.RowWise}}
		}, []string{`table "a": the table may not be split, and its sharding types row_wise split it`}},
		{"sharding types in a co-location", func(p *problem.Problem) {
			p.Tables[0].Constraint = problem.Constraint{Colocation: "g", ShardingTypes: []problem.ShardingType{problem.DataParallel}}
		}, []string{`table "a": a co-location keeps the table whole on one device, and its sharding types data_parallel do not`}},
		{"valid: tiers", func(p *problem.Problem) {
			p.Topology.HostMemory = 1 << 30
			p.Tables[0].Constraint = problem.Constraint{Tiers: []problem.Tier{problem.Host, problem.HostCached}, CacheShare: .3}
			p.Tables[1].Constraint = problem.Constraint{Tiers: []problem.Tier{problem.HBM}, Colocation: "g", CacheShare: 0}
		}, nil},
		{"unknown tier", func(p *problem.Problem) { p.Tables[0].Constraint.Tiers = []problem.Tier{"uvm"} }, []string{`table "a": memory tier "uvm" is unknown`}},
		{"tier twice", func(p *problem.Problem) {
			p.Tables[0].Constraint.Tiers = []problem.Tier{problem.HBM, problem.HBM}
		}, []string{`table "a": memory tier hbm is listed twice`}},
		{"tiers in host memory that the cluster has none of", func(p *problem.Problem) {
			p.Tables[0].Constraint.Tiers = []problem.Tier{problem.HostCached}
		}, []string{`table "a": its tiers host_cached are in host memory, and the cluster states none`}},
		{"tiers in host memory of a co-location", func(p *problem.Problem) {
			p.Topology.HostMemory = 1 << 30
			p.Tables[0].Constraint = problem.Constraint{Tiers: []problem.Tier{problem.Host}, Colocation: "g"}
		}, []string{`table "a": a co-location lies in hbm, and its tiers are host`}},
		{"tiers in host memory of sharding types in HBM", func(p *problem.Problem) {
			p.Topology.HostMemory = 1 << 30
			p.Tables[0].Constraint = problem.Constraint{Tiers: []problem.Tier{problem.Host}, ShardingTypes: []problem.ShardingType{problem.RowWise}}
		}, []string{`table "a": tables of its sharding types row_wise lie in hbm, and its tiers are host`}},
		{"cache share", func(p *problem.Problem) { p.Tables[0].Constraint.CacheShare = 1 }, []string{`table "a": cache_share: 1 is not above 0 and below 1`}},
		{"cache share without a cache", func(p *problem.Problem) {
			p.Tables[0].Constraint = problem.Constraint{Tiers: []problem.Tier{problem.HBM}, CacheShare: .5}
		}, []string{`table "a": a cache share is stated, and its tiers hbm have no cache`}},
		{"unknown engine", func(p *problem.Problem) { p.Engine = "pytorch" }, []string{`engine: "pytorch" is unknown`}},
		{"host memory for an engine without", func(p *problem.Problem) {
			p.Engine, p.Topology.HostMemory = problem.HugeCTR, 1<<30
		}, []string{`engine: hugectr keeps all tables in the memory of the devices, and the cluster states host memory for tables`}},
		{"zero rows", func(p *problem.Problem) { p.Tables[0].Rows = 0 }, []string{`table "a": rows: 0 is not between 1 and 1099511627776`}},
		{"negative rows", func(p *problem.Problem) { p.Tables[0].Rows = -5 }, []string{`table "a": rows: -5 is not between 1 and 1099511627776`}},
		{"huge rows", func(p *problem.Problem) { p.Tables[0].Rows = rows + 1 }, []string{`table "a": rows: 1099511627777 is not between 1 and 1099511627776`}},
		{"zero dim", func(p *problem.Problem) { p.Tables[0].Dim = 0 }, []string{`table "a": dim: 0 is not between 4 and 16384`}},
		{"negative dim", func(p *problem.Problem) { p.Tables[0].Dim = -4 }, []string{`table "a": dim: -4 is not between 4 and 16384`}},
		{"huge dim", func(p *problem.Problem) { p.Tables[0].Dim = dim + 4 }, []string{`table "a": dim: 16388 is not between 4 and 16384`}},
		{"odd dim", func(p *problem.Problem) { p.Tables[0].Dim = 6 }, []string{`table "a": dim 6 is not a multiple of 4`}},
		{"no features", func(p *problem.Problem) { p.Tables[0].Features = nil }, []string{`table "a": 0 features: a table is read by 1 to 4096`}},
		{"many features", func(p *problem.Problem) { p.Tables[0].Features = make([]problem.Feature, 4097) }, []string{`table "a": 4097 features: a table is read by 1 to 4096`}},
		{"negative pooling", func(p *problem.Problem) { p.Tables[0].Features = pooled(-1) }, []string{`table "a": pooling_factor: -1 is not between 0 and 1048576`}},
		{"huge pooling", func(p *problem.Problem) { p.Tables[0].Features = pooled(1 << 21) }, []string{`table "a": pooling_factor: 2097152 is not between 0 and 1048576`}},
		{"pooling not a number", func(p *problem.Problem) { p.Tables[0].Features = pooled(math.NaN()) }, []string{`table "a": pooling_factor: NaN is not between 0 and 1048576`}},
		{"negative spread of lengths", func(p *problem.Problem) { p.Tables[0].Features = spread(-.1) }, []string{`table "a": length_cv: -0.1 is not between 0 and 1000`}},
		{"huge spread of lengths", func(p *problem.Problem) { p.Tables[0].Features = spread(math.Inf(1)) }, []string{`table "a": length_cv: +Inf is not between 0 and 1000`}},
		{"spread of lengths not a number", func(p *problem.Problem) { p.Tables[0].Features = spread(math.NaN()) }, []string{`table "a": length_cv: NaN is not between 0 and 1000`}},
		{"infinite pooling", func(p *problem.Problem) { p.Tables[0].Features = pooled(math.Inf(1)) }, []string{`table "a": pooling_factor: +Inf is not between 0 and 1048576`}},
		{"every feature is checked", func(p *problem.Problem) { p.Tables[0].Features = pooled(1, -2, 3, -4) }, []string{
			`table "a": pooling_factor: -2 is not between 0 and 1048576`,
			`table "a": pooling_factor: -4 is not between 0 and 1048576`,
		}},
		{"output precision", func(p *problem.Problem) { p.Tables[0].OutputPrecision = 4 }, []string{`table "a": output precision: unknown value 4`}},
		{"precision", func(p *problem.Problem) { p.Tables[0].Precision = 3 }, []string{`table "a": precision: unknown value 3`}},
		{"optimizer", func(p *problem.Problem) { p.Tables[0].Optimizer = 4 }, []string{`table "a": optimizer: unknown value 4`}},
		{"no name", func(p *problem.Problem) { p.Tables[1].Name = "" }, []string{`table "#1": it has no name`}},
		{"name used twice", func(p *problem.Problem) { p.Tables[3].Name = "b" }, []string{`table "b": the name is used twice, by tables #1 and #3`}},
		{"access kind", func(p *problem.Problem) { p.Tables[0].Access.Kind = 9 }, []string{`table "a": access: unknown kind 9`}},
		{"index law", func(p *problem.Problem) { p.Tables[0].Access.Law = 7 }, []string{`table "a": access: unknown index law 7`}},
		{"zero exponent", func(p *problem.Problem) { p.Tables[1].Access.Exponent = 0 }, []string{`table "b": zipf: 0 is not above 0 and at most 10`}},
		{"large exponent", func(p *problem.Problem) { p.Tables[1].Access.Exponent = 10.5 }, []string{`table "b": zipf: 10.5 is not above 0 and at most 10`}},
		{"exponent not a number", func(p *problem.Problem) { p.Tables[1].Access.Exponent = math.NaN() }, []string{`table "b": zipf: NaN is not above 0 and at most 10`}},
		{"histogram sum too small", func(p *problem.Problem) { p.Tables[2].Access = histogram(0.5, 0.48) }, []string{`table "c": reuse: the shares add up to 0.98`}},
		{"histogram sum too large", func(p *problem.Problem) { p.Tables[2].Access = histogram(0.5, 0.52) }, []string{`table "c": reuse: the shares add up to 1.02`}},
		{"histogram sum rounded", func(p *problem.Problem) { p.Tables[2].Access = histogram(0.5, 0.495) }, nil},
		{"negative share", func(p *problem.Problem) { p.Tables[2].Access = histogram(1.5, -0.5) }, []string{`table "c": reuse: share 1.5 is not between 0 and 1`}},
		{"share not a number", func(p *problem.Problem) { p.Tables[2].Access = histogram(0.5, math.NaN()) }, []string{`table "c": reuse: share NaN is not between 0 and 1`}},
		{"histogram without a batch", func(p *problem.Problem) { p.Tables[2].Access.Batch = 0 }, []string{`table "c": reuse_batch: 0 is not between 1 and 16777216`}},
		{"histogram with a huge batch", func(p *problem.Problem) { p.Tables[2].Access.Batch = 1<<24 + 1 }, []string{`table "c": reuse_batch: 16777217 is not between 1 and 16777216`}},
		{"negative unique rows", func(p *problem.Problem) { p.Tables[2].Access.UniqueRows = -1 }, []string{`table "c": unique_rows: -1 is not between 0 and 1099511627776`}},
		{"unique rows not a number", func(p *problem.Problem) { p.Tables[2].Access.UniqueRows = math.NaN() }, []string{`table "c": unique_rows: NaN is not between 0 and 1099511627776`}},
		{"missing device", func(p *problem.Problem) { p.Tables[0].Constraint.Devices = []int{0, 8, -1} }, []string{
			`table "a": allowed device 8 does not exist: the cluster has 8 devices`,
			`table "a": allowed device -1 does not exist: the cluster has 8 devices`,
		}},
		{"missing device of a cluster of one", func(p *problem.Problem) {
			p.Topology.Devices = 1
			p.Tables[0].Constraint.Devices = []int{1}
		}, []string{`table "a": allowed device 1 does not exist: the cluster has 1 device`}},
		{"missing device of a sharding group", func(p *problem.Problem) {
			p.Topology.Devices, p.Topology.Replicas = 4, 2
			p.Tables[0].Constraint.Devices = []int{4}
		}, []string{`table "a": allowed device 4 does not exist: a sharding group has 4 devices`}},
		{"device of a cluster of a wrong size", func(p *problem.Problem) {
			p.Topology.Devices = 0
			p.Tables[0].Constraint.Devices = []int{7, 1 << 16}
		}, []string{"devices: 0 is not between 1 and 65536", `table "a": allowed device 65536 does not exist: a cluster has at most 65536 devices`}},
		{"numbers of a cluster", func(p *problem.Problem) {
			t := &p.Topology
			t.NetworkBandwidth, t.Links, t.HBM, t.HostLink = -1e9, 50, 1e17, unit.Bandwidth(math.NaN())
			t.Backward, t.WeightedBackward = -1, math.NaN()
		}, []string{
			"network bandwidth: -1.00 GB/s is not between 1.00 MB/s and 100 TB/s", "link bandwidth: 50.0 B/s is not between 1.00 MB/s and 100 TB/s", "hbm bandwidth: 100000 TB/s is not between 1.00 MB/s and 100 TB/s",
			"host link bandwidth: NaN B/s is not between 1.00 MB/s and 100 TB/s", "backward multiplier: -1 is not above 0 and at most 1000", "weighted backward multiplier: NaN is not above 0 and at most 1000",
		}},
		{"wrong share and batch", func(p *problem.Problem) {
			p.Tables[2].Access = histogram(1.5, -0.5)
			p.Tables[2].Access.Batch = 0
		}, []string{`table "c": reuse: share 1.5 is not between 0 and 1`, `table "c": reuse_batch: 0 is not between 1 and 16777216`}},
		{"minimum width above any dim", func(p *problem.Problem) { p.Tables[0].Constraint.MinWidth = 1 << 15 }, []string{`table "a": min_width: 32768 is not between 0 and 16384`}},
		{"device listed twice", func(p *problem.Problem) { p.Tables[0].Constraint.Devices = []int{3, 1, 3} }, []string{`table "a": allowed device 3 is listed twice`}},
		{"odd minimum width", func(p *problem.Problem) { p.Tables[0].Constraint.MinWidth = 6 }, []string{`table "a": min_width: 6 is not a multiple of 4`}},
		{"negative minimum width", func(p *problem.Problem) { p.Tables[0].Constraint.MinWidth = -4 }, []string{`table "a": min_width: -4 is not between 0 and 16384`}},
		{"minimum width above the dim", func(p *problem.Problem) { p.Tables[0].Constraint.MinWidth = 68 }, []string{`table "a": min_width: 68 is above the table's dim 64`}},
		{"group without a device in common", func(p *problem.Problem) {
			p.Tables[0].Constraint = problem.Constraint{Colocation: "g", Devices: []int{0, 1}}
			p.Tables[1].Constraint = problem.Constraint{Colocation: "g", Devices: []int{1, 2}}
			p.Tables[2].Constraint = problem.Constraint{Colocation: "g", Devices: []int{2, 0}}
		}, []string{`co-location "g": its tables a, b, c have no allowed device in common`}},
		{"group with a device in common", func(p *problem.Problem) {
			p.Tables[0].Constraint = problem.Constraint{Colocation: "g", Devices: []int{0, 1}}
			p.Tables[1].Constraint = problem.Constraint{Colocation: "g"}
			p.Tables[2].Constraint = problem.Constraint{Colocation: "g", Devices: []int{2, 1}}
		}, nil},
		{"no batch", func(p *problem.Problem) { p.Batch = 0 }, []string{"batch: 0 is not between 1 and 16777216"}},
		{"huge batch", func(p *problem.Problem) { p.Batch = 1<<24 + 1 }, []string{"batch: 16777217 is not between 1 and 16777216"}},
		{"no tables", func(p *problem.Problem) { p.Tables = nil }, []string{"0 tables: a problem has 1 to 1048576"}},
		{"topology", func(p *problem.Problem) { p.Topology.ReserveShare, p.Topology.DevicesPerHost = 2, -1 }, []string{
			"devices per host: -1 is negative",
			"reserve share: 2 is not at least 0 and below 1",
		}},
		{"lookups beyond counting, though only weights count", func(p *problem.Problem) {
			p.Accounting = problem.CountWeights
			p.Batch = problem.MaxBatch
			p.Tables = []problem.Table{{Name: "a", Rows: 1, Dim: 4, Features: slices.Repeat(pooled(1<<20), 4096)}}
		}, []string{"the tables and their buffers add up to 3.03e+18 bytes: more than the 1.15e+18 that can be planned"}},
	} {
		p := sample()
		c.change(&p)
		checkFaults(t, c.name, p.Validate(), c.want)
	}
}

// large returns tables whose weights are three quarters of what can be planned.
// Their row-wise state, one number for each row of each slice, is half as much.
func large(o problem.Optimizer) []problem.Table {
	tables := make([]problem.Table, 24)
	for i := range tables {
		tables[i] = problem.Table{Name: fmt.Sprint("t", i), Rows: problem.MaxRows, Dim: problem.MaxDim, Features: pooled(1), Precision: problem.FP16, Optimizer: o}
	}
	return tables
}

// spread returns one feature whose lengths have that coefficient of variation.
func spread(cv float64) []problem.Feature {
	return []problem.Feature{{PoolingFactor: 1, LengthCV: cv}}
}

func pooled(factors ...float64) []problem.Feature {
	features := make([]problem.Feature, len(factors))
	for i, f := range factors {
		features[i].PoolingFactor = f
	}
	return features
}

// One call reports everything: a user mends a file once.
func TestValidateReportsAllFaults(t *testing.T) {
	p := sample()
	p.Batch = -1
	p.Topology.ReserveShare = -1
	p.Tables[0] = problem.Table{Rows: -1, Dim: 6, Features: pooled(-1), Precision: 7, Optimizer: 7, Access: histogram(2)}
	p.Tables[1].Name = "d"
	p.Tables[1].Access.Exponent = -1
	p.Tables[1].Constraint = problem.Constraint{Colocation: "g", Devices: []int{1, 9}, MinWidth: 3}
	p.Tables[2].Constraint = problem.Constraint{Colocation: "g", Devices: []int{2, 2}}
	err := p.Validate()
	checkFaults(t, "all", err, []string{
		"reserve share: -1 is not at least 0 and below 1",
		"batch: -1 is not between 1 and 16777216",
		`table "#0": it has no name`,
		`table "#0": rows: -1 is not between 1 and 1099511627776`,
		`table "#0": dim 6 is not a multiple of 4`,
		`table "#0": pooling_factor: -1 is not between 0 and 1048576`,
		`table "#0": precision: unknown value 7`,
		`table "#0": optimizer: unknown value 7`,
		`table "#0": reuse: share 2 is not between 0 and 1`,
		`table "d": zipf: -1 is not above 0 and at most 10`,
		`table "d": allowed device 9 does not exist: the cluster has 8 devices`,
		`table "d": min_width: 3 is not a multiple of 4`,
		`table "c": allowed device 2 is listed twice`,
		`table "d": the name is used twice, by tables #1 and #3`,
		`co-location "g": its tables d, c have no allowed device in common`,
	})
}

// Hints say what to do; the one for an odd dim names the width to pad to.
func TestHints(t *testing.T) {
	p := sample()
	p.Tables[0].Dim = 6
	p.Tables[1].Dim = 13
	var invalid *problem.Invalid
	if err := p.Validate(); !errors.As(err, &invalid) || len(invalid.Faults) != 2 {
		t.Fatalf("got %v, want two faults", err)
	}
	for i, want := range []string{"pad the table to 8 columns", "pad the table to 16 columns"} {
		if got := invalid.Faults[i].Hint; got != want {
			t.Errorf("got hint %q, want %q", got, want)
		}
	}
}

func TestGroups(t *testing.T) {
	p := sample()
	p.Tables[0].Constraint.Devices = []int{3, 1}
	p.Tables[1].Constraint = problem.Constraint{Colocation: "g", Devices: []int{5, 4, 2}}
	p.Tables[2].Constraint = problem.Constraint{Colocation: "h"}
	p.Tables[3].Constraint = problem.Constraint{Colocation: "g", Devices: []int{2, 5}}
	want := []problem.Colocation{
		{Tables: []int{0}, Devices: []int{1, 3}},
		{Tables: []int{1, 3}, Devices: []int{2, 5}},
		{Tables: []int{2}},
	}
	equal := func(a, b problem.Colocation) bool {
		return slices.Equal(a.Tables, b.Tables) && slices.Equal(a.Devices, b.Devices) && (a.Devices == nil) == (b.Devices == nil)
	}
	if got := p.Colocations(); !slices.EqualFunc(got, want, equal) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := p.Tables[0].Constraint.Devices; !slices.Equal(got, []int{3, 1}) {
		t.Errorf("Groups changed the constraint to %v", got)
	}
	// Tables without a group stand alone, however many there are.
	plain := sample()
	if got := plain.Colocations(); len(got) != 4 || len(got[3].Tables) != 1 || got[3].Tables[0] != 3 {
		t.Errorf("got %+v, want each table alone", got)
	}
	// A table that may go anywhere takes over its group's devices.
	p.Tables[1].Constraint.Devices = nil
	if got := p.Colocations()[1]; !slices.Equal(got.Devices, []int{2, 5}) {
		t.Errorf("got devices %v, want [2 5]", got.Devices)
	}
}

func TestNames(t *testing.T) {
	for i, name := range []string{"fp32", "fp16", "bf16"} {
		got, err := problem.ParsePrecision(name)
		if err != nil || got != problem.Precision(i) || got.String() != name {
			t.Errorf("precision %q: got %v, %v, want number %d", name, got, err, i)
		}
	}
	for i, name := range []string{"sgd", "rowwise_adagrad", "adagrad", "adam"} {
		got, err := problem.ParseOptimizer(name)
		if err != nil || got != problem.Optimizer(i) || got.String() != name {
			t.Errorf("optimizer %q: got %v, %v, want number %d", name, got, err, i)
		}
	}
	if _, err := problem.ParsePrecision("FP32"); err == nil || err.Error() != `precision "FP32" is unknown: choose one of fp32, fp16, bf16` {
		t.Errorf("got %v, want an error with the choices", err)
	}
	if _, err := problem.ParseOptimizer("lamb"); err == nil || err.Error() != `optimizer "lamb" is unknown: choose one of sgd, rowwise_adagrad, adagrad, adam` {
		t.Errorf("got %v, want an error with the choices", err)
	}
	if got, want := problem.Optimizer(9).String(), "Optimizer(9)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOperation(t *testing.T) {
	p := sample()
	want := problem.Operation{Batch: 65536, Optimizer: problem.Adam, Precision: problem.FP16}
	if got := p.Operation(1); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := p.Operation(3); !got.Weighted || got == want {
		t.Errorf("got %+v, want a weighted operation", got)
	}
}

func TestPoolingFactorAndDimSum(t *testing.T) {
	p := sample()
	p.Tables[0].Features = pooled(1.5, 0, 2.25)
	if got, want := p.Tables[0].PoolingFactor(), 3.75; got != want {
		t.Errorf("got %v lookups a sample, want %v", got, want)
	}
	if got, want := p.DimSum(p.Whole(0)), 3*64; got != want {
		t.Errorf("got a dim sum of %d, want %d", got, want)
	}
	if got, want := p.Tables[0].Counts(p.Batch).Lookups, 3.75*65536; got != want {
		t.Errorf("got %v lookups a batch, want %v", got, want)
	}
}

func TestLocalName(t *testing.T) {
	for _, c := range [][3]string{
		{"", "user", "user"},
		{"", "/user", "/user"},
		{"sparse.ebc", "user", "user"},
		{"sparse.ebc", "sparse.ebc/user", "user"},
		{"sparse.ebc", "sparse.ebc/sparse.ebc/user", "sparse.ebc/user"},
		{"sparse.ebc", "sparse.ebc.user", "sparse.ebc.user"},
		{"a", "b/user", "b/user"},
	} {
		if got := problem.LocalName(c[0], c[1]); got != c[2] {
			t.Errorf("module %q, table %q: got %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

// TestCountsOfSeveralFeatures: under the law of one-hot ids, each feature draws an id for each
// sample, so two features of 8 rows an id read what one feature reads in twice the samples.
func TestCountsOfSeveralFeatures(t *testing.T) {
	one := problem.Table{
		Rows: 1_000_000, Features: []problem.Feature{{PoolingFactor: 8}},
		Access: access.Distribution{Kind: access.Zipf, Exponent: 1.1, Law: access.MultiHot},
	}
	two := one
	two.Features = []problem.Feature{{PoolingFactor: 8}, {PoolingFactor: 8}}
	if got, want := two.Counts(1000), one.Counts(2000); got != want {
		t.Errorf("two features, batch 1000: got %+v, want that of one feature at 2000, %+v", got, want)
	}
	two.Access = access.Distribution{Kind: access.Histogram, Batch: 1000, UniqueRows: 777, Law: access.MultiHot}
	two.Access.Reuse[0] = 1
	if got := two.Counts(1000).Unique; got != 777 {
		t.Errorf("a histogram of both features: got %v distinct rows, want 777", got)
	}
}
