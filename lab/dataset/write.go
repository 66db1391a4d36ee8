package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/neuroshard/neuroshard/internal/atomicfile"
	"github.com/parquet-go/parquet-go"
)

// Write writes a valid dataset to a folder, which it makes, or replaces the dataset in it. Other
// files of the folder stay; one with the name of a dataset's file that is none is an error. Equal
// datasets give equal bytes. If Write is interrupted, the folder holds the old dataset, or one without
// its manifest, which Read refuses.
func Write(folder string, d Dataset) error {
	err := d.Validate()
	if err == nil {
		err = write(folder, d)
	}
	if err != nil {
		return fmt.Errorf("dataset %q is not written: %w", folder, err)
	}
	return nil
}

func write(folder string, d Dataset) error {
	m := manifestOf(d)
	var names []string
	var contents [][]byte
	for _, file := range m.names() {
		data, err := m.encode(d, file.Name)
		if err != nil {
			return fmt.Errorf("%s: %w", file.Name, err)
		}
		file.Bytes, file.SHA256 = int64(len(data)), digest(data)
		m.Files = append(m.Files, file)
		names, contents = append(names, file.Name), append(contents, data)
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	names, contents = append(names, ManifestName), append(contents, append(text, '\n'))
	if err := inspect(folder); err != nil {
		return err
	}
	if err := placeTogether(folder, names, contents); err != nil {
		return err
	}
	for _, name := range fileNames() {
		if !slices.Contains(names, name) {
			// One of an older dataset, or nothing. Read would not look at it.
			_ = os.Remove(filepath.Join(folder, name))
		}
	}
	return nil
}

// placeTogether writes files to a folder, which it makes if there is none. No file takes
// its place before all are written. An old file in the last one's place goes first.
func placeTogether(folder string, names []string, contents [][]byte) (err error) {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	var files []*atomicfile.File
	defer func() {
		if err != nil {
			for _, f := range files {
				f.Discard()
			}
		}
	}()
	for i, name := range names {
		f, err := written(filepath.Join(folder, name), contents[i])
		if f != nil {
			files = append(files, f)
		}
		if err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(folder, names[len(names)-1])); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for i, f := range files {
		if i == 0 || i == len(files)-1 {
			if err := atomicfile.SyncFolder(folder); err != nil {
				return err
			}
		}
		if err := f.Place(); err != nil {
			return err
		}
	}
	return atomicfile.SyncFolder(folder)
}

// written writes a file that has yet to take its place. The caller discards it after an error.
func written(path string, content []byte) (*atomicfile.File, error) {
	path, err := atomicfile.Target(path)
	if err != nil {
		return nil, err
	}
	f, err := atomicfile.Create(path)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Finish()
	}
	return f, err
}

// inspect refuses a folder in which something would be overwritten that is not a dataset's.
func inspect(folder string) error {
	m, err := ReadManifest(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("what is there may be another program's, and is not overwritten: %w", err)
	}
	for _, name := range fileNames() {
		path := filepath.Join(folder, name)
		if slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == name }) || ours(path) {
			continue
		}
		return fmt.Errorf("%q is not a dataset's, and is not overwritten: choose another folder", path)
	}
	return nil
}

// ours reports whether there is no file at the path or one that a Write left that was cut
// short: no manifest lists it.
func ours(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	file, err := parquet.OpenFile(f, info.Size())
	return err == nil && metadataOf(file)[keyFormat] == Format
}
