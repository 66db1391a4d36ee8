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
// lines, each with its own checksum.
//
//	{"sum":"5f1c02aa","header":{"format":"neuroshard journal","version":1,...}}
//	{"sum":"...","anchor":{"part":"groups","id":17,"after":0,"tries":[{"fwd":[..],"bwd":[..]}]}}
//	{"sum":"...","sample":{"part":"groups","id":3,"fwd":[0.81],"bwd":[2.02],"fwd_iqr":0.01,"bwd_iqr":0.03}}
//	{"sum":"...","failure":{"part":"groups","id":9,"code":"oom","msg":"..."}}
//	{"sum":"...","choice":[3,40]}          the groups to measure a second time
//	{"sum":"...","repeat":{"id":3,...}}
//
// sum is the CRC-32C of the rest. One call writes a line, after the measurement
// that the line records. So a process killed at any moment leaves whole lines and
// at most one torn line, the last. Reading drops the torn line. A damaged line with
// whole lines after it is an error.

const (
	journalName    = "journal.jsonl"
	journalFormat  = "neuroshard journal"
	journalVersion = 1
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

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The parts of a line around its sum. They contain the opening brace of the record.
const (
	lineStart = `{"sum":"`
	lineRest  = `",`
	sumDigits = 8
)

// encode returns a record's line, with its end.
func encode(r record) ([]byte, error) {
	payload, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	line := lineStart + sumOf(payload) + lineRest
	return append(append([]byte(line), payload[1:]...), '\n'), nil
}

// sumOf returns the checksum of a record in the form that a line has.
func sumOf(payload []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(payload, castagnoli)) }

// decode reads a line without its end.
func decode(line []byte) (record, error) {
	var r record
	const least = len(lineStart) + sumDigits + len(lineRest)
	if len(line) < least || string(line[:len(lineStart)]) != lineStart || string(line[least-len(lineRest):least]) != lineRest {
		return r, errors.New("it does not start with a checksum")
	}
	// The payload's brace takes the place of the last byte before it.
	payload := append([]byte{'{'}, line[least:]...)
	want := string(line[len(lineStart) : len(lineStart)+sumDigits])
	if got := sumOf(payload); got != want {
		return r, fmt.Errorf("its checksum is %s, want %s", got, want)
	}
	if err := json.Unmarshal(payload, &r); err != nil {
		return r, err
	}
	set := 0
	for _, is := range []bool{r.Header != nil, r.Anchor != nil, r.Sample != nil, r.Failure != nil, r.Choice != nil, r.Repeat != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return r, fmt.Errorf("it holds %d records, want 1", set)
	}
	return r, nil
}

// mostTorn is the most damaged lines at the end of a journal that are dropped: a torn line,
// and a line that another run wrote onto it.
const mostTorn = 2

// parseJournal reads the lines of a journal. It returns the records and the number
// of their bytes, without a torn last line. It fails if a damaged line has whole
// lines after it, if more lines are damaged than a stop can tear, and if the file
// is not a journal.
func parseJournal(content []byte) (records []record, size int, err error) {
	var torn error
	damaged := 0
	for number, at := 1, 0; at < len(content); number++ {
		length := bytes.IndexByte(content[at:], '\n')
		if length < 0 {
			break
		}
		r, err := decode(content[at : at+length])
		at += length + 1
		if err != nil {
			if torn == nil {
				torn = fmt.Errorf("line %d is damaged: %w", number, err)
			}
			if damaged++; damaged > mostTorn {
				return nil, 0, torn
			}
			continue
		}
		if torn != nil {
			return nil, 0, torn
		}
		if (r.Header != nil) != (len(records) == 0) {
			return nil, 0, fmt.Errorf("line %d: a second header: only the first line may be one", number)
		}
		records = append(records, r)
		size = at
	}
	if size == 0 && !tornHeader(content) {
		return nil, 0, errors.New("it is not a journal of neuroshard collect")
	}
	return records, size, nil
}

// tornHeader reports whether the content may be the first part of a journal's first
// line, or is empty.
func tornHeader(content []byte) bool {
	begin := []byte(lineStart)
	n := min(len(content), len(begin))
	return bytes.Equal(content[:n], begin[:n]) && bytes.Count(content, []byte("\n")) <= 1
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

// openJournal opens the journal at path and returns its records. It removes a torn
// last line.
func openJournal(path string, open func(path string) (file, error)) (*journal, []record, error) {
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("journal: %w", err)
	}
	records, size, err := parseJournal(content)
	if err != nil {
		return nil, nil, fmt.Errorf("journal %s: %w: restore a whole copy, or remove it to measure again from the start", path, err)
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
		return err
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
