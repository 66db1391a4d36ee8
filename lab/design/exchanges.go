package design

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// dimSumTries is the most draws of the dim sums of an all-to-all until they are
// within the bounds.
const dimSumTries = 12

// Comm returns all-to-alls without times between devices of one host: dim sums from
// balanced to unbalanced and starts up to StartSpread apart, drawn as by the
// package function Comm. Dim sums beyond MaxDimSum are drawn again, and at last cut
// to it. Comm fails if the domain has problems.
func (d Domain) Comm(seed uint64, samples int) (*dataset.Comm, error) {
	if samples < 0 {
		return nil, fmt.Errorf("samples: %d is negative", samples)
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	d = d.WithDefaults()
	draw := rand.New(rand.NewPCG(seed, 4))
	set := &dataset.Comm{Provenance: dataset.Provenance{Seed: seed}, Samples: make([]dataset.Exchange, samples)}
	for i := range set.Samples {
		n := d.Devices[draw.IntN(len(d.Devices))]
		set.Samples[i] = dataset.Exchange{
			ID: i, Split: SplitOf(i), Devices: n, DevicesPerHost: n,
			Batch:   d.Batches[draw.IntN(len(d.Batches))],
			DimSums: d.dimSums(draw, n), Start: starts(draw, n, d.StartSpread),
		}
	}
	return set, nil
}

func (d *Domain) dimSums(draw *rand.Rand, devices int) []int {
	for try := 1; ; try++ {
		sums := dimSums(draw, devices, d.MaxDim)
		if d.MaxDimSum == 0 || slices.Max(sums) <= d.MaxDimSum {
			return sums
		}
		if try == dimSumTries {
			for r := range sums {
				sums[r] = min(sums[r], d.MaxDimSum/problem.ColumnGranule*problem.ColumnGranule)
			}
			return sums
		}
	}
}

// These are the share of all-to-alls with few bytes, and the bounds of their dims and batches:
// the smallest eighth of Batches. Their times are mostly fixed times, as are those of small
// all-reduces and of blocks of a few columns.
const (
	smallShare   = .15
	smallDim     = 8
	smallBatches = 5
)

// Comm returns all-to-alls without times on devices of the profile: 2 to 1,024
// devices, on one host or many, dim sums from balanced to skewed and starts up
// to 20 ms apart, as the paper draws them.
func Comm(seed uint64, samples int, profile hardware.Profile) *dataset.Comm {
	set, _ := CommContext(context.Background(), seed, samples, profile) // only the end of the context is an error
	return set
}

// CommContext is Comm, but returns the error of ctx if ctx ends first.
func CommContext(ctx context.Context, seed uint64, samples int, profile hardware.Profile) (*dataset.Comm, error) {
	set := &dataset.Comm{Provenance: dataset.Provenance{Seed: seed, Profile: profile.Name}}
	draw := rand.New(rand.NewPCG(seed, 2))
	batches := Batches()
	for i := range samples {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e := dataset.Exchange{Split: SplitOf(i), Batch: batches[draw.IntN(len(batches))]}
		e.Devices, e.DevicesPerHost = cluster(draw, profile)
		widest := MaxDim
		if draw.Float64() < smallShare {
			widest, e.Batch = smallDim, batches[draw.IntN(smallBatches)]
		}
		e.DimSums = dimSums(draw, e.Devices, widest)
		e.Start = starts(draw, e.Devices, startSpread)
		set.Samples = append(set.Samples, e)
	}
	return set, nil
}

// startSpread is the default of Domain.StartSpread, in ms: a little less than 20.
const startSpread = 19

// starts draws the time when each device is ready, within spread ms; the first
// device is ready at 0.
func starts(draw *rand.Rand, devices int, spread float64) []unit.Millis {
	start := make([]unit.Millis, devices)
	earliest := unit.Millis(math.Inf(1))
	for r := range start {
		start[r] = unit.Millis(1 + spread*draw.Float64())
		earliest = min(earliest, start[r])
	}
	for r := range start {
		start[r] -= earliest
	}
	return start
}

func cluster(draw *rand.Rand, profile hardware.Profile) (devices, perHost int) {
	perHost = []int{2, 4, 8, 8, 8, 16}[draw.IntN(6)]
	if profile.NICGBps == 0 || draw.Float64() < .3 {
		return 2 + draw.IntN(15), 16
	}
	// Networks of few hosts differ most, so half of the samples have few hosts.
	hosts := 2 + draw.IntN(4)
	if draw.IntN(2) == 0 {
		hosts = int(math.Round(math.Pow(2, 1+9*draw.Float64())))
	}
	return min(MaxDevices, perHost*hosts), perHost
}

// dimSums places 2.5 to 15 tables for each device, the widest first, each on the
// device with the fewest columns so far or, with a probability drawn for the
// sample, on a random device. A quarter of the samples have fewer tables, down to a
// single one: a careless plan of a small model on a large cluster leaves most
// devices without a table.
func dimSums(draw *rand.Rand, devices, maxDim int) []int {
	sums := make([]int, devices)
	tables := int(float64(devices) * (2.5 + 12.5*draw.Float64()))
	if draw.IntN(4) == 0 {
		tables = int(math.Pow(2.5*float64(devices), draw.Float64()))
	}
	careless := draw.Float64()
	dim := dims(draw, maxDim)
	all := make([]int, tables)
	for i := range all {
		all[i] = dim()
	}
	sort.Sort(sort.Reverse(sort.IntSlice(all)))
	for _, d := range all {
		to := draw.IntN(devices)
		if draw.Float64() >= careless {
			for r := range sums {
				if sums[r] < sums[to] {
					to = r
				}
			}
		}
		sums[to] += d
	}
	return sums
}
