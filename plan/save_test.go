package plan

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/internal/must"
)

// A plan is saved over an older one, and loaded; errors name the file.
func TestSave(t *testing.T) {
	_, pl := sample(t)
	path := filepath.Join(t.TempDir(), "plan.json")
	for range 2 {
		must.Do(t, pl.Save(path))
		back := must.Get(Load(path))(t)
		if d := cmp.Diff(pl, back); d != "" {
			t.Errorf("loaded, -want +got:\n%s", d)
		}
		pl.Predicted, pl.Devices[3].Forward = pl.Predicted+1, pl.Devices[3].Forward+1
	}
	must.Do(t, os.WriteFile(path, []byte("{\n]"), 0o666))
	_, err := Load(path)
	if want := path + ": plan file, line 2: "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s...", err, want)
	}
	if _, err := Load(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want %v", err, os.ErrNotExist)
	}
}
