package reinforce

import (
	"context"
	"fmt"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/policy/dreamshard"
)

// Predict returns a predictor by a cost model of ours, for policies whose cost net it
// replaces. The model estimates the fused lookups of a device as one time. So the three costs
// of a device are that time in ms, its pooled columns in thousands, and 0; the overall cost is
// the model's. The predictor panics for a problem that prices do not estimate: Predictable
// says so before.
func Predict(prices neuroshard.Prices) func(p *problem.Problem, pieces [][]problem.Shard) dreamshard.Predictor {
	return func(p *problem.Problem, pieces [][]problem.Shard) dreamshard.Predictor {
		list, err := prices.List(context.Background(), p)
		if err != nil {
			panic("reinforce: a problem that was not checked: " + err.Error())
		}
		l := &learned{scorer: list.NewScorer(), columns: make([]float32, p.Topology.Devices)}
		for _, piece := range pieces {
			var items []int
			columns := 0
			for _, s := range piece {
				items = append(items, l.scorer.Item(s.Table, int(s.Columns.Len()), problem.Form{}))
				columns += p.DimSum(s)
			}
			l.items, l.each = append(l.items, items), append(l.each, float32(columns)/1000)
		}
		l.Reset()
		return l
	}
}

// Predictable reports why prices do not estimate a problem; nil if they do.
func Predictable(prices neuroshard.Prices, p *problem.Problem) error {
	if _, err := prices.List(context.Background(), p); err != nil {
		return fmt.Errorf("the policy was trained with the cost model %s in the place of its cost net: %w", prices, err)
	}
	return nil
}

// learned predicts by a Scorer.
type learned struct {
	scorer search.Scorer
	// items and each are the items and the columns of each piece, columns those of each device.
	items         [][]int
	each, columns []float32
}

func (l *learned) Reset() {
	l.scorer.Reset()
	clear(l.columns)
}

func (l *learned) Put(piece, device int32) {
	for _, item := range l.items[piece] {
		l.scorer.Add(int(device), item)
	}
	l.columns[device] += l.each[piece]
}

func (l *learned) Alone(piece int32) [dreamshard.Costs]float32 {
	l.Reset()
	l.Put(piece, 0)
	costs := l.Device(0)
	l.Reset()
	return costs
}

func (l *learned) Device(device int32) [dreamshard.Costs]float32 {
	return [dreamshard.Costs]float32{dreamshard.Forward: float32(l.scorer.Compute(int(device))), dreamshard.Communication: l.columns[device]}
}

func (l *learned) Overall() float64 { return l.scorer.Cost() }
