package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	neuroshard "github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/unit"
)

// comparedFile is the file of what another planner found: a plan file, or an object as JSON writes
// it for a plan, or an object as the command plan prints it with --json if nothing fits. Only a
// plan file has no key valid.
type comparedFile struct {
	Format string          `json:"format"`
	Valid  *bool           `json:"valid"`
	Wall   unit.Millis     `json:"wall_ms"`
	Plan   json.RawMessage `json:"plan"`
	Error  struct {
		Message string `json:"message"`
	} `json:"error"`
}

// ReadCompared reads what another planner found, without its name: a plan file, or an object that
// JSON writes. Of such an object it reads valid, wall_ms and plan, or, if valid is false,
// error.message, the reason why there is no plan.
func ReadCompared(r io.Reader) (neuroshard.Compared, error) {
	var c neuroshard.Compared
	data, err := io.ReadAll(io.LimitReader(r, plan.MaxFile+1))
	if err != nil {
		return c, err
	}
	if len(data) > plan.MaxFile {
		return c, fmt.Errorf("it is larger than %d bytes", plan.MaxFile)
	}
	var f comparedFile
	if err := json.Unmarshal(data, &f); err != nil || f.Valid == nil {
		c.Plan, err = plan.Read(bytes.NewReader(data)) // it says what is wrong
		return c, err
	}
	if !(f.Wall >= 0) || math.IsInf(float64(f.Wall), 0) {
		return c, fmt.Errorf("wall_ms is %v, not a time", float64(f.Wall))
	}
	c.Wall = f.Wall
	if *f.Valid {
		if f.Plan == nil {
			return c, errors.New("valid is true, but the key plan is missing")
		}
		if c.Plan, err = plan.Read(bytes.NewReader(f.Plan)); err != nil {
			return c, fmt.Errorf("its plan: %w", err)
		}
		return c, nil
	}
	if c.Reason = OneLine(f.Error.Message); c.Reason == "" {
		return c, errors.New("valid is false, and error.message is empty: it says why there is no plan")
	}
	return c, nil
}
