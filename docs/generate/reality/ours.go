package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/step"
)

// Our plans for the systems of MLPerf. They are facts of testdata/our_plans.csv, which
// writePlans makes, so that the tables are quick.

// keyOf names the cluster, batch and exchange of a system: our planner makes one plan for all
// systems of the same key.
func keyOf(s *system) string {
	t := &s.input.Problem.Topology
	return fmt.Sprintf("%s, %d a host, batch %d, %s", s.name(), t.PerHost(), s.input.Problem.Batch, s.fact.text("exchange"))
}

// planned reports whether there is a plan of ours for the system: no cost model of the GPUs
// without NVLink is in the binary.
func planned(s *system) bool { return !s.onPCIe }

// writePlans plans for each system, and writes the slices of the plans as CSV: one row for
// each slice of each table, with the devices of its blocks of rows.
func writePlans(out io.Writer) error {
	all, err := mlperfSystems()
	if err != nil {
		return err
	}
	w := csv.NewWriter(out)
	rows := [][]string{{"plan", "table", "width", "devices"}}
	seen := map[string]bool{}
	for _, s := range all {
		if !planned(s) || seen[keyOf(s)] {
			continue
		}
		seen[keyOf(s)] = true
		best, err := bestPlan(s)
		if err != nil {
			return fmt.Errorf("%s: %w", keyOf(s), err)
		}
		rows = append(rows, slicesOf(s, best)...)
	}
	if err := w.WriteAll(rows); err != nil {
		return err
	}
	return w.Error()
}

// bestPlan returns the shards of our plan: what neuroshard plan with the system's dense part and
// stack finds among all sharding types.
func bestPlan(s *system) ([][]problem.Shard, error) {
	p, in := *s.input.Problem, s.input
	in.Problem, in.Shards = nil, nil
	found, err := neuroshard.Plan(context.Background(), &p, neuroshard.Options{
		Search: search.Options{Brief: true, ShardingTypes: problem.ShardingTypes()}, Step: &in,
	})
	if err != nil {
		return nil, err
	}
	return found.Shards, nil
}

// slicesOf returns the rows of a placement.
func slicesOf(s *system, shards [][]problem.Shard) (rows [][]string) {
	type slice struct {
		table int
		start int64
	}
	p := s.input.Problem
	order, devices, widths := []slice{}, map[slice]string{}, map[slice]int{}
	for d, held := range shards {
		for _, shard := range held {
			key := slice{table: shard.Table, start: shard.Columns.Start}
			if _, ok := devices[key]; !ok {
				order = append(order, key)
				widths[key] = shard.Dim()
			}
			if shard.ShardingType == problem.DataParallel {
				devices[key] = "all"
				continue
			}
			if devices[key] != "" {
				devices[key] += " "
			}
			devices[key] += strconv.Itoa(d)
		}
	}
	for table := range p.Tables {
		for _, key := range order {
			if key.table == table {
				rows = append(rows, []string{keyOf(s), strconv.Itoa(table), strconv.Itoa(widths[key]), devices[key]})
			}
		}
	}
	return rows
}

// ourPlans returns the holdings of our plans by key.
func ourPlans() (map[string][]step.Holding, error) {
	facts, err := readFacts("our_plans.csv")
	if err != nil {
		return nil, err
	}
	plans := map[string][]step.Holding{}
	for _, f := range facts {
		held, err := holdings([]string{f.text("devices")})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.where, err)
		}
		for _, h := range held {
			h.Table, h.Width = f.count("table"), f.count("width")
			plans[f.text("plan")] = append(plans[f.text("plan")], h)
		}
		if f.err != nil {
			return nil, f.err
		}
	}
	return plans, nil
}

// ourSteps sets the predicted step of our plan beside that of the plan that each system ran.
func ourSteps() (*sheet, error) {
	all, err := mlperfSystems()
	if err != nil {
		return nil, err
	}
	plans, err := ourPlans()
	if err != nil {
		return nil, err
	}
	s := &sheet{folded: true, columns: []string{"round", "GPUs", ">hosts", ">batch", "plan", ">measured ms", ">predicted ms", ">of our plan", ">lookups", ">of ours", ">exchanges", ">of ours", ">gain, %", ">error, points"}}
	for _, one := range all {
		if !planned(one) {
			continue
		}
		row, err := ourRow(one, plans[keyOf(one)])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", keyOf(one), err)
		}
		s.rows = append(s.rows, row)
	}
	return s, nil
}

// The errors of predicted changes of plan, in points (table changes).
const pointsOneHost, pointsHosts = 3, 10

func ourRow(one *system, held []step.Holding) ([]string, error) {
	own, err := one.own()
	if err != nil {
		return nil, err
	}
	in := one.input
	if in.Shards, err = step.Place(in.Problem, held); err != nil {
		return nil, err
	}
	ours, err := step.Price(in)
	if err != nil {
		return nil, err
	}
	points := pointsOneHost
	if one.hosts > 1 {
		points = pointsHosts
	}
	lookups := func(t step.Times) string {
		return millis(t.Terms.LookupForward + t.Terms.LookupBackward + t.Terms.Replicas)
	}
	exchanges := func(t step.Times) string {
		return millis(t.Terms.ExchangeForward + t.Terms.ExchangeBackward - t.Hidden)
	}
	return []string{
		one.round, one.name(), fmt.Sprint(one.hosts), one.fact.text("batch"), one.plan,
		fmt.Sprintf("%.3f", one.ms), fmt.Sprintf("%.3f", float64(own.Step)), fmt.Sprintf("%.3f", float64(ours.Step)),
		lookups(own), lookups(ours), exchanges(own), exchanges(ours),
		signed(1 - float64(ours.Step/own.Step)), fmt.Sprintf("%d", points),
	}, nil
}
