package worker

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/neuroshard/neuroshard/lab/protocol"
)

// ranks is the set of rank processes of all-to-alls, each connected to each. They
// are started when first needed, kept for the next exchange, and all replaced if
// one of them fails.
type ranks struct {
	start func(context.Context) *exec.Cmd
	log   io.Writer
	// processorTime is that of Options.
	processorTime bool
	// lifetime is the context of the worker: when it ends, the ranks end.
	lifetime context.Context
	// held is the size of the ranks' buffers in bytes.
	held int64

	processes []*process
	addrs     []string
	token     []byte
	replies   chan reply
	run       uint64
	// margin is the time between an order and the start in it, so that the order
	// reaches every rank before the start.
	margin time.Duration
}

// process is one rank process.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	// ended is closed when the process writes no more.
	ended chan struct{}
}

type reply struct {
	rank int
	answer
	err error
}

const (
	// The margin begins at firstMargin and doubles while an order reaches a rank too
	// late. Beyond largestMargin the machine is too busy to measure. Two cores under a load
	// of 12 were too late for a margin of 500 ms.
	firstMargin   = time.Millisecond
	largestMargin = 8 * time.Second
	// patience is the longest time that a rank may take to answer, in addition to the
	// wait in its order: an exchange of several GiB takes seconds.
	patience = 30 * time.Second
	// farewell is the longest time that a rank may take to end by itself.
	farewell = time.Second
)

// exchangeTimes holds the times of every repeat in ms: forward[rank][repeat].
type exchangeTimes struct{ forward, backward [][]float64 }

// allToAll measures the exchange: at least one run that is checked but not timed,
// then the repeats. Ranks that have died since the last exchange are replaced.
// start holds the time when each rank is ready for its forward.
func (g *ranks) allToAll(s sizes, start []time.Duration, warmup, repeats int) (exchangeTimes, error) {
	times, err := g.attempt(s, start, warmup, repeats)
	if _, answered := errors.AsType[*protocol.Error](err); err == nil || answered || g.lifetime.Err() != nil {
		return times, err
	}
	fmt.Fprintf(g.log, "worker: %v; starting the ranks again\n", err)
	return g.attempt(s, start, warmup, repeats)
}

// attempt is allToAll without the second try. After an error no rank is running.
func (g *ranks) attempt(s sizes, start []time.Duration, warmup, repeats int) (times exchangeTimes, err error) {
	defer func() {
		if err != nil {
			g.kill()
		}
	}()
	n := len(s.Dims)
	if err := g.grow(n); err != nil {
		return times, err
	}
	prepare := func(int) order {
		return order{Do: doPrepare, Batch: s.Batch, Dims: s.Dims, Precision: s.Precision.String()}
	}
	if _, err := g.each(0, n, 0, prepare); err != nil {
		return times, err
	}
	g.held = max(g.held, s.bytes())

	longest := time.Duration(0)
	for _, at := range start {
		longest = max(longest, at)
	}
	times.forward, times.backward = make([][]float64, n), make([][]float64, n)
	for i := range max(1, warmup) + repeats {
		for _, backward := range []bool{false, true} {
			if i == 0 {
				if _, err := g.each(0, n, 0, func(int) order { return order{Do: doFill, Backward: backward} }); err != nil {
					return times, err
				}
			}
			offsets, into := start, times.forward
			if backward {
				offsets, into = make([]time.Duration, n), times.backward
			}
			took, err := g.punctual(offsets, longest, backward)
			if err != nil {
				return times, err
			}
			if i == 0 {
				if _, err := g.each(0, n, 0, func(int) order { return order{Do: doVerify, Backward: backward} }); err != nil {
					return times, err
				}
			}
			if i >= max(1, warmup) {
				for r, a := range took {
					into[r] = append(into[r], float64(a.NS)/1e6)
				}
			}
		}
	}
	return times, nil
}

// punctual runs one direction, and returns the times from each rank's start. If a rank gets its order too late, punctual repeats
// the run with later starts.
func (g *ranks) punctual(offsets []time.Duration, longest time.Duration, backward bool) ([]answer, error) {
	for {
		g.run++
		base := now() + g.margin.Nanoseconds()
		took, err := g.each(0, len(offsets), longest, func(r int) order {
			if g.processorTime {
				return order{Do: doRun, Run: g.run, Processor: true, Backward: backward}
			}
			return order{Do: doRun, Run: g.run, At: base + offsets[r].Nanoseconds(), Backward: backward}
		})
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(took, func(a answer) bool { return a.Late }) {
			g.addWaits(took, offsets)
			return took, nil
		}
		if g.margin *= 2; g.margin > largestMargin {
			g.margin = firstMargin
			return nil, &protocol.Error{Code: protocol.CodeDrift, Message: fmt.Sprintf(
				"ranks do not start within %v: the machine is too busy to measure an all-to-all of %d ranks", largestMargin, len(offsets))}
		}
	}
}

// addWaits adds to processor times the wait of each rank for the one that starts last.
func (g *ranks) addWaits(took []answer, offsets []time.Duration) {
	for r := range took {
		if g.processorTime {
			took[r].NS += (slices.Max(offsets) - offsets[r]).Nanoseconds()
		}
	}
}

// grow starts ranks until there are n, and connects the new ones to all others.
func (g *ranks) grow(n int) error {
	if g.token == nil {
		g.token = make([]byte, tokenBytes)
		_, _ = rand.Read(g.token) // never fails
		g.replies = make(chan reply)
		g.margin = firstMargin
	}
	from := len(g.processes)
	if from >= n {
		return nil
	}
	for r := from; r < n; r++ {
		if err := g.add(r); err != nil {
			return fmt.Errorf("rank %d does not start: %w", r, err)
		}
	}
	doors, err := g.each(from, n, 0, func(r int) order { return order{Do: doListen, Rank: r, Token: g.token} })
	if err != nil {
		return err
	}
	for _, door := range doors {
		g.addrs = append(g.addrs, door.Addr)
	}
	_, err = g.each(from, n, 0, func(r int) order { return order{Do: doDial, Addrs: g.addrs[:r]} })
	return err
}

// add starts the process of rank r.
func (g *ranks) add(r int) error {
	cmd := g.start(g.lifetime)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if cmd.Stderr == nil {
		cmd.Stderr = g.log
	}
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = farewell
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{cmd: cmd, in: in, ended: make(chan struct{})}
	g.processes = append(g.processes, p)
	go p.listen(r, out, g.replies)
	return nil
}

// listen passes on the output of rank r's process, and its end, as long as the
// output is wanted.
func (p *process) listen(r int, out io.Reader, replies chan<- reply) {
	defer close(p.ended)
	lines := protocol.NewReader(out)
	for {
		line, err := lines.Line()
		said := reply{rank: r}
		if err == nil {
			err = json.Unmarshal(line, &said.answer)
		}
		if err != nil {
			said.err = fmt.Errorf("rank %d ended: %w", r, err)
		} else if said.Error != "" {
			said.err = fmt.Errorf("rank %d: %s", r, said.Error)
		}
		replies <- said
		if err != nil {
			return
		}
	}
}

// each sends its order to every rank of [from, to) and returns the answers by rank.
// It returns at the first failure. Other ranks may then still be running, so the
// caller must kill them.
func (g *ranks) each(from, to int, wait time.Duration, what func(rank int) order) ([]answer, error) {
	for r := from; r < to; r++ {
		if err := protocol.Write(g.processes[r].in, what(r)); err != nil {
			return nil, fmt.Errorf("rank %d: %w", r, err)
		}
	}
	deadline := time.NewTimer(patience + wait)
	defer deadline.Stop()
	answers := make([]answer, to-from)
	for range answers {
		select {
		case said := <-g.replies:
			if said.err != nil {
				return nil, said.err
			}
			if said.rank < from || said.rank >= to {
				return nil, fmt.Errorf("rank %d answers without an order", said.rank)
			}
			answers[said.rank-from] = said.answer
		case <-deadline.C:
			return nil, &protocol.Error{Code: protocol.CodeTimeout, Message: fmt.Sprintf("ranks of an all-to-all took longer than %v", patience+wait)}
		case <-g.lifetime.Done():
			return nil, context.Cause(g.lifetime)
		}
	}
	return answers, nil
}

// release makes the ranks free their buffers.
func (g *ranks) release() {
	if g.held == 0 {
		return
	}
	g.held = 0
	if _, err := g.each(0, len(g.processes), 0, func(int) order { return order{Do: doPrepare} }); err != nil {
		fmt.Fprintf(g.log, "worker: %v; the ranks are ended\n", err)
		g.kill()
	}
}

// close lets the ranks end by themselves, and kills those that do not.
func (g *ranks) close() { g.end(farewell) }

// kill ends the ranks at once.
func (g *ranks) kill() { g.end(0) }

// end closes the input of the ranks, which makes them end, waits for patience,
// kills those that still run, and waits for all.
func (g *ranks) end(patience time.Duration) {
	gone := make(chan struct{})
	over := make(chan struct{})
	go func() { // unblocks the ranks that still write
		defer close(over)
		for {
			select {
			case <-g.replies:
			case <-gone:
				return
			}
		}
	}()
	for _, p := range g.processes {
		shut(p.in)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for _, p := range g.processes {
		if patience > 0 {
			select {
			case <-p.ended:
				continue
			case <-timer.C:
				patience = 0
			}
		}
		// It fails if the process has just ended.
		_ = p.cmd.Process.Kill()
	}
	for _, p := range g.processes {
		<-p.ended
		// The exit status of a rank does not matter here: its failure was reported
		// before.
		_ = p.cmd.Wait()
	}
	close(gone)
	<-over
	g.processes, g.addrs, g.held = nil, nil, 0
}

// shared is a writer for several processes, one at a time.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// logTo returns w for the use by several processes; the processes get a file
// directly.
func logTo(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	if f, ok := w.(*os.File); ok {
		return f
	}
	return &shared{w: w}
}
