package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/gofrs/flock"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/atomicfile"
	"github.com/neuroshard/neuroshard/internal/words"
)

// journal.go reads and writes the file of a sweep, or of a part of one: a line of JSON for its
// head, and a line for each outcome. While the sweep goes on, outcomes are appended as they
// come; at the end they are sorted by cell, so that equal sweeps have equal bytes.
//
// Reading stops at the first fault. Only the last line of a sweep that was stopped may be cut.

// Format and FormatVersion identify the file of a sweep.
const (
	Format        = "neuroshard-sweep"
	FormatVersion = 1
)

// Head is the first line of the file of a sweep.
type Head struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Tool is the version of neuroshard.
	Tool string `json:"tool"`
	// Identity is equal for sweeps whose outcomes are equal: of the same tables, axes, options,
	// cost models and prices, by the same version of neuroshard.
	Identity string `json:"identity"`
	// Name is what was planned, and Tables the number of its tables.
	Name   string `json:"name"`
	Tables int    `json:"tables"`
	Axes   []Axis `json:"axes"`
	// Cells is the number of cells of the whole sweep, and Part the part in this file.
	Cells int  `json:"cells"`
	Part  Part `json:"part"`
	// Stack is the training system of the whole steps; empty if the embeddings alone were
	// priced. Prices is the source of prices; empty if they are not known.
	Stack  string `json:"stack"`
	Prices string `json:"prices"`
}

// File is the file of a sweep.
type File struct {
	Head
	// Outcomes are the outcomes by cell; some may be missing.
	Outcomes []Outcome
}

// NotSweep is the error of a file that is not one of the sweep that is wanted.
type NotSweep struct {
	File, Reason string
}

// Error says which file it is, and why it is refused.
func (e *NotSweep) Error() string { return e.File + ": " + e.Reason }

// line returns a value as a line of the file.
func line(v any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	// No error is possible: a plan's numbers are finite.
	_ = encoder.Encode(v)
	return b.Bytes()
}

// Read reads a file. name stands in errors. whole is the number of bytes up to the end of the
// last whole line: less than the file's size if its last line was cut.
func Read(name string, r io.Reader) (file *File, whole int64, err error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", name, err)
	}
	f := &File{}
	head, rest, ended := bytes.Cut(data, []byte{'\n'})
	if !ended {
		return nil, 0, &NotSweep{name, "it is not the file of a sweep, whose first line is its head"}
	}
	if err := f.readHead(name, head); err != nil {
		return nil, 0, err
	}
	whole = int64(len(head)) + 1
	seen := make(map[int]bool)
	for n := 2; ; n++ {
		text, more, ended := bytes.Cut(rest, []byte{'\n'})
		if !ended {
			break // a kill may have cut the last line
		}
		var o Outcome
		err := json.Unmarshal(text, &o)
		if err == nil {
			err = f.check(&o, seen)
		}
		if err != nil {
			return nil, 0, &NotSweep{name, fmt.Sprintf("line %d: it is not one that neuroshard writes: %v", n, err)}
		}
		seen[o.Number] = true
		f.Outcomes = append(f.Outcomes, o)
		rest, whole = more, whole+int64(len(text))+1
	}
	slices.SortFunc(f.Outcomes, func(a, b Outcome) int { return a.Number - b.Number })
	return f, whole, nil
}

// readHead reads the first line.
func (f *File) readHead(name string, text []byte) error {
	h := &f.Head
	if json.Unmarshal(text, h) != nil || h.Format != Format {
		return &NotSweep{name, "it is not the file of a sweep, as neuroshard sweep -o writes it"}
	}
	if h.Version != FormatVersion {
		return &NotSweep{name, fmt.Sprintf("it is a file of format version %d, and this is neuroshard %s, which reads version %d", h.Version, neuroshard.Version, FormatVersion)}
	}
	if h.Cells > MaxCells || h.Part.Index < 1 || h.Part.Index > h.Part.Count || h.Part.Count > h.Cells {
		return &NotSweep{name, fmt.Sprintf("line 1: part %v of %d cells", h.Part, h.Cells)}
	}
	if h.Tool == "" || h.Identity == "" {
		return &NotSweep{name, "line 1: it does not state the version of neuroshard, or the sweep's identity"}
	}
	if err := h.checkAxes(); err != nil {
		return &NotSweep{name, fmt.Sprintf("line 1: %v", err)}
	}
	return nil
}

// checkAxes returns an error unless the axes are known ones in their order, each has values, and
// they have the head's number of cells.
func (h *Head) checkAxes() error {
	last, n := -1, 1
	for _, x := range h.Axes {
		at := slices.Index(axisNames, x.Name)
		if at <= last {
			return fmt.Errorf("%q is not an axis, is there twice, or is in another place", x.Name)
		}
		if len(x.Values) == 0 {
			return fmt.Errorf("the axis %q has no values", x.Name)
		}
		last, n = at, min(n*len(x.Values), MaxCells+1)
	}
	if n != h.Cells {
		return fmt.Errorf("the axes do not have %s", words.Plural(h.Cells, "cell"))
	}
	return nil
}

// check returns an error unless an outcome can be one of the file's. A cell that is no problem may
// lack what is not known of it.
func (f *File) check(o *Outcome, seen map[int]bool) error {
	switch {
	case o.Number < 1 || o.Number > f.Cells || !f.Part.has(o.Number-1) || seen[o.Number] || (o.Status == Fits) != (o.Plan != nil):
		return fmt.Errorf("cell %d is twice, of another part, or %q with or without a plan", o.Number, o.Status)
	case o.Status == Impossible:
		return nil
	case o.Device == "" || o.Devices < 1 || o.Batch < 1:
		return fmt.Errorf("cell %d has no device, number of devices or batch", o.Number)
	}
	return nil
}

// Missing returns the number of cells of the file's part that have no outcome.
func (f *File) Missing() int { return f.Part.size(f.Cells) - len(f.Outcomes) }

// bytes returns the file as a finished run writes it.
func (f *File) bytes() []byte {
	text := line(f.Head)
	for i := range f.Outcomes {
		text = append(text, line(f.Outcomes[i])...)
	}
	return text
}

// Save writes the file, whole or not at all.
func (f *File) Save(path string) error {
	return atomicfile.Write(path, func(w io.Writer) error {
		_, err := w.Write(f.bytes())
		return err
	})
}

// Journal is the file of a sweep that goes on. One process at a time has it.
type Journal struct {
	path string
	head Head
	file *os.File
	lock *flock.Flock
}

// OpenJournal opens the file of the sweep, or makes it, and returns the outcomes that it
// holds. It fails with *NotSweep, and does not change the file, if the file is of another sweep,
// part or version, is damaged, or is no file of a sweep.
func OpenJournal(path string, head Head) (*Journal, []Outcome, error) {
	j := &Journal{path: path, head: head, lock: flock.New(path+".lock", flock.SetPermissions(0o666))}
	if info, err := os.Stat(j.lock.Path()); err == nil && (info.Size() > 0 || !info.Mode().IsRegular()) {
		// Close removes the file of the lock, which is empty.
		return nil, nil, &NotSweep{j.lock.Path(), fmt.Sprintf("it is in the place of the lock of %s, and is not empty", path)}
	}
	got, err := j.lock.TryLock()
	if err != nil {
		return nil, nil, err
	}
	if got {
		// The process that held the lock before may have removed its file after it was opened here.
		held, err1 := j.lock.Stat()
		there, err2 := os.Stat(j.lock.Path())
		got = err1 == nil && err2 == nil && os.SameFile(held, there)
	}
	if !got {
		return nil, nil, errors.Join(&NotSweep{path, "another process is planning into it: wait for it to end, or name another file"}, j.lock.Unlock())
	}
	known, err := j.open()
	if err != nil {
		return nil, nil, errors.Join(err, j.release())
	}
	return j, known, nil
}

// release frees the lock. It removes its file while it is still locked.
func (j *Journal) release() error { return errors.Join(os.Remove(j.lock.Path()), j.lock.Unlock()) }

// open reads what the file holds, and opens it to append to it.
func (j *Journal) open() ([]Outcome, error) {
	file, err := os.OpenFile(j.path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err == nil && info.Size() == 0 {
		j.file = file
		_, err := file.Write(line(j.head))
		return nil, err
	}
	held, whole, err := Read(j.path, file)
	if err == nil {
		err = j.same(held)
	}
	if err == nil {
		err = file.Truncate(whole)
	}
	if err == nil {
		_, err = file.Seek(whole, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	j.file = file
	return held.Outcomes, nil
}

// same returns an error if the file is one of another sweep, version or part.
func (j *Journal) same(held *File) error {
	switch {
	case held.Tool != j.head.Tool:
		return &NotSweep{j.path, fmt.Sprintf("it is a sweep by neuroshard %s, and this is %s, whose outcomes may differ", held.Tool, j.head.Tool)}
	case held.Identity != j.head.Identity:
		return &NotSweep{j.path, fmt.Sprintf("it is another sweep (%s, %s): its tables, axes, options, cost models or prices differ", held.Name, words.Plural(held.Cells, "cell"))}
	case held.Part != j.head.Part:
		return &NotSweep{j.path, fmt.Sprintf("it is part %v of the sweep, not %v", held.Part, j.head.Part)}
	}
	return nil
}

// Add appends an outcome.
func (j *Journal) Add(o Outcome) error {
	_, err := j.file.Write(line(o))
	return err
}

// Finish replaces the file by the sorted one of the finished sweep.
func (j *Journal) Finish(outcomes []Outcome) error {
	return (&File{j.head, outcomes}).Save(j.path)
}

// Close closes the journal and keeps its file, so that a later run can continue.
func (j *Journal) Close() error { return errors.Join(j.file.Close(), j.release()) }

// Join returns the whole sweep of files with its parts. It fails with *NotSweep, which names
// the files or the parts, if a file is of another sweep or lacks cells, if a part is there
// twice, and if parts are missing. names are the files' names in errors.
func Join(names []string, files []*File) (*File, error) {
	first := files[0]
	holders := map[Part]int{}
	all := &File{Head: first.Head}
	all.Part = Part{1, 1}
	for i, f := range files {
		switch at, twice := holders[f.Part]; {
		case f.Tool != first.Tool || f.Identity != first.Identity || f.Cells != first.Cells:
			return nil, &NotSweep{names[i], fmt.Sprintf("it is of another sweep or version than %s", names[0])}
		case f.Part.Count != first.Part.Count:
			return nil, &NotSweep{names[i], fmt.Sprintf("it is part %v, and %s is part %v: join parts of one division", f.Part, names[0], first.Part)}
		case twice:
			return nil, &NotSweep{names[i], fmt.Sprintf("it is part %v, and so is %s: give each part once", f.Part, names[at])}
		case f.Missing() > 0:
			return nil, &NotSweep{names[i], fmt.Sprintf("part %v has %d of its %s: give its command again, which continues it", f.Part, len(f.Outcomes), words.Plural(f.Part.size(f.Cells), "cell"))}
		}
		holders[f.Part] = i
		all.Outcomes = append(all.Outcomes, f.Outcomes...)
	}
	var missing []string
	for i := range first.Part.Count {
		if part := (Part{i + 1, first.Part.Count}); !has(holders, part) {
			missing = append(missing, part.String())
		}
	}
	if len(missing) > 0 {
		return nil, &NotSweep{words.List(names, 3), "missing: part " + words.List(missing, 10)}
	}
	slices.SortFunc(all.Outcomes, func(a, b Outcome) int { return a.Number - b.Number })
	return all, nil
}

func has(holders map[Part]int, part Part) bool { _, ok := holders[part]; return ok }
