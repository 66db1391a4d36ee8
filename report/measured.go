package report

import (
	"cmp"
	"fmt"
	"strings"

	neuroshard "github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/unit"
)

// measured writes the finalists among which a measurement chose the plan.
func measured(v *view, m *neuroshard.Measured) {
	if m == nil {
		return
	}
	what := source(sourceOf(m))
	on := cmp.Or(m.Device, m.Profile)
	if m.Backend != "" {
		on += ", by " + m.Backend
	}
	v.section("finalists, %s on %s", what, OneLine(on))
	var rows [][]string
	first := &m.Finalists[0]
	for i := range m.Finalists {
		f, t := &m.Finalists[i], &m.Trials[i]
		row := []string{f.Name(first), fmt.Sprintf("%.3f", float64(f.Predicted.Cost))}
		switch {
		case t.Refused != "":
			row = append(row, "-", "-", "-", "-", "not run: "+OneLine(t.Refused))
		case i == 0:
			row = append(row, fmt.Sprintf("%.3f", float64(t.Cost)), fmt.Sprintf("%.3f", float64(t.Range)), "", "", "")
		default:
			row = append(row, fmt.Sprintf("%.3f", float64(t.Cost)), fmt.Sprintf("%.3f", float64(t.Range)), unsigned(fmt.Sprintf("%+.1f", 100*t.Difference)), fmt.Sprintf("%.4f", t.PValue), map[bool]string{true: "faster"}[t.Faster])
		}
		if i == m.Kept {
			row[len(row)-1] = strings.TrimPrefix(row[len(row)-1]+", kept", ", ")
		}
		rows = append(rows, row)
	}
	v.grid([]string{"<finalist", "predicted ms", what + " ms", "?range ms", "against the first %", "p", "<"}, rows)
	v.printf("%s\n", v.paint(bold, "kept: "+kept(m)))
}

// kept says which finalist was kept, and why.
func kept(m *neuroshard.Measured) string {
	return fmt.Sprintf("%s, after %s: %s", m.Finalists[m.Kept].Name(&m.Finalists[0]), plural(m.Rounds, "round"), m.Why)
}

// sourceOf says where the times come from, as a dataset's provenance does.
func sourceOf(m *neuroshard.Measured) string {
	if m.Simulated {
		return simulated
	}
	return "measured"
}

type (
	measuredJSON struct {
		Source    string         `json:"source"`
		Profile   string         `json:"profile"`
		Device    string         `json:"device,omitempty"`
		Kernel    string         `json:"kernel,omitempty"`
		Backend   string         `json:"backend,omitempty"`
		Rounds    int            `json:"rounds"`
		Kept      int            `json:"kept"`
		Why       string         `json:"why"`
		Finalists []finalistJSON `json:"finalists"`
	}
	finalistJSON struct {
		Method      string      `json:"method"`
		Seed        uint64      `json:"seed"`
		RiskPenalty float64     `json:"risk_penalty,omitempty"`
		Predicted   unit.Millis `json:"predicted_cost_ms"`
		// Measured, Range and Runs are missing if the finalist was not run; Refused is why.
		Measured *unit.Millis  `json:"measured_cost_ms,omitempty"`
		Range    *unit.Millis  `json:"range_ms,omitempty"`
		Runs     []unit.Millis `json:"runs_ms,omitempty"`
		// Difference and PValue are missing for the first finalist.
		Difference *float64 `json:"difference_percent,omitempty"`
		PValue     *float64 `json:"p_value,omitempty"`
		Faster     bool     `json:"faster"`
		Refused    string   `json:"refused,omitempty"`
	}
)

func measuredOf(m *neuroshard.Measured) *measuredJSON {
	out := &measuredJSON{
		Source: sourceOf(m), Profile: m.Profile, Device: m.Device, Kernel: m.Kernel, Backend: m.Backend,
		Rounds: m.Rounds, Kept: m.Kept, Why: m.Why,
	}
	for i := range m.Finalists {
		f, t := &m.Finalists[i], &m.Trials[i]
		one := finalistJSON{Method: string(f.Method), Seed: f.Seed, RiskPenalty: f.RiskPenalty, Predicted: f.Predicted.Cost, Refused: t.Refused, Faster: t.Faster}
		if t.Refused == "" {
			one.Measured, one.Range, one.Runs = &t.Cost, &t.Range, t.Runs
		}
		if t.Refused == "" && i > 0 {
			percent := 100 * t.Difference
			one.Difference, one.PValue = &percent, &t.PValue
		}
		out.Finalists = append(out.Finalists, one)
	}
	return out
}
