// Package dataset holds cost samples: what was run, and how long it took. A
// dataset says where its samples come from, and carries the tables they were
// drawn over, split into training, validation and test tables so that a model
// is judged on tables it never saw.
package dataset

import (
	"github.com/neuroshard/neuroshard/problem"
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
	// Profile is the hardware profile of the device, and Meter what took the
	// times, with its version.
	Profile string `json:"profile"`
	Meter   string `json:"meter"`
	// Seed is the seed the samples were drawn with.
	Seed uint64 `json:"seed"`
}

// Split is the part of a dataset a sample belongs to.
type Split uint8

// The splits. Their tables are disjoint.
const (
	Train Split = iota
	Validation
	Test
)

// Compute is samples of fused lookups.
type Compute struct {
	Provenance Provenance
	// Tables are the tables that groups draw on. Only what they are matters here;
	// precision, optimizer and weighting are the sample's.
	Tables  []problem.Table
	Samples []Group
}

// Group is one fused operation over a group of shards, and its times.
type Group struct {
	Split     Split
	Operation problem.Operation
	Members   []Member
	// Forward and Backward are the times of the fused forward and of the fused
	// backward and update.
	Forward, Backward unit.Millis
}

// Member is a column slice of a table in a group.
type Member struct {
	// Table is an index into Compute.Tables.
	Table int32
	// Dim is the slice's width in columns.
	Dim int32
}

// Comm is samples of the all-to-alls of pooled vectors and gradients.
type Comm struct {
	Provenance Provenance
	Samples    []Exchange
}

// Exchange is one forward and one backward all-to-all.
type Exchange struct {
	Split Split
	// Devices in all and on each host.
	Devices, DevicesPerHost int
	// Batch is the global batch.
	Batch int
	// DimSums is each device's pooled columns, and Start when it is ready for the
	// forward all-to-all; the backward starts aligned.
	DimSums []int
	Start   []unit.Millis
	// Forward contains the wait for the last device to be ready.
	Forward, Backward []unit.Millis
}
