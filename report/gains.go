package report

import (
	"fmt"
	"io"

	"github.com/neuroshard/neuroshard/lab/bench"
)

// Gains compares the default method with the others: a line for each task, then means and
// medians, each with the number of its tasks.
func Gains(w io.Writer, g *bench.Gains, opt Options) error {
	p := &printer{w: w, opt: opt}
	tasks := fmt.Sprintf("%d tasks", len(g.Tasks))
	if len(g.Tasks) == 1 {
		tasks = "1 task"
	}
	p.section("neuroshard against paper and the best baseline: %s, %s", tasks, judgedGains(g))
	titles := []string{
		"<workload", "?tables", "<cluster", "?hosts", "?shards", "neuroshard ms",
		"paper ms", "gain %", "?baseline ms", "?<which", "gain %", "within %", "?s",
	}
	var rows [][]string
	cut := false
	for i := range g.Tasks {
		t := &g.Tasks[i]
		rows = append(rows, gainRow(t))
		for _, e := range []*bench.Entry{t.Default, t.Paper, t.Baseline} {
			cut = cut || e != nil && e.CostMS != nil && e.TimedOut()
		}
	}
	rows = append(rows, make([]string, len(titles)))
	for _, line := range []struct {
		name string
		of   func(s bench.Stat, scale float64) string
	}{
		{"mean", func(s bench.Stat, scale float64) string { return hundredthsOf(s.Mean*scale, s.Tasks > 0) }},
		{"median", func(s bench.Stat, scale float64) string { return hundredthsOf(s.Median*scale, s.Tasks > 0) }},
		{"of tasks", func(s bench.Stat, _ float64) string { return fmt.Sprintf("%d/%d", s.Tasks, len(g.Tasks)) }},
	} {
		rows = append(rows, []string{
			line.name, "", "", "", "", "", "", line.of(g.OverPaper, 1), "", "", line.of(g.OverBaseline, 1),
			line.of(g.Gap, 100), line.of(g.WallMS, 1e-3),
		})
	}
	p.grid(titles, rows)
	p.printf("\ngain: how much less the plan of neuroshard costs; within: at most this far above the best possible plan; s: seconds to find the plan, on one thread\n")
	if cut {
		p.printf("* the time limit ended the search: the best plan until then\n")
	}
	return p.err
}

// judgedGains says whether the costs are predicted, SIMULATED or measured; it says
// nothing if no task has a plan.
func judgedGains(g *bench.Gains) string {
	costs := "none solved"
	for _, t := range g.Tasks {
		solved := t.BaselinesSolved > 0
		for _, e := range []*bench.Entry{t.Default, t.Paper} {
			solved = solved || e != nil && e.CostMS != nil
		}
		switch {
		case !solved:
		case t.Judge == bench.Simulated:
			costs = "costs SIMULATED"
		default:
			costs = "costs " + t.Judge
		}
	}
	return costs
}

func gainRow(t *bench.Gain) []string {
	shards, wall := "-", "-"
	if t.Default != nil {
		wall = fmt.Sprintf("%.2f", t.Default.WallMS/1000)
		if t.Default.CostMS != nil {
			shards = count(int64(t.Default.Shards))
		}
	}
	baseline, which := entry(t.Baseline), "-"
	if b := t.Baseline; b != nil && b.CostMS != nil {
		which = OneLine(string(b.Method))
	} else if b != nil {
		baseline = fmt.Sprintf("none of %d", t.Baselines)
	}
	gap := "-"
	if t.Gap != nil {
		gap = hundredths(100 * *t.Gap)
	}
	return []string{
		OneLine(t.Setting), count(int64(t.Tables)), fmt.Sprintf("%d x %s", t.Cluster.Devices, OneLine(t.Cluster.Profile)), count(int64(t.Cluster.Hosts)), shards,
		entry(t.Default), entry(t.Paper), percentOf(t.OverPaper), baseline, which, percentOf(t.OverBaseline), gap, wall,
	}
}

// entry prints a method's cost, or that it has none.
func entry(e *bench.Entry) string {
	switch {
	case e == nil:
		return "-"
	case e.CostMS == nil && e.TimedOut():
		return fmt.Sprintf("none in %.2f s", e.WallMS/1000)
	case e.CostMS == nil:
		return "none"
	case e.TimedOut():
		return fmt.Sprintf("*%.3f", *e.CostMS)
	}
	return fmt.Sprintf("%.3f", *e.CostMS)
}

func percentOf(v *float64) string {
	if v == nil {
		return "-"
	}
	return hundredths(*v)
}

func hundredthsOf(v float64, known bool) string {
	if !known {
		return "-"
	}
	return hundredths(v)
}
