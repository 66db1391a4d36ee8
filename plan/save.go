package plan

import (
	"fmt"
	"os"

	"github.com/neuroshard/neuroshard/internal/atomicfile"
)

// Save writes the plan to the file path, whole or not at all: see
// atomicfile.Write. A path that exists but is no regular file, such as
// /dev/stdout, is written directly.
func (pl *Plan) Save(path string) error { return atomicfile.Write(path, pl.Write) }

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
