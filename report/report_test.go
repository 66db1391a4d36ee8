package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/lab/sweep"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// goldenCase is a report and the name of its golden file.
type goldenCase struct {
	name  string
	write func(b *bytes.Buffer) error
}

func TestGolden(t *testing.T) {
	small, p := result(4, 7)
	large, _ := result(40, 80)
	lonely, _ := result(1, 2)
	hasty, _ := result(4, 7)
	hasty.Status, hasty.Plan.Provenance.Status = search.Interrupted, string(search.Interrupted)
	for i := range hasty.Baselines {
		hasty.Baselines[i] = neuroshard.Baseline{Method: hasty.Baselines[i].Method}
	}
	hasty.Plan.Tables[0].Name = "evil\x1b[2J name"
	hasty.Plan.Provenance.Warnings = []string{"a\nwarning \x1b[31m"}

	moved, _ := result(4, 7)
	moved.Plan.Tables[0].Shards[0].Device = 3
	moved.Plan.Predicted *= 0.9
	moved.Plan.Devices[0].Shards--
	moved.Plan.Devices[3].Shards++
	other, _ := result(3, 12)
	other.Plan.Tables[2].Rows++

	mixed, mixedProblem := kinds(true)
	plain, _ := kinds(false)

	inSteps := *small.Plan
	inSteps.Provenance.Hierarchy = problem.Hierarchy{Sent: 1, Inside: 1, Between: 0.77, Latency: 0.06}
	cases := []goldenCase{
		{"result", func(b *bytes.Buffer) error {
			return report.Result(b, small, report.Options{Full: true, Name: "tables.json", Problem: p})
		}},
		{"summary", func(b *bytes.Buffer) error {
			return report.Result(b, small, report.Options{Name: "tables.json", Problem: p, Wrote: "plan.json", Next: "neuroshard show plan.json --full"})
		}},
		{"result_colour", func(b *bytes.Buffer) error { return report.Result(b, small, report.Options{Full: true, Colour: true}) }},
		{"result_one_device", func(b *bytes.Buffer) error { return report.Result(b, lonely, report.Options{Full: true}) }},
		{"result_interrupted", func(b *bytes.Buffer) error { return report.Result(b, hasty, report.Options{Full: true}) }},
		{"result_many", func(b *bytes.Buffer) error { return report.Result(b, large, report.Options{Full: true}) }},
		{"result_all", func(b *bytes.Buffer) error {
			return report.Result(b, large, report.Options{Full: true, AllDevices: true})
		}},
		{"plan", func(b *bytes.Buffer) error {
			return report.Plan(b, small.Plan, report.Options{Full: true, Name: "plan.json"})
		}},
		{"kinds", func(b *bytes.Buffer) error {
			return report.Result(b, mixed, report.Options{Full: true, Name: "tables.json", Problem: mixedProblem})
		}},
		{"kinds_json", func(b *bytes.Buffer) error { return report.PlanJSON(b, mixed.Plan) }},
		{"kinds_memory", func(b *bytes.Buffer) error { return report.Memory(b, mixed.Plan, 1, report.Options{}) }},
		{"diff_kinds", func(b *bytes.Buffer) error {
			return report.Diff(b, plain.Plan, mixed.Plan, report.Options{})
		}},
		{"memory", func(b *bytes.Buffer) error {
			return report.Memory(b, small.Plan, report.Fullest(small.Plan), report.Options{})
		}},
		{"json", func(b *bytes.Buffer) error { return report.JSON(b, small, nil, nil, 12.5) }},
		{"plan_json", func(b *bytes.Buffer) error { return report.PlanJSON(b, small.Plan) }},
		{"diff_same", func(b *bytes.Buffer) error {
			return report.Diff(b, small.Plan, small.Plan, report.Options{})
		}},
		{"diff", func(b *bytes.Buffer) error {
			return report.Diff(b, small.Plan, moved.Plan, report.Options{})
		}},
		{"diff_cluster", func(b *bytes.Buffer) error {
			return report.Diff(b, small.Plan, other.Plan, report.Options{})
		}},
		{"diff_hierarchy", func(b *bytes.Buffer) error {
			return report.Diff(b, small.Plan, &inSteps, report.Options{})
		}},
		{"plan_hierarchy", func(b *bytes.Buffer) error {
			return report.Plan(b, &inSteps, report.Options{Full: true})
		}},
		{"workloads", func(b *bytes.Buffer) error {
			return report.Workloads(b, workload.All(), workload.Drawn(), report.Options{})
		}},
		{"devices", func(b *bytes.Buffer) error {
			return report.Devices(b, hardware.Profiles(), func(name string) bool { return name == "h200" }, report.Options{})
		}},
	}
	cases = append(cases, judgements()...)
	cases = append(cases, measurements()...)
	cases = append(cases, sweeps()...)
	cases = append(cases, replans()...)
	cases = append(cases, comparisons()...)
	cases = append(cases, wholeSteps()...)
	var names []string
	for _, c := range cases {
		names = append(names, c.name+".golden")
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			must.Do(t, c.write(&b))
			must.Match(t, filepath.Join(folder, c.name+".golden"), b.Bytes())
		})
	}
	files := must.Get(os.ReadDir(folder))(t)
	for _, f := range files {
		if !slices.Contains(names, f.Name()) {
			t.Errorf("%s/%s belongs to no case", folder, f.Name())
		}
	}
}

// folder holds the golden files.
const folder = "testdata/report"

// result makes up a result: every third table is cut in halves, pieces go round
// the devices, and a piece's times follow from its shape alone.
func result(devices, tables int) (*neuroshard.Result, *problem.Problem) {
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		panic(err)
	}
	p := &problem.Problem{
		Topology: hardware.Topology{Profile: profile, Devices: devices, DevicesPerHost: 8, ReserveShare: hardware.DefaultReserveShare},
		Batch:    65536,
	}
	shards := make([][]problem.Shard, devices)
	times := make([]plan.StepTimes, devices)
	next := 0
	place := func(s problem.Shard) {
		d := next % devices
		shards[d] = append(shards[d], s)
		work := unit.Millis(float64(s.Dim()) * (1 + p.Tables[s.Table].PoolingFactor()) / 1000)
		times[d].Forward += work
		times[d].Backward += 2 * work
		next++
	}
	for i := range tables {
		p.Tables = append(p.Tables, problem.Table{
			Name: fmt.Sprintf("t%03d", i), Rows: int64(1000 * (i + 1) * (i + 1)), Dim: 16 << (i % 3),
			Features:  []problem.Feature{{Name: fmt.Sprintf("f%03d", i), PoolingFactor: float64(1 + 7*i%13)}},
			Optimizer: problem.RowwiseAdagrad, Precision: problem.Precision(i % 2),
		})
		whole := p.Whole(i)
		if i%3 != 0 {
			place(whole)
			continue
		}
		left, right := whole, whole
		left.Columns.End /= 2
		right.Columns.Start = left.Columns.End
		place(left)
		place(right)
	}
	last := unit.Millis(0)
	for _, d := range times {
		last = max(last, d.Forward+d.Backward)
	}
	for i := range times {
		times[i].ForwardComm = last - times[i].Forward - times[i].Backward + 0.25
		times[i].BackwardComm = 0.25
	}
	r := &neuroshard.Result{Plan: plan.New(p, shards), Predicted: plan.NewBreakdown(slices.Clone(times)), Status: search.Complete}
	for i := range times {
		r.Plan.Devices[i].Forward, r.Plan.Devices[i].ForwardComm = times[i].Forward, times[i].ForwardComm
		r.Plan.Devices[i].BackwardComm, r.Plan.Devices[i].Backward = times[i].BackwardComm, times[i].Backward
	}
	r.Plan.Predicted = r.Predicted.Cost
	r.Plan.Provenance = plan.Provenance{
		Tool: "neuroshard", Version: "1.2.3", Method: "neuroshard", Status: "complete", Model: "a100-80-0123456789ab",
		ModelSource: "simulated", Input: plan.Digest(p), Warnings: []string{"no batch is stated"},
	}
	for i := range times {
		times[i].Backward *= 1.01
	}
	r.Simulated = plan.NewBreakdown(slices.Clone(times))
	r.Lanes = neuroshard.Lanes{Widest: r.Simulated.Cost, Own: 0.9 * r.Simulated.Cost}
	r.Baselines = []neuroshard.Baseline{
		{Method: search.Size, Valid: true, Predicted: 2 * r.Predicted.Cost, Simulated: 2.5 * r.Simulated.Cost},
		{Method: search.Dim, Valid: true, Predicted: 1.2 * r.Predicted.Cost, Simulated: 1.25 * r.Simulated.Cost},
		{Method: search.Lookup},
		{Method: search.Random, Valid: true, Predicted: r.Predicted.Cost, Simulated: 0.8 * r.Simulated.Cost},
	}
	return r, p
}

// kinds makes up a result with a table of every kind and tier, or the same tables all
// whole and in HBM.
func kinds(mixed bool) (*neuroshard.Result, *problem.Problem) {
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		panic(err)
	}
	p := &problem.Problem{
		Topology: hardware.Topology{Profile: profile, Devices: 4, DevicesPerHost: 2, ReserveShare: hardware.DefaultReserveShare},
		Batch:    8192,
	}
	for i, name := range []string{"whole", "columns", "rows", "host_rows", "grid", "copies", "far", "near"} {
		p.Tables = append(p.Tables, problem.Table{
			Name: name, Rows: int64(100_001 * (i + 1)), Dim: 32, Features: []problem.Feature{{Name: name, PoolingFactor: float64(3 + i)}},
			Optimizer: problem.RowwiseAdagrad,
		})
	}
	shards := make([][]problem.Shard, 4)
	put := func(table int, s problem.Shard, column, end int64, first, blocks int) {
		t := &p.Tables[table]
		for k := range blocks {
			s.Table, s.Columns = table, problem.Range{Start: column, End: end}
			s.Rows = problem.Range{Start: int64(k) * t.BlockRows(blocks), End: min(t.Rows, int64(k+1)*t.BlockRows(blocks))}
			shards[first+k] = append(shards[first+k], s)
		}
	}
	if mixed {
		p.Topology.HostMemory, p.CommPrecision = unit.GiB, problem.BF16
		put(0, problem.Shard{}, 0, 32, 3, 1)
		put(1, problem.Shard{}, 0, 12, 0, 1)
		put(1, problem.Shard{}, 12, 32, 1, 1)
		put(2, problem.Shard{ShardingType: problem.RowWise}, 0, 32, 0, 4)
		put(3, problem.Shard{ShardingType: problem.TableRowWise}, 0, 32, 2, 2)
		put(4, problem.Shard{ShardingType: problem.Grid}, 0, 16, 2, 2)
		put(4, problem.Shard{ShardingType: problem.Grid}, 16, 32, 0, 2)
		for d := range shards {
			put(5, problem.Shard{ShardingType: problem.DataParallel}, 0, 32, d, 1)
		}
		put(6, problem.Shard{Tier: problem.Host}, 0, 32, 0, 1)
		put(7, problem.Shard{Tier: problem.HostCached, Cache: 0.1}, 0, 16, 1, 1)
		put(7, problem.Shard{Tier: problem.HostCached, Cache: 0.25}, 16, 32, 3, 1)
	} else {
		for i := range p.Tables {
			put(i, problem.Shard{}, 0, 32, i%4, 1)
		}
	}
	times := make([]plan.StepTimes, 4)
	for i := range times {
		times[i] = plan.StepTimes{Forward: unit.Millis(1 + i), ForwardComm: unit.Millis(5 - i), BackwardComm: 1, Backward: unit.Millis(2 + 2*i)}
	}
	r := &neuroshard.Result{Plan: plan.New(p, shards), Predicted: plan.NewBreakdown(times), Status: search.Complete}
	if err := r.Plan.Validate(p); mixed && err != nil && !strings.Contains(err.Error(), "predicted") {
		panic(err)
	}
	for i, d := range times {
		into := &r.Plan.Devices[i]
		into.Forward, into.ForwardComm, into.BackwardComm, into.Backward = d.Forward, d.ForwardComm, d.BackwardComm, d.Backward
	}
	r.Plan.Predicted, r.Simulated = r.Predicted.Cost, r.Predicted
	r.Plan.Provenance = plan.Provenance{
		Tool: "neuroshard", Version: "1.2.3", Method: "neuroshard", Status: "complete", Model: "a100-80-0123456789ab",
		ModelSource: "simulated", Input: plan.Digest(p),
	}
	return r, p
}

func TestBarsAreAsLongAsTotals(t *testing.T) {
	r, _ := result(4, 7)
	for i := range r.Predicted.Devices {
		quarter := unit.Millis(i+1) / 4
		r.Predicted.Devices[i] = plan.StepTimes{Forward: quarter, ForwardComm: quarter, BackwardComm: quarter, Backward: quarter}
	}
	r.Plan.SetBreakdown(r.Predicted)
	var b bytes.Buffer
	must.Do(t, report.Result(&b, r, report.Options{Full: true}))
	var lengths []int
	for line := range strings.SplitSeq(b.String(), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 13 && strings.HasPrefix(fields[12], "█") {
			lengths = append(lengths, len([]rune(fields[12])))
		}
	}
	// Four devices, of 1, 2, 3 and 4 ms, and their mean.
	if len(lengths) != 5 {
		t.Fatalf("got %d bars, want 5, in\n%s", len(lengths), b.String())
	}
	longest := lengths[3]
	want := []int{(longest + 2) / 4, (longest + 1) / 2, (3*longest + 2) / 4, longest, (5*longest + 4) / 8}
	if diff := cmp.Diff(want, lengths); longest < 20 || diff != "" {
		t.Errorf("lengths of bars (-want +got):\n%s\n%s", diff, b.String())
	}
}

func TestJSONIsOneObject(t *testing.T) {
	r, _ := result(3, 5)
	var b bytes.Buffer
	must.Do(t, report.JSON(&b, r, nil, nil, 1))
	var object struct {
		Plan json.RawMessage `json:"plan"`
	}
	must.Do(t, json.Unmarshal(b.Bytes(), &object))
	again, err := plan.Read(bytes.NewReader(object.Plan))
	if err != nil {
		t.Fatalf("the plan in the object is no plan file: %v", err)
	}
	if diff := cmp.Diff(r.Plan, again); diff != "" {
		t.Errorf("the plan in the object (-want +got):\n%s", diff)
	}
}

// A plan without a gain says so, and names the baseline.
func TestGain(t *testing.T) {
	for _, c := range []struct {
		baseline unit.Millis // of the plan's cost
		want     string
	}{
		{2, "gain       50 % less time than the best simple method, dim ("},
		{1.01, "gain       1.0 % less time than the best simple method, dim ("},
		{1.0004, "gain       none: the best simple method, dim, takes as long"},
		{1, "gain       none: the best simple method, dim, takes as long"},
		{0.9999, "gain       none: the best simple method, dim, takes as long"},
		{0.75, "gain       none: the best simple method, dim, takes 25 % less ("},
	} {
		r, _ := result(4, 7)
		r.Baselines = []neuroshard.Baseline{{Method: search.Dim, Valid: true, Predicted: 1, Simulated: c.baseline * r.Simulated.Cost}}
		if got := written(t, r); !strings.Contains(got, "\n"+c.want) {
			t.Errorf("a baseline of %v times the cost: got\n%s\nwant a line that begins with %q", c.baseline, got, c.want)
		}
	}
}

// TestNoTime: a plan of tables without lookups, which takes no time, has no gain over another one, in
// words and in JSON.
func TestNoTime(t *testing.T) {
	r, _ := result(4, 7)
	r.Simulated.Cost = 0
	r.Baselines = []neuroshard.Baseline{{Method: search.Dim, Valid: true, Predicted: 1}}
	if got := written(t, r); !strings.Contains(got, "\ngain       none: the best simple method, dim, takes as long\n") {
		t.Errorf("got\n%s", got)
	}
	if err := report.JSON(io.Discard, r, nil, nil, 1); err != nil {
		t.Error(err)
	}
}

// written returns the report of a result.
func written(t *testing.T, r *neuroshard.Result) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, report.Result(&b, r, report.Options{Full: true}))
	return b.String()
}

// A difference is reported if it can be seen, and a critical device whose total
// is not the largest says why.
func TestWhy(t *testing.T) {
	r, _ := result(2, 4)
	set := func(first, second plan.StepTimes) string {
		r.Predicted = plan.NewBreakdown([]plan.StepTimes{first, second})
		r.Plan.SetBreakdown(r.Predicted)
		return written(t, r)
	}
	const reason = "the cost is the total time of device "
	r.Plan.Devices[0].DimSum, r.Plan.Devices[1].DimSum = 100, 1200
	got := set(plan.StepTimes{Forward: 1, Backward: 2, ForwardComm: 0.2, BackwardComm: 0.5}, plan.StepTimes{Forward: 1, Backward: 1, ForwardComm: 1.3, BackwardComm: 0.5})
	for _, want := range []string{"device 0 is critical: ", "\ncompared with the mean device: backward +0.500 ms\n", "\n" + reason + "1, 0.100 ms longer than that of device 0, which sends less in the all-to-alls: its dim sum is 100, not 1,200\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
	got = set(plan.StepTimes{Forward: 1, Backward: 2, ForwardComm: 0.2, BackwardComm: 0.5}, plan.StepTimes{Forward: 1, Backward: 2, ForwardComm: 0.2, BackwardComm: 0.5})
	for _, no := range []string{"compared with the mean", reason, "+0 ms"} {
		if strings.Contains(got, no) {
			t.Errorf("of equal devices: got\n%s\nwant no %q in it", got, no)
		}
	}
}

// TestWidths: at any width of a terminal, no line of any report is wider than it, unless a word is, and
// no word is broken.
func TestWidths(t *testing.T) {
	r, p := result(4, 40)
	r.Plan.Provenance.Warnings = append(r.Plan.Provenance.Warnings, strings.Repeat("the words of a long warning ", 12)+"end")
	other, _ := result(3, 41)
	elsewhere := report.Elsewhere{Cost: 2, Tables: make([]neuroshard.Alternative, len(r.Plan.Tables))}
	for i := range elsewhere.Tables {
		elsewhere.Tables[i] = neuroshard.Alternative{ShardingType: problem.TableWise, Shards: []plan.Shard{{Device: 1, Tier: plan.HBM}}, Cost: 2.1}
	}
	for name, write := range map[string]func(w io.Writer, opt report.Options) error{
		"summary": func(w io.Writer, opt report.Options) error { return report.Result(w, r, opt) },
		"plan":    func(w io.Writer, opt report.Options) error { return report.Plan(w, r.Plan, opt) },
		"full": func(w io.Writer, opt report.Options) error {
			opt.Full = true
			return report.Result(w, r, opt)
		},
		"tables": func(w io.Writer, opt report.Options) error { return report.Tables(w, r.Plan, elsewhere, opt) },
		"memory": func(w io.Writer, opt report.Options) error { return report.Memory(w, r.Plan, 1, opt) },
		"diff":   func(w io.Writer, opt report.Options) error { return report.Diff(w, r.Plan, other.Plan, opt) },
		"sweep": func(w io.Writer, opt report.Options) error {
			return report.Sweep(w, sweep.NewResults(madeSweep(true), ""), opt)
		},
		"gains": func(w io.Writer, opt report.Options) error { return report.Gains(w, gains(), opt) },
		"comparison": func(w io.Writer, opt report.Options) error {
			return report.Comparison(w, summaries(bench.Simulated), opt)
		},
		"workloads": func(w io.Writer, opt report.Options) error {
			return report.Workloads(w, workload.All(), workload.Drawn(), opt)
		},
	} {
		printed := func(width int) string {
			var b bytes.Buffer
			must.Do(t, write(&b, report.Options{Problem: p, Width: width}))
			return b.String()
		}
		known := map[string]bool{}
		for word := range strings.FieldsSeq(printed(1000)) {
			known[word] = true
		}
		for _, width := range []int{80, 100, 120, 160, 200} {
			for line := range strings.SplitSeq(printed(width), "\n") {
				if n := utf8.RuneCountInString(line); n > width {
					t.Errorf("%s, width %d: got a line of %d columns: %s", name, width, n, line)
				}
				for word := range strings.FieldsSeq(line) {
					if !known[strings.TrimSuffix(word, ",")] && !known[word] && !strings.ContainsAny(word, "█▓▒░") && !strings.Contains(line, "wider terminal") {
						t.Errorf("%s, width %d: got the word %q, which no wide terminal shows", name, width, word)
					}
				}
			}
		}
	}
}

// TestVectors: a plan names its sequences and its tables of several bags, in the report and in the
// list of all tables; a plan without such tables says nothing of vectors.
func TestVectors(t *testing.T) {
	r, p := result(2, 4)
	texts := func() (all []string) {
		for _, write := range []func(io.Writer) error{
			func(w io.Writer) error { return report.Result(w, r, report.Options{Full: true}) },
			func(w io.Writer) error { return report.Plan(w, r.Plan, report.Options{Full: true}) },
			func(w io.Writer) error { return report.Tables(w, r.Plan, report.Elsewhere{}, report.Options{}) },
		} {
			var b bytes.Buffer
			must.Do(t, write(&b))
			all = append(all, b.String())
		}
		return all
	}
	for _, text := range texts() {
		if strings.Contains(text, "vectors") {
			t.Errorf("one bag: got\n%s\nwant no word of vectors", text)
		}
	}
	p.Tables[1].Pooling = problem.PoolingNone
	p.Tables[2].Features = []problem.Feature{{Name: "f", PoolingFactor: 3, Bags: .5}, {Name: "g", PoolingFactor: 3, Bags: 2}}
	r.Plan.Tables[1].Pooling, r.Plan.Tables[1].Vectors = problem.PoolingNone, 50
	r.Plan.Tables[2].Vectors = 2.5
	for i, text := range texts() {
		for _, want := range []string{r.Plan.Tables[1].Name + " .* 50, a sequence: one for each lookup *$", r.Plan.Tables[2].Name + " .* 2.5, one for each bag *$"} {
			if !regexp.MustCompile("(?m)^" + want).MatchString(text) {
				t.Errorf("got\n%s\nwant a line that matches %q", text, want)
			}
		}
		if list := strings.Contains(text, "\nsequences and tables of several bags: 2 of 4\n"); list != (i < 2) {
			t.Errorf("got\n%s\nwant a list of such tables in reports of plans: %t", text, i < 2)
		}
	}
}

// TestTables wants a line for every table that can be found by the table's whole name.
func TestTables(t *testing.T) {
	r, _ := result(2, 20)
	long := strings.Repeat("long_name_", 12)
	r.Plan.Tables[3].Name = long
	other := report.Elsewhere{Cost: 2, Tables: make([]neuroshard.Alternative, len(r.Plan.Tables))}
	for i := range other.Tables {
		if i == 7 {
			continue // no other place
		}
		cost := unit.Millis(2 + .1*float64(i) - .30001)
		other.Tables[i] = neuroshard.Alternative{ShardingType: problem.TableWise, Shards: []plan.Shard{{Device: 1, Tier: plan.HBM}}, Cost: cost}
	}
	var b bytes.Buffer
	must.Do(t, report.Tables(&b, r.Plan, other, report.Options{}))
	for _, want := range []string{
		"t000 .* table_wise on 1 +1.70 ms +-15.0 %",
		long + " .* table_wise on 1 +2.00 ms +0.0 %",
		"t007 .* none that is allowed and fits +- +-",
		"t019 .* table_wise on 1 +3.60 ms +\\+80.0 %",
	} {
		if found := regexp.MustCompile("(?m)^"+want+"$").FindAllString(b.String(), -1); len(found) != 1 {
			t.Errorf("got\n%s\nwant one line that matches %q", b.String(), want)
		}
	}
	b.Reset()
	must.Do(t, report.Tables(&b, r.Plan, report.Elsewhere{Missing: "no model"}, report.Options{}))
	if text := b.String(); !strings.Contains(text, "\nwhy a table lies there: no model\n") || !strings.Contains(text, "\n"+long+" ") {
		t.Errorf("without alternatives: got\n%s", text)
	}
}

// TestOffTheSimulatedCost wants a warning, in both forms of a result, if the predicted and the
// simulated cost differ by more than the errors that the model's card states.
func TestOffTheSimulatedCost(t *testing.T) {
	const warning = "off the SIMULATED one, and the model's card states that 95 % of its errors are below 5.0 %"
	for _, test := range []struct {
		simulated unit.Millis
		stated    float64
		want      bool
	}{{1.04, 5, false}, {1.12, 5, true}, {.9, 5, true}, {1.12, 0, false}} {
		r, _ := result(2, 4)
		r.ModelError = test.stated
		r.Simulated.Cost = r.Predicted.Cost * test.simulated
		var object bytes.Buffer
		must.Do(t, report.JSON(&object, r, nil, nil, 0))
		for _, text := range []string{written(t, r), object.String()} {
			if got := strings.Contains(text, warning); got != test.want {
				t.Errorf("simulated %v of the predicted cost: got the warning %v, want %v in\n%s", test.simulated, got, test.want, text)
			}
		}
	}
}

func TestWriteErrorsAreReturned(t *testing.T) {
	r, _ := result(2, 3)
	for name, write := range map[string]func(w brokenWriter) error{
		"result": func(w brokenWriter) error { return report.Result(w, r, report.Options{Full: true}) },
		"plan":   func(w brokenWriter) error { return report.Plan(w, r.Plan, report.Options{Full: true}) },
		"memory": func(w brokenWriter) error { return report.Memory(w, r.Plan, 0, report.Options{}) },
		"diff":   func(w brokenWriter) error { return report.Diff(w, r.Plan, r.Plan, report.Options{}) },
		"json":   func(w brokenWriter) error { return report.JSON(w, r, nil, nil, 0) },
	} {
		if err := write(brokenWriter{}); !errors.Is(err, errBroken) {
			t.Errorf("%s: got %v, want %v", name, err, errBroken)
		}
	}
}

var errBroken = errors.New("broken")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

// A plan for a training system that hides exchanges says how much its cost leaves out.
func TestHiddenExchanges(t *testing.T) {
	r, _ := result(4, 7)
	hidden := plan.Hidden{Forward: 0.1, Backward: 0.5}
	for i := range r.Plan.Devices {
		hidden.Hide(&r.Plan.Devices[i].StepTimes, 0)
	}
	r.Plan.SetBreakdown(r.Plan.Breakdown())
	r.Plan.Provenance.Hidden = hidden
	shown := func() string {
		var b strings.Builder
		must.Do(t, report.Plan(&b, r.Plan, report.Options{Full: true}))
		return b.String()
	}
	const line = "hidden     0.100 ms of the exchanges forward and 0.250 ms backward run beside the dense part: the cost leaves them out\n"
	if got := shown(); !strings.Contains(got, line) {
		t.Errorf("got no line %q in\n%s", line, got)
	}
	r.Plan.Provenance.Hidden.Replicas = true
	if got := shown(); !strings.Contains(got, "beside the dense part and the lookups of replicas") {
		t.Errorf("got no replicas in\n%s", got)
	}
	var b strings.Builder
	if err := report.PlanJSON(&b, r.Plan); err != nil || !strings.Contains(b.String(), `"forward_hidden_ms":0.1,"backward_hidden_ms":0.25`) {
		t.Errorf("got %v and no hidden times in\n%s", err, b.String())
	}
}

// A plan file that no longer keeps the rules of its engine says so, not that it keeps them.
func TestEngineOfPlan(t *testing.T) {
	r, _ := result(4, 7)
	r.Plan.Cluster.Engine = problem.HugeCTR
	for _, c := range []struct {
		divided int
		want    string
	}{
		{0, "engine     HugeCTR, whose rules the plan keeps\n"},
		{1, `engine     HugeCTR, whose rules the plan BREAKS: table "t000": it is in operator 1: HugeCTR does not let a plan divide its operators` + "\n"},
		{3, "does not let a plan divide its operators, and 2 more\n"},
	} {
		for i := range c.divided {
			r.Plan.Tables[i].Operator = 1
		}
		var b strings.Builder
		must.Do(t, report.Plan(&b, r.Plan, report.Options{Full: true}))
		if !strings.Contains(b.String(), c.want) {
			t.Errorf("%d tables in operator 1: got\n%swant %q in it", c.divided, b.String(), c.want)
		}
	}
}
