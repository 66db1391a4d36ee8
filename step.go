package neuroshard

import (
	"context"
	"errors"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/step"
)

// Step is the whole training step of a plan: SIMULATED embeddings, the dense part, and what
// the stack overlaps.
type Step struct {
	step.Times
	// Input is what was priced, without Problem and Shards.
	Input step.Input
	// Size is the step of the plan of baseline Size, to compare with; nil if that plan was not
	// asked for, or the baseline found none.
	Size *step.Times
}

// StepError is the error of a whole step that has no price: what is stated of it does not fit
// together, or does not fit the problem or the plan.
type StepError struct{ Err error }

// Error returns the message of Err.
func (e *StepError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *StepError) Unwrap() error { return e.Err }

// PriceStep returns the whole training step of a placement, as shards by device, under
// opt.Step. The placement must be valid for the problem. With opt.Baselines, PriceStep also
// finds and prices the plan of baseline Size; if opt.Prices does not estimate the problem, or
// ctx ends, that plan is left out. Other options are ignored. PriceStep fails with *StepError
// if the step has no price.
func PriceStep(ctx context.Context, p *problem.Problem, shards [][]problem.Shard, opt Options) (*Step, error) {
	if opt.Step == nil {
		return nil, &StepError{errors.New("no step is stated: state a dense part or a measured step")}
	}
	in := measuredWith(opt.Step, shards)
	s, err := priceStep(p, shards, in)
	if err != nil || !opt.Baselines {
		return s, err
	}
	opt.Search = search.Options{Method: search.Size, Brief: true}
	l, err := newLine(ctx, p, opt)
	if err != nil {
		return s, nil
	}
	found, err := l.search(ctx, opt.Search)
	if err != nil {
		return s, nil
	}
	size, err := priceStep(p, found.Shards, in)
	if err != nil {
		return nil, err
	}
	s.Size = &size.Times
	return s, nil
}

// priceStep returns the step of a placement.
func priceStep(p *problem.Problem, shards [][]problem.Shard, in step.Input) (*Step, error) {
	s := &Step{Input: in}
	in.Problem, in.Shards = p, shards
	var err error
	if s.Times, err = step.Price(in); err != nil {
		return nil, &StepError{err}
	}
	return s, nil
}

// measuredWith returns the step with a placement that its measured step belongs to: the given
// one if the step states none.
func measuredWith(in *step.Input, shards [][]problem.Shard) step.Input {
	own := *in
	if own.Measured.Step > 0 && own.Measured.Shards == nil {
		own.Measured.Shards = shards
	}
	return own
}

// checkStep refuses, before the search, a step that no placement would have a price for.
func checkStep(p *problem.Problem, opt *Options) error {
	if opt.Step == nil {
		return nil
	}
	in := *opt.Step
	in.Problem = p
	if err := in.Check(); err != nil {
		return &StepError{err}
	}
	if in.Measured.Shards == nil {
		return nil
	}
	if in.Measured.Problem != nil {
		in.Problem = in.Measured.Problem
	}
	_, err := priceStep(in.Problem, in.Measured.Shards, in)
	return err
}

// wholeStep sets the whole step of the result, and of its baseline Size.
func wholeStep(l *line, r *Result) error {
	if l.opt.Step == nil {
		return nil
	}
	in := measuredWith(l.opt.Step, r.Shards)
	var err error
	if r.Step, err = priceStep(l.problem, r.Shards, in); err != nil || l.size == nil {
		return err
	}
	size, err := priceStep(l.problem, l.size, in)
	if err != nil {
		return err
	}
	r.Step.Size = &size.Times
	return nil
}
