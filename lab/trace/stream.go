package trace

import (
	"archive/zip"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
)

// file is a file that is read from its start.
type file struct {
	path string
	size int64
	gzip bool
	// progress may be nil.
	progress func(done, total int64)
}

// stream is one reading of a file, uncompressed.
type stream struct {
	*bufio.Reader
	raw *os.File
}

const (
	streamBuffer = 1 << 16
	// startBytes is how many of its first bytes decide a file's format.
	startBytes = 512
)

// open starts a reading.
func (f *file) open() (*stream, error) {
	raw, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	var in io.Reader = raw
	if f.progress != nil {
		in = &counter{in: raw, total: f.size, progress: f.progress}
	}
	s := &stream{raw: raw}
	if f.gzip {
		unpacked, err := gzip.NewReader(bufio.NewReaderSize(in, streamBuffer))
		if err != nil {
			return nil, errors.Join(cut(err), raw.Close())
		}
		in = unpacked
	}
	s.Reader = bufio.NewReaderSize(in, streamBuffer)
	return s, nil
}

func (s *stream) Close() error {
	if s == nil {
		return nil
	}
	return s.raw.Close()
}

// A compressed file may hold mostRatio times its size, and spare bytes more. Real lookups compress
// 3 to 20 times.
const (
	mostRatio = 100
	spare     = 64 << 20
)

// mostUnpacked returns the most bytes that a compressed file of a size may hold.
func mostUnpacked(packed int64) int64 { return mostRatio*packed + spare }

// unpacked returns the uncompressed file of torch.save as a temporary file.
func (f *file) unpacked(folder string) (_ *spill, err error) {
	in, err := f.open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	start, err := in.Peek(startBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, cut(err)
	}
	if err := checkStart(start); err != nil {
		return nil, err
	}
	out, err := newSpill(folder)
	if err != nil {
		return nil, err
	}
	most := mostUnpacked(f.size)
	_, err = io.CopyN(out, in, most+1)
	if err == nil {
		err = fmt.Errorf("uncompressed it has more than %d bytes, %d times its size and %d: uncompress it with gunzip, and give the file that results", most, mostRatio, spare)
	}
	if !errors.Is(err, io.EOF) {
		return nil, errors.Join(cut(err), out.Close())
	}
	return out, nil
}

var errCut = errors.New("it ends early: it is cut short")

// cut returns errCut for the end of a file before its last byte is expected; it
// explains other errors of reading.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut
	}
	var corrupt flate.CorruptInputError
	if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.As(err, &corrupt) ||
		errors.Is(err, zip.ErrFormat) || errors.Is(err, zip.ErrChecksum) || errors.Is(err, zip.ErrAlgorithm) {
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
	in                io.Reader
	read, next, total int64
	progress          func(done, total int64)
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.read += int64(n)
	if c.read >= c.next || err != nil {
		c.next = c.read + 1<<22
		c.progress(min(c.read, c.total), c.total)
	}
	return n, err
}
