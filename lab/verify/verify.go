package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

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
	// OnProgress, if not nil, is called after each request to the backend with the
	// number of requests done and the number of all requests.
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
	// CommMeasured is true if the all-to-alls were run, or if there are none because
	// there is one device. CommMissing is the reason if CommMeasured is false.
	CommMeasured bool
	CommMissing  string
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

// Plan runs a plan of p on the backend and compares the measured with the predicted
// times. The shards of the plan are listed by device, and p must be valid. A
// prediction without devices counts as no prediction. What a prediction hides of the exchanges
// counts in full, because nothing runs beside them here. A backend without all-to-alls
// gives a result with CommMeasured false. Any other failure is an error, of type
// *DeviceError if the backend could not run a device's shards.
func Plan(ctx context.Context, p *problem.Problem, shards [][]problem.Shard, predicted plan.Breakdown, backend collect.Backend, opt Options) (*Result, error) {
	if err := check(p, shards, predicted); err != nil {
		return nil, err
	}
	repeats := max(1, opt.Repeats)
	r := newRun(p, shards, backend, opt, repeats)
	steps := make([]step, repeats)
	if err := r.all(ctx, steps, opt.Fastest); err != nil {
		return nil, err
	}
	predicted = predicted.Full()
	result := &Result{CommMeasured: r.missing == "", CommMissing: r.missing, Provenance: backend.Provenance()}
	for d := range shards {
		device := Device{Shards: len(shards[d]), DimSum: r.exchange.DimSums[d]}
		if len(predicted.Devices) > 0 {
			device.Predicted = predicted.Devices[d]
		}
		of := func(time func(*step) unit.Millis) unit.Millis { return typical(steps, opt.Fastest, time) }
		device.Measured = plan.StepTimes{
			Forward:      of(func(s *step) unit.Millis { return s.devices[d].Forward }),
			ForwardComm:  of(func(s *step) unit.Millis { return s.devices[d].ForwardComm }),
			BackwardComm: of(func(s *step) unit.Millis { return s.devices[d].BackwardComm }),
			Backward:     of(func(s *step) unit.Millis { return s.devices[d].Backward }),
		}
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
	if opt.Fastest {
		measured := make([]plan.StepTimes, len(result.Devices))
		for d := range measured {
			measured[d] = result.Devices[d].Measured
		}
		result.Measured = plan.NewBreakdown(measured).Cost
	}
	result.Spread = slices.Max(result.Costs) - slices.Min(result.Costs)
	return result, nil
}

// check returns an error that names every reason why the plan cannot be run.
func check(p *problem.Problem, shards [][]problem.Shard, predicted plan.Breakdown) error {
	var found []string
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if len(shards) != p.Topology.Devices {
		add("the plan has %s, the cluster %d", words.Plural(len(shards), "device"), p.Topology.Devices)
	}
	if n := len(predicted.Devices); n > 0 && n != len(shards) {
		add("the prediction has %s, the plan %d", words.Plural(n, "device"), len(shards))
	}
	for d, held := range shards {
		for _, s := range held {
			if s.Table < 0 || s.Table >= len(p.Tables) {
				add("device %d: table #%d does not exist: the problem has %d", d, s.Table, len(p.Tables))
				continue
			}
			t := &p.Tables[s.Table]
			if s.Rows != (problem.Range{Start: 0, End: t.Rows}) {
				add("device %d: table %q: rows %d to %d of %d: backends run column slices of all rows only", d, t.Name, s.Rows.Start, s.Rows.End, t.Rows)
			}
			if s.Columns.Start < 0 || s.Columns.Start >= s.Columns.End || s.Columns.End > int64(t.Dim) {
				add("device %d: table %q: columns %d to %d are not a slice of its %d", d, t.Name, s.Columns.Start, s.Columns.End, t.Dim)
			}
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("the plan cannot be run:\n%s", strings.Join(found, "\n"))
	}
	return nil
}

// step is one run of the whole plan.
type step struct {
	devices []plan.StepTimes
	spreads []unit.Millis
}

// run holds the requests to the backend.
type run struct {
	problem *problem.Problem
	backend collect.Backend
	// groups holds each device's operations, with the shards of each operation.
	groups   [][]group
	exchange dataset.Exchange
	// missing is the reason why all-to-alls are not measured; empty if they are.
	missing string
	// computes is the number of groups. Each is run repeats times.
	computes, repeats int
	onProgress        func(done, of int)
	done, of          int
}

type group struct {
	dataset.Group
	shards []problem.Shard
}

func newRun(p *problem.Problem, shards [][]problem.Shard, backend collect.Backend, opt Options, repeats int) *run {
	r := &run{problem: p, repeats: repeats, backend: backend, onProgress: opt.OnProgress}
	n := len(shards)
	r.exchange = dataset.Exchange{Devices: n, DevicesPerHost: p.Topology.LinkDomain(), Batch: p.Batch, Precision: p.CommPrecision, DimSums: make([]int, n)}
	for d, held := range shards {
		for _, s := range held {
			r.exchange.DimSums[d] += p.DimSum(s)
		}
		r.groups = append(r.groups, operations(p, held))
		r.computes += len(r.groups[d])
	}
	r.of = r.computes * repeats
	if n > 1 {
		r.of += 2 * repeats
	}
	return r
}

// operations groups a device's shards by operation, in an order that depends on the
// operations alone. An operation without a lookup is left out, because it runs
// nothing.
func operations(p *problem.Problem, held []problem.Shard) []group {
	var all []group
	for _, s := range held {
		op := p.Operation(s.Table)
		i := slices.IndexFunc(all, func(g group) bool { return g.Operation == op })
		if i < 0 {
			i = len(all)
			all = append(all, group{Group: dataset.Group{Operation: op}})
		}
		all[i].shards = append(all[i].shards, s)
		all[i].Members = append(all[i].Members, dataset.Member{Table: int32(s.Table), Dim: int32(s.Dim())})
	}
	all = slices.DeleteFunc(all, func(g group) bool {
		return !slices.ContainsFunc(g.shards, func(s problem.Shard) bool { return p.Tables[s.Table].PoolingFactor() > 0 })
	})
	slices.SortFunc(all, func(a, b group) int {
		x, y := a.Operation, b.Operation
		weighted := 0
		if x.Weighted != y.Weighted {
			weighted = -1
			if x.Weighted {
				weighted = 1
			}
		}
		return cmp.Or(cmp.Compare(x.Optimizer, y.Optimizer), cmp.Compare(x.Precision, y.Precision), weighted)
	})
	return all
}

func (r *run) progress(requests int) {
	r.done += requests
	if r.onProgress != nil {
		r.onProgress(r.done, r.of)
	}
}

// all runs the plan once for each step. Without Fastest, it runs whole steps one
// after the other. With Fastest, it first runs all requests that need no starts,
// because the starts follow from the shortest computes. An all-to-all with the
// starts of slower computes has other waits and therefore other times.
func (r *run) all(ctx context.Context, steps []step, fastest bool) error {
	for i := range steps {
		s := &steps[i]
		if err := r.compute(ctx, s); err != nil {
			return err
		}
		if err := r.aligned(ctx, s); err != nil {
			return err
		}
		if fastest {
			continue
		}
		if err := r.skewed(ctx, s, s.devices); err != nil {
			return err
		}
	}
	if !fastest {
		return nil
	}
	ready := make([]plan.StepTimes, len(r.groups))
	for d := range ready {
		least := func(time func(*plan.StepTimes) unit.Millis) unit.Millis {
			return typical(steps, true, func(s *step) unit.Millis { return time(&s.devices[d]) })
		}
		ready[d] = plan.StepTimes{
			Forward:      least(func(d *plan.StepTimes) unit.Millis { return d.Forward }),
			Backward:     least(func(d *plan.StepTimes) unit.Millis { return d.Backward }),
			BackwardComm: least(func(d *plan.StepTimes) unit.Millis { return d.BackwardComm }),
		}
	}
	for i := range steps {
		if err := r.skewed(ctx, &steps[i], ready); err != nil {
			return err
		}
	}
	return nil
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
			r.progress(1)
		}
	}
	return nil
}

func (r *run) group(ctx context.Context, device int, g *group) (timing collect.Timing, err error) {
	err = again(func() (err error) {
		timing, err = r.backend.Compute(ctx, r.problem.Tables, &g.Group)
		return err
	})
	if err == nil && !(time(timing.Forward) && time(timing.Backward) && time(timing.ForwardSpread) && time(timing.BackwardSpread)) {
		err = fmt.Errorf("the backend returned impossible times: %+v", timing)
	}
	if err == nil {
		return timing, nil
	}
	if ended := ctx.Err(); ended != nil {
		return timing, ended
	}
	e := &DeviceError{Device: device, Operation: g.Operation, Shards: g.shards, Err: err}
	for _, s := range g.shards {
		m := r.problem.ShardMemory(s)
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
		r.missing = refused.Message
		if r.missing == "" {
			r.missing = refused.Error()
		}
		r.of = r.computes * r.repeats
		return nil
	}
	if err != nil {
		return err
	}
	r.progress(1)
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
	r.progress(1)
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
	if len(timing.Forward) != e.Devices || len(timing.Backward) != e.Devices {
		return timing, fmt.Errorf("the all-to-all of %d devices: the backend returned %d forward and %d backward times", e.Devices, len(timing.Forward), len(timing.Backward))
	}
	for _, t := range slices.Concat(timing.Forward, timing.Backward) {
		if !time(t) {
			return timing, fmt.Errorf("the all-to-all of %d devices: the backend returned impossible times: %+v", e.Devices, timing)
		}
	}
	return timing, nil
}

// time reports whether a number can be a time.
func time(t unit.Millis) bool { return t >= 0 && !math.IsInf(float64(t), 1) }

// typical returns the median of a value of each item, or the least value. The
// median of an even number of values is the mean of the middle two.
func typical[T any](items []T, fastest bool, value func(*T) unit.Millis) unit.Millis {
	values := make([]unit.Millis, len(items))
	for i := range items {
		values[i] = value(&items[i])
	}
	slices.Sort(values)
	if fastest {
		return values[0]
	}
	n := len(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}
