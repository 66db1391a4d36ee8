package sweep

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
)

// WriteCSV writes the outcomes in their order as CSV, with a header. Values that are not known
// are empty.
func WriteCSV(w io.Writer, r *Results) error {
	out := csv.NewWriter(w)
	// The writer keeps its first error for Error.
	_ = out.Write([]string{
		"cell", "scale", "batch", "precision", "comm_precision", "sharding_types", "engine", "device", "devices_per_host", "devices",
		"status", "predicted_ms", "simulated_ms", "step_ms", "whole_step", "samples_per_second", "error_percent",
		"price_per_hour", "price_source", "price_per_1e9_samples", "memory_bytes", "budget_bytes", "binds",
		"lookups_ms", "exchanges_ms", "dense_ms", "allreduce_ms", "marks", "reason", "remedy",
	})
	for _, i := range r.Order {
		o := &r.Outcomes[i]
		row := []string{
			strconv.Itoa(o.Number), o.Scale, strconv.Itoa(o.Batch), o.Precision, o.CommPrecision, o.ShardingTypes, o.Engine,
			o.Device, strconv.Itoa(o.DevicesPerHost), strconv.Itoa(o.Devices), string(o.Status),
		}
		row = append(row, o.Plan.row()...)
		_ = out.Write(append(row, marks(r.Marks[i]), o.Reason, o.Remedy))
	}
	out.Flush()
	return out.Error()
}

// row returns the numbers of a plan as text; nil gives empty ones.
func (n *Planned) row() []string {
	if n == nil {
		return make([]string, 16)
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	known := func(v float64) string {
		if v == 0 {
			return ""
		}
		return number(v)
	}
	row := []string{
		number(n.Predicted), known(n.Simulated), number(n.Step), strconv.FormatBool(n.Whole), number(n.SamplesPerSecond), known(n.ErrorPercent),
		known(n.PricePerHour), n.PriceSource, known(n.PricePerBillion), strconv.FormatInt(int64(n.Memory), 10), strconv.FormatInt(int64(n.Budget), 10), string(n.Binds),
		number(n.Lookups), number(n.Exchanges), "", "",
	}
	if n.Whole {
		row[14], row[15] = number(n.Dense), number(n.AllReduce)
	}
	return row
}

// marks returns the marks as text.
func marks(all []Mark) string {
	words := make([]string, len(all))
	for i, m := range all {
		words[i] = string(m)
	}
	return strings.Join(words, ";")
}
