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

// An order is what the worker tells a rank, one line of JSON each; the rank
// answers every one. Both sides are the same program, so their words are not a
// protocol that others may speak.
type order struct {
	Do string
	// Rank and Token (listen): the rank's number, and what peers must know.
	Rank  int
	Token []byte
	// Addrs of the ranks below this one, by number (dial).
	Addrs []string
	// Batch and Dims of the next exchanges; no dims give the memory back (prepare).
	Batch int
	Dims  []int
	// Run numbers the runs, At is when this one starts for this rank, on the clock
	// of now (run).
	Run uint64
	At  int64
	// Backward says which way (fill, run, verify).
	Backward bool
}

// The orders, in the order in which they come.
const (
	doListen  = "listen"
	doDial    = "dial"
	doPrepare = "prepare"
	doFill    = "fill"
	doRun     = "run"
	doVerify  = "verify"
)

type answer struct {
	// Addr is where the rank listens (listen).
	Addr string `json:",omitempty"`
	// NS is the time from At until everything had arrived, and Late says that the
	// order came after At, so that the run does not count (run).
	NS   int64 `json:",omitempty"`
	Late bool  `json:",omitempty"`
	// Error is what went wrong.
	Error string `json:",omitempty"`
}

const tokenBytes = 32

// handshake is how long ranks may take to find each other.
const handshake = 10 * time.Second

// lastMoment is how long before its start a rank leaves the runtime's timers,
// which may be off by a millisecond and more, for sleepUntil.
const lastMoment = 10 * time.Millisecond

// ServeRank is the main of one rank process of an all-to-all. It follows the
// orders of a worker until in ends, which is also how it learns that the worker
// has died, or until ctx does. It listens on the loopback address only, and talks
// to nobody who does not know the worker's token.
func ServeRank(ctx context.Context, in io.Reader, out io.Writer) error {
	alive, cancel := context.WithCancel(ctx)
	defer cancel()
	// Garbage is collected between exchanges, by prepare.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))

	r := &rank{alive: alive, joined: make(map[int]net.Conn)}
	// Closing its connections is what ends a rank that waits for a peer.
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

// readLines sends every line of in, and returns when it has ended: nil for a
// clean end, ctx's error for that of ctx.
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

// shut closes what nothing more is read from or written to: an error says nothing.
func shut(c io.Closer) { _ = c.Close() }

// follow does what the line says.
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
			err = r.prepare(o.Batch, o.Dims)
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

// listen opens the rank's door, and lets in whoever knows the token.
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

// admit reads who a caller is, and tells it that it has joined.
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
	// Where this fails, the peer sees it.
	_, _ = c.Write([]byte{1})
}

// join keeps the connection to a peer, or closes it where the rank has ended.
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

// dial joins the ranks below this one.
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

func (r *rank) prepare(batch int, dims []int) error {
	r.exchange = nil
	if len(dims) == 0 {
		r.memory = nil
		debug.FreeOSMemory()
		return nil
	}
	if r.number >= len(dims) {
		return fmt.Errorf("rank %d of %d", r.number, len(dims))
	}
	if problem := badExchange(batch, dims); problem != "" {
		return errors.New(problem)
	}
	r.exchange = newExchange(r.number, batch, dims, func(size int) []byte {
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

// run takes part in one all-to-all. A rank that is late takes part as well, for
// the others count on it.
func (r *rank) run(o order) (ns int64, late bool, err error) {
	e := r.exchange
	peers := make([]net.Conn, len(e.dims))
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

	// Nothing but the last moment is slept through: the rank may have to end.
	if far := o.At - now() - lastMoment.Nanoseconds(); far > 0 {
		select {
		case <-time.After(time.Duration(far)):
		case <-r.alive.Done():
			return 0, false, context.Cause(r.alive)
		}
	}
	// Everybody is in place before the start: the goroutines wait for their sign.
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
	late = now() > o.At
	sleepUntil(o.At)
	close(begin)
	// Each rank begins with the one after it, so that not all send to the same.
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
	return now() - o.At, late, err
}
