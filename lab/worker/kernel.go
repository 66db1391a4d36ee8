package worker

import (
	"fmt"

	"github.com/neuroshard/neuroshard/internal/f32"
)

// engineVersion is the version of the loops of package engine and of the ranks. Every change that affects
// times raises it, so that datasets of two versions are never joined.
const engineVersion = 2

// kernelName returns the name of the code that runs.
func kernelName() string {
	twin := "plain"
	if f32.Assembly() {
		twin = "avx2"
	}
	return fmt.Sprintf("neuroshard engine %d %s", engineVersion, twin)
}
