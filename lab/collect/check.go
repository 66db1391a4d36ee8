package collect

import (
	"errors"
	"fmt"
	"slices"
)

// check.go checks the records of a journal before they are applied: a journal may have been
// edited, or have lost lines.

// check returns an error unless a run may write the record after those that were applied.
func (r *run) check(rec *record) error {
	kinds := 0
	for _, set := range []bool{rec.Header != nil, rec.Anchor != nil, rec.Sample != nil, rec.Failure != nil, rec.Choice != nil, rec.Repeat != nil, rec.Pass != 0} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return fmt.Errorf("it holds %d records, want 1", kinds)
	case rec.Header != nil:
		return r.checkHeader(rec.Header)
	case rec.Anchor != nil:
		return r.checkAnchor(rec.Anchor)
	case rec.Sample != nil:
		if err := r.checkUnmeasured(rec.Sample.Part, rec.Sample.ID); err != nil {
			return err
		}
		return rec.Sample.check(r.devices(rec.Sample.Part, rec.Sample.ID))
	case rec.Failure != nil:
		return r.checkUnmeasured(rec.Failure.Part, rec.Failure.ID)
	case rec.Choice != nil:
		return r.checkRepeated(*rec.Choice...)
	case rec.Repeat != nil:
		if err := r.checkRepeated(rec.Repeat.ID); err != nil || rec.Repeat.Failed {
			return err
		}
		return rec.Repeat.check(1)
	}
	return r.checkPass(rec.Pass)
}

// devices returns the number of devices of a sample, and 0 if it is not one of the design's.
func (r *run) devices(part string, id int) int {
	if e := r.exchanges[id]; part == partExchanges && e != nil {
		return e.Devices
	}
	if part == partGroups && r.groups[id] != nil {
		return 1
	}
	return 0
}

// checkHeader checks the header of a run of the same design.
func (r *run) checkHeader(h *header) error {
	if (h.Compute != nil) != (r.header.Compute != nil) || (h.Comm != nil) != (r.header.Comm != nil) {
		return errors.New("it does not state where the times of each part of the design are from")
	}
	return nil
}

// checkUnmeasured returns an error unless a sample is one of the shard's and has no times.
func (r *run) checkUnmeasured(part string, id int) error {
	if r.devices(part, id) == 0 || !r.opt.Shard.has(id) {
		return fmt.Errorf("sample %d of %q is not one of the design's, or of the shard's", id, part)
	}
	if _, done := r.part(part).done[id]; done {
		return fmt.Errorf("sample %d of the %s has times before", id, part)
	}
	return nil
}

func (r *run) checkAnchor(a *anchorRecord) error {
	p := r.part(a.Part)
	switch {
	case p == nil:
		return fmt.Errorf("the design has no %q", a.Part)
	case !slices.Contains(p.candidates, a.ID) || len(p.anchors) > 0 && a.ID != p.anchorID:
		return fmt.Errorf("sample %d is not the anchor of the %s", a.ID, a.Part)
	case a.After != p.measured:
		return fmt.Errorf("it is after %d measurements of the %s, and before it are %d", a.After, a.Part, p.measured)
	case len(a.Tries) == 0:
		return errors.New("it has no times")
	}
	for i := range a.Tries {
		if err := a.Tries[i].check(r.devices(a.Part, a.ID)); err != nil {
			return err
		}
	}
	for _, id := range a.Again {
		if got, done := p.done[id]; !done || got.block >= 0 {
			return fmt.Errorf("sample %d of the %s, to measure again, was not measured since the last anchor", id, a.Part)
		}
	}
	return nil
}

// checkRepeated returns an error unless the samples are groups that have times.
func (r *run) checkRepeated(ids ...int) error {
	p := r.part(partGroups)
	if p == nil {
		return fmt.Errorf("the design has no %q", partGroups)
	}
	for _, id := range ids {
		if _, done := p.done[id]; !done {
			return fmt.Errorf("group %d, to measure a second time, has no times before", id)
		}
	}
	return nil
}

// checkPass returns an error unless a pass is the next one, and the pass before it is whole.
func (r *run) checkPass(pass int) error {
	if pass != len(r.passes)+1 || pass > r.opt.Passes {
		return fmt.Errorf("it begins pass %d of %d after pass %d", pass, max(1, r.opt.Passes), len(r.passes))
	}
	for _, p := range r.parts {
		if n := p.remaining(); n != 0 {
			return fmt.Errorf("it begins pass %d, and the one before lacks %d of the %s", pass, n, p.name)
		}
	}
	return nil
}
