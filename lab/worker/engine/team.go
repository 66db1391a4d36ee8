package engine

import (
	"iter"
	"runtime"
	"sync/atomic"
)

// team runs phases on several goroutines: the caller's and those that it started. A
// phase begins about a microsecond after the one before, because the goroutines
// poll for it a while before they sleep. A phase consists of tasks, which the
// threads claim one by one.
type team struct {
	mates []mate
	// phase is the function to run; nil ends the goroutines. generation counts the
	// phases, and busy counts the mates that have not ended the current one.
	phase      func(thread int)
	_          [cacheLine]byte
	generation atomic.Uint32
	_          [cacheLine]byte
	busy       atomic.Int32
	_          [cacheLine]byte
	next       atomic.Int64 // the phase's next task
	_          [cacheLine]byte
}

type mate struct {
	asleep atomic.Bool
	wake   chan struct{}
	_      [cacheLine]byte
}

// Polling takes about 50 microseconds, longer than the pauses inside an op. Between
// polls other goroutines get the processor: the end of the phase may depend on
// them.
const (
	looks       = 300
	looksAtOnce = 64
)

func newTeam(size int) *team {
	t := &team{mates: make([]mate, size-1)}
	for i := range t.mates {
		t.mates[i].wake = make(chan struct{}, 1)
		go t.follow(i)
	}
	return t
}

// run runs a phase on every thread and returns when all have ended it.
func (t *team) run(phase func(thread int)) {
	t.next.Store(0)
	t.start(phase)
	phase(0)
	for looked := 0; t.busy.Load() != 0; looked++ {
		if looked%looksAtOnce == looksAtOnce-1 {
			runtime.Gosched()
		}
	}
}

// tasks are those of the phase's n tasks that the calling thread claims, until none is left.
func (t *team) tasks(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := int(t.next.Add(1)) - 1; i < n && yield(i); i = int(t.next.Add(1)) - 1 {
		}
	}
}

func (t *team) start(phase func(thread int)) {
	t.phase = phase
	t.busy.Store(int32(len(t.mates)))
	t.generation.Add(1)
	for i := range t.mates {
		if m := &t.mates[i]; m.asleep.CompareAndSwap(true, false) {
			m.wake <- struct{}{}
		}
	}
}

// close ends the goroutines.
func (t *team) close() { t.start(nil) }

func (t *team) follow(i int) {
	for seen := uint32(0); ; seen++ {
		t.await(seen, &t.mates[i])
		phase := t.phase
		if phase == nil {
			return
		}
		phase(i + 1)
		t.busy.Add(-1)
	}
}

// await returns when the generation is no longer the given one.
func (t *team) await(seen uint32, m *mate) {
	for {
		for range looks {
			for range looksAtOnce {
				if t.generation.Load() != seen {
					return
				}
			}
			runtime.Gosched()
		}
		// The starter of a phase raises the generation first and then wakes the sleepers.
		// So either await sees the new generation, or the starter sees the sleeper. Both
		// may happen: a mate that ran the phase before its starter looked is woken
		// without a new phase, and polls again.
		m.asleep.Store(true)
		if t.generation.Load() != seen && m.asleep.CompareAndSwap(true, false) {
			return
		}
		<-m.wake
	}
}
