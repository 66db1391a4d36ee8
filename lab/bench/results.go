package bench

import (
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
	if r.Method == "" || r.Task == "" {
		return fmt.Errorf("task %q, method %q: a record has both", r.Task, r.Method)
	}
	if !(r.WallMS >= 0) || !(r.CPUMS >= 0) {
		return fmt.Errorf("task %q: times of %v and %v ms are below 0", r.Task, r.WallMS, r.CPUMS)
	}
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

// Keep runs a comparison as Run does and writes its results to path at the end. Until
// then it keeps each record as a line of path.partial: Keep with the same arguments continues
// from there, and empties the file of another comparison. If the context ends, Keep returns the
// records so far with the error. Known must be empty.
func Keep(ctx context.Context, path string, tasks []Task, opt Options) ([]Record, error) {
	head, err := identity(tasks, opt)
	if err != nil {
		return nil, err
	}
	partial := path + ".partial"
	if opt.Known, err = kept(partial, head); err != nil {
		return nil, err
	}
	// Start from whole lines only: a kill may have cut the last.
	lines := []byte(head + "\n")
	for _, r := range opt.Known {
		if lines, err = appendLine(lines, r); err != nil {
			return nil, err
		}
	}
	if err := replace(partial, lines); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(partial, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	onRecord := opt.OnRecord
	opt.OnRecord = func(r Record, done, of int) error {
		if onRecord != nil {
			if err := onRecord(r, done, of); err != nil {
				return err
			}
		}
		line, err := appendLine(nil, r)
		if err == nil {
			_, err = file.Write(line)
		}
		return err
	}
	records, err := Run(ctx, tasks, opt)
	if err != nil {
		return records, err
	}
	if err := WriteResults(path, records, opt); err != nil {
		return records, err
	}
	return records, errors.Join(file.Close(), os.Remove(partial))
}

func appendLine(lines []byte, r Record) ([]byte, error) {
	line, err := json.Marshal(r)
	return append(append(lines, line...), '\n'), err
}

// kept returns the records that an earlier run of the comparison with the first line head left in
// a file.
func kept(partial, head string) ([]Record, error) {
	text, err := os.ReadFile(partial)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	if err != nil || string(first) != head {
		return nil, err
	}
	var records []Record
	for line := range bytes.Lines(rest) {
		var r Record
		if json.Unmarshal(line, &r) != nil || r.check() != nil {
			break
		}
		records = append(records, r)
	}
	return records, nil
}

// identity returns the first line of a journal. Two comparisons have the same line if they
// have the same price list, methods, seed, backend, tasks and version of neuroshard.
func identity(tasks []Task, opt Options) (string, error) {
	opt = opt.withDefaults()
	hash := sha256.New()
	fmt.Fprintf(hash, "%s %s %d %q budgets %v certificate %v limit %v measured %v %q\n", neuroshard.Version, opt.Prices, opt.Seed, opt.Methods,
		opt.Budgets, opt.Certificate, opt.TimeLimit, opt.Measure != nil, opt.MeasuredBy)
	for _, c := range opt.Contenders {
		fmt.Fprintln(hash, c.identity())
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

// replace writes a file, whole or not at all: see atomicfile.Write.
func replace(path string, data []byte) error {
	return atomicfile.Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
