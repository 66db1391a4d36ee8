package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// blocked.go ends a command that waits for its input when it is interrupted: opening
// a pipe that nobody writes to, or reading it, waits for ever and knows no context.

// reads counts the starts and the ends of every opening and reading of input. The count
// is odd while the command opens or reads input.
type reads struct{ atomic.Int64 }

// during counts one opening or reading, which do performs.
func (r *reads) during(do func()) {
	r.Add(1)
	defer r.Add(1)
	do()
}

// countedReader is a reader whose reads are counted.
type countedReader struct {
	io.ReadCloser
	reads *reads
}

func (c countedReader) Read(b []byte) (n int, err error) {
	c.reads.during(func() { n, err = c.ReadCloser.Read(b) })
	return n, err
}

// countedFile is a file whose reads are counted.
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
// waits for input. Such a command stays blocked in the background until the process ends.
func (r *reads) execute(ctx context.Context, command func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() { ended <- withoutPanic(func() error { return command(ctx) }) }()
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

// panicked is the error of a command that panicked, which is a bug of neuroshard.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// withoutPanic calls a function and turns its panic into an error.
func withoutPanic(call func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicked{value, debug.Stack()}
		}
	}()
	return call()
}
