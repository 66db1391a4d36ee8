package collect

import (
	"cmp"
	"context"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

// simulatedName is the name of the simulated device in a dataset's provenance.
const simulatedName = "simulated device, version " + simulate.ModelVersion

// SimulateCompute fills in the times of the groups, from the simulated device of the profile, and
// the provenance. It runs on the given number of goroutines (0: all processors).
func SimulateCompute(ctx context.Context, set *dataset.Compute, profile hardware.Profile, workers int) error {
	device := simulate.NewDevice(profile)
	set.Provenance = dataset.Provenance{Source: dataset.Simulated, Profile: profile.Name, Backend: simulatedName, Seed: set.Provenance.Seed}
	var counts counter
	return each(ctx, workers, len(set.Samples), func(i int) error {
		g := &set.Samples[i]
		g.Forward, g.Backward = device.Compute(operator(set.Tables, g, &counts))
		return nil
	})
}

// SimulateComm fills in the times of the exchanges, as SimulateCompute does.
func SimulateComm(ctx context.Context, set *dataset.Comm, profile hardware.Profile, workers int) error {
	device := simulate.NewDevice(profile)
	set.Provenance = dataset.Provenance{Source: dataset.Simulated, Profile: profile.Name, Backend: simulatedName, Seed: set.Provenance.Seed}
	return each(ctx, workers, len(set.Samples), func(i int) error {
		e := &set.Samples[i]
		var err error
		e.Forward, e.Backward, err = device.Comm(exchange(e))
		return err
	})
}

// NewSimulated returns the Backend of the simulated device of a profile. A group of
// any size has a time, because the simulated device has no memory limit.
func NewSimulated(profile hardware.Profile) Backend {
	return &simulated{device: simulate.NewDevice(profile)}
}

// WithSimulatedComm returns a Backend that measures groups on b and takes all-to-alls from the
// simulated device of a profile, for machines with a single GPU. Its provenance states that, and
// CommSimulated reports it. Close closes b.
func WithSimulatedComm(b Backend, profile hardware.Profile) Backend {
	return &simulatedComm{b, NewSimulated(profile)}
}

// CommSimulated reports whether the all-to-alls of a Backend are simulated.
func CommSimulated(b Backend) bool {
	_, exchanges := b.(*simulatedComm)
	return exchanges || b.Provenance().Source == dataset.Simulated
}

type simulatedComm struct {
	Backend
	exchanges Backend
}

func (s *simulatedComm) Provenance() dataset.Provenance {
	p := s.Backend.Provenance()
	p.Backend += ", all-to-alls of the " + simulatedName
	return p
}

// Supports reports what the other Backend supports, and all-to-alls.
func (s *simulatedComm) Supports(capability string) bool {
	other, tells := s.Backend.(Supporter)
	return !tells || capability == protocol.CapComm || strings.HasPrefix(capability, protocol.CapCommPrefix) || other.Supports(capability)
}

func (s *simulatedComm) Comm(ctx context.Context, e *dataset.Exchange) (CommTiming, error) {
	return s.exchanges.Comm(ctx, e)
}

type simulated struct {
	device simulate.Device
	counts counter
}

func (s *simulated) Provenance() dataset.Provenance {
	profile := s.device.Profile()
	p := dataset.Provenance{Source: dataset.Simulated, Profile: profile.Name, Backend: simulatedName}
	if !hardware.Known(profile.Name) {
		p.Hardware = profile
	}
	return p
}

func (s *simulated) Compute(ctx context.Context, tables []problem.Table, g *dataset.Group) (Timing, error) {
	if err := ctx.Err(); err != nil {
		return Timing{}, err
	}
	if err := checkMembers(tables, g); err != nil {
		return Timing{}, err
	}
	var t Timing
	t.Forward, t.Backward = s.device.Compute(operator(tables, g, &s.counts))
	return t, nil
}

func (s *simulated) Comm(ctx context.Context, e *dataset.Exchange) (CommTiming, error) {
	if err := ctx.Err(); err != nil {
		return CommTiming{}, err
	}
	if len(e.DimSums) < 2 {
		return CommTiming{}, oneDevice()
	}
	var t CommTiming
	var err error
	if t.Forward, t.Backward, err = s.device.Comm(exchange(e)); err != nil {
		err = &protocol.Error{Code: protocol.CodeUnsupported, Message: err.Error()}
	}
	return t, err
}

func (s *simulated) Close() error { return nil }

// oneDevice returns the error of an all-to-all on a single device.
func oneDevice() error {
	return &protocol.Error{Code: protocol.CodeUnsupported, Message: "one device has no all-to-all"}
}

// operator holds a group in the form that the simulated device runs.
func operator(tables []problem.Table, g *dataset.Group, counts *counter) simulate.Op {
	op := simulate.Op{
		Batch: g.Operation.Batch, WeightBytes: int(g.Operation.Precision.Bytes()),
		Optimizer: g.Operation.Optimizer, Weighted: g.Operation.Weighted, LaneRule: g.Operation.LaneRule,
	}
	if len(g.Members) > 0 {
		op.Pooling = tables[g.Members[0].Table].Pooling // a kernel pools the rows of all its tables, or of none
	}
	for _, m := range g.Members {
		t := &tables[m.Table]
		op.Tables = append(op.Tables, simulate.Table{
			Rows: t.Rows, Dim: int(m.Dim), Bags: t.Bags(), Counts: counts.of(t, g.Operation.Batch),
			LengthCV: t.LengthCV(),
		})
	}
	return op
}

func exchange(e *dataset.Exchange) simulate.Comm {
	return simulate.Comm{PerHost: e.DevicesPerHost, Batch: e.Batch, ElementBytes: int(e.Precision.Bytes()), DimSums: e.DimSums, Start: e.Start}
}

// counter computes the access counts of a batch in a table, once for each table and batch
// size. Several goroutines may use it.
type counter struct{ known sync.Map } // accesses -> access.Counts

// accesses holds everything that the counts of a table depend on.
type accesses struct {
	rows    int64
	bags    float64
	pooling float64
	batch   int
	lengths float64
	access  access.Distribution
}

func accessesOf(t *problem.Table, batch int) accesses {
	return accesses{t.Rows, t.Bags(), t.PoolingFactor(), batch, t.LengthCV(), t.Access}
}

func (c *counter) of(t *problem.Table, batch int) access.Counts {
	key := accessesOf(t, batch)
	if known, ok := c.known.Load(key); ok {
		return known.(access.Counts)
	}
	counts := t.Counts(batch)
	c.known.Store(key, counts)
	return counts
}

// each runs f for 0 to n-1 on the workers, until the context ends or f fails.
func each(ctx context.Context, workers, n int, f func(i int) error) error {
	const stride = 256
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(cmp.Or(max(0, workers), runtime.GOMAXPROCS(0)))
	for lo := 0; lo < n; lo += stride {
		group.Go(func() error {
			for i := lo; i < min(n, lo+stride); i++ {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err := f(i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
