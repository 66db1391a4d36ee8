package cost_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

// profilesOverHosts returns the shipped models of devices with a network, with the
// devices.
func profilesOverHosts(t *testing.T) map[*cost.Model]hardware.Profile {
	all := map[*cost.Model]hardware.Profile{}
	for _, name := range pretrained.Profiles() {
		file := must.Get(pretrained.File(name))(t)
		if model := must.Get(cost.Load(file))(t); model.Hardware().NICGBps > 0 {
			all[model] = model.Hardware()
		}
	}
	return all
}

// TestExchangesOverHosts compares exchanges other than all-to-alls with the simulated
// device: all-reduces of 16,000 to 1.6 billion weights, and exchanges of blocks of 8 to
// 2,048 columns, on 1 to 16 hosts of 1 to 8 devices, at small and large batches.
func TestExchangesOverHosts(t *testing.T) {
	const most = .02
	for model, profile := range profilesOverHosts(t) {
		errors, worst := map[problem.ShardingType]float64{}, map[problem.ShardingType]string{}
		for _, p := range problemsOverHosts(t, profile) {
			for _, kind := range []problem.ShardingType{problem.DataParallel, problem.RowWise, problem.TableRowWise} {
				topology, table := p.Topology, &p.Tables[0]
				if kind == problem.TableRowWise && topology.PerHost() == 1 {
					continue
				}
				got, want := exchangesOf(t, model, p, problem.Form{ShardingType: kind})
				if e := got/want - 1; math.Abs(e) > math.Abs(errors[kind]) {
					errors[kind] = e
					worst[kind] = fmt.Sprintf("%d devices, %d on a host, batch %d, %d rows of %d: %.4f ms, simulated %.4f ms", topology.Devices, topology.PerHost(), p.Batch, table.Rows, table.Dim, got, want)
				}
			}
		}
		for kind, e := range errors {
			t.Logf("%s, %s: error of at most %+.1f %% (SIMULATED): %s", profile.Name, kind, 100*e, worst[kind])
			if math.Abs(e) > most {
				t.Errorf("%s, %s: got an error of %+.1f %%, want at most %.1f %%: %s", profile.Name, kind, 100*e, 100*most, worst[kind])
			}
		}
	}
}

// problemsOverHosts returns problems of one table on several devices of the profile.
func problemsOverHosts(t *testing.T, profile hardware.Profile) (all []*problem.Problem) {
	type size struct {
		rows int64
		dim  int
	}
	for _, perHost := range []int{1, 2, 4, 8} {
		for _, hosts := range []int{1, 2, 3, 4, 16} {
			for _, batch := range []int{512, 2048, 16384, 65536} {
				for _, s := range []size{{2000, 8}, {7000, 128}, {30_000, 512}, {800_000, 2048}} {
					if perHost*hosts == 1 {
						continue
					}
					p := oneTable(t, s.rows, perHost*hosts, perHost)
					p.Topology.Profile, p.Batch, p.Tables[0].Dim = profile, batch, s.dim
					all = append(all, p)
				}
			}
		}
	}
	return all
}

// exchangesOf returns the predicted and the simulated time of a backward exchange of the
// problem's only table in the given form, in ms.
func exchangesOf(t *testing.T, model *cost.Model, p *problem.Problem, form problem.Form) (predicted, simulated float64) {
	s := newEstimates(t, model, p).NewScorer(0)
	s.Add(0, s.Item(0, p.Tables[0].Dim, form))
	c := simulate.Comm{PerHost: p.Topology.PerHost(), Batch: p.Batch, DimSums: make([]int, p.Topology.Devices)}
	switch form.ShardingType {
	case problem.DataParallel:
		c.Replicated = float64(p.Tables[0].Rows) * float64(p.Tables[0].Dim)
	case problem.RowWise:
		c.RowWise = p.Tables[0].Dim
	default:
		c.ByHost = make([]int, p.Topology.Hosts())
		c.ByHost[0] = p.Tables[0].Dim
	}
	_, backward := must.Get2(simulate.NewDevice(p.Topology.Profile).Comm(c))(t)
	return float64(s.Breakdown().Devices[0].BackwardComm), float64(backward[0])
}

// TestColumnsOfTheSamples: the columns that bound the questions to the correcting net are
// those of the all-to-alls that package design draws.
func TestColumnsOfTheSamples(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it estimates many samples, one after another")
	}
	profile := must.Get(hardware.ByName(profileName))(t)
	var most, even []int
	for _, e := range design.Comm(1, 300, profile).Samples {
		most = append(most, slices.Max(e.DimSums))
		if least := slices.Min(e.DimSums); 4*least > 3*slices.Max(e.DimSums) {
			even = append(even, least)
		}
	}
	slices.Sort(most)
	slices.Sort(even)
	if median := most[len(most)/2]; median < cost.TypicalColumns*3/4 || median > cost.TypicalColumns*5/4 {
		t.Errorf("got a median of %d columns, want about %d", median, cost.TypicalColumns)
	}
	if got := most[len(most)-1]; got > cost.MostColumns {
		t.Errorf("got %d columns, want at most %d", got, cost.MostColumns)
	}
	if above := even[len(even)*19/20]; above < cost.MostEvenColumns {
		t.Errorf("got even loads of %d columns at the 95th percentile, want %d and more", above, cost.MostEvenColumns)
	}
}

// TestSamplesAreAskedAsTheyAre: the question for an all-to-all inside the samples is that
// all-to-all, so that the model judges its samples by what it was fitted to.
func TestSamplesAreAskedAsTheyAre(t *testing.T) {
	model, file := load(t)
	file.Manifest.Domain = modelfile.Domain{}
	anywhere := must.Get(cost.Load(file))(t)
	for _, e := range design.Comm(2, 200, model.Hardware()).Samples {
		cluster := cost.Cluster{Devices: e.Devices, PerHost: min(e.DevicesPerHost, e.Devices), Batch: e.Batch}
		load := cost.CommLoad{Min: math.MaxInt}
		for _, d := range e.DimSums {
			load.Max, load.Min, load.Sum = max(load.Max, d), min(load.Min, d), load.Sum+d
		}
		forward, backward := model.Exchange(cluster, load, 0)
		if f, b := anywhere.Exchange(cluster, load, 0); f != forward || b != backward {
			t.Errorf("%+v %+v: got %v and %v, want %v and %v", cluster, load, forward, backward, f, b)
		}
	}
}
