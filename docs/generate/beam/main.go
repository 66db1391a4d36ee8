//go:build unix

// Command beam compares ways to search for plans of drawn problems, for docs/METHODS.md: the
// default method, a baseline, and the default method under budgets of evaluations.
//
//	go run ./docs/generate/beam -size 1000x128
//	go run ./docs/generate/beam -size 100x8 -budgets 100,1000,10000,30000,100000
//	go run ./docs/generate/beam -size 100x8 -memory -repeats 5
//
// With -memory it compares the default and the published search with themselves without memory.
//
// The ways take turns on each problem, on one thread. The times are processor times of the search
// alone, without the estimates of the tables before it and the judging of the plan after it. The
// simulated device judges the plans. The ratios to the default are means over the problems, with
// 95 % intervals from 10,000 resamplings of the problems.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/simulate"
)

func main() {
	size := flag.String("size", "1000x128", "tables x devices")
	problems := flag.Int("problems", 20, "number of problems, with seeds 1, 2, ...")
	budgets := flag.String("budgets", "", "budgets of evaluations, by commas")
	repeats := flag.Int("repeats", 1, "searches of each problem; the quickest counts")
	memory := flag.Bool("memory", false, "compare searches with and without memory, instead of these")
	all := flag.Bool("all", false, "allow all sharding types, not only slices of columns")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	if err := run(os.Stdout, *size, *problems, *budgets, *repeats, *memory, *all); err != nil {
		fmt.Fprintln(os.Stderr, "beam: error:", err)
		os.Exit(1)
	}
}

// way is a way to search, with its processor time and its ratio of simulated cost to the
// default's, for each problem.
type way struct {
	name           string
	opt            search.Options
	seconds, ratio []float64
}

// waysOf returns the default method first.
func waysOf(budgets string) ([]*way, error) {
	ways := []*way{
		{name: "default"},
		{name: "greedy by lookups", opt: search.Options{Method: search.Lookup}},
	}
	for text := range strings.SplitSeq(budgets, ",") {
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-budgets: %q is not a number above 0", text)
		}
		ways = append(ways, &way{name: fmt.Sprintf("default, %d evaluations", n), opt: search.Options{MaxEvaluations: n}})
	}
	return ways, nil
}

func run(w io.Writer, size string, problems int, budgets string, repeats int, memory, all bool) error {
	var tables, devices int
	if n, err := fmt.Sscanf(size, "%dx%d", &tables, &devices); n != 2 || err != nil {
		return fmt.Errorf("-size: %q is not TABLESxDEVICES", size)
	}
	if problems < 1 || repeats < 1 {
		return fmt.Errorf("-problems %d and -repeats %d must be at least 1", problems, repeats)
	}
	ways, err := waysOf(budgets)
	if err != nil {
		return err
	}
	if memory {
		ways = []*way{
			{name: "default"},
			{name: "default without memory", opt: search.Options{Forget: true}},
			{name: "published", opt: search.Options{Method: search.Paper}},
			{name: "published without memory", opt: search.Options{Method: search.Paper, Forget: true}},
		}
	}
	for seed := 1; seed <= problems; seed++ {
		p, err := workload.Scale(tables, devices, uint64(seed))
		if err != nil {
			return err
		}
		if err := compare(&p, ways, repeats, all); err != nil {
			return err
		}
	}
	fmt.Fprintln(w, "| search | processor ms | SIMULATED cost over the default's | 95 % interval |\n|---|--:|--:|--:|")
	for _, x := range ways {
		low, high := interval(x.ratio)
		fmt.Fprintf(w, "| %s | %.2f | %.4f | %.4f to %.4f |\n", x.name, 1000*mean(x.seconds), mean(x.ratio), low, high)
	}
	return nil
}

// compare plans one problem in all ways.
func compare(p *problem.Problem, ways []*way, repeats int, all bool) error {
	base := 0.0
	for i, x := range ways {
		opt := x.opt
		opt.Workers, opt.ShardingTypes = 1, []problem.ShardingType{problem.TableWise, problem.ColumnWise}
		if all {
			opt.ShardingTypes = problem.ShardingTypes()
		}
		quickest, cost := 0.0, 0.0
		for n := range repeats {
			prices, err := neuroshard.Pretrained().List(context.Background(), p)
			if err != nil {
				return err
			}
			runtime.GC() // of what came before
			from := processor()
			found, err := search.Run(context.Background(), p, prices.NewScorer, opt)
			took := processor() - from
			if err != nil {
				return err
			}
			if n == 0 || took < quickest {
				quickest = took
			}
			judged, err := simulate.NewPricer(p).Price(found.Shards)
			if err != nil {
				return err
			}
			cost = float64(judged.Cost)
		}
		if i == 0 {
			base = cost
		}
		x.seconds, x.ratio = append(x.seconds, quickest), append(x.ratio, cost/base)
	}
	return nil
}

// processor returns the seconds of processor time of this process.
func processor() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic("beam: " + err.Error())
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// interval returns a 95 % interval of the mean.
func interval(values []float64) (low, high float64) {
	const resamplings = 10_000
	draw := rand.New(rand.NewPCG(1, 0))
	means, drawn := make([]float64, resamplings), make([]float64, len(values))
	for i := range means {
		for j := range drawn {
			drawn[j] = values[draw.IntN(len(values))]
		}
		means[i] = mean(drawn)
	}
	slices.Sort(means)
	return means[resamplings/40], means[resamplings-1-resamplings/40]
}
