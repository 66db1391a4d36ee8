package searchtest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
)

// spreadSteps is how many changes ConformSpread makes.
const spreadSteps = 250

// ConformSpread fails the test where the factory's Scorers break the contract of
// search.Scorer on problem p. It walks randomly through placements of slices in
// all forms that the problem's topology allows, those of host memory where it has some,
// and compares with placements built from nothing. The problem's accounting and
// constraints are left out of account.
func ConformSpread(t *testing.T, p *problem.Problem, factory search.Factory) {
	t.Helper()
	w := spreadWalk{t: t, p: p, walked: factory(), fresh: factory(), draw: rand.New(rand.NewPCG(3, 4))}
	w.register()
	w.walked.Reset()
	w.fresh.Reset()
	w.empty("at first")
	for w.step = range spreadSteps {
		if n := len(w.placed); n > 0 && w.draw.IntN(5) < 2 {
			w.remove(w.draw.IntN(n))
		} else {
			w.add(w.items[w.draw.IntN(len(w.items))])
		}
		w.compare()
		if t.Failed() {
			return
		}
	}
	for len(w.placed) > 0 {
		w.remove(w.draw.IntN(len(w.placed)))
	}
	w.empty("when all is removed")
	w.add(w.items[len(w.items)-1])
	w.walked.Reset()
	w.empty("after Reset")
}

// spreadItem is a slice in a form, and placedItem one on a device.
type (
	spreadItem struct {
		table, width, number int
		form                 problem.Form
	}
	placedItem struct {
		spreadItem
		device int
	}
)

type spreadWalk struct {
	t             *testing.T
	p             *problem.Problem
	walked, fresh search.Scorer
	draw          *rand.Rand
	items         []spreadItem
	placed        []placedItem
	step          int
}

// formsOf returns the forms that a table may have in the problem's topology.
func formsOf(p *problem.Problem, table int) []problem.Form {
	t, devices := &p.Tables[table], p.Topology.Devices
	forms := []problem.Form{{}}
	if t.CutsByRows(devices) {
		forms = append(forms, problem.Form{Kind: problem.RowWise})
	}
	if t.CutsByRows(p.Topology.PerHost()) {
		forms = append(forms, problem.Form{Kind: problem.TableRowWise})
	}
	if devices > 1 {
		forms = append(forms, problem.Form{Kind: problem.DataParallel})
	}
	if p.Topology.HostMemory > 0 {
		forms = append(forms, problem.Form{Tier: problem.Host}, problem.Form{Tier: problem.HostCached, Cache: .05}, problem.Form{Tier: problem.HostCached, Cache: .4})
	}
	return forms
}

// register asks for the items: the numbers are the same whoever asks and however
// often and differ by table, width and form.
func (w *spreadWalk) register() {
	seen := map[int]spreadItem{}
	for i := range w.p.Tables {
		dim := w.p.Tables[i].Dim
		for _, width := range slices.Compact([]int{dim, max(problem.ColumnGranule, dim/8*4)}) {
			for _, form := range formsOf(w.p, i) {
				it := spreadItem{table: i, width: width, form: form, number: w.walked.Item(i, width, form)}
				if again := w.fresh.Item(i, width, form); again != it.number {
					w.t.Fatalf("Item(%d, %d, %+v): got %d from one Scorer, %d from another, want the same", i, width, form, it.number, again)
				}
				if other, ok := seen[it.number]; ok {
					w.t.Fatalf("Item: got number %d for %+v and for %+v", it.number, it, other)
				}
				seen[it.number] = it
				w.items = append(w.items, it)
			}
		}
	}
}

// device draws one that the item may be given with: any, or one of a full host.
func (w *spreadWalk) device(it spreadItem) int {
	n := w.p.Topology.Devices
	if it.form.Kind == problem.TableRowWise {
		n -= n % w.p.Topology.PerHost()
	}
	return w.draw.IntN(n)
}

func (w *spreadWalk) add(it spreadItem) {
	d := w.device(it)
	all := make([]int32, w.p.Topology.Devices)
	for i := range all {
		all[i] = int32(i)
	}
	asked := all
	if it.form.Kind == problem.TableRowWise {
		asked = all[:len(all)-len(all)%w.p.Topology.PerHost()]
	}
	before, shared, cost := w.computes(w.walked), w.walked.Shared(), w.walked.Cost()
	with := make([]float64, len(asked))
	w.walked.ComputeWith(it.number, asked, with)
	if now := w.computes(w.walked); !slices.Equal(now, before) || w.walked.Shared() != shared || w.walked.Cost() != cost {
		w.t.Errorf("step %d: ComputeWith(%+v) changed the placement: Compute was %v and is %v", w.step, it, before, now)
	}
	w.walked.Add(d, it.number)
	w.placed = append(w.placed, placedItem{it, d})
	near(w.t, w.step, "ComputeWith against Add and Compute", with[d], w.walked.Compute(d))
	w.touched(it, d, before, shared)
}

func (w *spreadWalk) remove(i int) {
	p := w.placed[i]
	d := p.device
	// Any device of the same seat stands for it.
	switch p.form.Kind {
	case problem.RowWise, problem.DataParallel:
		d = w.device(p.spreadItem)
	case problem.TableRowWise:
		perHost := w.p.Topology.PerHost()
		d = d/perHost*perHost + w.draw.IntN(perHost)
	}
	before, shared := w.computes(w.walked), w.walked.Shared()
	w.walked.Remove(d, p.number)
	w.placed = slices.Delete(w.placed, i, i+1)
	w.touched(p.spreadItem, d, before, shared)
}

// touched checks that a change of an item on device d changed the Compute of its
// devices only, and Shared only where several devices hold it together.
func (w *spreadWalk) touched(it spreadItem, d int, before []float64, shared float64) {
	perHost := w.p.Topology.PerHost()
	for other, was := range before {
		its := other == d
		switch it.form.Kind {
		case problem.RowWise, problem.DataParallel:
			its = false
		case problem.TableRowWise:
			its = other/perHost == d/perHost
		}
		if now := w.walked.Compute(other); !its && now != was {
			w.t.Errorf("step %d: %+v on device %d: Compute(%d) was %v and is %v, want no change", w.step, it, d, other, was, now)
		} else if its && w.p.Tables[it.table].PoolingFactor() > 0 && now == was {
			w.t.Errorf("step %d: %+v on device %d: Compute(%d) stayed %v, want a change", w.step, it, d, other, was)
		}
	}
	switch it.form.Kind {
	case "":
		if now := w.walked.Shared(); now != shared {
			w.t.Errorf("step %d: %+v on one device: Shared was %v and is %v, want no change", w.step, it, shared, now)
		}
	case problem.RowWise, problem.DataParallel:
		if now := w.walked.Shared(); w.p.Tables[it.table].PoolingFactor() > 0 && now == shared {
			w.t.Errorf("step %d: %+v on all devices: Shared stayed %v, want a change", w.step, it, shared)
		}
	}
}

// compare compares the walked placement with one built anew in another order.
func (w *spreadWalk) compare() {
	w.fresh.Reset()
	for _, i := range w.draw.Perm(len(w.placed)) {
		w.fresh.Add(w.placed[i].device, w.placed[i].number)
	}
	slowest, want := 0.0, w.computes(w.fresh)
	for d, got := range w.computes(w.walked) {
		near(w.t, w.step, "Compute against a fresh Scorer", got, want[d])
		slowest = max(slowest, got)
	}
	near(w.t, w.step, "Shared against a fresh Scorer", w.walked.Shared(), w.fresh.Shared())
	near(w.t, w.step, "Cost against a fresh Scorer", w.walked.Cost(), w.fresh.Cost())
	if shared := w.walked.Shared(); !(shared >= 0) {
		w.t.Errorf("step %d: got Shared %v, want a number from 0", w.step, shared)
	}
	least := slowest + w.walked.Shared()
	if cost := w.walked.Cost(); !(cost >= least*(1-Tolerance)) || math.IsInf(cost, 1) {
		w.t.Errorf("step %d: Cost: got %v, want a finite number not below the slowest device's and Shared, %v", w.step, cost, least)
	}
}

// empty checks that nothing is left.
func (w *spreadWalk) empty(when string) {
	w.t.Helper()
	for d, got := range w.computes(w.walked) {
		if got != 0 {
			w.t.Errorf("Compute(%d) %s: got %v, want 0", d, when, got)
		}
	}
	if got := w.walked.Shared(); got != 0 {
		w.t.Errorf("Shared %s: got %v, want 0", when, got)
	}
}

func (w *spreadWalk) computes(s search.Scorer) []float64 {
	all := make([]float64, w.p.Topology.Devices)
	for d := range all {
		all[d] = s.Compute(d)
	}
	return all
}
