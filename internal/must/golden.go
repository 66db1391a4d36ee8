package must

import (
	"flag" //nolint:depguard // a flag of tests
	"os"   //nolint:depguard // golden files of tests
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Update is the flag -update, with which tests write their golden files.
var Update = flag.Bool("update", false, "rewrite the golden files")

// Match compares a text with that of a golden file. With -update it writes the file first.
func Match(t testing.TB, path string, got []byte) {
	t.Helper()
	if *Update {
		Do(t, os.WriteFile(path, got, 0o666))
	}
	if diff := cmp.Diff(string(Get(os.ReadFile(path))(t)), string(got)); diff != "" {
		t.Errorf("%s (-want +got), which -update rewrites:\n%s", path, diff)
	}
}
