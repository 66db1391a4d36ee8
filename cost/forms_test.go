package cost_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/internal/stats"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/searchtest"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// formProblems returns the problems of searchtest.Cases by name.
func formProblems(t testing.TB) map[string]*problem.Problem {
	all := map[string]*problem.Problem{}
	for _, c := range searchtest.Cases(topology(t, 1, 0).Profile) {
		all[c.Name] = c.Problem
	}
	return all
}

// TestScorersConform: Scorers keep their contract on problems of every shape, in all forms, with what the
// engine, the topology and the model change. Each change is tried on a third of the problems.
func TestScorersConform(t *testing.T) {
	single, _ := load(t)
	ensemble, _ := three(t)
	for i, c := range searchtest.Cases(single.Hardware()) {
		for j, variant := range []struct {
			name    string
			change  func(p *problem.Problem)
			hidden  plan.Hidden
			penalty float64
		}{
			{name: "plain"},
			{name: "an ensemble with a penalty", penalty: .5},
			{name: "cached slices apart by width", change: func(p *problem.Problem) {
				p.Engine = problem.TorchRec
				for i := range p.Tables {
					t := &p.Tables[i]
					t.Prefetch, t.IndexDedup = i%3 > 0, t.IndexDedup && t.Pooling == problem.PoolingNone
				}
			}},
			{name: "hidden exchanges", hidden: plan.Hidden{Forward: .05, Backward: .02}},
			{name: "all exchanges hidden", hidden: plan.Hidden{Forward: 1e5, Replicas: true}},
			{name: "hierarchical", hidden: plan.Hidden{Forward: .05, Backward: .02, Replicas: true}, change: func(p *problem.Problem) {
				addUp(p)
				p.Hierarchy = inside
			}},
			{name: "fixed compute", change: func(p *problem.Problem) {
				p.Topology.Fixed = []hardware.FixedLoad{{Name: "all", Time: .25}, {Name: "one", Devices: []int{p.Topology.Devices - 1}, Time: .5}}
			}},
		} {
			if j > 0 && (i+j)%3 > 0 {
				continue
			}
			t.Run(c.Name+"/"+variant.name, func(t *testing.T) {
				p, model := *c.Problem, single
				p.Tables = slices.Clone(p.Tables)
				if variant.change != nil {
					variant.change(&p)
				}
				if variant.penalty > 0 {
					model = ensemble
				}
				own := problem.Deduplicated(&p) // with the fixed compute that pools vectors
				estimates := newEstimates(t, model, own)
				must.Do(t, estimates.Hide(variant.hidden))
				forms := append(searchtest.Forms(p.Topology), problem.Form{Blocks: 2}, problem.Form{Blocks: 3})
				searchtest.Conform(t, own, func() search.Scorer { return estimates.NewScorer(variant.penalty) }, forms)
			})
		}
	}
}

// drawnForm is the form of a table in a random placement, with the table's number of
// slices. A grid is several slices, each cut into blocks of rows on one host.
type drawnForm struct {
	problem.Form
	slices int
}

// formsFor returns the forms that a table may have. The keys are sharding types and tiers.
func formsFor(p *problem.Problem, table int) map[string]drawnForm {
	t, topology := &p.Tables[table], p.Topology
	forms := map[string]drawnForm{"column_wise": {slices: 2}, "table_wise": {slices: 1}}
	if t.Dim < 8 {
		delete(forms, "column_wise")
	}
	if t.CutsByRows(topology.Devices) {
		forms["row_wise"] = drawnForm{problem.Form{ShardingType: problem.RowWise}, 1}
	}
	if t.CutsByRows(topology.PerHost()) && !t.Apart() {
		forms["table_row_wise"] = drawnForm{problem.Form{ShardingType: problem.TableRowWise}, 1}
		if hosts := topology.Devices / topology.PerHost(); hosts > 1 && t.Dim >= 8 {
			forms["grid"] = drawnForm{problem.Form{ShardingType: problem.TableRowWise}, 2}
		}
	}
	if topology.Devices > 1 && t.Permits(problem.DataParallel) {
		forms["data_parallel"] = drawnForm{problem.Form{ShardingType: problem.DataParallel}, 1}
	}
	if topology.HostMemory > 0 {
		forms["host"] = drawnForm{problem.Form{Tier: problem.Host}, 1}
		forms["host_cached"] = drawnForm{problem.Form{Tier: problem.HostCached, Cache: .2}, 1}
	}
	return forms
}

// drawForm draws one of the forms that a table may have, from those named in only; if only
// is empty, from all of them.
func drawForm(p *problem.Problem, table int, draw *rand.Rand, only ...string) drawnForm {
	forms := formsFor(p, table)
	var names []string
	for name := range forms {
		if len(only) == 0 || slices.Contains(only, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return drawnForm{slices: 1}
	}
	slices.Sort(names)
	return forms[names[draw.IntN(len(names))]]
}

// placeIn adds the shards of a table in the given form to shards, on random devices.
func placeIn(p *problem.Problem, shards [][]problem.Shard, table int, f drawnForm, draw *rand.Rand) {
	t, n, perHost := &p.Tables[table], p.Topology.Devices, p.Topology.PerHost()
	hosts := draw.Perm(n / perHost)
	for i := range f.slices {
		s := p.Whole(table)
		granules := int64(t.Dim / problem.ColumnGranule)
		s.Columns.Start = int64(i) * granules / int64(f.slices) * problem.ColumnGranule
		s.Columns.End = int64(i+1) * granules / int64(f.slices) * problem.ColumnGranule
		s.ShardingType, s.Tier, s.Cache, s.Blocks = f.ShardingType, f.Tier, f.Cache, f.Blocks
		if s.Blocks > 0 {
			s.ShardingType = problem.RowWise
			for k, d := range slices.Sorted(slices.Values(draw.Perm(n)[:s.Blocks])) {
				part, block := s, t.BlockRows(s.Blocks)
				part.Rows = problem.Range{Start: int64(k) * block, End: min(t.Rows, int64(k+1)*block)}
				shards[d] = append(shards[d], part)
			}
			continue
		}
		first, count := draw.IntN(n), 1
		switch f.ShardingType {
		case problem.RowWise, problem.DataParallel:
			first, count = 0, n
		case problem.TableRowWise:
			first, count = hosts[i]*perHost, perHost
			if f.slices > 1 {
				s.ShardingType = problem.Grid
			}
		}
		for k := range count {
			part := s
			if f.ShardingType.ByRows() {
				block := t.BlockRows(count)
				part.Rows = problem.Range{Start: int64(k) * block, End: min(t.Rows, int64(k+1)*block)}
			}
			shards[first+k] = append(shards[first+k], part)
		}
	}
}

// TestFormsAgreeWithPrice compares a Scorer with Estimates.Price on random placements: their
// costs must agree, and so must the times of each device with Compute and Shared; also with exchanges
// that overlap with compute, and with a hierarchical one, which is the simulated device's.
func TestFormsAgreeWithPrice(t *testing.T) {
	single, file := load(t)
	overlapping := *file
	overlapping.Manifest.Comm.OverlapRest, overlapping.Manifest.Comm.OverlapRate = 1.2, .8
	for name, p := range formProblems(t) {
		agreeWithPrice(t, name, single, p)
		agreeWithPrice(t, name+", overlapping", must.Get(cost.Load(&overlapping))(t), p)
		addUp(p)
		p.Hierarchy = inside
		agreeWithPrice(t, name+", hierarchical", single, p)
	}
}

func agreeWithPrice(t *testing.T, name string, model *cost.Model, p *problem.Problem) {
	t.Helper()
	estimates, judge := newEstimates(t, model, p), simulate.NewPricer(p)
	s := estimates.NewScorer(0)
	draw := rand.New(rand.NewPCG(11, 12))
	for round := range 20 {
		s.Reset()
		shards := make([][]problem.Shard, p.Topology.Devices)
		for i := range p.Tables {
			only := []string{}
			if round%4 == 3 { // no slice on one device, so there is no all-to-all of columns
				only = []string{"row_wise", "data_parallel", "table_row_wise"}[round/4%3:][:1]
			}
			f := drawForm(p, i, draw, only...)
			if p.Topology.Devices > 1 && p.Tables[i].Pooling != problem.PoolingNone && round%4 == 2 && draw.IntN(3) == 0 {
				if chosen, ok := formOfRow(p, i, chosenRows); ok {
					f = chosen
				}
			}
			placeIn(p, shards, i, f, draw)
		}
		addAll(s, p, shards)
		b := estimates.Price(shards)
		if got := s.Cost(); !near(got, float64(b.Cost), 1e-9) || b.Devices[b.Critical].Total() != b.Cost {
			t.Errorf("%s, round %d: got cost %v, want that of Price, %v, on device %d", name, round, got, b.Cost, b.Critical)
		}
		slowest := 0.
		for d, device := range b.Devices {
			slowest = max(slowest, s.Compute(d))
			if device.Total() > b.Cost {
				t.Errorf("%s, round %d: device %d: got a total of %v, want at most the cost %v", name, round, d, device.Total(), b.Cost)
			}
			if of := float64(device.Forward + device.Backward); of > s.Compute(d)+s.Shared()+1e-9 || of < s.Compute(d)*(1-1e-9) {
				t.Errorf("%s, round %d: device %d: got a compute time of %v, want at least Compute, %v, and at most that and Shared, %v", name, round, d, of, s.Compute(d), s.Shared())
			}
		}
		// The time that all devices share adds to the time of the slowest device.
		if least := slowest + s.Shared(); s.Cost() < least*(1-1e-12) {
			t.Errorf("%s, round %d: got cost %v, want at least %v", name, round, s.Cost(), least)
		}
		if !p.Hierarchy.On() {
			continue
		}
		judged := must.Get(judge.Price(shards))(t)
		if got, want := leastForward(b), leastForward(judged); !near(got, want, 1e-9) {
			t.Errorf("%s, round %d: got an exchange of %v ms, want the simulated %v", name, round, got, want)
		}
	}
}

// leastForward returns the time of the forward exchange without the wait for others.
func leastForward(b plan.Breakdown) float64 {
	time := b.Devices[0].ForwardComm
	for _, d := range b.Devices {
		time = min(time, d.ForwardComm)
	}
	return float64(time)
}

// TestFormsForgetTheirPast adds and removes slices of all forms at random. The Scorer must
// equal, to the last bit, a new Scorer with the same slices added in another order.
func TestFormsForgetTheirPast(t *testing.T) {
	model, _ := load(t)
	p := formProblems(t)["two hosts, host memory"]
	estimates := newEstimates(t, model, p)
	walked := estimates.NewScorer(0)
	draw := rand.New(rand.NewPCG(31, 32))
	var items []int
	for i := range p.Tables {
		for _, f := range formsFor(p, i) {
			items = append(items, walked.Item(i, p.Tables[i].Dim, f.Form))
		}
	}
	slices.Sort(items)
	items = slices.Compact(items)
	var placed []held
	for range 300 {
		if n := len(placed); n > 0 && draw.IntN(5) < 2 {
			i := draw.IntN(n)
			walked.Remove(placed[i].device, placed[i].slice)
			placed = slices.Delete(placed, i, i+1)
		} else {
			h := held{draw.IntN(p.Topology.Devices), items[draw.IntN(len(items))]}
			walked.Add(h.device, h.slice)
			placed = append(placed, h)
		}
		fresh := estimates.NewScorer(0)
		for _, i := range draw.Perm(len(placed)) {
			fresh.Add(placed[i].device, placed[i].slice)
		}
		for d := range p.Topology.Devices {
			if got, want := walked.Compute(d), fresh.Compute(d); got != want {
				t.Fatalf("device %d: got %v, want %v", d, got, want)
			}
		}
		if walked.Shared() != fresh.Shared() || walked.Cost() != fresh.Cost() {
			t.Fatalf("got %v shared and cost %v, want %v and %v", walked.Shared(), walked.Cost(), fresh.Shared(), fresh.Cost())
		}
	}
}

// accuracyOf holds the errors of predictions, relative to the simulated device.
type accuracyOf struct {
	errors, computes []float64 // |error| of cost, and of each device's compute
	bias             float64
	// predicted and simulated are the costs of the placements of one task. taus are
	// Kendall's tau between the two, for each task before.
	predicted, simulated, taus []float64
}

// order ends a task: it adds the task's tau.
func (a *accuracyOf) order() {
	if len(a.predicted) > 0 {
		a.taus = append(a.taus, stats.Kendall(a.predicted, a.simulated))
	}
	a.predicted, a.simulated = nil, nil
}

func (a *accuracyOf) add(predicted plan.Breakdown, simulated plan.Breakdown) {
	got, want := float64(predicted.Cost), float64(simulated.Cost)
	a.predicted, a.simulated = append(a.predicted, got), append(a.simulated, want)
	a.errors = append(a.errors, math.Abs(got/want-1))
	a.bias += got/want - 1
	for d := range predicted.Devices {
		got := float64(predicted.Devices[d].Forward + predicted.Devices[d].Backward)
		want := float64(simulated.Devices[d].Forward + simulated.Devices[d].Backward)
		if want > 0 {
			a.computes = append(a.computes, math.Abs(got/want-1))
		}
	}
}

func mean(values []float64) float64 {
	sum := 0.
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func p95(values []float64) float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[min(len(sorted)-1, len(sorted)*95/100)]
}

// TestAccuracyOfShardingTypes compares the costs that one of the shipped models predicts with
// those of the simulated device, and bounds the errors; with the build tag long,
// TestAccuracyOfShardingTypesOfAllModels compares those of all. The placements are random, of
// tasks whose tables the model was not trained on. Each sharding type or tier has a row.
// In the placements of a row, a third of the tables, and at least one, has the row's form,
// and the others are slices of columns; in the row "all", tables have any form. In the last
// row, slices of columns run with lanes of their own. Two thirds of the tables have bags of
// unequal lengths. Tau is the mean over tasks of Kendall's tau of the task's placements. The
// row "row_wise, chosen" has rows on chosen devices. With -v the test prints the rows: they are
// the accuracy in docs/RESULTS.md.
func TestAccuracyOfShardingTypes(t *testing.T) {
	const name = "a100-80"
	t.Run(name, func(t *testing.T) { accuracyOfShardingType(t, name) })
}

// ownLanes is the row of slices of columns with lanes of their own, and chosenRows that of blocks
// of rows on chosen devices, which drawForm does not draw.
const (
	ownLanes   = "column_wise, own"
	chosenRows = "row_wise, chosen"
)

// formOfRow returns the form of the tables that a row is about, if a table can have it.
func formOfRow(p *problem.Problem, table int, row string) (drawnForm, bool) {
	if row == chosenRows {
		k := 2 + table%(p.Topology.Devices-1)
		return drawnForm{problem.Form{Blocks: k}, 1}, p.Tables[table].CutsByRows(k)
	}
	f, ok := formsFor(p, table)[strings.TrimSuffix(row, ", own")]
	return f, ok
}

func accuracyOfShardingType(t *testing.T, profile string) {
	file := must.Get(pretrained.File(profile))(t)
	model := must.Get(cost.Load(file))(t)
	const tasks, placements = 12, 6
	// Bounds of mean errors. The largest mean errors of a row and model are 0.7 % (cost) and 1.4 %
	// (compute).
	const mostCost, mostCompute = .01, .017
	rows := []string{"column_wise", "row_wise", "table_row_wise", "grid", "data_parallel", "host", "host_cached", "all", ownLanes, chosenRows}
	report := map[string]*accuracyOf{}
	for _, row := range rows {
		report[row] = &accuracyOf{}
	}
	for i := range tasks {
		p := unseenTask(t, model, i)
		priced := newEstimates(t, model, &p)
		judge := simulate.NewPricer(&p)
		draw := rand.New(rand.NewPCG(uint64(i), 41))
		for _, row := range rows {
			if row == ownLanes || row == chosenRows {
				p.LaneRule = map[string]problem.LaneRule{ownLanes: problem.LanesByTable}[row]
				priced, judge = newEstimates(t, model, &p), simulate.NewPricer(&p)
			}
			for range placements {
				shards := make([][]problem.Shard, p.Topology.Devices)
				found := false
				for table := range p.Tables {
					f := drawForm(&p, table, draw, "table_wise", "column_wise")
					if row == "all" {
						f = drawForm(&p, table, draw)
					} else if draw.IntN(3) == 0 || table == len(p.Tables)-1 {
						if other, ok := formOfRow(&p, table, row); ok {
							f, found = other, true
						}
					}
					placeIn(&p, shards, table, f, draw)
				}
				if !found && row != "all" {
					continue // no table can have the form on this cluster
				}
				simulated := must.Get(judge.Price(shards))(t)
				report[row].add(priced.Price(shards), simulated)
			}
			report[row].order()
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%s, error against the simulated device (SIMULATED), %%\n%-16s%12s%8s%8s%8s%10s%8s%8s\n", profile, "form", "placements", "cost", "p95", "bias", "compute", "p95", "tau")
	for _, row := range rows {
		a := report[row]
		if n := len(a.errors); n > 0 {
			fmt.Fprintf(&table, "%-16s%12d%8.2f%8.2f%+8.2f%10.2f%8.2f%8.3f\n", row, n, 100*mean(a.errors), 100*p95(a.errors), 100*a.bias/float64(n),
				100*mean(a.computes), 100*p95(a.computes), mean(a.taus))
		} else if row != "grid" || model.Hardware().NICGBps > 0 {
			t.Errorf("%s: got no placements, want some", row)
		}
		if mean(a.errors) > mostCost || mean(a.computes) > mostCompute {
			t.Errorf("%s: got a mean error of the cost of %.2f %% and of the compute of %.2f %%, want at most %.1f %% and %.1f %%", row, 100*mean(a.errors), 100*mean(a.computes), 100*mostCost, 100*mostCompute)
		}
	}
	t.Log("\n" + table.String())
}

// unseenTask returns task i of those whose tables the model was not trained on.
func unseenTask(t *testing.T, model *cost.Model, i int) problem.Problem {
	t.Helper()
	device := model.Hardware()
	clusters := []hardware.Topology{{Devices: 4}, {Devices: 8, DevicesPerHost: 4}, {Devices: 16, DevicesPerHost: 8}, {Devices: 32, DevicesPerHost: 8}}
	if device.NICGBps == 0 {
		clusters = []hardware.Topology{{Devices: 2}, {Devices: 4}, {Devices: 8}}
	}
	settings := workload.PaperSettings()
	drawn := must.Get(workload.Draw(workload.Pool(4242), settings[i%len(settings)], 4242, i))(t)
	p := drawn.Problem(device)
	p.Topology = clusters[i%len(clusters)]
	p.Topology.Profile, p.Topology.HostMemory = device, unit.TiB
	p.Accounting = problem.CountAll
	for at := range p.Tables {
		p.Tables[at].Features = slices.Clone(p.Tables[at].Features)
		for f := range p.Tables[at].Features {
			p.Tables[at].Features[f].LengthCV = []float64{0, .3, 1}[at%3]
		}
	}
	return p
}
