package collect

import (
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/unit"
)

// journal.go has the records of the measurements, which a journal keeps until the dataset is
// written. A record that the journal returns is one that a run with the same header wrote, so
// it is not checked again.
//
//	{"sum":"5f1c02aa","header":{"format":"neuroshard journal","version":4,...}}
//	{"sum":"...","anchor":{"part":"groups","id":17,"after":0,"tries":[{"fwd":[..],"bwd":[..]}]}}
//	{"sum":"...","sample":{"part":"groups","id":3,"fwd":[0.81],"bwd":[2.02],"fwd_iqr":0.01,"bwd_iqr":0.03}}
//	{"sum":"...","failure":{"part":"groups","id":9,"code":"oom","msg":"..."}}
//	{"sum":"...","choice":[3,40]}   the groups to measure a second time
//	{"sum":"...","repeat":{"id":3,...}}
//	{"sum":"...","pass":2}          what follows is of the second pass

const (
	journalName    = "journal.jsonl"
	journalFormat  = "neuroshard journal"
	journalVersion = 4
)

// These are the names of the parts of a design in the journal.
const (
	partGroups    = "groups"
	partExchanges = "exchanges"
)

// record is one line; one of its fields is set.
type record struct {
	Header  *header       `json:"header,omitempty"`
	Anchor  *anchorRecord `json:"anchor,omitempty"`
	Sample  *sampleRecord `json:"sample,omitempty"`
	Failure *Failure      `json:"failure,omitempty"`
	Choice  *[]int        `json:"choice,omitempty"`
	Repeat  *repeatRecord `json:"repeat,omitempty"`
	Pass    int           `json:"pass,omitempty"`
}

// header identifies the run. A run can continue the journal of another run with an
// equal header.
type header struct {
	Format  string              `json:"format"`
	Version int                 `json:"version"`
	Design  string              `json:"design"`
	Shard   string              `json:"shard"`
	Compute *dataset.Provenance `json:"compute,omitempty"`
	Comm    *dataset.Provenance `json:"comm,omitempty"`
}

// times are the times of a group or of an exchange: one forward and one backward for each
// device. A group has one device.
type times struct {
	Forward        []unit.Millis `json:"fwd"`
	Backward       []unit.Millis `json:"bwd"`
	ForwardSpread  unit.Millis   `json:"fwd_iqr,omitempty"`
	BackwardSpread unit.Millis   `json:"bwd_iqr,omitempty"`
}

type sampleRecord struct {
	Part string `json:"part"`
	ID   int    `json:"id"`
	times
}

// anchorRecord is a measurement of a part's anchor. The first anchor, and an anchor beyond
// the limit, are measured three times; the median counts.
type anchorRecord struct {
	Part string `json:"part"`
	ID   int    `json:"id"`
	// After is the number of measurements of the part's samples before this anchor. A
	// sample that was measured twice counts twice.
	After int     `json:"after"`
	Tries []times `json:"tries"`
	// Again holds the samples, of the block that this anchor ends, to measure again.
	Again []int `json:"again,omitempty"`
}

type repeatRecord struct {
	ID int `json:"id"`
	// Failed is true if the second measurement failed. Then there are no times.
	Failed bool `json:"failed,omitempty"`
	times
}
