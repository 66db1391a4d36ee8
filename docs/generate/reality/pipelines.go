package main

import (
	"fmt"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/step"
)

// A sparseNN is the model of TorchRec's own benchmark of pipelines, test_sparse_nn, in one of
// the configurations that commits state.
type sparseNN struct {
	devices, batch int
	tables         []equalTables
	dense          step.Dense
}

// sparseNNs are the configurations by the commit that states them. Every bag has a mean of 10
// or 30 lookups of uniform draws; the widest table is cut into equal columns over all GPUs,
// all others are whole. The dense part multiplies in fp32, PyTorch's default.
var sparseNNs = map[string]sparseNN{
	"f03bd791": {2, 8192, []equalTables{
		{count: 100, rows: 100_000, dim: 512, pooling: 10},
		{count: 100, rows: 100_000, dim: 512, pooling: 10, weighted: true},
	}, overArch(1000, 10, 8)},
	"a49fe9fe": {2, 32768, []equalTables{
		{count: 20, rows: 100_000, dim: 256, pooling: 10},
		{count: 20, rows: 100_000, dim: 256, pooling: 10, weighted: true},
		{count: 1, rows: 100_000, dim: 512, pooling: 10, precision: problem.FP16},
		{count: 1, rows: 1_000_000, dim: 2048, pooling: 10},
	}, overArch(1000, 10, 8)},
	"45f3f4b3": {8, 32768, []equalTables{
		{count: 90, rows: 100_000, dim: 256, pooling: 30},
		{count: 80, rows: 100_000, dim: 256, pooling: 30, weighted: true},
		{count: 1, rows: 100_000, dim: 512, pooling: 30, precision: problem.FP16},
		{count: 1, rows: 1_000_000, dim: 2048, pooling: 30},
	}, overArch(1024, 100, 128, 128, 128, 128)},
}

// overArch returns the dense part: a bottom MLP, all vectors side by side, and six layers of
// one width.
func overArch(width int, bottom ...int) step.Dense {
	return step.Dense{
		Bottom: bottom, Interaction: step.Cat, Precision: step.FP32,
		Top: []int{width, width, width, width, width, width},
	}
}

// price returns the predicted step. Without weights, no lookup has a weight, so that no
// gradient of it is taken.
func (m *sparseNN) price(profile hardware.Profile, pipeline string, weights bool) (step.Times, error) {
	stack, err := step.StackByName(pipeline)
	if err != nil {
		return step.Times{}, err
	}
	p := &problem.Problem{Batch: m.devices * m.batch, Topology: cluster(profile, m.devices, m.devices), Tables: tablesOf(problem.Adagrad, m.tables...)}
	for i := range p.Tables {
		p.Tables[i].Weighted = p.Tables[i].Weighted && weights
	}
	shards, err := deal(p, cut(p, widest/float64(m.devices)))
	if err != nil {
		return step.Times{}, err
	}
	return step.Price(step.Input{Problem: p, Shards: shards, Dense: &m.dense, Stack: stack})
}

// widest is the number of cells of the table that is cut over all GPUs.
const widest = 1_000_000 * 2048

// pipelines compares the changes of steps by TorchRec's pipelines, and the steps themselves
// where the GPU is named.
func pipelines() (*sheet, error) {
	facts, err := readFacts("pipelines.csv")
	if err != nil {
		return nil, err
	}
	s := &sheet{columns: []string{"source", "GPUs", "before", "after", ">measured ms", ">predicted ms", ">measured change, %", ">predicted change, %", "note"}}
	for _, f := range facts {
		before, after := f.number("before_ms"), f.number("after_ms")
		if f.err != nil {
			return nil, f.err
		}
		row := []string{f.text("source"), "not stated", f.text("before"), f.text("after"), measuredSteps(before, after), "", signed(after/before - 1), "", f.text("note")}
		s.rows = append(s.rows, row)
		m, stated := sparseNNs[f.text("config")]
		if !stated {
			continue
		}
		profile, err := hardware.ByName(f.text("profile"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.where, err)
		}
		first, err := m.price(profile, f.text("before"), true)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.where, err)
		}
		second, err := m.price(profile, f.text("after"), f.text("before") != f.text("after"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.where, err)
		}
		row[1] = fmt.Sprintf("%d, taken for %s", m.devices, profile.Name)
		from, to := float64(first.Step), float64(second.Step)
		row[5], row[7] = measuredSteps(from, to), signed(to/from-1)
		if f.text("named") == "yes" {
			row[1] = fmt.Sprintf("%d %s", m.devices, profile.Name)
			s.set("out of sample, steps where the GPU is named", goal{}).add(from, before)
			s.set("out of sample, steps where the GPU is named", goal{}).add(to, after)
		}
		s.set("out of sample, changes of steps", goal{}).add(to/from, after/before)
	}
	return s, nil
}

// measuredSteps prints the steps before and after a change.
func measuredSteps(before, after float64) string { return fmt.Sprintf("%.1f, %.1f", before, after) }
