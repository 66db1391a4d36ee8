// Package journal is a file of lines of JSON to which a run appends what it has done, so that a
// later run can continue. Each line starts with a checksum of itself and of all lines before it:
//
//	{"sum":"5f1c02aa","sample":{...}}
//
// A process killed at any moment leaves whole lines and at most one torn line, the last, which
// Open drops. Any other change of the file is an error: a record that Open returns was appended.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/neuroshard/neuroshard/internal/atomicfile"
)

// Journal is an open journal of records of type T, which are JSON objects with at least one
// field. One process at a time has it; one goroutine at a time may use it.
type Journal[T any] struct {
	path string
	file file
	lock *flock.Flock
	// size and sum are those of the whole lines.
	size int64
	sum  uint32
	// written is the time when the last line was written, and synced the time when a line last
	// reached the disk.
	written, synced time.Time
	failed          error
}

// file is the part of *os.File that a journal needs.
type file interface {
	io.WriteCloser
	Truncate(size int64) error
	Sync() error
}

// Open opens the journal at path, or makes it, and returns its records. A file that is no
// journal, is damaged, or is open in another process is an error, and is not changed.
func Open[T any](path string) (*Journal[T], []T, error) {
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	now := time.Now()
	j := &Journal[T]{path: path, lock: lock, written: now, synced: now}
	records, err := j.open()
	if err != nil {
		return nil, nil, errors.Join(err, j.release())
	}
	return j, records, nil
}

// Refused is the error of a journal that a run cannot go on from: it is damaged, open in another
// process, or of another run. It is not changed.
type Refused struct{ error }

// Unwrap returns what is wrong with the journal.
func (r *Refused) Unwrap() error { return r.error }

// Run calls run with the records that the journal at path has of an earlier run of the same
// identity, and with a function that keeps one more. If run succeeds the journal is removed;
// otherwise the records stay for the next run.
func Run[T any](path, identity string, run func(known []T, keep func(T) error) error) error {
	type line struct {
		Run    string `json:"run,omitempty"`
		Record *T     `json:"record,omitempty"`
	}
	j, lines, err := Open[line](path)
	if err == nil && len(lines) > 0 && lines[0].Run != identity {
		err = errors.Join(fmt.Errorf("%s: it is of another run: remove it to begin anew, or name another file", path), j.Close())
	}
	if err != nil {
		return &Refused{err}
	}
	var known []T
	for i := 1; i < len(lines); i++ {
		known = append(known, *lines[i].Record)
	}
	begun := len(lines) > 0
	err = run(known, func(r T) error {
		if !begun {
			begun = true
			if err := j.Append(line{Run: identity}); err != nil {
				return err
			}
		}
		return j.Append(line{Record: &r})
	})
	if err != nil {
		return errors.Join(err, j.Close())
	}
	return j.Remove()
}

// lockFile makes a file and locks it. The system frees the lock when the process ends.
func lockFile(path string) (*flock.Flock, error) {
	lock := flock.New(path, flock.SetPermissions(0o666))
	got, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if got {
		// The process that held the lock before may have removed its file after it was opened here.
		held, err1 := lock.Stat()
		there, err2 := os.Stat(path)
		got = err1 == nil && err2 == nil && os.SameFile(held, there)
	}
	if !got {
		return nil, errors.Join(errors.New("another process is writing into it: wait for that process to end, or end it"), lock.Unlock())
	}
	return lock, nil
}

// release frees the lock. It removes the lock's file while it is still locked.
func (j *Journal[T]) release() error { return errors.Join(os.Remove(j.lock.Path()), j.lock.Unlock()) }

// open reads the records, and opens the file to append to it.
func (j *Journal[T]) open() ([]T, error) {
	f, err := os.OpenFile(j.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	j.file = f
	content, err := io.ReadAll(f)
	var records []T
	if err == nil {
		records, err = j.parse(content)
	}
	if err == nil && j.size < int64(len(content)) {
		err = f.Truncate(j.size)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", j.path, err), f.Close())
	}
	_ = atomicfile.SyncFolder(filepath.Dir(j.path)) // where the system can
	return records, nil
}

// start returns the first bytes of a line.
func start(sum uint32) string { return fmt.Sprintf(`{"sum":"%08x",`, sum) }

// parse reads the lines up to a torn one.
func (j *Journal[T]) parse(content []byte) (records []T, err error) {
	for line := range bytes.Lines(content) {
		n := min(len(line), len(start(0)))
		var r T
		sum := crc32.Update(j.sum, crc32.IEEETable, line[n:])
		if string(line[:n]) != start(sum) {
			err = errors.New("its checksum is not that of the lines up to it")
		} else {
			err = json.Unmarshal(line, &r)
		}
		if err != nil {
			// The first line of a journal is torn if it begins like one.
			torn := j.size > 0 || line[0] == '{' && line[len(line)-1] != '\n'
			if torn && j.size+int64(len(line)) == int64(len(content)) {
				return records, nil
			}
			return nil, fmt.Errorf("line %d is damaged, or is not one of a journal: %w: delete this line and all that follow to do the rest again, or remove the file to begin anew", len(records)+1, err)
		}
		records = append(records, r)
		j.size, j.sum = j.size+int64(len(line)), sum
	}
	return records, nil
}

// A line is synced at once if the line before it is at least quickLine old, or if the last sync
// is syncEvery old: slow work is on the disk before the next begins, and fast work does not wait
// for the disk each time. A timer would write while the next is being measured.
const (
	quickLine = 100 * time.Millisecond
	syncEvery = time.Second
)

// Append writes a record. If the record does not reach the file completely, Append removes the
// written part, if the disk allows that, and all later calls fail as this one does.
func (j *Journal[T]) Append(r T) error {
	if j.failed != nil {
		return j.failed
	}
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("%s: %w", j.path, err)
	}
	rest := append(text[1:], '\n')
	sum := crc32.Update(j.sum, crc32.IEEETable, rest)
	line := append([]byte(start(sum)), rest...)
	if _, err := j.file.Write(line); err != nil {
		_ = j.file.Truncate(j.size) // else Open drops the torn line
		return j.fail(err)
	}
	j.size, j.sum = j.size+int64(len(line)), sum
	now := time.Now()
	quick := now.Sub(j.written) < quickLine && now.Sub(j.synced) < syncEvery
	j.written = now
	if quick {
		return nil
	}
	return j.Sync()
}

func (j *Journal[T]) fail(err error) error {
	j.failed = fmt.Errorf("%s: %w: the lines so far are kept", j.path, err)
	return j.failed
}

// Sync writes all lines to the disk.
func (j *Journal[T]) Sync() error {
	if j.failed == nil {
		if err := j.file.Sync(); err != nil {
			return j.fail(err)
		}
		j.synced = time.Now()
	}
	return j.failed
}

// Close closes the journal and keeps its file, unless it has no records. Its error is not that
// of an earlier call.
func (j *Journal[T]) Close() error {
	if j.size == 0 {
		return j.Remove()
	}
	var err error
	if j.failed == nil {
		err = j.Sync()
	}
	return errors.Join(err, j.file.Close(), j.release())
}

// Remove closes the journal and removes its file, when what it was for is done.
func (j *Journal[T]) Remove() error {
	_ = j.file.Close()
	return errors.Join(os.Remove(j.path), atomicfile.SyncFolder(filepath.Dir(j.path)), j.release())
}
