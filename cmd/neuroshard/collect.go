package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/lab"
	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/lab/trace"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/unit"
)

// mostSamples bounds what a design is drawn of: some gigabytes of memory, and
// more than anybody measures.
const mostSamples = 2_000_000

// collectFlags say what is measured, by what, and where it is kept.
type collectFlags struct {
	meter   backendFlags
	domain  domainFlags
	design  lab.Design
	shard   shardFlag
	out     string
	model   string
	anchors int
	drift   float64
	passes  int
	json    bool
	ceiling bool
	cmd     *cobra.Command
	// pools are the files with the lookups of a trace's tables, by name.
	pools map[string]string
}

func newCollectCommand(a *app) *cobra.Command {
	f := &collectFlags{}
	cmd := &cobra.Command{
		Use:   "collect --backend cpu|worker|simulated -o DATASET",
		Short: "Measure what fused lookups and all-to-alls take",
		Long: `collect draws groups of table slices and all-to-alls, has a meter run them and
writes their times to a dataset, a folder of Parquet files: what neuroshard
train DATASET makes a cost model of.

The meter is this machine's CPU (--backend cpu), a worker process of your own, such
as the one for GPUs (--backend worker --worker "python3 -m neuroshard_worker"), or
the simulated device (--backend simulated --profile a100-80).

A run that is stopped, or killed, goes on where it was when the same command is
given again. --shard 2/8 measures the second of eight parts, on as many machines;
neuroshard dataset merge joins them (docs/LAUNCHERS.md).

--ceilings measures instead what the device reaches at best.`,
		Example: `  neuroshard collect --backend cpu --samples 5000 -o samples
  neuroshard collect --backend worker --worker "python3 -m neuroshard_worker" --profile h200 -o samples
  neuroshard collect --backend cpu --tables tables.json --shard 1/4 -o part-1
  neuroshard collect --backend cpu --ceilings`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.collect(cmd.Context(), f) },
	}
	f.cmd = cmd
	f.meter.register(cmd)
	f.domain.register(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "output", "o", "", "`folder` of the dataset")
	flags.IntVar(&f.design.Samples, "samples", lab.DefaultMeasuredSamples, "groups of fused lookups to measure")
	flags.IntVar(&f.design.CommSamples, "comm-samples", lab.DefaultMeasuredCommSamples, "all-to-alls to measure")
	flags.IntVar(&f.design.PoolTables, "pool", lab.DefaultMeasuredTables, "random tables to draw the groups over")
	flags.IntVar(&f.design.Tasks, "near", lab.DefaultNearTasks, "planning `tasks` whose plans' groups are measured too")
	flags.Uint64Var(&f.design.Seed, "seed", 1, "seed of the draws")
	flags.StringVar(&f.model, "model", "", "`folder` of a cost model to make those plans with (default: greedy methods)")
	flags.Var(&f.shard, "shard", "measure one part of n, such as 2/8")
	flags.IntVar(&f.anchors, "anchor-every", 0, "samples between two runs of the anchor sample (default: 200)")
	flags.Float64Var(&f.drift, "drift", 0, "`share` that the anchor may move before its block is measured again (default: 0.1 on a CPU, else 0.03)")
	flags.IntVar(&f.passes, "passes", 1, "times that everything is measured, one after the other; a sample's time is their median")
	flags.BoolVar(&f.ceiling, "ceilings", false, "measure what the device reaches at best; writes no dataset")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	return cmd
}

// domainFlags bound what is drawn.
type domainFlags struct {
	cmd                              *cobra.Command
	tables, trace                    string
	batches, devices                 intList
	optimizers, precisions           []string
	minShards, maxShards, maxDim     int
	minRows, maxRows                 int64
	maxPooling, weighted, maxLookups float64
	maxBytes                         size
	paper                            bool

	// read are the tables of the trace, of so many samples.
	read    []problem.Table
	samples int
}

func (d *domainFlags) register(cmd *cobra.Command) {
	d.cmd = cmd
	f := cmd.Flags()
	f.StringVar(&d.tables, "tables", "", "draw groups over the tables of this `file` instead of random ones")
	f.StringVar(&d.trace, "trace", "", "draw groups over the tables of this `file` of real lookups, and run those")
	f.BoolVar(&d.paper, "paper", false, "draw as the NeuroShard paper does: what its prototype's text files can say")
	f.Var(&d.batches, "batch", "global batches to draw, separated by commas")
	f.Var(&d.devices, "devices", "numbers of devices of an all-to-all")
	f.StringSliceVar(&d.optimizers, "optimizers", nil, "optimizers to draw: sgd, rowwise_adagrad, adagrad, adam")
	f.StringSliceVar(&d.precisions, "precisions", nil, "precisions to draw: fp32, fp16, bf16")
	f.IntVar(&d.minShards, "min-shards", 0, "fewest shards of a group")
	f.IntVar(&d.maxShards, "max-shards", 0, "most shards of a group")
	f.IntVar(&d.maxDim, "max-dim", 0, "most columns of a shard")
	f.Int64Var(&d.minRows, "min-rows", 0, "fewest rows of a random table")
	f.Int64Var(&d.maxRows, "max-rows", 0, "most rows of a random table")
	f.Float64Var(&d.maxPooling, "max-pooling-factor", 0, "largest pooling factor of a random table")
	f.Float64Var(&d.weighted, "weighted-share", 0, "`share` of weighted groups")
	f.Var(&d.maxBytes, "max-group", "most weights and optimizer state of a group")
	f.Float64Var(&d.maxLookups, "max-lookup-bytes", 0, "most `bytes` that a group looks up in a batch, which bounds a sample's time")
}

// domain returns the meter's default domain with what the flags change.
func (d *domainFlags) domain(a *app, meter string) (design.Domain, error) {
	var domain design.Domain
	switch {
	case d.paper:
		domain = design.Paper()
	case meter == backendCPU:
		domain = design.CPU()
	}
	set := d.cmd.Flags().Changed
	if set("batch") {
		domain.Batches = d.batches
	}
	if set("devices") {
		domain.Devices = d.devices
	}
	for _, f := range []struct {
		name string
		to   *int
		from int
	}{{"min-shards", &domain.MinShards, d.minShards}, {"max-shards", &domain.MaxShards, d.maxShards}, {"max-dim", &domain.MaxDim, d.maxDim}} {
		if set(f.name) {
			*f.to = f.from
		}
	}
	if set("min-rows") {
		domain.MinRows = d.minRows
	}
	if set("max-rows") {
		domain.MaxRows = d.maxRows
	}
	if set("max-pooling-factor") {
		domain.MaxPoolingFactor = d.maxPooling
	}
	if set("weighted-share") {
		domain.WeightedShare = d.weighted
	}
	if set("max-group") {
		domain.MaxBytes = unit.Bytes(d.maxBytes)
	}
	if set("max-lookup-bytes") {
		domain.MaxLookupBytes = d.maxLookups
	}
	if set("optimizers") {
		domain.Optimizers = nil
		for _, name := range d.optimizers {
			o, err := problem.ParseOptimizer(name)
			if err != nil {
				return domain, usagef("", "--optimizers: %w", err)
			}
			domain.Optimizers = append(domain.Optimizers, o)
		}
	}
	if set("precisions") {
		domain.Precisions = nil
		for _, name := range d.precisions {
			p, err := problem.ParsePrecision(name)
			if err != nil {
				return domain, usagef("", "--precisions: %w", err)
			}
			domain.Precisions = append(domain.Precisions, p)
		}
	}
	if d.tables != "" {
		var none clusterFlags
		none.set = d.cmd.Flags()
		file, _, err := a.tables(d.tables, &none)
		if err != nil {
			return domain, err
		}
		domain.Tables = file.Tables
	}
	if d.read != nil {
		domain.Tables = d.read
		if !set("batch") {
			// A trace can be cut to fewer samples, and has no more.
			domain.Batches = slices.DeleteFunc(slices.Clone(domain.Batches), func(b int) bool { return b > d.samples })
		}
		if len(domain.Batches) == 0 {
			domain.Batches = []int{d.samples}
		}
		if most := slices.Max(domain.Batches); most > d.samples {
			return domain, usagef("the trace has no more samples than that", "collect: --batch %d is above the trace's %d samples", most, d.samples)
		}
	}
	if problems := domain.Problems(); len(problems) > 0 {
		return domain, usagef("", "collect: %s", strings.Join(problems, "; "))
	}
	return domain, nil
}

func (a *app) collect(ctx context.Context, f *collectFlags) error {
	if err := f.meter.check("collect"); err != nil {
		return err
	}
	if f.ceiling {
		return a.ceilings(ctx, f)
	}
	if f.passes < 1 {
		return usagef("", "collect: --passes %d: there must be one at least", f.passes)
	}
	for _, n := range []struct {
		flag  string
		value int
	}{{"samples", f.design.Samples}, {"comm-samples", f.design.CommSamples}, {"pool", f.design.PoolTables}, {"near", f.design.Tasks}} {
		if n.value < 0 || n.value > mostSamples {
			return usagef("measure more in several datasets of different seeds", "collect: --%s %d is not between 0 and %d", n.flag, n.value, mostSamples)
		}
	}
	if f.anchors < 0 {
		return usagef("leave the flag out for the default", "collect: --anchor-every %d is negative", f.anchors)
	}
	if f.meter.fastest && f.passes == 1 {
		return usagef("add --passes 5, say, or leave --fastest out", "collect: --fastest chooses among passes, and there is one")
	}
	if f.out == "" {
		return usagef("name the folder of the dataset: -o samples", "collect: --output is missing")
	}
	var err error
	if f.domain.trace != "" {
		remove, err := a.takeTrace(f)
		if err != nil {
			return err
		}
		defer remove()
	}
	if f.design.Domain, err = f.domain.domain(a, f.meter.meter); err != nil {
		return err
	}
	if f.model != "" {
		if f.design.Model, err = a.loadModel(f.model); err != nil {
			return err
		}
	}
	if hw, err := hardware.ByName(f.meter.profile); err == nil {
		f.design.Hardware = hw
		if f.design.Domain.MaxBytes == 0 {
			// The rest is for the kernels' buffers.
			f.design.Domain.MaxBytes = unit.Bytes(.8 * float64(hw.Memory))
		}
	}
	bar := a.newProgressBar()
	defer bar.clear()
	bar.phase("drawing")
	design, err := f.design.Draw(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return bad(err, "")
	}
	bar.phase("starting the meter")
	f.meter.seed = f.design.Seed
	if f.pools != nil && design.Compute != nil {
		for i := range design.Compute.Tables {
			f.meter.pools = append(f.meter.pools, f.pools[design.Compute.Tables[i].Name])
		}
	}
	meter, err := f.meter.start(ctx, true, a.stderr)
	if err != nil {
		return err
	}
	defer meter.Close()
	if s, tells := meter.(collect.Supporter); tells && design.Comm != nil && design.Compute != nil && !s.Supports(protocol.CapComm) && !f.cmd.Flags().Changed("comm-samples") {
		fmt.Fprintln(a.stderr, "neuroshard: the meter measures no all-to-alls, as of a single device: they are left out; train with --comm simulated, or with the folder of some")
		design.Comm = nil
	}
	drift := f.drift
	if drift == 0 && f.meter.meter == backendCPU {
		drift = .1
	}
	start := a.env.now()
	var failures []collect.Failure
	set, err := collect.Run(ctx, design, meter, f.out, collect.Options{
		Shard: collect.Shard(f.shard), AnchorEvery: f.anchors, DriftLimit: drift, Passes: f.passes, Fastest: f.meter.fastest, Tool: neuroshard.Version,
		OnProgress: func(p collect.Progress) {
			what := "measuring " + p.Phase
			if p.Pass > 0 {
				what = fmt.Sprintf("pass %d, %s", p.Pass, p.Phase)
			}
			if p.Failed+p.Quarantined > 0 {
				what += fmt.Sprintf(", %d failed, %d quarantined", p.Failed, p.Quarantined)
			}
			bar.at(p.Done, p.Total, what)
		},
		OnFailure: func(f collect.Failure) { failures = append(failures, f) },
	})
	bar.clear()
	if len(failures) > 0 {
		fmt.Fprintf(a.stderr, "neuroshard: warning: %d samples failed and are left out; the first: %v\n", len(failures), failures[0])
	}
	if ctx.Err() != nil {
		return &exitError{exitInterrupted, fmt.Errorf("interrupted: what was measured is kept in %s", f.out), "give the same command again to go on"}
	}
	summary := report.DatasetSummary(set)
	summary.Folder = f.out
	if worker, ok := meter.(*collect.Worker); ok {
		if r := worker.Realised(); r.Tables > 0 {
			summary.Realised = &report.RealisedInfo{Tables: r.Tables, Mean: 100 * r.Mean, Max: 100 * r.Max}
		}
	}
	switch {
	case err == nil:
		summary.Seconds = a.env.now().Sub(start).Round(time.Second).Seconds()
	case !errors.Is(err, collect.ErrFinished):
		hint := ""
		if errors.Is(err, collect.ErrUnsupported) {
			hint = "leave all-to-alls out with --comm-samples 0, and take the backend's own with --precisions and --optimizers"
		}
		return bad(err, hint)
	}
	if f.json {
		return bad(a.printJSON(summary), "")
	}
	return bad(report.Dataset(a.stdout, summary, a.reportOptions()), "")
}

// takeTrace reads the trace that samples are drawn over, and keeps each table's
// lookups in a file of its own for the worker. The files are removed by what it
// returns.
func (a *app) takeTrace(f *collectFlags) (remove func(), err error) {
	if f.domain.tables != "" {
		return nil, usagef("leave one of them out", "collect: --tables and --trace do not go together")
	}
	if f.meter.meter == backendSimulated {
		return nil, usagef("make tables of it with neuroshard profile, for --tables", "collect: the simulated device runs no lookups of a --trace")
	}
	folder, err := os.MkdirTemp("", "neuroshard-lookups-")
	if err != nil {
		return nil, bad(err, "")
	}
	remove = func() { _ = os.RemoveAll(folder) }
	f.pools = map[string]string{}
	f.domain.read, _, f.domain.samples, err = a.readTrace(f.domain.trace, trace.Options{}, nil, defaultTraceDim, func(i int, t trace.Table) error {
		path := filepath.Join(folder, fmt.Sprintf("%d.pool", i))
		f.pools[t.Name] = path
		return bad(lookups.WritePool(path, t.Bags), "make room in the folder for temporary files, or name another in TMPDIR")
	})
	if err != nil {
		remove()
		return nil, err
	}
	f.meter.trace = filepath.Base(f.domain.trace)
	return remove, nil
}

// ceilings prints what the device reaches at best.
func (a *app) ceilings(ctx context.Context, f *collectFlags) error {
	if f.meter.meter == backendSimulated {
		return usagef("the profile's figures are in: neuroshard devices", "collect: the simulated device has no ceilings to measure")
	}
	bar := a.newProgressBar()
	defer bar.clear()
	bar.phase("measuring ceilings")
	meter, err := f.meter.start(ctx, false, a.stderr)
	if err != nil {
		return err
	}
	defer meter.Close()
	worker, ok := meter.(*collect.Worker)
	if !ok {
		return usagef("", "collect: this meter has no ceilings to measure")
	}
	found, err := worker.Ceilings(ctx)
	bar.clear()
	if err != nil {
		return bad(err, "")
	}
	if f.json {
		return bad(a.printJSON(found), "")
	}
	return bad(report.Ceilings(a.stdout, meter.Provenance(), found, a.reportOptions()), "")
}
