package dataset

import (
	"errors"
	"fmt"
	"math"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// MaxMillis is the longest time: an hour, as in the prototype's files.
const MaxMillis unit.Millis = 3.6e6

// Validate returns nil for a dataset that can be written and used, else the first fault:
// provenance that says too little, tables that package problem refuses, ids that are used
// twice, members and lists that do not fit, times that are not above 0 and finite, repeats
// of samples that are not there, a table of two splits, parts of two profiles.
func (d Dataset) Validate() error {
	if d.Compute == nil && d.Comm == nil {
		return errors.New("the dataset is empty: it holds neither fused lookups nor all-to-alls")
	}
	if d.Compute != nil {
		if err := d.Compute.validate(); err != nil {
			return fmt.Errorf("fused lookups: %w", err)
		}
	}
	if d.Comm != nil {
		if err := d.Comm.validate(); err != nil {
			return fmt.Errorf("all-to-alls: %w", err)
		}
	}
	if d.Compute != nil && d.Comm != nil && d.Compute.Provenance.Profile != d.Comm.Provenance.Profile {
		return fmt.Errorf("the fused lookups are of profile %q and the all-to-alls of %q: a dataset is of one device", d.Compute.Provenance.Profile, d.Comm.Provenance.Profile)
	}
	return nil
}

func (p *Provenance) validate() error {
	if p.Source != Simulated && p.Source != Measured {
		return fmt.Errorf("source %q is unknown: want %q or %q", p.Source, Simulated, Measured)
	}
	if p.Profile == "" {
		return errors.New("profile is missing")
	}
	if p.Hardware != (hardware.Profile{}) {
		if problems := p.Hardware.Problems(); len(problems) > 0 {
			return fmt.Errorf("hardware: %s", problems[0])
		}
		if p.Hardware.Name != p.Profile {
			return fmt.Errorf("the hardware is called %q and the profile %q", p.Hardware.Name, p.Profile)
		}
	}
	return nil
}

func (c *Compute) validate() error {
	if err := c.Provenance.validate(); err != nil {
		return err
	}
	if err := checkTables(c.Tables); err != nil {
		return err
	}
	seen := make(map[int]bool, len(c.Samples))
	splits := make([]Split, len(c.Tables)) // the split of each table's samples plus 1; 0 is not known yet
	for i := range c.Samples {
		g := &c.Samples[i]
		err := checkHead(g.ID, g.Split, g.Operation.Batch, seen)
		if err == nil {
			err = g.validate(splits)
		}
		if err != nil {
			return fmt.Errorf("sample %d: %w", g.ID, err)
		}
	}
	for _, r := range c.Repeats {
		if !seen[r.ID] {
			return fmt.Errorf("repeat of sample %d: there is no such sample", r.ID)
		}
		if err := checkTimes(true, r.Forward, r.Backward); err != nil {
			return fmt.Errorf("repeat of sample %d: %w", r.ID, err)
		}
	}
	for i, a := range c.Anchors {
		if err := checkTimes(true, a.Forward, a.Backward); err != nil || a.After < 0 {
			return errors.Join(fmt.Errorf("anchor %d, after %d samples", i, a.After), err)
		}
	}
	return nil
}

// validate checks a group, all but its head.
func (g *Group) validate(splits []Split) error {
	if len(g.Members) == 0 {
		return errors.New("it has no members")
	}
	for _, m := range g.Members {
		if m.Dim < problem.ColumnGranule || m.Dim > problem.MaxDim || m.Dim%problem.ColumnGranule != 0 {
			return fmt.Errorf("dim %d is not a multiple of %d up to %d", m.Dim, problem.ColumnGranule, problem.MaxDim)
		}
		if m.Table < 0 || int(m.Table) >= len(splits) {
			return fmt.Errorf("table %d: there are %d", m.Table, len(splits))
		}
		if known := &splits[m.Table]; *known == 0 {
			*known = g.Split + 1
		} else if *known != g.Split+1 {
			return fmt.Errorf("table %d is in samples of the splits %q and %q, and may be in one only", m.Table, *known-1, g.Split)
		}
	}
	return errors.Join(checkTimes(true, g.Forward, g.Backward), checkTimes(false, g.ForwardSpread, g.BackwardSpread))
}

// checkTables has package problem judge the tables, in a problem around
// them.
func checkTables(tables []problem.Table) error {
	around := problem.Problem{Tables: tables, Topology: hardware.Topology{Devices: hardware.MaxDevices, ReserveShare: hardware.NoReserve}, Batch: 1}
	var invalid *problem.Invalid
	if errors.As(around.Validate(), &invalid) {
		for _, fault := range invalid.Faults {
			if fault.Table != "" { // the others are of the cluster that is none
				return errors.New(fault.String())
			}
		}
	}
	for i := range tables {
		if !tables[i].OneBag() {
			return fmt.Errorf("table %d: it has bags or pooling none, and samples have one pooled vector a feature", i)
		}
	}
	return nil
}

func (c *Comm) validate() error {
	if err := c.Provenance.validate(); err != nil {
		return err
	}
	seen := make(map[int]bool, len(c.Samples))
	for i := range c.Samples {
		e := &c.Samples[i]
		err := checkHead(e.ID, e.Split, e.Batch, seen)
		if err == nil {
			err = e.validate()
		}
		if err != nil {
			return fmt.Errorf("sample %d: %w", e.ID, err)
		}
	}
	return nil
}

// validate checks an exchange, all but its head.
func (e *Exchange) validate() error {
	n := e.Devices
	if n < 1 || n > hardware.MaxDevices || e.DevicesPerHost < 1 || e.DevicesPerHost > hardware.MaxDevices {
		return fmt.Errorf("%d devices, %d on a host: want 1 to %d", n, e.DevicesPerHost, hardware.MaxDevices)
	}
	if len(e.DimSums) != n || len(e.Start) != n || len(e.Forward) != n || len(e.Backward) != n {
		return fmt.Errorf("%d dim sums, %d starts, %d forward times and %d backward times for %d devices", len(e.DimSums), len(e.Start), len(e.Forward), len(e.Backward), n)
	}
	if e.Precision != problem.FP32 {
		return fmt.Errorf("its numbers travel in %v: a dataset holds all-to-alls in %v only", e.Precision, problem.FP32)
	}
	for _, d := range e.DimSums {
		if d < 0 || d > math.MaxInt32 {
			return fmt.Errorf("dim sum %d is not between 0 and %d", d, math.MaxInt32)
		}
	}
	// A single device exchanges nothing, in no time.
	return errors.Join(checkTimes(false, e.Spread), checkTimes(false, e.Start...), checkTimes(n > 1, e.Forward...), checkTimes(n > 1, e.Backward...))
}

// checkHead checks the fields that groups and exchanges both have.
func checkHead(id int, split Split, batch int, seen map[int]bool) error {
	if id < 0 || id > math.MaxInt32 {
		return fmt.Errorf("the id is not between 0 and %d", math.MaxInt32)
	}
	if seen[id] {
		return errors.New("the id is used twice")
	}
	seen[id] = true
	if split > Test {
		return fmt.Errorf("unknown split %d", split)
	}
	if batch < 1 || batch > problem.MaxBatch {
		return fmt.Errorf("batch %d is not between 1 and %d", batch, problem.MaxBatch)
	}
	return nil
}

// checkTimes refuses times that are negative, not finite or too long and, if they must be
// positive, 0.
func checkTimes(positive bool, times ...unit.Millis) error {
	for _, m := range times {
		if !(m >= 0 && m <= MaxMillis) || positive && m == 0 {
			return fmt.Errorf("%v ms is no time between 0 and %v", float64(m), float64(MaxMillis))
		}
	}
	return nil
}
