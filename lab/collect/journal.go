package collect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"time"

	"github.com/neuroshard/neuroshard/internal/atomicfile"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/unit"
)

// journal.go keeps the measurements until the dataset is written: in a file of JSON
// lines, each with a checksum.
//
//	{"sum":"5f1c02aa","header":{"format":"neuroshard journal","version":3,...}}
//	{"sum":"...","anchor":{"part":"groups","id":17,"after":0,"tries":[{"fwd":[..],"bwd":[..]}]}}
//	{"sum":"...","sample":{"part":"groups","id":3,"fwd":[0.81],"bwd":[2.02],"fwd_iqr":0.01,"bwd_iqr":0.03}}
//	{"sum":"...","failure":{"part":"groups","id":9,"code":"oom","msg":"..."}}
//	{"sum":"...","choice":[3,40]}   the groups to measure a second time
//	{"sum":"...","repeat":{"id":3,...}}
//	{"sum":"...","pass":2}          what follows is of the second pass
//
// One call writes a line, after the measurement that the line records. So a process killed
// at any moment leaves whole lines and at most one torn line, the last. Reading drops the
// torn line. A damaged line before it is an error. Whole lines are checked before they are
// applied (check.go).

const (
	journalName    = "journal.jsonl"
	journalFormat  = "neuroshard journal"
	journalVersion = 3
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

// lineStart returns the first bytes of a line: the CRC-32 of all bytes after them.
func lineStart(rest []byte) string { return fmt.Sprintf(`{"sum":"%08x",`, crc32.ChecksumIEEE(rest)) }

// encode returns a record's line, with its end.
func encode(r record) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	rest := append(text[1:], '\n')
	return append([]byte(lineStart(rest)), rest...), nil
}

// decode reads a line, with its end.
func decode(line []byte) (r record, err error) {
	n := min(len(line), len(lineStart(nil)))
	if string(line[:n]) != lineStart(line[n:]) {
		return r, errors.New("its checksum is not that of its text")
	}
	return r, json.Unmarshal(line, &r)
}

// parseJournal reads the lines of a journal. It returns the records and the number
// of their bytes, without a torn last line.
func parseJournal(content []byte) (records []record, size int, err error) {
	for line := range bytes.Lines(content) {
		r, err := decode(line)
		if err != nil {
			if size+len(line) == len(content) && (size > 0 || line[0] == '{' && line[len(line)-1] != '\n') {
				break // torn
			}
			return nil, 0, fmt.Errorf("line %d is damaged, or is not one of neuroshard collect: %v", len(records)+1, err)
		}
		if (r.Header != nil) != (len(records) == 0) {
			return nil, 0, fmt.Errorf("line %d: want a header as the first line, and no other", len(records)+1)
		}
		records = append(records, r)
		size += len(line)
	}
	return records, size, nil
}

// file is the part of *os.File that a journal needs.
type file interface {
	Write(p []byte) (int, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

// journal is an open journal, to append to.
type journal struct {
	path string
	file file
	size int64
	// written is the time when the last line was written, and synced the time when a line
	// last reached the disk.
	written, synced time.Time
	broken          bool
}

// mend says what to do about a journal that is refused.
const mend = "delete this line and all that follow to measure the rest again, or remove the file to begin anew"

// openJournal opens the journal at path and returns its records. It removes a torn
// last line.
func openJournal(path string, open func(path string) (file, error)) (*journal, []record, error) {
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("journal: %w", err)
	}
	records, size, err := parseJournal(content)
	if err != nil {
		return nil, nil, fmt.Errorf("journal %s: %w: %s", path, err, mend)
	}
	f, err := open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("journal: %w", err)
	}
	now := time.Now()
	j := &journal{path: path, file: f, size: int64(size), written: now, synced: now}
	if size < len(content) {
		if err := f.Truncate(j.size); err != nil {
			_ = f.Close()
			return nil, nil, fmt.Errorf("journal: its torn last line: %w", err)
		}
	}
	return j, records, nil
}

// openFile opens a file to append to.
func openFile(path string) (file, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
}

// A line is synced at once if the line before it is at least quickLine old, or
// if the last sync is syncEvery old. So slow samples are on the disk before the
// next sample starts, and fast samples do not wait for the disk each time. There
// is no timer, because a timer would write while a sample is measured.
const (
	quickLine = 100 * time.Millisecond
	syncEvery = time.Second
)

// append writes a record. If the record does not reach the file completely, append
// returns an error and removes the written part, if the disk allows that.
func (j *journal) append(r record) error {
	if j.broken {
		return errors.New("journal: it failed before")
	}
	line, err := encode(r)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if _, err := j.file.Write(line); err != nil {
		j.broken = true
		_ = j.file.Truncate(j.size) // else reading drops the torn line
		return j.failure(err)
	}
	j.size += int64(len(line))
	now := time.Now()
	quick := now.Sub(j.written) < quickLine && now.Sub(j.synced) < syncEvery
	j.written = now
	if quick {
		return nil
	}
	return j.sync()
}

// sync writes all lines to the disk.
func (j *journal) sync() error {
	if err := j.file.Sync(); err != nil {
		j.broken = true
		return j.failure(err)
	}
	j.synced = time.Now()
	return nil
}

func (j *journal) failure(err error) error {
	return fmt.Errorf("journal %s: %w: the measurements so far are kept; make room and run the same command again to continue", j.path, err)
}

func (j *journal) close() error {
	if j.broken {
		_ = j.file.Close()
		return nil // the failure was reported
	}
	err := j.sync()
	if closed := j.file.Close(); err == nil && closed != nil {
		err = j.failure(closed)
	}
	return err
}

// syncFolder writes new and removed names to the disk. Some systems cannot do that;
// the files are still whole.
func syncFolder(folder string) { _ = atomicfile.SyncFolder(folder) }
