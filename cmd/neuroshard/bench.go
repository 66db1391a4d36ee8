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
	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/internal/manual"
	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/reinforce"
	"github.com/neuroshard/neuroshard/lab/verify"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/search"
)

// bench.go holds what the commands below bench share; each of them has a file of its
// own.

func newBenchCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench SUITE",
		Short: "Compare planning methods over suites of tasks",
		Long: `bench plans each task of a suite with each method, validates every plan, estimates
its cost, and sums up by setting: tasks solved, mean and median cost, the mean over
the tasks that all methods solve, the mean ratio to the cost of the paper's search,
the bias of the predicted cost, and the time to find a plan on one thread.

Plans are found with the cost models inside this binary, or with --model, and judged
by the simulated device. With --backend plans are run, and judged by measured cost.

--budgets gives each method several budgets of time, and compares cost against time. A
cost is then divided by the least cost that any method reached with any budget, and
predicted compares the costs that the methods minimise. A policy draws placements until
its budget ends. The wall time is that of the whole line, from tables to a validated plan
with its costs: a method looks at the clock between its steps. With --set threads=1 there is
also the processor time, and the budgets are of processor time, so that other programs on
the machine change the result less.

annealing adds simulated annealing from a simple placement, with the changes of the
default method: one run that cools down, and under a budget runs of twice the length each.

--json FILE keeps every record: task, method, costs, time, devices and plan. If a run
is stopped, the same command continues it.`,
		Example: `  neuroshard lab bench tasks --count 20 --json out.json --plot out.svg
  neuroshard lab bench workloads --json workloads.json`,
		Args: rootArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newBenchTasksCommand(a),
		newBenchWorkloadsCommand(a),
		newBenchPlansCommand(a),
	)
	return cmd
}

// benchFlags are the flags that several suites share.
type benchFlags struct {
	name string
	cmd  *cobra.Command

	model    string
	nets     prototypeNets
	penalty  float64
	methods  []string
	policies []string
	// reference is the method that the others are compared with.
	reference string
	score     []string
	workers   int
	seed      uint64

	json, plot string

	backend   backendFlags
	runs      int
	finalists int

	// timeLimit and certificate are those of bench.Options; gains prints gains over the
	// other methods instead of costs by setting.
	timeLimit          time.Duration
	certificate, gains bool
	// budgets, if not nil, are compared as cost against time, of predicted costs if predicted is true.
	budgets              []time.Duration
	predicted, annealing bool
}

// register adds the flags that all suites have.
func (f *benchFlags) register(cmd *cobra.Command) {
	f.cmd, f.name = cmd, "bench "+cmd.Name()
	flags := cmd.Flags()
	inSection := manual.Section(flags, benchSection)
	flags.StringVar(&f.model, "model", "", "`folder` of a cost model to plan with, as lab train writes it (default: those inside this binary)")
	flags.IntVar(&f.workers, "threads", 0, "tasks planned at a time (default: all processors)")
	flags.StringVar(&f.json, "json", "", "`file` to write records and summary to; - prints them")
	flags.StringVar(&f.plot, "plot", "", "`file` to draw the summary to, as SVG")
	flags.IntVar(&f.runs, "runs", 3, "runs of each plan on the backend; its cost is their median")
	inSection()
	f.backend.inTurns = true
	f.backend.register(cmd)
}

// registerSearch adds the flags of suites whose plans are searched.
func (f *benchFlags) registerSearch(cmd *cobra.Command) {
	flags := cmd.Flags()
	defer manual.Section(flags, benchSection)()
	flags.Float64Var(&f.penalty, "risk-penalty", 0, riskPenaltyUsage)
	flags.IntVar(&f.finalists, "measure", 0, "compare as well, as "+string(bench.OfMeasured)+", the plans that plan measure keeps of this number of `finalists`, each of runs runs on --backend")
	flags.StringSliceVar(&f.methods, "methods", nil, "`methods` to compare, separated by commas (default: all)")
	flags.StringArrayVar(&f.policies, "policy", nil, "`folder` of a policy to compare as well, as lab train-policy writes it; may be repeated")
	flags.StringVar(&f.reference, "reference", string(search.Paper), "`method` that the ratios of costs are to")
	flags.DurationSliceVar(&f.budgets, "budgets", nil, "`times` to search for a plan, separated by commas: compare cost against time")
	flags.BoolVar(&f.predicted, "predicted", false, "with --budgets, compare predicted costs")
	flags.BoolVar(&f.annealing, "annealing", false, "compare simulated annealing from a simple placement as well")
	flags.StringSliceVar(&f.score, "score", nil, "estimate the cost of the plans in these `files` instead of searching")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the tasks and of the searches")
	complete(cmd, "methods", methods)
}

// device returns the profile that --gpu names or, if the flag is not given, that of
// the model if no built-in profile has its name. The model is nil without --model.
func (f *benchFlags) device(a *app, name string) (hardware.Profile, *cost.Model, error) {
	var model *cost.Model
	if f.model != "" {
		var err error
		if model, err = a.loadModel(f.model); err != nil {
			return hardware.Profile{}, nil, err
		}
		if hw := model.Hardware(); !f.cmd.Flags().Changed("gpu") && !hardware.Known(hw.Name) {
			return hw, model, nil
		}
	}
	hw, err := hardware.ByName(name)
	return hw, model, bad(err, "list the profiles with: neuroshard list devices")
}

// check reports flags that are wrong or do not go together.
func (f *benchFlags) check() error {
	var all faults
	all = append(all, f.alone("score", "methods", "policy", "time-limit", "budgets", "annealing"), f.alone("budgets", "reference", "measure"))
	for _, budget := range f.budgets {
		all.add(budget <= 0, "", "%s: --budgets: %v is not above 0", f.name, budget)
	}
	all.add(f.predicted && f.budgets == nil, "add --budgets 10ms,1s", "%s: predicted is of comparisons with --budgets", f.name)
	if flag := f.cmd.Flags().Lookup("measure"); flag != nil && flag.Changed {
		all.add(f.finalists < 2 || f.finalists > mostFinalists, "leave the flag out to compare no such plans", "%s: measure: %d finalists are not between 2 and %d", f.name, f.finalists, mostFinalists)
		all.add(f.backend.name == "", "add --backend cpu, worker or simulated", "%s: measure: a backend that runs the finalists is missing", f.name)
		all.add(f.runs < verify.LeastRounds || f.runs > mostRuns, "state a number in this range, such as --set runs=12; a test of fewer cannot tell finalists apart", "%s: measure: runs %d is not between %d and %d", f.name, f.runs, verify.LeastRounds, mostRuns)
		all.add(len(f.score) > 0, "leave one of them out", "%s: measure: score makes no plans of finalists", f.name)
	}
	all = append(all, asInput(f.backend.unused(f.name, "runs")))
	all.add(f.backend.name != "" && (f.runs < 1 || f.runs > mostRuns), "", "%s: runs %d is not between 1 and %d", f.name, f.runs, mostRuns)
	return all.err(asInput(checkWritable(f.json)), asInput(checkWritable(f.plot)))
}

// alone refuses a flag together with any of the others.
func (f *benchFlags) alone(flag string, others ...string) error {
	var all faults
	for _, other := range others {
		set := f.cmd.Flags()
		all.add(set.Changed(flag) && set.Changed(other), "leave one of them out", "%s: %s and %s do not go together", f.name, keyOf(flag), keyOf(other))
	}
	return all.err()
}

// checkWritable refuses a file of results whose folder does not exist, or that is a folder.
// Standard output and no file are fine.
func checkWritable(path string) error {
	if toStandardOutput(path) {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return usagef("choose a file that can be written", "%s: there is no folder %s", path, filepath.Dir(path))
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return usagef("choose a file that can be written", "%s: it is a folder", path)
	}
	return nil
}

// options returns what the flags say of the comparison, without its judge.
func (f *benchFlags) options(prices neuroshard.Prices) (bench.Options, error) {
	opt := bench.Options{Prices: prices, Methods: search.Untrained(), Workers: f.workers, Seed: f.seed, TimeLimit: f.timeLimit, Certificate: f.certificate}
	if len(f.methods) == 0 {
		return opt, nil
	}
	opt.Methods = nil
	for _, name := range unique(f.methods) {
		if search.Method(name).Learned() {
			return opt, usagef("compare a trained policy: --set policy=FOLDER", "method %q needs a policy", name)
		}
		if !slices.Contains(search.Methods(), search.Method(name)) {
			return opt, usagef(fmt.Sprintf("choose among %v", search.Untrained()), "method %q is unknown", name)
		}
		opt.Methods = append(opt.Methods, search.Method(name))
	}
	return opt, nil
}

// prices returns the prices of the prototype's nets if a flag names them, or else of our
// cost models: of the given one or, if it is nil, of those inside the binary.
func (f *benchFlags) prices(a *app, model *cost.Model) (neuroshard.Prices, error) {
	if f.nets.given() && model != nil {
		return nil, usagef("", "%s: --model is one of our cost models, the other three are the prototype's: give one or the other", f.name)
	}
	if err := checkRiskPenalty(f.penalty, model); err != nil {
		return nil, err
	}
	switch {
	case f.nets.given():
		return f.nets.load(a, f.name)
	case model != nil:
		return neuroshard.Trained(model, f.penalty), nil
	}
	return neuroshard.Pretrained(), nil
}

// run compares the methods, or estimates given plans, over the tasks, and prints the
// result. profile is the device to measure on if --gpu does not name one.
func (f *benchFlags) run(ctx context.Context, a *app, tasks []bench.Task, prices neuroshard.Prices, profile string) error {
	if err := bench.Check(tasks, prices); err != nil {
		return bad(err, "choose tasks that the models are for: "+f.clusterFlags())
	}
	opt, err := f.options(prices)
	if err != nil {
		return err
	}
	if err := f.compete(tasks, &opt); err != nil {
		return err
	}
	if f.backend.name != "" {
		end, err := f.judge(ctx, a, &opt, profile)
		if err != nil {
			return err
		}
		defer end()
	}
	run := f.compare
	if len(f.score) > 0 {
		run = f.estimate
	}
	records, err := run(ctx, a, tasks, opt)
	if err != nil {
		return err
	}
	return f.print(a, opt, records)
}

// compete sets the contenders and the reference of a comparison.
func (f *benchFlags) compete(tasks []bench.Task, opt *bench.Options) error {
	if f.budgets != nil {
		opt.Budgets, opt.Predicted, opt.Processor = unique(f.budgets), f.predicted, processorSeconds
		opt.TimeLimit, opt.Certificate = 0, false
	}
	if f.annealing {
		opt.Contenders = append(opt.Contenders, bench.Annealing())
	}
	if f.finalists > 0 {
		opt.Contenders = append(opt.Contenders, bench.Measuring(f.finalists))
	}
	var err error
	if opt.Contenders, err = f.learnt(tasks, opt.Contenders); err != nil {
		return err
	}
	opt.Reference = search.Method(f.reference)
	flag := f.cmd.Flags().Lookup("reference")
	compared := slices.Contains(opt.Methods, opt.Reference) ||
		slices.ContainsFunc(opt.Contenders, func(c bench.Contender) bool { return c.Name == opt.Reference })
	if flag != nil && flag.Changed && !compared && len(f.score) == 0 {
		return usagef("name one of the methods that are compared", "%s: reference %q is not among them", f.name, f.reference)
	}
	return nil
}

// learnt adds the policies of policy, each named after its method and seed, and after each
// policy of DreamShard its control, which places greedily on the same cost net.
func (f *benchFlags) learnt(tasks []bench.Task, all []bench.Contender) ([]bench.Contender, error) {
	for _, folder := range unique(cleaned(f.policies)) {
		trained, manifest, err := loadPolicy(folder)
		if err != nil {
			return nil, err
		}
		for i := range tasks {
			if err := reinforce.Fits(manifest, &tasks[i].Problem); err != nil {
				return nil, bad(fmt.Errorf("policy %s: task %s: %w", folder, tasks[i].Name, err), "choose tasks that the policy is for: "+f.clusterFlags())
			}
		}
		of := func(name string, p search.Policy) bench.Contender {
			c := bench.Contender{
				Name:   search.Method(fmt.Sprintf("%s s%d", name, manifest.Card.Seed)),
				Search: search.Options{Method: search.Method(manifest.Method), Policy: p},
				Policy: manifest.ID, Training: time.Duration(manifest.CPUSeconds * float64(time.Second)),
			}
			taken := func(other bench.Contender) bool { return other.Name == c.Name }
			if slices.ContainsFunc(all, taken) {
				c.Name += search.Method(" " + filepath.Base(folder))
			}
			if slices.ContainsFunc(all, taken) {
				c.Name += search.Method(" of " + filepath.Dir(folder))
			}
			return c
		}
		all = append(all, of(manifest.Method, trained))
		if control, ok := reinforce.Control(trained); ok {
			all = append(all, of("greedy-on-net", control))
		}
	}
	return all, nil
}

// clusterFlags names the flags of the suite that choose the cluster.
func (f *benchFlags) clusterFlags() string {
	var names []string
	for _, name := range []string{"task-devices", "clusters"} {
		if f.cmd.Flags().Lookup(name) != nil {
			names = append(names, keyOf(name))
		}
	}
	return "see " + strings.Join(names, " and ")
}

// judge starts the backend that plans are measured on, and has the comparison use it.
// The caller calls end after the comparison.
func (f *benchFlags) judge(ctx context.Context, a *app, opt *bench.Options, profile string) (end func(), err error) {
	if f.backend.profile == "" {
		f.backend.profile = profile
	}
	if err := f.backend.check(f.name); err != nil {
		return nil, err
	}
	backend, err := f.backend.start(ctx, false, a.stderr)
	if err != nil {
		return nil, err
	}
	measuring := verify.Options{Repeats: f.runs, Fastest: f.backend.fastest, Seed: f.seed}
	by := backend.Provenance()
	opt.MeasuredBy = fmt.Sprintf("%s, %s, %s of each plan", by.Backend, by.Profile, words.Plural(f.runs, "run"))
	if by.Device != "" {
		opt.MeasuredBy = fmt.Sprintf("%s, %s (%s), %s of each plan", by.Backend, by.Device, by.Kernel, words.Plural(f.runs, "run"))
	}
	if by.Source != dataset.Simulated && collect.CommSimulated(backend) {
		fmt.Fprintln(a.stderr, "neuroshard: the all-to-alls of these plans are SIMULATED, not measured")
	}
	opt.Measure = func(ctx context.Context, p *problem.Problem, plans []verify.Placement) ([]verify.Turn, error) {
		turns, err := verify.InTurns(ctx, p, plans, backend, measuring)
		return turns, f.failed(ctx, measured(turns, err))
	}
	opt.Choose = func(ctx context.Context, p *problem.Problem, finalists []neuroshard.Finalist) (*neuroshard.Measured, error) {
		chosen, err := verify.Choose(ctx, p, finalists, backend, measuring)
		return chosen, f.failed(ctx, err)
	}
	return func() { _ = backend.Close() }, nil
}

// measured returns the error of plans that were run in turns: err, or that of a plan that was not
// run whole.
func measured(turns []verify.Turn, err error) error {
	for _, t := range turns {
		switch {
		case t.Err != nil:
			return t.Err
		case !t.Result.CommMeasured:
			return &verify.NoExchanges{Reason: t.Result.CommMissing}
		}
	}
	return err
}

// failed adds a hint to the error of a measurement.
func (f *benchFlags) failed(ctx context.Context, err error) error {
	_, exchanges := errors.AsType[*verify.NoExchanges](err)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case exchanges:
		return usagef(noExchanges, "%w", err)
	}
	return bad(err, measuringHint(err)+"; with --json the same command continues from here")
}

// compare runs the comparison. If its results go to a file, records are kept there
// while it runs.
func (f *benchFlags) compare(ctx context.Context, a *app, tasks []bench.Task, opt bench.Options) ([]bench.Record, error) {
	bar := a.newProgressBar()
	defer bar.clear()
	opt.OnRecord = func(_ bench.Record, done, of int) error {
		bar.at(done, of, "planning")
		return nil
	}
	if f.json == "" || f.json == "-" {
		return bench.Run(ctx, tasks, opt)
	}
	records, err := bench.Keep(ctx, f.json, tasks, opt)
	if errors.Is(err, context.Canceled) {
		return nil, &exitError{exitInterrupted, fmt.Errorf("interrupted: %d of %d records are in %s.partial", len(records), len(tasks)*(len(opt.Methods)+len(opt.Contenders)), f.json), "give the same command again to continue"}
	}
	return records, ofFile(err)
}

// estimate estimates the costs of the plans in the files of score.
func (f *benchFlags) estimate(ctx context.Context, a *app, tasks []bench.Task, opt bench.Options) ([]bench.Record, error) {
	var given []bench.Given
	for _, path := range f.score {
		name, r, err := a.open(path)
		if err != nil {
			return nil, err
		}
		plans, err := bench.ReadGiven(name, r, tasks)
		_ = r.Close()
		if err != nil {
			return nil, bad(err, "plans are written by: neuroshard plan TABLES -o plan.json, and by: neuroshard lab bench --json")
		}
		given = append(given, plans...)
	}
	records, err := bench.Score(ctx, tasks, given, opt)
	if ctx.Err() != nil {
		return nil, err
	}
	if err != nil {
		return nil, bad(err, "give the tasks that the plans were made for")
	}
	if f.json == "" || f.json == "-" {
		return records, nil
	}
	return records, bad(bench.WriteResults(f.json, records, opt), "choose a file that can be written")
}

// print prints the summary, or everything as JSON, and draws the plot.
func (f *benchFlags) print(a *app, opt bench.Options, records []bench.Record) error {
	results := bench.NewResults(records, opt)
	if f.plot != "" {
		if err := bench.SavePlot(f.plot, results); err != nil {
			return bad(err, "choose a file that can be written")
		}
	}
	if f.json == "-" {
		return bad(a.printJSON(results), "")
	}
	if f.budgets != nil {
		if err := report.Curves(a.stdout, results.Curves, a.reportOptions()); err != nil {
			return bad(err, "")
		}
	} else if gains := bench.NewGains(records); f.gains && gains != nil {
		if err := report.Gains(a.stdout, gains, a.reportOptions()); err != nil {
			return bad(err, "")
		}
	} else if err := report.Comparison(a.stdout, results.Summary, a.reportOptions()); err != nil {
		return bad(err, "")
	}
	if err := report.Trained(a.stdout, results.Policies, a.reportOptions()); err != nil {
		return bad(err, "")
	}
	if verified := results.Verified; verified != nil {
		return bad(report.Verified(a.stdout, verified, a.reportOptions()), "")
	}
	return nil
}

// cleaned returns the paths as filepath.Clean writes them.
func cleaned(paths []string) []string {
	clean := make([]string, len(paths))
	for i, path := range paths {
		clean[i] = filepath.Clean(path)
	}
	return clean
}

// unique returns the names, or other values, in order, each once.
func unique[T comparable](names []T) []T {
	var once []T
	for _, name := range names {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	return once
}
