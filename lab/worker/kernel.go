package worker

import "fmt"

// engineVersion is that of package engine's loops: it rises with every change of
// them that changes times, so that datasets of two versions are never joined.
const engineVersion = 1

// kernelName says which code runs.
func kernelName() string {
	twin := "plain"
	if assembly {
		twin = "avx2"
	}
	return fmt.Sprintf("neuroshard engine %d %s", engineVersion, twin)
}
