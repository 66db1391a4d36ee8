package dataset

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/internal/must"
)

// FuzzManifest reads manifests: those that are read can be written and are read
// as the same.
func FuzzManifest(f *testing.F) {
	folder := f.TempDir()
	must.Do(f, Write(folder, sample()))
	written := contents(f, folder)[ManifestName]
	f.Add([]byte(written))
	f.Add([]byte(strings.Replace(written, `"profile": "`, `"device": "<\u2028\"\ufffd", "profile": "`, 1)))
	if _, err := parseManifest([]byte(strings.Replace(written, `"files": [`, `"files": [`+strings.Repeat("{},", 9), 1))); err == nil || !strings.Contains(err.Error(), "files: there are more than 5 elements") {
		f.Errorf("a list of 9 files too many: got %v", err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseManifest(data)
		if err != nil {
			return
		}
		text := must.Get(json.Marshal(m))(t)
		again, err := parseManifest(text)
		if err != nil {
			t.Fatalf("written again: %v", err)
		}
		if diff := cmp.Diff(m, again); diff != "" {
			t.Fatalf("written again (-read +again):\n%s", diff)
		}
	})
}
