// Package atomicfile writes a file so that its path holds either the old content or all
// of the new content.
//
// The new content goes to a file with another name in the same folder. When the content
// is on the disk, a rename gives the file its path:
//
//	Write          does all steps; the usual entry point
//	Create         makes the file, for callers that place several files together
//	File.Finish    brings the content to the disk
//	File.Place     gives the file its path
//	SyncFolder     brings renames to the disk
//	Target         the path that a link leads to
//
// A process holds a lock on the file that it writes, and the system frees the lock when the
// process ends. So the next writer of the path removes the files of processes that were
// killed. Windows has no lock that lets its holder rename the file: there such files stay.
package atomicfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/gofrs/flock"
)

// Suffix ends the names of files that are being written. The whole name is
// "." + the base name of the path + "-" + eight random digits + Suffix.
const Suffix = ".part"

// Write calls write to produce the content of the file at path. If write or a later
// step fails, path still holds its old content and no other file remains. If path is a
// link, Write makes or replaces the file that the link leads to (Target). If that file
// exists, its permissions are kept. A path that exists but is not a regular file, such as
// /dev/stdout, is written directly.
func Write(path string, write func(io.Writer) error) error {
	path, err := Target(path)
	if err != nil {
		return err
	}
	if old, err := os.Stat(path); err == nil && !old.Mode().IsRegular() {
		return writeDirectly(path, write)
	}
	f, err := Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Finish()); err != nil {
		f.Discard()
		return err
	}
	if err := f.Place(); err != nil {
		return err
	}
	// The file is whole whether or not the folder can be synced.
	_ = SyncFolder(filepath.Dir(path))
	return nil
}

// Target returns the path that path leads to as a link, through all links, and path itself
// if it is not a link. There need not be a file at the target.
func Target(path string) (string, error) {
	const most = 40 // the limit of Linux
	for at, n := path, 0; n < most; n++ {
		to, err := os.Readlink(at)
		if err != nil {
			return at, nil
		}
		if !filepath.IsAbs(to) {
			// The folder may be a link itself, and ".." then leads out of where it leads.
			folder := filepath.Dir(at)
			if real, err := filepath.EvalSymlinks(folder); err == nil {
				folder = real
			}
			to = filepath.Join(folder, to)
		}
		at = to
	}
	return "", &os.PathError{Op: "write", Path: path, Err: syscall.ELOOP}
}

func writeDirectly(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// File is a file that is written in the folder of its path, under another name.
type File struct {
	*os.File
	path string
	// held locks the file until it has its path. It has an open file of its own.
	held *flock.Flock
}

// Create makes a new file in the folder of path, and follows no link. It has the permissions of the
// file at path, or those of any new file. The caller must end it with Place or
// Discard.
func Create(path string) (*File, error) {
	mode := os.FileMode(0o666)
	old, err := os.Stat(path)
	if err == nil {
		mode = old.Mode().Perm()
	}
	dir, base := filepath.Split(path)
	removeStale(dir, base)
	for {
		beside := filepath.Join(dir, fmt.Sprintf(".%s-%08x%s", base, rand.Uint32(), Suffix))
		f, err := os.OpenFile(beside, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return nil, err
		}
		held := flock.New(beside, flock.SetFlag(os.O_RDONLY))
		if hold(held) {
			return &File{f, path, held}, nil
		}
		// Another writer took the file for a stale one before it was locked, and removes it.
		_ = f.Close()
	}
}

// hold locks a new file. It reports false if another process has or had the lock. A file system
// without locks is no fault: there nobody removes stale files.
func hold(held *flock.Flock) bool {
	if runtime.GOOS == "windows" {
		return true
	}
	got, err := held.TryLock()
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	if !got {
		return false
	}
	if _, err := os.Stat(held.Path()); err != nil {
		_ = held.Unlock()
		return false
	}
	return true
}

// removeStale removes the files that writers of the path left when they were killed: those that
// nobody has locked.
func removeStale(dir, base string) {
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil || runtime.GOOS == "windows" {
		return
	}
	for _, e := range entries {
		digits, ours := strings.CutPrefix(strings.TrimSuffix(e.Name(), Suffix), "."+base+"-")
		if _, err := strconv.ParseUint(digits, 16, 32); err != nil || !ours || len(digits) != 8 || !strings.HasSuffix(e.Name(), Suffix) || !e.Type().IsRegular() {
			continue
		}
		held := flock.New(filepath.Join(dir, e.Name()), flock.SetFlag(os.O_RDONLY))
		if got, err := held.TryLock(); err == nil && got {
			_ = os.Remove(held.Path())
			_ = held.Unlock()
		}
	}
}

// Finish brings the content to the disk and closes the file. The file stays locked until Place or
// Discard.
func (f *File) Finish() error { return errors.Join(f.Sync(), f.File.Close()) }

// Close closes the file and gives up its lock, for callers that rename the file themselves.
func (f *File) Close() error { return errors.Join(f.File.Close(), f.held.Unlock()) }

// Place gives the finished file its path, and replaces the file there. If it fails, the
// finished file is removed.
func (f *File) Place() error {
	if err := os.Rename(f.Name(), f.path); err != nil {
		f.Discard()
		return err
	}
	_ = f.held.Unlock()
	return nil
}

// Discard removes the file. The path keeps what it holds.
func (f *File) Discard() {
	_ = f.Close() // the file may be closed already
	_ = os.Remove(f.Name())
}

// SyncFolder brings the renames and removals in a folder to the disk. Windows and some
// file systems have no such operation; there it does nothing.
func SyncFolder(folder string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}
