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
	"github.com/spf13/pflag"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/lab/trace"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/unit"
)

// mostSamples bounds the size of a design: this number takes some gigabytes of memory, and
// weeks to measure.
const mostSamples = 2_000_000

// collectCommand says what is measured, on what, and where the times are kept.
type collectCommand struct {
	*app
	flags   *pflag.FlagSet
	backend backendFlags
	domain  domainFlags
	design  design.Experiment
	shard   shardFlag
	out     string
	model   string
	anchors int
	drift   float64
	passes  int
	limit   time.Duration
	json    bool
	ceiling bool
}

func newCollectCommand(a *app) *cobra.Command {
	c := &collectCommand{app: a}
	cmd := &cobra.Command{
		Use:   "collect --backend cpu|worker|simulated -o DATASET",
		Short: "Measure the times of fused lookups and all-to-alls",
		Long: `collect draws groups of table slices and all-to-alls, measures them on a backend and
writes their times to a dataset, a folder of Parquet files. neuroshard lab train DATASET
makes a cost model of it.

The backend is this machine's CPU (--backend cpu), a worker process of your own, such
as the one for GPUs (--backend worker --worker "python3 -m neuroshard_worker"), or
the simulated device (--backend simulated --gpu a100-80).

If a run is stopped or killed, the same command continues it. --shard 2/8 measures the
second of eight parts, for eight machines; neuroshard lab dataset merge joins them
(docs/MEASURING.md).

--ceilings measures the best that the device can reach, and writes no dataset.`,
		Example: `  neuroshard lab collect --backend cpu --samples 5000 -o samples
  neuroshard lab collect --backend worker --worker "python3 -m neuroshard_worker" --gpu h200 -o samples
  neuroshard lab collect --backend cpu --tables tables.json --shard 1/4 -o part-1
  neuroshard lab collect --backend cpu --ceilings`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.backend.check("collect"); err != nil {
				return err
			}
			if c.ceiling {
				return c.ceilings(cmd.Context())
			}
			return c.run(cmd.Context())
		},
	}
	c.backend.ofSamples = true
	c.backend.register(cmd)
	c.domain.register(cmd)
	f := cmd.Flags()
	c.flags = f
	f.StringVarP(&c.out, "output", "o", "", "`folder` of the dataset")
	f.IntVar(&c.design.Samples, "samples", design.DefaultSamples, "groups of fused lookups to measure")
	f.IntVar(&c.design.CommSamples, "comm-samples", design.DefaultCommSamples, "all-to-alls to measure")
	f.IntVar(&c.design.PoolTables, "pool", design.DefaultTables, "random tables to draw the groups over")
	f.IntVar(&c.design.Tasks, "near", design.DefaultPlannedTasks, "planning `tasks`; the groups of their plans are measured too")
	f.Uint64Var(&c.design.Seed, "seed", 1, "seed of the draws")
	f.StringVar(&c.model, "model", "", "`folder` of a cost model to plan those tasks with (default: greedy methods)")
	f.Var(&c.shard, "shard", "measure one part of n, such as 2/8")
	f.IntVar(&c.anchors, "anchor-every", 0, "samples between two runs of the anchor sample (default: 200)")
	f.Float64Var(&c.drift, "drift", 0, "`share` by which the anchor may change before its block is measured again (default: 0.1 on a CPU, else 0.03)")
	f.IntVar(&c.passes, "passes", 1, "passes over all samples; the time of a sample is the median over the passes")
	f.DurationVar(&c.limit, "limit", 0, "stop measuring after this `time`, leave the other samples out, and finish the dataset (default: no limit)")
	f.BoolVar(&c.ceiling, "ceilings", false, "measure the best that the device can reach; writes no dataset")
	f.BoolVar(&c.json, "json", false, "print one JSON object")
	return cmd
}

// check reports flags that are missing or wrong.
func (c *collectCommand) check() error {
	var f faults
	f.add(c.passes < 1, "", "collect: passes %d: there must be at least one", c.passes)
	for _, n := range []struct {
		name  string
		value int
	}{{"samples", c.design.Samples}, {"comm-samples", c.design.CommSamples}, {"pool", c.design.PoolTables}, {"near", c.design.Tasks}} {
		f.add(n.value < 0 || n.value > mostSamples, "measure more in several datasets of different seeds", "collect: %s %d is not between 0 and %d", keyOf(n.name), n.value, mostSamples)
	}
	f.add(c.limit < 0, "give a time such as 10m, or leave the flag out", "collect: --limit %v is negative", c.limit)
	f.add(c.limit > 0 && c.passes > 1, "leave one of them out", "collect: --limit and passes do not go together: each pass has all samples")
	f.add(c.anchors < 0, "leave the flag out for the default", "collect: anchor_every %d is negative", c.anchors)
	f.add(c.backend.fastest && c.passes == 1, "add --set passes=5, say, or leave fastest out", "collect: fastest chooses among passes, and there is one")
	f.add(c.out == "", "name the folder of the dataset: -o samples", "collect: --output is missing")
	if err := f.err(); err != nil {
		return err
	}
	_, missing := os.Stat(c.out)
	if info, err := os.Lstat(c.out); err == nil && info.Mode()&os.ModeSymlink != 0 && missing != nil {
		return usagef("make that folder first, or name another one", "collect: --output: %s is a link, and there is no folder where it leads", c.out)
	}
	return nil
}

func (c *collectCommand) run(ctx context.Context) error {
	if err := c.check(); err != nil {
		return err
	}
	bar := c.newProgressBar()
	defer bar.clear()
	var real *tracedTables
	if c.domain.trace != "" {
		var err error
		if real, err = c.readLookups(bar); err != nil {
			return err
		}
		defer real.remove()
	}
	set, err := c.draw(ctx, bar, real)
	if err != nil {
		return err
	}
	bar.phase("starting the backend")
	c.backend.seed = c.design.Seed
	backend, err := c.backend.start(ctx, true, c.stderr)
	if err != nil {
		return err
	}
	defer backend.Close()
	if c.lacksComm(backend, set) {
		fmt.Fprintln(c.stderr, "neuroshard: the backend does not measure all-to-alls, since it has a single device: they are left out; train with comm simulated, or with comm and the folder of a dataset that has all-to-alls")
		set.Comm = nil
	}
	if w, ok := backend.(*collect.Worker); ok && set.Compute != nil {
		if err := c.leaveOut(w, set.Compute); err != nil {
			return err
		}
	}
	return c.measure(ctx, bar, set, backend)
}

// leaveOut takes the groups out of the samples that the backend cannot run.
func (c *collectCommand) leaveOut(w *collect.Worker, set *dataset.Compute) error {
	all := len(set.Samples)
	var pairs []string
	set.Samples = slices.DeleteFunc(set.Samples, func(g dataset.Group) bool {
		lacks := w.Lacks(g.Operation)
		if pair := fmt.Sprintf("%v with %v", g.Operation.Optimizer, g.Operation.Precision); lacks && !slices.Contains(pairs, pair) {
			pairs = append(pairs, pair)
		}
		return lacks
	})
	left := len(set.Samples)
	if left == all {
		return nil
	}
	slices.Sort(pairs)
	if left == 0 {
		return usagef("choose others with optimizers and precisions", "collect: the backend has no %s, and all %d groups need it", strings.Join(pairs, ", "), all)
	}
	fmt.Fprintf(c.stderr, "neuroshard: the backend has no %s: %d of %d groups are left out\n", strings.Join(pairs, ", "), all-left, all)
	return nil
}

// draw draws the samples to measure; real is nil without --trace.
func (c *collectCommand) draw(ctx context.Context, bar *progressBar, real *tracedTables) (dataset.Dataset, error) {
	none := dataset.Dataset{}
	var err error
	if c.design.Domain, err = c.domain.domain(c.app, c.backend.name, real); err != nil {
		return none, err
	}
	if c.design.Model, err = c.givenModel(c.model); err != nil {
		return none, err
	}
	if hw, err := hardware.ByName(c.backend.profile); err == nil {
		c.design.Hardware = hw
		if c.design.Domain.MaxBytes == 0 {
			// The rest of the memory is for the kernels' buffers. A worker gives weights and
			// state 60 % of what is free.
			share := .8
			if c.backend.name == backendWorker {
				share = .5
			}
			c.design.Domain.MaxBytes = unit.Bytes(share * float64(hw.Memory))
		}
	}
	bar.phase("drawing")
	set, err := c.design.Draw(ctx)
	if ctx.Err() != nil {
		return none, ctx.Err()
	}
	if err != nil {
		return none, bad(err, "")
	}
	if real != nil && set.Compute != nil {
		for i := range set.Compute.Tables {
			c.backend.lookupFiles = append(c.backend.lookupFiles, real.files[set.Compute.Tables[i].Name])
		}
	}
	return set, nil
}

// lacksComm reports whether the samples have all-to-alls that nobody asked for and that
// the backend cannot measure.
func (c *collectCommand) lacksComm(backend collect.Backend, set dataset.Dataset) bool {
	supporter, tells := backend.(collect.Supporter)
	return tells && set.Comm != nil && set.Compute != nil && !supporter.Supports(protocol.CapComm) && !c.flags.Changed("comm-samples")
}

// measure measures the samples and prints what the dataset then holds.
func (c *collectCommand) measure(ctx context.Context, bar *progressBar, set dataset.Dataset, backend collect.Backend) error {
	drift := c.drift
	if drift == 0 && c.backend.name == backendCPU {
		drift = .1
	}
	start := c.env.now()
	var (
		failures []collect.Failure
		last     collect.Progress
	)
	options := collect.Options{
		Shard: collect.Shard(c.shard), AnchorEvery: c.anchors, DriftLimit: drift, Passes: c.passes, Fastest: c.backend.fastest, Tool: neuroshard.Version,
		OnProgress: func(p collect.Progress) {
			last = p
			bar.at(p.Done, p.Total, measuring(p))
		},
		OnFailure: func(f collect.Failure) { failures = append(failures, f) },
	}
	if c.limit > 0 {
		options.Enough = func() bool { return c.env.now().Sub(start) >= c.limit }
	}
	measured, err := collect.Run(ctx, set, backend, c.out, options)
	bar.clear()
	if len(failures) > 0 {
		warn(c.stderr, "%d samples failed and are left out; the first: %v", len(failures), failures[0])
	}
	if ctx.Err() != nil {
		return &exitError{exitInterrupted, fmt.Errorf("interrupted: the times measured so far are kept in %s", c.out), "give the same command again to continue"}
	}
	finished := errors.Is(err, collect.ErrFinished)
	if left := last.Total - last.Done; c.limit > 0 && left > 0 && !finished {
		fmt.Fprintf(c.stderr, "neuroshard: --limit %v ended the run: %d of %d measurements are left out, and the dataset is finished\n", c.limit, left, last.Total)
	}
	if err != nil && !finished {
		hint := ""
		if errors.Is(err, collect.ErrSetAside) {
			hint = "measure into another folder while nothing else runs on the machine; on a machine with other load add --set passes=5 fastest, or allow larger changes with --set drift=0.2"
		}
		if errors.Is(err, collect.ErrUnsupported) {
			hint = "leave all-to-alls out with --set comm_samples=0, and name the precisions and optimizers of the backend with precisions and optimizers"
		}
		return bad(err, hint)
	}
	summary := report.DatasetSummary(measured)
	summary.Folder = c.out
	if w, ok := backend.(*collect.Worker); ok {
		if r := w.Realised(); r.Tables > 0 {
			summary.Realised = &report.RealisedInfo{Tables: r.Tables, Mean: 100 * r.Mean, Max: 100 * r.Max}
		}
	}
	if !finished { // the samples that this run measured
		summary.Seconds = c.env.now().Sub(start).Round(time.Second).Seconds()
	}
	if c.json {
		return bad(c.printJSON(summary), "")
	}
	return bad(report.Dataset(c.stdout, summary, c.reportOptions()), "")
}

// measuring describes the progress of a run.
func measuring(p collect.Progress) string {
	what := "measuring " + p.Phase
	if p.Pass > 0 {
		what = fmt.Sprintf("pass %d, %s", p.Pass, p.Phase)
	}
	if p.Failed+p.Quarantined > 0 {
		what += fmt.Sprintf(", %d failed, %d quarantined", p.Failed, p.Quarantined)
	}
	return what
}

// tracedTables are the tables of a trace, and the number of its samples. The lookups of
// each table are in a file of a temporary folder, which the worker reads.
type tracedTables struct {
	tables  []problem.Table
	samples int
	files   map[string]string
	folder  string
}

// remove removes the files.
func (t *tracedTables) remove() { _ = os.RemoveAll(t.folder) }

// readLookups reads the trace that samples are drawn over. The caller removes what it
// returns.
func (c *collectCommand) readLookups(bar *progressBar) (*tracedTables, error) {
	if c.domain.tables != "" {
		return nil, usagef("leave one of them out", "collect: --tables and --trace do not go together")
	}
	if c.backend.name == backendSimulated {
		return nil, usagef("make tables of it with neuroshard lab profile, for --tables", "collect: the simulated device does not run the lookups of a --trace")
	}
	folder, err := os.MkdirTemp("", "neuroshard-lookups-")
	if err != nil {
		return nil, bad(err, "")
	}
	real := &tracedTables{folder: folder, files: map[string]string{}}
	found, err := trace.ReadTables(c.domain.trace, trace.Options{Progress: readingProgress(bar, c.domain.trace)}, trace.TableOptions{
		Dim: defaultTraceDim,
		Keep: func(i int, t trace.Table) error {
			path := filepath.Join(folder, fmt.Sprintf("%d.lookups", i))
			real.files[t.Name] = path
			return bad(lookups.WriteFile(path, t.Bags), "make room in the folder for temporary files, or name another one in TMPDIR")
		},
	})
	if err != nil {
		real.remove()
		return nil, bad(err, "")
	}
	real.tables, real.samples = found.List, found.Samples
	c.backend.trace = filepath.Base(c.domain.trace)
	return real, nil
}

// ceilings prints the best that the device can reach.
func (c *collectCommand) ceilings(ctx context.Context) error {
	if c.backend.name == backendSimulated {
		return usagef("the profile's figures are in: neuroshard list devices", "collect: the simulated device has no ceilings to measure")
	}
	bar := c.newProgressBar()
	defer bar.clear()
	bar.phase("measuring ceilings")
	backend, err := c.backend.start(ctx, false, c.stderr)
	if err != nil {
		return err
	}
	defer backend.Close()
	w, ok := backend.(*collect.Worker)
	if !ok {
		return usagef("", "collect: this backend has no ceilings to measure")
	}
	found, err := w.Ceilings(ctx)
	bar.clear()
	if err != nil {
		return bad(err, "")
	}
	if c.json {
		return bad(c.printJSON(found), "")
	}
	return bad(report.Ceilings(c.stdout, backend.Provenance(), found, c.reportOptions()), "")
}
