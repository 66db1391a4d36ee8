package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/verify"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// allWorkloads stands for the names of all published workloads.
const allWorkloads = "all"

// ownDevices is the number of devices of tasks drawn for a device of one's own.
const ownDevices = 4

// benchFlags are the flags of bench.
type benchFlags struct {
	cmd *cobra.Command

	device    string
	count     int
	workloads []string
	clusters  []string
	tables    string
	tasks     []string
	devices   int
	memory    size

	model, compute, forward, backward string

	methods []string
	score   []string
	workers int
	seed    uint64

	// meter judges plans by running them, each so many times. own is the model where
	// its device is no built-in one: tasks are then drawn for it.
	meter backendFlags
	runs  int
	own   *cost.Model

	timeLimit   time.Duration
	riskPenalty float64
	stress      bool
	json, plot  string
	ranking     bool
}

func newBenchCommand(a *app) *cobra.Command {
	f := &benchFlags{memory: size(4 * unit.GiB)}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Compare planning methods over suites of tasks",
		Long: `bench plans each task of a suite with each method, proves and prices every plan,
and sums up by setting: tasks solved, mean and median cost, the mean over the
tasks that all methods solve, the mean ratio to the paper's search over tasks
that both solve, the bias of the predicted cost, and the time of a plan on one
thread.

The suite is drawn as the NeuroShard paper draws tasks (--count for each of six
settings), or read from the published prototype's task files (--tasks, with
--tables, --devices and --memory), or workloads by name (--workloads).

--workloads takes names, or "all" for the published ones, each on two clusters
(--clusters), and prints a line for each task instead: the cost of the plan of
neuroshard, of paper and of the best baseline, what is gained over each, how far
the plan can be from the best there is, and its time. A method that finds no plan,
or none within --time-limit, is shown so, and means say over how many tasks they
are.

Plans are found with the embedded cost models, or your own (--model), and judged
on the simulated device, or on a meter (--backend, as in collect), which runs each
plan; or with the prototype's nets (--compute-model,
--forward-model, --backward-model), which are then the judge, too. With its tasks
memory counts fp32 weights alone, as the prototype does.

--score prices given plans instead of searching: results that bench --json
wrote, the prototype's results files, or plan files, each under its own name. The
tables of plan files are those of --workloads or of --tables. --ranking asks whether the cost model
puts plans in the right order.

--json FILE keeps every record: task, method, costs, time, devices and plan. A
run that is stopped goes on where it was when the same command is given again.`,
		Example: `  neuroshard bench --count 20 --json out.json --plot out.svg
  neuroshard bench --workloads all --json workloads.json
  neuroshard bench --workloads hugectr-200 --clusters default,8xh100-80 --methods neuroshard,paper
  neuroshard bench --tables table_configs.json --tasks d4_m16.txt --devices 4 --memory 4GiB \
      --compute-model compute.pt --forward-model comm_4_fw.pt --backward-model comm_4_bw.pt
  neuroshard bench --model cpu-model --backend cpu --count 10 --json measured.json
  neuroshard bench --tables tables.json --score ours.json,theirs.json
  neuroshard bench --ranking --device h200`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.bench(cmd.Context(), f) },
	}
	f.cmd = cmd
	flags := cmd.Flags()
	flags.StringVar(&f.device, "device", "a100-80", "hardware `profile` of drawn and read tasks")
	flags.IntVar(&f.count, "count", 20, "tasks to draw for each of the six settings")
	flags.StringSliceVar(&f.workloads, "workloads", nil, "plan workloads by `name`, or all published ones, instead of drawn tasks")
	flags.StringSliceVar(&f.clusters, "clusters", []string{bench.DefaultCluster, bench.OtherCluster}, "`clusters` to plan workloads on: default, other, or devices of a profile such as 16xh100-80")
	flags.DurationVar(&f.timeLimit, "time-limit", time.Minute, "`time` after which a search for a plan of a workload is ended, such as 90s")
	flags.StringVar(&f.tables, "tables", "", "the tables that --tasks are drawn on: `file` in the prototype's form; or those of the plans to --score")
	flags.StringSliceVar(&f.tasks, "tasks", nil, "`files` of tasks in the prototype's form; each is a setting")
	flags.IntVar(&f.devices, "devices", 0, "devices of the tasks read (default: what the task file states, else 4)")
	flags.Var(&f.memory, "memory", "memory of a device of the tasks read")
	flags.StringVar(&f.model, "model", "", "`folder` of a cost model to plan with, as train writes it (default: embedded)")
	flags.Float64Var(&f.riskPenalty, "risk-penalty", 0, "`deviations` by which plans are priced above the mean of an ensemble's nets in the search")
	flags.StringVar(&f.compute, "compute-model", "", "the prototype's compute net: `file`, .pt or .json")
	flags.StringVar(&f.forward, "forward-model", "", "the prototype's forward comm net: `file`, .pt or .json")
	flags.StringVar(&f.backward, "backward-model", "", "the prototype's backward comm net: `file`, .pt or .json")
	flags.StringSliceVar(&f.methods, "methods", nil, "`methods` to compare, separated by commas (default: all)")
	flags.StringSliceVar(&f.score, "score", nil, "price the plans of these `files` instead of searching")
	flags.IntVar(&f.workers, "workers", 0, "tasks planned at a time (default: all processors)")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the tasks and of the searches")
	flags.StringVar(&f.json, "json", "", "`file` to write records and summary to, - for stdout")
	flags.StringVar(&f.plot, "plot", "", "`file` to draw the summary to, as SVG")
	f.meter.register(cmd)
	flags.IntVar(&f.runs, "runs", 3, "runs of each plan on the meter; its cost is their median")
	flags.BoolVar(&f.stress, "stress", false, "draw tasks whose tables nearly fill the memory instead, --count for each of ten families")
	flags.BoolVar(&f.ranking, "ranking", false, "judge how well the cost model orders plans")
	complete(cmd, "device", hardware.Names)
	complete(cmd, "methods", methods)
	complete(cmd, "workloads", func() []string { return append(workload.Names(), allWorkloads) })
	complete(cmd, "clusters", func() []string { return []string{bench.DefaultCluster, bench.OtherCluster} })
	return cmd
}

func (a *app) bench(ctx context.Context, f *benchFlags) error {
	if err := f.conflict(); err != nil {
		return err
	}
	hw, err := a.benchDevice(f)
	if err != nil {
		return err
	}
	chosen, err := f.chosen()
	if err != nil {
		return err
	}
	if f.ranking {
		return a.rank(ctx, f, hw)
	}
	prices, err := a.prices(f)
	if err != nil {
		return err
	}
	tasks, err := a.suite(f, hw)
	if err != nil {
		return err
	}
	if err := bench.Check(tasks, prices); err != nil {
		return bad(err, "choose tasks that the models are for: see --device, --devices and --clusters")
	}
	opt := bench.Options{Prices: prices, Methods: chosen, Workers: f.workers, Seed: f.seed}
	if len(f.workloads) > 0 {
		opt.TimeLimit, opt.Certificate = f.timeLimit, true
	}
	if f.meter.meter != "" {
		meter, err := a.judge(ctx, f, &opt)
		if err != nil {
			return err
		}
		defer meter.Close()
	}
	if len(f.score) > 0 {
		return a.score(ctx, f, tasks, opt)
	}
	return a.compare(ctx, f, tasks, opt)
}

// benchDevice returns the device of the tasks: that of the model, where no
// built-in profile describes it, or --device.
func (a *app) benchDevice(f *benchFlags) (hardware.Profile, error) {
	if f.model != "" && !f.cmd.Flags().Changed("device") {
		model, err := a.loadModel(f.model)
		if err != nil {
			return hardware.Profile{}, err
		}
		if hw := model.Hardware(); !hardware.Known(hw.Name) {
			f.own = model
			return hw, nil
		}
	}
	hw, err := hardware.ByName(f.device)
	return hw, bad(err, "list the profiles with: neuroshard devices")
}

// judge starts the meter that plans are measured with.
func (a *app) judge(ctx context.Context, f *benchFlags, opt *bench.Options) (collect.Backend, error) {
	if f.meter.profile == "" {
		f.meter.profile = f.device
		if f.own != nil {
			f.meter.profile = f.own.Hardware().Name
		}
	}
	if err := f.meter.check("bench"); err != nil {
		return nil, err
	}
	if f.runs < 1 || f.runs > mostRuns {
		return nil, usagef("", "bench: --runs %d is not between 1 and %d", f.runs, mostRuns)
	}
	meter, err := f.meter.start(ctx, false, a.stderr)
	if err != nil {
		return nil, err
	}
	opt.Measure = func(ctx context.Context, p *problem.Problem, shards [][]problem.Shard, predicted plan.Breakdown) (unit.Millis, unit.Millis, error) {
		result, err := verify.Plan(ctx, p, shards, predicted, meter, verify.Options{Repeats: f.runs, Fastest: f.meter.fastest})
		if err != nil {
			if ctx.Err() != nil {
				return 0, 0, err
			}
			return 0, 0, bad(err, measuringHint(err)+"; with --json the same command goes on where it ended")
		}
		if !result.CommMeasured {
			return 0, 0, fmt.Errorf("the meter measures no all-to-alls, so plans cannot be compared by it: %s", result.CommMissing)
		}
		return result.Measured, result.Spread, nil
	}
	return meter, nil
}

// conflict reports flags that do not go together.
func (f *benchFlags) conflict() error {
	excluded := map[string][]string{
		"ranking":   {"count", "workloads", "tables", "tasks", "devices", "memory", "compute-model", "forward-model", "backward-model", "methods", "score", "workers", "plot", "stress"},
		"score":     {"methods", "time-limit"},
		"workloads": {"device", "count", "tables", "tasks", "devices", "memory", "stress"},
		"tasks":     {"count", "stress"},
	}
	set := f.cmd.Flags()
	for _, name := range []string{"ranking", "score", "workloads", "tasks"} {
		for _, other := range excluded[name] {
			if set.Changed(name) && set.Changed(other) {
				return usagef("leave one of them out", "bench: --%s and --%s do not go together", name, other)
			}
		}
	}
	for _, name := range []string{"devices", "memory"} {
		if set.Changed(name) && !set.Changed("tasks") {
			return usagef("give a file of tasks with --tasks", "bench: --%s is of tasks read from a file, and there are none", name)
		}
	}
	for _, name := range []string{"clusters", "time-limit"} {
		if set.Changed(name) && len(f.workloads) == 0 {
			return usagef("name workloads with --workloads", "bench: --%s is of workloads, and there are none", name)
		}
	}
	if f.timeLimit <= 0 {
		return usagef("", "bench: --time-limit %v is not above 0", f.timeLimit)
	}
	for _, path := range []string{f.json, f.plot} {
		if path == "" || path == "-" {
			continue
		}
		if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
			return usagef("choose a file that can be written", "%s: there is no folder %s", path, filepath.Dir(path))
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return usagef("choose a file that can be written", "%s: it is a folder", path)
		}
	}
	return nil
}

// chosen returns the methods of --methods.
func (f *benchFlags) chosen() ([]search.Method, error) {
	if len(f.methods) == 0 {
		return search.Methods(), nil
	}
	var chosen []search.Method
	for _, name := range unique(f.methods) {
		if !slices.Contains(search.Methods(), search.Method(name)) {
			return nil, usagef(fmt.Sprintf("choose among %v", search.Methods()), "method %q is unknown", name)
		}
		chosen = append(chosen, search.Method(name))
	}
	return chosen, nil
}

// prices loads the cost models that the flags name.
func (a *app) prices(f *benchFlags) (neuroshard.Prices, error) {
	own, nets := f.model != "", []string{f.compute, f.forward, f.backward}
	named := len(nets) - len(slices.DeleteFunc(slices.Clone(nets), func(s string) bool { return s != "" }))
	switch {
	case named > 0 && own:
		return nil, usagef("", "bench: --model is one of our cost models, the other three are the prototype's: give one kind")
	case named > 0 && named < len(nets):
		return nil, usagef("", "bench: the prototype's nets come in threes: --compute-model, --forward-model and --backward-model")
	case named > 0:
		return a.prototypePrices(f)
	case own:
		model, err := a.loadModel(f.model)
		if err != nil {
			return nil, err
		}
		return neuroshard.Trained(model, f.riskPenalty), checkRiskPenalty(f.riskPenalty, model)
	}
	if err := checkRiskPenalty(f.riskPenalty, nil); err != nil {
		return nil, err
	}
	return neuroshard.Pretrained(), nil
}

func (a *app) prototypePrices(f *benchFlags) (neuroshard.Prices, error) {
	var files [3]prototype.File
	var errs []error
	for i, path := range []string{f.compute, f.forward, f.backward} {
		name, r, err := a.open(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		defer r.Close()
		files[i] = prototype.File{Name: name, Reader: r}
	}
	if len(errs) > 0 {
		return nil, input.Join(errs...)
	}
	models, err := prototype.Load(files[0], files[1], files[2])
	return neuroshard.Prototype(models), bad(err, "the files are the prototype's checkpoints, or their JSON form")
}

// loadModel loads a cost model from a folder.
func (a *app) loadModel(folder string) (*cost.Model, error) {
	file, err := modelfile.Read(os.DirFS(folder), ".")
	if err != nil {
		return nil, bad(fmt.Errorf("model %s: %w", folder, err), "make one with: neuroshard train")
	}
	model, err := cost.Load(file)
	return model, bad(err, "make it again with: neuroshard train")
}

// suite returns the tasks that the flags ask for.
func (a *app) suite(f *benchFlags, hw hardware.Profile) ([]bench.Task, error) {
	switch {
	case len(f.workloads) > 0:
		return f.workloadTasks()
	case len(f.score) > 0 && len(f.tasks) == 0 && f.tables != "":
		return a.planTask(f)
	case len(f.tasks) > 0 || f.tables != "":
		return a.readTasks(f, hw)
	}
	if f.count < 1 || f.count > bench.MaxTasks {
		return nil, usagef("", "bench: --count %d is not between 1 and %d", f.count, bench.MaxTasks)
	}
	if f.own != nil {
		tasks, err := bench.OwnTasks(hw, f.own.Manifest().Domain, ownDevices, f.count, f.seed)
		return tasks, bad(err, "")
	}
	if f.stress {
		tasks, err := bench.StressTasks(hw, f.count, f.seed)
		return tasks, bad(err, "")
	}
	return bench.PaperTasks(hw, f.count, f.seed)
}

// workloadTasks returns the workloads of --workloads on the clusters of --clusters.
func (f *benchFlags) workloadTasks() ([]bench.Task, error) {
	var names []string
	for _, name := range f.workloads {
		if name == allWorkloads {
			names = append(names, workload.Names()...)
			continue
		}
		w, err := workload.ByName(name)
		if err != nil {
			return nil, bad(err, "list them with: neuroshard workloads")
		}
		names = append(names, w.Name)
	}
	tasks, err := bench.WorkloadTasks(unique(names), unique(f.clusters))
	return tasks, bad(err, "list kinds of devices with: neuroshard devices")
}

func (a *app) readTasks(f *benchFlags, hw hardware.Profile) ([]bench.Task, error) {
	if f.tables == "" || len(f.tasks) == 0 {
		return nil, usagef("tasks name tables of a file by number", "bench: --tasks and --tables go together")
	}
	name, r, err := a.open(f.tables)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	tables, err := unzipped(name, r)
	if err != nil {
		return nil, bad(err, "")
	}
	pool, err := input.Tables(name, tables, input.Options{DefaultDim: workload.PoolDim})
	if err != nil {
		return nil, err
	}
	var all []bench.Task
	for i, path := range f.tasks {
		for _, other := range f.tasks[:i] {
			if settingOf(path) == settingOf(other) {
				return nil, usagef("give one of them another name", "bench: %s and %s are both the setting %q", other, path, settingOf(path))
			}
		}
		name, r, err := a.open(path)
		if err != nil {
			return nil, err
		}
		file, err := prototype.ReadTasks(name, r)
		_ = r.Close()
		if err != nil {
			return nil, bad(err, "")
		}
		devices, memory := firstOf(f.devices, file.Devices, 4), unit.Bytes(f.memory)
		if file.MemoryGiB > 0 && !f.cmd.Flags().Changed("memory") {
			memory = unit.Bytes(file.MemoryGiB * float64(unit.GiB))
		}
		tasks, err := bench.FileTasks(settingOf(path), file, pool.Tables, hw, devices, memory)
		if err != nil {
			return nil, bad(fmt.Errorf("%s: %w", path, err), "")
		}
		all = append(all, tasks...)
	}
	return all, nil
}

// unzipped returns what a file holds, gzipped or not.
func unzipped(name string, r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(r)
	if magic, _ := buffered.Peek(2); string(magic) != "\x1f\x8b" {
		return buffered, nil
	}
	z, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return z, nil
}

// unique returns the names in order, each once.
func unique(names []string) []string {
	var once []string
	for _, name := range names {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	return once
}

// settingOf names a setting after the file of its tasks.
func settingOf(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// compare runs the comparison, kept in a journal if there is a file for it.
func (a *app) compare(ctx context.Context, f *benchFlags, tasks []bench.Task, opt bench.Options) error {
	bar := a.newProgressBar()
	defer bar.clear()
	var journal *bench.Journal
	if f.json != "" && f.json != "-" {
		var err error
		if journal, opt.Known, err = bench.OpenJournal(f.json, tasks, opt); err != nil {
			return bad(err, "choose a file that can be written")
		}
		defer journal.Close()
	}
	opt.OnRecord = func(r bench.Record, done, of int) error {
		bar.at(done, of, "planning")
		if journal == nil {
			return nil
		}
		return bad(journal.Add(r), "choose a file that can be written")
	}
	records, err := bench.Run(ctx, tasks, opt)
	if errors.Is(err, context.Canceled) && journal != nil {
		return &exitError{exitInterrupted, fmt.Errorf("interrupted: %d of %d records are in %s.partial", len(records), len(tasks)*len(opt.Methods), f.json), "give the same command again to go on"}
	}
	if err != nil {
		return err
	}
	bar.clear()
	if journal != nil {
		if err := journal.Finish(records); err != nil {
			return bad(err, "choose a file that can be written")
		}
	}
	return a.sumUp(f, opt, records)
}

// score prices given plans.
func (a *app) score(ctx context.Context, f *benchFlags, tasks []bench.Task, opt bench.Options) error {
	var given []bench.Given
	for _, path := range f.score {
		plans, err := a.given(path, tasks)
		if err != nil {
			return err
		}
		given = append(given, plans...)
	}
	records, err := bench.Score(ctx, tasks, given, opt)
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		return bad(err, "give the tasks that the plans were made for")
	}
	if f.json != "" && f.json != "-" {
		if err := bench.WriteResults(f.json, records, opt); err != nil {
			return bad(err, "choose a file that can be written")
		}
	}
	return a.sumUp(f, opt, records)
}

// given reads plans: results of ours, or of the prototype. Where its records
// state no setting, it is the longest that begins the file's name, or else the
// first.
func (a *app) given(path string, tasks []bench.Task) ([]bench.Given, error) {
	name, r, err := a.open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, mostGiven+1))
	if err != nil {
		return nil, unreadable(path, err)
	}
	if isPlan(data) {
		return givenPlan(name, data, tasks)
	}
	if text := strings.TrimLeft(string(data[:min(len(data), 64)]), " \t\r\n"); strings.HasPrefix(text, "{") {
		results, err := bench.ReadResults(name, strings.NewReader(string(data)))
		if err != nil {
			return nil, bad(err, "")
		}
		return bench.GivenResults(results), nil
	}
	results, err := prototype.ReadResults(name, strings.NewReader(string(data)))
	if err != nil {
		return nil, bad(err, "")
	}
	setting := ""
	for _, t := range tasks {
		if strings.HasPrefix(filepath.Base(path), t.Setting) && len(t.Setting) > len(setting) {
			setting = t.Setting
		}
	}
	return bench.GivenPrototype(cmp.Or(setting, tasks[0].Setting), results), nil
}

// sumUp prints the summary, or all as JSON, and draws the plot.
func (a *app) sumUp(f *benchFlags, opt bench.Options, records []bench.Record) error {
	summary := bench.Summarise(records)
	if f.plot != "" {
		if err := bench.SavePlot(f.plot, summary); err != nil {
			return bad(err, "choose a file that can be written")
		}
	}
	if f.json == "-" {
		return bad(a.printJSON(bench.NewResults(records, opt)), "")
	}
	gains := bench.NewGains(records)
	if len(f.workloads) > 0 && gains != nil {
		if err := report.Gains(a.stdout, gains, a.reportOptions()); err != nil {
			return bad(err, "")
		}
	} else if err := report.Comparison(a.stdout, summary, a.reportOptions()); err != nil {
		return bad(err, "")
	}
	if verified := bench.Verified(records); verified != nil {
		return bad(report.Verified(a.stdout, verified, a.reportOptions()), "")
	}
	return nil
}

// rank judges how the cost model orders plans.
func (a *app) rank(ctx context.Context, f *benchFlags, hw hardware.Profile) error {
	prices := neuroshard.Pretrained()
	if f.model != "" {
		model, err := a.loadModel(f.model)
		if err != nil {
			return err
		}
		prices = neuroshard.Trained(model, 0)
		if made := model.Manifest().Profile; made != hw.Name {
			return usagef("add --device "+made, "bench: model %s predicts for %s, not for %s", f.model, made, hw.Name)
		}
	}
	bar := a.newProgressBar()
	defer bar.clear()
	bar.phase("ranking plans")
	all, err := bench.Rank(ctx, hw, prices, bench.RankingTasks, f.seed)
	if err != nil {
		return err
	}
	bar.clear()
	if f.json != "" {
		text, err := json.MarshalIndent(all, "", "  ")
		if err != nil {
			return err
		}
		if f.json == "-" {
			return bad(a.printJSON(all), "")
		}
		if err := os.WriteFile(f.json, append(text, '\n'), 0o666); err != nil {
			return bad(err, "choose a file that can be written")
		}
	}
	return bad(report.Rankings(a.stdout, all, a.reportOptions()), "")
}
