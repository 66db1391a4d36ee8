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
	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/unit"
)

// replan_read.go reads what ReplanJSON wrote, for pages of an earlier re-plan.

// replanFile is what is read of the object that ReplanJSON writes. It has further keys, which
// follow from these.
type replanFile struct {
	Verdict  replan.Verdict `json:"verdict"`
	OldCost  *unit.Millis   `json:"old_cost_ms"`
	Unfit    string         `json:"old_plan_unfit"`
	Total    unit.Bytes     `json:"total_bytes"`
	Curve    []curveJSON    `json:"curve"`
	Transfer *plan.Transfer `json:"transfer"`
	Changes  struct {
		Added     []string            `json:"added"`
		Removed   []string            `json:"removed"`
		Resized   []string            `json:"resized"`
		Converted []string            `json:"converted"`
		Lost      []int               `json:"lost_devices"`
		Cluster   *plan.ClusterChange `json:"cluster"`
	} `json:"changes"`
	Reshard  *replan.Reshard `json:"torchrec"`
	Warnings []string        `json:"warnings"`
	Plan     json.RawMessage `json:"plan"`
}

// maxReplanBytes is the size above which a file is refused.
const maxReplanBytes = 1 << 30

// ReadReplan reads an object that ReplanJSON wrote. Of the result's Result only Plan is set, with
// all warnings of the re-plan. Of the transfers of points that were not chosen, only the bytes and
// the time are set.
func ReadReplan(r io.Reader) (*replan.Outcome, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxReplanBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxReplanBytes {
		return nil, fmt.Errorf("it is larger than %d bytes", maxReplanBytes)
	}
	var f replanFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("it is not what replan --json prints: %w", err)
	}
	if f.Verdict != replan.Keep && f.Verdict != replan.Move || len(f.Curve) == 0 || f.Transfer == nil || f.Plan == nil {
		return nil, errors.New("it is not what replan --json prints, which has the keys verdict, curve, transfer and plan")
	}
	pl, err := plan.Read(bytes.NewReader(f.Plan))
	if err != nil {
		return nil, fmt.Errorf("its plan: %w", err)
	}
	pl.Provenance.Warnings = f.Warnings
	found := &replan.Outcome{
		Verdict: f.Verdict, Result: &neuroshard.Result{Plan: pl}, OldCost: f.OldCost, Unfit: f.Unfit, Total: f.Total, Chosen: -1, Reshard: f.Reshard,
		Changes: replan.Changes{Added: f.Changes.Added, Removed: f.Changes.Removed, Resized: f.Changes.Resized, Converted: f.Changes.Converted, Lost: f.Changes.Lost, Cluster: f.Changes.Cluster},
	}
	return found, f.points(found)
}

// points sets the curve.
func (f *replanFile) points(found *replan.Outcome) error {
	for i := range f.Curve {
		c := &f.Curve[i]
		if !(c.Cost >= 0) || !(c.Seconds >= 0) || math.IsInf(float64(c.Cost)+c.Seconds, 0) || c.Moved < 0 {
			return fmt.Errorf("point %d of its curve has a cost, a time or a number of bytes that is out of range", i)
		}
		point := replan.Point{Label: OneLine(c.Budget), Limit: -1, Whole: c.Whole, Cost: c.Cost, PaysBack: -1}
		point.Transfer = &plan.Transfer{Bytes: c.Moved, Inside: unit.Millis(1000 * c.Seconds), Timed: c.Moved == 0 || c.Seconds > 0}
		if c.Limit != nil {
			point.Limit = *c.Limit
		}
		if c.PaysBack != nil {
			point.PaysBack = *c.PaysBack
		}
		if c.Simulated != nil {
			point.Simulated, found.Judged = *c.Simulated, true
		}
		if c.Chosen {
			if found.Chosen >= 0 {
				return errors.New("two points of its curve are chosen")
			}
			found.Chosen, point.Transfer = i, f.Transfer
		}
		found.Curve = append(found.Curve, point)
	}
	if found.Chosen < 0 {
		return errors.New("no point of its curve is chosen")
	}
	return nil
}
