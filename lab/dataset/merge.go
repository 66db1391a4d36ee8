package dataset

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// clockSeparator stands between the texts about the clocks of different machines.
const clockSeparator = " | "

// Merge joins the parts of one design, measured on machines with the same devices.
// Samples are sorted by id, repeats by id, and anchors by the number of samples
// before them. The order of the parts does not matter. The result shares the parts'
// lists, which must not be modified.
//
// It is an error if the provenance of parts differs, if two parts have the same
// sample, or if their tables differ. The error names each field and the part,
// numbered from 1 as they are given. Two things may differ. The texts about clocks
// are joined, each text once. Of the hardware facts, those that are
// measured on each machine (bandwidths, latencies, clock) are taken from the
// part with the lowest id; name, memory, cache, processors and granule must
// agree.
func Merge(parts ...Dataset) (Dataset, error) {
	if len(parts) == 0 {
		return Dataset{}, errors.New("there are no parts to merge")
	}
	f := &faults{}
	numbered := each(parts, func(i int, d Dataset) part { return part{d, i + 1} })
	for _, p := range numbered {
		if p.Compute == nil && p.Comm == nil {
			f.add("part %d is empty", p.number)
		}
	}
	// Errors compare with the first part of this order, so that they do not depend on
	// the order in which the parts are given, except for the parts' numbers.
	slices.SortStableFunc(numbered, comparePart)
	d := Dataset{Compute: mergeCompute(f, numbered), Comm: mergeComm(f, numbered)}
	if err := f.err(); err != nil {
		return Dataset{}, err
	}
	unifyHardware(&d, parts)
	return d, d.Validate()
}

// part is a part and its number, from 1.
type part struct {
	Dataset
	number int
}

// comparePart orders parts by their lowest ids, and those without samples by
// what they say of themselves.
func comparePart(a, b part) int {
	lowest := func(d Dataset) (compute, comm int, text string) {
		compute, comm = math.MaxInt, math.MaxInt
		if d.Compute != nil {
			for i := range d.Compute.Samples {
				compute = min(compute, d.Compute.Samples[i].ID)
			}
		}
		if d.Comm != nil {
			for i := range d.Comm.Samples {
				comm = min(comm, d.Comm.Samples[i].ID)
			}
		}
		// NaN in the hardware facts makes this fail; Validate reports it.
		told, _ := json.Marshal(manifestOf(d))
		return compute, comm, string(told)
	}
	compute1, comm1, text1 := lowest(a.Dataset)
	compute2, comm2, text2 := lowest(b.Dataset)
	return cmp.Or(cmp.Compare(compute1, compute2), cmp.Compare(comm1, comm2), cmp.Compare(text1, text2))
}

func mergeCompute(f *faults, parts []part) *Compute {
	var all *Compute
	origin := origin{part: "fused lookups", one: "part"}
	owner := map[int]int{}
	tables := 0
	for _, p := range parts {
		c := p.Compute
		if c == nil {
			continue
		}
		if all == nil {
			all, tables = &Compute{Tables: c.Tables}, p.number
		} else if why := differentTables(all.Tables, c.Tables); why != "" {
			f.add("the tables of part %d are not those of part %d: %s", p.number, tables, why)
		}
		origin.add(f, p.number, c.Provenance)
		for i := range c.Samples {
			doubled(f, "fused lookups", owner, c.Samples[i].ID, p.number)
		}
		all.Samples = append(all.Samples, c.Samples...)
		all.Repeats = append(all.Repeats, c.Repeats...)
		all.Anchors = append(all.Anchors, c.Anchors...)
	}
	if all == nil {
		return nil
	}
	all.Provenance = origin.provenance()
	slices.SortStableFunc(all.Samples, func(a, b Group) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(all.Repeats, func(a, b Repeat) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Forward, b.Forward), cmp.Compare(a.Backward, b.Backward))
	})
	slices.SortFunc(all.Anchors, func(a, b Anchor) int {
		return cmp.Or(cmp.Compare(a.After, b.After), cmp.Compare(a.Forward, b.Forward), cmp.Compare(a.Backward, b.Backward))
	})
	return all
}

func mergeComm(f *faults, parts []part) *Comm {
	var all *Comm
	origin := origin{part: "all-to-alls", one: "part"}
	owner := map[int]int{}
	for _, p := range parts {
		c := p.Comm
		if c == nil {
			continue
		}
		if all == nil {
			all = &Comm{}
		}
		origin.add(f, p.number, c.Provenance)
		for i := range c.Samples {
			doubled(f, "all-to-alls", owner, c.Samples[i].ID, p.number)
		}
		all.Samples = append(all.Samples, c.Samples...)
	}
	if all == nil {
		return nil
	}
	all.Provenance = origin.provenance()
	slices.SortStableFunc(all.Samples, func(a, b Exchange) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func doubled(f *faults, of string, owner map[int]int, id, number int) {
	if first, ok := owner[id]; ok && first == number {
		f.add("%s: sample %d is in part %d twice", of, id, number)
		return
	} else if ok {
		f.add("%s: sample %d is in part %d and in part %d", of, id, min(first, number), max(first, number))
		return
	}
	owner[id] = number
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
	part   string // of a dataset
	one    string // what is joined: "part" or "pass"
	first  Provenance
	number int // the part that first is of
	clocks []string
}

// add reports where the provenance of a part differs from the first's.
func (o *origin) add(f *faults, number int, p Provenance) {
	for text := range strings.SplitSeq(p.Clocks, clockSeparator) {
		if text != "" && !slices.Contains(o.clocks, text) {
			o.clocks = append(o.clocks, text)
		}
	}
	if o.number == 0 {
		o.first, o.number = p, number
		return
	}
	a, b := describe(o.first), describe(p)
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		f.add("%s: mixed provenance: %s is %s in %s %d and %s in %s %d", o.part, a[i].name, a[i].value, o.one, o.number, b[i].value, o.one, number)
		if a[i].name == "hardware" { // one of them has none, and so nothing to compare
			break
		}
	}
}

func (o *origin) provenance() Provenance {
	slices.Sort(o.clocks)
	p := o.first
	p.Clocks = strings.Join(o.clocks, clockSeparator)
	return p
}

// fact is a field of a provenance that must agree.
type fact struct{ name, value string }

func describe(p Provenance) []fact {
	text := func(s string) string { return fmt.Sprintf("%q", s) }
	number := func(v any) string { return fmt.Sprint(v) }
	h := p.Hardware
	stated := "not stated"
	if h != (hardware.Profile{}) {
		stated = "stated"
	}
	return []fact{
		{"source", text(string(p.Source))},
		{"profile", text(p.Profile)},
		{"meter", text(p.Backend)},
		{"seed", number(p.Seed)},
		{"design", text(p.Design)},
		{"tool", text(p.Tool)},
		{"device", text(p.Device)},
		{"kernel", text(p.Kernel)},
		{"threads", number(p.Threads)},
		{"cache", text(p.Cache)},
		{"lookups", text(p.Lookups)},
		{"warmup", number(p.Warmup)},
		{"repeats", number(p.Repeats)},
		{"passes", number(p.Passes)},
		{"fastest", number(p.Fastest)},
		{"hardware", stated},
		{"hardware name", text(h.Name)},
		{"hardware memory_bytes", number(int64(h.Memory))},
		{"hardware l2_bytes", number(int64(h.L2))},
		{"hardware sms", number(h.SMs)},
		{"hardware granule_bytes", number(h.Granule)},
	}
}

// unifyHardware gives both parts of a joined dataset the same measured facts
// where each part had the same for both: a model is made of both.
func unifyHardware(d *Dataset, parts []Dataset) {
	if d.Compute == nil || d.Comm == nil {
		return
	}
	for _, p := range parts {
		if p.Compute != nil && p.Comm != nil && p.Compute.Provenance.Hardware != p.Comm.Provenance.Hardware {
			return
		}
	}
	from, to := d.Compute.Provenance.Hardware, &d.Comm.Provenance.Hardware
	if slices.Equal(describe(Provenance{Hardware: from}), describe(Provenance{Hardware: *to})) {
		*to = from
	}
}
