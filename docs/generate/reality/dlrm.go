package main

import (
	"fmt"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/step"
)

// dlrm compares the throughput of TorchRec's DLRM example on eight A100-40 of one host, whose
// loader runs in the process of the trainer: with what is known before, and with the time of
// the loader for a sample from one measured step.
func dlrm() (*sheet, error) {
	facts, err := readFacts("dlrm.csv")
	if err != nil {
		return nil, err
	}
	s := &sheet{columns: []string{"dense part", ">samples", ">measured ms", ">without the loader, ms", ">ratio", ">with one measured step, ms", ">ratio"}}
	type priced struct{ measured, predicted, batch float64 }
	var all []priced
	for _, f := range facts {
		one := priced{batch: f.number("batch")}
		one.measured = 1000 * one.batch / f.number("samples_per_second")
		if f.err != nil {
			return nil, f.err
		}
		if one.predicted, err = dlrmStep(f); err != nil {
			return nil, fmt.Errorf("%s: %w", f.where, err)
		}
		all = append(all, one)
	}
	// The largest batch, the last row, gives the loader's time of a sample.
	last := all[len(all)-1]
	loader := (last.measured - last.predicted) / last.batch
	for i, one := range all {
		row := []string{facts[i].text("dense"), fmt.Sprint(one.batch), two(one.measured), two(one.predicted), two(one.predicted / one.measured), "", ""}
		s.set("out of sample, without the loader", goal{}).add(one.predicted, one.measured)
		if i < len(all)-1 {
			with := one.predicted + loader*one.batch
			row[5], row[6] = two(with), two(with/one.measured)
			s.set("out of sample, with the loader from the largest batch", goal{}).add(with, one.measured)
		}
		s.rows = append(s.rows, row)
	}
	s.notes = []string{fmt.Sprintf("The loader takes %.2f us for a sample.", 1000*loader)}
	return s, nil
}

// dlrmStep returns the predicted step of a row, in ms: Criteo's 26 one-hot features, of at
// most 40 million rows.
func dlrmStep(f *fact) (float64, error) {
	profile, err := hardware.ByName("a100-40")
	if err != nil {
		return 0, err
	}
	dense, err := step.DenseByName(f.text("dense"))
	if err != nil {
		return 0, err
	}
	dense.Precision = step.TF32 // PyTorch's default at the time
	stack, err := step.StackByName("torchrec-sparse")
	if err != nil {
		return 0, err
	}
	w, err := workload.ByName("mlperf-dlrm-dcnv2")
	if err != nil {
		return 0, err
	}
	p := w.Problem()
	p.Batch, p.Topology = f.count("batch"), cluster(profile, 8, 8)
	optimizer, err := problem.ParseOptimizer(f.text("optimizer"))
	if err != nil {
		return 0, err
	}
	for i := range p.Tables {
		t := &p.Tables[i]
		t.Features = []problem.Feature{{Name: t.Name, PoolingFactor: 1}}
		t.Optimizer, t.Access = optimizer, access.Distribution{Kind: access.Zipf, Exponent: 1.05}
	}
	shards, err := deal(&p, cut(&p, 1e12))
	if err != nil {
		return 0, err
	}
	t, err := step.Price(step.Input{Problem: &p, Shards: shards, Dense: &dense, Stack: stack})
	return float64(t.Step), err
}
