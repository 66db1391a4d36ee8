package engine

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// A table of four rows and two bags. One bag reads row 2 twice.
func Example() {
	weights := []float32{
		0, 0, 0, 0,
		1, 1, 1, 1,
		2, 2, 2, 2,
		3, 3, 3, 3,
	}
	op, err := NewOp([]Shard{{
		Rows: 4, Dim: 4, Weights: weights,
		Bags: lookups.Bags{Indices: []int64{1, 3, 2, 2}, Offsets: []int64{0, 2, 4}},
	}}, Options{Optimizer: problem.SGD, LearningRate: 0.5})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer op.Close()

	op.Forward()
	fmt.Println("outputs", op.Output(0))
	copy(op.Gradient(0), []float32{1, 1, 1, 1, 2, 2, 2, 2})
	op.Backward()
	fmt.Println("row 2  ", weights[8:12]) // 2 - 0.5 (2 + 2)
	// Output:
	// outputs [4 4 4 4 4 4 4 4]
	// row 2   [0 0 0 0]
}

func ExampleArena() {
	arena := NewArena(unit.MiB)
	weights := arena.Floats(4 * 1000)
	clear(weights) // what an arena gives holds anything
	fmt.Println(len(weights))
	arena.Reset()
	// Output:
	// 4000
}

// good is a shard without fault.
func good() Shard {
	return Shard{
		Rows: 3, Dim: 4, Weights: make([]float32, 12),
		Bags: lookups.Bags{Indices: []int64{0, 2, 1}, Offsets: []int64{0, 1, 1, 3}},
	}
}

func TestNewOpErrors(t *testing.T) {
	for want, change := range map[string]func(*Shard, *Options){
		"shard 1: rows 0:":                  func(s *Shard, _ *Options) { s.Rows = 0 },
		"shard 1: rows 4294967297:":         func(s *Shard, _ *Options) { s.Rows = 1<<32 + 1 },
		"shard 1: dim 6:":                   func(s *Shard, _ *Options) { s.Dim = 6 },
		"shard 1: dim 32768:":               func(s *Shard, _ *Options) { s.Dim = 1 << 15 },
		"shard 1: 11 weights:":              func(s *Shard, _ *Options) { s.Weights = s.Weights[1:] },
		"shard 1: 3 numbers of state: sgd":  func(s *Shard, _ *Options) { s.State = make([]float32, 3) },
		"shard 0: 0 numbers of state: adam": func(_ *Shard, o *Options) { o.Optimizer = problem.Adam },
		"shard 1: 2 weights of lookups:":    func(s *Shard, _ *Options) { s.PerSample = make([]float32, 2) },
		"shard 1: no offsets":               func(s *Shard, _ *Options) { s.Bags.Offsets = nil },
		"shard 1: lookup 2: row 3":          func(s *Shard, _ *Options) { s.Bags.Indices[2] = 3 },
		"-1 threads of 1024":                func(_ *Shard, o *Options) { o.Threads = -1 },
		"1025 threads of 1024":              func(_ *Shard, o *Options) { o.Threads = 1025 },
		"1 threads of 1024, optimizer":      func(_ *Shard, o *Options) { o.Optimizer = 9 },
	} {
		shards := []Shard{good(), good()}
		opt := Options{Threads: 1}
		change(&shards[1], &opt)
		if op, err := NewOp(shards, opt); err == nil || op != nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want an error that begins with %q", err, want)
		}
	}
}

func TestArena(t *testing.T) {
	a := NewArena(1000)
	x := a.Floats(3)
	y := take[uint64](a, 5)
	first := &x[0]
	for i := range x {
		x[i] = 7
	}
	for i := range y {
		y[i] = 1<<64 - 1
	}
	if !slices.Equal(x, []float32{7, 7, 7}) {
		t.Errorf("two slices overlap: %v", x)
	}
	if a.Floats(0) != nil {
		t.Error("no numbers: got some")
	}
	a.Reset()
	if &a.Floats(3)[0] != first {
		t.Error("after Reset: got other memory, want the same")
	}
	// Growing keeps what was handed out.
	a.Reset()
	x = a.Floats(16)
	x[0] = 7
	big := a.Floats(1 << 16)
	big[0], big[len(big)-1] = 8, 8
	if x[0] != 7 {
		t.Errorf("after growing: got %v, want 7", x[0])
	}
	held := a.Bytes()
	a.Reset()
	a.Floats(1 << 16)
	a.Floats(16)
	if got := a.Bytes(); got > held+2*cacheLine || len(a.slabs) != 1 {
		t.Errorf("the same again: got %v in %d pieces, want at most %v in one", got, len(a.slabs), held)
	}
}

// Phases follow each other at once, and after pauses in which threads fall asleep;
// every task of each is done once.
func TestTeam(t *testing.T) {
	for _, size := range []int{1, 2, 3, 9} {
		team := newTeam(size)
		var threads atomic.Int64
		for round := range 200 {
			const n = 100
			var done [n]atomic.Int32
			team.run(func(thread int) {
				threads.Add(1 << thread)
				for i := range team.tasks(n) {
					done[i].Add(1)
				}
			})
			for i := range done {
				if got := done[i].Load(); got != 1 {
					t.Fatalf("size %d, round %d: task %d ran %d times", size, round, i, got)
				}
			}
			if want := int64(1)<<size - 1; threads.Swap(0) != want {
				t.Fatalf("size %d, round %d: not every thread ran once", size, round)
			}
			if round%50 == 49 {
				time.Sleep(5 * time.Millisecond)
			}
		}
		team.close()
	}
}

func TestCeilings(t *testing.T) {
	c := MeasureCeilings(2, 2*unit.MiB)
	for name, v := range map[string]float64{
		"copy": c.CopyGBps, "gather": c.GatherGBps, "cached gather": c.CachedGatherGBps, "sort": c.SortMkeys, "clock": c.ClockGHz,
	} {
		if !(v > 0) || math.IsInf(v, 0) {
			t.Errorf("%s: got %v, want a number above 0", name, v)
		}
	}
}
