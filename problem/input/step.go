package input

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// step.go composes what files and flags state of the whole training step.

// RuntimeShare is the share of a device's memory that stays free of tables and of the dense
// part if the dense part is known: for the CUDA context, NCCL's buffers and the allocator.
// It is assumed.
const RuntimeShare = 0.05

// MaxPrice is the highest price of a device-hour.
const MaxPrice = 1e6

// stepKeys are the keys of a topology file that are about the whole step.
var stepKeys = []string{"dense", "stack", "step", "loader", "sample_length_cv", "price"}

// stepFlags returns the flags of the whole step that are given.
func (p *Parts) stepFlags() (flags []string) {
	for _, key := range stepKeys {
		if p.Overrides.Has(key) || key == "dense" && p.Dense != nil || key == "stack" && p.Stack != nil {
			flags = append(flags, Flag(key))
		}
	}
	return flags
}

// stepPart is what a topology file states of the whole step.
type stepPart struct {
	dense    *DenseFile
	stack    *step.Stack
	measured unit.Millis
	loader   unit.Bandwidth
	lengthCV float64
	price    float64
}

// wholeStep is the step that the parts state, and where its dense part comes from.
type wholeStep struct {
	input *step.Input
	dense *DenseFile
	// warnings are what had to be assumed, or is not used.
	warnings []string
}

// Step returns the whole training step to price, without Problem and Shards: what flags
// state, and otherwise the topology file, and the samples of an epoch that the tables' file
// states. It is nil if neither states a dense part or a
// measured step. Its Dense has been checked by Problem, which reports all errors.
func (p *Parts) Step() *step.Input {
	whole, _ := p.step()
	return whole.input
}

// step composes the step.
func (p *Parts) step() (wholeStep, error) {
	var stated TopologyFile
	if p.Topology != nil {
		stated = *p.Topology
	}
	name := stated.Name
	flags, _ := p.Overrides.read(p.Own) // Problem reports the error
	p.Overrides.into(&stated, &flags)
	file := stated.step
	if p.Dense != nil {
		file.dense = p.Dense
	}
	if p.Stack != nil {
		file.stack = p.Stack
	}
	errs := []error{p.DenseErr, p.StackErr}
	var whole wholeStep
	if file.dense == nil && file.measured == 0 && !p.Overrides.Has("step") && !p.Overrides.Has("dense") {
		if flags := p.stepFlags(); len(flags) > 0 {
			errs = append(errs, flagError(strings.Join(flags, ", ")+": neither a dense part nor a measured step is stated, so there is no whole step", "add --set dense=NAME or --set step=TIME"))
		} else if keys := p.stepKeys(); len(keys) > 0 {
			whole.warnings = append(whole.warnings, fmt.Sprintf("%s states %s, but neither a dense part nor a measured step: the whole step is not priced", name, strings.Join(keys, ", ")))
		}
		return whole, Join(errs...)
	}
	whole.input = &step.Input{Measured: step.Measured{Step: file.measured}, Loader: float64(file.loader), LengthCV: file.lengthCV, PricePerHour: file.price, Samples: p.Tables.Samples}
	if file.dense != nil {
		whole.dense, whole.input.Dense = file.dense, &file.dense.Dense
	}
	if file.stack != nil {
		whole.input.Stack = *file.stack
	} else {
		whole.input.Stack, whole.warnings = p.assumedStack(whole.warnings)
	}
	return whole, Join(errs...)
}

// stepKeys returns the keys of the step that the topology file states.
func (p *Parts) stepKeys() (keys []string) {
	for _, key := range stepKeys {
		if p.Topology != nil && p.Topology.Has(key) && !p.Topology.unread[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

// assumedStack returns the stack of a step whose stack nobody states, and the warning that
// says so.
func (p *Parts) assumedStack(warnings []string) (step.Stack, []string) {
	name, engine := "torchrec-sparse", p.engine()
	if engine == problem.HugeCTR {
		name = "hugectr"
	}
	s, err := step.StackByName(name)
	if err != nil {
		panic("input: " + err.Error())
	}
	return s, append(warnings, fmt.Sprintf("no stack is stated: %s is assumed (stack, one of %s)", name, strings.Join(step.StackNames(), ", ")))
}

// engine returns the engine that the parts state; empty if that is none, or an unknown one.
func (p *Parts) engine() problem.Engine {
	switch {
	case p.Overrides.Has("engine"):
		engine, _ := problem.ParseEngine(p.Overrides["engine"])
		return engine
	case p.Topology != nil:
		return p.Topology.Engine
	case p.Fallback != nil:
		return p.Fallback.Engine
	}
	return ""
}

// parsePrice reads the price of a device-hour: a number, with or without a dollar sign.
func parsePrice(text string) (float64, error) {
	value, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(text), "$"), 64)
	switch {
	case err != nil || math.IsNaN(value):
		return 0, fmt.Errorf("%s is not a price: %s", quote(text), priceHint)
	case value <= 0 || value > MaxPrice:
		return 0, fmt.Errorf("%s is not above 0 and at most %g: %s", quote(text), float64(MaxPrice), priceHint)
	}
	return value, nil
}

// fit checks the dense part against the composed problem, and has the problem's reserve and
// number format of exchanges follow the step where nobody states them. It returns warnings.
func (p *Parts) fit(whole *wholeStep, composed *problem.Problem) (warnings []string, err error) {
	if whole.input == nil {
		return nil, nil
	}
	given := p.Fallback == nil
	stack := &whole.input.Stack
	if stack.Forward != nil && given {
		if p.states("comm_precision") {
			stated := composed.CommPrecision
			stack.Forward, stack.Backward = &stated, &stated
		} else {
			composed.CommPrecision = *stack.Forward
		}
	}
	if warnings, err = engineOf(stack, composed, given); err != nil {
		return warnings, err
	}
	if whole.dense == nil {
		return warnings, nil
	}
	if err := whole.dense.check(composed, p.TablesErr != nil); err != nil || whole.dense.faulty || p.TablesErr != nil {
		return warnings, err
	}
	if given {
		return warnings, p.reserve(whole.dense, composed)
	}
	held, activations := denseMemory(whole.dense, composed)
	if takes, kept := held+activations, composed.Topology.Reserve(composed.Topology.Smallest())+composed.Topology.Activations; takes > kept {
		warnings = append(warnings, fmt.Sprintf("the dense part takes %v of a device, and the plan keeps %v free: a step may not fit", takes, kept))
	}
	return warnings, nil
}

// engineOf compares a stack with the engine of the problem. It returns the warning that they
// differ, and an error if a plan for any engine could hold tables where the stack cannot.
func engineOf(stack *step.Stack, composed *problem.Problem, given bool) (warnings []string, err error) {
	switch engine := composed.Engine; {
	case engine != "" && !strings.HasPrefix(stack.Name, string(engine)):
		warnings = append(warnings, fmt.Sprintf("the plan is for engine %s, and the step is priced as %s runs it", engine, stack.Title()))
	case engine == "" && stack.Exchange != step.Flat:
		warnings = append(warnings, fmt.Sprintf("the step is priced as %s runs it, and the plan does not keep to the rules of that engine (--engine %s)", stack.Title(), problem.HugeCTR))
		if given && composed.Topology.MostHostMemory() > 0 {
			return warnings, flagError(fmt.Sprintf("stack %s holds no table in host memory, and the cluster states %v of it", stack.Name, composed.Topology.MostHostMemory()), fmt.Sprintf("plan for the engine (--engine %s), leave host memory out, or choose a torchrec stack", problem.HugeCTR))
		}
	}
	return warnings, nil
}

// denseMemory returns the bytes of a device that the dense part holds in the whole step, and those of its activations, if
// they are counted where they live; 0 if the problem is not complete, or counts weights only.
func denseMemory(dense *DenseFile, composed *problem.Problem) (held, activations unit.Bytes) {
	if composed.Topology.Devices < 1 || composed.Batch < 1 || composed.Accounting == problem.CountWeights {
		return 0, 0
	}
	held, activations = dense.Dense.Of(composed).Memory(composed.Topology.Devices, composed.Batch)
	if composed.Accounting != problem.CountAll {
		return held + activations, 0
	}
	return held, activations
}

// reserve has what the dense part holds, and RuntimeShare, take the place of the default reserve, and states its
// activations. A reserve that is stated stays, but must hold the dense part, and activations that are stated stay.
func (p *Parts) reserve(dense *DenseFile, composed *problem.Problem) error {
	t := &composed.Topology
	takes, activations := denseMemory(dense, composed)
	if !p.states("activations") {
		t.Activations = activations
	}
	d := t.Smallest()
	if takes == 0 || t.DeviceMemory(d) == 0 {
		return nil // reported, or not counted
	}
	if t.ReserveShare == 0 && t.ReserveFixed == 0 && !p.states("reserve_share", "reserve_fixed") {
		t.ReserveShare, t.ReserveFixed = RuntimeShare, takes
		if t.Budget(t.Largest()) > t.Activations {
			return nil
		}
		takes += t.Activations
		t.ReserveShare, t.ReserveFixed, t.Activations = 0, 0, 0
		return &Errors{List: []Error{dense.error(fmt.Sprintf("the dense part takes %v of a device's %v, which leaves nothing for tables", takes, t.DeviceMemory(t.Largest())))}}
	}
	if t.Reserve(d) < takes {
		e := dense.error(fmt.Sprintf("the dense part takes %v of a device, and the stated reserve is %v", takes, t.Reserve(d)))
		e.Hint = "state a larger reserve, or none: the reserve is then computed from the dense part"
		return &Errors{List: []Error{e}}
	}
	return nil
}
