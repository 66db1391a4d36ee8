package simulate

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/neuroshard/neuroshard/internal/jsonfile"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// cases.go reads operators and all-to-alls from a file and writes the simulated times.
// docs/SIMULATED.md draws the form. Members with other names, such as expected values, are ignored.

// MaxCasesBytes is the size of the largest input that RunCases reads.
const MaxCasesBytes = 100 * unit.MB

// The bounds of a case, in addition to the bounds of package problem.
const (
	maxDimSum = 1 << 40
	maxStart  = 1e12 // ms
	// maxPooling is the sum over the most features of a table, each with the largest
	// pooling factor.
	maxPooling = problem.MaxPoolingFactor * problem.MaxFeatures
	// maxShareError is the largest difference between 1 and the sum of a histogram's shares.
	maxShareError = 0.01
)

// caseFile is the input. Each case is run as it is decoded, so that only the text and the results take memory.
type caseFile struct {
	Compute resultsOf[computeCase, computeResult, *computeCase] `json:"compute"`
	Comm    resultsOf[commCase, commResult, *commCase]          `json:"comm"`
}

// resultsOf are the results of a list of cases.
type resultsOf[C, R any, P interface {
	*C
	run() (R, error)
}] []R

// UnmarshalJSONFrom reads a list of cases, and runs each.
func (l *resultsOf[C, R, P]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*l = resultsOf[C, R, P]{}
	return jsonfile.List(d, math.MaxInt, func(_ int, c *C) error {
		result, err := P(c).run()
		*l = append(*l, result)
		return err
	})
}

// RunCases reads cases from r, simulates them and writes the results to w, as one JSON
// object in the order of the input:
//
//	{"source": "simulated", "model_version": "4",
//	 "compute": [{"id": ..., "forward_ms": ..., "backward_ms": ...}],
//	 "comm": [{"id": ..., "forward_ms": [...], "backward_ms": [...]}]}
//
// Ids are numbers or strings, and are written as they were read. Times have full
// precision. RunCases fails at the first fault, and then writes nothing.
func RunCases(r io.Reader, w io.Writer) error {
	text, err := io.ReadAll(io.LimitReader(r, int64(MaxCasesBytes)+1))
	switch {
	case err != nil:
		return fmt.Errorf("reading cases: %w", err)
	case len(text) > int(MaxCasesBytes):
		return fmt.Errorf("the cases are longer than %d bytes: split them into several files", int64(MaxCasesBytes))
	}
	var in caseFile
	if err := jsonfile.Unmarshal(text, &in, json.RejectUnknownMembers(false), json.WithUnmarshalers(jsonfile.Bounded[tableCase](problem.MaxTables))); err != nil {
		return fmt.Errorf("the cases: %w", err)
	}
	if in.Compute == nil && in.Comm == nil {
		return errors.New(`the cases: give one JSON object of the form {"compute":[...],"comm":[...]}`)
	}
	line, err := json.Marshal(results{Source, ModelVersion, in.Compute, in.Comm})
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	return nil
}

type results struct {
	Source  string          `json:"source"`
	Model   string          `json:"model_version"`
	Compute []computeResult `json:"compute"`
	Comm    []commResult    `json:"comm"`
}

type computeResult struct {
	ID       jsontext.Value `json:"id"`
	Forward  unit.Millis    `json:"forward_ms"`
	Backward unit.Millis    `json:"backward_ms"`
}

type commResult struct {
	ID       jsontext.Value `json:"id"`
	Forward  []unit.Millis  `json:"forward_ms"`
	Backward []unit.Millis  `json:"backward_ms"`
}

// computeCase is an operator. Whole numbers are floats, because tools write 5, 5.0 and 5e9.
type computeCase struct {
	ID          jsontext.Value `json:"id"`
	Profile     string         `json:"profile"`
	Batch       float64        `json:"batch"`
	WeightBytes float64        `json:"weight_bytes"`
	OutputBytes float64        `json:"output_bytes"`
	IndexBytes  float64        `json:"index_bytes"`
	Optimizer   string         `json:"optimizer"`
	Weighted    bool           `json:"weighted"`
	Pooling     string         `json:"pooling"`
	LaneRule    string         `json:"lane_rule"`
	LaunchMode  string         `json:"launch_mode"`
	Tables      []tableCase    `json:"tables"`
}

// nullIsLeftOut lets a null stand for a member that is left out, as in numbers that some tools write.
var nullIsLeftOut = jsonv1.MergeWithLegacySemantics(true)

// UnmarshalJSONFrom reads a case that may leave out what has a default.
func (c *computeCase) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type fields computeCase
	*c = computeCase{
		Batch: missing, WeightBytes: missing, OutputBytes: problem.OutputBytes, IndexBytes: problem.IndexBytes, Pooling: problem.SumPooling.String(),
		LaneRule: problem.LanesByWidest.String(), LaunchMode: "graph",
	}
	return json.UnmarshalDecode(d, (*fields)(c), nullIsLeftOut)
}

// tableCase is a table of an operator. Without Reuse its lookups are uniform draws.
type tableCase struct {
	Rows       float64    `json:"rows"`
	Dim        float64    `json:"dim"`
	Lookups    float64    `json:"pooling_factor"` // of a sample
	LengthCV   float64    `json:"length_cv"`
	Features   float64    `json:"features"`
	Reuse      numberList `json:"reuse"`
	UniqueRows float64    `json:"unique_rows"`
	// Pooling is refused: it is a member of the case.
	Pooling *jsonfile.Ignored `json:"pooling"`
}

// UnmarshalJSONFrom reads a table that may leave out what has a default.
func (t *tableCase) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type fields tableCase
	*t = tableCase{Rows: missing, Dim: missing, Lookups: missing, Features: 1}
	return json.UnmarshalDecode(d, (*fields)(t), nullIsLeftOut)
}

func (c *computeCase) run() (computeResult, error) {
	if err := checkID(c.ID); err != nil {
		return computeResult{}, err
	}
	profile, err := hardware.ByName(c.Profile)
	if err != nil {
		return computeResult{}, err
	}
	op, err := c.operator()
	if err != nil {
		return computeResult{}, err
	}
	device := NewDevice(profile)
	forward, backward := device.Compute(op)
	return computeResult{c.ID, forward, backward}, checkTimes(forward, backward)
}

func (c *computeCase) operator() (op Op, err error) {
	var n numbers
	op = Op{
		Batch: n.whole("batch", c.Batch, 1, problem.MaxBatch), Weighted: c.Weighted,
		WeightBytes: n.oneOf("weight_bytes", c.WeightBytes, 2, 4), OutputBytes: n.oneOf("output_bytes", c.OutputBytes, 2, 4),
		IndexBytes: n.oneOf("index_bytes", c.IndexBytes, 4, 8),
	}
	if n.err != nil {
		return op, n.err
	}
	if op.Optimizer, err = problem.ParseOptimizer(c.Optimizer); err != nil {
		return op, err
	}
	if op.Pooling, err = problem.ParsePooling(c.Pooling); err != nil {
		return op, err
	}
	if op.LaneRule, err = problem.ParseLaneRule(c.LaneRule); err != nil {
		return op, err
	}
	switch {
	case op.Pooling == problem.PoolingNone && c.Weighted:
		return op, fmt.Errorf("weighted: lookups with the pooling none carry no weights")
	case c.Tables == nil:
		return op, fmt.Errorf("tables: missing")
	case c.LaunchMode == "eager":
		op.Launch = Eager
	case c.LaunchMode != "graph":
		return op, fmt.Errorf("launch_mode %q is unknown: choose graph or eager", c.LaunchMode)
	}
	for i := range c.Tables {
		t, err := c.Tables[i].table(&op)
		if err != nil {
			return op, fmt.Errorf("tables[%d].%w", i, err)
		}
		op.Tables = append(op.Tables, t)
	}
	return op, nil
}

func (t *tableCase) table(op *Op) (Table, error) {
	var n numbers
	table := Table{
		Rows: int64(n.whole("rows", t.Rows, 1, problem.MaxRows)), Dim: n.whole("dim", t.Dim, 1, problem.MaxDim),
		Bags:     float64(n.whole("features", t.Features, 1, problem.MaxFeatures)),
		LengthCV: n.within("length_cv", t.LengthCV, 0, problem.MaxLengthCV),
	}
	n.within("pooling_factor", t.Lookups, 0, maxPooling)
	n.within("unique_rows", t.UniqueRows, 0, problem.MaxRows)
	for j, share := range t.Reuse {
		n.within(fmt.Sprintf("reuse[%d]", j), share, 0, 1)
	}
	switch {
	case n.err != nil:
		return table, n.err
	case t.Pooling != nil:
		return table, fmt.Errorf("pooling: it is a member of the case, because a kernel pools the rows of all its tables, or of none")
	case op.Pooling == problem.PoolingNone && t.LengthCV != 0:
		return table, fmt.Errorf("length_cv: the lengths of bags have no meaning with the pooling none: remove it")
	case op.Pooling == problem.PoolingNone:
		table.Bags = t.Lookups // each lookup is a bag
	}
	d := access.Distribution{Kind: access.Uniform}
	if t.Reuse != nil {
		if len(t.Reuse) != access.Classes {
			return table, fmt.Errorf("reuse: %d shares: give %d, or null for uniform draws", len(t.Reuse), access.Classes)
		}
		d = access.Distribution{Kind: access.Histogram, Batch: op.Batch, UniqueRows: t.UniqueRows, Reuse: [access.Classes]float64(t.Reuse)}
		sum := 0.0
		for _, share := range t.Reuse {
			sum += share
		}
		if math.Abs(sum-1) > maxShareError {
			return table, fmt.Errorf("reuse: the shares add up to %.4g, not 1", sum)
		}
	}
	table.Counts = d.At(table.Rows, t.Lookups, op.Batch)
	return table, nil
}

// commCase is the exchanges of pooled vectors, by default of ranks that are on one host and ready at
// once.
type commCase struct {
	ID           jsontext.Value `json:"id"`
	Profile      string         `json:"profile"`
	Ranks        float64        `json:"ranks"`
	RanksPerNode float64        `json:"ranks_per_node"`
	Batch        float64        `json:"global_batch"`
	ElementBytes float64        `json:"element_bytes"`
	DimSums      numberList     `json:"dim_sums"`
	Start        numberList     `json:"start_ms"`
}

// UnmarshalJSONFrom reads a case that may leave out what has a default.
func (c *commCase) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type fields commCase
	*c = commCase{Ranks: missing, Batch: missing, ElementBytes: problem.OutputBytes}
	return json.UnmarshalDecode(d, (*fields)(c), nullIsLeftOut)
}

func (c *commCase) run() (commResult, error) {
	if err := checkID(c.ID); err != nil {
		return commResult{}, err
	}
	profile, err := hardware.ByName(c.Profile)
	if err != nil {
		return commResult{}, err
	}
	comm, err := c.exchange()
	if err != nil {
		return commResult{}, err
	}
	device := NewDevice(profile)
	forward, backward, err := device.Comm(comm)
	if err == nil {
		err = checkTimes(append(forward, backward...)...)
	}
	return commResult{c.ID, forward, backward}, err
}

func (c *commCase) exchange() (Comm, error) {
	var n numbers
	ranks := n.whole("ranks", c.Ranks, 1, hardware.MaxDevices)
	comm := Comm{Batch: n.whole("global_batch", c.Batch, 1, problem.MaxBatch), ElementBytes: n.oneOf("element_bytes", c.ElementBytes, 2, 4)}
	comm.VectorBytes = comm.ElementBytes
	if c.RanksPerNode != 0 {
		comm.PerHost = n.whole("ranks_per_node", c.RanksPerNode, 1, hardware.MaxDevices)
	}
	for i, v := range c.DimSums {
		comm.DimSums = append(comm.DimSums, n.whole(fmt.Sprintf("dim_sums[%d]", i), v, 0, maxDimSum))
	}
	for i, v := range c.Start {
		comm.Start = append(comm.Start, unit.Millis(n.within(fmt.Sprintf("start_ms[%d]", i), v, 0, maxStart)))
	}
	switch {
	case n.err != nil:
		return comm, n.err
	case len(c.DimSums) != ranks:
		return comm, fmt.Errorf("dim_sums: %d values for %d ranks", len(c.DimSums), ranks)
	case c.Start != nil && len(c.Start) != ranks:
		return comm, fmt.Errorf("start_ms: %d values for %d ranks", len(c.Start), ranks)
	}
	return comm, nil
}

// checkID fails unless the id is a number or a string.
func checkID(id jsontext.Value) error {
	if len(id) == 0 || !strings.ContainsRune(`"-0123456789`, rune(id[0])) {
		return fmt.Errorf("id: give a number or a string")
	}
	return nil
}

// checkTimes fails if a time is not finite, which JSON cannot hold.
func checkTimes(times ...unit.Millis) error {
	for _, t := range times {
		if math.IsNaN(float64(t)) || math.IsInf(float64(t), 0) {
			return fmt.Errorf("its time is not finite: check its sizes")
		}
	}
	return nil
}

// missing stands for a number that is not there: no number of JSON reads as NaN.
var missing = math.NaN()

// numberList is a list of numbers, in which null is a missing one.
type numberList []float64

// UnmarshalJSONFrom reads a list.
func (l *numberList) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() == '[' {
		*l = numberList{} // unlike that of null
	}
	return jsonfile.Each(d, hardware.MaxDevices, func(int) error {
		v := missing
		err := json.UnmarshalDecode(d, &v, nullIsLeftOut)
		*l = append(*l, v)
		return err
	})
}

// numbers checks the numbers of a case, and keeps the first fault.
type numbers struct{ err error }

func (n *numbers) within(name string, v, least, most float64) float64 {
	if n.err == nil && math.IsNaN(v) {
		n.err = fmt.Errorf("%s: missing", name)
	}
	if n.err == nil && !(v >= least && v <= most) {
		n.err = fmt.Errorf("%s: %.15g is not between %.15g and %.15g", name, v, least, most)
	}
	return v
}

func (n *numbers) whole(name string, v, least, most float64) int {
	if n.within(name, v, least, most); n.err == nil && v != math.Trunc(v) {
		n.err = fmt.Errorf("%s: %v is not a whole number", name, v)
	}
	return int(v)
}

func (n *numbers) oneOf(name string, v, small, large float64) int {
	if n.err == nil && math.IsNaN(v) {
		n.err = fmt.Errorf("%s: missing", name)
	}
	if n.err == nil && v != small && v != large {
		n.err = fmt.Errorf("%s: %v is not %v or %v", name, v, small, large)
	}
	return int(v)
}
