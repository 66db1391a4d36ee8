package collect

import (
	"fmt"
	"maps"

	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/unit"
)

// state.go holds the state of a collection. The state follows from the journal's
// records alone, applied in order, whether they were read or have just been
// written. So a run that continues has the same state as the run before it. Each pass
// over the design has a state of its own.

// state is the state of one pass: of both parts and of the repeats.
type state struct {
	parts []*part
	// chosen is true once choice holds the groups to measure a second time.
	chosen  bool
	choice  []int
	repeats map[int]repeatRecord
	// unanchored holds the repeats since the last anchor.
	unanchored int
	// discarded is the number of measurements that were repeated because of drift.
	discarded int
}

// part is the state of the groups, or of the exchanges.
type part struct {
	*kind
	done   map[int]result
	failed map[int]Failure
	// putBack counts, for each sample, the measurements that were discarded.
	putBack map[int]int
	// measured counts all measurements, discarded ones included.
	measured int
	anchors  []anchor
	anchorID int
	// open holds the samples since the last anchor.
	open   []int
	blocks []block
}

// result is a measured sample; block is an index into blocks, -1 while it is open.
type result struct {
	times
	block int
}

// apply applies a record to the state.
func (s *state) apply(r record) {
	switch {
	case r.Sample != nil:
		s.part(r.Sample.Part).applySample(r.Sample)
	case r.Failure != nil:
		s.part(r.Failure.Part).failed[r.Failure.ID] = *r.Failure
	case r.Anchor != nil:
		s.discarded += len(r.Anchor.Again)
		if r.Anchor.Part == partGroups {
			s.unanchored = 0
		}
		s.part(r.Anchor.Part).applyAnchor(r.Anchor)
	case r.Choice != nil:
		s.chosen, s.choice = true, *r.Choice
	case r.Repeat != nil:
		s.repeats[r.Repeat.ID] = *r.Repeat
		s.unanchored++
	}
}

// part returns the part of that name; nil if the design has no such samples.
func (s *state) part(name string) *part {
	for _, p := range s.parts {
		if p.name == name {
			return p
		}
	}
	return nil
}

func (p *part) applySample(r *sampleRecord) {
	delete(p.failed, r.ID) // of an earlier run
	p.done[r.ID] = result{r.times, -1}
	p.measured++
	p.open = append(p.open, r.ID)
}

func (p *part) applyAnchor(r *anchorRecord) {
	p.anchorID = r.ID
	p.anchors = append(p.anchors, newAnchor(r.After, r.Tries))
	for _, id := range r.Again {
		delete(p.done, id)
		p.putBack[id]++
	}
	if len(p.open) > 0 {
		// A block before the first anchor has that anchor on both sides.
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
}

// retryFailed removes the failures of an earlier run that the backend may have
// caused, so that these samples are tried again.
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

// remaining returns the number of samples that are still to be measured.
func (p *part) remaining() int { return len(p.ids) - len(p.done) - len(p.failed) }

// quarantined returns a function that reports whether a sample is quarantined by the anchors
// so far. A sample after the last anchor is not.
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

// check returns an error unless there are n times and each is finite and above 0.
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

// Failure states why a sample has no times.
type Failure struct {
	// Part is "groups" or "exchanges", and ID is the sample's ID in the design.
	Part string `json:"part"`
	ID   int    `json:"id"`
	// Code is one of package protocol's, CodeCrash, CodeTimes or CodeLookups.
	Code    string `json:"code"`
	Message string `json:"msg,omitempty"`
}

// These are the codes of failures that a worker does not report itself.
const (
	// CodeCrash means that the worker ended during the sample, or wrote something that
	// is not a response.
	CodeCrash = "crash"
	// CodeTimes means that times are not above 0, or are not numbers.
	CodeTimes = "times"
	// CodeLookups means that a response to tables lacks a table, or states lookups that
	// are impossible.
	CodeLookups = "lookups"
)

// String returns the failure as one line.
func (f Failure) String() string {
	return fmt.Sprintf("sample %d of the %s: %s: %s", f.ID, f.Part, f.Code, f.Message)
}

// final reports whether the sample would fail again, because the sample and not the
// backend is the cause.
func (f Failure) final() bool {
	return f.Code == protocol.CodeMemory || f.Code == protocol.CodeUnsupported || f.Code == protocol.CodeBadRequest
}
