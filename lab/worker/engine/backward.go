package engine

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/neuroshard/neuroshard/internal/f32"
	"github.com/neuroshard/neuroshard/problem"
)

// The backward is exact: a row that several bags looked up is updated once, by the
// sum of their gradients.
//
//	pair    each lookup becomes a number, row above bag
//	sort    by row (sort.go): a run is the lookups of one distinct row
//	sum     ranges of runs: the run's gradients are summed, its row updated
//	blocks  runs longer than a block are summed block by block ...
//	join    ... and the blocks' sums are added in order
//
// The order of a sum depends only on the run: its bags in order within a block,
// then its blocks in order. So the bytes are the same for any number of threads,
// and all threads can share the lookups of a hot row.

// blockLookups is the number of lookups in a block. It is part of the definition of
// Backward: another number would round the sums of longer runs differently.
const blockLookups = 1024

// A range of a shard's sorted lookups has about the lookups of the group divided by
// rangesPerThread, within these bounds.
const (
	minRangeLookups = 128
	maxRangeLookups = 2048
)

// aheadRuns is the number of bytes of weights that are prefetched before their
// runs.
const aheadRuns = 4096

// backward holds what Backward runs.
type backward struct {
	// whole holds the shards that one thread sorts, larger ones first; cuts holds the
	// segments of the others.
	whole  []int
	cuts   []cut
	passes int // the most passes of a shard that is cut
	pass   int // the current one
	ranges []pairRange
	// scratch has one entry for each thread.
	scratch []scratch

	// These are the runs longer than a block, and their blocks, that this Backward has
	// found so far.
	runs     []longRun
	blocks   []block
	partials []float32
	found    struct{ runs, blocks, partials atomic.Int64 }

	steps int // Backwards until now
	adam  f32.AdamStep

	sortPhase, countPhase, movePhase, sumPhase, blockPhase, joinPhase func(thread int)
}

// cut is a segment of a shard.
type cut struct{ shard, segment int }

// pairRange is the runs that begin at the sorted lookups lo to hi of a shard.
type pairRange struct {
	shard  int
	lo, hi int64
}

// longRun is the sorted lookups lo to hi of a shard, all of one row. The sums of its
// blocks lie at partials.
type longRun struct {
	shard        int
	lo, hi       int64
	at, partials int64
}

// block is the sorted lookups lo to hi of a shard, whose sum goes to at.
type block struct {
	shard      int
	lo, hi, at int64
}

// scratch is the memory of one thread.
type scratch struct {
	// offsets hold where runs begin and where the last one ends. sums has room for the
	// gradients of a few runs.
	offsets []int64
	sums    []float32
	// picks and weights are the bags and the weights of lookups in weighted shards.
	picks   []uint64
	weights []float32
	_       [cacheLine]byte
}

func (o *Op) planBackward() {
	var total, longest, partials, blocks int64
	widest, weighted := 0, false
	for i := range o.shards {
		s := &o.shards[i]
		n := int64(len(s.Bags.Indices))
		total, longest = total+n, max(longest, n)
		widest = max(widest, s.Dim)
		weighted = weighted || s.PerSample != nil
		// A long run has at most 2 * lookups / blockLookups blocks.
		if n > blockLookups {
			blocks += 2 * (n / blockLookups)
			partials += 2 * (n / blockLookups) * int64(s.Dim)
		}
	}
	size := min(max(total/int64(rangesPerThread*o.opt.Threads), minRangeLookups), maxRangeLookups)
	for i := range o.shards {
		o.planSort(i, total)
		n := int64(len(o.shards[i].Bags.Indices))
		for lo := int64(0); lo < n; lo += size {
			o.backward.ranges = append(o.backward.ranges, pairRange{shard: i, lo: lo, hi: min(lo+size, n)})
		}
	}
	slices.SortStableFunc(o.backward.whole, func(a, b int) int {
		return cmp.Compare(len(o.shards[b].Bags.Indices), len(o.shards[a].Bags.Indices))
	})
	o.backward.scratch = make([]scratch, o.opt.Threads)
	for i := range o.backward.scratch {
		c := &o.backward.scratch[i]
		c.offsets = take[int64](o.arena, size+1)
		c.sums = take[float32](o.arena, int64(max(2*widest, aheadRuns/4)))
		if weighted {
			// A run that begins in a range may end a block after it.
			most := min(size+blockLookups, longest)
			c.picks, c.weights = take[uint64](o.arena, most), take[float32](o.arena, most)
		}
	}
	o.backward.runs, o.backward.blocks = make([]longRun, blocks/2), make([]block, blocks)
	o.backward.partials = take[float32](o.arena, partials)
	o.backward.sortPhase, o.backward.countPhase, o.backward.movePhase = o.runSort, o.runCount, o.runMove
	o.backward.sumPhase, o.backward.blockPhase, o.backward.joinPhase = o.runSums, o.runBlocks, o.runJoins
}

// batchOf returns the number of runs that are summed before their rows are updated,
// for rows of the given width.
func batchOf(dim int) int { return max(2, min(64, aheadRuns/(4*dim))) }

// A shard of minCutLookups and more than one part in cutShare of the lookups of a
// thread is sorted by several threads.
const (
	minCutLookups = 1 << 14
	cutShare      = 4
)

// planSort takes the buffers of a shard and decides which threads sort it.
func (o *Op) planSort(i int, total int64) {
	s := &o.shards[i]
	n := int64(len(s.Bags.Indices))
	if n == 0 {
		return
	}
	t := &s.sorter
	t.digit, t.passes = digits(n, rowBits(s.Rows))
	t.from, t.to = take[uint64](o.arena, n), take[uint64](o.arena, n)
	if s.PerSample != nil {
		s.bagOf = take[uint32](o.arena, n)
	}
	segments := int64(1)
	if o.opt.Threads > 1 && n >= minCutLookups && n*cutShare*int64(o.opt.Threads) > total {
		segments = 2 * int64(o.opt.Threads)
	}
	for k := range segments {
		g := segment{lo: n * k / segments, hi: n * (k + 1) / segments, counts: takeCounts(o.arena)}
		g.bag = sort.Search(s.bags(), func(b int) bool { return s.Bags.Offsets[b+1] > g.lo })
		t.segments = append(t.segments, g)
		if segments > 1 {
			o.backward.cuts = append(o.backward.cuts, cut{i, int(k)})
		}
	}
	if segments == 1 {
		o.backward.whole = append(o.backward.whole, i)
	} else {
		o.backward.passes = max(o.backward.passes, t.passes)
	}
}

// Backward sums the gradients of each distinct row, in the order of its bags, and
// updates the row and its state once:
//
//	sgd              w -= rate g
//	rowwise-adagrad  s += mean(g g);  w -= rate / (sqrt(s) + epsilon) g
//	adagrad          s += g g;  w -= rate g / (sqrt(s) + epsilon)
//	adam             as published, its step being the count of this op's Backwards;
//	                 rows that were not looked up are left alone
//
// In weighted shards, each gradient is multiplied by the weight of the lookup. The
// weights of lookups get no gradient.
func (o *Op) Backward() {
	o.backward.steps++
	o.backward.adam = o.adamStep()
	o.backward.found.runs.Store(0)
	o.backward.found.blocks.Store(0)
	o.backward.found.partials.Store(0)

	o.team.run(o.backward.sortPhase)
	for o.backward.pass = range o.backward.passes {
		if o.backward.pass > 0 {
			o.team.run(o.backward.countPhase)
		}
		o.eachCut((*sorter).place)
		o.team.run(o.backward.movePhase)
		o.eachCut((*sorter).swap)
	}
	o.team.run(o.backward.sumPhase)
	if o.backward.found.runs.Load() > 0 {
		o.team.run(o.backward.blockPhase)
		o.team.run(o.backward.joinPhase)
	}
}

// adamStep holds the factors of Adam's current step.
func (o *Op) adamStep() f32.AdamStep {
	steps := float64(o.backward.steps)
	return f32.AdamStep{
		Beta1: beta1, Rest1: 1 - beta1,
		Beta2: beta2, Rest2: 1 - beta2,
		Step:      float32(float64(o.opt.LearningRate) / (1 - math.Pow(float64(beta1), steps))),
		RootScale: float32(1 / math.Sqrt(1-math.Pow(float64(beta2), steps))),
		Eps:       epsilon,
	}
}

// eachCut calls a function for each shard that is cut and has a current pass.
func (o *Op) eachCut(do func(*sorter)) {
	for _, c := range o.backward.cuts {
		if t := &o.shards[c.shard].sorter; c.segment == 0 && o.backward.pass < t.passes {
			do(t)
		}
	}
}

// runSort pairs and sorts whole shards. Of other shards, it pairs and counts the
// segments.
func (o *Op) runSort(int) {
	for i := range o.team.tasks(len(o.backward.cuts) + len(o.backward.whole)) {
		switch {
		case i < len(o.backward.cuts):
			c := o.backward.cuts[i]
			s := &o.shards[c.shard]
			s.pair(&s.sorter.segments[c.segment])
			if s.sorter.passes > 0 {
				s.sorter.count(c.segment, 0)
			}
		default:
			s := &o.shards[o.backward.whole[i-len(o.backward.cuts)]]
			s.pair(&s.sorter.segments[0])
			s.sorter.sort()
		}
	}
}

// pair computes the numbers to sort from the lookups of a segment.
func (s *shard) pair(g *segment) {
	pairs := s.sorter.from
	bag := g.bag
	for i := g.lo; i < g.hi; bag++ {
		end := min(s.Bags.Offsets[bag+1], g.hi)
		if s.bagOf == nil {
			for ; i < end; i++ {
				pairs[i] = uint64(s.Bags.Indices[i])<<32 | uint64(bag)
			}
			continue
		}
		for ; i < end; i++ {
			pairs[i] = uint64(s.Bags.Indices[i])<<32 | uint64(i)
			s.bagOf[i] = uint32(bag)
		}
	}
}

func (o *Op) runCount(int) {
	for i := range o.team.tasks(len(o.backward.cuts)) {
		if t := &o.shards[o.backward.cuts[i].shard].sorter; o.backward.pass < t.passes {
			t.count(o.backward.cuts[i].segment, o.backward.pass)
		}
	}
}

func (o *Op) runMove(int) {
	for i := range o.team.tasks(len(o.backward.cuts)) {
		if t := &o.shards[o.backward.cuts[i].shard].sorter; o.backward.pass < t.passes {
			t.move(o.backward.cuts[i].segment, o.backward.pass)
		}
	}
}

func (o *Op) runSums(thread int) {
	for i := range o.team.tasks(len(o.backward.ranges)) {
		r := &o.backward.ranges[i]
		o.sumRange(r, &o.backward.scratch[thread])
	}
}

// sumRange sums and updates the runs that begin in a range. It keeps those longer
// than a block for later.
func (o *Op) sumRange(r *pairRange, c *scratch) {
	pairs := o.shards[r.shard].sorter.from
	n := int64(len(pairs))
	i := r.lo
	if i > 0 {
		i = runEnd(pairs, i-1, r.hi) // a run that began before belongs to the range before
	}
	offsets := c.offsets[:0]
	for i < r.hi {
		start, row := i, pairs[i]>>32
		offsets = append(offsets, start)
		most := min(start+blockLookups, n)
		for i++; i < most && pairs[i]>>32 == row; i++ {
		}
		if i == most && i < n && pairs[i]>>32 == row {
			o.sumRuns(r.shard, offsets, c)
			offsets = offsets[:0]
			i = runEnd(pairs, start, n)
			o.keep(longRun{shard: r.shard, lo: start, hi: i})
		}
	}
	if len(offsets) > 0 {
		offsets = append(offsets, i)
		o.sumRuns(r.shard, offsets, c)
	}
}

// runEnd returns where the run of the sorted lookup i ends, but at most most. It
// doubles the distance until it is past the end and then searches between: O(log of
// the run's length).
func runEnd(pairs []uint64, i, most int64) int64 {
	row := pairs[i] >> 32
	lo, step := i, int64(1)
	for lo+step < most && pairs[lo+step]>>32 == row {
		lo += step
		step *= 2
	}
	hi := min(lo+step, most)
	// The run holds lo, and not hi.
	for lo+1 < hi {
		if middle := lo + (hi-lo)/2; pairs[middle]>>32 == row {
			lo = middle
		} else {
			hi = middle
		}
	}
	return hi
}

// keep keeps a long run and its blocks. Their places depend on the order of the
// threads; the results do not.
func (o *Op) keep(r longRun) {
	dim := int64(o.shards[r.shard].Dim)
	r.partials = (r.hi - r.lo + blockLookups - 1) / blockLookups
	r.at = o.backward.found.partials.Add(r.partials*dim) - r.partials*dim
	o.backward.runs[o.backward.found.runs.Add(1)-1] = r
	first := o.backward.found.blocks.Add(r.partials) - r.partials
	for k := range r.partials {
		lo := r.lo + k*blockLookups
		o.backward.blocks[first+k] = block{shard: r.shard, lo: lo, hi: min(lo+blockLookups, r.hi), at: r.at + k*dim}
	}
}

// gradients returns the gradients of the sorted lookups lo to hi, as a gather whose
// picks begin at the sorted lookup base.
func (s *shard) gather(lo, hi int64, c *scratch) (g f32.Gather, base int64) {
	g = f32.Gather{Table: s.gradients, Dim: s.Dim, Picks: s.sorter.from, Mask: 1<<32 - 1}
	if s.PerSample == nil {
		return g, 0
	}
	g.Picks, g.Weights = c.picks[:hi-lo], c.weights[:hi-lo]
	for i, pair := range s.sorter.from[lo:hi] {
		g.Picks[i] = uint64(s.bagOf[uint32(pair)])
		g.Weights[i] = s.PerSample[uint32(pair)]
	}
	return g, lo
}

// sumRuns sums and updates consecutive runs. It prefetches the weights of the next
// few runs while it sums a few. It changes the offsets.
func (o *Op) sumRuns(shard int, offsets []int64, c *scratch) {
	if len(offsets) < 2 {
		return
	}
	s := &o.shards[shard]
	g, base := s.gather(offsets[0], offsets[len(offsets)-1], c)
	pairs := s.sorter.from[base:]
	if base > 0 {
		for i := range offsets {
			offsets[i] -= base
		}
	}
	runs, batch := len(offsets)-1, batchOf(s.Dim)
	prefetch := func(lo int) {
		for _, at := range offsets[min(lo, runs):min(lo+batch, runs)] {
			o.prefetch(s, int(pairs[at]>>32))
		}
	}
	prefetch(0)
	for lo := 0; lo < runs; lo += batch {
		hi := min(lo+batch, runs)
		prefetch(hi)
		sums := c.sums[:(hi-lo)*s.Dim]
		g.Sum(offsets[lo:hi+1], sums)
		for r := lo; r < hi; r++ {
			o.update(s, int(pairs[offsets[r]]>>32), sums[(r-lo)*s.Dim:][:s.Dim])
		}
	}
}

func (o *Op) runBlocks(thread int) {
	c := &o.backward.scratch[thread]
	for i := range o.team.tasks(int(o.backward.found.blocks.Load())) {
		b := &o.backward.blocks[i]
		s := &o.shards[b.shard]
		g, base := s.gather(b.lo, b.hi, c)
		c.offsets[0], c.offsets[1] = b.lo-base, b.hi-base
		g.Sum(c.offsets[:2], o.backward.partials[b.at:][:s.Dim])
	}
}

func (o *Op) runJoins(int) {
	for i := range o.team.tasks(int(o.backward.found.runs.Load())) {
		r := &o.backward.runs[i]
		s := &o.shards[r.shard]
		parts := o.backward.partials[r.at:][:r.partials*int64(s.Dim)]
		sum := parts[:s.Dim]
		for at := s.Dim; at < len(parts); at += s.Dim {
			f32.Add(sum, parts[at:at+s.Dim])
		}
		o.update(s, int(s.sorter.from[r.lo]>>32), sum)
	}
}

// stateDim returns the number of state values of a row.
func (o *Op) stateDim(dim int) int { return int(o.opt.Optimizer.StateBytes(1, dim) / 4) }

// prefetch loads the cache lines that the update of a row needs.
func (o *Op) prefetch(s *shard, row int) {
	f32.Prefetch(s.Weights[row*s.Dim:][:s.Dim])
	if o.opt.Optimizer != problem.SGD {
		n := o.stateDim(s.Dim)
		f32.Prefetch(s.State[row*n:][:n])
	}
}

// update changes a row against its gradient.
func (o *Op) update(s *shard, row int, gradient []float32) {
	weights := s.Weights[row*s.Dim:][:s.Dim]
	rate := o.opt.LearningRate
	switch o.opt.Optimizer {
	case problem.SGD:
		f32.Axpy(-rate, gradient, weights)
	case problem.RowwiseAdagrad:
		s.State[row] += f32.Dot(gradient, gradient) / float32(s.Dim)
		root := float32(math.Sqrt(float64(s.State[row])))
		f32.Axpy(-rate/(root+epsilon), gradient, weights)
	case problem.Adagrad:
		f32.Adagrad(weights, gradient, s.State[row*s.Dim:][:s.Dim], rate, epsilon)
	case problem.Adam:
		state := s.State[row*2*s.Dim:][:2*s.Dim]
		o.backward.adam.Apply(weights, gradient, state[:s.Dim], state[s.Dim:])
	}
}
