// Package collect measures the times of a design: it gives samples to a measurement
// backend and returns a dataset that states the source of its times. The caller
// states what to measure.
//
//	Run           measures a design on a Backend, into a folder; a run that was
//	              stopped continues (run.go)
//	NewSimulated  the Backend of the simulated device (simulated.go)
//	StartWorker   the Backend of a process that runs kernels (worker.go), which
//	              speaks package protocol on its pipes (process.go)
//
// Run checks the design and orders its samples (design.go), and writes each time to a
// journal when it is measured (journal.go). One process at a time has the journal.
// The state of a run follows from the journal alone (state.go). A sample that Run
// measures again and again shows whether the device drifts (drift.go). When all
// samples have times, Run writes the dataset, in which several passes are joined. Run
// measures through the interface in backend.go.
//
// SimulateCompute and SimulateComm fill in the times of all samples at once, on all
// processors, without files. They are for samples that only train a model.
package collect

// Options configure the collection. The zero value works.
type Options struct {
	// OnProgress, if not nil, is called after each measurement.
	OnProgress func(Progress)
	// Shard is the part of the design to measure (default: all of it).
	Shard Shard
	// Tool is the version of the program, for the provenance.
	Tool string
	// AnchorEvery is the number of samples between two measurements of the anchor
	// (default 200). DriftLimit is the share by which the anchor may move before
	// these samples are measured again (default 0.03; shared machines need more).
	// An all-to-all may move three times as far.
	AnchorEvery int
	DriftLimit  float64
	// Passes is how often the whole design is measured, one pass after the other
	// (default: once). The time of a sample is the median over the passes, or the
	// least if Fastest is true: other work that slows a machine for a minute slows
	// one pass only.
	Passes  int
	Fastest bool
	// OnFailure, if not nil, is called with each sample that failed.
	OnFailure func(Failure)
	// Enough, if not nil, is asked before each sample. Once it returns true, Run measures no
	// further samples, only the anchor that ends their block, and writes the dataset of those
	// that it measured, which is finished then. The samples of one batch size follow each other,
	// so a short run may have only one. With more than one pass, Run returns an error.
	Enough func() bool
}

// Progress states how far a collection has come.
type Progress struct {
	// Phase says what is being measured: "groups", "all-to-alls" or "repeats". Pass
	// is the number of the pass, from 1, if there are several passes.
	Phase string
	Pass  int
	// Done is the number of measurements made, and Total the number of all. A block
	// that is measured again makes Total larger. Before is the part of Done that
	// earlier runs made.
	Done, Total, Before int
	// Quarantined is the number of samples in quarantine so far, and Failed the number
	// of samples that failed.
	Quarantined, Failed int
}

// The phases of Progress.
const (
	PhaseGroups    = "groups"
	PhaseExchanges = "all-to-alls"
	PhaseRepeats   = "repeats"
)
