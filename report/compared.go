package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

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

// comparedTypes are the types of the keys of an outcome.
var comparedTypes = map[string]string{"valid": "true or false", "wall_ms": "a number", "error": "an object", "error.message": "a string"}

const (
	// mostWall is the longest time that a planner is said to take: about a year.
	mostWall unit.Millis = 366 * 24 * 3600 * 1000
	// mostReason is the number of characters after which a reason is cut off.
	mostReason = 2000
)

// ReadCompared reads what another planner found, without its name: a plan file, or an object that
// JSON writes. Of such an object it reads valid, wall_ms and plan, or, if valid is false,
// error.message, the reason why there is no plan. It keeps 2000 characters of a longer reason.
func ReadCompared(r io.Reader) (neuroshard.Baseline, error) {
	var c neuroshard.Baseline
	data, err := io.ReadAll(io.LimitReader(r, plan.MaxFile+1))
	if err != nil {
		return c, err
	}
	if len(data) > plan.MaxFile {
		return c, fmt.Errorf("it is larger than %d bytes", plan.MaxFile)
	}
	var f comparedFile
	err = json.Unmarshal(data, &f)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && f.Format == "" && comparedTypes[wrong.Field] != "" {
		return c, fmt.Errorf("%s is of type %s, not %s", wrong.Field, wrong.Value, comparedTypes[wrong.Field])
	}
	if err != nil || f.Valid == nil {
		c.Plan, err = plan.Read(bytes.NewReader(data)) // it says what is wrong
		return c, err
	}
	if !(f.Wall >= 0 && f.Wall <= mostWall) {
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
	c.Reason = OneLine(f.Error.Message)
	if r := []rune(c.Reason); len(r) > mostReason {
		c.Reason = string(r[:mostReason]) + "..."
	}
	if c.Reason == "" {
		return c, errors.New("valid is false, and error.message is empty: it says why there is no plan")
	}
	return c, nil
}
