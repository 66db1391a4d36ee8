package plan

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Save writes the plan to the file path, all of it or nothing: it writes a file
// beside it, has it reach the disk and renames it. Where that fails, what was
// at path before is still there, and nothing else. A path that is there but no
// regular file, such as /dev/stdout, is written to directly.
func (pl *Plan) Save(path string) error { return SaveFile(path, pl.Write) }

// Load reads the plan in the file path; see Read.
func Load(path string) (*Plan, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	pl, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return pl, nil
}

// SaveFile writes what write writes to the file path, in the way of Plan.Save.
func SaveFile(path string, write func(io.Writer) error) error {
	mode := os.FileMode(0o666)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // keep a link a link
	}
	if old, err := os.Stat(path); err == nil {
		if !old.Mode().IsRegular() {
			return saveDirectly(path, write)
		}
		mode = old.Mode().Perm()
	}
	dir, base := filepath.Split(path)
	beside := filepath.Join(dir, fmt.Sprintf(".%s.%08x", base, rand.Uint32()))
	f, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	err = first(write(f), f.Sync())
	err = first(err, f.Close())
	if err == nil {
		err = os.Rename(beside, path)
	}
	if err != nil {
		_ = os.Remove(beside)
		return err
	}
	syncDir(dir)
	return nil
}

func saveDirectly(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return first(write(f), f.Close())
}

// syncDir has the new name reach the disk. Not every system can, and the file
// is whole either way.
func syncDir(dir string) {
	if dir == "" {
		dir = "."
	}
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}
