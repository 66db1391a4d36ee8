package neuroshard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/plan/export"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// exports are the functions that write a plan for an engine.
var exports = map[problem.Engine]func(io.Writer, *plan.Plan, export.Options) error{
	problem.TorchRec: export.TorchRec,
	problem.HugeCTR:  export.HugeCTR,
}

// The plans of all problems and options keep the same promises (conform). The cases are those of
// which one rule of an engine, a cluster or prices could break one.
func TestPlansConform(t *testing.T) {
	criteo := func(change func(p *problem.Problem)) *problem.Problem {
		p := workloadNamed(t, "criteo-kaggle")
		p.Topology.Devices = 4
		change(&p)
		return &p
	}
	hidden := func(h plan.Hidden) neuroshard.Options { return neuroshard.Options{Hidden: h} }
	torchRec := neuroshard.Options{Prices: neuroshard.TorchRec()}
	fewer := several(t)
	fewer.Tables = fewer.Tables[:6]
	replicated := *fewer
	replicated.Topology = hardware.Topology{Profile: hardware.Profiles()[4], Devices: 2, Replicas: 2, ReplicasPerHost: 2, SyncEvery: 1}
	for _, c := range []struct {
		name string
		p    *problem.Problem
		opt  neuroshard.Options
	}{
		{"HugeCTR", criteo(func(p *problem.Problem) { p.Engine = problem.HugeCTR }), neuroshard.Options{}},
		{"wide slices", criteo(func(p *problem.Problem) {
			for i := range p.Tables {
				p.Tables[i].Constraint.MinWidth = p.Tables[i].Dim / 2
			}
		}), neuroshard.Options{}},
		{"tight memory", criteo(tighten), neuroshard.Options{}},
		{"host memory", criteo(func(p *problem.Problem) { p.Topology.DevicesPerHost, p.Topology.HostMemory = 2, 64*unit.GiB }), neuroshard.Options{}},
		{"tiers", criteo(func(p *problem.Problem) {
			p.Topology.HostMemory = 64 * unit.GiB
			for i := range p.Tables {
				p.Tables[i].Constraint.Tiers = [][]problem.Tier{{problem.Host}, {problem.HBM}, {problem.HostCached}, nil}[i%4]
				p.Tables[i].Constraint.CacheShare = []float64{0, 0, .3, 0}[i%4]
			}
		}), neuroshard.Options{}},
		{"constraints", criteo(constrain), neuroshard.Options{}},
		{"constraints by TorchRec's formulas", criteo(constrain), torchRec},
		{"hidden exchanges", fewer, hidden(plan.Hidden{Forward: .3, Backward: .1})},
		{"hidden replicas", fewer, hidden(plan.Hidden{Forward: .1, Replicas: true})},
		{"all exchanges hidden", fewer, hidden(plan.Hidden{Forward: 1e3, Backward: 1e3})},
		{"hierarchical exchange", inHosts(fewer, inSteps), neuroshard.Options{}},
		{"hierarchical exchange, partly hidden", inHosts(fewer, inSteps), hidden(plan.Hidden{Forward: .05, Backward: .1})},
		{"fixed loads", withFixed(t, 1), neuroshard.Options{}},
		{"fixed loads by TorchRec's formulas", withFixed(t, 2), torchRec},
		{"sharding groups", &replicated, neuroshard.Options{}},
		{"sequences", sequences(t, 8, 6, 128, 1), neuroshard.Options{}},
		{"means, one by rows", means(t, func(tables []problem.Table) {
			tables[0].Constraint.ShardingTypes = []problem.ShardingType{problem.RowWise}
		}), torchRec},
		{"means, a sum replicated", means(t, func(tables []problem.Table) {
			tables[2].Constraint.ShardingTypes = []problem.ShardingType{problem.DataParallel}
		}), torchRec},
		{"means, one too large", means(t, func(tables []problem.Table) { tables[0].Rows, tables[0].Constraint.MinWidth = 3_700_000, 64 }), torchRec},
		{"tables without lookups", unread(t, 6), neuroshard.Options{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opt.Search.ShardingTypes, c.opt.Search.MaxEvaluations = problem.ShardingTypes(), 2000
			conform(t, c.p, c.opt, completed(t.Context(), t, c.p, c.opt))
		})
	}
}

// TestPlansForEngines plans drawn problems for each engine.
func TestPlansForEngines(t *testing.T) { plansForEngines(t, 2, 6, 8) }

// plansForEngines plans the problems of n seeds, and wants at least the given number of plans.
func plansForEngines(t *testing.T, from, n uint64, want int) {
	found := 0
	for seed := from; seed < from+n; seed++ {
		for _, engine := range append(problem.Engines(), "") {
			p := engineProblem(seed)
			if p.Engine = problem.Engine(engine); p.Engine.Rules().OnlyHBM {
				p.Topology.HostMemory = 0
			}
			opt := neuroshard.Options{Search: search.Options{MaxEvaluations: 2_000}}
			if seed%3 > 0 {
				opt.Search.ShardingTypes = problem.ShardingTypes()
			}
			if r := runs(t, p, opt); r != nil {
				conform(t, p, opt, r)
				found++
			}
		}
	}
	if found < want {
		t.Errorf("got %d plans, want at least %d", found, want)
	}
}

// runs plans the problem. It returns nil if the tables do not fit, leave devices empty, or have no
// allowed sharding type.
func runs(t *testing.T, p *problem.Problem, opt neuroshard.Options) *neuroshard.Result {
	t.Helper()
	var infeasible *search.Infeasible
	var idle *search.Idle
	var noType *search.NoShardingType
	result, err := neuroshard.Plan(context.Background(), p, opt)
	if errors.As(err, &infeasible) || errors.As(err, &idle) || errors.As(err, &noType) {
		return nil
	}
	if err != nil {
		t.Errorf("%s: %v", p.Engine, err)
		return nil
	}
	return result
}

// conform checks what each result promises. The plan is valid, is read as it was written, and is one
// that its engine's export writes. Its devices have room, and its cost is near the simulated one, not
// below the bound and not above a baseline's. One thread finds it too, Evaluate judges it alike, and each
// table has another place at the cost that Price says.
func conform(t *testing.T, p *problem.Problem, opt neuroshard.Options, r *neuroshard.Result) {
	t.Helper()
	if err := r.Plan.Validate(p); err != nil {
		t.Error(err)
	}
	text := written(t, r.Plan)
	if back, err := plan.Read(strings.NewReader(text)); err != nil || written(t, back) != text {
		t.Errorf("got %v, or another plan read back", err)
	}
	module := "m"
	if write := exports[p.Engine]; write != nil && !p.Hierarchy.On() {
		if err := write(io.Discard, r.Plan, export.Options{Module: &module}); err != nil {
			t.Errorf("the export refuses the plan: %v", err)
		}
	}
	hasRoom(t, p, r.Plan)
	if by := r.Plan.Provenance; by.Hidden != opt.Hidden || by.Hierarchy != p.Hierarchy {
		t.Errorf("got %+v hidden and exchange %+v in the plan, want %+v and %+v", by.Hidden, by.Hierarchy, opt.Hidden, p.Hierarchy)
	}
	if bias := float64(r.Predicted.Cost/r.Simulated.Cost) - 1; opt.Prices == nil && math.Abs(bias) > .08 {
		t.Errorf("got predicted cost %v, simulated %v: want within 8 %%", r.Predicted.Cost, r.Simulated.Cost)
	}
	if gap, ok := r.Gap(); ok && gap < 0 {
		t.Errorf("got a simulated cost of %v, want at least the bound %v", r.Simulated.Cost, r.Bound.Total)
	}
	for _, b := range r.Baselines {
		if b.Valid && r.Predicted.Cost > b.Predicted*(1+1e-9) {
			t.Errorf("got cost %v, want at most that of %s, %v", r.Predicted.Cost, b.Method, b.Predicted)
		}
	}
	if again, err := neuroshard.Evaluate(t.Context(), p, r.Shards, opt); err != nil || again.Predicted.Cost != r.Predicted.Cost || again.Simulated.Cost != r.Simulated.Cost {
		t.Errorf("evaluated: got %+v and error %v, want cost %v and %v simulated", again, err, r.Predicted.Cost, r.Simulated.Cost)
	}
	if r.Status != "" {
		one := opt
		one.Search.Workers = 1
		if other, err := neuroshard.Plan(t.Context(), p, one); err != nil || written(t, other.Plan) != text || other.Stats != r.Stats {
			t.Errorf("with one thread: got error %v, another plan, or other work", err)
		}
	}
	otherPlaces(t, p, opt, r.Plan)
}

// hasRoom counts the bytes of fixed loads, shards and received rows from the problem: no device holds
// more than it has.
func hasRoom(t *testing.T, p *problem.Problem, pl *plan.Plan) {
	t.Helper()
	for d, held := range pl.ByDevice() {
		taken := unit.Bytes(0)
		for _, l := range p.Topology.Fixed {
			if l.Devices == nil || slices.Contains(l.Devices, d) {
				taken += l.Bytes
			}
		}
		for _, s := range held {
			taken += p.ShardMemory(s)[problem.ForwardExchange].Used()
		}
		if most := p.Topology.DeviceMemory(d); taken > most {
			t.Errorf("device %d: got %v of tables and fixed loads, want at most %v", d, taken, most)
		}
		if got, least := pl.Devices[d].Forward, p.Topology.FixedTime(d); got < least-1e-9 {
			t.Errorf("device %d: got a forward of %v, want at least the fixed %v", d, got, least)
		}
	}
}

// otherPlaces checks the alternatives of a plan: each is a place that is not the plan's, makes a valid
// plan, and has the cost that Price estimates for it.
func otherPlaces(t *testing.T, p *problem.Problem, opt neuroshard.Options, pl *plan.Plan) {
	t.Helper()
	cost, all, err := neuroshard.Alternatives(t.Context(), pl, p, opt)
	if err != nil || len(all) != len(p.Tables) || !near(cost, pl.Predicted) {
		t.Fatalf("got %d alternatives, a plan's cost of %v and error %v, want %v", len(all), cost, err, pl.Predicted)
	}
	for i, a := range all {
		if i%3 > 0 || a.Shards == nil || p.Tables[i].Constraint.Colocation != "" {
			continue // others of the co-location move with it
		}
		count := func(shards []plan.Shard) string {
			var sizes []string
			for _, s := range shards {
				sizes = append(sizes, fmt.Sprint(s.Device, s.Rows.Len(), s.Columns.Len(), s.Tier, s.Cache))
			}
			slices.Sort(sizes)
			return fmt.Sprint(sizes)
		}
		if now := pl.Tables[i]; a.ShardingType == now.ShardingType && count(a.Shards) == count(now.Shards) {
			t.Errorf("table %s: the alternative %v is the plan's own place %v, but for the order of slices", now.Name, a.Shards, now)
		}
		tables := slices.Clone(pl.Tables)
		tables[i].ShardingType, tables[i].Shards = a.ShardingType, slices.Clone(a.Shards)
		moved := plan.Of(p, tables)
		if err := neuroshard.Price(t.Context(), moved, p, opt); err != nil || !near(a.Cost, moved.Predicted) {
			t.Errorf("table %s as %s %v: got cost %v, want %v (%v)", tables[i].Name, a.ShardingType, a.Shards, a.Cost, moved.Predicted, err)
		}
		if broken := moved.Validate(p); broken != nil {
			t.Errorf("table %s as %s %v: %v", tables[i].Name, a.ShardingType, a.Shards, broken)
		}
	}
}

func near(a, b unit.Millis) bool { return math.Abs(float64(a-b)) <= 1e-5*float64(max(a, b)) }

// tighten leaves two hosts little more memory than the tables take, and little host memory.
func tighten(p *problem.Problem) {
	p.Topology.DevicesPerHost = 2
	total := unit.Bytes(0)
	for i := range p.Tables {
		total += p.ShardMemory(p.Whole(i))[problem.ForwardExchange].Used()
	}
	p.Topology.ReserveShare = hardware.NoReserve
	p.Topology.Memory, p.Topology.HostMemory = p.DeviceMemory(0)[problem.ForwardExchange].Used()+total/4, total/10
}

// constrain has three tables together, one on a device, and one whole.
func constrain(p *problem.Problem) {
	for i := range 3 {
		p.Tables[i].Constraint.Colocation = "together"
	}
	p.Tables[5].Constraint.Devices, p.Tables[6].Constraint.NoSplit = []int{1}, true
}

// several returns a problem of unlike tables on two hosts, whose exchanges take about as long
// as its lookups.
func several(t *testing.T) *problem.Problem {
	p := &problem.Problem{Batch: 65536, Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: 4, DevicesPerHost: 2}}
	for i, pooling := range []float64{1, 40, 3, 100, 1, 12, 1, 25, 2, 60} {
		p.Tables = append(p.Tables, problem.Table{
			Name: string(rune('a' + i)), Rows: 100_000 * int64(1+i*i*i), Dim: 32 << (i % 3),
			Features: []problem.Feature{{PoolingFactor: pooling}},
			Access:   access.Distribution{Kind: access.Zipf, Exponent: 1.05},
		})
	}
	return p
}

// inSteps is the hierarchical exchange of HugeCTR.
var inSteps = problem.Hierarchy{Sent: 1, Inside: 1, Between: 1, Latency: .06}

// inHosts returns the problem with a hierarchical exchange.
func inHosts(p *problem.Problem, h problem.Hierarchy) *problem.Problem {
	own := *p
	own.Hierarchy = h
	return &own
}

// withFixed draws a problem with fixed loads that leave some devices little room.
func withFixed(t *testing.T, seed uint64) *problem.Problem {
	draw := rand.New(rand.NewPCG(seed, 5))
	devices := 2 + draw.IntN(4)
	p := &problem.Problem{Batch: 4096, Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: devices, Memory: unit.GiB, ReserveShare: hardware.NoReserve}}
	for i := range 6 + draw.IntN(5) {
		name := string(rune('a' + i))
		p.Tables = append(p.Tables, problem.Table{
			Name: name, Rows: int64(10_000 + draw.IntN(400_000)), Dim: []int{16, 32, 64, 128}[draw.IntN(4)], Optimizer: problem.RowwiseAdagrad,
			Features: []problem.Feature{{Name: name, PoolingFactor: 1 + 20*draw.Float64()}}, Access: access.Distribution{Kind: access.Zipf, Exponent: 1.05},
		})
	}
	p.Topology.Fixed = []hardware.FixedLoad{{Name: "everywhere", Bytes: unit.Bytes(draw.IntN(100)) * unit.MiB, Time: unit.Millis(.01 + draw.Float64()/10)}}
	for d := range devices - 1 {
		p.Topology.Fixed = append(p.Topology.Fixed, hardware.FixedLoad{Name: "dynamic", Devices: []int{d}, Bytes: unit.Bytes(draw.IntN(900)) * unit.MiB, Time: unit.Millis(draw.Float64() / 2)})
	}
	return p
}

// sequences returns a problem for TorchRec: a module of n tables of sequences, the first ones hot.
func sequences(t *testing.T, devices, n, dim, hot int) *problem.Problem {
	p := &problem.Problem{Engine: problem.TorchRec, Topology: hardware.Topology{Profile: must.Get(hardware.ByName("a100-80"))(t), Devices: devices}, Batch: 8192}
	for i := range n {
		lookups := float64(10 + i)
		if i < hot {
			lookups = 100
		}
		p.Tables = append(p.Tables, problem.Table{
			Name: fmt.Sprint("s", i), Module: "ec", Rows: []int64{2_000_000, 500_000, 100_000, 1_000_000}[i%4], Dim: dim,
			Pooling: problem.PoolingNone, Features: []problem.Feature{{PoolingFactor: lookups}},
			Access: access.Distribution{Kind: access.Zipf, Exponent: 1.05}, Optimizer: problem.RowwiseAdagrad,
		})
	}
	return p
}

// means returns four tables that TorchRec trains in one module, two of means.
func means(t *testing.T, change func(tables []problem.Table)) *problem.Problem {
	p := &problem.Problem{
		Batch: 4096, Engine: problem.TorchRec,
		Topology: hardware.Topology{Devices: 4, DevicesPerHost: 2, Profile: must.Get(hardware.ByName("v100-32"))(t), Memory: unit.GiB},
	}
	for i := range 4 {
		name := fmt.Sprint(i)
		p.Tables = append(p.Tables, problem.Table{
			Name: name, Module: "m", Rows: 50_000, Dim: 64, Features: []problem.Feature{{Name: name, PoolingFactor: 5}},
		})
	}
	p.Tables[0].Pooling, p.Tables[1].Pooling = problem.MeanPooling, problem.MeanPooling
	change(p.Tables)
	return p
}

// unread returns 40 tables of sequences, and only some of them have lookups.
func unread(t *testing.T, read int) *problem.Problem {
	p := sequences(t, 8, 40, 64, 0)
	for i := range p.Tables {
		p.Tables[i].Rows = 1000 + int64(i*7919%1000)*40
		if i >= read {
			p.Tables[i].Features[0].PoolingFactor = 0
		}
	}
	return p
}

// engineProblem draws a small problem: few tables, some larger than a device, on one or
// two hosts.
func engineProblem(seed uint64) *problem.Problem {
	draw := rand.New(rand.NewPCG(seed, 0x656e67696e65))
	pick := func(list ...int) int { return list[draw.IntN(len(list))] }
	p := &problem.Problem{
		Topology: hardware.Topology{Profile: hardware.Profiles()[4], Devices: pick(1, 2, 3, 4, 6, 8), Memory: unit.Bytes(pick(1, 2, 8)) * unit.GiB},
		Batch:    pick(256, 4096),
	}
	if p.Topology.Devices%2 == 0 && draw.IntN(2) == 0 {
		p.Topology.DevicesPerHost = p.Topology.Devices / 2
	}
	if draw.IntN(3) == 0 {
		p.Topology.HostMemory = 64 * unit.GiB
	}
	for i := range 1 + draw.IntN(10) {
		table := problem.Table{
			Name: fmt.Sprint("t", i), Rows: int64(pick(3, 1000, 100_000, 2_000_000)), Dim: pick(4, 12, 20, 64, 96, 128),
			Features: []problem.Feature{{PoolingFactor: float64(pick(1, 5, 40))}},
		}
		c := &table.Constraint
		switch draw.IntN(8) {
		case 0:
			c.NoSplit = true
		case 1:
			c.MinWidth = table.Dim / 4 / 2 * 4
		case 2:
			c.Devices = []int{draw.IntN(p.Topology.Devices)}
		case 3, 4:
			all := problem.ShardingTypes()
			c.ShardingTypes = all[draw.IntN(len(all)):]
			c.ShardingTypes = c.ShardingTypes[:1+draw.IntN(len(c.ShardingTypes))]
		}
		p.Tables = append(p.Tables, table)
	}
	return p
}

// TestStacksCountTheSameExchange: under the hierarchical exchange of a stack, the estimates and the
// simulated device have the exchange of a whole step, and the plan costs less than one made for flat exchanges.
func TestStacksCountTheSameExchange(t *testing.T) {
	p := several(t)
	p.Tables, p.CommPrecision = p.Tables[:6], problem.FP16
	stack, err := step.StackByName("hugectr-hierarchical")
	if err != nil {
		t.Fatal(err)
	}
	opt := neuroshard.Options{Search: search.Options{ShardingTypes: problem.ShardingTypes(), MaxEvaluations: 200_000}}
	hosts := inHosts(p, stack.Hierarchy())
	r := planned(t, hosts, opt)
	e := must.Get(step.EmbeddingsOf(p, r.Shards, stack))(t)
	for _, b := range []plan.Breakdown{r.Predicted, r.Simulated} {
		got := unit.Millis(math.Inf(1)) // the busiest device waits least
		for _, d := range b.Devices {
			got = min(got, d.ForwardComm+d.ForwardHidden)
		}
		if !near(got, e.ExchangeForward) {
			t.Errorf("got an exchange of %v, want %v as in a whole step", got, e.ExchangeForward)
		}
	}
	other, err := neuroshard.Evaluate(t.Context(), hosts, planned(t, p, opt).Shards, opt)
	if err != nil || r.Predicted.Cost >= other.Predicted.Cost*.99 {
		t.Errorf("got a cost of %v, want less than the %v of the plan for flat exchanges (%v)", r.Predicted.Cost, other.Predicted.Cost, err)
	}
}
