package trace

import (
	"errors"
	"os"
	"runtime"
)

// spill is a temporary file that is written once, block after block, and read at
// any place. If the system allows it, the file has no name while it is open, so
// that nothing is left of it however the process ends.
type spill struct {
	file *os.File
	size int64
	// named is true if Close must remove the file.
	named bool
}

func newSpill(dir string) (*spill, error) {
	f, err := os.CreateTemp(dir, "neuroshard-trace-*")
	if err != nil {
		return nil, err
	}
	s := &spill{file: f, named: true}
	if runtime.GOOS != "windows" {
		s.named = os.Remove(f.Name()) != nil
	}
	return s, nil
}

// Write adds a block at the end.
func (s *spill) Write(block []byte) (int, error) {
	n, err := s.file.WriteAt(block, s.size)
	s.size += int64(n)
	return n, err
}

func (s *spill) ReadAt(p []byte, at int64) (int, error) { return s.file.ReadAt(p, at) }

// Close removes the file. The spill may be nil.
func (s *spill) Close() error {
	if s == nil {
		return nil
	}
	err := s.file.Close()
	if s.named {
		err = errors.Join(err, os.Remove(s.file.Name()))
	}
	return err
}
