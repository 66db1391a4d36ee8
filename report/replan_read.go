package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/neuroshard/neuroshard/internal/jsonfile"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/replan"
)

// ReplanObject is what pages show of the object that ReplanJSON writes.
type ReplanObject struct {
	Verdict replan.Verdict `json:"verdict"`
	Headline
	// Facts say what changed since the old plan, and how a TorchRec job gets to the new plan.
	Facts []Fact       `json:"facts"`
	Curve []CurvePoint `json:"curve"`
}

// ReplanOf returns the answer of a re-plan, and its curve.
func ReplanOf(r *replan.Outcome) *ReplanObject {
	o := &ReplanObject{Verdict: r.Verdict, Headline: replanHeadline(r), Facts: replanFacts(r), Curve: make([]CurvePoint, len(r.Curve))}
	for i := range r.Curve {
		o.Curve[i] = pointOf(r, i)
	}
	return o
}

// maxReplanBytes is the size above which a file is refused.
const maxReplanBytes = 1 << 30

// ReadReplan reads an object that ReplanJSON wrote, and its plan with all warnings of the re-plan.
func ReadReplan(r io.Reader) (*ReplanObject, *plan.Plan, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxReplanBytes+1))
	if err != nil {
		return nil, nil, err
	}
	if len(data) > maxReplanBytes {
		return nil, nil, fmt.Errorf("it is larger than %d bytes", maxReplanBytes)
	}
	var f struct {
		ReplanObject
		Warnings []string       `json:"warnings"`
		Plan     jsontext.Value `json:"plan"`
	}
	bounds := json.WithUnmarshalers(json.JoinUnmarshalers(
		jsonfile.Bounded[CurvePoint](plan.MaxWarnings), jsonfile.Bounded[Fact](plan.MaxWarnings), jsonfile.Bounded[string](plan.MaxWarnings)))
	if err := jsonfile.Unmarshal(data, &f, bounds, json.RejectUnknownMembers(false)); err != nil {
		return nil, nil, fmt.Errorf("it is not what replan --json prints: %w", err)
	}
	if f.Verdict != replan.Keep && f.Verdict != replan.Move || f.Title == "" || len(f.Curve) == 0 || f.Plan == nil {
		return nil, nil, errors.New("it is not what replan --json prints, which has the keys verdict, title, curve and plan")
	}
	pl, err := plan.Read(bytes.NewReader(f.Plan))
	if err != nil {
		return nil, nil, fmt.Errorf("its plan: %w", err)
	}
	pl.Provenance.Warnings = f.Warnings
	return &f.ReplanObject, pl, nil
}
