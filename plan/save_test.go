package plan

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// names lists what is in a folder.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}

func TestSave(t *testing.T) {
	_, pl := sample(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "plan.json")
	for range 2 { // a new file, then over an old one
		if err := pl.Save(path); err != nil {
			t.Fatal(err)
		}
		back, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(pl, back); d != "" {
			t.Errorf("loaded, -want +got:\n%s", d)
		}
		if got := names(t, dir); got != "plan.json" {
			t.Errorf("got files %s, want plan.json alone", got)
		}
		pl.Predicted, pl.Devices[3].Forward = pl.Predicted+1, pl.Devices[3].Forward+1
	}
}

func TestSaveInWorkingFolder(t *testing.T) {
	_, pl := sample(t)
	t.Chdir(t.TempDir())
	if err := pl.Save("plan.json"); err != nil {
		t.Fatal(err)
	}
	if got := names(t, "."); got != "plan.json" {
		t.Errorf("got files %s, want plan.json alone", got)
	}
}

func TestSaveKeepsModeAndLink(t *testing.T) {
	_, pl := sample(t)
	dir := t.TempDir()
	path, link := filepath.Join(dir, "plan.json"), filepath.Join(dir, "link.json")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := pl.Save(link); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("got mode %v, want the old file's -rw-------", info.Mode())
	}
	if target, err := os.Readlink(link); err != nil || target != path {
		t.Errorf("got link %q, %v, want it to lead to %q still", target, err, path)
	}
	if _, err := Load(path); err != nil {
		t.Errorf("got %v, want the plan where the link leads", err)
	}
}

func TestSaveToBadPath(t *testing.T) {
	_, pl := sample(t)
	dir := t.TempDir()
	if err := pl.Save(filepath.Join(dir, "missing", "plan.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("into a folder that is not there: got %v, want %v", err, os.ErrNotExist)
	}
	if err := pl.Save(dir); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("onto a folder: got %v, want that it is a directory", err)
	}
	if got := names(t, dir); got != "" {
		t.Errorf("got files %s, want none", got)
	}
}

func TestSaveToDevice(t *testing.T) {
	_, pl := sample(t)
	if err := pl.Save(os.DevNull); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().IsRegular() {
		t.Errorf("%s is now a regular file", os.DevNull)
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(path, []byte("{\n]"), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path)
	if want := path + ": plan file, line 2: "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s...", err, want)
	}
	if _, err := Load(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want %v", err, os.ErrNotExist)
	}
}
