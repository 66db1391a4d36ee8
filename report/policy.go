package report

import (
	"fmt"
	"io"

	"github.com/neuroshard/neuroshard/search/policy"
	"github.com/neuroshard/neuroshard/unit"
)

// Policy writes the card of a trained policy: what it was trained on, its losses, and the
// costs of its plans of test tasks.
func Policy(w io.Writer, m policy.Manifest, opt Options) error {
	p := &printer{w: w, opt: opt}
	c := &m.Card
	p.printf("%s  trained on %s plans\n", p.paint(bold, "policy "+OneLine(m.ID)), source(m.Source))
	p.printf("profile %s, %s of %s on %s, dims up to %d, %v a device, batch %s, seed %d, by %s\n",
		OneLine(m.Profile), plural(c.Tasks, "task"), plural(c.Tables, "table"), plural(c.Devices, "device"), c.MaxDim,
		unit.Bytes(c.MemoryBytes), count(int64(c.Batch)), c.Seed, OneLine(m.Backend))
	costs := "its own cost net"
	if c.Costs != "own" {
		costs = "the cost model " + OneLine(c.Costs)
	}
	p.printf("%s measured, %s episodes, rewarded by %s, costs predicted by %s\n", plural(c.Plans, "plan"), count(int64(c.Episodes)), OneLine(c.Reward), costs)
	if m.CPUSeconds > 0 {
		p.printf("%.1f s of processor time\n", m.CPUSeconds)
	}
	p.section("Losses")
	var rows [][]string
	for i, l := range c.Losses {
		rows = append(rows, []string{fmt.Sprint(i + 1), fmt.Sprintf("%.4g", l.Cost), fmt.Sprintf("%.4g", l.Policy)})
	}
	p.grid([]string{"iteration", "cost net, ms²", "policy"}, rows)
	p.section("Greedy plans of %s of other tables, %s costs", plural(c.TestTasks, "test task"), source(m.Source))
	rows = nil
	for _, t := range c.Test {
		rows = append(rows, []string{OneLine(t.Method), fmt.Sprintf("%d of %d", t.Solved, c.TestTasks), fmt.Sprintf("%.4f", t.CostMS), fmt.Sprintf("%.3f", t.Balance)})
	}
	p.grid([]string{"<method", "solved", "mean ms", "balance"}, rows)
	return p.err
}
