package simulate

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the expected values, by the second implementation")

// vectors is the file of cases with expected values, in the form that RunCases reads.
type vectors struct {
	Note    string          `json:"note"`
	Compute []computeVector `json:"compute"`
	Comm    []commVector    `json:"comm"`
}

type computeVector struct {
	ID          int           `json:"id"`
	Profile     string        `json:"profile"`
	Batch       float64       `json:"batch"`
	WeightBytes float64       `json:"weight_bytes"`
	OutputBytes float64       `json:"output_bytes"`
	IndexBytes  float64       `json:"index_bytes"`
	Optimizer   string        `json:"optimizer"`
	Weighted    bool          `json:"weighted"`
	Pooling     string        `json:"pooling,omitempty"`
	LaneRule    string        `json:"lane_rule"`
	LaunchMode  string        `json:"launch_mode"`
	Tables      []tableVector `json:"tables"`
	Forward     float64       `json:"forward_ms"`
	Backward    float64       `json:"backward_ms"`
}

type tableVector struct {
	Rows     float64      `json:"rows"`
	Dim      float64      `json:"dim"`
	Pooling  float64      `json:"pooling_factor"`
	LengthCV float64      `json:"length_cv"`
	Features float64      `json:"features"`
	Reuse    *[17]float64 `json:"reuse"`
	Unique   *float64     `json:"unique_rows"`
}

type commVector struct {
	ID       int       `json:"id"`
	Profile  string    `json:"profile"`
	Ranks    int       `json:"ranks"`
	PerHost  float64   `json:"ranks_per_node"`
	Batch    float64   `json:"global_batch"`
	Bytes    float64   `json:"element_bytes"`
	Columns  []float64 `json:"dim_sums"`
	Start    []float64 `json:"start_ms"`
	Forward  []float64 `json:"forward_ms"`
	Backward []float64 `json:"backward_ms"`
}

// reference returns the case in the symbols of the page.
func (v computeVector) reference(t testing.TB) refOp {
	o := refOp{
		device: profile(t, v.Profile), batch: v.Batch,
		weight: v.WeightBytes, output: v.OutputBytes, index: v.IndexBytes, optimizer: v.Optimizer,
		weighted: v.Weighted, eager: v.LaunchMode == "eager", ownLanes: v.LaneRule == "own",
		apart: v.Pooling == "none",
	}
	for _, in := range v.Tables {
		table := refTable{
			rows: in.Rows, dim: in.Dim, features: in.Features,
			lookups: in.Pooling * v.Batch, lengthCV: in.LengthCV,
		}
		if o.apart {
			table.features = in.Pooling
		}
		switch {
		case table.lookups == 0:
		case in.Reuse == nil:
			table.unique, table.reuse = refUniform(table.rows, table.lookups)
		case in.Unique == nil:
			table.unique, table.reuse = refHistogram(table.rows, table.lookups, *in.Reuse), *in.Reuse
		default:
			table.unique, table.reuse = math.Min(*in.Unique, math.Min(table.rows, table.lookups)), *in.Reuse
		}
		o.tables = append(o.tables, table)
	}
	return o
}

func (v commVector) reference(t testing.TB) refExchange {
	return refExchange{
		device: profile(t, v.Profile), batch: v.Batch, perHost: math.Min(v.PerHost, float64(v.Ranks)),
		bytes: v.Bytes, vector: v.Bytes, columns: v.Columns, start: v.Start,
	}
}

// TestVectors compares every stored case with its expected value, and sees that the cases
// run every branch of the formulas that an input can ask for.
func TestVectors(t *testing.T) {
	const file = "testdata/simulated_device_vectors.json"
	var want vectors
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		text = rewrite(t, file, &want)
	}
	var out bytes.Buffer
	if err := RunCases(bytes.NewReader(text), &out); err != nil {
		t.Fatal(err)
	}
	var got vectors
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Compute) != len(want.Compute) || len(want.Compute) != 204 || len(got.Comm) != len(want.Comm) || len(want.Comm) != 40 {
		t.Fatalf("got %d compute and %d comm results, want 204 and 40", len(got.Compute), len(got.Comm))
	}
	ran := map[string]bool{"cached": true} // a case cannot be cached
	for i, w := range want.Compute {
		g := got.Compute[i]
		if g.ID != w.ID {
			t.Fatalf("compute result %d: got id %d, want %d", i, g.ID, w.ID)
		}
		difference(t, "forward", w.ID, g.Forward, w.Forward)
		difference(t, "backward", w.ID, g.Backward, w.Backward)
		for _, branch := range w.reference(t).branches() {
			ran[branch] = true
		}
	}
	for _, branch := range refBranches {
		if !ran[branch] {
			t.Errorf("%q: got no case, want at least one", branch)
		}
	}
	for i, w := range want.Comm {
		g := got.Comm[i]
		if g.ID != w.ID || len(g.Forward) != len(w.Forward) || len(g.Backward) != len(w.Backward) {
			t.Fatalf("comm result %d: got id %d of %d ranks, want %d of %d", i, g.ID, len(g.Forward), w.ID, len(w.Forward))
		}
		for r := range w.Forward {
			difference(t, "forward comm", w.ID, g.Forward[r], w.Forward[r])
			difference(t, "backward comm", w.ID, g.Backward[r], w.Backward[r])
		}
	}
}

// rewrite stores the expected values of all cases, by the second implementation, and returns
// the contents of the file.
func rewrite(t *testing.T, file string, v *vectors) []byte {
	for i := range v.Compute {
		c := &v.Compute[i]
		c.Forward, c.Backward = c.reference(t).compute()
	}
	for i := range v.Comm {
		c := &v.Comm[i]
		c.Forward, c.Backward = c.reference(t).exchange()
	}
	text, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(file, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// difference fails the test if two times differ by more than 1e-9 of the second.
func difference(t *testing.T, what string, id int, got, want float64) {
	if got == want {
		return
	}
	if off := math.Abs(got-want) / math.Max(math.Abs(want), 1e-300); !(off <= 1e-9) {
		t.Errorf("%s of case %d: got %v ms, want %v ms", what, id, got, want)
	}
}
