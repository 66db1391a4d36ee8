package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/lab/sweep"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/report/page"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/service/jobs"
)

// SweepBody is the body of POST /v1/sweep.
type SweepBody struct {
	Problem ProblemBody       `json:"problem"`
	Axes    AxesBody          `json:"axes" doc:"The values to combine: every combination is a cell, and a real plan"`
	Options *SweepOptionsBody `json:"options,omitempty"`
	Price   float64           `json:"price,omitempty" minimum:"0" doc:"Price of one device for an hour, in dollars"`
	By      string            `json:"by,omitempty" enum:"speed,cost" doc:"List the cells by speed or by cost; in the order of the axes by default"`
}

// AxesBody are the axes of a sweep.
type AxesBody struct {
	Devices        []int    `json:"devices,omitempty" maxItems:"1000" doc:"Numbers of devices"`
	Device         []string `json:"device,omitempty" maxItems:"1000" doc:"Device profiles"`
	DevicesPerHost []int    `json:"devices_per_host,omitempty" maxItems:"1000" doc:"Numbers of devices that share a host's fast links"`
	Batch          []int    `json:"batch,omitempty" maxItems:"1000" doc:"Global batches, for strong scaling"`
	BatchPerDevice []int    `json:"batch_per_device,omitempty" maxItems:"1000" doc:"Batches of one device, for weak scaling"`
	Precision      []string `json:"precision,omitempty" maxItems:"1000" doc:"Number formats of the weights of all tables"`
	CommPrecision  []string `json:"comm_precision,omitempty" maxItems:"1000" doc:"Number formats of the vectors that devices send each other"`
	ShardingTypes  []string `json:"sharding_types,omitempty" maxItems:"1000" doc:"Lists of sharding types, each joined by +, such as table_wise+column_wise"`
	Engine         []string `json:"for,omitempty" maxItems:"1000" doc:"Engines that are to run the plan: torchrec, hugectr or any"`
	Scale          []string `json:"scale,omitempty" maxItems:"1000" doc:"Scales of the tables, such as rows=2,dims=1.5, or none"`
}

// SweepOptionsBody are the options of the searches of a sweep.
type SweepOptionsBody struct {
	Seed           uint64 `json:"seed,omitempty" doc:"Seed of the random numbers in the searches"`
	MaxEvaluations int64  `json:"max_evaluations,omitempty" minimum:"0" doc:"Cost estimates after which the search of a cell ends; 0 takes a number that grows with the problem"`
}

// axes returns the axes as package sweep takes them, with their faults.
func (b *AxesBody) axes() (sweep.Axes, []fault) {
	axes := sweep.Axes{Counts: b.Devices, Hosts: b.DevicesPerHost, Batches: b.Batch, PerDevice: b.BatchPerDevice, Devices: b.Device}
	var faults []fault
	axes.Scales = valuesOf("scale", b.Scale, sweep.ParseScale, &faults)
	axes.Precisions = valuesOf("precision", b.Precision, problem.ParsePrecision, &faults)
	axes.CommPrecisions = valuesOf("comm_precision", b.CommPrecision, problem.ParsePrecision, &faults)
	axes.Engines = valuesOf("for", b.Engine, func(name string) (problem.Engine, error) {
		if name == "any" {
			return "", nil
		}
		return problem.ParseEngine(name)
	}, &faults)
	axes.ShardingTypes = valuesOf("sharding_types", b.ShardingTypes, typesOf, &faults)
	return axes, faults
}

// typesOf reads a list of sharding types that is joined by +.
func typesOf(text string) (sweep.Types, error) {
	if text == "all" {
		return allTypes(problem.ShardingTypes()), nil
	}
	var types []problem.ShardingType
	for _, name := range strings.Split(text, "+") {
		one, err := problem.ParseShardingType(name)
		if err != nil {
			return sweep.Types{}, err
		}
		types = append(types, one)
	}
	return sweep.Types{Name: text, Allowed: search.Allowing(types)}, nil
}

// allTypes returns the list of the types of requests that state none; nil are slices of columns.
func allTypes(types []problem.ShardingType) sweep.Types {
	if types == nil {
		return sweep.Types{Name: "table_wise+column_wise"}
	}
	return sweep.Types{Name: "all", Allowed: search.Allowing(types)}
}

// valuesOf parses the values of an axis.
func valuesOf[T any](name string, texts []string, parse func(string) (T, error), faults *[]fault) (all []T) {
	for i, text := range texts {
		value, err := parse(strings.TrimSpace(text))
		if err != nil {
			*faults = append(*faults, fault{Location: fmt.Sprintf("axes.%s[%d]", name, i), Message: err.Error()})
			continue
		}
		all = append(all, value)
	}
	return all
}

// sweep starts the job of a request for a sweep.
func (s *planner) sweep(in *intake) (*jobs.Job, error) {
	defer in.release()
	body, err := decode[SweepBody](s.schemas, in.body)
	if err != nil {
		return nil, err
	}
	def, weight, err := s.define(body)
	if err != nil {
		return nil, err
	}
	sw, err := sweep.New(*def)
	if err != nil {
		return nil, err
	}
	if n := sw.Cells(); n > s.limits.Cells {
		return nil, overLimit("axes", fmt.Sprintf("%d cells are above this server's limit of %d", n, s.limits.Cells), "state fewer values, or start the server with a larger max_cells")
	}
	return s.queue.Start(jobs.Work{
		What: "sweep", Weight: weight, Limit: s.limits.Time,
		Run: func(ctx context.Context, j *jobs.Job) (any, error) { return s.makeSweep(ctx, sw, sweep.By(body.By), j) },
	}, true)
}

// define returns the definition of a sweep, within the limits, and the memory that it takes.
func (s *planner) define(body *SweepBody) (*sweep.Definition, int64, error) {
	axes, faults := body.Axes.axes()
	parts, wrong, err := s.parts(&body.Problem, nil)
	faults = append(faults, wrong...)
	if err = joined(err, faults); err != nil {
		return nil, 0, err
	}
	def := &sweep.Definition{Name: "the request", Parts: *parts, Axes: axes, Types: allTypes(s.prices.types())}
	if body.Problem.Workload != "" {
		def.Name = workload.Prefix + strings.TrimPrefix(body.Problem.Workload, workload.Prefix)
	}
	if body.Problem.Name != "" {
		def.Name = body.Problem.Name
	}
	if body.Options != nil {
		def.Seed, def.MaxEvaluations = body.Options.Seed, body.Options.MaxEvaluations
	}
	if s.prices.model != nil {
		def.Prices = neuroshard.Trained(s.prices.model, 0)
	} else if s.prices.formulas != nil {
		def.Prices = s.prices.formulas
	}
	if body.Price > 0 {
		if def.Tariff, _, err = sweep.ParseFlat(strconv.FormatFloat(body.Price, 'g', -1, 64)); err != nil {
			return nil, 0, refusal(fault{Location: "price", Message: err.Error()})
		}
	}
	devices := slices.Max(append(slices.Clone(axes.Counts), 1))
	if len(axes.Counts) == 0 {
		devices = statedDevices(def)
	}
	tables := float64(len(parts.Tables.Tables))
	most := tables
	for _, scale := range axes.Scales {
		if scale.Tables > 0 {
			most = max(most, tables*scale.Tables)
		}
	}
	if most > float64(s.limits.Tables) || devices > s.limits.Devices {
		return nil, 0, overLimit("axes", fmt.Sprintf("a cell has %.0f tables on %d devices, above this server's limits of %d and %d", most, devices, s.limits.Tables, s.limits.Devices), "start the server with larger max_tables and max_devices")
	}
	return def, planWeight(int(most), devices) * int64(s.limits.workers()), nil
}

// statedDevices returns the number of devices of a sweep without an axis of them.
func statedDevices(def *sweep.Definition) int {
	p := &def.Parts
	switch {
	case p.Overrides.Has("devices"):
		n, _ := p.Overrides.Devices()
		return n
	case p.Topology != nil:
		return p.Topology.Topology.Devices
	case p.Tables.Cluster != nil:
		return p.Tables.Cluster.Topology.Devices
	case p.Workload != nil:
		return slices.Max(append(slices.Clone(p.Workload.Sizes), p.Workload.Topology.Devices))
	}
	return 1
}

// makeSweep plans the cells. If the limit of time or a cancel ends it, the cells until then are the result.
func (s *planner) makeSweep(ctx context.Context, sw *sweep.Sweep, by sweep.By, j *jobs.Job) (text, error) {
	outcomes, err := sw.Run(ctx, sweep.Options{
		Workers: s.limits.workers(), Explain: explained,
		OnOutcome: func(_ sweep.Outcome, done, of int) error {
			Progress{Phase: "planning", Share: float64(done) / float64(of), Done: done, Of: of}.report(j)
			return nil
		},
	})
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if err != nil && (!ended || len(outcomes) == 0) {
		return nil, err
	}
	results := sweep.NewResults(sweep.File{Head: sw.Head(sweep.Part{Index: 1, Count: 1}), Outcomes: outcomes}, by)
	encoded, err := json.Marshal(results)
	if err != nil {
		return nil, err
	}
	document := page.Document{Tool: neuroshard.Version, Title: results.Name, Plans: []page.Plan{}, Sweep: page.NewSweep(results)}
	if _, err := s.draw("page "+j.ID(), &document); err != nil {
		return nil, err
	}
	head := fmt.Sprintf("{\"job\":%q,", j.ID())
	return append([]byte(head), encoded[1:]...), nil
}

// explained returns the message of the error of a cell, and what to change.
func explained(err error) (reason, remedy string) {
	r := refused(err)
	if len(r.Errors) == 0 {
		return r.Detail, r.Hint
	}
	var messages []string
	for _, f := range r.Errors {
		messages = append(messages, f.Message)
		if remedy == "" {
			remedy = f.Hint
		}
	}
	return strings.Join(messages, "; "), remedy
}
