package plan

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// violations returns what Validate finds.
func violations(t interface{ Fatalf(string, ...any) }, pl *Plan, p *problem.Problem) []Violation {
	err := pl.Validate(p)
	if err == nil {
		return nil
	}
	var invalid *Invalid
	if !errors.As(err, &invalid) {
		t.Fatalf("got error %v of type %T, want *Invalid", err, err)
	}
	return invalid.Violations
}

func span(start, end int64) problem.Range { return problem.Range{Start: start, End: end} }

// Each case breaks the sample in one way and lists the rules of all violations that Validate
// then reports. What the plan states of its devices is counted again after the
// change, except where the case is about it.
func TestValidateMutations(t *testing.T) {
	const (
		user = iota
		item
		word
		place
		hour
		rows
		host
		grid
		everywhere
	)
	cases := []struct {
		name   string
		mutate func(p *problem.Problem, pl *Plan)
		stated bool // keep what the plan states
		// want are the rules of the violations, in order.
		want string
	}{
		{"of a program that knew no pools", func(_ *problem.Problem, pl *Plan) {
			for d := range pl.Devices {
				pl.Devices[d].Pools = 0
			}
		}, true, ""},
		{"other pools", func(_ *problem.Problem, pl *Plan) { pl.Devices[2].Pools++ }, true, "stated"},
		// Modules.
		{"another module", func(p *problem.Problem, pl *Plan) {
			p.Tables[user].Module, p.Tables[item].Module, p.Tables[word].Module = "a.ebc", "b.ebc", "c.ebc"
			pl.Tables[user].Module, pl.Tables[word].Module = "model.a.ebc", "c.ebc"
		}, true, "tables stated stated stated stated"}, // vectors of one of several modules count once more
		{"module that the problem leaves open", func(_ *problem.Problem, pl *Plan) { pl.Tables[user].Module = "ebc" }, true, ""},
		// Engines and the sharding types that constraints allow.
		{"slices of unequal widths for an engine", func(p *problem.Problem, _ *Plan) {
			p.Engine = problem.TorchRec
		}, true, "engine engine"},
		{"sharding types", func(p *problem.Problem, _ *Plan) {
			p.Tables[item].Constraint.ShardingTypes = []problem.ShardingType{TableWise, RowWise}
			p.Tables[user].Constraint.ShardingTypes = []problem.ShardingType{ColumnWise}
		}, true, "sharding_type"},
		// Cover.
		{"no shard", func(_ *problem.Problem, pl *Plan) { pl.Tables[user].Shards = nil }, false, "cover"},
		{"middle slice dropped", func(_ *problem.Problem, pl *Plan) {
			pl.Tables[item].Shards = slices.Delete(pl.Tables[item].Shards, 1, 2)
		}, false, "cover"},
		{"middle rows dropped", func(_ *problem.Problem, pl *Plan) {
			pl.Tables[rows].Shards = slices.Delete(pl.Tables[rows].Shards, 1, 3)
		}, false, "cover"},
		{"slice placed twice", func(_ *problem.Problem, pl *Plan) {
			s := pl.Tables[item].Shards[1]
			s.Device = 0
			pl.Tables[item].Shards = append(pl.Tables[item].Shards, s)
		}, false, "cover"},
		{"whole table placed twice", func(_ *problem.Problem, pl *Plan) {
			pl.Tables[hour].Shards = append(pl.Tables[hour].Shards, pl.Tables[hour].Shards[0])
		}, false, "cover sharding_type split"},
		{"slice shifted", func(_ *problem.Problem, pl *Plan) { pl.Tables[item].Shards[1].Columns = span(44, 60) }, false, "cover cover"},
		{"columns beyond the table", func(_ *problem.Problem, pl *Plan) { pl.Tables[item].Shards[2].Columns = span(64, 132) }, false, "cover"},
		{"no columns", func(_ *problem.Problem, pl *Plan) { pl.Tables[grid].Shards[0].Columns = span(8, 8) }, false, "cover width"},

		// Sharding types.
		{"table_wise in slices", func(_ *problem.Problem, pl *Plan) { pl.Tables[item].ShardingType = TableWise }, false, "sharding_type sharding_type sharding_type sharding_type"},
		{"column_wise in one", func(_ *problem.Problem, pl *Plan) { pl.Tables[user].ShardingType = ColumnWise }, false, "sharding_type"},
		{"column_wise with rows cut", func(_ *problem.Problem, pl *Plan) {
			s := &pl.Tables[item].Shards[2]
			s.Rows = span(0, 1500)
			rest := *s
			rest.Rows = span(1500, 2000)
			pl.Tables[item].Shards = append(pl.Tables[item].Shards, rest)
		}, false, "sharding_type sharding_type"},
		{"row_wise with columns cut", func(_ *problem.Problem, pl *Plan) {
			pl.Tables[grid].ShardingType = RowWise
			pl.Tables[grid].Shards = []Shard{
				{span(0, 300), span(0, 12), 0, HBM, 0}, {span(0, 300), span(12, 24), 1, HBM, 0},
			}
		}, false, "sharding_type sharding_type"},
		{"table_row_wise over hosts", func(_ *problem.Problem, pl *Plan) { pl.Tables[host].Shards[1].Device = 1 }, false, "sharding_type"},
		{"grid over hosts", func(_ *problem.Problem, pl *Plan) { pl.Tables[grid].Shards[3].Device = 2 }, false, "sharding_type"},
		{"row_wise in other blocks", func(_ *problem.Problem, pl *Plan) {
			pl.Tables[rows].Shards[1].Rows, pl.Tables[rows].Shards[2].Rows = span(1000, 2500), span(2500, 3000)
		}, false, "rows"},
		{"row_wise in another order", func(_ *problem.Problem, pl *Plan) {
			pl.Tables[rows].Shards[0].Device, pl.Tables[rows].Shards[1].Device = 1, 0
		}, false, "rows"},
		{"row_wise on two devices of four", func(_ *problem.Problem, pl *Plan) {
			pl.Tables[rows].Shards = pl.Tables[rows].Shards[:2]
			pl.Tables[rows].Shards[0].Rows, pl.Tables[rows].Shards[1].Rows = span(0, 2000), span(2000, 4000)
		}, false, "rows"},
		{"row_wise with rows for three devices", func(p *problem.Problem, pl *Plan) {
			p.Tables[rows].Rows, pl.Tables[rows].Rows = 9, 9
			pl.Tables[rows].Shards = pl.Tables[rows].Shards[:3]
			for i := range pl.Tables[rows].Shards {
				pl.Tables[rows].Shards[i].Rows = span(3*int64(i), 3*int64(i)+3)
			}
		}, false, ""},
		{"table_row_wise in another order", func(_ *problem.Problem, pl *Plan) {
			pl.Tables[host].Shards[0].Device, pl.Tables[host].Shards[1].Device = 3, 2
		}, false, "rows"},
		{"a grid's slice in other blocks", func(_ *problem.Problem, pl *Plan) {
			pl.Tables[grid].Shards[2].Rows, pl.Tables[grid].Shards[3].Rows = span(0, 100), span(100, 300)
		}, false, "rows"},
		{"a grid on one host", func(_ *problem.Problem, pl *Plan) {
			pl.Tables[grid].Shards[0].Device, pl.Tables[grid].Shards[1].Device = 0, 1
		}, false, ""},
		{"rows on a host that is not full", func(p *problem.Problem, pl *Plan) {
			p.Topology.DevicesPerHost = 3
			pl.Cluster.DevicesPerHost = 3
			pl.Tables[host].Shards = []Shard{{span(0, 4000), span(0, 8), 3, HBM, 0}, {span(0, 4000), span(8, 16), 3, HBM, 0}}
			pl.Tables[host].ShardingType = Grid
			pl.Tables[grid] = Table{Name: "grid", Rows: 300, Dim: 24, ShardingType: TableRowWise, Shards: []Shard{
				{span(0, 100), span(0, 24), 0, HBM, 0}, {span(100, 200), span(0, 24), 1, HBM, 0}, {span(200, 300), span(0, 24), 2, HBM, 0},
			}}
		}, false, "rows rows"},
		{"pinwheel", func(_ *problem.Problem, pl *Plan) {
			pl.Tables[grid].Shards = []Shard{
				{span(0, 200), span(0, 8), 0, HBM, 0},
				{span(200, 300), span(0, 16), 0, HBM, 0},
				{span(100, 200), span(8, 16), 0, HBM, 0},
				{span(0, 100), span(8, 24), 0, HBM, 0},
				{span(100, 300), span(16, 24), 0, HBM, 0},
			}
		}, false, "cover cover cover cover cover cover cover cover cover cover"},
		{"data_parallel on one device", func(_ *problem.Problem, pl *Plan) { pl.Tables[everywhere].Shards[0].Device = 3 }, false, "sharding_type"},
		{"table_wise on every device", func(_ *problem.Problem, pl *Plan) { pl.Tables[hour].Shards[0].Device = -1 }, false, "sharding_type"},
		{"unknown sharding type", func(_ *problem.Problem, pl *Plan) { pl.Tables[item].ShardingType = "diagonal" }, false, "sharding_type"},

		// Widths and splits.
		{"odd width", func(_ *problem.Problem, pl *Plan) {
			pl.Tables[item].Shards[0].Columns = span(0, 46)
			pl.Tables[item].Shards[1].Columns = span(46, 64)
		}, false, "width width"},
		{"too narrow", func(_ *problem.Problem, pl *Plan) {
			pl.Tables[item].Shards[0].Columns = span(0, 52)
			pl.Tables[item].Shards[1].Columns = span(52, 64)
		}, false, "width"},
		{"split against no_split", func(_ *problem.Problem, pl *Plan) {
			pl.Tables[hour].ShardingType = ColumnWise
			pl.Tables[hour].Shards = []Shard{{span(0, 24), span(0, 4), 0, HBM, 0}, {span(0, 24), span(4, 8), 0, HBM, 0}}
		}, false, "split"},
		{"split in a group", func(_ *problem.Problem, pl *Plan) {
			pl.Tables[place].ShardingType = ColumnWise
			pl.Tables[place].Shards = []Shard{{span(0, 700), span(0, 8), 0, HBM, 0}, {span(0, 700), span(8, 16), 0, HBM, 0}}
		}, false, "split"},

		// Devices, groups, tiers.
		{"slices on two hosts", func(p *problem.Problem, _ *Plan) { p.Tables[item].Constraint.OneHost = true }, true, "device"},
		{"blocks on two hosts", func(p *problem.Problem, _ *Plan) { p.Tables[rows].Constraint.OneHost = true }, true, ""},
		{"device that is not there", func(_ *problem.Problem, pl *Plan) { pl.Tables[hour].Shards[0].Device = 4 }, false, "device"},
		{"negative device", func(_ *problem.Problem, pl *Plan) { pl.Tables[hour].Shards[0].Device = -2 }, false, "device"},
		{"device that is not allowed", func(_ *problem.Problem, pl *Plan) { pl.Tables[word].Shards[0].Device = 3 }, false, "device"},
		{"replicated to devices that are not allowed", func(_ *problem.Problem, pl *Plan) {
			pl.Tables[word].ShardingType = DataParallel
			pl.Tables[word].Shards[0].Device = -1
		}, false, "device"},
		{"replicated to a device that is not allowed", func(p *problem.Problem, pl *Plan) {
			p.Tables[word].Constraint.Devices = []int{0, 1, 3}
			pl.Tables[word].ShardingType = DataParallel
			pl.Tables[word].Shards[0].Device = -1
		}, false, "device"},
		{"group apart", func(_ *problem.Problem, pl *Plan) { pl.Tables[place].Shards[0].Device = 2 }, false, "group"},
		{"host memory", func(_ *problem.Problem, pl *Plan) { pl.Tables[item].Shards[1].Tier = Host }, false, "tier"},
		{"host memory that there is", func(p *problem.Problem, pl *Plan) {
			p.Topology.HostMemory = 4 * unit.MiB
			pl.Cluster = clusterOf(p)
			for k := range pl.Tables[item].Shards {
				pl.Tables[item].Shards[k].Tier = Host
			}
			pl.Tables[user].Shards[0].Tier, pl.Tables[user].Shards[0].Cache = HostCached, 0.5
		}, false, ""},
		{"too little host memory", func(p *problem.Problem, pl *Plan) {
			p.Topology.HostMemory = 1000 * unit.KiB
			pl.Cluster = clusterOf(p)
			for k := range pl.Tables[item].Shards {
				pl.Tables[item].Shards[k].Tier = Host
			}
		}, false, "memory"},
		{"host memory of another size", func(p *problem.Problem, pl *Plan) {
			p.Topology.HostMemory, pl.Cluster.HostMemory = 2*unit.GiB, unit.GiB
			p.CommPrecision, p.LaneRule = problem.BF16, problem.LanesByTable
		}, true, "cluster cluster cluster"},
		{"another pipeline", func(p *problem.Problem, _ *Plan) { p.Pipeline = problem.PrefetchPipeline }, false, "cluster"},
		{"another overhead of the allocator", func(p *problem.Problem, _ *Plan) { p.Topology.AllocatorOverhead = 0.1 }, false, "cluster"},
		{"bytes of the allocator", func(_ *problem.Problem, pl *Plan) { pl.Devices[1].Memory.Allocator = 8 }, true, "stated"},
		{"the default pipeline", func(p *problem.Problem, _ *Plan) { p.Pipeline = problem.SparseDistPipeline }, false, ""},
		{"other links", func(p *problem.Problem, pl *Plan) {
			p.Topology.NetworkBandwidth, p.Topology.NVLinkDomain = 50*unit.Bandwidth(unit.GB), 4
		}, true, "cluster cluster"},
		{"links as the profile and the hosts have them", func(p *problem.Problem, _ *Plan) {
			p.Topology.NetworkBandwidth, p.Topology.NVLinkDomain = unit.Bandwidth(p.Topology.Profile.NICGBps*1e9), 2
		}, false, ""},
		{"a share of a cache", func(p *problem.Problem, pl *Plan) {
			p.Topology.HostMemory = unit.GiB
			pl.Cluster = clusterOf(p)
			pl.Tables[user].Shards[0].Cache = 0.5
			pl.Tables[item].Shards[0].Tier = HostCached
			pl.Tables[item].Shards[1].Tier, pl.Tables[item].Shards[1].Cache = HostCached, 1
			pl.Tables[item].Shards[2].Tier, pl.Tables[item].Shards[2].Cache = HostCached, math.NaN()
		}, false, "tier tier tier tier"},
		{"tiers that constraints forbid", func(p *problem.Problem, pl *Plan) {
			p.Topology.HostMemory = unit.GiB
			pl.Cluster = clusterOf(p)
			p.Tables[user].Constraint.Tiers = []Tier{Host, HostCached}
			p.Tables[item].Constraint.CacheShare = 0.5
			s := &pl.Tables[item].Shards[2]
			s.Tier, s.Cache = HostCached, 0.25
		}, false, "tier tier"},
		{"host memory that is not stated", func(p *problem.Problem, pl *Plan) {
			p.Topology.HostMemory = unit.GiB
			pl.Cluster = clusterOf(p)
			s := &pl.Tables[item].Shards[2]
			s.Tier, s.Cache = HostCached, 0.01
		}, true, "stated stated stated stated stated"},
		{"replicated in host memory", func(p *problem.Problem, pl *Plan) {
			p.Topology.HostMemory = unit.GiB
			pl.Cluster = clusterOf(p)
			pl.Tables[everywhere].Shards[0].Tier = Host
		}, false, "tier"},
		{"a group on every device", func(_ *problem.Problem, pl *Plan) {
			for _, i := range []int{user, place} {
				pl.Tables[i].ShardingType, pl.Tables[i].Shards[0].Device = DataParallel, -1
			}
		}, false, "group group"},
		{"not split, but on every device", func(_ *problem.Problem, pl *Plan) {
			pl.Tables[hour].ShardingType, pl.Tables[hour].Shards[0].Device = DataParallel, -1
		}, false, ""},
		{"rows on devices that are not allowed", func(p *problem.Problem, _ *Plan) { p.Tables[rows].Constraint.Devices = []int{0, 1, 2} }, true, "device"},
		{"rows cut against no_split", func(p *problem.Problem, _ *Plan) { p.Tables[rows].Constraint.NoSplit = true }, true, "split"},
		{"unknown tier", func(_ *problem.Problem, pl *Plan) { pl.Tables[item].Shards[1].Tier = "tape" }, false, "tier"},

		// Another problem.
		{"another cluster", func(p *problem.Problem, _ *Plan) {
			p.Topology.Devices, p.Topology.DevicesPerHost = 8, 4
			p.Topology.Profile, _ = hardware.ByName("h200")
			p.Batch = 512
		}, false, "cluster cluster cluster cluster cluster cluster cluster"},
		{"another accounting", func(p *problem.Problem, _ *Plan) { p.Accounting = problem.CountWeights }, true, "cluster"},
		{"other tables", func(p *problem.Problem, pl *Plan) {
			p.Tables[hour].Name = "hour"
			p.Tables[rows].Rows++
			p.Tables[grid].Dim += 4
		}, true, "tables tables tables"},
		{"all other tables", func(p *problem.Problem, pl *Plan) {
			for i := range pl.Tables {
				pl.Tables[i].Name += "_2"
			}
		}, true, "tables tables"},
		{"table there twice", func(p *problem.Problem, pl *Plan) { pl.Tables = append(pl.Tables, pl.Tables[rows]) }, true, "tables"},
		{"another order", func(p *problem.Problem, pl *Plan) { pl.Tables[1], pl.Tables[2] = pl.Tables[2], pl.Tables[1] }, true, "tables"},

		// What the plan states.
		{"stated sums", func(_ *problem.Problem, pl *Plan) {
			d := &pl.Devices[1]
			d.Shards, d.DimSum = 1, 2
			d.Memory.Weights++
			d.Memory.Reserve--
		}, true, "stated stated stated stated"},
		{"over memory", func(p *problem.Problem, pl *Plan) {
			most := unit.Bytes(0)
			for _, d := range pl.Devices {
				most = max(most, d.Memory.Used())
			}
			p.Topology.Memory, p.Topology.ReserveShare, p.Topology.ReserveFixed = most+unit.MiB-1, hardware.NoReserve, unit.MiB
			pl.Cluster = clusterOf(p)
		}, false, "memory"},

		// Times.
		{"not a number", func(_ *problem.Problem, pl *Plan) { pl.Devices[2].ForwardComm = unit.Millis(math.NaN()) }, true, "predicted"},
		{"negative and endless", func(_ *problem.Problem, pl *Plan) {
			pl.Devices[0].Forward, pl.Devices[0].Backward, pl.Devices[1].BackwardComm = -1, unit.Millis(math.Inf(1)), -2
			pl.Predicted = -3
		}, true, "predicted predicted predicted predicted"},
		{"cost that is not the maximum", func(_ *problem.Problem, pl *Plan) { pl.Predicted = 12 }, true, "predicted"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, pl := sample(t)
			c.mutate(p, pl)
			if !c.stated {
				restate(p, pl)
			}
			var got []string
			for _, v := range violations(t, pl, p) {
				got = append(got, string(v.Rule))
			}
			if got := strings.Join(got, " "); got != c.want {
				t.Errorf("got violations of %q, want %q", got, c.want)
			}
		})
	}
}

func TestInvalidError(t *testing.T) {
	err := &Invalid{[]Violation{
		{RuleDevice, "a", 2, 9, "there is no device 9: the cluster has 8"},
		{RuleMemory, "", -1, 3, "too much"},
		{RuleTables, "", -1, -1, "other tables"},
	}}
	want := "table \"a\", shard 2, device 9: there is no device 9: the cluster has 8\ndevice 3: too much\nother tables"
	if got := err.Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// placement draws a problem and a placement of it that keeps all its rules.
func placement(t *rapid.T) (*problem.Problem, *Plan) {
	hosts, per := rapid.IntRange(1, 3).Draw(t, "hosts"), rapid.IntRange(1, 3).Draw(t, "per host")
	n := hosts * per
	profile, _ := hardware.ByName("h100-80")
	p := &problem.Problem{Topology: hardware.Topology{Profile: profile, Devices: n, DevicesPerHost: per, ReserveShare: hardware.NoReserve}, Batch: rapid.IntRange(1, 5000).Draw(t, "batch")}
	p.Topology.HostMemory = rapid.SampledFrom([]unit.Bytes{0, 1 << 50}).Draw(t, "host memory")
	p.CommPrecision = problem.Precision(rapid.IntRange(0, 2).Draw(t, "comm precision"))
	groupDevice := rapid.IntRange(0, n-1).Draw(t, "device of the group")
	shards := make([][]problem.Shard, n)
	kinds := make([]ShardingType, rapid.IntRange(1, 6).Draw(t, "tables"))
	for i := range kinds {
		table := problem.Table{
			Name: fmt.Sprint("t", i), Module: rapid.SampledFrom([]string{"", "sparse.ebc"}).Draw(t, "module"), Rows: rapid.OneOf(rapid.Int64Range(2, 12), rapid.Int64Range(2, 1e6)).Draw(t, "rows"), Dim: 4 * rapid.IntRange(2, 16).Draw(t, "dim/4"),
			Features:  slices.Repeat([]problem.Feature{{PoolingFactor: rapid.Float64Range(0, 50).Draw(t, "pooling")}}, rapid.IntRange(1, 3).Draw(t, "features")),
			Optimizer: problem.Optimizer(rapid.IntRange(0, 3).Draw(t, "optimizer")),
			Precision: problem.Precision(rapid.IntRange(0, 2).Draw(t, "precision")),
			Weighted:  rapid.Bool().Draw(t, "weighted"),
		}
		kind := rapid.SampledFrom(problem.ShardingTypes()).Draw(t, "kind")
		least := 4 * rapid.IntRange(1, 3).Draw(t, "least width/4")
		table.Constraint.MinWidth = min(least, table.Dim)
		columns := []int64{0, int64(table.Dim)}
		if kind == ColumnWise || kind == Grid {
			columns = cuts(t, int64(table.Dim), int64(table.Constraint.MinWidth), 4)
		}
		first, parts := 0, 1 // the devices that hold blocks of rows
		switch kind {
		case RowWise:
			parts = n
		case TableRowWise, Grid:
			first, parts = per*rapid.IntRange(0, hosts-1).Draw(t, "host"), per
		}
		block := table.BlockRows(parts)
		if len(columns) == 2 && block == table.Rows && kind != DataParallel {
			kind = TableWise
		}
		whole := kind == TableWise || kind == DataParallel
		if whole {
			table.Constraint.NoSplit = rapid.Bool().Draw(t, "no split")
		}
		grouped := kind == TableWise && rapid.Bool().Draw(t, "grouped")
		if grouped {
			table.Constraint.Colocation = "g"
		}
		// Rows that are not cut have a kind by their looks.
		form := problem.Shard{Table: i}
		if kind.Joint() {
			form.ShardingType = kind
		}
		if p.Topology.HostMemory > 0 && kind != DataParallel {
			form.Tier = rapid.SampledFrom([]Tier{"", Host, HostCached}).Draw(t, "tier")
			if form.Tier == HostCached {
				form.Cache = rapid.Float64Range(0.01, 0.99).Draw(t, "cache")
			}
		}
		var used []int
		for c := range columns[1:] {
			form.Columns = span(columns[c], columns[c+1])
			for r := range parts {
				if form.Rows = span(int64(r)*block, min(table.Rows, int64(r+1)*block)); form.Rows.Len() <= 0 {
					break
				}
				d := rapid.IntRange(0, n-1).Draw(t, "device")
				switch {
				case kind == DataParallel:
					for d := range shards {
						shards[d] = append(shards[d], form)
					}
					continue
				case grouped:
					d = groupDevice
				case kind.ByRows():
					d = (first+c*per)%n + r
				}
				used = append(used, d)
				shards[d] = append(shards[d], form)
			}
		}
		if kind != DataParallel && rapid.Bool().Draw(t, "limited") {
			slices.Sort(used)
			table.Constraint.Devices = slices.Compact(used)
		}
		kinds[i] = kind
		p.Tables = append(p.Tables, table)
	}
	p.Topology.Memory = 1 << 50
	pl := New(p, shards)
	for i, kind := range kinds {
		if got := pl.Tables[i].ShardingType; got != kind {
			t.Fatalf("table %d: got kind %s, want %s", i, got, kind)
		}
	}
	hidden := rapid.Bool().Draw(t, "hidden")
	if hidden {
		ms := rapid.Float64Range(0, 1e4)
		pl.Provenance.Hidden = Hidden{unit.Millis(ms.Draw(t, "hidden forward")), unit.Millis(ms.Draw(t, "hidden backward")), rapid.Bool().Draw(t, "replicas hide")}
	}
	if rapid.Bool().Draw(t, "hierarchical") {
		factor := rapid.Float64Range(.1, 1)
		pl.Provenance.Hierarchy = problem.Hierarchy{Sent: factor.Draw(t, "sent"), Inside: factor.Draw(t, "inside"), Between: factor.Draw(t, "between"), Latency: unit.Millis(factor.Draw(t, "latency"))}
	}
	for i := range pl.Devices {
		d := &pl.Devices[i]
		for _, ms := range []*unit.Millis{&d.Forward, &d.ForwardComm, &d.BackwardComm, &d.Backward} {
			*ms = unit.Millis(rapid.Float64Range(0, 1e4).Draw(t, "ms"))
		}
		if hidden {
			pl.Provenance.Hidden.Hide(&d.StepTimes, unit.Millis(rapid.Float64Range(0, 1).Draw(t, "share of replicas"))*d.Forward)
		}
		pl.Predicted = max(pl.Predicted, d.Total())
	}
	if err := p.Validate(); err != nil {
		t.Fatalf("the drawn problem is not valid: %v", err)
	}
	return p, pl
}

// cuts draws where [0, end) is cut, in parts of at least least, a multiple of unit.
func cuts(t *rapid.T, end, least, unit int64) []int64 {
	at := []int64{0}
	for len(at) < 5 {
		last := at[len(at)-1]
		most := (end - least - last) / unit
		if most < least/unit {
			break
		}
		at = append(at, last+unit*rapid.Int64Range(least/unit, most).Draw(t, "cut"))
	}
	return append(at, end)
}

func TestValidPlacements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, pl := placement(t)
		if found := violations(t, pl, p); found != nil {
			t.Fatalf("got violations %v, want none", found)
		}
	})
}

// Whatever the placement, a change of one shard breaks the rule it should.
func TestBrokenPlacements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, pl := placement(t)
		table := &pl.Tables[rapid.IntRange(0, len(pl.Tables)-1).Draw(t, "broken table")]
		k := rapid.IntRange(0, len(table.Shards)-1).Draw(t, "broken shard")
		s := &table.Shards[k]
		n := p.Topology.Devices
		broken := map[string]struct {
			rule Rule
			do   func()
		}{
			"drop":             {RuleCover, func() { table.Shards = slices.Delete(table.Shards, k, k+1) }},
			"double":           {RuleCover, func() { table.Shards = append(table.Shards, *s) }},
			"shift columns":    {RuleCover, func() { s.Columns.Start, s.Columns.End = s.Columns.Start+4, s.Columns.End+4 }},
			"widen":            {RuleCover, func() { s.Columns.End += 4 }},
			"narrow":           {RuleCover, func() { s.Columns.Start += 4 }},
			"shift rows":       {RuleCover, func() { s.Rows.Start, s.Rows.End = s.Rows.Start-1, s.Rows.End-1 }},
			"fewer rows":       {RuleCover, func() { s.Rows.End-- }},
			"odd width":        {RuleWidth, func() { s.Columns.End-- }},
			"no such device":   {RuleDevice, func() { s.Device = n + 3 }},
			"host memory":      {RuleTier, func() { s.Tier, p.Topology.HostMemory = Host, 0 }},
			"nothing cached":   {RuleTier, func() { s.Tier, s.Cache = HostCached, 0 }},
			"all cached":       {RuleTier, func() { s.Tier, s.Cache = HostCached, 1 }},
			"cached in hbm":    {RuleTier, func() { s.Tier, s.Cache = HBM, 0.5 }},
			"kind":             {RuleShardingType, func() { table.ShardingType = "whole" }},
			"another name":     {RuleTables, func() { table.Name += "x" }},
			"another dim":      {RuleTables, func() { table.Dim += 4 }},
			"a byte more":      {RuleStated, func() { pl.Devices[n-1].Memory.Indices++ }},
			"cost not maximum": {RulePredicted, func() { pl.Predicted = pl.Predicted*2 + 1 }},
			"too much hidden":  {RulePredicted, func() { pl.Devices[0].BackwardHidden = pl.Provenance.Hidden.Backward + 1 }},
			"more than lookups": {RulePredicted, func() {
				pl.Provenance.Hidden.Replicas = true
				d := &pl.Devices[0]
				d.ForwardHidden = 2*(pl.Provenance.Hidden.Forward+d.Forward) + 1
			}},
			"batch":             {RuleCluster, func() { pl.Cluster.Batch++ }},
			"no memory":         {RuleMemory, func() { p.Topology.Memory = 1 }},
			"one device fewer":  {RuleCluster, func() { pl.Devices = pl.Devices[:n-1] }},
			"no shards at all":  {RuleCover, func() { table.Shards = nil }},
			"moved, not stated": {RuleStated, func() { pl.Devices[0].Shards++ }},
		}
		name := rapid.SampledFrom(slices.Sorted(func(yield func(string) bool) {
			for name := range broken {
				if !yield(name) {
					return
				}
			}
		})).Draw(t, "mutation")
		broken[name].do()
		found := violations(t, pl, p)
		if !slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == broken[name].rule }) {
			t.Fatalf("%s: got violations %v, want one of rule %q", name, found, broken[name].rule)
		}
	})
}

// Cover agrees with counting every element of small tables, for any rectangles:
// what Validate passes covers each once, and what covers each once in slices
// passes.
func TestCoverAgainstCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := Table{Rows: rapid.Int64Range(1, 4).Draw(t, "rows"), Dim: 4}
		for range rapid.IntRange(1, 6).Draw(t, "shards") {
			r, c := rapid.Int64Range(0, table.Rows-1).Draw(t, "row"), rapid.Int64Range(0, 3).Draw(t, "column")
			table.Shards = append(table.Shards, Shard{
				Rows:    span(r, rapid.Int64Range(r+1, table.Rows).Draw(t, "row end")),
				Columns: span(c, rapid.Int64Range(c+1, 4).Draw(t, "column end")),
			})
		}
		exact, sliced := true, true
		for row := range table.Rows {
			for column := range int64(4) {
				held := 0
				for _, s := range table.Shards {
					if s.Rows.Start <= row && row < s.Rows.End && s.Columns.Start <= column && column < s.Columns.End {
						held++
					}
				}
				exact = exact && held == 1
			}
		}
		for _, a := range table.Shards {
			for _, b := range table.Shards {
				sliced = sliced && (a.Columns == b.Columns || meet(a.Columns, b.Columns).Len() <= 0)
			}
		}
		v := validator{}
		v.cover(&table)
		if got, want := len(v.found) == 0, exact && sliced; got != want {
			t.Fatalf("cover of %+v: got %v (%v), want %v", table, got, v.found, want)
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	p, shards := large(b, 10_000, 64, 1024)
	pl := New(p, shards)
	for b.Loop() {
		must.Do(b, pl.Validate(p))
	}
}

// CheckTables finds what Validate finds, but for what only a problem tells.
func TestCheckTables(t *testing.T) {
	_, pl := sample(t)
	if got := pl.CheckTables(); len(got) > 0 {
		t.Errorf("got %v of a valid plan", got)
	}
	pl.Tables[0].Shards[0].Tier = HostCached
	if got := pl.CheckTables(); len(got) > 0 {
		t.Errorf("got %v of a shard in host memory", got)
	}
	pl.Tables[0].Shards[0].Device = 4
	pl.Tables[1].Shards = pl.Tables[1].Shards[1:]
	pl.Tables[2].Shards[0].Tier = "tape"
	pl.Tables[6].Shards[1].Device = 1
	var got []string
	for _, v := range pl.CheckTables() {
		got = append(got, string(v.Rule)+": "+v.String())
	}
	want := []string{
		`device: table "user", shard 0, device 4: there is no device 4: the cluster has 4`,
		`cover: table "item": columns [0, 48) are placed nowhere`,
		`tier: table "word", shard 0: memory tier "tape" is unknown: known are hbm, host, host_cached`,
		`sharding_type: table "host": a table_row_wise table's rows of columns [0, 16) lie on one host, but device 2 is of host 1 and device 1 of host 0`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// TestSmallestFaults has faults of the least size that each check must find.
func TestSmallestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		change func(pl *Plan)
		want   string
	}{
		"bytes of an all-reduce that is none": {func(pl *Plan) { pl.Sync.Bytes = 1 }, "the plan states 1 bytes in the all-reduce of the replicas, its shards give 0"},
		"hidden time that is not finite":      {func(pl *Plan) { pl.Devices[1].ForwardHidden = unit.Millis(math.NaN()) }, "hidden forward communication"},
		"a cost that is off by 1e-7":          {func(pl *Plan) { pl.Predicted *= 1 + 1e-7 }, "is not the largest device total"},
		"a cost that is off by 1e-12":         {func(pl *Plan) { pl.Predicted *= 1 + 1e-12 }, ""},
	} {
		p, pl := sample(t)
		c.change(pl)
		err := pl.Validate(p)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestStatedIsNotGiven: a sum that the plan states wrongly is printed beside another one, also if the changed tables of
// the problem give the stated sum.
func TestStatedIsNotGiven(t *testing.T) {
	p, pl := sample(t)
	for i := range p.Tables {
		p.Tables[i].Optimizer = problem.Adam
	}
	tables := slices.Clone(pl.Tables)
	pl.Devices[0].Memory = Of(p, tables).Devices[0].Memory
	err := pl.Validate(p)
	found := regexp.MustCompile(`states [a-z ]+ of (\d+), its shards give (\d+)`).FindAllStringSubmatch(fmt.Sprint(err), -1)
	if len(found) == 0 {
		t.Errorf("got %v, want a sum that the plan states wrongly", err)
	}
	for _, f := range found {
		if f[1] == f[2] {
			t.Errorf("got %q, want two numbers", f[0])
		}
	}
}

// TestLastByteOfHostMemory wants a plan that states all of the host memory to pass Check, and one byte
// more not to.
func TestLastByteOfHostMemory(t *testing.T) {
	_, pl := sample(t)
	pl.Cluster.HostMemory = unit.GiB
	host := &pl.Devices[1].Memory.Host
	*host = pl.Cluster.Topology().HostBudget(1)
	if found := pl.Check(); *host == 0 || len(found) > 0 {
		t.Errorf("%v of host memory, which is all: got %v", *host, found)
	}
	*host++
	if found := pl.Check(); len(found) != 1 || found[0].Rule != RuleMemory || found[0].Device != 1 {
		t.Errorf("a byte more: got %v, want a fault of the memory of device 1", found)
	}
}
