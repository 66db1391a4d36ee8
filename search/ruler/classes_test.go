//go:build ruler

package ruler

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/searchtest"
	"github.com/neuroshard/neuroshard/unit"
)

// task is one problem with what its search is asked for.
type task struct {
	problem *problem.Problem
	// types are the allowed sharding types; nil allows all.
	types []problem.ShardingType
	// prices is nil for the shipped cost models.
	prices neuroshard.Prices
	// hidden is what the training system hides of the exchanges.
	hidden plan.Hidden
	// from is the old placement of a re-plan; nil for a plan from nothing.
	from *search.From
}

// source draws one problem of a class.
type source struct {
	*rand.Rand
	t *testing.T
	// set is the number of the set, and i that of the problem in its class. Problem i is the same for
	// any number of problems.
	set, i int
}

// class is a kind of problem: one row of the result.
type class struct {
	name string
	// count is the number of problems in a set.
	count int
	draw  func(s source) task
}

// classes lists what the ruler measures. To add a class, add a row: nothing else knows them. If the draw of a class changes,
// delete the class from testdata/ruler.json, whose costs are of other problems then.
var classes = []class{
	{"workloads in all types", 22, func(s source) task { return task{problem: s.workload()} }},
	{"workloads in slices", 22, func(s source) task { return task{problem: s.workload(), types: search.Columns()} }},
	{"paper in all types", 24, func(s source) task {
		p := s.paper()
		p.Accounting, p.Topology.Memory, p.Topology.ReserveShare = problem.CountAll, 0, 0
		return task{problem: p}
	}},
	{"paper in slices", 24, func(s source) task { return task{problem: s.paper(), types: search.Columns()} }},
	{"several hosts", 7, func(s source) task { return task{problem: s.onHosts()} }},
	{"wide clusters in all types", 5, func(s source) task { return task{problem: s.wide()} }},
	{"wide clusters in slices", 5, func(s source) task { return task{problem: s.wide(), types: search.Columns()} }},
	{"missed before", 7, func(s source) task { return missed[s.i](s) }},
	{"1 to 24 tables", 48, func(s source) task {
		return task{problem: s.drawn(s.between(1, 24), 2, 7.5, 1<<s.between(0, 4), 8)}
	}},
	{"many small tables", 20, func(s source) task { return task{problem: s.manySmall()} }},
	{"nearly full", 30, func(s source) task { return task{problem: s.nearlyFull()} }},
	{"stress of memory", 30, func(s source) task {
		tasks, err := bench.StressTasks(s.profile("a100-80"), s.i/10+1, uint64(s.set))
		return task{problem: s.nth(tasks, s.i%10*(s.i/10+1)+s.i/10, err), types: search.Columns()}
	}},
	{"tiny in all types", 40, func(s source) task { return task{problem: s.drawn(s.between(1, 4), 1, 6, s.between(1, 3), 8)} }},
	{"tiny in slices", 40, func(s source) task {
		return task{problem: s.drawn(s.between(1, 4), 1, 6, s.between(1, 3), 8), types: search.Columns()}
	}},
	{"one device", 20, func(s source) task { return task{problem: s.drawn(s.between(2, 12), 2, 6, 1, 8)} }},
	{"mixed operators", 24, func(s source) task {
		return task{problem: s.mixed(s.drawn(s.between(6, 16), 3, 6.5, s.between(2, 8), 4))}
	}},
	{"clusters of all shapes", 11, func(s source) task {
		cases := searchtest.Cases(s.profile([]string{"a100-80", "h100-80"}[s.set-1]))
		return task{problem: cases[s.i].Problem}
	}},
	{"odd and uneven devices", 30, func(s source) task { return task{problem: s.uneven()} }},
	{"host memory", 30, func(s source) task {
		return task{problem: s.hosted(s.drawn(s.between(3, 12), 2, 7.5, s.between(1, 8), 4))}
	}},
	{"engine torchrec", 24, func(s source) task { return task{problem: s.engine(problem.TorchRec)} }},
	{"engine hugectr", 24, func(s source) task { return task{problem: s.engine(problem.HugeCTR)} }},
	{"torchrec's formulas", 12, func(s source) task {
		return task{problem: s.engine(problem.TorchRec), prices: neuroshard.TorchRec()}
	}},
	{"constraints", 36, func(s source) task {
		p := s.drawn(s.between(6, 16), 3, 7, 2*s.between(2, 6), 4)
		for i := range p.Tables {
			p.Tables[i].Constraint = s.constraint(p, i)
		}
		return task{problem: p}
	}},
	{"hidden exchanges", 16, func(s source) task {
		p := s.drawn(s.between(6, 20), 3, 7, 2*s.between(2, 8), 4)
		hidden := plan.Hidden{Forward: unit.Millis(s.spread(.03, 1)), Backward: unit.Millis(s.spread(.03, 1)), Replicas: s.IntN(2) == 0}
		return task{problem: p, hidden: hidden}
	}},
	{"hierarchical exchanges", 16, func(s source) task {
		p := s.drawn(s.between(6, 20), 3, 7, 4*s.between(2, 4), 4)
		p.Hierarchy = problem.Hierarchy{Sent: s.within(.3, 1), Inside: s.within(.5, 1), Between: s.within(.5, 1.5), Latency: .06}
		return task{problem: p}
	}},
	{"re-plans", 24, source.replan},
}

// missed are problems for which an earlier search found only plans that cost up to 36 % more. In set 2 their batches are other ones.
var missed = []func(s source) task{
	stored("many_small_1", "h100-80", 4, 1, 0, 0, nil),
	stored("many_small_2", "a100-80", 8, 8, 0, 0, nil),
	stored("nearly_full", "v100-32", 6, 6, 1_207_743_733, 0, search.Columns()),
	stored("tiny_numbers", "b200", 2, 2, 1_370_556_237, 65_536, search.Columns()),
	stored("one_device", "v100-16", 1, 1, 770_044, 512, nil),
	func(s source) task { // the hottest table costs less in one slice more
		return task{problem: s.drawnAs(4, 6, 2), types: search.Columns()}
	},
	func(s source) task { // a large table needs another form
		p := s.drawnAs(4, 77, 0)
		p.Accounting, p.Topology.Memory = problem.CountAll, 0
		return task{problem: p}
	},
}

// stored returns the draw of a problem of testdata/problems on devices of the profile, all of one host if perHost is their
// number. If memory or batch is 0, the profile's memory with the usual reserve, or the file's batch is meant.
func stored(name, profile string, devices, perHost int, memory unit.Bytes, batch int, types []problem.ShardingType) func(s source) task {
	return func(s source) task {
		f, err := os.Open("testdata/problems/" + name + ".json")
		if err != nil {
			s.t.Fatal(err)
		}
		defer f.Close()
		file, err := input.Tables(name, f, input.Options{})
		if err != nil {
			s.t.Fatal(err)
		}
		p := &problem.Problem{Tables: file.Tables, Batch: max(file.Batch, batch) / s.set, Topology: hardware.Topology{
			Profile: s.profile(profile), Devices: devices, DevicesPerHost: perHost, Memory: memory,
		}}
		if memory > 0 {
			p.Topology.ReserveShare = hardware.NoReserve
		}
		return task{problem: p, types: types}
	}
}

// drawnAs draws a task of one of the paper's settings.
func (s source) drawnAs(setting int, seed uint64, index int) *problem.Problem {
	drawn, err := workload.Draw(workload.Pool(1), workload.PaperSettings()[setting], seed, index)
	if err != nil {
		s.t.Fatal(err)
	}
	p := drawn.Problem(s.profile("a100-80"))
	p.Batch /= s.set
	return &p
}

// newSource returns the source of a problem of the class.
func newSource(t *testing.T, c class, set, i int) source {
	h := fnv.New64a()
	h.Write([]byte(c.name))
	return source{rand.New(rand.NewPCG(h.Sum64(), uint64(set)<<32|uint64(i))), t, set, i}
}

// between returns a number from low to high, and within one of at least low and below high.
func (s source) between(low, high int) int        { return low + s.IntN(high-low+1) }
func (s source) within(low, high float64) float64 { return low + (high-low)*s.Float64() }

// spread returns a number from low to high, each power of ten alike.
func (s source) spread(low, high float64) float64 { return low * math.Pow(high/low, s.Float64()) }

func (s source) profile(name string) hardware.Profile {
	p, err := hardware.ByName(name)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// nth returns the problem of a task, if err is nil.
func (s source) nth(tasks []bench.Task, i int, err error) *problem.Problem {
	if err != nil {
		s.t.Fatal(err)
	}
	return &tasks[i].Problem
}

// wideWorkloads are workloads of a thousand tables and more.
var wideWorkloads = []string{"nvidia-synthetic-jumbo", "nvidia-synthetic-colossal"}

// workload returns a published workload, on one of two clusters: each of the first 11 problems is on the first one.
func (s source) workload() *problem.Problem {
	names := slices.DeleteFunc(workload.Names(), func(n string) bool {
		return slices.Contains(wideWorkloads, n) || n == "mlperf-dlrmv4" // which came after the record
	})
	clusters := [][]string{{bench.DefaultCluster, "16xa100-80"}, {bench.OtherCluster, "16xh100-80"}}[s.set-1]
	tasks, err := bench.WorkloadTasks(names[s.i%len(names):][:1], clusters[s.i/len(names):][:1])
	return s.nth(tasks, 0, err)
}

// paper returns one of the paper's tasks; the settings take turns.
func (s source) paper() *problem.Problem {
	settings := len(workload.PaperSettings())
	each := s.i/settings + 1
	tasks, err := bench.PaperTasks(s.profile("a100-80"), each, uint64(s.set))
	return s.nth(tasks, s.i%settings*each+s.i/settings, err)
}

// onHosts returns a workload on several hosts, where the blocks of a table may lie across hosts. In set 2 its batch is another one.
func (s source) onHosts() *problem.Problem {
	c := []struct {
		workload, cluster string
		hostMemory        unit.Bytes
	}{
		{"hugectr-7", "8xh200", 2 * unit.TiB},
		{"hugectr-7", "16xb200", 0},
		{"mlperf-dlrm-dcnv2", "16xh200", 0},
		{"mlperf-dlrm-dcnv2", "64xh200", 0},
		{"mlperf-dlrm-dcnv2", "64xa100-80", 0},
		{"criteo-1tb-uncapped", "16xh200", 0},
		{"nvidia-synthetic-large", "16xh200", 0},
	}[s.i]
	tasks, err := bench.WorkloadTasks([]string{c.workload}, []string{c.cluster})
	p := s.nth(tasks, 0, err)
	p.Topology.HostMemory = c.hostMemory
	p.Batch /= s.set
	return p
}

// wide returns a problem of hundreds of tables or more on 32 devices or more.
func (s source) wide() *problem.Problem {
	cluster := []string{bench.DefaultCluster, bench.OtherCluster}[s.set-1]
	if s.i < len(wideWorkloads) {
		tasks, err := bench.WorkloadTasks(wideWorkloads[s.i:][:1], []string{cluster})
		return s.nth(tasks, 0, err)
	}
	size := [][2]int{{1000, 128}, {10_000, 1024}, {300, 32}}[s.i-len(wideWorkloads)]
	p, err := workload.Scale(size[0], size[1], uint64(s.set))
	if err != nil {
		s.t.Fatal(err)
	}
	return &p
}

// drawn draws tables of 10^low to 10^high rows for some devices, at most perHost of them on a host.
func (s source) drawn(tables int, low, high float64, devices, perHost int) *problem.Problem {
	p := &problem.Problem{Batch: 1 << s.between(12, 16), Topology: hardware.Topology{
		Profile: s.profile([]string{"a100-80", "h100-80", "v100-32", "h200", "b200"}[s.IntN(5)]), Devices: devices, DevicesPerHost: min(perHost, devices),
	}}
	for i := range tables {
		name := fmt.Sprint("t", i)
		p.Tables = append(p.Tables, problem.Table{
			Name: name, Rows: int64(math.Pow(10, s.within(low, high))), Dim: []int{4, 8, 16, 32, 64, 96, 128, 256}[s.IntN(8)],
			Features: []problem.Feature{{Name: name, PoolingFactor: s.spread(1, 100)}},
			Access:   access.Distribution{Kind: access.Zipf, Exponent: s.within(.7, 1.3)},
		})
	}
	return p
}

// manySmall draws tables of 10 to 10,000 rows with high pooling factors, which may all be replicated.
func (s source) manySmall() *problem.Problem {
	p := s.drawn(s.between(20, 80), 1, 4, 1<<s.between(1, 4), 1<<s.between(0, 3))
	p.Batch = 1 << s.between(14, 17)
	for i := range p.Tables {
		p.Tables[i].Features[0].PoolingFactor = s.spread(3, 200)
	}
	return p
}

// taken returns the bytes of all tables, each whole.
func taken(p *problem.Problem) (sum unit.Bytes) {
	for i := range p.Tables {
		sum += p.ShardMemory(p.Whole(i))[problem.ForwardExchange].Used()
	}
	return sum
}

// fill sets the devices' memory so that the tables take the share of it that is for tables.
func fill(p *problem.Problem, share float64) *problem.Problem {
	p.Topology.ReserveShare = hardware.NoReserve
	p.Topology.Memory = p.DeviceMemory(0)[problem.ForwardExchange].Used() + unit.Bytes(float64(taken(p))/float64(p.Topology.Devices)/share)
	return p
}

// nearlyFull draws tables that take 60 to 90 % of the memory; half of the problems may have slices only.
func (s source) nearlyFull() *problem.Problem {
	p := fill(s.drawn(s.between(8, 16), 5, 7, s.between(2, 6), 8), s.within(.6, .9))
	if s.i%2 == 1 {
		for i := range p.Tables {
			p.Tables[i].Constraint.ShardingTypes = search.Columns()
		}
	}
	return p
}

// mixed gives tables optimizers, precisions, weights and poolings of all kinds.
func (s source) mixed(p *problem.Problem) *problem.Problem {
	for i := range p.Tables {
		t := &p.Tables[i]
		t.Optimizer = []problem.Optimizer{problem.SGD, problem.Adagrad, problem.RowwiseAdagrad, problem.Adam}[s.IntN(4)]
		t.Precision = []problem.Precision{problem.FP32, problem.FP16}[s.IntN(2)]
		t.Weighted = s.IntN(3) == 0
		if s.IntN(6) == 0 && !t.Weighted {
			t.Pooling = problem.PoolingNone
		}
		t.Features[0].PoolingFactor /= 2
	}
	return p
}

// uneven draws devices of unlike memory on several hosts, and odd numbers of devices by turns.
func (s source) uneven() *problem.Problem {
	if s.i%2 == 0 {
		return s.drawn(s.between(5, 15), 3, 7, 2*s.between(1, 5)+1, s.between(2, 8))
	}
	p := s.drawn(s.between(6, 16), 4, 7, 2*s.between(2, 4), 2)
	mean := float64(taken(p)) / float64(p.Topology.Devices)
	p.Topology.ReserveShare = hardware.NoReserve
	for range p.Topology.Devices {
		p.Topology.DeviceMemories = append(p.Topology.DeviceMemories, p.DeviceMemory(0)[problem.ForwardExchange].Used()+unit.Bytes(mean*s.within(1, 3)))
	}
	return p
}

// hosted gives devices less memory than the tables take, or little more, and hosts memory.
func (s source) hosted(p *problem.Problem) *problem.Problem {
	fill(p, 1/s.within(.4, 1.2))
	p.Topology.HostMemory = unit.TiB
	return p
}

// engine draws a problem of an engine, one third of them with host memory if it may be used.
func (s source) engine(e problem.Engine) *problem.Problem {
	p := s.drawn(s.between(4, 20), 3, 7, 2*s.between(1, 6), 4)
	if p.Engine = e; e == problem.TorchRec && s.i%3 == 0 {
		s.hosted(p)
	}
	for i := range p.Tables {
		if t := &p.Tables[i]; s.IntN(4) == 0 {
			t.Optimizer = problem.RowwiseAdagrad
		}
	}
	return p
}

// constraint draws a constraint of table i, or none. The constraints take turns, so that each problem has several.
func (s source) constraint(p *problem.Problem, i int) (c problem.Constraint) {
	dim, n := p.Tables[i].Dim, p.Topology.Devices
	switch (i + s.i) % 8 {
	case 0:
		c.Devices = s.Perm(n)[:s.between(1, n)]
		slices.Sort(c.Devices)
	case 1:
		c.Colocation = fmt.Sprint("g", s.IntN(2))
	case 2:
		c.NoSplit = true
	case 3:
		c.MinWidth = min(dim, 16)
	case 4:
		c.OneHost = true
	case 5:
		all := problem.ShardingTypes()
		c.ShardingTypes = all[s.IntN(len(all)):][:1]
	}
	return c
}

// replan draws a problem whose tables but the last have an old placement: that of method Paper, or else Lookup, which stay as
// they are, for other pooling factors. Moved bytes have a price; in one of three problems they have a budget as well.
func (s source) replan() task {
	p := s.drawn(s.between(8, 24), 3, 7, 2*s.between(1, 6), 4)
	was := *p
	was.Tables = slices.Clone(p.Tables[:len(p.Tables)-1])
	for i := range was.Tables {
		f := was.Tables[i].Features[0]
		f.PoolingFactor *= s.spread(.5, 2)
		was.Tables[i].Features = []problem.Feature{f}
	}
	list, err := neuroshard.Pretrained().List(s.t.Context(), &was)
	if err != nil {
		s.t.Fatal(err)
	}
	var old search.Result
	for _, method := range []search.Method{search.Paper, search.Lookup} { // Paper has no plan for some wide tables
		if old, err = search.Run(s.t.Context(), &was, list.NewScorer, search.Options{Method: method, Workers: 1}); err == nil {
			break
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	from := &search.From{Shards: old.Shards, Price: old.Cost / float64(taken(p)) * s.spread(.01, 1)}
	if from.Limited = s.i%3 == 0; from.Limited {
		from.Most = taken(p) / 20
	}
	return task{problem: p, from: from}
}
