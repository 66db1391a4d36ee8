package report

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/verify"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/unit"
)

// Verify writes a plan's measured times beside the predicted ones.
func Verify(w io.Writer, r *verify.Result, opt Options) error {
	p := &printer{w: w, opt: opt}
	measured := source(string(r.Provenance.Source))
	title := "plan"
	if opt.Name != "" {
		title = path(opt.Name)
	}
	p.printf("%s on %s\n", p.paint(bold, title), plural(len(r.Devices), "device"))
	p.fact("times", measured)
	p.fact("profile", r.Provenance.Profile)
	p.fact("device", r.Provenance.Device)
	p.fact("kernel", r.Provenance.Kernel)
	p.fact("backend", r.Provenance.Backend)
	what := "cost"
	if !r.CommMeasured {
		what = "longest compute"
		p.printf("%s\n", p.paint(yellow, "all-to-alls were not measured: "+OneLine(r.CommMissing)))
	} else if r.CommSimulated && r.Provenance.Source != dataset.Simulated {
		p.printf("%s\n", p.paint(yellow, "all-to-alls are SIMULATED, not measured: so are a part of the cost, and the columns comm"))
	}
	p.printf("\n%s  predicted %v, %s %v (%s)", what, r.Predicted, measured, r.Measured, off(r.Predicted, r.Measured))
	if len(r.Costs) > 1 {
		p.printf("; the median of %d runs within %v of each other", len(r.Costs), r.Spread)
	}
	p.printf("\n")
	p.section("devices, predicted / %s", measured)
	var rows [][]string
	for i, d := range r.Devices {
		both := func(a, b unit.Millis) string { return fmt.Sprintf("%.3f / %.3f", float64(a), float64(b)) }
		row := []string{
			fmt.Sprint(i), count(int64(d.Shards)), count(int64(d.DimSum)),
			both(d.Predicted.Forward, d.Measured.Forward), both(d.Predicted.Backward, d.Measured.Backward),
		}
		a, b := d.Predicted.Forward+d.Predicted.Backward, d.Measured.Forward+d.Measured.Backward
		if r.CommMeasured {
			row = append(row, both(d.Predicted.ForwardComm, d.Measured.ForwardComm), both(d.Predicted.BackwardComm, d.Measured.BackwardComm))
			a, b = d.Predicted.Total(), d.Measured.Total()
		}
		rows = append(rows, append(row, both(a, b), off(a, b)))
	}
	columns := []string{"device", "?shards", "?dim sum", "?forward ms", "?backward ms"}
	if r.CommMeasured {
		columns = append(columns, "?forward comm ms", "?backward comm ms")
	}
	p.grid(append(columns, "total ms", "off"), rows)
	return p.err
}

// off prints the error of a prediction in percent.
func off(predicted, measured unit.Millis) string {
	if measured <= 0 {
		return "-"
	}
	return unsigned(fmt.Sprintf("%+.1f", 100*float64((predicted-measured)/measured))) + " %"
}

// Verified writes how predicted and measured costs of many plans compare, and
// the methods that made them.
func Verified(w io.Writer, c *verify.Comparison, opt Options) error {
	p := &printer{w: w, opt: opt}
	p.section("predicted against measured cost, %s of %s", plural(c.Plans, "plan"), plural(c.Tasks, "task"))
	if c.MeasuredBy != "" {
		p.printf("measured by %s\n", OneLine(c.MeasuredBy))
	}
	p.grid([]string{"Kendall tau", "within a task", "mean error %", "p95 %", "range of repeats %"}, [][]string{{
		fmt.Sprintf("%.3f", c.Tau), fmt.Sprintf("%.3f", c.TaskTau),
		fmt.Sprintf("%.1f", 100*c.MeanError), fmt.Sprintf("%.1f", 100*c.P95Error), fmt.Sprintf("%.1f", 100*c.Noise),
	}})
	p.section("measured cost, method by method")
	var rows [][]string
	row := func(method string, m verify.MethodCost) []string {
		return []string{OneLine(method), fmt.Sprint(m.Tasks), fmt.Sprintf("%.3f", float64(m.Mean)), fmt.Sprintf("%.3f", m.Ratio), fmt.Sprint(m.Wins), fmt.Sprint(m.Losses), fmt.Sprintf("%.4f", m.PValue)}
	}
	for _, m := range c.Methods {
		rows = append(rows, row(m.Method, m))
	}
	rows = append(rows, row("best other of each task", c.Best))
	p.grid([]string{"<method", "tasks", "mean ms", OneLine(c.Method) + " takes", "faster on", "slower on", "p"}, rows)
	return p.err
}

// VerifyJSON writes the same as Verify, as one JSON object.
func VerifyJSON(w io.Writer, r *verify.Result) error {
	type times struct {
		plan.StepTimes
		Total unit.Millis `json:"total_ms"`
	}
	type device struct {
		Device    int         `json:"device"`
		Shards    int         `json:"shards"`
		DimSum    int         `json:"dim_sum"`
		Predicted times       `json:"predicted"`
		Measured  times       `json:"measured"`
		Spread    unit.Millis `json:"spread_ms"`
	}
	out := struct {
		Source       dataset.Source     `json:"source"`
		Predicted    unit.Millis        `json:"predicted_cost_ms"`
		Measured     unit.Millis        `json:"measured_cost_ms"`
		Spread       unit.Millis        `json:"spread_ms"`
		Runs         []unit.Millis      `json:"runs_ms"`
		CommMeasured bool               `json:"comm_measured"`
		CommMissing  string             `json:"comm_missing,omitempty"`
		CommSource   dataset.Source     `json:"comm_source,omitempty"`
		Devices      []device           `json:"devices"`
		Provenance   dataset.Provenance `json:"provenance"`
	}{
		Source: r.Provenance.Source, Predicted: r.Predicted, Measured: r.Measured, Spread: r.Spread, Runs: r.Costs,
		CommMeasured: r.CommMeasured, CommMissing: r.CommMissing, Provenance: r.Provenance,
		Devices: make([]device, 0, len(r.Devices)),
	}
	if r.CommMeasured {
		out.CommSource = dataset.Measured
		if r.CommSimulated {
			out.CommSource = dataset.Simulated
		}
	}
	for i, d := range r.Devices {
		out.Devices = append(out.Devices, device{i, d.Shards, d.DimSum, times{d.Predicted, d.Predicted.Total()}, times{d.Measured, d.Measured.Total()}, d.Spread})
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(out)
}
