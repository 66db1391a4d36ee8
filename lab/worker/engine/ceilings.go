package engine

import (
	"math/rand/v2"
	"time"

	"github.com/neuroshard/neuroshard/internal/f32"
	"github.com/neuroshard/neuroshard/unit"
)

// Ceilings holds the highest rates that a machine reaches with a number of threads.
// GB is 10^9 bytes.
type Ceilings struct {
	// CopyGBps is the rate of a copy far larger than the caches: bytes read plus bytes
	// written.
	CopyGBps float64
	// GatherGBps is the rate of reading independent random rows of 256 bytes from a
	// buffer far larger than the caches of a core. CachedGatherGBps is the rate from a
	// buffer that fits into these caches.
	GatherGBps, CachedGatherGBps float64
	// SortMkeys is the number of (row, bag) pairs sorted by 20-bit row, in millions a
	// second.
	SortMkeys float64
	// ClockGHz is an estimate of the sustained clock of one core.
	ClockGHz float64
}

// MinCeilingBytes is the smallest buffer for measuring ceilings. With it, the rates
// are those of the caches, not of the memory.
const MinCeilingBytes = unit.MiB

// Every ceiling is the best of ceilingRepeats runs, each of some hundredths of a
// second, because other load on the machine must not lower it.
const ceilingRepeats = 12

const (
	gatherDim   = 64        // columns of the rows gathered: 256 bytes
	gatherRows  = 1 << 20   // of a pass, at most
	gatherPiece = 1024      // rows that a thread takes at once
	cachedBytes = 256 << 10 // of a thread: half of the smallest second-level cache of today's servers
	copyPiece   = 1 << 18   // numbers that a thread copies at once
	sortKeys    = 1 << 16   // of a thread
	sortRows    = 1 << 20
)

// MeasureCeilings measures the ceilings of 1 to MaxThreads threads, with a buffer of at least
// MinCeilingBytes for copies and random rows. With 1 GiB it takes two or three seconds.
func MeasureCeilings(threads int, size unit.Bytes) Ceilings {
	p := newProbe(threads, size, new(Arena))
	defer p.team.close()
	return Ceilings{
		CopyGBps:         2 * p.best(p.copy) * 4 * float64(len(p.buffer)/2) / 1e9,
		GatherGBps:       p.best(p.gather) * 4 * gatherDim * float64(len(p.picks)) / 1e9,
		CachedGatherGBps: p.best(p.cached) * 4 * gatherDim * float64(len(p.picks)) / 1e9,
		SortMkeys:        p.best(p.sort) * sortKeys * float64(threads) / 1e6,
		ClockGHz:         p.best(p.multiply) * cyclesPerMultiply * multiplies / 1e9,
	}
}

// probe holds the buffers that the ceilings are measured with.
type probe struct {
	team   *team
	buffer []float32
	picks  []uint64
	lanes  []lane
	random *rand.Rand
}

// lane is the memory of one thread.
type lane struct {
	sum          [gatherDim]float32
	cached       []float32
	unsorted     []uint64
	sorter       sorter
	multiplicand uint64
	_            [cacheLine]byte
}

func newProbe(threads int, size unit.Bytes, arena *Arena) *probe {
	p := &probe{random: rand.New(rand.NewPCG(1, 1)), lanes: make([]lane, threads)}
	p.buffer = take[float32](arena, int64(size)/4)
	p.picks = take[uint64](arena, int64(min(len(p.buffer)/gatherDim, gatherRows)))
	digit, passes := digits(sortKeys, rowBits(sortRows))
	for i := range p.lanes {
		l := &p.lanes[i]
		l.cached = take[float32](arena, cachedBytes/4)
		l.unsorted = take[uint64](arena, sortKeys)
		for k := range l.unsorted {
			l.unsorted[k] = p.random.Uint64N(sortRows)<<32 | uint64(k)
		}
		l.sorter = sorter{
			digit: digit, passes: passes, from: take[uint64](arena, sortKeys), to: take[uint64](arena, sortKeys),
			segments: []segment{{hi: sortKeys, counts: takeCounts(arena)}},
		}
		l.multiplicand = 0x9e3779b97f4a7c15
	}
	p.team = newTeam(threads)
	// Memory is allocated when it is first written. Numbers that are added for a
	// second must not become infinite or tiny, because those are slow on some
	// processors.
	clear(p.buffer)
	for i := range p.lanes {
		clear(p.lanes[i].cached)
	}
	return p
}

// best returns the highest number of runs a second. Every thread runs the function
// that prepare returns.
func (p *probe) best(prepare func() (phase func(thread int))) float64 {
	least := time.Duration(1<<63 - 1)
	for range ceilingRepeats {
		phase := prepare()
		start := time.Now()
		p.team.run(phase)
		least = min(least, time.Since(start))
	}
	return 1 / max(least, 1).Seconds()
}

func (p *probe) copy() func(int) {
	half := len(p.buffer) / 2
	from, to := p.buffer[:half], p.buffer[half:]
	return func(int) {
		for i := range p.team.tasks((half + copyPiece - 1) / copyPiece) {
			copy(to[i*copyPiece:min((i+1)*copyPiece, half)], from[i*copyPiece:])
		}
	}
}

// draw draws new rows for each pass, so that no pass finds its rows in the caches.
func (p *probe) draw(rows int) {
	for i := range p.picks {
		p.picks[i] = p.random.Uint64N(uint64(rows))
	}
}

func (p *probe) gather() func(int) {
	p.draw(len(p.buffer) / gatherDim)
	return p.gatherPieces(func(int) []float32 { return p.buffer })
}

func (p *probe) cached() func(int) {
	p.draw(cachedBytes / 4 / gatherDim)
	return p.gatherPieces(func(thread int) []float32 { return p.lanes[thread].cached })
}

// gatherPieces sums the picked rows of a table, a piece of them at a time, without
// bags.
func (p *probe) gatherPieces(table func(thread int) []float32) func(int) {
	return func(thread int) {
		g := f32.Gather{Table: table(thread), Dim: gatherDim, Mask: ^uint64(0)}
		for i := range p.team.tasks((len(p.picks) + gatherPiece - 1) / gatherPiece) {
			g.Picks = p.picks[i*gatherPiece : min((i+1)*gatherPiece, len(p.picks))]
			g.Sum([]int64{0, int64(len(g.Picks))}, p.lanes[thread].sum[:])
		}
	}
}

func (p *probe) sort() func(int) {
	for i := range p.lanes {
		copy(p.lanes[i].sorter.from, p.lanes[i].unsorted)
	}
	return func(thread int) { p.lanes[thread].sorter.sort() }
}

// The clock rate follows from a chain of multiplications, where each one waits for
// the one before: a multiplication takes three cycles on every amd64 processor of
// the last decade and on most arm64 processors.
const (
	cyclesPerMultiply = 3
	multiplies        = 8 << 20
)

func (p *probe) multiply() func(int) {
	return func(thread int) {
		if thread > 0 {
			return // the rate is that of one core; it may be lower while other cores work
		}
		x := p.lanes[thread].multiplicand
		y := x
		for range multiplies / 8 {
			y *= x
			y *= x
			y *= x
			y *= x
			y *= x
			y *= x
			y *= x
			y *= x
		}
		p.lanes[thread].multiplicand = y | 1 // the result is used, so that the compiler keeps the loop
	}
}
