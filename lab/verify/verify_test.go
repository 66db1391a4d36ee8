package verify_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/lab/verify"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// backend is the simulated device as a backend. Requests to it pass through the
// hooks that are set.
type backend struct {
	collect.Backend
	onCompute func(g *dataset.Group, t *collect.Timing) error
	onComm    func(e *dataset.Exchange, t *collect.CommTiming) error
	computes  []dataset.Group
	comms     []dataset.Exchange
}

func (m *backend) Compute(ctx context.Context, tables []problem.Table, g *dataset.Group) (collect.Timing, error) {
	timing, err := m.Backend.Compute(ctx, tables, g)
	if err == nil {
		m.computes = append(m.computes, *g)
		if m.onCompute != nil {
			err = m.onCompute(g, &timing)
		}
	}
	return timing, err
}

func (m *backend) Comm(ctx context.Context, e *dataset.Exchange) (collect.CommTiming, error) {
	timing, err := m.Backend.Comm(ctx, e)
	if err == nil {
		asked := *e
		asked.Start = slices.Clone(e.Start)
		m.comms = append(m.comms, asked)
		if m.onComm != nil {
			err = m.onComm(e, &timing)
		}
	}
	return timing, err
}

func newBackend(t testing.TB) *backend {
	t.Helper()
	return &backend{Backend: collect.NewSimulated(profile(t))}
}

func profile(t testing.TB) hardware.Profile {
	t.Helper()
	return must.Get(hardware.ByName("a100-80"))(t)
}

func ExamplePlan() {
	hw, err := hardware.ByName("a100-80")
	if err != nil {
		fmt.Println(err)
		return
	}
	p := &problem.Problem{
		Tables: []problem.Table{
			{Name: "user_id", Rows: 5_000_000, Dim: 64, Features: []problem.Feature{{PoolingFactor: 1}}},
			{Name: "history", Rows: 2_000_000, Dim: 64, Features: []problem.Feature{{PoolingFactor: 60}}},
		},
		Topology: hardware.Topology{Profile: hw, Devices: 2}, Batch: 65536,
	}
	placement := [][]problem.Shard{{p.Whole(0)}, {p.Whole(1)}}
	predicted := plan.NewBreakdown([]plan.StepTimes{
		{Forward: .02, ForwardComm: 1.5, BackwardComm: .1, Backward: .08},
		{Forward: .5, ForwardComm: .1, BackwardComm: .1, Backward: 1},
	})
	result, err := verify.Plan(context.Background(), p, placement, predicted, collect.NewSimulated(hw), verify.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, d := range result.Devices {
		fmt.Printf("device %d: %d shard, forward %v (predicted %v), backward %v (predicted %v)\n",
			i, d.Shards, d.Measured.Forward, d.Predicted.Forward, d.Measured.Backward, d.Predicted.Backward)
	}
	fmt.Printf("plan: %v (predicted %v), %s\n", result.Measured, result.Predicted, result.Provenance.Source)
	// Output:
	// device 0: 1 shard, forward 0.0426 ms (predicted 0.0200 ms), backward 0.133 ms (predicted 0.0800 ms)
	// device 1: 1 shard, forward 0.479 ms (predicted 0.500 ms), backward 1.15 ms (predicted 1.00 ms)
	// plan: 1.83 ms (predicted 1.70 ms), simulated
}

// drawPlan draws a problem with several operations, and a plan of it with column
// slices.
func drawPlan(draw *rand.Rand, hw hardware.Profile) (*problem.Problem, [][]problem.Shard) {
	p := &problem.Problem{Batch: 512 << draw.IntN(8), CommPrecision: problem.Precision(draw.IntN(3)), Topology: hardware.Topology{Profile: hw, Devices: 1 + draw.IntN(12)}}
	if draw.IntN(2) == 0 {
		p.Topology.DevicesPerHost = 1 + draw.IntN(p.Topology.Devices)
	}
	for i := range 1 + draw.IntN(20) {
		t := problem.Table{
			Name: fmt.Sprint("t", i), Rows: 1 + draw.Int64N(1e6), Dim: 4 * (1 + draw.IntN(64)), Weighted: draw.IntN(4) == 0,
			Features:  []problem.Feature{{PoolingFactor: float64(draw.IntN(4)) * 7.5}},
			Precision: problem.Precision(draw.IntN(3)), Optimizer: problem.Optimizer(draw.IntN(4)),
			Access: access.Distribution{Kind: access.Zipf, Exponent: .5 + draw.Float64()},
		}
		if draw.IntN(3) == 0 {
			t.Features = append(t.Features, problem.Feature{PoolingFactor: 2})
		}
		p.Tables = append(p.Tables, t)
	}
	shards := make([][]problem.Shard, p.Topology.Devices)
	for i := range p.Tables {
		s := p.Whole(i)
		if half := int64(p.Tables[i].Dim / 8 * 4); half > 0 && draw.IntN(2) == 0 {
			left := s
			left.Columns.End, s.Columns.Start = half, half
			d := draw.IntN(len(shards))
			shards[d] = append(shards[d], left)
		}
		d := draw.IntN(len(shards))
		shards[d] = append(shards[d], s)
	}
	return p, shards
}

// On the simulated device, the measured times of a plan are those of
// simulate.Pricer, to the bit for each device, in every precision of the exchanges.
func TestSimulatedPlansMeasureTheirPrice(t *testing.T) {
	hw := profile(t)
	rapid.Check(t, func(t *rapid.T) {
		p, shards := drawPlan(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), hw)
		must.Do(t, p.Validate())
		want := must.Get(simulate.NewPricer(p).Price(shards))(t)
		got := must.Get(verify.Plan(context.Background(), p, shards, plan.Breakdown{}, collect.NewSimulated(hw), verify.Options{Repeats: rapid.IntRange(0, 3).Draw(t, "repeats")}))(t)
		for d, w := range want.Devices {
			g := got.Devices[d]
			if g.Measured != w {
				t.Errorf("device %d: got %+v, want %+v", d, g.Measured, w)
			}
			if g.Shards != len(shards[d]) || g.Predicted != (plan.StepTimes{}) || g.Spread != 0 {
				t.Errorf("device %d: got %d shards, predicted %+v, spread %v, want %d, none, none", d, g.Shards, g.Predicted, g.Spread, len(shards[d]))
			}
		}
		if math.Abs(float64(got.Measured-want.Cost)) > 1e-12*float64(want.Cost) || got.Spread != 0 || !got.CommMeasured {
			t.Errorf("got cost %v, spread %v, comm measured %v, want %v, 0, true", got.Measured, got.Spread, got.CommMeasured, want.Cost)
		}
	})
}

// twoByTwo is a problem of two operations and a plan with an empty device.
func twoByTwo(t testing.TB) (*problem.Problem, [][]problem.Shard) {
	t.Helper()
	one := []problem.Feature{{PoolingFactor: 1}}
	p := &problem.Problem{
		Tables: []problem.Table{
			{Name: "a", Rows: 1000, Dim: 64, Features: one, Optimizer: problem.Adam},
			{Name: "b", Rows: 1000, Dim: 32, Features: []problem.Feature{{PoolingFactor: 1}, {PoolingFactor: 2}}},
			{Name: "c", Rows: 1000, Dim: 16, Features: one, Optimizer: problem.Adam},
			{Name: "unread", Rows: 1000, Dim: 8, Features: make([]problem.Feature, 1), Optimizer: problem.Adagrad},
		},
		Topology: hardware.Topology{Profile: profile(t), Devices: 3}, Batch: 1024,
	}
	left, right := p.Whole(0), p.Whole(0)
	left.Columns.End, right.Columns.Start = 24, 24
	return p, [][]problem.Shard{{left, p.Whole(1), p.Whole(2)}, {right, p.Whole(3)}, nil}
}

// The backend gets each device's operations, then the all-to-all aligned, then the
// all-to-all with the starts that follow. The costs follow by hand from the formula
// of the paper.
func TestPlanByHand(t *testing.T) {
	p, shards := twoByTwo(t)
	m := newBackend(t)
	m.onCompute = func(g *dataset.Group, timing *collect.Timing) error {
		n := unit.Millis(len(g.Members))
		*timing = collect.Timing{Forward: n, Backward: 10 * n, ForwardSpread: .125, BackwardSpread: .25}
		return nil
	}
	m.onComm = func(e *dataset.Exchange, timing *collect.CommTiming) error {
		last := slices.Max(e.Start)
		*timing = collect.CommTiming{Forward: make([]unit.Millis, 3), Backward: []unit.Millis{2, 3, 4}}
		for r := range timing.Forward {
			timing.Forward[r] = last - e.Start[r] + unit.Millis(5+r)
		}
		return nil
	}
	predicted := plan.NewBreakdown([]plan.StepTimes{{Forward: 1, Backward: 2, ForwardComm: 3, BackwardComm: 4}, {Forward: 20}, {Backward: 7}})
	var seen []int
	got := must.Get(verify.Plan(context.Background(), p, shards, predicted, m, verify.Options{OnProgress: func(done, of int) {
		if of != 5 {
			t.Errorf("got progress of %d, want of 5 requests", of)
		}
		seen = append(seen, done)
	}}))(t)
	sgd, adam := problem.Operation{Batch: 1024}, problem.Operation{Batch: 1024, Optimizer: problem.Adam}
	if diff := cmp.Diff([]dataset.Group{
		{Operation: sgd, Members: []dataset.Member{{Table: 1, Dim: 32}}},
		{Operation: adam, Members: []dataset.Member{{Table: 0, Dim: 24}, {Table: 2, Dim: 16}}},
		{Operation: adam, Members: []dataset.Member{{Table: 0, Dim: 40}}},
	}, m.computes); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	// Device 0 is ready at 33 + 2, device 1 at 11 + 3, device 2 at 0 + 4.
	exchange := dataset.Exchange{Devices: 3, DevicesPerHost: 3, Batch: 1024, DimSums: []int{24 + 2*32 + 16, 48, 0}, Start: make([]unit.Millis, 3)}
	skewed := exchange
	skewed.Start = []unit.Millis{31, 10, 0}
	if diff := cmp.Diff([]dataset.Exchange{exchange, skewed}, m.comms); diff != "" {
		t.Errorf("exchanges (-want +got):\n%s", diff)
	}
	want := []plan.StepTimes{
		{Forward: 3, Backward: 30, BackwardComm: 2, ForwardComm: 5},
		{Forward: 1, Backward: 10, BackwardComm: 3, ForwardComm: 27},
		{BackwardComm: 4, ForwardComm: 38},
	}
	for d := range want {
		g := got.Devices[d]
		if g.Measured != want[d] || g.Predicted != predicted.Devices[d] {
			t.Errorf("device %d: got %+v, want %+v", d, g, want[d])
		}
	}
	if d := got.Devices[0]; d.Spread != .75 || d.Shards != 3 || d.DimSum != 104 {
		t.Errorf("device 0: got spread %v, %d shards, dim sum %d, want 0.75 ms, 3, 104", d.Spread, d.Shards, d.DimSum)
	}
	if got.Measured != 42 || got.Predicted != 20 || got.Spread != 0 || len(got.Costs) != 1 {
		t.Errorf("got cost %v (%v), predicted %v, spread %v, want 42, 20, 0", got.Measured, got.Costs, got.Predicted, got.Spread)
	}
	if !slices.Equal(seen, []int{1, 2, 3, 4, 5}) {
		t.Errorf("got progress %v, want 1 to 5", seen)
	}
	if got.Provenance != m.Provenance() {
		t.Errorf("got provenance %+v, want the backend's", got.Provenance)
	}
}

// Without all-to-alls both costs are those of compute alone, and the result states
// that.
func TestMeterWithoutComm(t *testing.T) {
	p, shards := twoByTwo(t)
	m := newBackend(t)
	m.onCompute = func(g *dataset.Group, timing *collect.Timing) error {
		*timing = collect.Timing{Forward: unit.Millis(len(g.Members)), Backward: 1}
		return nil
	}
	asked := 0
	m.onComm = func(*dataset.Exchange, *collect.CommTiming) error {
		asked++
		return fmt.Errorf("the request failed: %w", &protocol.Error{Code: protocol.CodeUnsupported, Message: "one GPU has nobody to exchange with"})
	}
	predicted := plan.NewBreakdown([]plan.StepTimes{{Forward: 1, Backward: 2, ForwardComm: 30, BackwardComm: 4}, {Forward: 4, ForwardComm: 1}, {}})
	got := must.Get(verify.Plan(context.Background(), p, shards, predicted, m, verify.Options{Repeats: 2}))(t)
	if got.CommMeasured || got.CommMissing != "one GPU has nobody to exchange with" || asked != 1 {
		t.Errorf("got comm measured %v, missing %q, asked %d times, want false, the backend's reason, once", got.CommMeasured, got.CommMissing, asked)
	}
	if got.Measured != 5 || got.Predicted != 4 {
		t.Errorf("got cost %v, predicted %v, want the compute alone, 5 and 4", got.Measured, got.Predicted)
	}
	if d := got.Devices[0]; d.Measured.ForwardComm != 0 || d.Measured.BackwardComm != 0 || d.Predicted != predicted.Devices[0] {
		t.Errorf("got device %+v, want no measured comm and the whole prediction", d)
	}
}

func TestDeviceErrors(t *testing.T) {
	p, shards := twoByTwo(t)
	for _, c := range []struct {
		name string
		hook func(*backend)
		want string
	}{
		{
			"memory", func(m *backend) {
				m.onCompute = func(g *dataset.Group, _ *collect.Timing) error {
					if g.Operation.Optimizer != problem.Adam {
						return nil
					}
					return &protocol.Error{Code: protocol.CodeMemory, Message: "1.2 GiB free"}
				}
			},
			// Adam keeps two numbers for each weight.
			`device 0: its 2 shards ("a" columns 0-24, "c"; 469 KiB of weights and state) do not fit the backend's memory: worker: oom: 1.2 GiB free`,
		},
		{
			"failure", func(m *backend) {
				m.onCompute = func(g *dataset.Group, _ *collect.Timing) error {
					if g.Members[0].Dim != 40 {
						return nil
					}
					return errors.New("the worker died")
				}
			},
			`device 1: its 1 shard ("a" columns 24-64; 469 KiB of weights and state) could not be run: the worker died`,
		},
	} {
		m := newBackend(t)
		c.hook(m)
		_, err := verify.Plan(context.Background(), p, shards, plan.Breakdown{}, m, verify.Options{})
		var device *verify.DeviceError
		if !errors.As(err, &device) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.want)
			continue
		}
		if !strings.HasPrefix(c.want, fmt.Sprintf("device %d:", device.Device)) || len(device.Shards) == 0 || device.Err == nil {
			t.Errorf("%s: got %+v, want the device and its shards", c.name, device)
		}
	}
}

func TestCancel(t *testing.T) {
	p, shards := twoByTwo(t)
	for _, after := range []int{0, 2, 3, 4} {
		ctx, cancel := context.WithCancel(context.Background())
		if after == 0 {
			cancel()
		}
		_, err := verify.Plan(ctx, p, shards, plan.Breakdown{}, newBackend(t), verify.Options{OnProgress: func(done, _ int) {
			if done == after {
				cancel()
			}
		}})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled after %d requests: got error %v, want %v", after, err, context.Canceled)
		}
		var device *verify.DeviceError
		if errors.As(err, &device) {
			t.Errorf("cancelled after %d requests: got %v, want no DeviceError", after, err)
		}
	}
}
