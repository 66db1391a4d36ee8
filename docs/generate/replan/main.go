// Command replan measures the error of the shipped cost models on differences of near plans,
// which decides what gain of a re-plan counts (neuroshard.TieBand, docs/REPLAN.md). It plans
// some workloads, moves a few shards of each plan to other devices, and compares the predicted
// difference of cost with the SIMULATED one. Then it does the same with plans of other seeds and
// batches, which have most tables elsewhere.
//
//	go run ./docs/generate/replan
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "replan:", err)
		os.Exit(1)
	}
}

// draws is the number of changed plans of a workload, and mostMoves the most moves of one. near is
// the largest simulated difference that counts as one of near plans.
const (
	draws     = 200
	mostMoves = 4
	near      = 0.10
	// seeds is the number of far plans of a workload.
	seeds = 12
)

// cases are the workloads, each on its default cluster or on other devices.
var cases = []struct{ name, device string }{
	{"mlperf-dlrm-dcnv2", ""},
	{"nvidia-synthetic-small", ""},
	{"hugectr-200", ""},
	{"hugectr-510", ""},
	{"dlrm-datasets-40x16", "h100-80"},
	{"dlrm-datasets-100x8", ""},
	{"paper-d8_m128-0", "v100-32"},
}

func run(ctx context.Context, w io.Writer) error {
	for _, table := range []struct {
		name string
		make func(context.Context, *problem.Problem) ([]difference, error)
	}{{"near plans", changed}, {"far plans", others}} {
		fmt.Fprintf(w, "| workload | %s | mean difference | standard deviation of the error | 95 %% of errors below |\n|---|--:|--:|--:|--:|\n", table.name)
		var all []difference
		for _, c := range cases {
			p, err := problemOf(c.name, c.device)
			if err != nil {
				return err
			}
			found, err := table.make(ctx, p)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			row(w, c.name, found)
			all = append(all, found...)
		}
		row(w, "all", all)
		fmt.Fprintln(w)
	}
	return nil
}

// others returns the differences between a plan of the problem and plans that were made for
// other seeds and batches.
func others(ctx context.Context, p *problem.Problem) ([]difference, error) {
	var opt neuroshard.Options
	opt.Search.ShardingTypes = problem.ShardingTypes()
	first, err := neuroshard.Plan(ctx, p, opt)
	if err != nil {
		return nil, err
	}
	var all []difference
	for seed := range uint64(seeds) {
		other := *p
		other.Batch = p.Batch >> (seed % 3)
		opt.Search.Seed = seed + 1
		made, err := neuroshard.Plan(ctx, &other, opt)
		if err != nil {
			return nil, err
		}
		all, err = added(all, first, p, made.Shards, opt)
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// added appends the difference between a plan and other shards, if these are a near enough and
// valid plan.
func added(all []difference, first *neuroshard.Result, p *problem.Problem, shards [][]problem.Shard, opt neuroshard.Options) ([]difference, error) {
	other, err := neuroshard.Evaluate(context.Background(), p, shards, opt)
	if invalid := (*plan.Invalid)(nil); errors.As(err, &invalid) {
		return all, nil // no room, or an engine's rule
	}
	if err != nil {
		return nil, err
	}
	d := difference{
		float64(other.Predicted.Cost/first.Predicted.Cost) - 1,
		float64(other.Simulated.Cost/first.Simulated.Cost) - 1,
	}
	if math.Abs(d.simulated) <= near {
		all = append(all, d)
	}
	return all, nil
}

// problemOf returns the problem of a workload, on devices of the profile if it is not empty.
func problemOf(name, device string) (*problem.Problem, error) {
	one, err := workload.ByName(workload.Prefix + name)
	if err != nil {
		return nil, err
	}
	p := one.Problem()
	if device != "" {
		p.Topology.Profile, err = hardware.ByName(device)
	}
	return &p, err
}

// difference is how two plans differ in cost, as shares of the cost of the first one.
type difference struct{ predicted, simulated float64 }

// changed returns the differences between a plan of the problem and near plans.
func changed(ctx context.Context, p *problem.Problem) ([]difference, error) {
	var opt neuroshard.Options
	opt.Search.ShardingTypes = problem.ShardingTypes()
	first, err := neuroshard.Plan(ctx, p, opt)
	if err != nil {
		return nil, err
	}
	var all []difference
	r := rand.New(rand.NewPCG(1, 2))
	for range draws {
		shards := clone(first.Shards)
		for range 1 + r.IntN(mostMoves) {
			move(r, shards)
		}
		all, err = added(all, first, p, shards, opt)
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// move puts a slice that lies on one device onto another device.
func move(r *rand.Rand, shards [][]problem.Shard) {
	for range 100 {
		from, to := r.IntN(len(shards)), r.IntN(len(shards))
		if from == to || len(shards[from]) == 0 {
			continue
		}
		i := r.IntN(len(shards[from]))
		if s := shards[from][i]; !s.ShardingType.Joint() {
			shards[to] = append(shards[to], s)
			shards[from] = slices.Delete(shards[from], i, i+1)
			return
		}
	}
}

func clone(shards [][]problem.Shard) [][]problem.Shard {
	all := make([][]problem.Shard, len(shards))
	for d := range shards {
		all[d] = slices.Clone(shards[d])
	}
	return all
}

// row prints the errors of the predicted differences.
func row(w io.Writer, name string, all []difference) {
	var errs []float64
	size, square := 0.0, 0.0
	for _, d := range all {
		e := math.Abs(d.predicted - d.simulated)
		errs = append(errs, e)
		square += e * e
		size += math.Abs(d.simulated)
	}
	n := float64(len(all))
	if n == 0 {
		fmt.Fprintf(w, "| %s | 0 | | | |\n", name)
		return
	}
	slices.Sort(errs)
	fmt.Fprintf(w, "| %s | %d | %.2f %% | %.2f %% | %.2f %% |\n", name, len(all), 100*size/n, 100*math.Sqrt(square/n), 100*errs[int(0.95*(n-1))])
}
