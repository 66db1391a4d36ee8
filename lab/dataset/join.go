package dataset

import (
	"cmp"
	"errors"
	"reflect"
	"slices"

	"github.com/neuroshard/neuroshard/unit"
)

// Join makes one dataset of passes, which measured the same design several times. The
// times of a sample are medians over the passes; the median of an even number of
// times is the mean of the middle two. If fastest is true, they are the shortest
// times, which are closer to the kernels' own time on a machine that also does other
// work. Spreads are always medians. A pass that quarantined a sample does not count
// for that sample; if all passes did, all count and the sample stays quarantined. A
// pass may lack samples. A second measurement that all passes have is joined in the
// same way, so it still shows how far two measurements differ. Anchors of later
// passes follow those of earlier passes.
//
// Passes must have the same tables and samples, and the same provenance except for
// the fields that Merge lets differ. A difference is an error that names the pass,
// numbered from 1. The provenance of the result says how many passes were joined,
// and how.
func Join(fastest bool, passes ...Dataset) (Dataset, error) {
	if len(passes) == 0 {
		return Dataset{}, errors.New("there are no passes to join")
	}
	f := &faults{}
	numbered := each(passes, func(i int, d Dataset) part { return part{d, i + 1} })
	for _, p := range numbered {
		if p.Compute == nil && p.Comm == nil {
			f.add("pass %d is empty", p.number)
		}
		if err := p.Validate(); err != nil {
			f.add("pass %d: %w", p.number, err)
		}
	}
	if err := f.err(); err != nil {
		return Dataset{}, err
	}
	d := Dataset{Compute: joinCompute(f, numbered, fastest), Comm: joinComm(f, numbered, fastest)}
	if err := f.err(); err != nil {
		return Dataset{}, err
	}
	unifyHardware(&d, passes)
	return d, d.Validate()
}

func joinCompute(f *faults, passes []part, fastest bool) *Compute {
	var all *Compute
	origin := origin{part: "fused lookups", one: "pass"}
	samples := map[int][]*Group{}
	repeats := map[int][]*Repeat{}
	before := 0
	for _, p := range passes {
		c := p.Compute
		if c == nil {
			continue
		}
		if all == nil {
			all = &Compute{Tables: c.Tables}
		} else if why := differentTables(all.Tables, c.Tables); why != "" {
			f.add("the tables of pass %d are not those of the first: %s", p.number, why)
		}
		origin.add(f, p.number, c.Provenance)
		for i := range c.Samples {
			g := &c.Samples[i]
			if same := samples[g.ID]; same != nil && (same[0].Split != g.Split || same[0].Operation != g.Operation || !slices.Equal(same[0].Members, g.Members)) {
				f.add("fused lookups: sample %d of pass %d is not the one that an earlier pass measured", g.ID, p.number)
			}
			samples[g.ID] = append(samples[g.ID], g)
		}
		for i := range c.Repeats {
			repeats[c.Repeats[i].ID] = append(repeats[c.Repeats[i].ID], &c.Repeats[i])
		}
		for _, a := range c.Anchors {
			a.After += before
			all.Anchors = append(all.Anchors, a)
		}
		before += len(c.Samples)
	}
	if all == nil {
		return nil
	}
	all.Provenance = origin.provenance()
	all.Provenance.Passes, all.Provenance.Fastest = len(passes), fastest
	joinGroups(all, samples, repeats, len(passes), fastest)
	return all
}

// joinGroups adds the joined samples, and the repeats that all passes have.
func joinGroups(all *Compute, samples map[int][]*Group, repeats map[int][]*Repeat, passes int, fastest bool) {
	for _, same := range samples {
		g := *same[0]
		same, g.Quarantined = counted(same, func(g *Group) bool { return g.Quarantined })
		g.Forward = joined(same, fastest, func(g *Group) unit.Millis { return g.Forward })
		g.Backward = joined(same, fastest, func(g *Group) unit.Millis { return g.Backward })
		g.ForwardSpread = joined(same, false, func(g *Group) unit.Millis { return g.ForwardSpread })
		g.BackwardSpread = joined(same, false, func(g *Group) unit.Millis { return g.BackwardSpread })
		all.Samples = append(all.Samples, g)
	}
	for id, same := range repeats {
		if len(same) < passes {
			continue
		}
		all.Repeats = append(all.Repeats, Repeat{
			ID:       id,
			Forward:  joined(same, fastest, func(r *Repeat) unit.Millis { return r.Forward }),
			Backward: joined(same, fastest, func(r *Repeat) unit.Millis { return r.Backward }),
		})
	}
	slices.SortFunc(all.Samples, func(a, b Group) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(all.Repeats, func(a, b Repeat) int { return cmp.Compare(a.ID, b.ID) })
}

func joinComm(f *faults, passes []part, fastest bool) *Comm {
	var all *Comm
	origin := origin{part: "all-to-alls", one: "pass"}
	samples := map[int][]*Exchange{}
	for _, p := range passes {
		c := p.Comm
		if c == nil {
			continue
		}
		if all == nil {
			all = &Comm{}
		}
		origin.add(f, p.number, c.Provenance)
		for i := range c.Samples {
			e := &c.Samples[i]
			if same := samples[e.ID]; same != nil && !reflect.DeepEqual(untimed(*same[0]), untimed(*e)) {
				f.add("all-to-alls: sample %d of pass %d is not the one that an earlier pass measured", e.ID, p.number)
				continue
			}
			samples[e.ID] = append(samples[e.ID], e)
		}
	}
	if all == nil {
		return nil
	}
	all.Provenance = origin.provenance()
	all.Provenance.Passes, all.Provenance.Fastest = len(passes), fastest
	for _, same := range samples {
		e := *same[0]
		same, e.Quarantined = counted(same, func(e *Exchange) bool { return e.Quarantined })
		e.Forward, e.Backward = make([]unit.Millis, e.Devices), make([]unit.Millis, e.Devices)
		for r := range e.Devices {
			e.Forward[r] = joined(same, fastest, func(e *Exchange) unit.Millis { return e.Forward[r] })
			e.Backward[r] = joined(same, fastest, func(e *Exchange) unit.Millis { return e.Backward[r] })
		}
		e.Spread = joined(same, false, func(e *Exchange) unit.Millis { return e.Spread })
		all.Samples = append(all.Samples, e)
	}
	slices.SortFunc(all.Samples, func(a, b Exchange) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// untimed returns an exchange without its measured times.
func untimed(e Exchange) Exchange {
	e.Forward, e.Backward, e.Spread, e.Quarantined = nil, nil, 0, false
	return e
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
	return unit.Millis(quantile(times, .5))
}
