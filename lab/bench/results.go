package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/atomicfile"
	"github.com/neuroshard/neuroshard/lab/verify"
	"github.com/neuroshard/neuroshard/plan"
)

// Results are the records of a comparison and their summaries, as a file.
type Results struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Models names the price list; Seed is the seed of the searches.
	Models  string    `json:"models"`
	Seed    uint64    `json:"seed"`
	Records []Record  `json:"records"`
	Summary []Summary `json:"summary"`
	// Curves are the costs against the budgets of time; nil without Options.Budgets.
	Curves []Curve `json:"curves,omitempty"`
	// Policies are the trained policies that were compared.
	Policies []Trained `json:"policies,omitempty"`
	// Gains compares the default method with the others, task by task; nil if the default
	// method, or every other one, was not tried.
	Gains *Gains `json:"gains,omitempty"`
	// Verified sums up the measured plans; nil if no plans were measured.
	Verified *verify.Comparison `json:"verified,omitempty"`
}

// ResultsFormat and ResultsVersion identify the file of Results.
const (
	ResultsFormat  = "neuroshard-bench"
	ResultsVersion = 1
)

// NewResults returns the results of a comparison.
func NewResults(records []Record, opt Options) *Results {
	opt = opt.withDefaults()
	results := &Results{
		Format: ResultsFormat, Version: ResultsVersion, Models: opt.Prices.String(), Seed: opt.Seed,
		Records: append([]Record{}, records...), Summary: append([]Summary{}, Summarise(records, opt.Reference)...),
		Policies: policiesOf(opt.Contenders), Gains: NewGains(records), Verified: Verified(records),
	}
	if results.Verified != nil {
		results.Verified.MeasuredBy = opt.MeasuredBy
	}
	if opt.Budgets != nil {
		results.Curves = Curves(records, opt)
	}
	return results
}

// WriteResults writes the results of a comparison to a file, whole or not at all.
func WriteResults(path string, records []Record, opt Options) error {
	text, err := json.MarshalIndent(NewResults(records, opt), "", "  ")
	if err != nil {
		return err
	}
	return replace(path, append(text, '\n'))
}

// SavePlot draws the curves, or the summaries if there are none, to a file, whole or not at all.
func SavePlot(path string, results *Results) error {
	var svg bytes.Buffer
	err := error(nil)
	if results.Curves != nil {
		err = PlotCurves(&svg, results.Curves)
	} else {
		err = Plot(&svg, results.Summary)
	}
	if err != nil {
		return err
	}
	return replace(path, svg.Bytes())
}

// ReadResults reads a file of results. Another format or version than this package writes
// is an error. name stands in errors.
func ReadResults(name string, r io.Reader) (*Results, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var results Results
	if err := json.Unmarshal(data, &results); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if results.Format != ResultsFormat || results.Version != ResultsVersion {
		return nil, fmt.Errorf("%s: format %q version %d: want %q version %d, as bench writes it", name, results.Format, results.Version, ResultsFormat, ResultsVersion)
	}
	for i := range results.Records {
		if err := results.Records[i].check(); err != nil {
			return nil, fmt.Errorf("%s: record %d: %w", name, i, err)
		}
	}
	return &results, nil
}

// check returns an error for a record that no run can have written.
func (r *Record) check() error {
	for _, cost := range []*float64{r.CostMS, r.SimulatedCostMS, r.MeasuredCostMS} {
		if cost != nil && !(*cost > 0) {
			return fmt.Errorf("task %q: cost %v is not above 0", r.Task, *cost)
		}
	}
	if r.Valid != (r.CostMS != nil) || r.BoundMS != nil && r.SimulatedCostMS == nil {
		return fmt.Errorf("task %q: valid is %v, but the costs say otherwise", r.Task, r.Valid)
	}
	return nil
}

// Journal writes each record of a run to a file when the record is made, one on each line.
// The file lies beside the file of the results. A run that was stopped continues from it.
type Journal struct {
	path, final string
	file        *os.File
	opt         Options
}

// OpenJournal opens the journal of the comparison that writes its results to
// path, and returns the records that an earlier run of the same comparison left. It
// empties a journal of another comparison.
func OpenJournal(path string, tasks []Task, opt Options) (*Journal, []Record, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, nil, &fs.PathError{Op: "write", Path: path, Err: errors.New("it is a folder")}
	}
	j := &Journal{path: path + ".partial", final: path, opt: opt}
	head, err := identity(tasks, opt)
	if err != nil {
		return nil, nil, err
	}
	known, err := j.read(head)
	if err != nil {
		return nil, nil, err
	}
	// Start from whole lines only: a kill may have cut the last.
	var text bytes.Buffer
	text.WriteString(head + "\n")
	for _, r := range known {
		line, err := json.Marshal(r)
		if err != nil {
			return nil, nil, err
		}
		text.Write(append(line, '\n'))
	}
	if err := replace(j.path, text.Bytes()); err != nil {
		return nil, nil, err
	}
	j.file, err = os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0)
	return j, known, err
}

// Keep runs a comparison as Run does and writes its results to path at the end. Until
// then it keeps each record in path.partial: Keep with the same arguments continues from
// there. If the context ends, Keep returns the records so far with the error. Known must
// be empty.
func Keep(ctx context.Context, path string, tasks []Task, opt Options) (records []Record, err error) {
	journal, known, err := OpenJournal(path, tasks, opt)
	if err != nil {
		return nil, err
	}
	defer journal.Close()
	onRecord := opt.OnRecord
	opt.Known = known
	opt.OnRecord = func(r Record, done, of int) error {
		if onRecord != nil {
			if err := onRecord(r, done, of); err != nil {
				return err
			}
		}
		return journal.Add(r)
	}
	if records, err = Run(ctx, tasks, opt); err != nil {
		return records, err
	}
	return records, journal.Finish(records)
}

// identity returns the first line of a journal. Two comparisons have the same line if they
// have the same price list, methods, seed, backend, tasks and version of neuroshard.
func identity(tasks []Task, opt Options) (string, error) {
	opt = opt.withDefaults()
	hash := sha256.New()
	fmt.Fprintf(hash, "%s %s %d %q\n", neuroshard.Version, opt.Prices, opt.Seed, opt.Methods)
	if opt.Measure != nil {
		fmt.Fprintln(hash, Measured, "in turns", opt.MeasuredBy)
	}
	if opt.Budgets != nil {
		fmt.Fprintln(hash, opt.Budgets)
	}
	if opt.Certificate || opt.TimeLimit > 0 {
		fmt.Fprintf(hash, "certificate %v, time limit %v\n", opt.Certificate, opt.TimeLimit)
	}
	for _, c := range opt.Contenders {
		fmt.Fprintln(hash, c.identity())
	}
	for _, g := range opt.Given {
		fmt.Fprintf(hash, "given %q %q %v %v\n", g.Task, g.Method, g.Wall, g.CPU)
	}
	for i := range tasks {
		p := &tasks[i].Problem
		model, err := opt.Prices.Model(p.Topology)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%q %q %s %s\n", tasks[i].Setting, tasks[i].Name, plan.Digest(p), model)
	}
	return ResultsFormat + " " + hex.EncodeToString(hash.Sum(nil)), nil
}

func (j *Journal) read(head string) ([]Record, error) {
	file, err := os.Open(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 256<<20)
	if !lines.Scan() || lines.Text() != head {
		return nil, nil
	}
	var records []Record
	for lines.Scan() {
		var r Record
		if json.Unmarshal(lines.Bytes(), &r) != nil || r.check() != nil {
			break
		}
		records = append(records, r)
	}
	return records, lines.Err()
}

// Add appends a record.
func (j *Journal) Add(r Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = j.file.Write(append(line, '\n'))
	return err
}

// Finish writes the results of the finished run and removes the journal.
func (j *Journal) Finish(records []Record) error {
	if err := WriteResults(j.final, records, j.opt); err != nil {
		return err
	}
	return errors.Join(j.file.Close(), os.Remove(j.path))
}

// Close closes the journal and keeps its file, so that a later run can continue.
func (j *Journal) Close() error { return j.file.Close() }

// replace writes a file, whole or not at all: see atomicfile.Write.
func replace(path string, data []byte) error {
	return atomicfile.Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
