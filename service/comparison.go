package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/service/jobs"
	"github.com/neuroshard/neuroshard/unit"
)

// comparison.go handles requests about given plans: price, validate and diff.

// JudgeBody is the body of POST /v1/price and of POST /v1/validate.
type JudgeBody struct {
	Problem *ProblemBody `json:"problem,omitempty" doc:"The problem that was planned. Its cluster is the plan's, except for fields that overrides and topology state. It may be left out if plan is an id"`
	Plan    Value        `json:"plan" doc:"A plan, or the id of a kept one"`
}

// DiffBody is the body of POST /v1/diff.
type DiffBody struct {
	Before Value `json:"before" doc:"A plan, or the id of a kept one"`
	After  Value `json:"after" doc:"A plan, or the id of a kept one"`
}

// Violations is what POST /v1/validate returns.
type Violations struct {
	Valid      bool        `json:"valid"`
	Violations []violation `json:"violations"`
	Warnings   []string    `json:"warnings" doc:"Doubts about a plan: it states no digest, or it was made from another problem"`
}

// violation is one way in which a plan is not valid.
type violation struct {
	Rule    plan.Rule `json:"rule" doc:"The rule that is broken"`
	Table   string    `json:"table,omitempty"`
	Message string    `json:"message"`
}

// DiffAnswer is what POST /v1/diff returns: what neuroshard diff --json prints, and its sums.
type DiffAnswer struct {
	plan.Changes
	Moved   *unit.Bytes `json:"moved_bytes" doc:"Bytes that devices receive from each other; null if they are not known"`
	Changed int         `json:"changed_tables" doc:"Tables with other shards"`
}

// held is a plan of a request, with its record if the request names it by its id.
type held struct {
	*plan.Plan
	// text is the plan as JSON, and stated the problem of a kept plan; nil for another one.
	text, stated []byte
	// digest says that the plan states the digest of its content.
	digest bool
}

// planOf returns the plan of a field: the plan itself, or the id of a kept one.
func (c *composer) planOf(ctx context.Context, from *shelf, value Value, location string) (*held, error) {
	h := &held{text: value}
	if !value.object() {
		var id string
		if json.Unmarshal(value, &id) != nil {
			return nil, refusal(fault{Location: location, Message: "it is neither a plan nor the id of one", Hint: "give the object of a plan file, or an id of GET /v1/plans"})
		}
		record, err := from.record(ctx, id)
		if err != nil {
			if r := refused(err); r.Type == typeNotFound {
				return nil, refusal(fault{Location: location, Message: r.Detail, Hint: r.Hint})
			}
			return nil, err
		}
		h.text, h.stated = record.Plan, record.Problem
	}
	var err error
	if err = ctx.Err(); err != nil {
		return nil, err
	}
	if h.Plan, h.digest, err = plan.ReadStated(bytes.NewReader(h.text)); err != nil {
		return nil, refusal(fault{Location: location, Message: err.Error(), Hint: "give the object of a plan file, as neuroshard plan -o writes it"})
	}
	return h, c.limits.holds(h.Plan, location)
}

// whole returns the faults that a plan has whatever its problem is, as a refusal.
func (h *held) whole(location string) error {
	var faults []fault
	for _, v := range h.Check() {
		faults = append(faults, fault{Location: location, Message: v.String(), Table: v.Table})
	}
	if faults == nil {
		return nil
	}
	return refusal(faults...)
}

// judged is a plan with its problem.
type judged struct {
	*composed
	plan *held
}

// within answers a request about given plans, within the limit of the time of a job. do asks ctx
// before each of its steps.
func (s *planner) within(ctx context.Context, do func(ctx context.Context) (*reply, error)) (*reply, error) {
	ctx, stop := context.WithTimeout(ctx, s.limits.Time)
	defer stop()
	out, err := do(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, refuse(http.StatusUnprocessableEntity, typeTime, fmt.Sprintf("the limit of time of %v ended the request before there was an answer", s.limits.Time), "ask about a smaller plan, or start the server with a larger time_limit")
	}
	return out, err
}

// read composes the problem of a request that judges a plan.
func (s *planner) read(ctx context.Context, in *intake) (*judged, error) {
	defer in.release()
	body, err := decode[JudgeBody](s.schemas, in.body)
	if err != nil {
		return nil, err
	}
	pl, err := s.planOf(ctx, s.shelf, body.Plan, "plan")
	if err != nil {
		return nil, err
	}
	stated := body.Problem
	if stated == nil {
		if stated, err = pl.problem(); err != nil {
			return nil, err
		}
	}
	if err = ctx.Err(); err != nil {
		return nil, err
	}
	c, err := s.compose(stated, pl.Plan)
	if err != nil {
		return nil, err
	}
	return &judged{c, pl}, ctx.Err()
}

// problem returns the problem of a kept plan.
func (h *held) problem() (*ProblemBody, error) {
	if h.stated == nil {
		return nil, refusal(fault{Location: "problem", Message: "the problem is missing", Hint: "state it, or name a kept plan by its id"})
	}
	stated := new(ProblemBody)
	return stated, json.Unmarshal(h.stated, stated)
}

// violations returns the violations of a plan as the answer of POST /v1/validate.
func (j *judged) violations() (*Violations, error) {
	err := j.plan.Validate(j.composed.problem)
	out := &Violations{Valid: err == nil, Violations: []violation{}, Warnings: []string{}}
	if !j.plan.digest {
		out.Warnings = append(out.Warnings, plan.NoDigest)
	}
	if err == nil {
		if doubt := j.plan.Origin(j.composed.problem); doubt != "" {
			out.Warnings = append(out.Warnings, doubt)
		}
		return out, nil
	}
	invalid, ok := err.(*plan.Invalid)
	if !ok {
		return nil, err
	}
	for _, v := range invalid.Violations {
		out.Violations = append(out.Violations, violation{v.Rule, v.Table, v.String()})
	}
	return out, nil
}

// price returns the costs of a plan, as report.JSON writes them.
func (s *planner) price(ctx context.Context, j *judged) ([]byte, error) {
	found, err := j.violations()
	if err != nil {
		return nil, err
	}
	if !found.Valid {
		var faults []fault
		for _, v := range found.Violations {
			faults = append(faults, fault{Location: "plan", Message: v.Message, Table: v.Table})
		}
		return nil, refusal(faults...)
	}
	if err = ctx.Err(); err != nil {
		return nil, err
	}
	prices, err := s.prices.of(j.composed.problem.Topology, 0)
	if err != nil {
		return nil, err
	}
	options := neuroshard.Options{Prices: prices, Step: j.step, Warnings: j.warnings}
	options.Search.ShardingTypes = search.Allowing(s.prices.types()) // for which the bound holds
	planner, err := neuroshard.NewPlanner(ctx, j.composed.problem, options)
	if err != nil {
		return nil, err
	}
	result, err := planner.Evaluate(ctx, j.plan.ByDevice())
	if err == nil {
		err = planner.Certify(ctx, result)
	}
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = report.JSON(&out, result, nil, nil, 0)
	return out.Bytes(), err
}

// diff returns what changes from one plan to another.
func (s *planner) diff(ctx context.Context, in *intake) (*DiffAnswer, error) {
	defer in.release()
	body, err := decode[DiffBody](s.schemas, in.body)
	if err != nil {
		return nil, err
	}
	var both [2]*held
	for i, one := range []struct {
		location string
		value    Value
	}{{"before", body.Before}, {"after", body.After}} {
		if both[i], err = s.planOf(ctx, s.shelf, one.value, one.location); err != nil {
			return nil, err
		}
		if err := both[i].whole(one.location); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	changes := plan.Diff(both[0].Plan, both[1].Plan)
	out := &DiffAnswer{Changes: changes, Changed: len(changes.Tables) + len(changes.OnlyBefore) + len(changes.OnlyAfter)}
	if changes.Transfer != nil {
		out.Moved = &changes.Transfer.Bytes
	}
	return out, nil
}

// compareRoutes registers price, validate and diff. A price is a job, which waits for its turn.
func compareRoutes(s *Service) {
	p := s.planner
	register(s, operation{method: http.MethodPost, path: "/v1/price", id: "price", summary: "Estimate the costs of a given plan, with the fields that neuroshard plan --json prints", body: JudgeBody{}, answer: PriceAnswer{}},
		func(ctx context.Context, _ *none) (*reply, error) {
			return p.within(ctx, func(ctx context.Context) (*reply, error) {
				j, err := p.read(ctx, bodyOf(ctx))
				if err != nil {
					return nil, err
				}
				return p.inTurn(ctx, "price", "", j.weight(), func(ctx context.Context, _ *jobs.Job) (text, error) { return p.price(ctx, j) })
			})
		})
	register(s, operation{method: http.MethodPost, path: "/v1/validate", id: "validate", summary: "Check a plan against its problem, and list every violation", body: JudgeBody{}, answer: Violations{}},
		func(ctx context.Context, _ *none) (*reply, error) {
			return p.within(ctx, func(ctx context.Context) (*reply, error) {
				j, err := p.read(ctx, bodyOf(ctx))
				if err != nil {
					return nil, err
				}
				out, err := j.violations()
				return replyOr(err, out)
			})
		})
	register(s, operation{method: http.MethodPost, path: "/v1/diff", id: "diff", summary: "Compare two plans: the changes, and the bytes that move", body: DiffBody{}, answer: Value{}},
		func(ctx context.Context, _ *none) (*reply, error) {
			return p.within(ctx, func(ctx context.Context) (*reply, error) {
				out, err := p.diff(ctx, bodyOf(ctx))
				return replyOr(err, out)
			})
		})
}

// PriceAnswer describes what POST /v1/price returns: these fields, and those that neuroshard plan
// --json prints.
type PriceAnswer struct {
	Valid     bool     `json:"valid" doc:"Always true: a plan that is not valid is refused"`
	Cost      float64  `json:"cost_ms" doc:"Predicted cost of one step in ms"`
	Simulated *float64 `json:"simulated_cost_ms" doc:"Cost on the SIMULATED device in ms; null if that device cannot estimate it"`
	Bound     *float64 `json:"lower_bound_ms" doc:"Lower bound of the costs of all plans on the SIMULATED device, in ms; null if there is none"`
	Plan      Value    `json:"plan" doc:"The plan, with its predicted times"`
	_         struct{} `additionalProperties:"true"`
}

// shardWeight is the memory that a shard takes while it is priced, on each device that holds it.
const shardWeight = 256

// weight returns the memory that pricing takes.
func (j *judged) weight() int64 {
	shards := 0
	for i := range j.plan.Tables {
		if t := &j.plan.Tables[i]; t.ShardingType == plan.DataParallel {
			shards += len(j.plan.Devices)
		} else {
			shards += len(t.Shards)
		}
	}
	return planWeight(len(j.composed.problem.Tables), j.composed.problem.Topology.Devices) + shardWeight*int64(shards)
}
