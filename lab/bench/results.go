package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/atomicfile"
	"github.com/neuroshard/neuroshard/internal/journal"
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

// Keep runs a comparison as Run does and writes its results to path at the end. Until then it
// keeps each record in path.partial: Keep with the same arguments continues from there. A
// path.partial of another comparison is a *journal.Refused. If the context ends, Keep returns the
// records so far with the error. Known must be empty.
func Keep(ctx context.Context, path string, tasks []Task, opt Options) (records []Record, err error) {
	same, err := identity(tasks, opt)
	if err != nil {
		return nil, err
	}
	err = journal.Run(path+".partial", same, func(known []Record, keep func(Record) error) error {
		onRecord := opt.OnRecord
		opt.Known = known
		opt.OnRecord = func(r Record, done, of int) error {
			if onRecord != nil {
				if err := onRecord(r, done, of); err != nil {
					return err
				}
			}
			return keep(r)
		}
		if records, err = Run(ctx, tasks, opt); err != nil {
			return err
		}
		return WriteResults(path, records, opt)
	})
	return records, err
}

// identity returns a text that is the same for two comparisons if they have the same price list,
// methods, seed, backend, tasks and version of neuroshard.
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
