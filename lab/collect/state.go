package collect

import (
	"fmt"
	"maps"
	"slices"

	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/unit"
)

// state.go is what is known of a collection at any time. It follows from the
// journal's records alone, each applied in order, whether it was read or has just
// been written: so a run that goes on stands where the one before it stood.

// state is the parts and the repeats.
type state struct {
	parts []*part
	// chosen is true once the groups to measure a second time are: choice.
	chosen  bool
	choice  []int
	repeats map[int]repeatRecord
	// unanchored is the repeats since the last anchor.
	unanchored int
	// discarded is the measurements that were taken again.
	discarded int
}

// part is the groups, or the exchanges.
type part struct {
	name  string
	phase string
	// ids are all samples of the shard in the order they are measured, and devices
	// how many times each has.
	ids     []int
	devices func(id int) (n int, known bool)
	mine    map[int]bool
	// candidates may be the anchor, and limit is how far it may move.
	candidates []int
	limit      float64

	done   map[int]result
	failed map[int]Failure
	// putBack is how often a sample was measured in vain.
	putBack map[int]int
	// measured counts all measurements, those in vain included.
	measured int
	anchors  []anchor
	anchorID int
	// open is the samples since the last anchor.
	open   []int
	blocks []block
}

// result is a measured sample; block is an index into blocks, -1 while it is open.
type result struct {
	times
	block int
}

func newPart(name, phase string, ids, candidates []int, limit float64, devices func(id int) (int, bool)) *part {
	p := &part{
		name: name, phase: phase, ids: ids, devices: devices, candidates: candidates, limit: limit,
		mine: make(map[int]bool, len(ids)), done: make(map[int]result), failed: make(map[int]Failure), putBack: make(map[int]int),
	}
	for _, id := range ids {
		p.mine[id] = true
	}
	return p
}

// apply takes a record up. Its errors are those of a journal that was not written
// by this program, or for another design.
func (s *state) apply(r record) error {
	switch {
	case r.Header != nil:
		return nil
	case r.Sample != nil:
		p, err := s.part(r.Sample.Part)
		if err != nil {
			return err
		}
		return p.applySample(r.Sample)
	case r.Failure != nil:
		p, err := s.part(r.Failure.Part)
		if err != nil {
			return err
		}
		return p.applyFailure(*r.Failure)
	case r.Anchor != nil:
		p, err := s.part(r.Anchor.Part)
		if err != nil {
			return err
		}
		s.discarded += len(r.Anchor.Again)
		if r.Anchor.Part == partGroups {
			s.unanchored = 0
		}
		return p.applyAnchor(r.Anchor)
	case r.Choice != nil:
		return s.applyChoice(*r.Choice)
	case r.Repeat != nil:
		return s.applyRepeat(r.Repeat)
	}
	return fmt.Errorf("the record is empty")
}

func (s *state) part(name string) (*part, error) {
	for _, p := range s.parts {
		if p.name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("part %q is not in the design", name)
}

func (p *part) applySample(r *sampleRecord) error {
	if err := p.fresh(r.ID); err != nil {
		return err
	}
	if err := p.check(r.ID, r.times); err != nil {
		return err
	}
	delete(p.failed, r.ID) // of an earlier run
	p.done[r.ID] = result{r.times, -1}
	p.measured++
	p.open = append(p.open, r.ID)
	return nil
}

func (p *part) applyFailure(f Failure) error {
	if err := p.fresh(f.ID); err != nil {
		return err
	}
	p.failed[f.ID] = f
	return nil
}

// fresh fails for a sample that has a time already, or that cannot have one. One
// that failed may be there again: a later run tried it again.
func (p *part) fresh(id int) error {
	if !p.mine[id] {
		return fmt.Errorf("sample %d of the %s is not in this shard of the design", id, p.name)
	}
	if _, twice := p.done[id]; twice {
		return fmt.Errorf("sample %d of the %s is there twice", id, p.name)
	}
	if f, failed := p.failed[id]; failed && f.final() {
		return fmt.Errorf("sample %d of the %s has failed for good", id, p.name)
	}
	return nil
}

func (p *part) check(id int, t times) error {
	n, known := p.devices(id)
	if !known {
		return fmt.Errorf("sample %d of the %s is not in the design", id, p.name)
	}
	if err := t.check(n); err != nil {
		return fmt.Errorf("sample %d of the %s: %w", id, p.name, err)
	}
	return nil
}

func (p *part) applyAnchor(r *anchorRecord) error {
	if len(r.Tries) == 0 {
		return fmt.Errorf("an anchor of the %s has no times", p.name)
	}
	if len(p.anchors) > 0 && r.ID != p.anchorID {
		return fmt.Errorf("the %s have two anchors, samples %d and %d", p.name, p.anchorID, r.ID)
	}
	for _, t := range r.Tries {
		if err := p.check(r.ID, t); err != nil {
			return err
		}
	}
	p.anchorID = r.ID
	p.anchors = append(p.anchors, newAnchor(r.After, r.Tries))
	for _, id := range r.Again {
		if !slices.Contains(p.open, id) {
			return fmt.Errorf("sample %d of the %s is measured again and was not measured", id, p.name)
		}
		delete(p.done, id)
		p.putBack[id]++
	}
	if len(p.open) > 0 {
		// Samples before the first anchor are between it and itself.
		at := len(p.anchors) - 1
		p.blocks = append(p.blocks, block{max(0, at-1), at})
		for _, id := range p.open {
			if got, kept := p.done[id]; kept {
				got.block = len(p.blocks) - 1
				p.done[id] = got
			}
		}
	}
	p.open = p.open[:0]
	return nil
}

func (s *state) applyChoice(ids []int) error {
	if s.chosen {
		return fmt.Errorf("the repeats are chosen twice")
	}
	p, err := s.part(partGroups)
	if err != nil {
		return err
	}
	seen := make(map[int]bool)
	for _, id := range ids {
		if _, is := p.done[id]; !is || seen[id] {
			return fmt.Errorf("sample %d is to be repeated and was not measured, or is chosen twice", id)
		}
		seen[id] = true
	}
	s.chosen, s.choice = true, ids
	return nil
}

func (s *state) applyRepeat(r *repeatRecord) error {
	if !slices.Contains(s.choice, r.ID) {
		return fmt.Errorf("sample %d is repeated and was not chosen", r.ID)
	}
	if _, twice := s.repeats[r.ID]; twice {
		return fmt.Errorf("sample %d is repeated twice", r.ID)
	}
	if !r.Failed {
		if err := r.check(1); err != nil {
			return fmt.Errorf("repeat of sample %d: %w", r.ID, err)
		}
	}
	s.repeats[r.ID] = *r
	s.unanchored++
	return nil
}

// retryFailed forgets the failures that may have been the backend's: those of an
// earlier run are tried again.
func (p *part) retryFailed() {
	maps.DeleteFunc(p.failed, func(_ int, f Failure) bool { return !f.final() })
}

func (p *part) settled(id int) bool {
	if _, done := p.done[id]; done {
		return true
	}
	_, failed := p.failed[id]
	return failed
}

// remaining is the number of samples to measure yet.
func (p *part) remaining() int { return len(p.ids) - len(p.done) - len(p.failed) }

// quarantined reports whether a sample counts as quarantined by what is known so
// far. One that no anchor has followed does not.
func (p *part) quarantined() func(id int) bool {
	if len(p.anchors) == 0 {
		return func(int) bool { return false }
	}
	ref := reference(p.anchors)
	drifted := make([]bool, len(p.blocks))
	for i, b := range p.blocks {
		drifted[i] = !steady(p.anchors[b.opening].cost, p.anchors[b.closing].cost, ref, p.limit)
	}
	return func(id int) bool {
		r, done := p.done[id]
		return done && r.block >= 0 && drifted[r.block]
	}
}

// check reports times that are none: of n devices each must have taken some, and
// no endless, time.
func (t *times) check(n int) error {
	if len(t.Forward) != n || len(t.Backward) != n {
		return fmt.Errorf("%d forward and %d backward times of %d devices", len(t.Forward), len(t.Backward), n)
	}
	for _, list := range [][]unit.Millis{t.Forward, t.Backward} {
		for _, v := range list {
			if !(v > 0 && v <= dataset.MaxMillis) {
				return fmt.Errorf("%v ms is not a time", float64(v))
			}
		}
	}
	for _, v := range []unit.Millis{t.ForwardSpread, t.BackwardSpread} {
		if !(v >= 0 && v <= dataset.MaxMillis) {
			return fmt.Errorf("%v ms is not an interquartile range", float64(v))
		}
	}
	return nil
}

// Failure says why a sample has no times.
type Failure struct {
	// Part is "groups" or "exchanges", and ID the sample's in the design.
	Part string `json:"part"`
	ID   int    `json:"id"`
	// Code is one of package protocol's, CodeCrash or CodeTimes.
	Code    string `json:"code"`
	Message string `json:"msg,omitempty"`
}

// The codes of failures that are not a worker's own.
const (
	// CodeCrash is that of a sample during which the worker ended or said what is
	// no response.
	CodeCrash = "crash"
	// CodeTimes is that of times that are not above 0, or no numbers.
	CodeTimes = "times"
)

// String returns the failure as one line.
func (f Failure) String() string {
	return fmt.Sprintf("sample %d of the %s: %s: %s", f.ID, f.Part, f.Code, f.Message)
}

// final reports whether the sample would fail each time: it, and not the backend, is
// the cause.
func (f Failure) final() bool { return final(f.Code) }

func final(code string) bool {
	switch code {
	case protocol.CodeMemory, protocol.CodeUnsupported, protocol.CodeBadRequest:
		return true
	}
	return false
}
