package trace

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
)

// file is a file that is read from its start, once or several times.
type file struct {
	path string
	size int64
	gzip bool
	// progress may be nil. The file is read passes times, and done is the number of
	// readings that have begun.
	progress     func(done, total int64)
	passes, done int64
}

// stream is one reading of a file, uncompressed.
type stream struct {
	*bufio.Reader
	raw *os.File
	// ahead is the goroutine that uncompresses a gzip file; nil for other files.
	ahead *ahead
}

const streamBuffer = 1 << 16

// open starts a reading.
func (f *file) open() (*stream, error) {
	raw, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	f.done++
	var in io.Reader = raw
	if f.progress != nil {
		in = &counter{in: raw, before: (f.done - 1) * f.size, total: max(f.passes, f.done) * f.size, progress: f.progress}
	}
	s := &stream{raw: raw}
	if f.gzip {
		unpacked, err := gzip.NewReader(bufio.NewReaderSize(in, streamBuffer))
		if err != nil {
			return nil, errors.Join(cut(err), raw.Close())
		}
		s.ahead = newAhead(unpacked)
		in = s.ahead
	}
	s.Reader = bufio.NewReaderSize(in, streamBuffer)
	return s, nil
}

func (s *stream) Close() error {
	if s == nil {
		return nil
	}
	if s.ahead != nil {
		s.ahead.stop()
	}
	return s.raw.Close()
}

// drain reads to the end, where gzip has its checksum.
func (s *stream) drain() error {
	_, err := io.Copy(io.Discard, s.Reader)
	return cut(err)
}

var errCut = errors.New("it ends early: it is cut short")

// cut returns errCut for the end of a file before its last byte is expected; it
// explains other errors of reading.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut
	}
	var corrupt flate.CorruptInputError
	if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.As(err, &corrupt) {
		return fmt.Errorf("it is damaged: %w", err)
	}
	return err
}

// quotable cuts a text of the file to a length that an error can quote.
func quotable(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}

// counter reports how many bytes of a file have been read.
type counter struct {
	in                  io.Reader
	before, total, next int64
	read                int64
	progress            func(done, total int64)
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.read += int64(n)
	if c.read >= c.next || err != nil {
		c.next = c.read + 1<<22
		c.progress(min(c.before+c.read, c.total), c.total)
	}
	return n, err
}

// ahead reads in its own goroutine, a few blocks ahead, so that a file is
// uncompressed and its content used at the same time.
type ahead struct {
	full, empty chan []byte
	quit        chan struct{}
	done        chan struct{}
	// err is the error that ended the reading; it may be read once full is closed.
	err          error
	block, start []byte
}

const (
	aheadBlocks = 32
	aheadBlock  = 1 << 16
)

func newAhead(in io.Reader) *ahead {
	a := &ahead{
		full:  make(chan []byte, aheadBlocks),
		empty: make(chan []byte, aheadBlocks),
		quit:  make(chan struct{}),
		done:  make(chan struct{}),
	}
	go a.run(in)
	return a
}

// run fills blocks until the end of the file or until stop is called. A block is
// allocated when it is first needed, because most files of tests are short.
func (a *ahead) run(in io.Reader) {
	defer close(a.done)
	defer close(a.full)
	made := 0
	for a.err == nil {
		var block []byte
		select {
		case <-a.quit:
			return
		case block = <-a.empty:
		default:
			if made < aheadBlocks {
				block = make([]byte, aheadBlock)
				made++
				break
			}
			select {
			case <-a.quit:
				return
			case block = <-a.empty:
			}
		}
		block = block[:aheadBlock]
		n := 0
		for n < aheadBlock && a.err == nil {
			var more int
			more, a.err = in.Read(block[n:])
			n += more
		}
		if n > 0 {
			a.full <- block[:n]
		}
	}
}

func (a *ahead) Read(p []byte) (int, error) {
	if len(a.block) == 0 {
		if a.start != nil {
			a.empty <- a.start
			a.start = nil
		}
		block, ok := <-a.full
		if !ok {
			return 0, a.err
		}
		a.start, a.block = block, block
	}
	n := copy(p, a.block)
	a.block = a.block[n:]
	return n, nil
}

// stop ends the goroutine.
func (a *ahead) stop() {
	close(a.quit)
	<-a.done
}
