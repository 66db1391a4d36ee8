package input

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/unit"
)

// Error is one thing wrong with an input.
type Error struct {
	// File is the name of the file; empty for what no file states.
	File string
	// Line is the line in the file, from 1; 0: not known.
	Line int
	// Table is the name of the table at fault, or its position ("#3", from 0)
	// where it has none; empty: the error is not about one table.
	Table string
	// Message says what is wrong, with the offending value.
	Message string
	// Hint says what to do about it; it may be empty.
	Hint string
}

// String prints the error on one line, without the hint:
//
//	tables.json:12: table "user": dim 6 is not a multiple of 4
func (e Error) String() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d", e.Line)
		}
		b.WriteString(": ")
	}
	if e.Table != "" {
		fmt.Fprintf(&b, "table %s: ", quote(e.Table))
	}
	b.WriteString(e.Message)
	return b.String()
}

// The most errors that Errors keeps, that its Error method prints, and that are
// counted before the reading of a file ends. The first maxSuggested errors of a file have
// suggestions: a suggestion compares a word with all known ones, and commands and the
// service show no more than 100 errors.
const (
	maxKept      = 1000
	maxPrinted   = 50
	maxSuggested = 100
	maxCounted   = 100_000
)

// Errors is everything wrong with one or more inputs.
type Errors struct {
	// List holds the errors, file by file, in the order in which they were found.
	List []Error
	// More is the number of further errors that were only counted.
	More int
}

// Alike is one or more errors that differ only in their line and table, or also in their numbers: the
// first, and how many there are.
type Alike struct {
	Error
	Count int
	// others says that numbers differ.
	others bool
}

// String prints the first error, with the number of errors if there are several.
func (a Alike) String() string { return a.Error.String() + a.times() }

// Said returns the message, with the number of errors if there are several.
func (a Alike) Said() string { return a.Message + a.times() }

func (a Alike) times() string {
	switch {
	case a.Count == 1:
		return ""
	case a.others:
		return fmt.Sprintf(" (%d times, with other numbers)", a.Count)
	}
	return fmt.Sprintf(" (%d times)", a.Count)
}

// fewNumbers is the most errors that differ in their numbers and still stand one by one.
const fewNumbers = 5

var anyNumber = regexp.MustCompile(`-?[0-9][0-9.]*`)

// Alike returns the errors of List without repetitions, in the order of the first of each. More than a few
// errors that differ only in numbers are one, too.
func (e *Errors) Alike() []Alike {
	var all []Alike
	kind := func(one Error) Error {
		return Error{File: one.File, Message: anyNumber.ReplaceAllString(one.Message, "0"), Hint: one.Hint}
	}
	kinds, at := map[Error]int{}, map[Error]int{}
	for _, one := range e.List {
		kinds[kind(one)]++
	}
	for _, one := range e.List {
		key := Error{File: one.File, Message: one.Message, Hint: one.Hint}
		if kinds[kind(one)] > fewNumbers {
			key = kind(one)
		}
		i, known := at[key]
		if !known {
			i, at[key] = len(all), len(all)
			all = append(all, Alike{Error: one})
		}
		all[i].Count++
		all[i].others = all[i].others || all[i].Message != one.Message
	}
	return all
}

// Error prints the errors, one a line, each followed by its hint in brackets.
// After 50 lines it says how many more there are.
func (e *Errors) Error() string {
	var b strings.Builder
	for i, one := range e.List {
		if i == maxPrinted {
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(one.String())
		if one.Hint != "" {
			fmt.Fprintf(&b, " (%s)", one.Hint)
		}
	}
	b.WriteString(words.More("\n", max(0, len(e.List)-maxPrinted)+e.More))
	return b.String()
}

// Join puts the errors of several inputs into one *Errors; nil if there are none. Those of one file stand together, by line; files stand in the order in
// which they first appear. (Beyond what Error prints, errors keep their order.)
// An error of another type becomes an entry without position.
func Join(errs ...error) error {
	all := &report{}
	for _, err := range errs {
		var list *Errors
		switch {
		case err == nil:
		case errors.As(err, &list):
			for _, e := range list.List {
				all.put(e)
			}
			all.more += list.More
		default:
			all.put(Error{Message: err.Error()})
		}
	}
	if all.count() <= maxPrinted {
		all.sort()
	}
	return all.err()
}

// sort puts errors in the order that Join states.
func (r *report) sort() {
	files := map[string]int{}
	for _, e := range r.list {
		if _, ok := files[e.File]; !ok {
			files[e.File] = len(files)
		}
	}
	slices.SortStableFunc(r.list, func(a, b Error) int {
		return cmp.Or(cmp.Compare(files[a.File], files[b.File]), cmp.Compare(a.Line, b.Line))
	})
}

// report gathers the errors of one file.
type report struct {
	file string
	list []Error
	more int
}

func (r *report) add(line int, message, hint string) {
	r.put(Error{File: r.file, Line: line, Message: message, Hint: hint})
}

func (r *report) put(e Error) {
	if len(r.list) == maxKept {
		r.more++
		return
	}
	r.list = append(r.list, e)
}

// fatal adds the error that ended the reading of a file. Among more errors than
// are printed it goes first, so that it is seen.
func (r *report) fatal(line int, message, hint string) {
	if len(r.list) < maxPrinted {
		r.add(line, message, hint)
		return
	}
	if len(r.list) == maxKept {
		r.list = r.list[:maxKept-1]
		r.more++
	}
	r.list = slices.Insert(r.list, 0, Error{File: r.file, Line: line, Message: message, Hint: hint})
}

// count returns how many errors there are.
func (r *report) count() int { return len(r.list) + r.more }

// suggest returns the hint for a word that is not among the known ones: the
// one that was probably meant, or else all of them. It returns "" after maxSuggested errors.
func (r *report) suggest(word string, known []string) string {
	if r.count() >= maxSuggested {
		return ""
	}
	if best := closest(word, known); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "known: " + strings.Join(known, ", ")
}

// name puts the table's name on the errors since there were from of them: a
// table's name is known only once its object has been read.
func (r *report) name(from int, table string) {
	for i := from; i < len(r.list); i++ {
		r.list[i].Table = table
	}
}

func (r *report) tooBig(limit int64) {
	r.add(0, fmt.Sprintf("the file is over %v", unit.Bytes(limit)), "split it into several files or leave out what is not needed")
}

// readError reports an error of the underlying reader.
func (r *report) readError(line int, err error) {
	if tooBig := (*tooBigError)(nil); errors.As(err, &tooBig) {
		r.fatal(line, "the file is "+tooBig.Error(), "split it into several files or leave out what is not needed")
		return
	}
	r.fatal(line, "it cannot be read: "+err.Error(), "")
}

func (r *report) err() error {
	if r.count() == 0 {
		return nil
	}
	return &Errors{List: r.list, More: r.more}
}

// quote quotes s as Go does, and shortens what is too long to read.
func quote(s string) string { return fmt.Sprintf("%q", clip(s)) }

// clip shortens s to what fits a message.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
