// Package searchtest checks that a Scorer keeps the promises that package
// search relies on.
//
//	Cases       problems on clusters of all shapes, for every implementation (cases.go)
//	Forms       the forms that a cluster allows
//	Conform     walks through placements of a problem and fails where a promise is broken
//	WithPolicy  gives a method that needs a policy one that learned nothing (policy.go)
package searchtest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
)

// Tolerance is the relative difference allowed between two times of the same
// slices, for the rounding of sums in another order.
const Tolerance = 1e-9

// steps is how many changes Conform makes.
const steps = 300

// Forms returns the forms that slices may have on a cluster, the zero form first. Forms
// in host memory, with a small and a large cache, are included if the cluster has host
// memory. The slice is the caller's.
func Forms(t hardware.Topology) []problem.Form {
	forms := []problem.Form{{}}
	if t.Devices > 1 {
		forms = append(forms, problem.Form{ShardingType: problem.RowWise}, problem.Form{ShardingType: problem.DataParallel})
	}
	if t.PerHost() > 1 {
		forms = append(forms, problem.Form{ShardingType: problem.TableRowWise})
	}
	if t.MostHostMemory() > 0 {
		forms = append(forms, problem.Form{Tier: problem.Host}, problem.Form{Tier: problem.HostCached, Cache: .05}, problem.Form{Tier: problem.HostCached, Cache: .4})
	}
	return forms
}

// Conform fails the test where the factory's Scorers break the contract of
// search.Scorer on problem p. It walks randomly through placements of slices in the
// given forms, which the Scorers must estimate, and compares the estimates with those
// of placements built from the start. If forms is empty, the walk uses the zero form
// only. If the Scorers are Numbered, the walk uses each form in the operators of two
// numbers. A table with fewer rows than blocks is not cut by rows, and a table of pooling none
// not over the devices of a host or chosen ones. The problem's accounting and constraints are ignored.
func Conform(t *testing.T, p *problem.Problem, factory search.Factory, forms []problem.Form) {
	t.Helper()
	w := walk{t: t, p: p, walked: factory(), fresh: factory(), draw: rand.New(rand.NewPCG(3, 4))}
	if len(forms) == 0 {
		forms = []problem.Form{{}}
	}
	if n, ok := w.walked.(search.Numbered); ok && n.Numbered() {
		for _, form := range slices.Clone(forms) {
			form.Operator = problem.Operators - 1
			forms = append(forms, form)
		}
	}
	w.register(forms)
	w.walked.Reset()
	w.fresh.Reset()
	w.empty("at first")
	for w.step = range steps {
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

// item is a slice in a form, and placed one on a device.
type (
	item struct {
		table, width, number int
		form                 problem.Form
	}
	placed struct {
		item
		device int
	}
)

// walk is a placement that changes step by step, with the Scorer that follows the
// changes and a factory for Scorers that get each placement at once.
type walk struct {
	t             *testing.T
	p             *problem.Problem
	walked, fresh search.Scorer
	draw          *rand.Rand
	items         []item
	placed        []placed
	step          int
}

// register asks the Scorers for the items. Every Scorer must return the same numbers
// each time, and different numbers for different tables, widths and forms.
func (w *walk) register(forms []problem.Form) {
	seen := map[int]item{}
	for i := range w.p.Tables {
		table := &w.p.Tables[i]
		for _, width := range slices.Compact([]int{table.Dim, max(problem.ColumnGranule, table.Dim/8*4)}) {
			for _, form := range forms {
				if !w.allows(table, form) {
					continue
				}
				it := item{table: i, width: width, form: form, number: w.walked.Item(i, width, form)}
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

// allows reports whether a slice of the table may have the form.
func (w *walk) allows(t *problem.Table, form problem.Form) bool {
	switch {
	case form.Blocks > 0:
		return t.CutsByRows(form.Blocks) && !t.Apart()
	case form.ShardingType == problem.RowWise:
		return t.CutsByRows(w.p.Topology.Devices)
	case form.ShardingType == problem.TableRowWise:
		return t.CutsByRows(w.p.Topology.PerHost()) && !t.Apart()
	}
	return true
}

// device draws a device to name when the item is added: any device, or a device of a
// full host.
func (w *walk) device(it item) int {
	n := w.p.Topology.Devices
	if it.form.ShardingType == problem.TableRowWise {
		n -= n % w.p.Topology.PerHost()
	}
	return w.draw.IntN(n)
}

// counts reports whether Compute of a device counts an item that was added to device d.
func (w *walk) counts(it item, d, device int) bool {
	switch it.form.ShardingType {
	case problem.RowWise, problem.DataParallel:
		return false
	case problem.TableRowWise:
		perHost := w.p.Topology.PerHost()
		return device/perHost == d/perHost
	}
	return device == d
}

func (w *walk) add(it item) {
	d := w.device(it)
	asked := make([]int32, w.p.Topology.Devices)
	for i := range asked {
		asked[i] = int32(i)
	}
	if it.form.ShardingType == problem.TableRowWise {
		asked = asked[:len(asked)-len(asked)%w.p.Topology.PerHost()]
	}
	before, shared, cost := w.computes(w.walked), w.walked.Shared(), w.walked.Cost()
	with := make([]float64, len(asked))
	w.walked.ComputeWith(it.number, asked, with)
	if now := w.computes(w.walked); !slices.Equal(now, before) || w.walked.Shared() != shared || w.walked.Cost() != cost {
		w.t.Errorf("step %d: ComputeWith(%+v) changed the placement: Compute was %v and is %v", w.step, it, before, now)
	}
	w.walked.Add(d, it.number)
	w.placed = append(w.placed, placed{it, d})
	w.near("ComputeWith against Add and Compute", with[d], w.walked.Compute(d))
	w.touched(it, d, before, shared)
}

func (w *walk) remove(i int) {
	p := w.placed[i]
	d := p.device
	// Any device that holds the item may be named instead.
	switch p.form.ShardingType {
	case problem.RowWise, problem.DataParallel:
		d = w.device(p.item)
	case problem.TableRowWise:
		perHost := w.p.Topology.PerHost()
		d = d/perHost*perHost + w.draw.IntN(perHost)
	}
	before, shared := w.computes(w.walked), w.walked.Shared()
	w.walked.Remove(d, p.number)
	w.placed = slices.Delete(w.placed, i, i+1)
	w.touched(p.item, d, before, shared)
}

// touched checks that a change of an item on device d changed the Compute of its
// devices only, and Shared only where several devices hold it together.
func (w *walk) touched(it item, d int, before []float64, shared float64) {
	read := w.p.Tables[it.table].PoolingFactor() > 0
	for device, was := range before {
		now, counts := w.walked.Compute(device), w.counts(it, d, device)
		if !counts && now != was {
			w.t.Errorf("step %d: %+v on device %d: Compute(%d) was %v and is %v, want no change", w.step, it, d, device, was, now)
		} else if counts && read && now == was {
			w.t.Errorf("step %d: %+v on device %d: Compute(%d) stayed %v, want a change", w.step, it, d, device, was)
		}
	}
	switch it.form.ShardingType {
	case "":
		if now := w.walked.Shared(); now != shared {
			w.t.Errorf("step %d: %+v on one device: Shared was %v and is %v, want no change", w.step, it, shared, now)
		}
	case problem.RowWise, problem.DataParallel:
		if now := w.walked.Shared(); read && now == shared {
			w.t.Errorf("step %d: %+v on all devices: Shared stayed %v, want a change", w.step, it, shared)
		}
	}
}

// compare compares the placement with one built from the start in another order.
func (w *walk) compare() {
	w.fresh.Reset()
	for _, i := range w.draw.Perm(len(w.placed)) {
		w.fresh.Add(w.placed[i].device, w.placed[i].number)
	}
	slowest, want := 0.0, w.computes(w.fresh)
	for d, got := range w.computes(w.walked) {
		w.near("Compute against a fresh Scorer", got, want[d])
		slowest = max(slowest, got)
		if fixed := float64(w.p.Topology.FixedTime(d)); got != fixed && !slices.ContainsFunc(w.placed, func(p placed) bool { return w.counts(p.item, p.device, d) }) {
			w.t.Errorf("step %d: Compute(%d) of an emptied device: got %v, want %v", w.step, d, got, fixed)
		}
	}
	w.near("Shared against a fresh Scorer", w.walked.Shared(), w.fresh.Shared())
	w.near("Cost against a fresh Scorer", w.walked.Cost(), w.fresh.Cost())
	if shared := w.walked.Shared(); !(shared >= 0) {
		w.t.Errorf("step %d: got Shared %v, want a number from 0", w.step, shared)
	}
	least := slowest + w.walked.Shared()
	if cost := w.walked.Cost(); !(cost >= least*(1-Tolerance)) || math.IsInf(cost, 1) {
		w.t.Errorf("step %d: Cost: got %v, want a finite number not below the slowest device's and Shared, %v", w.step, cost, least)
	}
	w.hides(least)
}

// hides checks the cost of a Scorer that hides a part of the exchanges.
func (w *walk) hides(least float64) {
	h, ok := w.walked.(search.Hiding)
	if !ok || !h.Hides() {
		return
	}
	times, free := h.AllToAlls()
	for i := range times {
		if !(times[i] >= 0 && free[i] >= 0) {
			w.t.Errorf("step %d: AllToAlls: got times %v and %v of them free, want numbers from 0", w.step, times, free)
		}
		least += max(0, times[i]-free[i])
	}
	w.near("Cost against the sum of its parts", w.walked.Cost(), least)
	w.hierarchical(times)
}

// hierarchical checks the columns and the times of a Scorer with a hierarchical exchange.
func (w *walk) hierarchical(times [2]float64) {
	h, ok := w.walked.(search.Hierarchical)
	if !ok || h.HostSize() == 0 {
		return
	}
	fresh, most, mostOfHost, sum := w.fresh.(search.Hierarchical), int64(0), int64(0), int64(0)
	for d := range w.p.Topology.Devices {
		if got, want := h.Columns(d), fresh.Columns(d); got != want || got < 0 {
			w.t.Errorf("step %d: Columns(%d): got %d, want %d, that of a fresh Scorer", w.step, d, got, want)
		}
		most, sum = max(most, h.Columns(d)), sum+h.Columns(d)
	}
	for host := range (w.p.Topology.Devices + h.HostSize() - 1) / h.HostSize() {
		got, want := h.HostColumns(host), fresh.HostColumns(host)
		if got != want || got < 0 {
			w.t.Errorf("step %d: HostColumns(%d): got %d, want %d, that of a fresh Scorer", w.step, host, got, want)
		}
		mostOfHost, sum = max(mostOfHost, got), sum-got
	}
	if sum < 0 {
		w.t.Errorf("step %d: hosts send %d columns more than their devices, want none", w.step, -sum)
	}
	column, hostColumn, fixed := h.Rates()
	for _, time := range times {
		if most > 0 || time > 0 {
			w.near("an exchange against its columns", time, column*float64(most)+hostColumn*float64(mostOfHost)+fixed)
		}
	}
}

// empty checks that nothing remains but fixed compute.
func (w *walk) empty(when string) {
	w.t.Helper()
	for d, got := range w.computes(w.walked) {
		if want := float64(w.p.Topology.FixedTime(d)); got != want {
			w.t.Errorf("Compute(%d) %s: got %v, want %v", d, when, got, want)
		}
	}
	if got := w.walked.Shared(); got != 0 {
		w.t.Errorf("Shared %s: got %v, want 0", when, got)
	}
}

func (w *walk) computes(s search.Scorer) []float64 {
	all := make([]float64, w.p.Topology.Devices)
	for d := range all {
		all[d] = s.Compute(d)
	}
	return all
}

func (w *walk) near(what string, got, want float64) {
	w.t.Helper()
	if !(math.Abs(got-want) <= Tolerance*math.Max(1, math.Abs(want))) {
		w.t.Errorf("step %d: %s: got %v, want %v", w.step, what, got, want)
	}
}
