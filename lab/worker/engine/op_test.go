package engine

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
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
	fmt.Println(len(weights), arena.Used())
	arena.Reset()
	fmt.Println(arena.Used())
	// Output:
	// 4000 15.6 KiB
	// 0 B
}

// good is a shard without fault.
func good() Shard {
	return Shard{
		Rows: 3, Dim: 4, Weights: make([]float32, 12),
		Bags: lookups.Bags{Indices: []int64{0, 2, 1}, Offsets: []int64{0, 1, 1, 3}},
	}
}

func TestNewOpErrors(t *testing.T) {
	for _, c := range []struct {
		change func(*Shard, *Options)
		want   string
	}{
		{func(s *Shard, _ *Options) { s.Rows = 0 }, "shard 1: rows 0: want 1 to 4294967296"},
		{func(s *Shard, _ *Options) { s.Rows = 1<<32 + 1 }, "shard 1: rows 4294967297: want"},
		{func(s *Shard, _ *Options) { s.Dim = 6 }, "shard 1: dim 6: want a multiple of 4 from 4 to 16384"},
		{func(s *Shard, _ *Options) { s.Dim = 0 }, "shard 1: dim 0: want"},
		{func(s *Shard, _ *Options) { s.Dim = -4 }, "shard 1: dim -4: want"},
		{func(s *Shard, _ *Options) { s.Dim = 1 << 15 }, "shard 1: dim 32768: want"},
		{func(s *Shard, _ *Options) { s.Weights = s.Weights[1:] }, "shard 1: 11 weights: want rows 3 times dim 4, 12"},
		{func(s *Shard, _ *Options) { s.State = make([]float32, 3) }, "shard 1: 3 numbers of state: sgd wants 0"},
		{func(_ *Shard, o *Options) { o.Optimizer = problem.Adam }, "shard 1: 0 numbers of state: adam wants 24"},
		{func(s *Shard, _ *Options) { s.PerSample = make([]float32, 2) }, "shard 1: 2 weights of lookups: want one for each of 3 lookups"},
		{func(s *Shard, _ *Options) { s.Bags.Offsets = nil }, "shard 1: no offsets: want one more than there are bags"},
		{func(s *Shard, _ *Options) { s.Bags.Offsets[0] = 1 }, "shard 1: offset 0 is 1: want 0"},
		{func(s *Shard, _ *Options) { s.Bags.Offsets[1] = 4 }, "shard 1: offset 2 is 1, below 4 before it"},
		{func(s *Shard, _ *Options) { s.Bags.Offsets[3] = 2 }, "shard 1: the last offset is 2: want the number of lookups, 3"},
		{func(s *Shard, _ *Options) { s.Bags.Indices[2] = 3 }, "shard 1: index 2 is row 3: want 0 to 2"},
		{func(s *Shard, _ *Options) { s.Bags.Indices[1] = -1 }, "shard 1: index 1 is row -1: want 0 to 2"},
		{func(_ *Shard, o *Options) { o.Threads = -1 }, "threads -1: want 1 to 1024, or 0 for all processors"},
		{func(_ *Shard, o *Options) { o.Threads = 1025 }, "threads 1025: want"},
		{func(_ *Shard, o *Options) { o.Optimizer = 9 }, "optimizer 9 is unknown"},
		{func(_ *Shard, o *Options) { o.LearningRate = -1 }, "learning rate -1: want a number above 0"},
		{func(_ *Shard, o *Options) { o.Epsilon = float32(math.NaN()) }, "epsilon NaN: want"},
		{func(_ *Shard, o *Options) { o.Beta1 = 1 }, "beta1 1: want"},
		{func(_ *Shard, o *Options) { o.Beta2 = float32(math.Inf(1)) }, "beta2 +Inf: want"},
	} {
		shards := []Shard{good(), good()}
		if c.want == "shard 1: 0 numbers of state: adam wants 24" {
			shards[0].State = make([]float32, 24)
		}
		var opt Options
		c.change(&shards[1], &opt)
		op, err := NewOp(shards, opt)
		if err == nil || op != nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want an error that begins with %q", err, c.want)
		}
	}
}

func TestNewOpAllErrors(t *testing.T) {
	a, b := good(), good()
	a.Dim, b.Bags.Indices[0] = 7, 9
	_, err := NewOp([]Shard{a, good(), b}, Options{})
	if want := "shard 0: dim 7: want a multiple of 4 from 4 to 16384\nshard 2: index 0 is row 9: want 0 to 2"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestNoShards(t *testing.T) {
	op, err := NewOp(nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	op.Forward()
	op.Backward()
	op.Close()
	op.Close()
}

func TestOpBytes(t *testing.T) {
	s := good()
	op, err := NewOp([]Shard{s}, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer op.Close()
	// Outputs and gradients of 3 bags of 4 numbers, and 2 numbers of 8 bytes for each
	// lookup, all in whole cache lines.
	if got := op.Bytes(); got < 4*64 || got > 64*unit.KiB {
		t.Errorf("got %v, want a little more than 256 B", got)
	}
	if len(op.Output(0)) != 12 || len(op.Gradient(0)) != 12 {
		t.Errorf("got %d outputs, %d gradients, want 12 of each", len(op.Output(0)), len(op.Gradient(0)))
	}
}

func TestArena(t *testing.T) {
	a := NewArena(1000)
	x := a.Floats(3)
	y := take[uint64](a, 5)
	if got, want := a.Used(), unit.Bytes(128); got != want {
		t.Errorf("used: got %v, want %v", got, want)
	}
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
				for {
					i, ok := team.claim(n)
					if !ok {
						return
					}
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
	c, err := MeasureCeilings(CeilingOptions{Threads: 2, Bytes: 2 * unit.MiB})
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]float64{
		"copy": c.CopyGBps, "gather": c.GatherGBps, "cached gather": c.CachedGatherGBps, "sort": c.SortMkeys, "clock": c.ClockGHz,
	} {
		if !(v > 0) || math.IsInf(v, 0) {
			t.Errorf("%s: got %v, want a number above 0", name, v)
		}
	}
	if c.Threads != 2 || c.LastLevelCache != DefaultCache {
		t.Errorf("got %d threads and a cache of %v, want 2 and %v", c.Threads, c.LastLevelCache, DefaultCache)
	}
}

func TestCeilingsErrors(t *testing.T) {
	for want, opt := range map[string]CeilingOptions{
		"threads -1: want 1 to 1024, or 0 for all processors":        {Threads: -1},
		"a buffer of 1000 bytes is too small: want at least 1048576": {Bytes: 1000},
		"a buffer of -1 bytes is too small: want at least 1048576":   {Bytes: -1},
		"threads 1000000: want 1 to 1024, or 0 for all processors":   {Threads: 1_000_000},
	} {
		if _, err := MeasureCeilings(opt); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestLastLevelCache(t *testing.T) {
	files := func(pairs ...string) fstest.MapFS {
		m := fstest.MapFS{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1] + "\n")}
		}
		return m
	}
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  unit.Bytes
	}{
		"three levels": {files(
			"index0/level", "1", "index0/type", "Data", "index0/size", "48K",
			"index1/level", "1", "index1/type", "Instruction", "index1/size", "64K",
			"index2/level", "2", "index2/type", "Unified", "index2/size", "2048K",
			"index3/level", "3", "index3/type", "Unified", "index3/size", "36M",
		), 36 * unit.MiB},
		"instructions do not count": {files(
			"index0/level", "1", "index0/type", "Data", "index0/size", "32K",
			"index1/level", "2", "index1/type", "Instruction", "index1/size", "64K",
		), 32 * unit.KiB},
		"nothing":        {files(), DefaultCache},
		"rubbish":        {files("index0/level", "x", "index0/type", "Data", "index0/size", "9K"), DefaultCache},
		"rubbish size":   {files("index0/level", "1", "index0/type", "Data", "index0/size", "-9K"), DefaultCache},
		"size is lost":   {files("index0/level", "1", "index0/type", "Data"), DefaultCache},
		"size is absurd": {files("index0/level", "1", "index0/type", "Data", "index0/size", "99999999999999999999K"), DefaultCache},
	} {
		if got := LastLevelCache(c.files); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func FuzzLastLevelCache(f *testing.F) {
	f.Add("3", "Unified", "491520K")
	f.Add("", "Data", "M")
	f.Fuzz(func(t *testing.T, level, kind, size string) {
		got := LastLevelCache(fstest.MapFS{
			"index0/level": {Data: []byte(level)}, "index0/type": {Data: []byte(kind)}, "index0/size": {Data: []byte(size)},
		})
		if got <= 0 {
			t.Errorf("got %d, want a size", int64(got))
		}
	})
}

// A mate that ends its phase before the starter looks who is asleep is woken for
// nothing, and must not take that for a phase.
func TestTeamWokenForNothing(t *testing.T) {
	team := newTeam(2)
	m := &team.mates[0]
	falls := func() {
		for start := time.Now(); !m.asleep.Load(); time.Sleep(100 * time.Microsecond) {
			if time.Since(start) > time.Minute {
				t.Fatal("the mate does not fall asleep")
			}
		}
	}
	var ran atomic.Int32
	for range 20 {
		falls()
		if m.asleep.CompareAndSwap(true, false) {
			m.wake <- struct{}{} // as a late starter does
		}
		falls()
		ran.Store(0)
		team.run(func(thread int) { ran.Add(int32(thread)) })
		if got := ran.Load(); got != 1 {
			t.Fatalf("the mate ran the phase %d times, want once", got)
		}
	}
	team.close()
}
