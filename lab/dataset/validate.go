package dataset

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// The limits of a valid dataset. They are beyond what is measured in weeks and
// keep a wrong file from taking all of a machine's memory.
const (
	// MaxSamples bounds the groups, and the exchanges, and MaxMembers the members of
	// one group.
	MaxSamples = maxRows
	MaxMembers = 1 << 16
	// MaxMillis is the longest time: an hour, as in the prototype's files.
	MaxMillis unit.Millis = 3.6e6
	// MaxDimSum bounds a device's pooled columns, as in the prototype's files.
	MaxDimSum = 1 << 30

	maxID = math.MaxInt32
	// maxText bounds each text of a provenance, in bytes.
	maxText = 4096
)

// maxFaults is how many faults are listed; the others are counted.
const maxFaults = 10

// faults collects what is wrong.
type faults struct {
	list []error
	more int
}

func (f *faults) add(format string, args ...any) {
	if len(f.list) == maxFaults {
		f.more++
		return
	}
	f.list = append(f.list, fmt.Errorf(format, args...))
}

// err returns all faults joined; nil if there are none.
func (f *faults) err() error {
	list := f.list
	if f.more > 0 {
		list = append(slices.Clone(list), fmt.Errorf("and %d faults more", f.more))
	}
	return errors.Join(list...)
}

// Validate returns nil for a dataset that can be written and used, else an error
// with the first faults and the number of the others: provenance that says too
// little, tables that package problem refuses, ids that are used twice, members
// and lists that do not fit, times that are not above 0 and finite, repeats of
// samples that are not there, a table of two splits, parts of two profiles.
func (d Dataset) Validate() error {
	f := &faults{}
	if d.Compute == nil && d.Comm == nil {
		f.add("the dataset is empty: it holds neither fused lookups nor all-to-alls")
	}
	if d.Compute != nil {
		checkCompute(f, d.Compute)
	}
	if d.Comm != nil {
		checkComm(f, d.Comm)
	}
	if d.Compute != nil && d.Comm != nil && d.Compute.Provenance.Profile != d.Comm.Provenance.Profile {
		f.add("the fused lookups are of profile %q and the all-to-alls of %q: a dataset is of one device", d.Compute.Provenance.Profile, d.Comm.Provenance.Profile)
	}
	return f.err()
}

func (p *Provenance) validate(f *faults, part string) {
	if p.Source != Simulated && p.Source != Measured {
		f.add("%s: source %q is unknown: want %q or %q", part, p.Source, Simulated, Measured)
	}
	if p.Profile == "" {
		f.add("%s: profile is missing", part)
	}
	for _, t := range []struct{ name, text string }{
		{"profile", p.Profile},
		{"meter", p.Backend},
		{"design", p.Design},
		{"tool", p.Tool},
		{"device", p.Device},
		{"kernel", p.Kernel},
		{"clocks", p.Clocks},
		{"cache", p.Cache},
		{"lookups", p.Lookups},
		{"hardware name", p.Hardware.Name},
	} {
		if len(t.text) > maxText {
			f.add("%s: %s: %d bytes of text, want at most %d", part, t.name, len(t.text), maxText)
		} else if !utf8.ValidString(t.text) {
			f.add("%s: %s: %q is not UTF-8", part, t.name, t.text)
		}
	}
	for _, n := range []struct {
		name   string
		number int
	}{{"threads", p.Threads}, {"warmup", p.Warmup}, {"repeats", p.Repeats}, {"passes", p.Passes}} {
		if n.number < 0 || n.number > math.MaxInt32 {
			f.add("%s: %s: %d is not between 0 and %d", part, n.name, n.number, math.MaxInt32)
		}
	}
	if p.Hardware != (hardware.Profile{}) {
		for _, problem := range p.Hardware.Problems() {
			f.add("%s: hardware: %s", part, problem)
		}
		if p.Hardware.Name != p.Profile {
			f.add("%s: the hardware is called %q and the profile %q", part, p.Hardware.Name, p.Profile)
		}
	}
}

// checkCompute checks samples of fused lookups with their tables, repeats and anchors.
func checkCompute(f *faults, c *Compute) {
	const part = "fused lookups"
	c.Provenance.validate(f, part)
	checkTables(f, c.Tables)
	if n := len(c.Samples); n > MaxSamples {
		f.add("%s: %d samples, want at most %d", part, n, MaxSamples)
		return
	}
	seen := make(map[int]bool, len(c.Samples))
	splits := &splits{of: make([]Split, len(c.Tables)), crossed: map[int32]bool{}}
	for i := range c.Samples {
		g := &c.Samples[i]
		where := fmt.Sprintf("%s: sample %d", part, g.ID)
		checkHead(f, where, g.ID, g.Split, g.Operation.Batch, seen)
		g.validate(f, where, splits)
	}
	if n := len(c.Repeats); n > maxRows {
		f.add("%s: %d repeats, want at most %d", part, n, maxRows)
	}
	for _, r := range c.Repeats {
		where := fmt.Sprintf("%s: repeat of sample %d", part, r.ID)
		if !seen[r.ID] {
			f.add("%s: there is no such sample", where)
		}
		checkMillis(f, where, "forward", r.Forward, true)
		checkMillis(f, where, "backward", r.Backward, true)
	}
	if n := len(c.Anchors); n > maxRows {
		f.add("%s: %d anchors, want at most %d", part, n, maxRows)
	}
	for i, a := range c.Anchors {
		where := fmt.Sprintf("%s: anchor %d", part, i)
		if a.After < 0 || a.After > maxID {
			f.add("%s: after %d samples: want 0 to %d", where, a.After, maxID)
		}
		checkMillis(f, where, "forward", a.Forward, true)
		checkMillis(f, where, "backward", a.Backward, true)
	}
}

// validate checks a group, all but what it shares with other samples.
func (g *Group) validate(f *faults, where string, splits *splits) {
	op := g.Operation
	if _, err := problem.ParseOptimizer(op.Optimizer.String()); err != nil {
		f.add("%s: %w", where, err)
	}
	if _, err := problem.ParsePrecision(op.Precision.String()); err != nil {
		f.add("%s: %w", where, err)
	}
	if _, err := problem.ParseLaneRule(op.LaneRule.String()); err != nil {
		f.add("%s: %w", where, err)
	}
	if n := len(g.Members); n < 1 || n > MaxMembers {
		f.add("%s: %d members, want 1 to %d", where, n, MaxMembers)
	}
	for _, m := range g.Members {
		if m.Dim < problem.ColumnGranule || m.Dim > problem.MaxDim || m.Dim%problem.ColumnGranule != 0 {
			f.add("%s: dim %d is not a multiple of %d up to %d", where, m.Dim, problem.ColumnGranule, problem.MaxDim)
		}
		splits.add(f, where, m.Table, g.Split)
	}
	checkMillis(f, where, "forward", g.Forward, true)
	checkMillis(f, where, "backward", g.Backward, true)
	checkMillis(f, where, "forward spread", g.ForwardSpread, false)
	checkMillis(f, where, "backward spread", g.BackwardSpread, false)
}

// splits records the split of each table's samples: a table is in one split only.
type splits struct {
	// of holds the split of each table plus 1; 0 is not known yet.
	of []Split
	// crossed holds the tables that are reported.
	crossed map[int32]bool
}

// add records that a sample of the given split has a table.
func (s *splits) add(f *faults, where string, table int32, split Split) {
	if table < 0 || int(table) >= len(s.of) {
		f.add("%s: table %d: there are %d", where, table, len(s.of))
		return
	}
	if known := &s.of[table]; *known == 0 {
		*known = split + 1
	} else if *known != split+1 && !s.crossed[table] {
		s.crossed[table] = true
		f.add("%s: table %d is in samples of the splits %q and %q, and may be in one only", where, table, *known-1, split)
	}
}

// checkTables has package problem judge the tables, in a problem around
// them.
func checkTables(f *faults, tables []problem.Table) {
	if n := len(tables); n > problem.MaxTables {
		f.add("%d tables, want at most %d", n, problem.MaxTables)
		return
	}
	around := problem.Problem{Tables: tables, Topology: hardware.Topology{Devices: hardware.MaxDevices, ReserveShare: hardware.NoReserve}, Batch: 1}
	var invalid *problem.Invalid
	if errors.As(around.Validate(), &invalid) {
		for _, fault := range invalid.Faults {
			if fault.Table != "" { // the others are of the cluster that is none
				f.add("%v", fault)
			}
		}
	}
	for i := range tables {
		t := &tables[i]
		if !t.OneBag() {
			f.add("table %d: it has bags or pooling none, and samples have one pooled vector a feature", i)
		}
		texts := []string{t.Name, t.Constraint.Colocation}
		for _, feature := range t.Features {
			texts = append(texts, feature.Name)
		}
		for _, text := range texts {
			if !utf8.ValidString(text) {
				f.add("table %d: name %q is not UTF-8", i, text)
			}
		}
		a := t.Access
		if a.Batch < 0 || a.Batch > problem.MaxBatch || !finite(a.UniqueRows) || !finite(a.Exponent) || slices.ContainsFunc(a.Reuse[:], func(v float64) bool { return !finite(v) }) {
			f.add("table %d: its accesses are not described in finite numbers", i)
		}
	}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// checkComm checks samples of all-to-alls.
func checkComm(f *faults, c *Comm) {
	const part = "all-to-alls"
	c.Provenance.validate(f, part)
	if n := len(c.Samples); n > MaxSamples {
		f.add("%s: %d samples, want at most %d", part, n, MaxSamples)
		return
	}
	seen := make(map[int]bool, len(c.Samples))
	for i := range c.Samples {
		e := &c.Samples[i]
		where := fmt.Sprintf("%s: sample %d", part, e.ID)
		checkHead(f, where, e.ID, e.Split, e.Batch, seen)
		if e.Devices < 1 || e.Devices > hardware.MaxDevices {
			f.add("%s: %d devices, want 1 to %d", where, e.Devices, hardware.MaxDevices)
			continue
		}
		if e.DevicesPerHost < 1 || e.DevicesPerHost > hardware.MaxDevices {
			f.add("%s: %d devices per host, want 1 to %d", where, e.DevicesPerHost, hardware.MaxDevices)
		}
		for _, l := range []struct {
			name string
			n    int
		}{{"dim sums", len(e.DimSums)}, {"starts", len(e.Start)}, {"forward times", len(e.Forward)}, {"backward times", len(e.Backward)}} {
			if l.n != e.Devices {
				f.add("%s: %d %s for %d devices", where, l.n, l.name, e.Devices)
			}
		}
		checkVectors(f, where, e)
		for _, m := range e.Start {
			checkMillis(f, where, "start", m, false)
		}
		// A single device exchanges nothing, in no time.
		for _, m := range e.Forward {
			checkMillis(f, where, "forward", m, e.Devices > 1)
		}
		for _, m := range e.Backward {
			checkMillis(f, where, "backward", m, e.Devices > 1)
		}
		checkMillis(f, where, "spread", e.Spread, false)
	}
}

// checkVectors checks what the devices of an exchange send.
func checkVectors(f *faults, where string, e *Exchange) {
	if e.Precision != problem.FP32 {
		f.add("%s: its numbers travel in %v: a dataset holds all-to-alls in %v only", where, e.Precision, problem.FP32)
	}
	for _, d := range e.DimSums {
		if d < 0 || d > MaxDimSum {
			f.add("%s: dim sum %d is not between 0 and %d", where, d, MaxDimSum)
		}
	}
}

// checkHead checks the fields that groups and exchanges both have.
func checkHead(f *faults, where string, id int, split Split, batch int, seen map[int]bool) {
	if id < 0 || id > maxID {
		f.add("%s: the id is not between 0 and %d", where, maxID)
	} else if seen[id] {
		f.add("%s: the id is used twice", where)
	}
	seen[id] = true
	if split > Test {
		f.add("%s: unknown split %d", where, split)
	}
	if batch < 1 || batch > problem.MaxBatch {
		f.add("%s: batch %d is not between 1 and %d", where, batch, problem.MaxBatch)
	}
}

func checkMillis(f *faults, where, what string, m unit.Millis, positive bool) {
	if !(m >= 0 && m <= MaxMillis) || positive && m == 0 {
		bound := "at least"
		if positive {
			bound = "above"
		}
		f.add("%s: %s: %v ms is not %s 0 and at most %v", where, what, float64(m), bound, float64(MaxMillis))
	}
}
