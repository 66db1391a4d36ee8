package worker

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// ranks runs all-to-alls between ranks that are goroutines of this process, each connected to each
// over the loopback address. The zero value has no ranks; they are connected when first needed.
type ranks struct {
	// ctx ends a rank that waits for its start.
	ctx context.Context
	// processorTime is that of Options.
	processorTime bool
	// memory is that of the exchanges, kept for the next one.
	memory []byte
	// peers[r][p] is the end of rank r of its connection with rank p.
	peers [][]net.Conn
}

// exchangeTimes holds the times of every repeat in ms: forward[rank][repeat].
type exchangeTimes struct{ forward, backward [][]float64 }

// margin is the time between the order of a run and its start.
const margin = time.Millisecond

// allToAll measures the exchange: the warm-ups, then the repeats. start holds the time when each
// rank is ready for its forward; the backward starts aligned.
func (g *ranks) allToAll(s sizes, start []time.Duration, warmup, repeats int) (exchangeTimes, error) {
	n := len(s.Dims)
	times := exchangeTimes{make([][]float64, n), make([][]float64, n)}
	if err := g.connect(n); err != nil {
		return times, err
	}
	if need := int(s.bytes()); need > len(g.memory) {
		g.memory = nil
		runtime.GC()
		g.memory = make([]byte, need)
	}
	parts, rest := make([]*exchange, n), g.memory
	for r := range parts {
		parts[r], rest = newExchange(r, s, rest)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	aligned := make([]time.Duration, n)
	for i := range warmup + repeats {
		for _, backward := range []bool{false, true} {
			offsets, into := start, times.forward
			if backward {
				offsets, into = aligned, times.backward
			}
			took, err := g.run(parts, offsets, backward)
			if err != nil {
				g.close()
				g.peers = nil
				return times, err
			}
			for r := range took {
				if i >= warmup {
					into[r] = append(into[r], took[r].Seconds()*1e3)
				}
			}
		}
	}
	return times, nil
}

// run makes one all-to-all, and returns the time of each rank from its own start. A rank has a
// goroutine that packs and sends and another that receives and unpacks. In step i, each sends to
// the rank i after it and receives from the rank i before it, so no two wait for each other.
func (g *ranks) run(parts []*exchange, offsets []time.Duration, backward bool) ([]time.Duration, error) {
	n := len(parts)
	base := now() + margin
	var running sync.WaitGroup
	side := func(r int, took *time.Duration, failed *error, step func(i int) error) {
		running.Go(func() {
			clock, start := now, base+offsets[r]
			if g.processorTime {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				clock, start = threadTime, threadTime()
			} else if *failed = waitUntil(g.ctx, start); *failed != nil {
				g.close()
				return
			}
			for i := range n {
				if err := step(i); err != nil {
					*failed = err
					g.close() // so that no peer waits for this rank
					return
				}
			}
			*took = clock() - start
		})
	}
	sent, received, failed := make([]time.Duration, n), make([]time.Duration, n), make([]error, 2*n)
	for r, e := range parts {
		side(r, &sent[r], &failed[r], func(i int) error {
			p := (r + i + 1) % n
			e.pack(p, backward)
			if p == r {
				e.unpack(r, backward)
				return nil
			}
			_, err := g.peers[r][p].Write(e.sent(p, backward))
			return err
		})
		side(r, &received[r], &failed[n+r], func(i int) error {
			p := (r - i - 1 + n) % n
			if p == r {
				return nil
			}
			_, err := io.ReadFull(g.peers[r][p], e.received(p, backward))
			e.unpack(p, backward)
			return err
		})
	}
	running.Wait()
	if g.ctx.Err() != nil {
		return nil, context.Cause(g.ctx)
	}
	for r := range sent {
		if g.processorTime { // no rank waited for the one that starts last
			sent[r] += received[r] + slices.Max(offsets) - offsets[r]
		} else {
			sent[r] = max(sent[r], received[r])
		}
	}
	return sent, errors.Join(failed...)
}

// lastMoment is the time before a start at which a rank stops using the runtime's timers, which
// may be late by milliseconds.
const lastMoment = 10 * time.Millisecond

// waitUntil returns at a time of the clock now, or when the context ends.
func waitUntil(ctx context.Context, at time.Duration) error {
	if far := at - now() - lastMoment; far > 0 {
		select {
		case <-time.After(far):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	sleepUntil(at)
	return nil
}

// connect connects n ranks, each with each, unless they are.
func (g *ranks) connect(n int) error {
	if len(g.peers) >= n {
		return nil
	}
	g.close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer shut(listener)
	g.peers = make([][]net.Conn, n)
	for r := range g.peers {
		g.peers[r] = make([]net.Conn, n)
		for p := range r {
			if g.peers[r][p], g.peers[p][r], err = pair(listener); err != nil {
				g.close()
				return err
			}
		}
	}
	return nil
}

// pair returns both ends of a new connection. Other programs that dial the listener are refused.
func pair(listener net.Listener) (a, b net.Conn, err error) {
	if a, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		return nil, nil, err
	}
	for {
		if b, err = listener.Accept(); err != nil {
			shut(a)
			return nil, nil, err
		}
		if b.RemoteAddr().String() == a.LocalAddr().String() {
			return a, b, nil
		}
		shut(b)
	}
}

// close closes the connections.
func (g *ranks) close() {
	for _, ends := range g.peers {
		for _, c := range ends {
			if c != nil {
				shut(c)
			}
		}
	}
}

// shut closes something that is no longer used, so its error does not matter.
func shut(c io.Closer) { _ = c.Close() }
