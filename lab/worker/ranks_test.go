package worker

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
)

// newRanks returns ranks that end with the test.
func newRanks(t *testing.T) *ranks {
	t.Helper()
	g := &ranks{ctx: t.Context()}
	t.Cleanup(g.close)
	return g
}

// TestAllToAllTransposes: after the forward each rank has all columns of its samples, and after the
// backward all samples of its columns. Numbers that a half precision holds survive both.
func TestAllToAllTransposes(t *testing.T) {
	g := newRanks(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(t, "ranks")
		s := sizes{
			rapid.OneOf(rapid.IntRange(1, 23), rapid.Just(4096)).Draw(t, "batch"), // the latter is more than socket buffers hold
			rapid.SliceOfN(rapid.IntRange(0, 64), n, n).Draw(t, "dims"),
			rapid.SampledFrom([]problem.Precision{problem.FP32, problem.FP16, problem.BF16}).Draw(t, "precision"),
		}
		must.Do(t, g.connect(n))
		parts, memory := make([]*exchange, n), make([]byte, s.bytes())
		for r := range parts {
			parts[r], memory = newExchange(r, s, memory)
		}
		if len(memory) > 0 {
			t.Fatalf("%d bytes of memory are left", len(memory))
		}
		number := func(rank, sample, column int) uint32 { // a small whole number, as halves have it
			return math.Float32bits(float32((rank*61 + sample*31 + column*7) % 251))
		}
		// wide calls visit with each number of the matrices of own columns, and tall with each number
		// of the matrices of own samples.
		wide := func(visit func(place []byte, want uint32)) {
			for r, e := range parts {
				for i := 0; i < len(e.wide); i += element {
					visit(e.wide[i:], number(r, i/element/s.Dims[r], i/element%s.Dims[r]))
				}
			}
		}
		tall := func(visit func(place []byte, want uint32)) {
			for p, e := range parts {
				rest := e.tall
				from, to := share(s.Batch, n, p)
				for sample := from; sample < to; sample++ {
					for r, d := range s.Dims {
						for column := range d {
							visit(rest, number(r, sample, column))
							rest = rest[element:]
						}
					}
				}
			}
		}
		same := func(place []byte, want uint32) {
			if got := binary.LittleEndian.Uint32(place); got != want {
				t.Fatalf("got %v, want %v", math.Float32frombits(got), math.Float32frombits(want))
			}
		}
		wide(binary.LittleEndian.PutUint32)
		for _, backward := range []bool{false, true} {
			must.Get(g.run(parts, make([]time.Duration, n), backward))(t)
			if backward {
				wide(same)
				continue
			}
			tall(same)
			for _, e := range parts {
				clear(e.wide)
			}
		}
	})
}

// TestWaits: the time of a rank counts from its own start, so the forward of those that start early
// contains the wait for the last. With processor time no rank waits in fact.
func TestWaits(t *testing.T) {
	for _, processor := range []bool{false, hasProcessorTime} {
		late := 30 * time.Millisecond
		if processor {
			late = time.Hour
		}
		g := newRanks(t)
		g.processorTime = processor
		times := must.Get(g.allToAll(sizes{Batch: 32, Dims: []int{4, 4, 4}}, []time.Duration{0, late, 0}, 1, 3))(t)
		wait := late.Seconds() * 1e3
		for r := range 3 {
			if len(times.forward[r]) != 3 || len(times.backward[r]) != 3 {
				t.Fatalf("got %d and %d times, want 3", len(times.forward[r]), len(times.backward[r]))
			}
			forward, backward := slices.Min(times.forward[r]), slices.Min(times.backward[r])
			if waits := r != 1; waits != (forward >= wait) || !(forward > 0 && backward > 0) || backward >= wait {
				t.Errorf("processor %v, rank %d: got forward %v ms and backward %v ms, want the wait of %v ms in the forward of all but rank 1", processor, r, forward, backward, wait)
			}
		}
	}
}
