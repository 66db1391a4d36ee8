package service

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/service/jobs"
	"github.com/neuroshard/neuroshard/service/store"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// plan.go makes plans. The same input has the same id. A request for a kept plan is answered from
// the store or from memory, and requests for the same new plan wait for one job.

// planner makes plans, and finds kept plans.
type planner struct {
	*composer
	*shelf
	queue   *jobs.Queue
	metrics *counters
	// schemas are those of the bodies of requests.
	schemas huma.Registry
}

// planning is a checked request for a plan.
type planning struct {
	*composed
	id, name string
	options  neuroshard.Options
	// certificate and baselines say what to compute beside the plan.
	certificate, baselines bool

	limit time.Duration
	// refresh says that a kept plan of the same id does not answer the request.
	refresh bool
	// stated is the problem as the request states it.
	stated []byte
	// fixed is what the id is computed from.
	fixed fixed
}

// fixed is everything that a plan depends on in addition to its problem, in canonical form.
type fixed struct {
	Version, Digest, Model string
	Method                 search.Method
	Seed                   uint64
	MaxEvaluations         int64
	ShardingTypes          []problem.ShardingType
	Certificate, Baselines bool
	RiskPenalty            float64
	Step                   *step.Input
	Warnings               []string
}

// identity returns the id of what is planned: the same for the same input on every server of this version.
func identity(of any) (string, error) {
	text, err := json.Marshal(of)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), err
}

// prepare checks a request for a plan.
func (s *planner) prepare(body *PlanBody) (*planning, error) {
	c, err := s.compose(&body.Problem, nil)
	err = joined(err, body.Problem.named())
	asked := cmp.Or(body.Options, &OptionsBody{})
	options, limit, faults := s.options(asked)
	if err = joined(err, faults); err != nil {
		return nil, err
	}
	p := &planning{composed: c, name: body.Problem.Name, options: options, limit: limit, refresh: body.Cache == "refresh"}
	unless := func(stated *bool) bool { return stated == nil || *stated }
	p.certificate, p.baselines = unless(asked.Certificate), unless(asked.Baselines)
	penalty := asked.RiskPenalty
	if p.options.Prices, err = s.prices.of(c.problem.Topology, penalty); err != nil {
		return nil, err
	}
	p.options.Step, p.options.Warnings = c.step, c.warnings
	if p.stated, err = body.Problem.canonical(body.Options); err != nil {
		return nil, err
	}
	search := &p.options.Search
	p.fixed = fixed{
		Version: neuroshard.Version, Digest: plan.Digest(c.problem), Model: p.options.Prices.String(),
		Method: search.Method, Seed: search.Seed, MaxEvaluations: search.MaxEvaluations, ShardingTypes: search.ShardingTypes,
		Certificate: p.certificate, Baselines: p.baselines, RiskPenalty: penalty, Warnings: c.warnings,
	}
	if c.step != nil {
		own := *c.step
		own.Problem, own.Measured.Problem = nil, nil
		p.fixed.Step = &own
	}
	p.id, err = identity(&p.fixed)
	return p, err
}

// methods returns the methods that need no policy.
func methods() (names []string) {
	for _, m := range search.Methods() {
		if !m.Learned() {
			names = append(names, string(m))
		}
	}
	return names
}

// options returns the options of the search, the limit of its time, and all faults of the request's
// options.
func (s *planner) options(body *OptionsBody) (neuroshard.Options, time.Duration, []fault) {
	var faults []fault
	var o neuroshard.Options
	o.Search = search.Options{Method: search.Default, Seed: body.Seed, MaxEvaluations: body.MaxEvaluations, Workers: s.limits.workers()}
	if body.Method != "" {
		o.Search.Method = search.Method(body.Method)
		if known := methods(); !slices.Contains(known, body.Method) {
			faults = append(faults, fault{Location: "options.method", Message: fmt.Sprintf("method %q is unknown", body.Method), Hint: meant(body.Method, known)})
		}
	}
	types, wrong := s.types(body)
	faults = append(faults, wrong...)
	o.Search.ShardingTypes = types
	limit := s.limits.Time
	if body.TimeLimit > 0 {
		if limit = time.Duration(body.TimeLimit) * time.Millisecond; body.TimeLimit > s.limits.Time.Milliseconds() {
			faults = append(faults, fault{Location: "options.time_limit_ms", Message: fmt.Sprintf("%d ms are above this server's limit of %d ms", body.TimeLimit, s.limits.Time.Milliseconds()), Hint: "state less, or start the server with a larger time_limit"})
		}
	}
	return o, limit, faults
}

// types returns the sharding types of a request as a search takes them.
func (s *planner) types(body *OptionsBody) (types []problem.ShardingType, faults []fault) {
	if len(body.ShardingTypes) == 0 {
		return search.Allowing(s.prices.types()), nil
	}
	for i, name := range body.ShardingTypes {
		if name == "all" {
			types = problem.ShardingTypes()
			break
		}
		one, err := problem.ParseShardingType(name)
		if err != nil {
			faults = append(faults, fault{Location: fmt.Sprintf("options.sharding_types[%d]", i), Message: err.Error(), Hint: "or all"})
			continue
		}
		if !slices.Contains(types, one) {
			types = append(types, one)
		}
	}
	slices.SortFunc(types, func(a, b problem.ShardingType) int {
		return slices.Index(problem.ShardingTypes(), a) - slices.Index(problem.ShardingTypes(), b)
	})
	allowed := search.Allowing(types)
	if faults == nil && !slices.Equal(allowed, search.Columns()) && body.Method != "" && search.Method(body.Method) != search.Default {
		faults = append(faults, fault{Location: "options.sharding_types", Message: fmt.Sprintf("method %s places tables in slices of columns only", body.Method), Hint: fmt.Sprintf("leave sharding_types out, or plan with method %s", search.Default)})
	}
	return allowed, faults
}

// Answer describes what POST /v1/plan returns: these fields, and those that neuroshard plan --json
// prints.
type Answer struct {
	ID     string  `json:"id" doc:"Id of the plan: the same for the same input"`
	Name   string  `json:"name" doc:"Name of the model, as the request states it"`
	Cached bool    `json:"cached" doc:"The service had the plan before this request"`
	Saved  bool    `json:"saved" doc:"The store keeps the plan. It does not keep a plan whose search was interrupted by a time limit (status interrupted): such a plan can be read until the server needs its memory"`
	Job    string  `json:"job,omitempty" doc:"Id of the job that made the plan"`
	Valid  bool    `json:"valid" doc:"Always true: a plan is validated before it is returned"`
	Cost   float64 `json:"cost_ms" doc:"Predicted cost of one step in ms"`
	// Simulated and Bound are null if the simulated device cannot estimate the cost.
	Simulated *float64 `json:"simulated_cost_ms" doc:"Cost on the SIMULATED device in ms"`
	Bound     *float64 `json:"lower_bound_ms" doc:"Lower bound of the costs of all plans on the SIMULATED device, in ms"`
	Status    string   `json:"status" doc:"complete, budget or interrupted"`
	Plan      Value    `json:"plan" doc:"The plan, with the fields of a plan file"`
	Warnings  []string `json:"warnings"`
	_         struct{} `additionalProperties:"true"`
}

// answer is a finished plan as an Answer.
type answer struct {
	// job is the id of the job that made the plan; empty if the plan was known.
	id, name, job string
	cached, saved bool
	// result is what report.JSON wrote.
	result []byte
}

// bytes returns the answer as JSON: its own fields before those of the result.
func (a *answer) bytes() []byte {
	var b bytes.Buffer
	b.Grow(len(a.result) + 200)
	name, _ := json.Marshal(a.name) // a string always encodes
	fmt.Fprintf(&b, "{\n  \"id\": %q,\n  \"name\": %s,\n  \"cached\": %t,\n  \"saved\": %t,", a.id, name, a.cached, a.saved)
	if a.job != "" {
		fmt.Fprintf(&b, "\n  \"job\": %q,", a.job)
	}
	b.Write(bytes.TrimPrefix(a.result, []byte("{")))
	return b.Bytes()
}

// makePlan plans, unless another job kept the plan after the request had looked for it. It keeps the
// plan unless the time limit or a cancel interrupted the search.
func (s *planner) makePlan(ctx context.Context, p *planning, j *jobs.Job) (*answer, error) {
	if !p.refresh {
		if a := s.kept(ctx, &shortcut{p.id, p.name}); a != nil {
			a.job = j.ID()
			return a, nil
		}
	}
	start := time.Now()
	options := p.options
	follow(&options, j)
	found, err := p.find(ctx, options)
	if err != nil {
		return nil, err
	}
	p.problem = found.Plan.Decided(p.problem)
	took := time.Since(start)
	s.metrics.planned(took)
	var result bytes.Buffer
	if err := report.JSON(&result, found, p.problem, nil, unit.Millis(took)/unit.Millis(time.Millisecond)); err != nil {
		return nil, err
	}
	return s.file(ctx, j, &finished{p.composed, p.id, p.name, p.stated, found, result.Bytes()})
}

// find plans, and adds what the request asks for.
func (p *planning) find(ctx context.Context, options neuroshard.Options) (*neuroshard.Result, error) {
	planner, err := neuroshard.NewPlanner(ctx, p.problem, options)
	if err != nil {
		return nil, err
	}
	found, err := planner.Plan(ctx)
	if err == nil && p.baselines {
		found, err = planner.FreeSlices(ctx, found)
	}
	if err == nil && p.certificate {
		err = planner.Certify(context.WithoutCancel(ctx), found)
	}
	if err == nil && p.baselines {
		err = planner.Baselines(ctx, found)
	}
	return found, err
}

// finished is a plan that a job made, with its problem as it was composed and as it was stated.
type finished struct {
	*composed
	id, name string
	stated   []byte
	found    *neuroshard.Result
	// result is the answer of the job as JSON.
	result []byte
}

// file stores a plan that a job made, unless its search was interrupted, and returns the plan as an
// answer. If the plan is not stored, it stays in memory for a while under the id of the job.
func (s *planner) file(ctx context.Context, j *jobs.Job, p *finished) (*answer, error) {
	var file bytes.Buffer
	if err := p.found.Plan.Write(&file); err != nil {
		return nil, err
	}
	record := &store.Record{
		ID: p.id, Name: p.name, Digest: plan.Digest(p.problem), Model: p.found.Plan.Provenance.Model, Tool: neuroshard.Version, Created: time.Now(),
		Tables: len(p.problem.Tables), Devices: p.problem.Topology.Devices, Cost: p.found.Predicted.Cost,
		Plan: file.Bytes(), Problem: p.stated, Result: p.result, About: aboutOf(p.found),
	}
	a := &answer{name: p.name, job: j.ID(), result: p.result}
	if p.found.Status != search.Interrupted {
		// The plan is stored even if the client has disconnected.
		_, err := s.store.Put(context.WithoutCancel(ctx), *record)
		if err != nil {
			s.log.Error("a plan was not kept", "id", record.ID, "error", err)
		}
		if a.saved = err == nil; a.saved {
			s.last(record.ID, record.Name)
		}
	}
	if !a.saved {
		record.ID = j.ID()
	}
	a.id = record.ID
	s.keep(record, a.saved)
	return a, nil
}

// plan answers a request for a plan: with a kept plan, with a new plan, or, if detached, with the job
// that makes it.
func (s *planner) plan(ctx context.Context, in *intake, detached bool) (*answer, *jobs.Job, error) {
	key := sha256.Sum256(in.body)
	alias := "body " + string(key[:])
	if value, ok := s.answers.get(alias); ok {
		if a := s.again(ctx, value.(*shortcut)); a != nil {
			return a, nil, nil
		}
	}
	body, err := decode[PlanBody](s.schemas, in.body)
	if err != nil {
		return nil, nil, err
	}
	p, err := s.prepare(body)
	in.release()
	if err != nil {
		return nil, nil, err
	}
	short := &shortcut{p.id, p.name}
	if !p.refresh {
		if a := s.again(ctx, short); a != nil {
			s.answers.put(alias, short, len(p.id)+len(p.name))
			return a, nil, nil
		}
	}
	s.metrics.misses.Inc()
	return s.run(ctx, jobs.Work{
		What: "plan", Key: fmt.Sprintf("plan %s %v %s", p.id, p.limit, p.name), Limit: p.limit,
		Weight: planWeight(len(p.problem.Tables), p.problem.Topology.Devices),
		Run:    func(ctx context.Context, j *jobs.Job) (any, error) { return s.makePlan(ctx, p, j) },
	}, detached)
}

// run starts a job that makes a plan. It returns the plan or, if detached, the job.
func (s *planner) run(ctx context.Context, work jobs.Work, detached bool) (*answer, *jobs.Job, error) {
	job, err := s.queue.Start(work, detached)
	if err != nil || detached {
		return nil, job, err
	}
	result, err := job.Wait(ctx)
	if err != nil {
		return nil, job, err
	}
	return result.(*answer), job, nil
}

// again answers a request with the kept plan that it leads to, and counts the request; nil if the plan
// is not kept.
func (s *planner) again(ctx context.Context, to *shortcut) *answer {
	a := s.kept(ctx, to)
	if a != nil {
		s.metrics.hits.Inc()
	}
	return a
}

// kept returns the kept plan as an answer; nil if the plan is not kept.
func (s *planner) kept(ctx context.Context, to *shortcut) *answer {
	record, err := s.known(ctx, to.id)
	if err != nil {
		s.log.Error("the store could not be read", "id", to.id, "error", err)
	}
	if record == nil || !s.touch(ctx, to.id, to.name) {
		return nil
	}
	return &answer{id: to.id, name: to.name, cached: true, saved: true, result: record.Result}
}

// text is the encoded result of a job.
type text []byte

func (t text) bytes() []byte { return t }

// inTurn runs do as a job, which waits in the queue, and returns its result.
func (s *planner) inTurn(ctx context.Context, what, key string, weight int64, do func(context.Context, *jobs.Job) (text, error)) (*reply, error) {
	job, err := s.queue.Start(jobs.Work{
		What: what, Key: key, Weight: weight, Limit: s.limits.Time,
		Run: func(ctx context.Context, j *jobs.Job) (any, error) { return do(ctx, j) },
	}, false)
	if err != nil {
		return nil, err
	}
	result, err := job.Wait(ctx)
	if err != nil {
		return nil, err
	}
	return &reply{Status: http.StatusOK, ContentType: "application/json", Body: result.(text)}, nil
}

// shortcut names the plan that answers a request with a certain body.
type shortcut struct{ id, name string }
