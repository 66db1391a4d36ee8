package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/internal/stats"
	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// A step of the plan on device r. All devices wait for each other in the two
// all-to-alls:
//
//	forward | wait for the last | forward comm | ... | backward comm | backward
//
// compute_r is the sum of forward and backward of the device's operations, which
// run one after the other. Device r is ready for the forward comm at s_r: compute_r
// + backward comm_r, minus the least of these sums over the devices. The device's
// forward comm contains the wait. The cost is the maximum of compute_r + backward
// comm_r + forward comm_r, as in the NeuroShard paper and in package simulate.
//
// A backend runs the group of one device at a time, then the all-to-alls, in the
// precision of the plan's exchanges: once aligned, for the backward comm, and once with
// the starts s_r.

// Options configure the run of a plan. The zero value works.
type Options struct {
	// Repeats is the number of runs of the whole plan (default 1). The times are the
	// medians over the runs or, if Fastest is true, each device's shortest ones.
	Repeats int
	Fastest bool
	// Seed is the seed of the orders in which InTurns runs several placements.
	Seed uint64
	// OnProgress, if not nil, is called after each request to the backend with the number of
	// requests done and the number of all requests, or fewer if some cannot be made.
	OnProgress func(done, of int)
}

// Result holds the times of a plan, measured and predicted.
type Result struct {
	Devices []Device
	// Predicted and Measured are the cost of the plan. If CommMeasured is false, both
	// exclude the all-to-alls: they are the longest compute. Measured is the median of
	// Costs or, with Options.Fastest, the cost of the devices' shortest times.
	Predicted, Measured unit.Millis
	// Costs are the measured costs of the repeats, in the order of the runs. Spread is
	// their range, the noise of the measurement: 0 for a single run.
	Costs  []unit.Millis
	Spread unit.Millis
	// Paired are the costs to compare with those of another plan that ran in turns with this
	// one, pair by pair: Costs or, with Options.Fastest, the costs of the devices' shortest times
	// in each block of consecutive rounds. A block has three rounds, or fewer if there would be fewer
	// than LeastRounds blocks.
	Paired []unit.Millis
	// CommMeasured is true if the costs have all-to-alls, or if there are none because
	// there is one device. CommMissing is the reason if CommMeasured is false.
	// CommSimulated is true if they are those of the simulated device, and not run.
	CommMeasured  bool
	CommMissing   string
	CommSimulated bool
	// Provenance is the provenance of the backend.
	Provenance dataset.Provenance
}

// Device holds the times of one device in a step.
type Device struct {
	// Shards is the number of shards, and DimSum the sum of their pooled columns.
	Shards, DimSum int
	// Measured is the median over the repeats, or the shortest. The measured
	// all-to-all times are 0 if the all-to-alls were not measured.
	Predicted, Measured plan.StepTimes
	// Spread is the sum of the interquartile ranges that the backend reports for the
	// device's forward and backward; 0 for a simulated device.
	Spread unit.Millis
}

// DeviceError is the error of a device whose shards the backend could not run,
// for example because they do not fit its memory (protocol.CodeMemory).
type DeviceError struct {
	Device int
	// Operation and Shards are those that the backend was asked to run.
	Operation problem.Operation
	Shards    []problem.Shard
	// Bytes is the size of the shards' weights and optimizer state.
	Bytes unit.Bytes
	// Err is the backend's error.
	Err error

	names []string
}

// Error names the device and its shards.
func (e *DeviceError) Error() string {
	what := "could not be run"
	var refused *protocol.Error
	if errors.As(e.Err, &refused) && refused.Code == protocol.CodeMemory {
		what = "do not fit the backend's memory"
	}
	return fmt.Sprintf("device %d: its %s (%s; %v of weights and state) %s: %v",
		e.Device, words.Plural(len(e.Shards), "shard"), strings.Join(e.names, ", "), e.Bytes, what, e.Err)
}

// Unwrap returns the backend's error.
func (e *DeviceError) Unwrap() error { return e.Err }

// Placement is a placement to run, by device, with its predicted times. A prediction without
// devices counts as no prediction.
type Placement struct {
	Shards    [][]problem.Shard
	Predicted plan.Breakdown
}

// Plan runs a plan of p, its shards by device, on the backend and compares the measured with the
// predicted times. What a prediction hides of the exchanges counts in full, because nothing runs beside
// them here. A backend without all-to-alls gives a result with CommMeasured false. If the backend could
// not run a device's shards, the error is a *DeviceError.
func Plan(ctx context.Context, p *problem.Problem, shards [][]problem.Shard, predicted plan.Breakdown, backend collect.Backend, opt Options) (*Result, error) {
	results, err := InTurns(ctx, p, []Placement{{shards, predicted}}, backend, opt)
	if err != nil {
		return nil, err
	}
	return results[0].Result, results[0].Err
}

// Turn is what became of one placement of InTurns: its Result, or Err, the *DeviceError of a
// placement that the backend has no memory for.
type Turn struct {
	Result *Result
	Err    error
}

// InTurns runs several placements of p on the backend, as Plan runs one, in turns: in each of
// opt.Repeats rounds each placement runs once, in an order that is drawn for each round, so that other
// load on the machine slows all placements. The results are in the order of the placements, and number i
// of all Result.Costs comes from round i. A placement that the backend has no memory for ends with its
// error, and the others go on; any other failure is the error of InTurns.
func InTurns(ctx context.Context, p *problem.Problem, placements []Placement, backend collect.Backend, opt Options) ([]Turn, error) {
	for i := range placements {
		if err := Measurable(plan.New(p, placements[i].Shards)); err != nil {
			return nil, err
		}
	}
	repeats := max(1, opt.Repeats)
	count := &counter{on: opt.OnProgress}
	runs := make([]*run, len(placements))
	for i := range runs {
		runs[i] = newRun(p, placements[i].Shards, backend, count, repeats)
	}
	if err := rounds(ctx, runs, opt); err != nil {
		return nil, err
	}
	turns := make([]Turn, len(runs))
	for i, r := range runs {
		if turns[i].Err = r.failed; r.failed == nil {
			turns[i].Result = r.result(placements[i].Predicted.Full(), opt.Fastest)
		}
	}
	return turns, nil
}

// rounds runs all rounds. Without Fastest, each turn is a whole step. With Fastest, the
// requests that need no starts come first, because the starts follow from the shortest computes.
// An all-to-all with the starts of slower computes has other waits and therefore other times.
func rounds(ctx context.Context, runs []*run, opt Options) error {
	random := rand.New(rand.NewPCG(opt.Seed, uint64(len(runs))))
	each := func(round int, do func(r *run, s *step) error) error {
		for _, i := range random.Perm(len(runs)) {
			r := runs[i]
			if r.failed != nil {
				continue
			}
			if err := do(r, &r.steps[round]); err != nil {
				if err = r.give(err); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for round := range max(1, opt.Repeats) {
		if err := each(round, func(r *run, s *step) error {
			err := r.compute(ctx, s)
			if err == nil {
				err = r.aligned(ctx, s)
			}
			if err == nil && !opt.Fastest {
				err = r.skewed(ctx, s, s.devices)
			}
			return err
		}); err != nil {
			return err
		}
	}
	if !opt.Fastest {
		return nil
	}
	for round := range max(1, opt.Repeats) {
		if err := each(round, func(r *run, s *step) error { return r.skewed(ctx, s, timesOf(r.steps, true)) }); err != nil {
			return err
		}
	}
	return nil
}

// give ends a run that the backend has no memory for, and returns any other error.
func (r *run) give(err error) error {
	device, ok := errors.AsType[*DeviceError](err)
	if !ok {
		return err
	}
	if refused, ok := errors.AsType[*protocol.Error](device.Err); !ok || refused.Code != protocol.CodeMemory {
		return err
	}
	r.failed = device
	return nil
}

// timesOf returns the times of each device over some steps: the medians, or the shortest.
func timesOf(steps []step, fastest bool) []plan.StepTimes {
	times := make([]plan.StepTimes, len(steps[0].devices))
	for d := range times {
		of := func(time func(*plan.StepTimes) unit.Millis) unit.Millis {
			return typical(steps, fastest, func(s *step) unit.Millis { return time(&s.devices[d]) })
		}
		times[d] = plan.StepTimes{
			Forward:      of(func(t *plan.StepTimes) unit.Millis { return t.Forward }),
			ForwardComm:  of(func(t *plan.StepTimes) unit.Millis { return t.ForwardComm }),
			BackwardComm: of(func(t *plan.StepTimes) unit.Millis { return t.BackwardComm }),
			Backward:     of(func(t *plan.StepTimes) unit.Millis { return t.Backward }),
		}
	}
	return times
}

// result sums up the steps.
func (r *run) result(predicted plan.Breakdown, fastest bool) *Result {
	steps := r.steps
	result := &Result{CommMeasured: r.missing == "", CommMissing: r.missing, CommSimulated: collect.CommSimulated(r.backend), Provenance: r.backend.Provenance()}
	times := timesOf(steps, fastest)
	for d := range r.shards {
		device := Device{Shards: len(r.shards[d]), DimSum: r.exchange.DimSums[d]}
		if len(predicted.Devices) > 0 {
			device.Predicted = predicted.Devices[d]
		}
		device.Measured = times[d]
		device.Spread = typical(steps, false, func(s *step) unit.Millis { return s.spreads[d] })
		result.Devices = append(result.Devices, device)

		comparable := device.Predicted
		if !result.CommMeasured {
			comparable.ForwardComm, comparable.BackwardComm = 0, 0
		}
		result.Predicted = max(result.Predicted, comparable.Total())
	}
	for i := range steps {
		result.Costs = append(result.Costs, plan.NewBreakdown(steps[i].devices).Cost)
	}
	result.Measured = typical(result.Costs, false, func(c *unit.Millis) unit.Millis { return *c })
	result.Paired = result.Costs
	if fastest {
		result.Measured, result.Paired = shortest(steps), nil
		blocks := min(len(steps), max(LeastRounds, len(steps)/roundsOfBlock))
		for b := range blocks {
			result.Paired = append(result.Paired, shortest(steps[b*len(steps)/blocks:(b+1)*len(steps)/blocks]))
		}
	}
	result.Spread = slices.Max(result.Costs) - slices.Min(result.Costs)
	return result
}

// roundsOfBlock is the number of rounds in a block of Result.Paired.
const roundsOfBlock = 3

// shortest returns the cost of the devices' shortest times in some steps.
func shortest(steps []step) unit.Millis { return plan.NewBreakdown(timesOf(steps, true)).Cost }

// step is one run of the whole plan.
type step struct {
	devices []plan.StepTimes
	spreads []unit.Millis
}

// run holds the requests to the backend.
type run struct {
	problem *problem.Problem
	shards  [][]problem.Shard
	backend collect.Backend
	// groups holds each device's operations, with the shards of each operation.
	groups   [][]group
	exchange dataset.Exchange
	// missing is the reason why all-to-alls are not measured; empty if they are.
	missing string
	// steps are the runs of the whole plan. failed is why the plan could not be run, nil if it was.
	steps  []step
	failed error
	// count counts the requests of all runs.
	count *counter
}

type group struct {
	dataset.Group
	// operator is the number of the shards' operator (problem.Form).
	operator problem.Operator
	shards   []problem.Shard
}

func newRun(p *problem.Problem, shards [][]problem.Shard, backend collect.Backend, count *counter, repeats int) *run {
	r := &run{problem: p, shards: shards, backend: backend, steps: make([]step, repeats), count: count}
	n := len(shards)
	r.exchange = dataset.Exchange{Devices: n, DevicesPerHost: p.Topology.LinkDomain(), Batch: p.Batch, Precision: p.CommPrecision, DimSums: make([]int, n)}
	for d, held := range shards {
		for _, s := range held {
			r.exchange.DimSums[d] += p.DimSum(s)
		}
		r.groups = append(r.groups, operations(p, held))
		count.of += len(r.groups[d]) * repeats
	}
	if n > 1 {
		count.of += 2 * repeats
	}
	return r
}

// operations groups a device's shards by operation and number of the operator, in an order that
// depends on these alone. An operation without a lookup is left out, because it runs
// nothing.
func operations(p *problem.Problem, held []problem.Shard) []group {
	var all []group
	for _, s := range held {
		op := p.Operation(s.Table)
		i := slices.IndexFunc(all, func(g group) bool { return g.Operation == op && g.operator == s.Operator })
		if i < 0 {
			i = len(all)
			all = append(all, group{Group: dataset.Group{Operation: op}, operator: s.Operator})
		}
		all[i].shards = append(all[i].shards, s)
		all[i].Members = append(all[i].Members, dataset.Member{Table: int32(s.Table), Dim: int32(s.Dim())})
	}
	all = slices.DeleteFunc(all, func(g group) bool {
		return !slices.ContainsFunc(g.shards, func(s problem.Shard) bool { return p.Tables[s.Table].PoolingFactor() > 0 })
	})
	slices.SortFunc(all, func(a, b group) int {
		x, y := a.Operation, b.Operation
		weighted := cmp.Compare(strconv.FormatBool(x.Weighted), strconv.FormatBool(y.Weighted))
		return cmp.Or(cmp.Compare(x.Optimizer, y.Optimizer), cmp.Compare(x.Precision, y.Precision), weighted, cmp.Compare(a.operator, b.operator))
	})
	return all
}

// counter counts the requests of all runs.
type counter struct {
	on       func(done, of int)
	done, of int
}

func (c *counter) add() {
	if c.done++; c.on != nil {
		c.on(c.done, c.of)
	}
}

// compute runs the devices' groups.
func (r *run) compute(ctx context.Context, out *step) error {
	n := len(r.groups)
	out.devices, out.spreads = make([]plan.StepTimes, n), make([]unit.Millis, n)
	for d, groups := range r.groups {
		device := &out.devices[d]
		for i := range groups {
			timing, err := r.group(ctx, d, &groups[i])
			if err != nil {
				return err
			}
			device.Forward += timing.Forward
			device.Backward += timing.Backward
			out.spreads[d] += timing.ForwardSpread + timing.BackwardSpread
			r.count.add()
		}
	}
	return nil
}

func (r *run) group(ctx context.Context, device int, g *group) (timing collect.Timing, err error) {
	err = again(func() (err error) {
		timing, err = r.backend.Compute(ctx, r.problem.Tables, &g.Group)
		return err
	})
	if err == nil {
		return timing, nil
	}
	if ended := ctx.Err(); ended != nil {
		return timing, ended
	}
	e := &DeviceError{Device: device, Operation: g.Operation, Shards: g.shards, Err: err}
	for _, s := range g.shards {
		m := r.problem.ShardMemory(s)[problem.ForwardExchange]
		e.Bytes += m.Weights + m.Optimizer
		t := &r.problem.Tables[s.Table]
		name := fmt.Sprintf("%q", t.Name)
		if s.Dim() != t.Dim {
			name += fmt.Sprintf(" columns %d-%d", s.Columns.Start, s.Columns.End)
		}
		e.names = append(e.names, name)
	}
	return timing, e
}

// mostTries is the most requests for one time, while the backend answers that the
// machine is too busy.
const mostTries = 5

// again calls ask, up to mostTries times, while the backend answers that the
// machine is too busy or that the measurement took too long.
func again(ask func() error) error {
	for try := 1; ; try++ {
		err := ask()
		busy := new(protocol.Error)
		if try == mostTries || !errors.As(err, &busy) || busy.Code != protocol.CodeDrift && busy.Code != protocol.CodeTimeout {
			return err
		}
	}
}

// aligned runs the backward all-to-all. If the backend cannot run any all-to-all,
// aligned records the reason.
func (r *run) aligned(ctx context.Context, s *step) error {
	if len(s.devices) == 1 || r.missing != "" {
		return nil
	}
	e := r.exchange
	e.Start = make([]unit.Millis, len(s.devices))
	aligned, err := r.swap(ctx, &e)
	var refused *protocol.Error
	if errors.As(err, &refused) && refused.Code == protocol.CodeUnsupported {
		r.missing = cmp.Or(refused.Message, refused.Error())
		return nil
	}
	if err != nil {
		return err
	}
	r.count.add()
	for d := range s.devices {
		s.devices[d].BackwardComm = aligned.Backward[d]
	}
	return nil
}

// skewed runs the forward all-to-all of devices that are ready at the starts that
// follow from the given computes.
func (r *run) skewed(ctx context.Context, s *step, ready []plan.StepTimes) error {
	if len(s.devices) == 1 || r.missing != "" {
		return nil
	}
	e := r.exchange
	e.Start = make([]unit.Millis, len(s.devices))
	first := unit.Millis(math.Inf(1))
	for d := range ready {
		e.Start[d] = ready[d].Forward + ready[d].Backward + ready[d].BackwardComm
		first = min(first, e.Start[d])
	}
	for d := range e.Start {
		e.Start[d] -= first
	}
	skewed, err := r.swap(ctx, &e)
	if err != nil {
		return err
	}
	r.count.add()
	for d := range s.devices {
		s.devices[d].ForwardComm = skewed.Forward[d]
	}
	return nil
}

func (r *run) swap(ctx context.Context, e *dataset.Exchange) (timing collect.CommTiming, err error) {
	err = again(func() (err error) {
		timing, err = r.backend.Comm(ctx, e)
		return err
	})
	if err != nil {
		if ended := ctx.Err(); ended != nil {
			return timing, ended
		}
		return timing, fmt.Errorf("the all-to-all of %d devices, dim sums %d: %w", e.Devices, e.DimSums, err)
	}
	return timing, nil
}

// typical returns the median of a value of each item, or the least value. The
// median of an even number of values is the mean of the middle two.
func typical[T any](items []T, fastest bool, value func(*T) unit.Millis) unit.Millis {
	values := make([]unit.Millis, len(items))
	for i := range items {
		values[i] = value(&items[i])
	}
	if fastest {
		return slices.Min(values)
	}
	return stats.Median(values)
}
