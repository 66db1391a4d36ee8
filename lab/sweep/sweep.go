// Package sweep plans the same tables for many clusters: each cell of a sweep is one
// combination of the values of the sweep's axes, and a real plan of neuroshard.Plan.
//
//	Axes       the values, and the cells that they make (axes.go)
//	Scale      larger or smaller tables, as a value of an axis (scale.go)
//	Tariff     what clusters cost per hour (tariff.go)
//	New, Run   the sweep: an Outcome for each cell (outcome.go), many at a time
//	Keep       Run that writes the sweep's File, and keeps outcomes while it goes on; Join
//	           puts the parts of a sweep together (file.go)
//	Results    the outcomes with the fastest, the cheapest and the knees marked (results.go),
//	           as CSV (csv.go) and as a plot (plot.go)
//
// The search of a cell is run by one goroutine, and cells are planned in parallel. Outcomes
// do not depend on the number of workers.
package sweep

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/step"
)

// Definition is what a sweep plans.
type Definition struct {
	// Name is what is planned, such as "workload:mlperf-dlrm-dcnv2".
	Name string
	// Parts are the tables, the cluster and the whole step, in which each cell replaces what
	// its axes state. Parts.Overrides must not state a price: prices come from Tariff.
	Parts input.Parts
	Axes  Axes
	// Prices estimates costs; nil takes the models that ship for the profiles.
	Prices neuroshard.Prices
	// Types is the list of sharding types without an axis of them.
	Types Types
	// Seed and MaxEvaluations are those of search.Options.
	Seed           uint64
	MaxEvaluations int64
	// Tariff is what clusters cost; nil if that is not known.
	Tariff *Tariff
	// Complete, if not nil, is called with the problem and the step of a cell before it is
	// planned, to add what depends on both: the plan of a measured step.
	Complete func(p *problem.Problem, in *step.Input) error
}

// Sweep is a checked Definition.
type Sweep struct {
	def      Definition
	axes     []axis
	identity string
	// tables and stack are of the first cell that can be planned: the number of its tables,
	// and the training system of its whole step.
	tables int
	stack  string

	lock   sync.Mutex
	prices map[string]priced
}

// priced is the choice of prices for one profile, or why there is none.
type priced struct {
	prices neuroshard.Prices
	err    error
}

// New returns a sweep of a definition. It fails with an *input.Errors if axes are wrong, and
// with the error of the first cell if no cell can be planned: cells that cannot be composed
// are outcomes only beside others that can.
func New(def Definition) (*Sweep, error) {
	parts := &def.Parts
	if err := input.Join(def.Axes.check(parts.Own), parts.TablesErr, parts.TopologyErr, parts.DenseErr, parts.StackErr); err != nil {
		return nil, err
	}
	def.Axes.fill(parts)
	s := &Sweep{def: def, axes: def.Axes.list(), prices: map[string]priced{}}
	var first error
	for i := range s.Cells() {
		p, in, _, err := s.compose(combinationOf(s.axes, i))
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		s.tables = len(p.Tables)
		if in != nil {
			s.stack = in.Stack.Title()
		}
		return s, s.identify(p, in)
	}
	return nil, first
}

// Cells returns the number of cells.
func (s *Sweep) Cells() int { return cells(s.axes) }

// identify sets the identity: a digest of all that outcomes depend on. The problem and the step
// of one cell stand for the base.
func (s *Sweep) identify(p *problem.Problem, in *step.Input) error {
	base := struct {
		Version, Name, Problem, Prices, Tariff, Types string
		Axes                                          []Axis
		Seed                                          uint64
		MaxEvaluations                                int64
		Step                                          *step.Input
		Measured                                      string
		Models                                        []string
	}{
		Version: neuroshard.Version, Name: s.def.Name, Problem: plan.Digest(p), Tariff: s.def.Tariff.identity(), Types: s.def.Types.Name,
		Axes: s.Axes(), Seed: s.def.Seed, MaxEvaluations: s.def.MaxEvaluations,
	}
	for _, name := range append([]string{p.Topology.Profile.Name}, s.def.Axes.Devices...) {
		prices, err := s.pricesOf(name)
		if err != nil {
			base.Models = append(base.Models, err.Error())
			continue
		}
		base.Models = append(base.Models, prices.String())
	}
	if in != nil {
		own := *in
		if own.Measured.Problem != nil {
			base.Measured = plan.Digest(own.Measured.Problem)
		}
		own.Problem, own.Measured.Problem = nil, nil
		base.Step = &own
	}
	text, err := json.Marshal(base)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	s.identity = hex.EncodeToString(sum[:16])
	return nil
}

// Axes returns the axes with values, in the order in which cells are numbered.
func (s *Sweep) Axes() []Axis {
	all := make([]Axis, len(s.axes))
	for i := range s.axes {
		all[i] = s.axes[i].Axis
	}
	return all
}

// Head returns the first line of the file of a part of the sweep.
func (s *Sweep) Head(part Part) Head {
	part = part.orWhole()
	return Head{
		Format: Format, Version: FormatVersion, Tool: neuroshard.Version, Identity: s.identity, Name: s.def.Name,
		Tables: s.tables, Axes: s.Axes(), Cells: s.Cells(), Part: part, Stack: s.stack, Prices: s.def.Tariff.String(),
	}
}

// Part is one of several parts of a sweep: of the cells, every Count-th one, from the Index-th
// on. Index is from 1 to Count. The zero value is the whole sweep.
type Part struct {
	Index int `json:"index"`
	Count int `json:"count"`
}

// orWhole returns the part, or 1/1 for the zero value.
func (p Part) orWhole() Part {
	if p.Count == 0 {
		return Part{1, 1}
	}
	return p
}

// has reports whether the part has the cell with the number i, from 0.
func (p Part) has(i int) bool { return i%p.Count == p.Index-1 }

// size returns the number of cells of the part, of a sweep of n cells.
func (p Part) size(n int) int { return (n - p.Index + p.Count) / p.Count }

// String returns the part as in 2/8.
func (p Part) String() string { return fmt.Sprintf("%d/%d", p.Index, p.Count) }

// Options steer a run. The zero value works.
type Options struct {
	// Part is the part of the sweep to plan; the zero value is the whole sweep.
	Part Part
	// Workers is the number of cells planned at a time; by default that of the processors.
	Workers int
	// Known are outcomes of an earlier run of the same sweep. Their cells are not planned again.
	Known []Outcome
	// OnOutcome, if not nil, is called with each new outcome, with the number of outcomes until
	// then, and with the number of cells of the part; one call at a time. An error ends the run.
	OnOutcome func(o Outcome, done, of int) error
	// Explain, if not nil, returns the message of an error, and what to change. The message is
	// err.Error() without it.
	Explain func(err error) (reason, remedy string)
}

// Run plans the cells and returns their outcomes by number, with the known ones. A cell that
// does not fit is an outcome. If ctx ends, Run returns the outcomes until then with its error;
// a search that ctx ended makes no outcome.
func (s *Sweep) Run(ctx context.Context, opt Options) ([]Outcome, error) {
	opt.Part = opt.Part.orWhole()
	of, outcomes := opt.Part.size(s.Cells()), map[int]Outcome{}
	for _, o := range opt.Known {
		outcomes[o.Number-1] = o
	}
	var lock sync.Mutex
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(cmp.Or(max(0, opt.Workers), runtime.GOMAXPROCS(0)))
	for i := range s.Cells() {
		lock.Lock()
		_, known := outcomes[i]
		lock.Unlock()
		if known || !opt.Part.has(i) {
			continue
		}
		group.Go(func() error {
			if running.Err() != nil {
				return running.Err()
			}
			o, err := s.plan(ctx, i, &opt)
			lock.Lock()
			defer lock.Unlock()
			if err == nil && opt.OnOutcome != nil {
				err = opt.OnOutcome(o, len(outcomes)+1, of)
			}
			if err == nil {
				outcomes[i] = o
			}
			return err
		})
	}
	err := group.Wait()
	all := slices.Collect(maps.Values(outcomes))
	slices.SortFunc(all, func(a, b Outcome) int { return a.Number - b.Number })
	return all, err
}

// plan plans the cell with the number i, from 0.
func (s *Sweep) plan(ctx context.Context, i int, opt *Options) (Outcome, error) {
	c := combinationOf(s.axes, i)
	p, in, warnings, err := s.compose(c)
	o := Outcome{Cell: s.cell(i, &c, p)}
	if err != nil {
		o.fail(Impossible, err, opt.Explain)
		return o, nil
	}
	prices, err := s.pricesOf(p.Topology.Profile.Name)
	if err == nil {
		_, err = prices.Model(p.Topology)
	}
	if err != nil {
		o.fail(Impossible, err, opt.Explain)
		return o, nil
	}
	options := neuroshard.Options{Prices: prices, Step: in, Warnings: warnings, Search: search.Options{
		Workers: 1, Seed: s.def.Seed, MaxEvaluations: s.def.MaxEvaluations, ShardingTypes: s.types(&c).Allowed,
	}}
	result, err := neuroshard.Plan(ctx, p, options)
	if ctx.Err() != nil && (err != nil || result.Status == search.Interrupted) {
		return o, ctx.Err()
	}
	switch {
	case err == nil:
		o.planned(p, result, s.def.Tariff)
		return o, nil
	case unfit(err):
		o.fail(Infeasible, err, opt.Explain)
	case impossible(err):
		o.fail(Impossible, err, opt.Explain)
	default:
		return o, fmt.Errorf("cell %d (%s): %w", o.Number, o.Cell.text(s.Axes()), err)
	}
	return o, nil
}

// unfit reports whether an error says that the tables do not fit.
func unfit(err error) bool {
	var infeasible *search.Infeasible
	var noType *search.NoShardingType
	var idle *search.Idle
	return errors.As(err, &infeasible) || errors.As(err, &noType) || errors.As(err, &idle)
}

// impossible reports whether an error says that the cell is no valid problem.
func impossible(err error) bool {
	var invalid *problem.Invalid
	var noStep *neuroshard.StepError
	var unpriceable *neuroshard.Unpriceable
	return errors.As(err, &invalid) || errors.As(err, &noStep) || errors.As(err, &unpriceable)
}

// pricesOf returns the prices for a profile. The shipped models are loaded once each.
func (s *Sweep) pricesOf(profile string) (neuroshard.Prices, error) {
	if s.def.Prices != nil {
		return s.def.Prices, nil
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if known, ok := s.prices[profile]; ok {
		return known.prices, known.err
	}
	var now priced
	file, err := pretrained.File(profile)
	if err == nil {
		var model *cost.Model
		if model, err = cost.Load(file); err == nil {
			now.prices = neuroshard.Trained(model, 0)
		}
	}
	now.err = err
	s.prices[profile] = now
	return now.prices, now.err
}

// types returns the sharding types of a combination.
func (s *Sweep) types(c *combination) Types {
	if c.types.Name == "" {
		return s.def.Types
	}
	return c.types
}

// compose returns the problem and the step of a combination, with the warnings of both. Beside
// an error the problem is incomplete.
func (s *Sweep) compose(c combination) (*problem.Problem, *step.Input, []string, error) {
	parts := s.def.Parts
	o := maps.Clone(parts.Overrides)
	if o == nil {
		o = input.Overrides{}
	}
	parts.Overrides = o
	if c.device != "" {
		o["device"] = c.device
	}
	for key, n := range map[string]int{"devices": c.count, "devices_per_host": c.host, "batch": c.batch} {
		if n > 0 {
			o[key] = strconv.Itoa(n)
		}
	}
	if c.exchange != nil {
		o["comm_precision"] = c.exchange.String()
	}
	if c.engine != nil {
		o["engine"] = string(*c.engine)
	}
	var err error
	if parts.Tables, err = scaled(parts.Tables, &c); err != nil {
		return &problem.Problem{}, nil, nil, err
	}
	if c.perDevice > 0 {
		n, err := s.devices(parts)
		if err != nil {
			return &problem.Problem{}, nil, nil, err
		}
		o["batch"] = strconv.Itoa(c.perDevice * n)
	}
	p, warnings, err := parts.Problem()
	if err != nil {
		return p, nil, warnings, err
	}
	in := parts.Step()
	if s.def.Complete != nil {
		err = s.def.Complete(p, in)
	}
	return p, in, warnings, err
}

// devices returns the number of devices of a cell.
func (s *Sweep) devices(parts input.Parts) (int, error) {
	if n, stated := parts.Overrides.Devices(); stated {
		return n, nil
	}
	p, _, err := parts.Problem()
	if err != nil {
		return 0, err
	}
	return p.Topology.Devices, nil
}

// scaled returns the tables of a combination.
func scaled(file input.TableFile, c *combination) (input.TableFile, error) {
	if c.scale.String() == Unscaled && c.precision == nil {
		return file, nil
	}
	tables, err := c.scale.Of(file.Tables)
	if err != nil {
		return file, err
	}
	if c.precision != nil {
		for i := range tables {
			tables[i].Precision = *c.precision
		}
	}
	if len(tables) == len(file.Tables) {
		file.Tables = tables
		return file, nil
	}
	// The lines of the file belong to its own tables.
	return input.TableFile{Name: file.Name, Format: file.Format, Tables: tables, Batch: file.Batch, Samples: file.Samples, Cluster: file.Cluster, Warnings: file.Warnings}, nil
}

// cell describes a combination. p may be incomplete, or nil.
func (s *Sweep) cell(i int, c *combination, p *problem.Problem) Cell {
	t := p.Topology
	cell := Cell{
		Number: i + 1, Scale: c.scale.String(), Batch: p.Batch, BatchPerDevice: c.perDevice,
		Precision: precisionOf(p.Tables), CommPrecision: p.CommPrecision.String(), ShardingTypes: s.types(c).Name,
		Engine: engineName(p.Engine), Device: cmp.Or(t.Profile.Name, c.device), Devices: cmp.Or(t.Devices, c.count),
	}
	if t.Devices > 0 {
		cell.DevicesPerHost = t.PerHost()
	}
	return cell
}

// precisionOf returns the number format of the tables' weights, or "mixed".
func precisionOf(tables []problem.Table) string {
	if len(tables) == 0 {
		return ""
	}
	one := tables[0].Precision
	if slices.ContainsFunc(tables, func(t problem.Table) bool { return t.Precision != one }) {
		return "mixed"
	}
	return one.String()
}
