package dataset

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/unit"
)

// textual returns a dataset that the prototype's formats can say.
func textual() Dataset {
	d := clone(sample())
	c := d.Compute
	c.Tables = c.Tables[:2]
	c.Samples = []Group{
		{ID: 0, Operation: problem.Operation{Batch: 65536}, Members: []Member{{0, 128}, {1, 4}, {1, 4}}, Forward: 1, Backward: .25},
		{ID: 1, Operation: problem.Operation{Batch: 65536}, Members: []Member{{0, 64}}, Forward: 1, Backward: 2, Quarantined: true},
		{ID: 2, Operation: problem.Operation{Batch: 65536}, Members: []Member{{1, 32}, {0, 8}}, Forward: .1, Backward: .2},
	}
	c.Repeats = c.Repeats[:1]
	d.Comm.Samples = d.Comm.Samples[:1]
	return d
}

// What is written is what package prototype reads.
func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "tables")
		c := &Compute{}
		for i := range n {
			c.Tables = append(c.Tables, problem.Table{Name: fmt.Sprint(i), Rows: 10, Dim: 4, Features: []problem.Feature{{PoolingFactor: 1}}})
		}
		var want [][][]float64
		for i := range rapid.IntRange(1, 5).Draw(t, "groups") {
			g := Group{ID: i, Forward: drawnTime.Draw(t, "forward") / 2, Backward: drawnTime.Draw(t, "backward") / 2}
			var indices []float64
			for range rapid.IntRange(1, 4).Draw(t, "members") {
				m := Member{Table: int32(rapid.IntRange(0, n-1).Draw(t, "table")), Dim: 4 << rapid.IntRange(0, 5).Draw(t, "dim")}
				g.Members = append(g.Members, m)
				indices = append(indices, float64(m.Table)+float64(n)*math.Log2(128/float64(m.Dim)))
			}
			c.Samples, want = append(c.Samples, g), append(want, [][]float64{indices, {float64(g.Forward + g.Backward)}})
		}
		var text bytes.Buffer
		must.Do(t, writeComputeText(&text, c))
		if diff := cmp.Diff(want, numbers(t, text.String())); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}

		devices := rapid.IntRange(1, 5).Draw(t, "devices")
		e := &Comm{}
		var wantComm [][][]float64
		for i := range rapid.IntRange(1, 4).Draw(t, "exchanges") {
			times := func() []unit.Millis { return rapid.SliceOfN(drawnTime, devices, devices).Draw(t, "times") }
			x := Exchange{ID: i, Devices: devices, DimSums: rapid.SliceOfN(rapid.IntRange(0, 1<<30), devices, devices).Draw(t, "dims"), Start: times(), Forward: times(), Backward: times()}
			number := func(m unit.Millis) float64 { return float64(m) }
			dims := each1(x.DimSums, func(d int) float64 { return float64(d) })
			e.Samples = append(e.Samples, x)
			wantComm = append(wantComm, [][]float64{dims, each1(x.Start, number), each1(x.Forward, number), each1(x.Backward, number)})
		}
		text.Reset()
		must.Do(t, writeCommText(&text, e))
		if diff := cmp.Diff(wantComm, numbers(t, text.String())); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// numbers returns a text as lines of fields, each a list of numbers.
func numbers(t rapid.TB, text string) (all [][][]float64) {
	for line := range strings.Lines(text) {
		var fields [][]float64
		for _, field := range strings.Fields(line) {
			var list []float64
			for part := range strings.SplitSeq(field, ",") {
				v := must.Get(strconv.ParseFloat(part, 64))(t)
				list = append(list, v)
			}
			fields = append(fields, list)
		}
		all = append(all, fields)
	}
	return all
}

func TestTextErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Dataset)
		want   string
	}{
		{"operations", func(d *Dataset) {
			d.Compute.Samples[2].Operation = problem.Operation{Batch: 512, Optimizer: problem.Adam, Precision: problem.FP16, Weighted: true}
		}, `compute.txt: samples of 2 operations, and the prototype's format can say one: choose among "batch 512 adam fp16 weighted" (1), "batch 65536 sgd fp32" (1)`},
		{"features", func(d *Dataset) {
			d.Compute.Tables[1].Features = append(d.Compute.Tables[1].Features[:1:1], d.Compute.Tables[0].Features...)
		}, `sample 0: table "item" is read by 2 features`},
		{"dim", func(d *Dataset) { d.Compute.Samples[2].Members[0].Dim = 12 }, "sample 2: dim 12"},
		{"none", func(d *Dataset) { d.Compute.Samples = d.Compute.Samples[1:2] }, "no samples of fused lookups"},
		{"batches", func(d *Dataset) {
			e := d.Comm.Samples[0]
			e.Batch = 512
			d.Comm.Samples = append(d.Comm.Samples, e)
		}, `comm_2.txt: samples of 2 kinds, and the prototype's format can say one: choose among "2 devices, 2 on a host, batch 4096" (1), "2 devices, 2 on a host, batch 512" (1)`},
		{"NaN", func(d *Dataset) { d.Compute.Tables[0].Features = []problem.Feature{{PoolingFactor: math.NaN()}} }, `table 0, "user": its numbers are not finite`},
		{"empty", func(d *Dataset) { *d = Dataset{} }, "no samples to write"},
	} {
		d := textual()
		d.Compute.Tables = append([]problem.Table(nil), d.Compute.Tables...)
		c.change(&d)
		folder := filepath.Join(t.TempDir(), "out")
		if err := ExportPrototype(folder, d); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", c.name, err, c.want)
		}
		if files := contents(t, folder); files != nil {
			t.Errorf("%s: files were left", c.name)
		}
	}
}

func TestExportPrototype(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "out")
	d := textual()
	e := sample().Comm.Samples[2]
	d.Comm.Samples = append(d.Comm.Samples, e)
	for range 2 { // the second time over the first
		must.Do(t, ExportPrototype(folder, d))
	}
	files := contents(t, folder)
	if len(files) != 5 {
		t.Errorf("got %d files: %v", len(files), names(files))
	}
	if samples := numbers(t, files["compute.txt"]); len(samples) != 2 {
		t.Fatalf("got %v", samples)
	}
	for _, n := range []int{1, 2} {
		name := fmt.Sprintf("comm_%d.txt", n)
		if got := numbers(t, files[name]); len(got) != 1 || len(got[0][0]) != n {
			t.Errorf("%s: got %v", name, got)
		}
	}
	// The indices are of elements of the augmented list, and of the pool by rule.
	pool := readConfigs(t, files["table_configs.json"], 4)
	augmented := readConfigs(t, files["augmented_table_configs.json"], 0)
	if len(pool) != 2 || len(augmented) != 12 {
		t.Fatalf("got %d and %d tables", len(pool), len(augmented))
	}
	for k, a := range augmented {
		if p := pool[k%2]; a.Dim != 128>>(k/2) || a.Rows != p.Rows || a.PoolingFactor() != p.PoolingFactor() || a.Access != p.Access {
			t.Errorf("index %d: got %+v", k, a)
		}
	}
	for i, p := range pool {
		if want := d.Compute.Tables[i]; p.Rows != want.Rows || p.PoolingFactor() != want.PoolingFactor() {
			t.Errorf("table %d: got %+v, want %+v", i, p, want)
		}
	}
	// Bins of the right batch are kept as they are, others made for it.
	if got, want := pool[1].Access.Reuse, d.Compute.Tables[1].Access.Reuse; got != want {
		t.Errorf("bins: got %v, want %v", got, want)
	}
	if got, want := pool[0].Access.Reuse, (access.Distribution{Kind: access.Zipf, Exponent: 1.05}).At(1_000_000, 1, 65536).Reuse; got != want {
		t.Errorf("bins: got %v, want %v", got, want)
	}
}

func readConfigs(t *testing.T, text string, dim int) []problem.Table {
	t.Helper()
	file := must.Get(input.Tables("configs", strings.NewReader(text), input.Options{DefaultDim: dim}))(t)
	return file.Tables
}
