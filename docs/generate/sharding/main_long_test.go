//go:build long

package main

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Plans with slices of columns only stay the same, byte for byte. The sums are of
// amd64: elsewhere predictions may differ in their last digits.
func TestPlansWithoutNewKindsAreAsBefore(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the pinned plans are of amd64, where CI runs this")
	}
	binary := filepath.Join(t.TempDir(), "neuroshard")
	if out, err := exec.Command("go", "build", "-o", binary, "../../../cmd/neuroshard").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	var out bytes.Buffer
	const workloads = "criteo-kaggle,nvidia-synthetic-tiny,nvidia-synthetic-small,hugectr-7,mlperf-dlrm-dcnv2"
	if err := run(context.Background(), &out, []string{"off", "-binary", binary, "-workloads", workloads}); err != nil {
		t.Errorf("%v\n%s", err, out.Bytes())
	}
}
