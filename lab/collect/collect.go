// Package collect takes the times of what package experiment drew. What to
// measure is handed in; the result is a dataset that says where its times come
// from.
//
//	Run           a design, measured on a Meter into a folder; stopped, it goes on
//	NewSimulated  the Meter of the simulated device
//	StartWorker   the Meter of a process that runs kernels (package protocol)
//
// Run writes each time to a journal as it is taken (journal.go), watches a sample
// that is measured again and again for drift (drift.go), and writes the dataset
// when all is done. SimulateCompute and SimulateComm are for samples that only
// train a model: all at once, on all processors, without files.
package collect

import "runtime"

// Options steer the collection. The zero value works.
type Options struct {
	// OnProgress, where not nil, is called by one goroutine at a time: by Run after
	// each measurement, by the others now and then.
	OnProgress func(Progress)

	// Workers is the number of goroutines of SimulateCompute and SimulateComm
	// (default: all processors). It does not change the result. Run measures one
	// sample at a time.
	Workers int

	// What follows is Run's.

	// Shard is the part of the design to measure (default: all of it).
	Shard Shard
	// Tool is the version of the program, for the provenance.
	Tool string
	// AnchorEvery is the number of samples between two measurements of the anchor
	// (default 200), and DriftLimit the share by which it may move before they are
	// measured again (default 0.03; shared machines need more). All-to-alls may
	// move three times as much.
	AnchorEvery int
	DriftLimit  float64
	// RetryBlocks is how often a sample is measured again because of drift before
	// it is kept as quarantined (default 1; negative: never).
	RetryBlocks int
	// RepeatShare is the share of the groups that are measured a second time after
	// all else (default 0.02; negative: none).
	RepeatShare float64
	// Passes is how often the whole design is measured, one pass after the other
	// (default: once). A sample's time is then the median over the passes, or where
	// Fastest is true the least: what slows a machine for a minute slows one of them.
	Passes  int
	Fastest bool
	// MaxFailures is how many samples may fail in one run before it ends with an
	// error (default: 5 % of the samples and at least 20). As many in a row as that,
	// or 20, end it too.
	MaxFailures int
	// OnFailure, where not nil, is told of each sample that failed.
	OnFailure func(Failure)
}

// Progress is how far a collection is.
type Progress struct {
	// Phase is what is being measured: "groups", "all-to-alls" or "repeats". Pass
	// is the pass, from 1, where there are several.
	Phase string
	Pass  int
	// Done is the measurements made of Total. A block that is measured again makes
	// Total larger. Before of Done were made by earlier runs.
	Done, Total, Before int
	// Quarantined is the samples that are quarantined as it looks now, and Failed
	// those that failed.
	Quarantined, Failed int
}

// The phases of Progress.
const (
	PhaseGroups    = "groups"
	PhaseExchanges = "all-to-alls"
	PhaseRepeats   = "repeats"
)

func (o Options) workers() int {
	if o.Workers > 0 {
		return o.Workers
	}
	return runtime.GOMAXPROCS(0)
}
