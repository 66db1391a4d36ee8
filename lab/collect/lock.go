package collect

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
)

const lockName = "collect.lock"

// lock ensures that only one process collects into a folder. The system frees the
// lock when the process ends for any reason.
type lock struct{ file *flock.Flock }

// lockFolder locks the folder. It fails at once if another process holds the lock.
func lockFolder(folder string) (*lock, error) {
	path := filepath.Join(folder, lockName)
	for {
		f := flock.New(path, flock.SetPermissions(0o666))
		got, err := f.TryLock()
		if err != nil {
			return nil, fmt.Errorf("folder %s: lock: %w", folder, err)
		}
		if !got {
			return nil, fmt.Errorf("folder %s: another process%s is collecting into it: wait for it to end, end it, or name another folder", folder, owner(path))
		}
		// The process that held the lock before may have removed the file after it was
		// opened here. The lock is then on a file that no other process will find.
		held, err1 := f.Stat()
		there, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(held, there) {
			// The note is for people only. On a system where a locked file cannot be
			// written, there is none.
			_ = os.WriteFile(path, fmt.Appendln(nil, os.Getpid()), 0o666)
			return &lock{f}, nil
		}
		if err := f.Unlock(); err != nil {
			return nil, fmt.Errorf("folder %s: lock: %w", folder, err)
		}
	}
}

// owner returns the note that the process with the lock wrote, if any.
func owner(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", pid)
}

// release unlocks the folder. It removes the file while the file is still locked.
func (l *lock) release() {
	_ = os.Remove(l.file.Path())
	_ = l.file.Unlock()
}
