package main

import (
	"fmt"

	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/step"
)

// What Zha et al. (NeuroShard, MLSys 2023) report of a production model on 128 GPUs:
// embeddings of a lower cost, and a higher throughput of the whole training.
const (
	paperCost       = .116
	paperThroughput = .066
)

// impliedShare returns the share of the step that embeddings have if a cost that is lower by
// one share raises the throughput by another: 1/(1 - share cost) = 1 + throughput.
func impliedShare(cost, throughput float64) float64 { return throughput / (1 + throughput) / cost }

// share compares the share of a step that the embeddings take with the one that the paper
// implies. The models differ, so the table has no errors.
func share() (*sheet, error) {
	s := &sheet{columns: []string{"model", "GPUs", "step", ">embeddings, % of the step", ">more samples a second at embeddings 11.6 % cheaper, %"}}
	// 11.6 % may be a share of the old cost or of the new one.
	least, most := impliedShare(paperCost, paperThroughput), impliedShare(1-1/(1+paperCost), paperThroughput)
	s.rows = append(s.rows, []string{
		"production model of the paper", "128, not named", "implied", fmt.Sprintf("%.0f to %.0f", 100*least, 100*most), fmt.Sprintf("%.1f", 100*paperThroughput),
	})
	add := func(model, gpus, known string, part float64) {
		s.rows = append(s.rows, []string{model, gpus, known, fmt.Sprintf("%.0f", 100*part), fmt.Sprintf("%.1f", 100*(1/(1-paperCost*part)-1))})
	}
	all, err := mlperfSystems()
	if err != nil {
		return nil, err
	}
	for _, one := range []struct{ round, gpus, plan string }{
		{"v3.0", "8 x a100-80", "2"}, {"v4.0", "8 x h100-80", "8"}, {"v4.0", "8 x h200", "8"}, {"v4.0", "64 x h100-80", "11"}, {"v4.0", "128 x h100-80", "12"},
	} {
		found := find(all, one.round, one.gpus, one.plan)
		if found == nil {
			return nil, fmt.Errorf("no system of %s with %s and plan %s", one.round, one.gpus, one.plan)
		}
		t, err := found.own()
		if err != nil {
			return nil, err
		}
		add("mlperf-dlrm-dcnv2, "+one.round, one.gpus, "measured", float64(t.Embedding)/found.ms)
	}
	m := sparseNNs["45f3f4b3"]
	profile, err := hardware.ByName("b200")
	if err != nil {
		return nil, err
	}
	t, err := m.price(profile, "torchrec-sparse", true)
	if err != nil {
		return nil, err
	}
	add("test_sparse_nn of TorchRec", "8 x b200", "measured", float64(t.Embedding)/345.27)
	steps, err := stackSteps()
	if err != nil {
		return nil, err
	}
	for i := range steps {
		if one := &steps[i]; one.devices == 128 {
			t, err := step.Price(one.input)
			if err != nil {
				return nil, err
			}
			add(one.model, "128 x a100-80", "predicted", float64(t.Embedding)/float64(t.Step))
		}
	}
	return s, nil
}
