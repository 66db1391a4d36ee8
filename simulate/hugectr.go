package simulate

import (
	"cmp"
	"math"

	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// hugectr.go estimates the kernels of HugeCTR's embedding collection, where they differ from FBGEMM's
// (compute.go) [read: HugeCTR, embedding/operators/multi_to_one_reduce_v2.cuh and
// embedding_storage/ragged_static_embedding.cu of commit 2f2016f].
//
// Forward. One kernel writes the address of each lookup's row. In the next, a whole warp pools a
// bag, whatever the width: it loads an address, and then the row.
//
// Backward. One kernel adds up gradients: each warp takes 32 sorted lookups, one after the other, and
// writes a gradient for each distinct row, in the format of the exchange. It divides the uses of
// a row among warps, so no row is slower than others. Another kernel reads these gradients, and
// reads and writes rows and optimizer state. Replicas have no such kernel: the dense update has their
// gradients.
//
// A warp waits for an address, and then for a vector: the time of a step, and that all reads of rows
// and gradients are as fast as those of FBGEMM's forward, are assumed.

const (
	// addressBytes is the bytes of a lookup's address, which is written and read [read].
	addressBytes = 8
	// reducedBytes is the other bytes of a lookup in the reduction: its bag, row, and width twice [read].
	reducedBytes = 4 * 4
	// reducedLookups is the number of lookups that a warp adds up. The sum of its last row goes through
	// memory in fp32 [read].
	reducedLookups = 32
	// stepNanos is the time of a step of a warp, in ns of a multiprocessor [assumed].
	stepNanos = 16.2
)

// traffic is what a kernel moves: bytes of memory and cache, and ns of a multiprocessor.
type traffic struct{ memory, cache, nanos float64 }

// gather returns the time of a kernel that reads scattered vectors, in ms.
func (d *Device) gather(t traffic) float64 {
	return norm(t.memory/d.Gather, t.cache/d.L2, t.nanos/d.Issue)
}

// HugeCTR returns the times of HugeCTR's kernels for an operator that pools, or for one of replicas.
func (d Device) HugeCTR(op Op, replicas bool) Kernels {
	own := d.WithKernels(hardware.KernelTimes{
		Row: stepNanos, Bag: stepNanos, BagPower: 1, Prepare: d.pooled.Prepare,
	}, d.apart.KernelTimes)
	op.Lanes = d.profile.Warp()
	w, ok := own.work(op)
	if !ok {
		return Kernels{}
	}
	w.memory += 2 * addressBytes * w.lookups
	var reduce, update traffic
	for i := range op.Tables {
		t := &op.Tables[i]
		n, unique, dim := t.Counts.Lookups, t.Counts.Unique, float64(t.Dim)
		if n == 0 {
			continue
		}
		steps := math.Ceil(dim / float64(FloatsPerLane*op.Lanes))
		vector, row := roundUp(dim*w.outputBytes, CacheLine), roundUp(dim*w.weightBytes, CacheLine)
		rowInMemory := roundUp(dim*w.weightBytes, d.Granule) + d.RowOverhead
		state := d.StateTraffic(w.optimizer, dim)
		reduce.memory += d.gradients(n, w.batch*cmp.Or(t.Bags, 1), vector) + unique*vector + n*(2*addressBytes+reducedBytes+2*4*dim/reducedLookups)
		reduce.cache += (n + unique) * vector
		reduce.nanos += n * steps * stepNanos
		update.memory += unique * (vector + 2*rowInMemory + state)
		update.cache += unique * (vector + 2*row + state)
		update.nanos += unique * steps * stepNanos
	}
	busy := d.gather(reduce)
	if !replicas {
		busy += d.gather(update)
	}
	k := w.kernels()
	k.Update = unit.Millis(busy)
	return k
}
