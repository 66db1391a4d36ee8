package worker

import (
	"context"
	"crypto/subtle"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/neuroshard/neuroshard/lab/protocol"
)

// An order is a message from the worker to a rank, one line of JSON; the rank
// answers each. Both sides are the same program, so the orders are not a public
// protocol.
type order struct {
	Do string
	// Rank is the number of the rank, and Token the token that its peers must send
	// (listen).
	Rank  int
	Token []byte
	// Addrs are the addresses of the ranks below this one, by number (dial).
	Addrs []string
	// Batch, Dims and Precision are the sizes of the next exchanges; without dims, the
	// rank frees its memory (prepare).
	Batch     int
	Dims      []int
	Precision string `json:",omitempty"`
	// Run is the number of the run, and At the time when it starts for this rank, on
	// the clock of now (run).
	Run uint64
	At  int64
	// Processor says to start at once and to answer with the processor time of the run (run).
	Processor bool `json:",omitempty"`
	// Backward is the direction (fill, run, verify).
	Backward bool
}

// These are the orders, in the order in which a worker sends them.
const (
	doListen  = "listen"
	doDial    = "dial"
	doPrepare = "prepare"
	doFill    = "fill"
	doRun     = "run"
	doVerify  = "verify"
)

type answer struct {
	// Addr is the address at which the rank listens (listen).
	Addr string `json:",omitempty"`
	// NS is the time from At until all data had arrived, or the processor time of the run. Late is true if the order
	// came after At; the run then does not count (run).
	NS   int64 `json:",omitempty"`
	Late bool  `json:",omitempty"`
	// Error is the reason of a failure.
	Error string `json:",omitempty"`
}

const tokenBytes = 32

// handshake is the longest time that ranks may take to connect.
const handshake = 10 * time.Second

// lastMoment returns the time before its start at which a rank stops using the runtime's
// timers, which may be a millisecond or more late, and uses sleepUntil. left is the time to the
// start. A quarter of it is enough for a rank on a busy machine, which was late with 10 ms
// however much time it had; 10 ms is the least. The most is 1 s, because a rank cannot end
// while it sleeps.
func lastMoment(left time.Duration) time.Duration {
	return min(max(left/4, 10*time.Millisecond), time.Second)
}

// ServeRank is the main of one rank process of an all-to-all. It follows the orders
// of a worker until in or ctx ends; in ends also when the worker dies. It listens
// on the loopback address only, and accepts only peers that know the worker's
// token.
func ServeRank(ctx context.Context, in io.Reader, out io.Writer) error {
	alive, cancel := context.WithCancel(ctx)
	defer cancel()
	// Garbage is collected between exchanges, by prepare.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))

	r := &rank{alive: alive, joined: make(map[int]net.Conn)}
	// Closing its connections ends a rank that waits for a peer.
	defer r.close()
	stop := context.AfterFunc(alive, r.close)
	defer stop()

	lines := make(chan []byte)
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		ended <- readLines(alive, in, lines)
	}()
	for {
		select {
		case line := <-lines:
			if err := protocol.Write(out, r.follow(line)); err != nil {
				return err
			}
		case err := <-ended:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// readLines sends every line of in. When in has ended, it returns nil for a clean
// end, and the error of ctx if ctx ended it.
func readLines(ctx context.Context, in io.Reader, lines chan<- []byte) error {
	r := protocol.NewReader(in)
	for {
		line, err := r.Line()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case lines <- append([]byte(nil), line...):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// rank is one rank process.
type rank struct {
	alive    context.Context
	number   int
	token    []byte
	listener net.Listener
	memory   []byte
	exchange *exchange

	mu     sync.Mutex
	closed bool
	joined map[int]net.Conn // by number
}

func (r *rank) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.listener != nil {
		shut(r.listener)
	}
	for _, c := range r.joined {
		shut(c)
	}
}

// shut closes something that is no longer used, so its error does not matter.
func shut(c io.Closer) { _ = c.Close() }

// follow carries out the order in a line.
func (r *rank) follow(line []byte) answer {
	var o order
	a := answer{}
	err := json.Unmarshal(line, &o)
	if err == nil {
		switch o.Do {
		case doListen:
			a.Addr, err = r.listen(o)
		case doDial:
			err = r.dial(o.Addrs)
		case doPrepare:
			err = r.prepare(o)
		case doFill, doRun, doVerify:
			if r.exchange == nil {
				err = errors.New("nothing is prepared")
				break
			}
			switch o.Do {
			case doFill:
				r.exchange.fill(o.Backward)
			case doRun:
				a.NS, a.Late, err = r.run(o)
			case doVerify:
				if !r.exchange.arrived(o.Backward) {
					err = errors.New("what arrived is not what was sent")
				}
			}
		default:
			err = fmt.Errorf("order %q is unknown", o.Do)
		}
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

// listen starts listening, and accepts callers that know the token.
func (r *rank) listen(o order) (string, error) {
	if len(o.Token) != tokenBytes || o.Rank < 0 {
		return "", fmt.Errorf("rank %d with a token of %d bytes", o.Rank, len(o.Token))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.listener != nil {
		shut(listener)
		return "", errors.New("the rank listens already, or has ended")
	}
	r.number, r.token, r.listener = o.Rank, o.Token, listener
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return // closed with the rank
			}
			go r.admit(c)
		}
	}()
	return listener.Addr().String(), nil
}

// admit reads which rank a caller is, and confirms that it has joined.
func (r *rank) admit(c net.Conn) {
	var hello [tokenBytes + 8]byte
	err := c.SetDeadline(time.Now().Add(handshake))
	if err == nil {
		_, err = io.ReadFull(c, hello[:])
	}
	if err != nil || subtle.ConstantTimeCompare(hello[:tokenBytes], r.token) != 1 {
		shut(c)
		return
	}
	if !r.join(int(binary.LittleEndian.Uint64(hello[tokenBytes:])), c) {
		return
	}
	// If this fails, the peer notices.
	_, _ = c.Write([]byte{1})
}

// join keeps the connection to a peer, or closes it if the rank has ended.
func (r *rank) join(peer int, c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.joined[peer] != nil || c.SetDeadline(time.Time{}) != nil {
		shut(c)
		return false
	}
	r.joined[peer] = c
	return true
}

// dial connects to the ranks below this one.
func (r *rank) dial(addrs []string) error {
	for peer, addr := range addrs {
		c, err := net.DialTimeout("tcp", addr, handshake)
		if err != nil {
			return err
		}
		hello := binary.LittleEndian.AppendUint64(append([]byte(nil), r.token...), uint64(r.number))
		var joined [1]byte
		err = c.SetDeadline(time.Now().Add(handshake))
		if err == nil {
			_, err = c.Write(hello)
		}
		if err == nil {
			_, err = io.ReadFull(c, joined[:])
		}
		if err != nil {
			shut(c)
			return fmt.Errorf("rank %d: %w", peer, err)
		}
		if !r.join(peer, c) {
			return fmt.Errorf("rank %d is joined already, or this one has ended", peer)
		}
	}
	return nil
}

func (r *rank) prepare(o order) error {
	s, err := newSizes(o.Batch, o.Dims, o.Precision)
	if err != nil {
		return err
	}
	r.exchange = nil
	if len(s.Dims) == 0 {
		r.memory = nil
		debug.FreeOSMemory()
		return nil
	}
	if r.number >= len(s.Dims) {
		return fmt.Errorf("rank %d of %d", r.number, len(s.Dims))
	}
	if fault := badExchange(s.Batch, s.Dims); fault != "" {
		return errors.New(fault)
	}
	r.exchange = newExchange(r.number, s, func(size int) []byte {
		if size > cap(r.memory) {
			r.memory = nil
			runtime.GC()
			r.memory = make([]byte, size)
		}
		return r.memory[:size]
	})
	runtime.GC()
	return nil
}

// run takes part in one all-to-all. A rank that is late takes part too, because the
// others wait for it.
func (r *rank) run(o order) (ns int64, late bool, err error) {
	e := r.exchange
	peers := make([]net.Conn, len(e.Dims))
	r.mu.Lock()
	for p := range peers {
		peers[p] = r.joined[p]
		if peers[p] == nil && p != r.number {
			err = fmt.Errorf("rank %d has not joined", p)
		}
	}
	r.mu.Unlock()
	if err != nil {
		return 0, false, err
	}

	// The rank sleeps only in the last moment; before that, it must be able to end.
	left := time.Duration(o.At - now())
	if far := left - lastMoment(left); far > 0 {
		select {
		case <-time.After(far):
		case <-r.alive.Done():
			return 0, false, context.Cause(r.alive)
		}
	}
	// All goroutines wait for a signal before the start.
	n := len(peers)
	begin := make(chan struct{})
	packed := make([]chan struct{}, n)
	failed := make(chan error, 2*n)
	for p, c := range peers {
		if p == r.number {
			continue
		}
		packed[p] = make(chan struct{})
		message, room := e.sent(p, o.Backward), e.received(p, o.Backward)
		binary.LittleEndian.PutUint64(message, o.Run)
		go func() {
			<-packed[p]
			_, err := c.Write(message)
			failed <- err
		}()
		go func() {
			<-begin
			_, err := io.ReadFull(c, room)
			if run := binary.LittleEndian.Uint64(room); err == nil && run != o.Run {
				err = fmt.Errorf("rank %d sent run %d in the place of %d", p, run, o.Run)
			}
			if err == nil {
				e.unpack(p, o.Backward)
			}
			failed <- err
		}()
	}
	start, late := o.await()
	close(begin)
	// Each rank sends first to the rank after it, so that not all send to the same
	// one.
	for i := 1; i < n; i++ {
		p := (r.number + i) % n
		e.pack(p, o.Backward)
		close(packed[p])
	}
	e.pack(r.number, o.Backward)
	e.unpack(r.number, o.Backward)
	for range 2 * (n - 1) {
		err = errors.Join(err, <-failed)
	}
	return o.clock() - start, late, err
}

// await returns at the start of a run, with the time of clock at the start. late is true if the
// order came after it.
func (o *order) await() (start int64, late bool) {
	if o.Processor {
		return o.clock(), false
	}
	late = now() > o.At
	sleepUntil(o.At)
	return o.At, late
}

// clock returns the time in nanoseconds of the clock that the order asks for.
func (o *order) clock() int64 {
	if o.Processor {
		ns, _ := processorTime()
		return ns
	}
	return now()
}
