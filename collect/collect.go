// Package collect takes the times of what package experiment drew. What to
// measure is handed in; the result is a dataset that says where its times come
// from.
package collect

import (
	"context"
	"runtime"
	"sync"

	"github.com/neuroshard/neuroshard/access"
	"github.com/neuroshard/neuroshard/dataset"
	"github.com/neuroshard/neuroshard/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

// Options steer the collection. The zero value works.
type Options struct {
	// Workers is the number of goroutines (default: all processors). It does not
	// change the result.
	Workers int
	// OnProgress, where not nil, is called now and then, by one goroutine at a
	// time, with the samples done.
	OnProgress func(done int)
}

func (o Options) workers() int {
	if o.Workers > 0 {
		return o.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// simulatedMeter names the simulated device in a dataset's provenance.
const simulatedMeter = "simulated device, version " + simulate.ModelVersion

// SimulateCompute fills in the times of the groups from the simulated device
// of the profile, and the provenance.
func SimulateCompute(ctx context.Context, set *dataset.Compute, profile hardware.Profile, opt Options) error {
	device := simulate.NewDevice(profile)
	set.Provenance = dataset.Provenance{Source: dataset.Simulated, Profile: profile.Name, Meter: simulatedMeter, Seed: set.Provenance.Seed}
	counts := newCounter(set)
	return opt.each(ctx, len(set.Samples), func(i int) error {
		g := &set.Samples[i]
		op := simulate.Op{
			Batch: g.Operation.Batch, WeightBytes: int(g.Operation.Precision.Bytes()),
			Optimizer: g.Operation.Optimizer, Weighted: g.Operation.Weighted, Subwarp: !g.Operation.Weighted,
		}
		for _, m := range g.Members {
			t := &set.Tables[m.Table]
			op.Tables = append(op.Tables, simulate.Table{
				Rows: t.Rows, Dim: int(m.Dim), Features: len(t.Features), Counts: counts.of(int(m.Table), g.Operation.Batch),
			})
		}
		g.Forward, g.Backward = device.Compute(op)
		return nil
	})
}

// SimulateComm fills in the times of the exchanges, as SimulateCompute does.
func SimulateComm(ctx context.Context, set *dataset.Comm, profile hardware.Profile, opt Options) error {
	device := simulate.NewDevice(profile)
	set.Provenance = dataset.Provenance{Source: dataset.Simulated, Profile: profile.Name, Meter: simulatedMeter, Seed: set.Provenance.Seed}
	return opt.each(ctx, len(set.Samples), func(i int) error {
		e := &set.Samples[i]
		var err error
		e.Forward, e.Backward, err = device.Comm(simulate.Comm{
			PerHost: e.DevicesPerHost, Batch: e.Batch, DimSums: e.DimSums, Start: e.Start,
		})
		return err
	})
}

// each runs f for 0 to n-1 on the workers, until the context ends or f fails.
func (o Options) each(ctx context.Context, n int, f func(i int) error) error {
	const stride = 256
	var group sync.WaitGroup
	var lock sync.Mutex
	var failed error
	done := 0
	next := make(chan int)
	for range o.workers() {
		group.Go(func() {
			for lo := range next {
				hi := min(n, lo+stride)
				var err error
				for i := lo; i < hi && err == nil; i++ {
					err = f(i)
				}
				lock.Lock()
				if done += hi - lo; o.OnProgress != nil {
					o.OnProgress(done)
				}
				if failed == nil {
					failed = err
				}
				lock.Unlock()
			}
		})
	}
	for lo := 0; lo < n && ctx.Err() == nil; lo += stride {
		next <- lo
	}
	close(next)
	group.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	return failed
}

// counter works out what a batch does to a table, once for each batch size.
type counter struct {
	set   *dataset.Compute
	known sync.Map // [2]int{table, batch} -> access.Counts
}

func newCounter(set *dataset.Compute) *counter { return &counter{set: set} }

func (c *counter) of(table, batch int) access.Counts {
	key := [2]int{table, batch}
	if known, ok := c.known.Load(key); ok {
		return known.(access.Counts)
	}
	counts := c.set.Tables[table].Counts(batch)
	c.known.Store(key, counts)
	return counts
}
