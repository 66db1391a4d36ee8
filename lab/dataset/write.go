package dataset

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/atomicfile"
)

// Write writes a valid dataset to a folder. It makes the folder, or replaces the dataset
// in it. It leaves other files of the folder alone. A file that has the name of a
// dataset's file, but is none, is an error and is not overwritten. Equal datasets give
// equal bytes.
//
// Write writes all files beside their places and syncs them, removes the old
// manifest, renames the files, and writes the manifest last. So if Write is
// interrupted, the folder holds the old dataset or a dataset without a manifest,
// which Read refuses. If the disk is full, the old dataset stays. Two concurrent
// Writes to one folder may both fail, or leave files that Read refuses.
func Write(folder string, d Dataset) error { return write(disk{}, folder, d) }

// storage is what Write does to a file system.
type storage interface {
	// create makes a file of a new name beside path.
	create(path string) (storedFile, error)
	rename(from, to string) error
	remove(path string) error
	// sync has renames and removals in the folder reach the disk.
	sync(folder string) error
}

type storedFile interface {
	io.WriteCloser
	Sync() error
	Name() string
}

// staged is a file that is written beside its place.
type staged struct{ temp, path string }

func write(s storage, folder string, d Dataset) (err error) {
	if err := d.Validate(); err != nil {
		return fmt.Errorf("dataset %q is not written: %w", folder, err)
	}
	m, contents, err := encodeFiles(d)
	if err != nil {
		return fmt.Errorf("dataset %q is not written: %w", folder, err)
	}
	manifested, err := inspect(folder)
	if err != nil {
		return fmt.Errorf("dataset %q is not written: %w", folder, err)
	}
	made, err := makeFolder(folder)
	if err != nil {
		return fmt.Errorf("dataset %q is not written: %w", folder, err)
	}
	var files []staged
	defer func() {
		if err == nil {
			return
		}
		// The first error is the one to report.
		for _, f := range files {
			_ = s.remove(f.temp)
		}
		if made {
			_ = s.remove(folder) // which fails if the folder is not empty
		}
	}()
	removeLeftovers(s, folder)
	for i, content := range contents {
		name := ManifestName
		if i < len(m.Files) {
			name = m.Files[i].Name
		}
		if files, err = stage(s, files, filepath.Join(folder, name), content); err != nil {
			return fmt.Errorf("dataset %q is not written, and what was there is unchanged: %w", folder, err)
		}
	}
	if err := replace(s, folder, files, manifested); err != nil {
		return fmt.Errorf("dataset %q is not written whole: %w: write it again", folder, err)
	}
	for _, name := range fileNames() {
		if !slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == name }) {
			// One of an older dataset, or nothing. Read would not look at it.
			_ = s.remove(filepath.Join(folder, name))
		}
	}
	return nil
}

// encodeFiles returns the manifest, and the contents of its files and then its own.
func encodeFiles(d Dataset) (Manifest, [][]byte, error) {
	m := manifestOf(d)
	var contents [][]byte
	for _, file := range m.names() {
		data, err := m.encode(d, file.Name)
		if err != nil {
			return m, nil, fmt.Errorf("%s: %w", file.Name, err)
		}
		file.Bytes, file.SHA256 = int64(len(data)), digest(data)
		m.Files = append(m.Files, file)
		contents = append(contents, data)
	}
	text, err := m.text()
	if err != nil {
		return m, nil, err
	}
	return m, append(contents, text), nil
}

// replace puts the staged files in their places. The last file is the manifest.
func replace(s storage, folder string, files []staged, manifest bool) error {
	last := files[len(files)-1]
	if manifest {
		if err := s.remove(last.path); err != nil {
			return err
		}
		if err := s.sync(folder); err != nil {
			return err
		}
	}
	for _, f := range files[:len(files)-1] {
		if err := s.rename(f.temp, f.path); err != nil {
			return err
		}
	}
	if err := s.sync(folder); err != nil {
		return err
	}
	if err := s.rename(last.temp, last.path); err != nil {
		return err
	}
	return s.sync(folder)
}

// stage writes data beside path and adds the file to the list.
func stage(s storage, files []staged, path string, data []byte) ([]staged, error) {
	f, err := s.create(path)
	if err != nil {
		return files, err
	}
	files = append(files, staged{temp: f.Name(), path: path})
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	return files, errors.Join(err, f.Close())
}

// makeFolder makes the folder and reports whether there was none.
func makeFolder(folder string) (bool, error) {
	_, err := os.Stat(folder)
	return errors.Is(err, fs.ErrNotExist), os.MkdirAll(folder, 0o777)
}

// inspect refuses a folder in which something would be overwritten that is not
// a dataset's. It reports whether there is a manifest.
func inspect(folder string) (bool, error) {
	info, err := os.Stat(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !info.IsDir() {
		return false, errors.New("it is a file: name a folder")
	}
	m, err := ReadManifest(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("what is there may be another program's, and is not overwritten: %w", err)
	}
	manifest := err == nil
	for _, name := range fileNames() {
		path := filepath.Join(folder, name)
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		listed := slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == name })
		// A Write that was cut short leaves files that no manifest lists.
		if !info.Mode().IsRegular() || !listed && !ours(path, info.Size()) {
			return false, fmt.Errorf("%q is not a dataset's, and is not overwritten: choose another folder", path)
		}
	}
	return manifest, nil
}

// ours reports whether a file is one that Write made.
func ours(path string, size int64) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	foot, err := readFooter(f, size)
	return err == nil && metadataOf(foot)[keyFormat] == Format
}

// removeLeftovers removes the unfinished files of Writes that were killed.
func removeLeftovers(s storage, folder string) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), atomicfile.Suffix)
		if !ok || !e.Type().IsRegular() {
			continue
		}
		for _, of := range append(fileNames(), ManifestName) {
			if strings.HasPrefix(name, "."+of+"-") {
				_ = s.remove(filepath.Join(folder, e.Name()))
			}
		}
	}
}

// disk is the storage of the operating system.
type disk struct{}

func (disk) create(path string) (storedFile, error) { return atomicfile.Create(path) }
func (disk) rename(from, to string) error           { return os.Rename(from, to) }
func (disk) remove(path string) error               { return os.Remove(path) }
func (disk) sync(folder string) error               { return atomicfile.SyncFolder(folder) }
