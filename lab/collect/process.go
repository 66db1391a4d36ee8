package collect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/neuroshard/neuroshard/lab/protocol"
)

// process.go is one worker process: started, asked one request at a time, ended. A
// process that writes anything but a response to the request is ended, because the
// start of the next response is then unknown.

// These are the longest waits for a worker that should end: until it is killed, and
// then for its pipes, which a child of the worker may keep open.
const (
	farewell  = 5 * time.Second
	pipesWait = 2 * time.Second
)

// quoteBytes is the most bytes of a worker's stdout that an error quotes, and tailBytes the
// most of its stderr.
const (
	quoteBytes = 100
	tailBytes  = 1000
)

// process is a running worker.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.ReadCloser
	lines chan line
	tail  *tail
	// over is closed when the process is being ended, and how is the error with which
	// it ended.
	over chan struct{}
	how  error
	end  sync.Once
}

// line is one line of a worker's stdout, or the end of it.
type line struct {
	text []byte
	err  error
}

// startProcess starts a worker in a process group of its own.
func startProcess(command []string, stderr io.Writer) (*process, error) {
	p := &process{cmd: exec.Command(command[0], command[1:]...), lines: make(chan line), tail: &tail{to: stderr}, over: make(chan struct{})}
	p.cmd.Stderr = p.tail
	p.cmd.WaitDelay = pipesWait
	ownGroup(p.cmd)
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.read()
	return p, nil
}

// read passes on the worker's lines until its stdout or the process ends.
func (p *process) read() {
	r := protocol.NewReader(p.out)
	for {
		text, err := r.Line()
		l := line{append([]byte(nil), text...), err}
		select {
		case p.lines <- l:
		case <-p.over:
			return
		}
		if err != nil {
			return
		}
	}
}

// ask sends a request and returns its response. The error is the worker's own, a
// *protocol.Error, or ctx's, or a *brokenError. After the last two, the process has
// ended.
func (p *process) ask(ctx context.Context, q protocol.Request, deadline time.Duration) (protocol.Response, error) {
	var none protocol.Response
	timer := time.NewTimer(deadline)
	defer timer.Stop()
	written := make(chan error, 1)
	go func() { written <- protocol.Write(p.in, q) }()
	for {
		select {
		case err := <-written:
			if errors.Is(err, protocol.ErrLong) {
				return none, &protocol.Error{Code: protocol.CodeBadRequest, Message: err.Error()}
			}
			// A worker that no longer reads has ended, or will not answer. Its last output
			// says more than a broken pipe.
			written = nil
		case l := <-p.lines:
			if l.err != nil {
				return none, p.gone(q, l.err)
			}
			r, err := parseResponse(q, l.text)
			if broken, ok := errors.AsType[*brokenError](err); ok {
				p.kill()
				broken.tail = p.tail.String()
				return none, broken
			}
			return r, err
		case <-timer.C:
			p.kill()
			return none, &brokenError{code: protocol.CodeTimeout, what: fmt.Sprintf("no response to %q within %v", q.Op, deadline), tail: p.tail.String()}
		case <-ctx.Done():
			p.kill()
			return none, context.Cause(ctx)
		}
	}
}

// gone ends a worker whose stdout ended, and returns an error that states how the
// worker ended.
func (p *process) gone(q protocol.Request, err error) error {
	broken := &brokenError{code: CodeCrash}
	switch {
	case errors.Is(err, protocol.ErrLong):
		p.kill()
		broken.what = fmt.Sprintf("its response to %q: %v", q.Op, err)
	default:
		p.finish(pipesWait)
		broken.what = fmt.Sprintf("it ended before its response to %q (%v)", q.Op, p.how)
		if p.how == nil {
			broken.what = fmt.Sprintf("it ended before its response to %q", q.Op)
		}
	}
	broken.tail = p.tail.String()
	return broken
}

// finish waits for the process to end by itself, and kills it after a while. It
// always kills the children.
func (p *process) finish(patience time.Duration) {
	p.end.Do(func() {
		_ = p.in.Close()
		waited := make(chan error, 1)
		close(p.over)
		go func() { waited <- p.cmd.Wait() }()
		select {
		case p.how = <-waited:
			killGroup(p.cmd)
		case <-time.After(patience):
			killGroup(p.cmd)
			p.how = <-waited
		}
	})
}

// kill ends the process and its children at once.
func (p *process) kill() { p.finish(0) }

// close asks the process to end by closing its stdin.
func (p *process) close() { p.finish(farewell) }

// parseResponse reads the response to a request. The error is the worker's
// *protocol.Error, one of CodeTimes or CodeLookups for impossible numbers, or a
// *brokenError if the text is not a response to the request.
func parseResponse(q protocol.Request, text []byte) (protocol.Response, error) {
	var r protocol.Response
	err := json.Unmarshal(text, &r)
	wrong, isWrong := errors.AsType[*json.UnmarshalTypeError](err)
	if isWrong && r.Op == q.Op && r.ID == q.ID {
		code := map[string]string{protocol.OpCompute: CodeTimes, protocol.OpComm: CodeTimes, protocol.OpTables: CodeLookups}[q.Op]
		return r, &protocol.Error{Code: cmp.Or(code, CodeCrash), Message: fmt.Sprintf("field %q is %s, which is out of range: %s", wrong.Field, wrong.Value, quote(text))}
	}
	if err != nil {
		return r, &brokenError{code: CodeCrash, what: fmt.Sprintf("it said what is no response (responses alone go to stdout, all else to stderr): %s", quote(text))}
	}
	outOfStep := r.Op != q.Op || r.ID != q.ID
	if r.Op == protocol.OpError {
		// A worker that could not read the request does not know its id.
		outOfStep = r.ID != q.ID && r.ID != ""
	}
	if outOfStep {
		return r, &brokenError{code: CodeCrash, what: fmt.Sprintf("it is out of step: %q with id %q was asked, and it said %s", q.Op, q.ID, quote(text))}
	}
	if r.Op == protocol.OpError {
		return r, &protocol.Error{Code: r.Code, Message: r.Message}
	}
	return r, nil
}

// quote quotes the start of a worker's output.
func quote(text []byte) string {
	if len(text) > quoteBytes {
		return fmt.Sprintf("%q...", text[:quoteBytes])
	}
	return fmt.Sprintf("%q", text)
}

// brokenError is the error of a worker process that ended, or that had to be ended.
type brokenError struct {
	code string // the code of a Failure
	what string
	tail string // the end of its stderr
}

func (e *brokenError) Error() string {
	if e.tail == "" {
		return "worker: " + e.what
	}
	return fmt.Sprintf("worker: %s; it last told: %s", e.what, e.tail)
}

// tail is a writer that passes text on and keeps the last bytes.
type tail struct {
	lock sync.Mutex
	to   io.Writer
	last []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.last = append(t.last, p[max(0, len(p)-tailBytes):]...)
	t.last = t.last[max(0, len(t.last)-tailBytes):]
	if t.to != nil {
		// An error of the writer of logs must not stop the worker.
		_, _ = t.to.Write(p)
	}
	return len(p), nil
}

// String returns the last lines as one line.
func (t *tail) String() string {
	t.lock.Lock()
	defer t.lock.Unlock()
	lines := strings.FieldsFunc(string(t.last), func(r rune) bool { return r == '\n' || r == '\r' })
	return strings.Join(lines, " | ")
}
