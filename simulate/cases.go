package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// cases.go reads operators and all-to-alls from a file and writes the simulated times.
//
//	{"compute": [{"id": 0, "profile": "a100-80", "batch": 65536, "weight_bytes": 4,
//	    "output_bytes": 4, "index_bytes": 8, "optimizer": "sgd", "weighted": false,
//	    "pooling": "sum", "lane_rule": "widest", "launch_mode": "graph",
//	    "tables": [{"rows": 1000000, "dim": 64,
//	      "pooling_factor": 12.5, "length_cv": 0.3, "features": 1, "reuse": [17 shares] or
//	      null, "unique_rows": 41000 or null}]}],
//	 "comm": [{"id": 0, "profile": "a100-80", "ranks": 2, "ranks_per_node": 2,
//	    "global_batch": 65536, "element_bytes": 4, "dim_sums": [512, 384], "start_ms": [0, 3.1]}]}
//
// A reuse of null means uniform draws. A unique_rows that is null or absent is derived
// from reuse. These members may be left out; their defaults are in brackets:
// output_bytes (4), index_bytes (8), weighted (false), pooling ("sum"; "mean" takes as long;
// "none" keeps lookups apart, so each is a bag, whatever the features), lane_rule ("widest", or "own" for
// the lanes of each table's own width), launch_mode ("graph"), length_cv (0), features (1),
// ranks_per_node (all on one host), element_bytes (4), start_ms (all ready at once).
// Members with other names, such as expected values, are ignored, except subwarp: an input
// of version 1 of the simulated device that no longer has an effect is refused.

// MaxCasesBytes is the size of the largest input that RunCases reads.
const MaxCasesBytes = 100 * unit.MB

// The bounds of a case, in addition to the bounds of package problem.
const (
	maxDevices = hardware.MaxDevices
	maxDimSum  = 1 << 40
	maxStart   = 1e12 // ms
	// maxPooling is the sum over the most features of a table, each with the largest
	// pooling factor.
	maxPooling = problem.MaxPoolingFactor * problem.MaxFeatures
)

// InvalidCases is the error of an input with wrong values. Faults has a line for each
// wrong value, which names the case.
type InvalidCases struct{ Faults []string }

// maxFaultLines is the number of faults that Error prints.
const maxFaultLines = 50

// Error returns the first faults, one on each line, and the number of the others.
func (e *InvalidCases) Error() string { return joinFaults(e.Faults) }

func joinFaults(faults []string) string {
	return words.Lines(faults, maxFaultLines)
}

// RunCases reads cases from r, simulates them and writes the results to w, as one JSON
// object in the order of the input:
//
//	{"source": "simulated", "model_version": "4",
//	 "compute": [{"id": ..., "forward_ms": ..., "backward_ms": ...}],
//	 "comm": [{"id": ..., "forward_ms": [...], "backward_ms": [...]}]}
//
// Ids are numbers or strings, and are written as they were read. Times have full
// precision. If RunCases fails, it writes nothing. If values are wrong, the error is an
// *InvalidCases.
func RunCases(r io.Reader, w io.Writer) error {
	results, err := run(&bounded{r, int64(MaxCasesBytes)})
	if err != nil {
		return err
	}
	line, err := json.Marshal(results)
	if err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	if _, err := w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	return nil
}

// bounded reads at most left bytes, and fails if the input has more.
type bounded struct {
	from io.Reader
	left int64
}

var errTooLong = fmt.Errorf("the cases are longer than %d bytes: split them into several files", int64(MaxCasesBytes))

// Read reads the next bytes, and fails if the input is longer than the limit.
func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.from.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLong
	}
	return n, err
}

type results struct {
	Source  string          `json:"source"`
	Model   string          `json:"model_version"`
	Compute []computeResult `json:"compute"`
	Comm    []commResult    `json:"comm"`
}

type computeResult struct {
	ID       json.RawMessage `json:"id"`
	Forward  unit.Millis     `json:"forward_ms"`
	Backward unit.Millis     `json:"backward_ms"`
}

type commResult struct {
	ID       json.RawMessage `json:"id"`
	Forward  []unit.Millis   `json:"forward_ms"`
	Backward []unit.Millis   `json:"backward_ms"`
}

// run simulates the cases that it reads, one at a time.
func run(r io.Reader) (results, error) {
	in := json.NewDecoder(r)
	out := results{Source: Source, Model: ModelVersion, Compute: []computeResult{}, Comm: []commResult{}}
	var faults []string
	err := readLists(in, func(list string, place int, raw json.RawMessage) error {
		c := newCheck(list, place, raw)
		if list == "compute" {
			out.addCompute(c, raw)
		} else {
			out.addComm(c, raw)
		}
		if faults = append(faults, c.faults...); len(faults) > maxFaults {
			return errTooManyFaults
		}
		return nil
	})
	if err != nil && err != errTooManyFaults {
		return results{}, readError(err, in.InputOffset())
	}
	if len(faults) > 0 {
		return results{}, &InvalidCases{faults}
	}
	return out, nil
}

// addCompute adds the result of a compute case without faults.
func (out *results) addCompute(c *check, raw json.RawMessage) {
	op, device := c.compute(raw)
	if len(c.faults) > 0 {
		return
	}
	forward, backward := device.Compute(op)
	c.finite(forward, backward)
	out.Compute = append(out.Compute, computeResult{c.id, forward, backward})
}

// addComm adds the result of a communication case without faults.
func (out *results) addComm(c *check, raw json.RawMessage) {
	comm, device := c.comm(raw)
	if len(c.faults) > 0 {
		return
	}
	forward, backward, err := device.Comm(comm)
	if err != nil {
		c.add("%v", err)
	}
	c.finite(forward...)
	c.finite(backward...)
	out.Comm = append(out.Comm, commResult{c.id, forward, backward})
}

// maxFaults is the number of faults after which reading ends.
const maxFaults = 1000

var (
	errTooManyFaults = errors.New("too many faults")
	errNotCases      = errors.New(`give one JSON object of the form {"compute":[...],"comm":[...]}`)
)

// readLists calls each for every element of the two lists of cases.
func readLists(in *json.Decoder, each func(list string, place int, raw json.RawMessage) error) error {
	if err := open(in, '{'); err != nil {
		return err
	}
	lists := 0
	for in.More() {
		name, err := in.Token()
		if err != nil {
			return err
		}
		if name != "compute" && name != "comm" {
			var ignored json.RawMessage
			if err := in.Decode(&ignored); err != nil {
				return err
			}
			continue
		}
		lists++
		if err := readList(in, name.(string), each); err != nil {
			return err
		}
	}
	if _, err := in.Token(); err != nil {
		return err
	}
	if _, err := in.Token(); err == nil {
		return errNotCases
	} else if err != io.EOF {
		return err
	}
	if lists == 0 {
		return errNotCases
	}
	return nil
}

// readList calls each for every element of one list of cases.
func readList(in *json.Decoder, list string, each func(list string, place int, raw json.RawMessage) error) error {
	if err := open(in, '['); err != nil {
		return err
	}
	for place := 0; in.More(); place++ {
		var raw json.RawMessage
		if err := in.Decode(&raw); err != nil {
			return err
		}
		if err := each(list, place, raw); err != nil {
			return err
		}
	}
	_, err := in.Token()
	return err
}

// open reads the opening bracket of an object or a list.
func open(in *json.Decoder, bracket json.Delim) error {
	t, err := in.Token()
	if err == nil && t != bracket {
		return errNotCases
	}
	return err
}

// readError returns the error of an input that could not be read to its end.
func readError(err error, offset int64) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, errTooLong):
		return err
	case errors.Is(err, errNotCases):
		return fmt.Errorf("the cases, byte %d: %w", offset, err)
	case errors.Is(err, io.EOF) && offset == 0:
		return fmt.Errorf("the cases are empty: %w", errNotCases)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the cases end early, after byte %d: the input is cut short", offset)
	case errors.As(err, &syntax):
		return fmt.Errorf("the cases, after byte %d: not JSON, which has no NaN and no Infinity: %w", offset, err)
	}
	return fmt.Errorf("reading cases: %w", err)
}

// whole is an integer of the input. It accepts 5, 5.0 and 5e9, because tools write large
// integers in different ways. For any other value, wrong says what is wrong, and reading
// goes on to find the other faults.
type whole struct {
	value int64
	given bool
	wrong string
}

// UnmarshalJSON reads a number without a fraction, or null as not given.
func (n *whole) UnmarshalJSON(text []byte) error {
	*n = whole{given: string(text) != "null"}
	if !n.given {
		return nil
	}
	if value, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		n.value = value
		return nil
	}
	value, err := strconv.ParseFloat(string(text), 64)
	if err != nil || value != math.Trunc(value) || math.Abs(value) > 1<<53 {
		n.wrong = clip(text) + " is not a whole number"
		return nil
	}
	n.value = int64(value)
	return nil
}

// real is a number of the input. For a value that is not a number, wrong says so, as in
// whole.
type real struct {
	value float64
	given bool
	wrong string
}

// UnmarshalJSON reads a finite number, or null as not given.
func (n *real) UnmarshalJSON(text []byte) error {
	*n = real{given: string(text) != "null"}
	if !n.given {
		return nil
	}
	value, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		n.wrong = clip(text) + " is not a number"
		return nil
	}
	n.value = value
	return nil
}

// clip shortens a value that an error quotes.
func clip(text []byte) string {
	if len(text) > 40 {
		return string(text[:40]) + "..."
	}
	return string(text)
}

// check reads one case and gathers its faults.
type check struct {
	name   string
	id     json.RawMessage
	faults []string
}

// newCheck reads the id of a case. It names the case by the id, or by its place in the
// list if the id is missing or wrong.
func newCheck(list string, place int, raw json.RawMessage) *check {
	c := &check{name: fmt.Sprintf("%s case at place %d", list, place)}
	var head struct {
		ID json.RawMessage `json:"id"`
	}
	err := json.Unmarshal(raw, &head)
	switch {
	case err != nil:
		c.add("it is not an object")
	case len(head.ID) == 0 || !strings.ContainsRune(`"-0123456789`, rune(head.ID[0])):
		c.add("id: give a number or a string")
	default:
		c.id = head.ID
		c.name = fmt.Sprintf("%s case %s", list, clip(head.ID))
	}
	return c
}

func (c *check) add(format string, args ...any) {
	if len(c.faults) > maxFaults {
		return // the list is long enough
	}
	c.faults = append(c.faults, c.name+": "+fmt.Sprintf(format, args...))
}

// within checks that an integer is between low and high. An integer that is not given
// takes the standard value. If the standard value is below 0, the integer must be given.
func (c *check) within(name string, n whole, low, high, standard int64) int64 {
	switch {
	case n.wrong != "":
		c.add("%s: %s", name, n.wrong)
	case !n.given && standard < 0:
		c.add("%s: missing", name)
	case !n.given:
		return standard
	case n.value < low || n.value > high:
		c.add("%s: %d is not between %d and %d", name, n.value, low, high)
	}
	return n.value
}

// size checks that an element size is equal to small or to large. A size that is not given
// takes the standard value. If the standard value is below 0, the size must be given.
func (c *check) size(name string, n whole, standard, small, large int64) int64 {
	switch {
	case n.wrong != "":
		c.add("%s: %s", name, n.wrong)
	case !n.given && standard < 0:
		c.add("%s: missing", name)
	case !n.given:
		return standard
	case n.value != small && n.value != large:
		c.add("%s: %d is not %d or %d", name, n.value, small, large)
	}
	return n.value
}

// number checks that a number is given, and between low and high.
func (c *check) number(name string, n real, low, high float64) float64 {
	switch {
	case n.wrong != "":
		c.add("%s: %s", name, n.wrong)
	case !n.given:
		c.add("%s: missing", name)
	case n.value < low || n.value > high:
		c.add("%s: %v is not between %v and %v", name, n.value, low, high)
	}
	return n.value
}

// decode reads the members of the case. It returns false if the case has a fault already
// or if a member has the wrong type; then the other members are not checked.
func (c *check) decode(raw json.RawMessage, into any) bool {
	if len(c.faults) > 0 {
		return false
	}
	err := json.Unmarshal(raw, into)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return true
	case errors.As(err, &wrong):
		c.add("%s: a %s has the wrong type", wrong.Field, wrong.Value)
	default:
		c.add("%v", err)
	}
	return false
}

// device returns the device of a profile, or adds a fault.
func (c *check) device(name string) Device {
	profile, err := hardware.ByName(name)
	if err != nil {
		c.add("%v", err)
	}
	return NewDevice(profile)
}

// finite adds a fault if a time is not finite, which JSON cannot hold.
func (c *check) finite(times ...unit.Millis) {
	for _, t := range times {
		if math.IsNaN(float64(t)) || math.IsInf(float64(t), 0) {
			c.add("its time is not finite: check its sizes")
			return
		}
	}
}

type tableCase struct {
	Rows       whole  `json:"rows"`
	Dim        whole  `json:"dim"`
	Pooling    real   `json:"pooling_factor"`
	LengthCV   real   `json:"length_cv"`
	Features   whole  `json:"features"`
	Reuse      []real `json:"reuse"`
	UniqueRows real   `json:"unique_rows"`
	// Misplaced is refused: it is a member of the case.
	Misplaced any `json:"pooling"`
}

// compute reads a compute case.
func (c *check) compute(raw json.RawMessage) (Op, Device) {
	var in struct {
		Profile     string      `json:"profile"`
		Batch       whole       `json:"batch"`
		WeightBytes whole       `json:"weight_bytes"`
		OutputBytes whole       `json:"output_bytes"`
		IndexBytes  whole       `json:"index_bytes"`
		Optimizer   string      `json:"optimizer"`
		Weighted    bool        `json:"weighted"`
		Pooling     *string     `json:"pooling"`
		Subwarp     any         `json:"subwarp"`
		LaneRule    *string     `json:"lane_rule"`
		LaunchMode  *string     `json:"launch_mode"`
		Tables      []tableCase `json:"tables"`
	}
	if !c.decode(raw, &in) {
		return Op{}, Device{}
	}
	device := c.device(in.Profile)
	op := Op{
		Batch:       int(c.within("batch", in.Batch, 1, problem.MaxBatch, -1)),
		WeightBytes: int(c.size("weight_bytes", in.WeightBytes, -1, 2, 4)),
		OutputBytes: int(c.size("output_bytes", in.OutputBytes, problem.OutputBytes, 2, 4)),
		IndexBytes:  int(c.size("index_bytes", in.IndexBytes, problem.IndexBytes, 4, 8)),
		Weighted:    in.Weighted,
	}
	var err error
	if op.Optimizer, err = problem.ParseOptimizer(in.Optimizer); err != nil {
		c.add("%v", err)
	}
	if in.Subwarp != nil {
		c.add(`subwarp: the kernels decide since version 2 of the simulated device: remove it; lane_rule "own" gives each table the lanes of its own width`)
	}
	if in.Pooling != nil {
		if op.Pooling, err = problem.ParsePooling(*in.Pooling); err != nil {
			c.add("%v", err)
		}
		if op.Pooling == problem.PoolingNone && in.Weighted {
			c.add("weighted: lookups with the pooling none carry no weights")
		}
	}
	if in.LaneRule != nil {
		if op.LaneRule, err = problem.ParseLaneRule(*in.LaneRule); err != nil {
			c.add("%v", err)
		}
	}
	switch {
	case in.LaunchMode == nil || *in.LaunchMode == "graph":
	case *in.LaunchMode == "eager":
		op.Launch = Eager
	default:
		c.add("launch_mode %q is unknown: choose graph or eager", *in.LaunchMode)
	}
	if in.Tables == nil {
		c.add("tables: missing")
	}
	for i, t := range in.Tables {
		op.Tables = append(op.Tables, c.table(fmt.Sprintf("tables[%d].", i), t, op))
	}
	return op, device
}

// table reads the table of a compute case; at is its place in error messages.
func (c *check) table(at string, t tableCase, op Op) Table {
	rows := c.within(at+"rows", t.Rows, 1, problem.MaxRows, -1)
	table := Table{
		Rows: rows,
		Dim:  int(c.within(at+"dim", t.Dim, 1, problem.MaxDim, -1)),
		Bags: float64(c.within(at+"features", t.Features, 1, problem.MaxFeatures, 1)),
	}
	if t.Misplaced != nil {
		c.add("%spooling: it is a member of the case, because a kernel pools the rows of all its tables, or of none", at)
	}
	if t.LengthCV.given {
		table.LengthCV = c.number(at+"length_cv", t.LengthCV, 0, problem.MaxLengthCV)
	}
	lookups := c.number(at+"pooling_factor", t.Pooling, 0, maxPooling) // of a sample
	d := access.Distribution{Kind: access.Uniform}
	if t.Reuse != nil {
		d = c.histogram(at, t)
		d.Batch = op.Batch
	}
	if op.Pooling == problem.PoolingNone { // each lookup is a bag
		table.Bags = lookups
		if t.LengthCV.given && table.LengthCV != 0 {
			c.add("%slength_cv: the lengths of bags have no meaning with the pooling none: remove it", at)
		}
	}
	if len(c.faults) == 0 {
		table.Counts = d.At(rows, lookups, op.Batch)
	}
	return table
}

// maxShareError is the largest allowed difference between 1 and the sum of a histogram's
// shares.
const maxShareError = 0.01

// histogram reads the accesses of a table that has use classes.
func (c *check) histogram(at string, t tableCase) access.Distribution {
	d := access.Distribution{Kind: access.Histogram}
	if t.UniqueRows.given {
		d.UniqueRows = c.number(at+"unique_rows", t.UniqueRows, 0, problem.MaxRows)
	}
	if len(t.Reuse) != access.Classes {
		c.add("%sreuse: %d shares: give %d, or null for uniform draws", at, len(t.Reuse), access.Classes)
		return d
	}
	sum := 0.0
	for j, share := range t.Reuse {
		d.Reuse[j] = c.number(fmt.Sprintf("%sreuse[%d]", at, j), share, 0, 1)
		sum += d.Reuse[j]
	}
	if len(c.faults) == 0 && math.Abs(sum-1) > maxShareError {
		c.add("%sreuse: the shares add up to %.4g, not 1", at, sum)
	}
	return d
}

// comm reads a communication case.
func (c *check) comm(raw json.RawMessage) (Comm, Device) {
	var in struct {
		Profile      string  `json:"profile"`
		Ranks        whole   `json:"ranks"`
		RanksPerNode whole   `json:"ranks_per_node"`
		Batch        whole   `json:"global_batch"`
		ElementBytes whole   `json:"element_bytes"`
		DimSums      []whole `json:"dim_sums"`
		Start        []real  `json:"start_ms"`
	}
	if !c.decode(raw, &in) {
		return Comm{}, Device{}
	}
	device := c.device(in.Profile)
	ranks := int(c.within("ranks", in.Ranks, 1, maxDevices, -1))
	comm := Comm{
		PerHost:      int(c.within("ranks_per_node", in.RanksPerNode, 1, maxDevices, 0)),
		Batch:        int(c.within("global_batch", in.Batch, 1, problem.MaxBatch, -1)),
		ElementBytes: int(c.size("element_bytes", in.ElementBytes, 4, 2, 4)),
	}
	comm.VectorBytes = comm.ElementBytes
	if len(in.DimSums) != ranks {
		c.add("dim_sums: %d values for %d ranks", len(in.DimSums), ranks)
	}
	for i, n := range in.DimSums {
		comm.DimSums = append(comm.DimSums, int(c.within(fmt.Sprintf("dim_sums[%d]", i), n, 0, maxDimSum, -1)))
	}
	if in.Start == nil {
		return comm, device
	}
	if len(in.Start) != ranks {
		c.add("start_ms: %d values for %d ranks", len(in.Start), ranks)
	}
	for i, n := range in.Start {
		comm.Start = append(comm.Start, unit.Millis(c.number(fmt.Sprintf("start_ms[%d]", i), n, 0, maxStart)))
	}
	return comm, device
}
