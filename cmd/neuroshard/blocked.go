package main

import (
	"context"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// blocked.go ends a command that waits for its input when it is interrupted: opening
// a pipe that nobody writes to, or reading it, waits for ever and knows no context.

// reads counts the begins and the ends of all opening and reading of input: it is odd
// while one goes on.
type reads struct{ atomic.Int64 }

// during lets one opening or reading be counted.
func (r *reads) during(do func()) {
	r.Add(1)
	defer r.Add(1)
	do()
}

// countedReader counts the reading of a reader.
type countedReader struct {
	io.ReadCloser
	reads *reads
}

func (c countedReader) Read(b []byte) (n int, err error) {
	c.reads.during(func() { n, err = c.ReadCloser.Read(b) })
	return n, err
}

// countedFile counts the reading of a file.
type countedFile struct {
	*os.File
	reads *reads
}

func (c countedFile) Read(b []byte) (n int, err error) {
	c.reads.during(func() { n, err = c.File.Read(b) })
	return n, err
}

// lookAgain is how long one opening or reading may take once the context has ended.
const lookAgain = 300 * time.Millisecond

// execute runs a command until it ends, or until the context does while the command
// waits for input. It goes on in the background then, for the process to end.
func (r *reads) execute(ctx context.Context, command func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() { ended <- command(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for before := int64(0); ; {
		select {
		case err := <-ended:
			return err
		case <-look.C:
		}
		now := r.Load()
		if now%2 == 1 && now == before {
			return context.Cause(ctx)
		}
		before = now
	}
}
