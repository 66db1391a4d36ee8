package dataset

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/stats"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// Merge joins the parts of one design, measured on machines with the same devices, in any order. No
// two parts have the same sample, and their tables and provenance are equal, but for the texts about
// clocks, which are joined, and the hardware facts that each machine measures (bandwidths, latencies,
// clock), which are those of the part with the lowest id. An error names each field that differs, and
// the part, numbered from 1. The result shares the parts' lists, which must not be modified.
func Merge(parts ...Dataset) (Dataset, error) {
	d, err := joining{noun: "part"}.of(parts)
	if err != nil {
		return Dataset{}, err
	}
	return d, d.Validate()
}

// Join makes one dataset of passes, which measured the same design several times. The times of a
// sample are medians over the passes that did not quarantine it or, if fastest is true, the shortest
// times; spreads are always medians. If all passes quarantined the sample, all count and it stays
// quarantined. A pass may lack samples; a second measurement that a pass lacks is left out. Anchors of
// later passes follow those of earlier ones.
//
// Passes must have the same tables and samples, and the provenance that Merge wants. An error names
// the pass, numbered from 1.
func Join(fastest bool, passes ...Dataset) (Dataset, error) {
	d, err := joining{noun: "pass", passes: len(passes), fastest: fastest}.of(passes)
	if err != nil {
		return Dataset{}, err
	}
	return d, nil
}

// joining is what Merge and Join do. passes is the number of passes; 0 for parts, no two of them
// with the same sample.
type joining struct {
	noun    string
	passes  int
	fastest bool
}

func (j joining) of(sets []Dataset) (d Dataset, err error) {
	parts, err := number(j.noun, sets)
	if err != nil {
		return d, err
	}
	if j.passes == 0 {
		slices.SortStableFunc(parts, func(a, b part) int { return slices.Compare(a.lowest(), b.lowest()) })
	}
	if d, err = frame(parts); err != nil {
		return d, err
	}
	if d.Compute != nil {
		j.state(&d.Compute.Provenance)
		if d.Compute.Samples, err = gather(j, "fused lookups", parts, groupsOf, func(g *Group) int { return g.ID }, j.group); err != nil {
			return d, err
		}
		j.second(d.Compute, parts)
	}
	if d.Comm != nil {
		j.state(&d.Comm.Provenance)
		d.Comm.Samples, err = gather(j, "all-to-alls", parts, exchangesOf, func(e *Exchange) int { return e.ID }, j.exchange)
	}
	return d, err
}

// state says how many passes were joined, and how.
func (j joining) state(p *Provenance) {
	if j.passes > 0 {
		p.Passes, p.Fastest = j.passes, j.fastest
	}
}

func groupsOf(d Dataset) []Group {
	if d.Compute == nil {
		return nil
	}
	return d.Compute.Samples
}

func exchangesOf(d Dataset) []Exchange {
	if d.Comm == nil {
		return nil
	}
	return d.Comm.Samples
}

// gather returns a sample for each id of the parts, in their order.
func gather[S Group | Exchange](j joining, what string, parts []part, of func(Dataset) []S, idOf func(*S) int, joined func([]*S) S) ([]S, error) {
	same, designs, owner := map[int][]*S{}, map[int]S{}, map[int]int{}
	for _, p := range parts {
		list, untimed := of(p.Dataset), of(p.Untimed())
		for i := range list {
			id := idOf(&list[i])
			if first, known := owner[id]; !known {
				owner[id], designs[id] = p.number, untimed[i]
			} else if j.passes == 0 {
				return nil, fmt.Errorf("%s: sample %d is in part %d and in part %d", what, id, min(first, p.number), max(first, p.number))
			} else if !reflect.DeepEqual(designs[id], untimed[i]) {
				return nil, fmt.Errorf("%s: sample %d of %v is not the one that an earlier pass measured", what, id, p)
			}
			same[id] = append(same[id], &list[i])
		}
	}
	var all []S
	for _, id := range slices.Sorted(maps.Keys(same)) {
		all = append(all, joined(same[id]))
	}
	return all, nil
}

// group joins the times of a group.
func (j joining) group(same []*Group) Group {
	g := *same[0]
	same, g.Quarantined = counted(same, func(g *Group) bool { return g.Quarantined })
	g.Forward = joined(same, j.fastest, func(g *Group) unit.Millis { return g.Forward })
	g.Backward = joined(same, j.fastest, func(g *Group) unit.Millis { return g.Backward })
	g.ForwardSpread = joined(same, false, func(g *Group) unit.Millis { return g.ForwardSpread })
	g.BackwardSpread = joined(same, false, func(g *Group) unit.Millis { return g.BackwardSpread })
	return g
}

// exchange joins the times of an exchange.
func (j joining) exchange(same []*Exchange) Exchange {
	e := *same[0]
	same, e.Quarantined = counted(same, func(e *Exchange) bool { return e.Quarantined })
	e.Forward, e.Backward = make([]unit.Millis, e.Devices), make([]unit.Millis, e.Devices)
	for r := range e.Devices {
		e.Forward[r] = joined(same, j.fastest, func(e *Exchange) unit.Millis { return e.Forward[r] })
		e.Backward[r] = joined(same, j.fastest, func(e *Exchange) unit.Millis { return e.Backward[r] })
	}
	e.Spread = joined(same, false, func(e *Exchange) unit.Millis { return e.Spread })
	return e
}

// second joins the second measurements and the anchors.
func (j joining) second(all *Compute, parts []part) {
	repeats := map[int][]*Repeat{}
	before := 0
	for _, p := range parts {
		c := p.Compute
		if c == nil {
			continue
		}
		for i := range c.Repeats {
			repeats[c.Repeats[i].ID] = append(repeats[c.Repeats[i].ID], &c.Repeats[i])
		}
		for _, a := range c.Anchors {
			a.After += before
			all.Anchors = append(all.Anchors, a)
		}
		if j.passes > 0 {
			before += len(c.Samples)
		}
	}
	for id, same := range repeats {
		switch {
		case j.passes == 0:
			all.Repeats = append(all.Repeats, each1(same, func(r *Repeat) Repeat { return *r })...)
		case len(same) >= j.passes:
			all.Repeats = append(all.Repeats, Repeat{
				ID:       id,
				Forward:  joined(same, j.fastest, func(r *Repeat) unit.Millis { return r.Forward }),
				Backward: joined(same, j.fastest, func(r *Repeat) unit.Millis { return r.Backward }),
			})
		}
	}
	slices.SortFunc(all.Repeats, func(a, b Repeat) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Forward, b.Forward), cmp.Compare(a.Backward, b.Backward))
	})
	if j.passes == 0 {
		slices.SortFunc(all.Anchors, func(a, b Anchor) int {
			return cmp.Or(cmp.Compare(a.After, b.After), cmp.Compare(a.Forward, b.Forward), cmp.Compare(a.Backward, b.Backward))
		})
	}
}

// part is one of the datasets that are joined, and its number from 1.
type part struct {
	Dataset
	noun   string // "part" or "pass"
	number int
}

// number returns the datasets with their numbers. They must be valid.
func number(noun string, sets []Dataset) ([]part, error) {
	if len(sets) == 0 {
		return nil, fmt.Errorf("there is no %s to join", noun)
	}
	parts := each(sets, func(i int, d Dataset) part { return part{d, noun, i + 1} })
	for _, p := range parts {
		if err := p.Validate(); err != nil {
			return nil, fmt.Errorf("%v: %w", p, err)
		}
	}
	return parts, nil
}

func (p part) String() string { return fmt.Sprintf("%s %d", p.noun, p.number) }

// lowest returns the lowest ids of the part's groups and of its exchanges.
func (p part) lowest() []int {
	ids := []int{math.MaxInt, math.MaxInt}
	for _, g := range groupsOf(p.Dataset) {
		ids[0] = min(ids[0], g.ID)
	}
	for _, e := range exchangesOf(p.Dataset) {
		ids[1] = min(ids[1], e.ID)
	}
	return ids
}

// frame returns a dataset with what the parts have in common: provenance and tables.
func frame(parts []part) (Dataset, error) {
	var d Dataset
	var compute, comm origin
	var failed []error
	for _, p := range parts {
		if c := p.Compute; c != nil {
			failed = append(failed, compute.add("fused lookups", p, c.Provenance))
			if d.Compute == nil {
				d.Compute = &Compute{Tables: c.Tables}
			} else if why := differentTables(d.Compute.Tables, c.Tables); why != "" {
				failed = append(failed, fmt.Errorf("the tables of %v are not those of %v: %s", p, compute.part, why))
			}
			d.Compute.Provenance = compute.provenance()
		}
		if c := p.Comm; c != nil {
			failed = append(failed, comm.add("all-to-alls", p, c.Provenance))
			d.Comm = &Comm{Provenance: comm.provenance()}
		}
	}
	if err := errors.Join(failed...); err != nil {
		return Dataset{}, err
	}
	// A model is made of both: where each part had the same measured facts for both, the
	// whole has.
	same := !slices.ContainsFunc(parts, func(p part) bool {
		return p.Compute != nil && p.Comm != nil && p.Compute.Provenance.Hardware != p.Comm.Provenance.Hardware
	})
	if d.Compute != nil && d.Comm != nil && same && len(Provenance{Hardware: d.Compute.Provenance.Hardware}.Differences(Provenance{Hardware: d.Comm.Provenance.Hardware})) == 0 {
		d.Comm.Provenance.Hardware = d.Compute.Provenance.Hardware
	}
	return d, nil
}

// differentTables says where two lists of tables differ; "" where they do not.
func differentTables(a, b []problem.Table) string {
	for i := range min(len(a), len(b)) {
		if !reflect.DeepEqual(toTableRow(i, a[i]), toTableRow(i, b[i])) {
			return fmt.Sprintf("table %d, %q and %q", i, b[i].Name, a[i].Name)
		}
	}
	if len(a) != len(b) {
		return fmt.Sprintf("%d and %d of them", len(b), len(a))
	}
	return ""
}

// origin joins the provenance of parts.
type origin struct {
	first  Provenance
	part   part // that first is of
	clocks []string
}

// clockSeparator stands between the texts about the clocks of different machines.
const clockSeparator = " | "

// add reports where the provenance of a part differs from the first's.
func (o *origin) add(what string, p part, from Provenance) error {
	for text := range strings.SplitSeq(from.Clocks, clockSeparator) {
		if text != "" && !slices.Contains(o.clocks, text) {
			o.clocks = append(o.clocks, text)
		}
	}
	if o.part.number == 0 {
		o.first, o.part = from, p
		return nil
	}
	a, b := o.first, from
	a.Clocks, b.Clocks = "", ""
	var failed []error
	for _, d := range a.Differences(b) {
		failed = append(failed, fmt.Errorf("%s: mixed provenance: %s is %s in %v and %s in %v", what, d.Name, d.A, o.part, d.B, p))
	}
	return errors.Join(failed...)
}

func (o *origin) provenance() Provenance {
	slices.Sort(o.clocks)
	p := o.first
	p.Clocks = strings.Join(o.clocks, clockSeparator)
	return p
}

// Difference is a field in which two provenances differ: its name in JSON, and both values.
type Difference struct{ Name, A, B string }

// Differences returns the fields in which two provenances differ. What each machine measures of its
// hardware varies, and is no difference.
func (p Provenance) Differences(q Provenance) (all []Difference) {
	a, b := facts(p), facts(q)
	names := maps.Clone(a)
	maps.Copy(names, b)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a[name] != b[name] && (a["hardware"] == b["hardware"] || !strings.HasPrefix(name, "hardware ")) {
			all = append(all, Difference{name, cmp.Or(a[name], "not stated"), cmp.Or(b[name], "not stated")})
		}
	}
	return all
}

// facts returns the fields of a provenance that must agree, as their JSON by name.
func facts(p Provenance) map[string]string {
	facts := map[string]string{}
	fields := func(prefix string, of any) {
		data, err := json.Marshal(of)
		var list map[string]json.RawMessage
		if err == nil {
			err = json.Unmarshal(data, &list)
		}
		if err != nil {
			panic("dataset: a valid provenance is no JSON: " + err.Error())
		}
		for name, value := range list {
			facts[prefix+name] = string(value)
		}
	}
	h := p.Hardware
	// The others are measured on each machine.
	if fields("", p); facts["hardware"] != "" {
		fields("hardware ", map[string]any{"name": h.Name, "memory_bytes": h.Memory, "l2_bytes": h.L2, "sms": h.SMs, "granule_bytes": h.Granule})
		facts["hardware"] = "stated"
	}
	return facts
}

// counted returns the samples that are not quarantined; if all are, it returns all.
func counted[T any](same []*T, quarantined func(*T) bool) (kept []*T, all bool) {
	for _, s := range same {
		if !quarantined(s) {
			kept = append(kept, s)
		}
	}
	if len(kept) == 0 {
		return same, true
	}
	return kept, false
}

// joined returns the median of a time over the passes, or the shortest.
func joined[T any](same []*T, fastest bool, time func(*T) unit.Millis) unit.Millis {
	times := each1(same, func(s *T) float64 { return float64(time(s)) })
	if fastest {
		return unit.Millis(slices.Min(times))
	}
	return unit.Millis(stats.Quantile(times, .5))
}
