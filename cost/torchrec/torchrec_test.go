package torchrec_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/cost/torchrec"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// said is what the real package said: python/tests/torchrec_estimates.py
// writes the file.
type said struct {
	Source string
	Shards []saidShard
	Plans  []saidPlan
}

type saidShard struct {
	saidCluster
	saidTable
	Shard [2]int64 // rows, columns
	shardMS
}

// shardMS is what TorchRec says of a shard.
type shardMS struct {
	MS    []float64 // forward, its exchange, backward's exchange, backward
	Total float64   `json:"total_ms"`
}

type saidPlan struct {
	saidCluster
	Tables []struct {
		saidTable
		Shards [][5]int64 // rank, rows, columns
	}
	planMS
}

// planMS is what TorchRec says of a plan.
type planMS struct {
	Cost   []float64 `json:"cost_ms"`
	Rating float64   `json:"rating_ms"`
}

type saidCluster struct {
	Devices int
	PerHost int `json:"devices_per_host"`
	Batch   int `json:"batch_per_rank"`
	Comm    string
	// Topology has the bandwidths, in bytes a millisecond, and multipliers that are not TorchRec's
	// defaults.
	Topology struct {
		Links    float64 `json:"intra_host_bw"`
		Network  float64 `json:"inter_host_bw"`
		HBM      float64 `json:"hbm_mem_bw"`
		HostLink float64 `json:"hbm_to_ddr_mem_bw"`
		Backward float64 `json:"bwd_compute_multiplier"`
		Weighted float64 `json:"weighted_feature_bwd_compute_multiplier"`
		Pod      int     `json:"pod_size"` // hosts that the same links join
	}
}

type saidTable struct {
	Rows         int64
	Dim          int
	Poolings     []float64
	Precision    string
	Weighted     bool
	ShardingType problem.ShardingType `json:"kind"`
	Kernel       string
	Cache        float64
	Pooling      string
	Bags         []float64 // num_poolings
	Batches      []float64 `json:"batch_sizes"` // of a rank, by feature
	Prefetch     bool
	Output       string `json:"output_dtype"`
}

func (c saidCluster) problem(t *testing.T) *problem.Problem {
	comm := must.Get(problem.ParsePrecision(c.Comm))(t)
	perSecond := func(b float64) unit.Bandwidth { return unit.Bandwidth(1000 * b) }
	of := c.Topology
	return &problem.Problem{
		Topology: hardware.Topology{
			Profile: hardware.Profiles()[4], Devices: c.Devices, DevicesPerHost: c.PerHost, NetworkBandwidth: perSecond(of.Network),
			NVLinkDomain: of.Pod * c.PerHost,
			Numbers: hardware.Numbers{
				Bandwidths:  hardware.Bandwidths{Links: perSecond(of.Links), HBM: perSecond(of.HBM), HostLink: perSecond(of.HostLink)},
				Multipliers: hardware.Multipliers{Backward: of.Backward, WeightedBackward: of.Weighted},
			},
		},
		Batch:         c.Batch * c.Devices,
		CommPrecision: comm,
	}
}

// table returns the table, of batch samples a rank.
func (s saidTable) table(t *testing.T, batch int) problem.Table {
	t.Helper()
	table := problem.Table{Rows: s.Rows, Dim: s.Dim, Weighted: s.Weighted, Prefetch: s.Prefetch}
	var err error
	if s.Precision != "" {
		if table.Precision, err = problem.ParsePrecision(s.Precision); err != nil {
			t.Fatal(err)
		}
	}
	if s.Pooling != "" {
		if table.Pooling, err = problem.ParsePooling(s.Pooling); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range s.Poolings {
		f := problem.Feature{PoolingFactor: p}
		if s.Bags != nil {
			f.Bags, f.PoolingFactor = s.Bags[i], p*s.Bags[i]
		}
		if s.Batches != nil { // as neuroshard_torchrec does
			f.Bags = cmp.Or(f.Bags, 1) * s.Batches[i] / float64(batch)
			f.PoolingFactor = f.PoolingFactor * s.Batches[i] / float64(batch)
		}
		if table.Pooling == problem.PoolingNone {
			f.Bags = 0
		}
		table.Features = append(table.Features, f)
	}
	return table
}

// fields returns what the table has of what not all tables have, for counting.
func (s saidTable) fields() []string {
	of := "of " + s.Precision
	if s.Pooling == "none" {
		of = "sequence"
	}
	all := []string{of}
	for name, has := range map[string]bool{
		"bags": s.Bags != nil, "batches": s.Batches != nil, "weighted": s.Weighted, "output " + s.Output: s.Output != "",
		"prefetch": s.Prefetch, "less than a lookup": slices.ContainsFunc(s.Poolings, func(p float64) bool { return p > 0 && p < 1 }), fmt.Sprint(of, " ", s.ShardingType): true, fmt.Sprint(s.ShardingType, " ", s.Kernel): true,
	} {
		if has {
			all = append(all, name)
		}
	}
	return all
}

func (c saidCluster) fields() (all []string) {
	if c.Topology.Pod > 1 {
		all = append(all, "pods")
	}
	if c.Devices%c.PerHost != 0 {
		all = append(all, "a host that is not full")
	}
	return all
}

func (s saidTable) tier() problem.Tier {
	switch s.Kernel {
	case "fused_uvm":
		return problem.Host
	case "fused_uvm_caching":
		return problem.HostCached
	}
	return ""
}

// readSaid returns what a release said: all of the newest release's file, and of another release
// the cases whose times differ.
func readSaid(t *testing.T, r problem.TorchRecRelease) said {
	t.Helper()
	var s said
	readJSON(t, "testdata/estimator.json", &s)
	source := s.Source
	if r != problem.NewestTorchRec() {
		var other struct {
			Source string
			Shards []struct {
				Case int
				shardMS
			}
			Plans []struct {
				Case int
				planMS
			}
		}
		readJSON(t, "testdata/estimator-"+r.Name+".json", &other)
		for _, c := range other.Shards {
			s.Shards[c.Case].shardMS = c.shardMS
		}
		for _, c := range other.Plans {
			s.Plans[c.Case].planMS = c.planMS
		}
		source = other.Source
	}
	if !strings.Contains(source, "TorchRec "+r.Version+",") {
		t.Fatalf("the file is of another version than %s: %s", r.Version, source)
	}
	return s
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	data := must.Get(os.ReadFile(file))(t)
	must.Do(t, json.Unmarshal(data, into))
}

// eachRelease runs a test of each release of TorchRec that is known.
func eachRelease(t *testing.T, test func(t *testing.T, r problem.TorchRecRelease)) {
	for _, r := range problem.TorchRecReleases() {
		t.Run(r.Name, func(t *testing.T) { test(t, r) })
	}
}

const tolerance = 1e-12

func near(got unit.Millis, want float64) bool {
	return math.Abs(float64(got)-want) <= tolerance*math.Abs(want)
}

// furthest is the largest relative difference of numbers from those of TorchRec.
type furthest float64

func (f *furthest) add(got unit.Millis, want float64) {
	if want != 0 {
		*f = max(*f, furthest(math.Abs(float64(got)/want-1)))
	}
}

// TestShardsAsTorchRec: each drawn shard costs what each release of TorchRec says, part by part.
func TestShardsAsTorchRec(t *testing.T) { eachRelease(t, shardsAsTorchRec) }

func shardsAsTorchRec(t *testing.T, r problem.TorchRecRelease) {
	seen, most := map[string]int{}, furthest(0)
	for i, c := range readSaid(t, r).Shards {
		p := c.problem(t)
		p.Tables = []problem.Table{c.table(t, c.Batch)}
		got := torchrec.NewEstimates(p, r).Estimate(problem.Shard{
			Rows: problem.Range{End: c.Shard[0]}, Columns: problem.Range{End: c.Shard[1]},
			ShardingType: c.ShardingType, Tier: c.tier(), Cache: c.Cache,
		})
		for k, part := range []unit.Millis{got.Forward, got.ForwardComm, got.BackwardComm, got.Backward} {
			most.add(part, c.MS[k])
			if !near(part, c.MS[k]) {
				t.Errorf("shard %d, part %d: got %v, want %v\n%+v", i, k, float64(part), c.MS[k], c)
			}
		}
		if !near(got.Total(), c.Total) {
			t.Errorf("shard %d: got %v in all, want %v", i, float64(got.Total()), c.Total)
		}
		for _, field := range append(c.saidTable.fields(), c.saidCluster.fields()...) {
			seen[field]++
		}
	}
	t.Logf("the largest relative difference from TorchRec %s is %.1e", r.Version, float64(most))
	want := []string{"pods", "a host that is not full", "less than a lookup", "of fp32", "of fp16", "of bf16", "sequence", "bags", "batches", "weighted", "prefetch", "output fp32", "output fp16", "output bf16"}
	for _, shardingType := range problem.ShardingTypes() {
		kernels := []string{"fused", "fused_uvm", "fused_uvm_caching"}
		if shardingType == problem.DataParallel {
			kernels = []string{"dense"}
		}
		for _, kernel := range kernels {
			want = append(want, fmt.Sprint(shardingType, " ", kernel))
		}
		if shardingType.Span() != problem.OneHost {
			want = append(want, fmt.Sprint("sequence ", shardingType))
		}
	}
	for _, field := range want {
		if seen[field] < 5 {
			t.Errorf("got %d shards with %q in the file, want at least 5", seen[field], field)
		}
	}
}

// TestPlansAsTorchRec compares the cost of each device of drawn plans, and of each plan,
// with the estimate of each release of TorchRec.
func TestPlansAsTorchRec(t *testing.T) { eachRelease(t, plansAsTorchRec) }

func plansAsTorchRec(t *testing.T, r problem.TorchRecRelease) {
	for i, c := range readSaid(t, r).Plans {
		p := c.problem(t)
		held := make([][]problem.Shard, c.Devices)
		for k, table := range c.Tables {
			p.Tables = append(p.Tables, table.table(t, c.Batch))
			for _, s := range table.Shards {
				held[s[0]] = append(held[s[0]], problem.Shard{
					Table: k, Rows: problem.Range{Start: s[1], End: s[2]}, Columns: problem.Range{Start: s[3], End: s[4]},
					ShardingType: table.ShardingType, Tier: table.tier(), Cache: table.Cache,
				})
			}
		}
		got := torchrec.NewEstimates(p, r).Price(held)
		for d, want := range c.Cost {
			if !near(got.Devices[d].Total(), want) {
				t.Errorf("plan %d, device %d: got %v, want %v", i, d, float64(got.Devices[d].Total()), want)
			}
		}
		if !near(got.Cost, c.Rating) || !near(got.Cost, slices.Max(c.Cost)) {
			t.Errorf("plan %d: got %v, want %v", i, float64(got.Cost), c.Rating)
		}
	}
}

// TestShardingTypeByShape: the shape of a shard that states no sharding type decides it.
func TestShardingTypeByShape(t *testing.T) {
	p := &problem.Problem{
		Tables:   []problem.Table{{Rows: 100, Dim: 64, Features: []problem.Feature{{PoolingFactor: 3}}}},
		Topology: hardware.Topology{Profile: hardware.Profiles()[4], Devices: 4, DevicesPerHost: 2},
		Batch:    64,
	}
	estimates := torchrec.NewEstimates(p, problem.NewestTorchRec())
	block := problem.Shard{Rows: problem.Range{Start: 25, End: 50}, Columns: problem.Range{End: 64}}
	stated := block
	stated.ShardingType = problem.RowWise
	if got, want := estimates.Estimate(block), estimates.Estimate(stated); got != want {
		t.Errorf("a block of rows: got %+v, want %+v", got, want)
	}
	whole, stated := p.Whole(0), p.Whole(0)
	stated.ShardingType = problem.TableWise
	if got, want := estimates.Estimate(whole), estimates.Estimate(stated); got != want {
		t.Errorf("a whole table: got %+v, want %+v", got, want)
	}
}
