package cost

import (
	"fmt"

	"github.com/neuroshard/neuroshard/modelfile"
	"github.com/neuroshard/neuroshard/problem"
)

// Doubts says in which ways a plan, its shards listed by device, lies outside
// the samples that the model was trained on or judged by: there it
// extrapolates. The list is empty inside, and where the model states no domain.
func (m *Model) Doubts(p *problem.Problem, shards [][]problem.Shard) []string {
	d := m.manifest.Domain
	if d == (modelfile.Domain{}) {
		return nil
	}
	var doubts []string
	add := func(format string, args ...any) {
		doubts = append(doubts, "the cost model has not seen "+fmt.Sprintf(format, args...)+": take its times with care")
	}
	if p.Batch < d.MinBatch || p.Batch > d.MaxBatch {
		add("a batch of %d, only %d to %d", p.Batch, d.MinBatch, d.MaxBatch)
	}
	if p.Topology.Devices > d.MaxDevices {
		add("%d devices, only up to %d", p.Topology.Devices, d.MaxDevices)
	}
	var most, widest int
	for _, held := range shards {
		most = max(most, len(held))
		for _, s := range held {
			widest = max(widest, s.Dim())
		}
	}
	if most > d.JudgedShards {
		add("%d shards on a device, only up to %d", most, d.JudgedShards)
	}
	if widest > d.MaxDim {
		add("shards of %d columns, only up to %d", widest, d.MaxDim)
	}
	var rows int64
	var pooling float64
	for i := range p.Tables {
		t := &p.Tables[i]
		rows, pooling = max(rows, t.Rows), max(pooling, t.PoolingFactor())
	}
	if rows > d.MaxRows {
		add("a table of %d rows, only up to %d", rows, d.MaxRows)
	}
	if pooling > d.MaxPoolingFactor {
		add("a pooling factor of %.4g, only up to %.4g", pooling, d.MaxPoolingFactor)
	}
	return doubts
}
