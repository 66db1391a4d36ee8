package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/internal/journal"
	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/unit"
)

// ErrFinished is the error of Run if the folder holds the finished dataset of the
// same design and backend. Run returns it together with that dataset.
var ErrFinished = errors.New("the dataset is finished")

// ErrLost is wrapped by the error of a Backend that cannot measure anything any
// more. Run ends with that error.
var ErrLost = errors.New("the backend is lost")

// ErrUnsupported is wrapped by the error of Run if the backend reports that it
// cannot measure a part of the design.
var ErrUnsupported = errors.New("the backend cannot measure")

// ErrSetAside is wrapped by the error of Run if the device drifted during all
// measurements of the groups or of the all-to-alls. Run returns it together with the
// dataset, which is written.
var ErrSetAside = errors.New("no model can be trained on the samples")

// Supporter is a Backend that knows what it can measure. Run asks it before it measures
// anything.
type Supporter interface {
	// Supports reports whether the backend has a capability of package protocol, or
	// an optimizer or precision by its name in package problem.
	Supports(capability string) bool
}

// The defaults of Options.
const (
	DefaultAnchorEvery = 200
	DefaultDriftLimit  = 0.03
	// commDrift is the factor by which an exchange's anchor may move further than a group's:
	// networks vary more than kernels, loopback networks most of all.
	commDrift = 3
	// A run ends if more than maxFailures samples and more than a share of maxFailureShare of them
	// fail, or maxFailures in a row.
	maxFailures     = 20
	maxFailureShare = 0.05
	// retryBlocks is how often a sample is measured again because of drift before it is kept as
	// quarantined.
	retryBlocks = 1
)

func (o Options) withDefaults() (Options, error) {
	if o.Shard == (Shard{}) {
		o.Shard = Shard{1, 1}
	}
	if o.Shard.Index < 1 || o.Shard.Index > o.Shard.Count {
		return o, fmt.Errorf("shard %v: want one of 1/%d to %d/%d", o.Shard, max(1, o.Shard.Count), max(1, o.Shard.Count), max(1, o.Shard.Count))
	}
	if o.AnchorEvery <= 0 {
		o.AnchorEvery = DefaultAnchorEvery
	}
	if o.DriftLimit == 0 {
		o.DriftLimit = DefaultDriftLimit
	}
	if !(o.DriftLimit > 0) {
		return o, fmt.Errorf("drift limit %v is not above 0", o.DriftLimit)
	}
	if o.Passes < 0 {
		return o, fmt.Errorf("passes: %d is negative", o.Passes)
	}
	if o.Enough == nil {
		o.Enough = func() bool { return false }
	} else if o.Passes > 1 {
		return o, fmt.Errorf("passes: %d of them, and a run that may stop early: take one pass", o.Passes)
	}
	if o.OnProgress == nil {
		o.OnProgress = func(Progress) {}
	}
	if o.OnFailure == nil {
		o.OnFailure = func(Failure) {}
	}
	return o, nil
}

// Run measures a design, a dataset without times, on the backend and writes the dataset to the
// folder, which it makes. If all IDs are 0, samples get their indices as IDs; else IDs must differ.
//
// A run that was stopped or killed at any moment continues when Run is called again with the same
// design, shard and backend; with others Run fails. If the folder holds the finished dataset, Run
// returns it with ErrFinished. One process at a time can collect into a folder.
//
// The groups come first, then the all-to-alls, then a fiftieth of the groups again. A sample that
// the backend refuses (oom, unsupported, bad_request) fails for good; others are tried a second time,
// and again when a later run continues. A simulated backend has neither anchors nor repeats.
// Measurements stay in the folder after every error, including that of ctx.
func Run(ctx context.Context, design dataset.Dataset, backend Backend, folder string, opt Options) (dataset.Dataset, error) {
	set, err := collect(ctx, design, backend, folder, opt)
	if err == nil || errors.Is(err, ErrFinished) {
		if aside := setAside(set); aside != nil {
			return set, fmt.Errorf("%s: %w", folder, aside)
		}
	}
	return set, err
}

// setAside returns an error if the dataset has groups or all-to-alls, and all of a kind
// are quarantined.
func setAside(set dataset.Dataset) error {
	what := ""
	switch {
	case set.Compute != nil && len(set.Compute.Samples) > 0 && len(set.Compute.Usable()) == 0:
		what = words.Plural(len(set.Compute.Samples), "group")
	case set.Comm != nil && len(set.Comm.Samples) > 0 && len(set.Comm.Usable()) == 0:
		what = words.Plural(len(set.Comm.Samples), "all-to-all")
	default:
		return nil
	}
	return fmt.Errorf("%w: all %s are set aside, because the speed of the device changed while they were measured", ErrSetAside, what)
}

// collect is Run, which also fails if all samples of a kind are quarantined.
func collect(ctx context.Context, design dataset.Dataset, backend Backend, folder string, opt Options) (set dataset.Dataset, err error) {
	r, err := checkedRun(design, backend, opt)
	if err != nil {
		return set, err
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return set, err
	}
	var records []record
	r.path = filepath.Join(folder, journalName)
	if r.journal, records, err = journal.Open[record](r.path); err != nil {
		return set, fmt.Errorf("journal %w, or name another folder", err)
	}
	if len(records) == 0 {
		set, err = r.finished(folder)
	}
	if err == nil {
		set, err = r.measured(ctx, folder, records)
	}
	if err != nil {
		return set, errors.Join(err, r.journal.Close())
	}
	return set, r.journal.Remove()
}

// checkedRun returns a run of the design with its options filled in, and an
// error if the design or the options are not valid, the backend cannot measure
// the design, the results could not be written, or the shard is empty.
func checkedRun(design dataset.Dataset, backend Backend, opt Options) (*run, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	if design, err = prepare(design); err != nil {
		return nil, err
	}
	r, err := newRun(design, backend, opt)
	if err != nil {
		return nil, err
	}
	if r.total() == 0 {
		return nil, fmt.Errorf("shard %v of the design is empty: its samples are fewer than the shards; take fewer shards", opt.Shard)
	}
	return r, nil
}

// measured measures what the journal lacks, and writes the dataset.
func (r *run) measured(ctx context.Context, folder string, records []record) (none dataset.Dataset, err error) {
	if err := r.goOn(folder, records); err != nil {
		return none, err
	}
	if err := r.measure(ctx); err != nil {
		return none, err
	}
	set, err := r.dataset()
	if err == nil {
		err = r.journal.Sync()
	}
	if err != nil {
		return none, err
	}
	if set.Compute == nil && set.Comm == nil && r.opt.Enough() {
		return none, fmt.Errorf("no sample was measured before the run had to end: give it more time; %s is kept", r.path)
	}
	if set.Compute == nil && set.Comm == nil {
		return none, fmt.Errorf("all %d samples failed: there is no dataset to write; remove %s to measure again from the start", r.total(), r.path)
	}
	if err := dataset.Write(folder, set); err != nil {
		return none, fmt.Errorf("%w: all is measured and kept in %s; start the same again to write it", err, r.path)
	}
	return set, nil
}

// supported returns an error with the parts of a design that the backend reports it
// cannot measure, before the others are measured.
func supported(design dataset.Dataset, backend Backend) error {
	s, tells := backend.(Supporter)
	if !tells {
		return nil
	}
	lacking := make(map[string]int)
	need := func(capability string) {
		if !s.Supports(capability) {
			lacking[capability]++
		}
	}
	samples := 0
	if c := design.Compute; c != nil {
		samples += len(c.Samples)
		for i := range c.Samples {
			op := &c.Samples[i].Operation
			need(protocol.CapCompute)
			need(op.Optimizer.String())
			need(op.Precision.String())
			if op.Weighted {
				need(protocol.CapWeighted)
			}
			if slices.ContainsFunc(c.Samples[i].Members, func(m dataset.Member) bool { return c.Tables[m.Table].LengthCV() > 0 }) {
				need(protocol.CapLengths)
			}
		}
	}
	if c := design.Comm; c != nil {
		samples += len(c.Samples)
		for range c.Samples {
			need(protocol.CapComm)
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	var names []string
	for name, n := range lacking {
		what := fmt.Sprintf("%q (%d of %d samples)", name, n, samples)
		if name == protocol.CapComm {
			what = fmt.Sprintf("all-to-alls (%d of %d samples); a single device has none", n, samples)
		}
		if name == protocol.CapLengths {
			what = fmt.Sprintf("bags of unequal length, %s", what)
		}
		names = append(names, what)
	}
	slices.Sort(names)
	return fmt.Errorf("%w %s: leave them out of the design", ErrUnsupported, strings.Join(names, ", "))
}

// run is one run of a collection.
type run struct {
	// The embedded state is that of the last of the passes that have begun.
	*state
	passes  []*state
	opt     Options
	backend Backend
	design  dataset.Dataset
	header  header
	path    string // of the journal
	journal *journal.Journal[record]
	// kinds are the groups and the exchanges of the design.
	kinds []*kind
	// anchoring is false for a simulated backend.
	anchoring bool
	seed      uint64

	// before is the number of measurements of earlier runs; failures and inARow count the
	// failures of this run.
	before           int
	failures, inARow int
	quarantine       int
}

func newRun(design dataset.Dataset, backend Backend, opt Options) (*run, error) {
	r := &run{opt: opt, backend: backend, design: design}
	digest := Digest(design)
	// The order is drawn with the design's digest, so that every run has the same order.
	r.seed, _ = strconv.ParseUint(digest[:16], 16, 64)
	r.header = header{Format: journalFormat, Version: journalVersion, Design: digest, Shard: opt.Shard.String()}
	by := backend.Provenance()
	r.anchoring = by.Source != dataset.Simulated
	by.Design, by.Tool = digest, opt.Tool
	if opt.Passes > 1 {
		by.Passes, by.Fastest = opt.Passes, opt.Fastest
	}
	stated := func(seed uint64) *dataset.Provenance {
		p := by
		p.Seed = seed
		return &p
	}
	if c := design.Compute; c != nil {
		r.header.Compute = stated(c.Provenance.Seed)
		var samples []*sample
		for _, g := range c.Samples {
			samples = append(samples, groupSample(c, g, backend))
		}
		r.kinds = append(r.kinds, newKind(partGroups, PhaseGroups, samples, opt.Shard, r.seed, opt.DriftLimit))
	}
	if c := design.Comm; c != nil {
		r.header.Comm = stated(c.Provenance.Seed)
		var samples []*sample
		for _, e := range c.Samples {
			samples = append(samples, exchangeSample(e, backend))
		}
		r.kinds = append(r.kinds, newKind(partExchanges, PhaseExchanges, samples, opt.Shard, r.seed, commDrift*opt.DriftLimit))
	}
	if err := r.writable(); err != nil {
		return nil, err
	}
	if err := supported(design, backend); err != nil {
		return nil, err
	}
	r.begin()
	return r, nil
}

// begin begins a pass over the design.
func (r *run) begin() {
	r.state = &state{repeats: make(map[int]repeatRecord)}
	r.passes = append(r.passes, r.state)
	r.failures, r.inARow, r.quarantine = 0, 0, 0
	for _, k := range r.kinds {
		r.parts = append(r.parts, &part{kind: k, done: make(map[int]result), failed: make(map[int]Failure), putBack: make(map[int]int)})
	}
}

// writable returns an error if the design is not valid, or the dataset could not be written at
// the end. It validates the design with made-up times before anything is measured.
func (r *run) writable() error {
	var set dataset.Dataset
	for _, k := range r.kinds {
		r.describe(&set, k)
		for _, s := range k.samples {
			made := slices.Repeat([]unit.Millis{1}, max(0, s.devices))
			s.add(&set, times{Forward: made, Backward: made}, false)
		}
	}
	if err := set.Validate(); err != nil {
		return fmt.Errorf("the design cannot be measured: %w", err)
	}
	return nil
}

// total is the number of the shard's samples.
func (r *run) total() int {
	n := 0
	for _, p := range r.parts {
		n += len(p.ids)
	}
	return n
}

// finished looks for a dataset in a folder without a journal. A dataset of the same run is
// returned with ErrFinished; any other one is an error, and no dataset is none.
func (r *run) finished(folder string) (none dataset.Dataset, err error) {
	set, err := dataset.Read(folder)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("folder %s: it holds a dataset that cannot be read: %w: remove it or name another folder", folder, err)
	}
	old := header{Format: journalFormat, Version: journalVersion, Shard: r.header.Shard}
	if c := set.Compute; c != nil {
		old.Compute, old.Design = &c.Provenance, c.Provenance.Design
		if slices.ContainsFunc(c.Samples, func(g dataset.Group) bool { return !r.opt.Shard.has(g.ID) }) {
			old.Shard = "another one"
		}
	}
	if c := set.Comm; c != nil {
		old.Comm, old.Design = &c.Provenance, c.Provenance.Design
		if slices.ContainsFunc(c.Samples, func(e dataset.Exchange) bool { return !r.opt.Shard.has(e.ID) }) {
			old.Shard = "another one"
		}
	}
	if field, was, is := r.header.differs(&old); field != "" {
		return none, fmt.Errorf("folder %s: it holds a finished dataset of %s %s, but this run has %s: name another folder", folder, field, was, is)
	}
	return set, fmt.Errorf("folder %s: %w: name another folder to measure again", folder, ErrFinished)
}

// goOn applies the records of an earlier run, or writes the header of a new
// journal.
func (r *run) goOn(folder string, records []record) error {
	if len(records) == 0 {
		return r.append(record{Header: &r.header})
	}
	old := cmp.Or(records[0].Header, &header{})
	if field, was, is := r.header.differs(old); field != "" {
		hint := "measure on the same device with the same settings"
		switch field {
		case "design", "seed":
			hint = "draw the same samples, with the same seed"
		case "shard":
			hint = "give the same shard"
		case "tool", "format", "version":
			hint = "use the version that began it"
		}
		return fmt.Errorf("folder %s: its samples are of another run, of %s %s, but this run has %s: %s to continue, or name another folder", folder, field, was, is, hint)
	}
	for _, record := range records[1:] {
		r.apply(record)
	}
	r.header = *old // with the hardware facts that the first run measured
	for _, p := range r.parts {
		p.retryFailed()
	}
	r.count()
	p := r.progress("")
	r.before = p.Done
	return nil
}

// differs returns the first field in which two headers differ, and both values. It returns ""
// if a run can continue the other's journal. The facts of the hardware that the first run measured
// are kept.
func (h *header) differs(old *header) (field, was, is string) {
	for _, pair := range []struct{ old, new *dataset.Provenance }{{old.Compute, h.Compute}, {old.Comm, h.Comm}} {
		if pair.old == nil || pair.new == nil {
			continue // the designs differ then
		}
		a, b := *pair.old, *pair.new
		a.Design, b.Design = "", "" // the last to compare
		if d := a.Differences(b); len(d) > 0 {
			return d[0].Name, d[0].A, d[0].B
		}
	}
	for _, f := range []struct {
		name     string
		was, now any
	}{{"format", old.Format, h.Format}, {"version", old.Version, h.Version}, {"design", old.Design, h.Design}, {"shard", old.Shard, h.Shard}} {
		if f.was != f.now {
			return f.name, fmt.Sprintf("%#v", f.was), fmt.Sprintf("%#v", f.now)
		}
	}
	return "", "", ""
}

// measure measures all samples that have no times yet, pass by pass.
func (r *run) measure(ctx context.Context) error {
	for {
		if err := r.measurePass(ctx); err != nil && r.opt.Passes > 1 {
			return fmt.Errorf("pass %d of %d: %w", len(r.passes), r.opt.Passes, err)
		} else if err != nil {
			return err
		}
		if len(r.passes) >= r.opt.Passes {
			return nil
		}
		if err := r.record(record{Pass: len(r.passes) + 1}); err != nil {
			return err
		}
	}
}

// measurePass measures what the last pass lacks.
func (r *run) measurePass(ctx context.Context) error {
	for _, p := range r.parts {
		if err := r.measurePart(ctx, p); err != nil {
			return err
		}
	}
	return r.measureRepeats(ctx)
}

// measurePart takes a part's times. A session begins with an anchor, which ends
// the block that an earlier session left open. Samples of a block that drifted come after
// all others, because the cause of the drift may be over by then. When the run has enough,
// only the anchor that ends the block is left.
func (r *run) measurePart(ctx context.Context, p *part) error {
	if r.over(p) && (!r.anchoring || len(p.open) == 0) {
		return nil
	}
	if err := r.anchor(ctx, p); err != nil {
		return err
	}
	for !r.over(p) {
		for _, id := range p.ids {
			if p.settled(id) || r.opt.Enough() {
				continue
			}
			if err := r.sample(ctx, p, id); err != nil {
				return err
			}
			if len(p.open) >= r.opt.AnchorEvery {
				if err := r.anchor(ctx, p); err != nil {
					return err
				}
			}
		}
		if len(p.open) > 0 {
			if err := r.anchor(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// over reports whether no further sample of a part is to be measured.
func (r *run) over(p *part) bool { return p.remaining() == 0 || r.opt.Enough() }

// sample measures one sample.
func (r *run) sample(ctx context.Context, p *part, id int) error {
	t, failure, err := r.attempt(ctx, p, id)
	if err != nil {
		return err
	}
	if failure != nil {
		if err := r.record(record{Failure: failure}); err != nil {
			return err
		}
		r.opt.OnFailure(*failure)
		r.opt.OnProgress(r.progress(p.phase))
		return r.countFailure(*failure)
	}
	r.inARow = 0
	if err := r.record(record{Sample: &sampleRecord{p.name, id, t}}); err != nil {
		return err
	}
	r.opt.OnProgress(r.progress(p.phase))
	return nil
}

// countFailure returns an error, which ends the run, if too many samples failed.
func (r *run) countFailure(f Failure) error {
	r.failures++
	r.inARow++
	switch {
	case r.inARow >= maxFailures:
		return fmt.Errorf("%d samples in a row failed, the last one: %v", r.inARow, f)
	case r.failures > max(maxFailures, int(maxFailureShare*float64(r.total()))):
		return fmt.Errorf("%d of %d samples failed, the last one: %v", r.failures, r.total(), f)
	}
	return nil
}

// attempt makes the backend run a sample, and once more if the backend failed. A
// failure concerns the sample; an error ends the run.
func (r *run) attempt(ctx context.Context, p *part, id int) (t times, failure *Failure, err error) {
	for try := range 2 {
		if err := ctx.Err(); err != nil {
			return t, nil, context.Cause(ctx)
		}
		t, err = p.byID[id].measure(ctx)
		if err == nil {
			if err := t.check(p.byID[id].devices); err != nil {
				return t, &Failure{p.name, id, CodeTimes, err.Error()}, nil
			}
			return t, nil, nil
		}
		if ctx.Err() != nil {
			return t, nil, context.Cause(ctx)
		}
		if errors.Is(err, ErrLost) {
			return t, nil, fmt.Errorf("sample %d of the %s: %w", id, p.name, err)
		}
		failure = &Failure{p.name, id, CodeCrash, err.Error()}
		if refused, ok := errors.AsType[*protocol.Error](err); ok {
			failure.Code, failure.Message = refused.Code, refused.Message
		} else if broken, ok := errors.AsType[*brokenError](err); ok {
			failure.Code = broken.code
		}
		if failure.final() || failure.Code == CodeTimes || failure.Code == CodeLookups || try == 1 {
			break
		}
	}
	return t, failure, nil
}

// anchor measures a part's anchor, ends the open block and begins another.
func (r *run) anchor(ctx context.Context, p *part) error {
	if !r.anchoring {
		return nil
	}
	found := &anchorRecord{Part: p.name, ID: p.anchorID, After: p.measured}
	if len(p.anchors) == 0 {
		if err := r.chooseAnchor(ctx, p, found); err != nil {
			return err
		}
	} else if err := r.tryAnchor(ctx, p, found); err != nil {
		return err
	}
	if len(p.anchors) == 0 || apart(middle(found.Tries), reference(p.anchors), p.limit) {
		for len(found.Tries) < anchorTries {
			if err := r.tryAnchor(ctx, p, found); err != nil {
				return err
			}
		}
	}
	if len(p.open) > 0 && len(p.anchors) > 0 {
		closing := middle(found.Tries)
		ref := reference(append(slices.Clone(p.anchors), newAnchor(found.After, found.Tries)))
		if !steady(p.anchors[len(p.anchors)-1].cost, closing, ref, p.limit) {
			found.Again = r.again(p)
		}
	}
	if err := r.record(record{Anchor: found}); err != nil {
		return err
	}
	r.count()
	return r.journal.Sync()
}

// again returns the samples of a block that drifted which are measured again. The others are
// quarantined; so are all if the run has enough.
func (r *run) again(p *part) (ids []int) {
	if r.opt.Enough() {
		return nil
	}
	for _, id := range p.open {
		if p.putBack[id] < retryBlocks {
			ids = append(ids, id)
		}
	}
	return ids
}

// chooseAnchor takes the first of the candidates that can be measured.
func (r *run) chooseAnchor(ctx context.Context, p *part, found *anchorRecord) error {
	var last *Failure
	for _, id := range p.candidates {
		t, failure, err := r.attempt(ctx, p, id)
		if err != nil {
			return err
		}
		if failure == nil {
			found.ID, found.Tries = id, append(found.Tries, t)
			return nil
		}
		last = failure
	}
	return fmt.Errorf("none of the %d candidates for the anchor can be measured, the last one: %v", len(p.candidates), last)
}

func (r *run) tryAnchor(ctx context.Context, p *part, found *anchorRecord) error {
	t, failure, err := r.attempt(ctx, p, found.ID)
	if err != nil {
		return err
	}
	if failure != nil {
		return fmt.Errorf("the anchor was measured before and now fails: %v", failure)
	}
	found.Tries = append(found.Tries, t)
	return nil
}

// measureRepeats measures some of the groups a second time, and ends with an
// anchor.
func (r *run) measureRepeats(ctx context.Context) error {
	p := r.part(partGroups)
	if !r.anchoring || p == nil {
		return nil
	}
	if err := r.chooseRepeats(p); err != nil {
		return err
	}
	for _, id := range r.choice {
		if _, done := r.repeats[id]; done || r.opt.Enough() {
			continue
		}
		t, failure, err := r.attempt(ctx, p, id)
		if err != nil {
			return err
		}
		repeat := repeatRecord{ID: id, Failed: failure != nil}
		if failure == nil {
			repeat.times = t
		}
		if err := r.record(record{Repeat: &repeat}); err != nil {
			return err
		}
		r.opt.OnProgress(r.progress(PhaseRepeats))
	}
	if r.unanchored > 0 {
		return r.anchor(ctx, p)
	}
	return nil
}

// chooseRepeats chooses the groups that are measured a second time, unless they were chosen
// before or the run has enough.
func (r *run) chooseRepeats(p *part) error {
	if r.chosen || r.opt.Enough() {
		return nil
	}
	quarantined := p.quarantined()
	var ids []int
	for id := range p.done {
		if !quarantined(id) {
			ids = append(ids, id)
		}
	}
	ids = repeated(ids, r.seed)
	return r.record(record{Choice: &ids})
}

// record writes a record to the journal and applies it to the state.
func (r *run) record(rec record) error {
	if err := r.append(rec); err != nil {
		return err
	}
	r.apply(rec)
	return nil
}

func (r *run) append(rec record) error {
	if err := r.journal.Append(rec); err != nil {
		return fmt.Errorf("journal %w; make room and run the same command again to continue", err)
	}
	return nil
}

// apply applies a record to the state of the last pass, or begins the next pass.
func (r *run) apply(rec record) {
	if rec.Pass > 0 {
		r.begin()
		return
	}
	r.state.apply(rec)
}

// count counts the quarantined samples again.
func (r *run) count() {
	r.quarantine = 0
	for _, p := range r.parts {
		quarantined := p.quarantined()
		for id := range p.done {
			if quarantined(id) {
				r.quarantine++
			}
		}
	}
}

func (r *run) progress(phase string) Progress {
	p := Progress{Phase: phase, Done: r.discarded + len(r.repeats), Total: r.total() + r.discarded, Before: r.before, Quarantined: r.quarantine}
	for _, part := range r.parts {
		p.Done += len(part.done) + len(part.failed)
		p.Failed += len(part.failed)
		if part.name == partGroups && r.anchoring {
			// Total is then about the final number of samples.
			p.Total += len(r.choice)
			if !r.chosen {
				p.Total += repeats(len(part.ids))
			}
		}
	}
	if r.opt.Passes > 1 {
		// Each remaining pass takes as long as this one, in measurements.
		p.Pass = len(r.passes)
		p.Total *= r.opt.Passes - p.Pass + 1
		for _, s := range r.passes[:p.Pass-1] {
			done := s.discarded + len(s.repeats)
			for _, part := range s.parts {
				done += len(part.done) + len(part.failed)
			}
			p.Done, p.Total = p.Done+done, p.Total+done
		}
	}
	return p
}

// dataset returns the measured samples, by ID, of all passes together.
func (r *run) dataset() (dataset.Dataset, error) {
	if r.opt.Passes < 2 {
		return r.datasetOf(r.state), nil
	}
	var sets []dataset.Dataset
	for _, s := range r.passes {
		if set := r.datasetOf(s); set.Compute != nil || set.Comm != nil {
			sets = append(sets, set)
		}
	}
	if len(sets) == 0 {
		return dataset.Dataset{}, nil
	}
	return dataset.Join(r.opt.Fastest, sets...)
}

// datasetOf returns the samples of one pass.
func (r *run) datasetOf(s *state) dataset.Dataset {
	var set dataset.Dataset
	for _, p := range s.parts {
		if len(p.done) == 0 {
			continue
		}
		r.describe(&set, p.kind)
		quarantined := p.quarantined()
		for _, id := range slices.Sorted(maps.Keys(p.done)) {
			p.byID[id].add(&set, p.done[id].times, quarantined(id))
		}
	}
	if set.Compute == nil {
		return set
	}
	for _, a := range s.part(partGroups).anchors {
		for _, t := range a.tries {
			set.Compute.Anchors = append(set.Compute.Anchors, dataset.Anchor{After: a.after, Forward: t.Forward[0], Backward: t.Backward[0]})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.repeats)) {
		if t := s.repeats[id]; !t.Failed {
			set.Compute.Repeats = append(set.Compute.Repeats, dataset.Repeat{ID: id, Forward: t.Forward[0], Backward: t.Backward[0]})
		}
	}
	return set
}

// describe adds a kind to a dataset, without samples.
func (r *run) describe(set *dataset.Dataset, k *kind) {
	if k.name == partExchanges {
		set.Comm = &dataset.Comm{Provenance: *r.header.Comm}
		return
	}
	set.Compute = &dataset.Compute{Provenance: *r.header.Compute, Tables: r.design.Compute.Tables}
}
