// Package atomicfile writes a file so that its path holds the old content or all of the new.
//
// The new content goes to a file of another name in the same folder, reaches the
// disk, then takes the path by a rename:
//
//	Write          does the three steps; the usual entry point
//	Create         begins a file beside its path, for callers that place several together
//	File.Finish    the content reaches the disk
//	File.Place     the file takes the path
//	SyncFolder     renames reach the disk
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// Suffix ends the names of files that are being written. The whole name is
// "." + the base name of the path + "-" + eight random digits + Suffix.
const Suffix = ".part"

// Write has write produce the content of the file path. When write fails, or any
// later step, path still holds what it held before and no other file remains.
// When path is a link, the file that it leads to is replaced; when that file
// exists, its permissions are kept. A path that exists but is no regular file,
// such as /dev/stdout, is written directly.
func Write(path string, write func(io.Writer) error) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
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

func writeDirectly(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// File is a file that is being written beside its path.
type File struct {
	*os.File
	path string
}

// Create makes a new file in the folder of path. It has the permissions of the
// file at path, or those of any new file. The caller must end it with Place or
// Discard.
func Create(path string) (*File, error) {
	mode := os.FileMode(0o666)
	old, err := os.Stat(path)
	if err == nil {
		mode = old.Mode().Perm()
	}
	dir, base := filepath.Split(path)
	beside := filepath.Join(dir, fmt.Sprintf(".%s-%08x%s", base, rand.Uint32(), Suffix))
	f, err := os.OpenFile(beside, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	return &File{f, path}, nil
}

// Finish has the content reach the disk and closes the file.
func (f *File) Finish() error { return errors.Join(f.Sync(), f.Close()) }

// Place gives the finished file its path, in place of what is there. On failure
// the file is removed.
func (f *File) Place() error {
	if err := os.Rename(f.Name(), f.path); err != nil {
		f.Discard()
		return err
	}
	return nil
}

// Discard removes the file. The path keeps what it holds.
func (f *File) Discard() {
	_ = f.Close() // which may have happened
	_ = os.Remove(f.Name())
}

// SyncFolder has the renames and removals in a folder reach the disk. Windows and
// some file systems have no such operation; there it does nothing.
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
