package neuroshard

import (
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/step"
)

// Step is the whole training step of a plan: SIMULATED embeddings, the dense part, and what
// the stack overlaps.
type Step struct {
	step.Times
	// Input is what was priced, without Problem and Shards.
	Input step.Input
	// Size is the step of the plan of baseline Size, to compare with; nil without one
	// (Planner.Baselines).
	Size *step.Times
}

// StepError is the error of a whole step that has no price: what is stated of it does not fit
// together, or does not fit the problem or the plan.
type StepError struct{ Err error }

// Error returns the message of Err.
func (e *StepError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *StepError) Unwrap() error { return e.Err }

// PriceStep returns the whole training step of a placement, as shards by device. The placement
// must be valid for the problem. A measured step without Shards is taken to be one of the
// placement. PriceStep fails with *StepError if the step has no price.
func PriceStep(p *problem.Problem, shards [][]problem.Shard, in step.Input) (*Step, error) {
	if in.Measured.Step > 0 && in.Measured.Shards == nil {
		in.Measured.Shards = shards
	}
	s := &Step{Input: in}
	in.Problem, in.Shards = p, shards
	var err error
	if s.Times, err = step.Price(in); err != nil {
		return nil, &StepError{err}
	}
	return s, nil
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
	_, err := PriceStep(in.Problem, in.Measured.Shards, in)
	return err
}
