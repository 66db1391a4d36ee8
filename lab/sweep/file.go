package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/atomicfile"
	"github.com/neuroshard/neuroshard/internal/journal"
	"github.com/neuroshard/neuroshard/internal/jsonfile"
	"github.com/neuroshard/neuroshard/internal/words"
)

// file.go reads and writes the file of a sweep, or of a part of one: a line of JSON for its head,
// and a line for each outcome by cell, so that equal sweeps have equal bytes. Reading stops at the
// first fault.

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

// maxFile is the size above which a file is refused. A sweep of MaxCells cells is a tenth as large.
const maxFile = 1 << 30

// bounds are those of lists. Only values of axes are many.
var bounds = jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(jsonfile.Bounded[Axis](MaxCells), jsonfile.Bounded[string](MaxCells)))

// Read reads a file. name stands in errors.
func Read(name string, r io.Reader) (*File, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > maxFile {
		return nil, &NotSweep{name, fmt.Sprintf("it is larger than %d bytes", maxFile)}
	}
	head, rest, _ := bytes.Cut(data, []byte{'\n'})
	f := &File{}
	if err := f.readHead(name, head); err != nil {
		return nil, err
	}
	seen := make(map[int]bool)
	for text := range bytes.Lines(rest) {
		var o Outcome
		err := jsonv2.Unmarshal(text, &o, bounds)
		if err == nil {
			err = f.check(&o, seen)
		}
		if err != nil {
			return nil, &NotSweep{name, fmt.Sprintf("line %d: it is not one that neuroshard writes: %v", len(f.Outcomes)+2, err)}
		}
		seen[o.Number] = true
		f.Outcomes = append(f.Outcomes, o)
	}
	slices.SortFunc(f.Outcomes, func(a, b Outcome) int { return a.Number - b.Number })
	return f, nil
}

// readHead reads the first line.
func (f *File) readHead(name string, text []byte) error {
	h := &f.Head
	if jsonv2.Unmarshal(text, h, bounds) != nil || h.Format != Format {
		return &NotSweep{name, "it is not the file of a sweep, as neuroshard sweep -o writes it"}
	}
	if h.Version != FormatVersion {
		return &NotSweep{name, fmt.Sprintf("it is a file of format version %d, and this is neuroshard %s, which reads version %d", h.Version, neuroshard.Version, FormatVersion)}
	}
	if h.Cells > MaxCells || h.Part.Index < 1 || h.Part.Index > h.Part.Count || h.Part.Count > h.Cells {
		return &NotSweep{name, fmt.Sprintf("line 1: part %v of %d cells", h.Part, h.Cells)}
	}
	cells := 1
	for _, x := range h.Axes {
		cells = min(cells*len(x.Values), MaxCells+1)
	}
	if cells != h.Cells {
		return &NotSweep{name, "line 1: the axes do not have " + words.Plural(h.Cells, "cell")}
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

// Keep runs the sweep as Run does, and writes its file to path at the end. Until then it keeps
// each outcome in path.partial: Keep of the same sweep continues from there. It fails with
// *NotSweep if path is another file than one of this sweep and part, and with *journal.Refused if
// path.partial is. If the context ends, Keep returns the outcomes so far with the error. Known must
// be empty.
func (s *Sweep) Keep(ctx context.Context, path string, opt Options) (outcomes []Outcome, err error) {
	head := s.Head(opt.Part)
	held, err := head.held(path)
	if err != nil {
		return nil, err
	}
	err = journal.Run(path+".partial", head.Identity+" "+head.Part.String(), func(known []Outcome, keep func(Outcome) error) error {
		onOutcome := opt.OnOutcome
		opt.Known = append(held, known...)
		opt.OnOutcome = func(o Outcome, done, of int) error {
			if onOutcome != nil {
				if err := onOutcome(o, done, of); err != nil {
					return err
				}
			}
			return keep(o)
		}
		if outcomes, err = s.Run(ctx, opt); err != nil {
			return err
		}
		return (&File{head, outcomes}).Save(path)
	})
	return outcomes, err
}

// held returns the outcomes of the file at path, which must be of the same sweep, version and part
// as the head; none if there is no file.
func (h *Head) held(path string) ([]Outcome, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	held, err := Read(path, file)
	switch {
	case err != nil:
		return nil, err
	case held.Tool != h.Tool:
		return nil, &NotSweep{path, fmt.Sprintf("it is a sweep by neuroshard %s, and this is %s, whose outcomes may differ", held.Tool, h.Tool)}
	case held.Identity != h.Identity:
		return nil, &NotSweep{path, fmt.Sprintf("it is another sweep (%s, %s): its tables, axes, options, cost models or prices differ", held.Name, words.Plural(held.Cells, "cell"))}
	case held.Part != h.Part:
		return nil, &NotSweep{path, fmt.Sprintf("it is part %v of the sweep, not %v", held.Part, h.Part)}
	}
	return held.Outcomes, nil
}

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
		part := Part{i + 1, first.Part.Count}
		if _, held := holders[part]; !held {
			missing = append(missing, part.String())
		}
	}
	if len(missing) > 0 {
		return nil, &NotSweep{words.List(names, 3), "missing: part " + words.List(missing, 10)}
	}
	slices.SortFunc(all.Outcomes, func(a, b Outcome) int { return a.Number - b.Number })
	return all, nil
}
