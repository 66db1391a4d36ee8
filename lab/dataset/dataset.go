// Package dataset holds cost samples: what was run, and how long it took. A
// dataset says where its samples come from, and carries the tables they were
// drawn over, split into training, validation and test tables so that a model
// is judged on tables it never saw.
//
// The samples are in memory as Compute and Comm; Usable leaves out those in quarantine.
// Noise says how far repeated times lie apart (noise.go), and validate.go holds what a
// sample may be. The text writers give samples to other programs (text.go). Join puts
// together passes over the same design (join.go).
//
// On disk a dataset is a folder of Parquet files with a manifest (manifest.go): Write
// makes the folder (write.go), and Read reads it (read.go). A row is a struct (rows.go),
// a column of it a column of the file (parquet.go). Merge puts together parts that were
// collected on several machines (join.go).
package dataset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// Source says where a dataset's times come from.
type Source string

// The sources.
const (
	Simulated Source = "simulated"
	Measured  Source = "measured"
)

// Provenance says how a dataset came about. Samples of different provenance
// never share a dataset.
type Provenance struct {
	Source Source `json:"source"`
	// Profile is the hardware profile of the device, and Backend what took the
	// times, with its version.
	Profile string `json:"profile"`
	Backend string `json:"meter"`
	// Seed is the seed the samples were drawn with.
	Seed uint64 `json:"seed"`
	// Design is a digest of all that was drawn to be measured; parts of one design
	// share it. Empty for simulated samples that never were on disk.
	Design string `json:"design,omitempty"`
	// Tool is the version of this program that drove the measuring.
	Tool string `json:"tool,omitempty"`

	// What follows is stated by measured samples only.

	// Hardware is what is known of the device: the features of the cost models are
	// computed from it. Its name is Profile. It is stated if package hardware does not
	// have the profile.
	Hardware hardware.Profile `json:"hardware,omitzero"`
	// Device is what the measured device calls itself, Kernel the code that ran,
	// with its version, and Clocks what is known of the device's clocks.
	Device string `json:"device,omitempty"`
	Kernel string `json:"kernel,omitempty"`
	Clocks string `json:"clocks,omitempty"`
	// Threads is the number of CPU threads of one device; 0 for a GPU.
	Threads int `json:"threads,omitempty"`
	// Cache says what was done to the caches before each repeat, for example
	// "flushed 256MiB".
	Cache string `json:"cache,omitempty"`
	// Lookups names the trace that the lookups come from; empty if they were made
	// up from the tables' statistics.
	Lookups string `json:"lookups,omitempty"`
	// Warmup and Repeats are how often each sample was run before and while it was
	// timed; its time is the median of the repeats.
	Warmup  int `json:"warmup,omitempty"`
	Repeats int `json:"repeats,omitempty"`
	// Passes is how often the whole design was measured. A sample's time is the median
	// over the passes or, if Fastest is true, the least time (Join). 0 stands for one
	// pass.
	Passes  int  `json:"passes,omitempty"`
	Fastest bool `json:"fastest,omitempty"`
}

// Split is the part of a dataset a sample belongs to.
type Split uint8

// The splits. Their tables are disjoint.
const (
	Train Split = iota
	Validation
	Test
)

var splitNames = []string{"train", "validation", "test"}

// String returns the split's name as used in files.
func (s Split) String() string {
	if int(s) < len(splitNames) {
		return splitNames[s]
	}
	return fmt.Sprintf("Split(%d)", uint8(s))
}

// ParseSplit reads a split's name.
func ParseSplit(name string) (Split, error) {
	if i := slices.Index(splitNames, name); i >= 0 {
		return Split(i), nil
	}
	return 0, fmt.Errorf("split %q is unknown: choose one of %s", name, strings.Join(splitNames, ", "))
}

// Dataset is the samples of one device. Either part may be nil.
type Dataset struct {
	Compute *Compute
	Comm    *Comm
}

// Untimed returns the design of a dataset: its tables and samples, without times.
func (d Dataset) Untimed() Dataset {
	if c := d.Compute; c != nil {
		d.Compute = &Compute{Provenance: c.Provenance, Tables: c.Tables}
		for _, g := range c.Samples {
			d.Compute.Samples = append(d.Compute.Samples, Group{ID: g.ID, Split: g.Split, Operation: g.Operation, Members: g.Members})
		}
	}
	if c := d.Comm; c != nil {
		d.Comm = &Comm{Provenance: c.Provenance}
		for _, e := range c.Samples {
			e.Forward, e.Backward, e.Spread, e.Quarantined = nil, nil, 0, false
			d.Comm.Samples = append(d.Comm.Samples, e)
		}
	}
	return d
}

// Compute is samples of fused lookups.
type Compute struct {
	Provenance Provenance
	// Tables are the tables that groups draw on. Only what they are matters here;
	// precision, optimizer and weighting are the sample's.
	Tables  []problem.Table
	Samples []Group
	// Repeats are second measurements of samples, taken after all others. They show the
	// noise of the measurement backend. Anchors are the times of one sample, which was
	// measured again and again. They show drift. Both are empty for simulated samples.
	Repeats []Repeat
	Anchors []Anchor
}

// Usable returns the samples that are not quarantined: those to train and to
// judge on. It is a new slice, but members are shared.
func (c *Compute) Usable() []Group {
	return slices.DeleteFunc(slices.Clone(c.Samples), func(g Group) bool { return g.Quarantined })
}

// Group is one fused operation over a group of shards, and its times.
type Group struct {
	// ID numbers the samples of a design from 0, so that no sample is there twice when
	// parts of the design are joined.
	ID        int
	Split     Split
	Operation problem.Operation
	Members   []Member
	// Forward and Backward are the times of the fused forward and of the fused
	// backward and update: the median of the repeats.
	Forward, Backward unit.Millis
	// ForwardSpread and BackwardSpread are the interquartile ranges of the repeats;
	// 0 for simulated samples.
	ForwardSpread, BackwardSpread unit.Millis
	// Quarantined says that the device drifted while the sample was measured. The sample
	// is kept, but no model is trained or judged on it.
	Quarantined bool
}

// Member is a column slice of a table in a group.
type Member struct {
	// Table is an index into Compute.Tables.
	Table int32
	// Dim is the slice's width in columns.
	Dim int32
}

// Repeat is a second measurement of a sample.
type Repeat struct {
	// ID is the sample's.
	ID       int         `parquet:"id"`
	Forward  unit.Millis `parquet:"forward_ms"`
	Backward unit.Millis `parquet:"backward_ms"`
}

// Anchor is one measurement of a dataset's anchor sample.
type Anchor struct {
	// After is the number of samples that were measured before it.
	After    int         `parquet:"after"`
	Forward  unit.Millis `parquet:"forward_ms"`
	Backward unit.Millis `parquet:"backward_ms"`
}

// Comm is samples of the all-to-alls of pooled vectors and gradients.
type Comm struct {
	Provenance Provenance
	Samples    []Exchange
}

// Usable returns the samples that are not quarantined: those to train and to
// judge on. It is a new slice, but lists are shared.
func (c *Comm) Usable() []Exchange {
	return slices.DeleteFunc(slices.Clone(c.Samples), func(e Exchange) bool { return e.Quarantined })
}

// Exchange is one forward and one backward all-to-all.
type Exchange struct {
	// ID numbers the exchanges of a design from 0.
	ID    int
	Split Split
	// Devices in all and on each host.
	Devices, DevicesPerHost int
	// Batch is the global batch.
	Batch int
	// Precision is the number format in which vectors and gradients travel. Datasets hold
	// exchanges in FP32 only; verify measures others.
	Precision problem.Precision
	// DimSums is each device's pooled columns, and Start when it is ready for the
	// forward all-to-all; the backward starts aligned.
	DimSums []int
	Start   []unit.Millis
	// Forward contains the wait for the last device to be ready.
	Forward, Backward []unit.Millis
	// Spread is the interquartile range over the repeats of the slowest device's
	// backward all-to-all; 0 for simulated samples.
	Spread unit.Millis
	// Quarantined is as in Group.
	Quarantined bool
}
