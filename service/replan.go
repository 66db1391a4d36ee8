package service

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"time"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/report/page"
	"github.com/neuroshard/neuroshard/service/jobs"
)

// ReplanBody is the body of POST /v1/replan.
type ReplanBody struct {
	Problem ProblemBody        `json:"problem" doc:"The problem to plan now. Its cluster is the old plan's, except for fields that overrides and topology state"`
	Old     Value              `json:"old" doc:"The old plan, or the id of a kept one"`
	Options *ReplanOptionsBody `json:"options,omitempty"`
}

// ReplanOptionsBody are the options of a re-plan.
type ReplanOptionsBody struct {
	Seed          uint64    `json:"seed,omitempty" doc:"Seed of the random numbers in the search"`
	ShardingTypes []string  `json:"sharding_types,omitempty" minItems:"1" maxItems:"100" doc:"Sharding types that tables may have, or all"`
	RiskPenalty   float64   `json:"risk_penalty,omitempty" minimum:"0" maximum:"100" doc:"Standard deviations of the model's ensemble that the search adds to an estimate"`
	TimeLimit     int64     `json:"time_limit_ms,omitempty" minimum:"1" doc:"Time after which the best of the plans found so far is the answer"`
	MaxBytes      *Quantity `json:"max_bytes,omitempty" doc:"Most bytes to move in addition to those that must move: a number, a size such as 12GB, or a share of the bytes of all tables such as 5%"`
	Price         float64   `json:"price,omitempty" minimum:"0" doc:"Cost in ms that moving one GB (10^9 bytes) must save"`
	Horizon       int64     `json:"horizon,omitempty" minimum:"1" doc:"Steps still to be trained: a move that pays back later is not taken"`
	LostDevices   []int     `json:"lost_devices,omitempty" maxItems:"65536" doc:"Devices of the old plan that are lost, by their numbers there"`
}

// ReplanAnswer describes what POST /v1/replan returns: these fields, and those that neuroshard replan
// --json prints.
type ReplanAnswer struct {
	ID      string   `json:"id" doc:"Id of the new plan"`
	Name    string   `json:"name" doc:"Name of the model, as the request states it"`
	Cached  bool     `json:"cached" doc:"Always false: the curve is not kept"`
	Saved   bool     `json:"saved" doc:"The plan is kept"`
	Job     string   `json:"job" doc:"Id of the job; its page shows the curve"`
	Verdict string   `json:"verdict" enum:"keep,move" doc:"keep: keep the old plan; move: switch to the new plan"`
	OldCost *float64 `json:"old_cost_ms" doc:"Predicted cost of the old plan in ms; null if it does not fit any more"`
	Cost    float64  `json:"cost_ms" doc:"Predicted cost of the new plan in ms"`
	Moved   int64    `json:"moved_bytes" doc:"Bytes that devices receive from each other"`
	Status  string   `json:"status" doc:"complete or interrupted"`
	Curve   []Value  `json:"curve" doc:"The points of cost against moved bytes"`
	Plan    Value    `json:"plan" doc:"The new plan, with the fields of a plan file"`
	_       struct{} `additionalProperties:"true"`
}

// replanning is a checked request for a re-plan.
type replanning struct {
	*composed
	name    string
	old     *held
	options replan.Options
	limit   time.Duration
	stated  []byte
	id      string
}

// prepareReplan checks a request for a re-plan.
func (s *planner) prepareReplan(ctx context.Context, body *ReplanBody) (*replanning, error) {
	old, err := s.planOf(ctx, s.shelf, body.Old, "old")
	if err != nil {
		return nil, err
	}
	if body.Options == nil {
		body.Options = &ReplanOptionsBody{}
	}
	o := body.Options
	cluster, faults := body.remaining(old.Plan)
	r := &replanning{name: body.Problem.Name, old: old, options: replan.Options{Price: o.Price, Horizon: o.Horizon, Lost: o.LostDevices}}
	options, limit, wrong := s.options(&OptionsBody{Seed: o.Seed, ShardingTypes: o.ShardingTypes, RiskPenalty: o.RiskPenalty, TimeLimit: o.TimeLimit})
	faults = append(faults, wrong...)
	r.options.Search, r.limit = options.Search, limit
	if o.MaxBytes != nil {
		text, err := written(*o.MaxBytes, "B")
		if err == nil {
			var most replan.MovedBytes
			most, err = replan.ParseMovedBytes(text)
			r.options.Most = &most
		}
		if err != nil {
			faults = append(faults, fault{Location: "options.max_bytes", Message: err.Error()})
		}
	}
	if r.options.Most != nil && o.Price > 0 {
		faults = append(faults, fault{Location: "options.price", Message: "options.max_bytes and options.price cannot be used together", Hint: "leave one of them out"})
	}
	faults = append(faults, body.Problem.named()...)
	r.composed, err = s.compose(&body.Problem, cluster)
	if err = joined(err, faults); err != nil {
		return nil, err
	}
	if r.options.Prices, err = s.prices.of(r.problem.Topology, o.RiskPenalty); err != nil {
		return nil, err
	}
	r.options.Step, r.options.Warnings = r.step, r.warnings
	if r.stated, err = body.Problem.canonical(&OptionsBody{Seed: o.Seed, ShardingTypes: o.ShardingTypes, RiskPenalty: o.RiskPenalty}); err != nil {
		return nil, err
	}
	r.id, err = r.identity(o)
	return r, err
}

// remaining returns the old plan with the cluster that is left without the lost devices. If the
// request states the whole cluster, the lost devices are replaced.
func (b *ReplanBody) remaining(old *plan.Plan) (*plan.Plan, []fault) {
	replaced := len(b.Problem.Topology) > 0 || string(b.Problem.Overrides["devices"]) == strconv.Itoa(old.Cluster.Devices)
	if len(b.Options.LostDevices) == 0 || replaced {
		return old, nil
	}
	left, err := replan.Remaining(old.Cluster, b.Options.LostDevices)
	if err != nil {
		return old, []fault{{Location: "options.lost_devices", Message: err.Error()}}
	}
	smaller := *old
	smaller.Cluster = left
	return &smaller, nil
}

// identity returns the id of the new plan: the same for the same input.
func (r *replanning) identity(o *ReplanOptionsBody) (string, error) {
	own := *o
	own.TimeLimit = 0
	return identity(struct {
		What, Version, Digest, Model, Old string
		Options                           *ReplanOptionsBody
		Warnings                          []string
	}{"replan", neuroshard.Version, plan.Digest(r.problem), r.options.Prices.String(), fmt.Sprintf("%x", sha256.Sum256(r.old.text)), &own, r.warnings})
}

// replan answers a request for a re-plan: always by a job, because the curve is not kept.
func (s *planner) replan(ctx context.Context, in *intake, detached bool) (*answer, *jobs.Job, error) {
	defer in.release()
	body, err := decode[ReplanBody](s.schemas, in.body)
	if err != nil {
		return nil, nil, err
	}
	r, err := s.prepareReplan(ctx, body)
	if err != nil {
		return nil, nil, err
	}
	in.release()
	return s.run(ctx, jobs.Work{
		What: "replan", Key: fmt.Sprintf("replan %s %v %s", r.id, r.limit, r.name), Limit: r.limit, Weight: planWeight(len(r.problem.Tables), r.problem.Topology.Devices),
		Run: func(ctx context.Context, j *jobs.Job) (any, error) { return s.makeReplan(ctx, r, j) },
	}, detached)
}

// makeReplan plans again. It keeps the plan unless the time limit or a cancel interrupted the search.
func (s *planner) makeReplan(ctx context.Context, r *replanning, j *jobs.Job) (*answer, error) {
	start := time.Now()
	options := r.options
	follow(&options.Options, j)
	found, err := replan.Plan(ctx, r.problem, r.old.Plan, options)
	if err != nil {
		return nil, err
	}
	s.metrics.planned(time.Since(start))
	var result bytes.Buffer
	if err := report.ReplanJSON(&result, found); err != nil {
		return nil, err
	}
	in := page.Input{Name: cmp.Or(r.name, "a re-plan"), Plan: found.Result.Plan, Problem: r.problem, Result: found.Result, Warnings: r.warnings}
	shown, err := page.New(in)
	if err != nil {
		return nil, err
	}
	document := page.Document{Tool: neuroshard.Version, Title: page.Title(&in), Plans: []page.Plan{shown}, Replan: report.ReplanOf(found)}
	if found.Before != nil {
		document.Changes = page.Compare(found.Before, found.Result.Plan)
	}
	if _, err := s.draw("page "+j.ID(), &document); err != nil {
		return nil, err
	}
	return s.file(ctx, j, &finished{r.composed, r.id, r.name, r.stated, found.Result, result.Bytes()})
}
