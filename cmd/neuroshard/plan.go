package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/internal/manual"
	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/reinforce"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

func newPlanCommand(a *app) *cobra.Command {
	p := planCommand{app: a, method: methodFlag(search.Default), types: problem.ShardingTypes()}
	cmd := &cobra.Command{
		Use:   "plan TABLES",
		Short: "Find a plan: how the tables are split and which device holds which part",
		Long: `Find a plan: how the tables are split and which device holds which part.

TABLES is a file of tables (JSON, CSV, or the prototype's table_configs.json), a
scenario (JSON in TorchRec's words), "-" for standard input, or workload:NAME for
a known model (neuroshard list workloads), which has a default cluster.

Ctrl-C ends the search: the best plan found until then is written and marked as
interrupted, with exit code 3.`,
		Example: `  neuroshard plan workload:mlperf-dlrm-dcnv2
  neuroshard plan tables.json --hosts 2 --gpu a100-80 -o plan.json
  neuroshard plan tables.csv --cluster cluster.yaml --json`,
		Args:              exactArgs("TABLES"),
		ValidArgsFunction: completeTables(0),
		RunE:              func(cmd *cobra.Command, args []string) error { return p.run(cmd.Context(), args[0]) },
	}
	p.given = cmd.Flags().Changed
	f := cmd.Flags()
	p.cluster.register(cmd)
	p.cluster.maxTables = neuroshard.MaxPlanned
	p.cluster.step.register(cmd, &p.cluster)
	inSection := manual.Section(f, searchSection)
	f.Var(&p.method, "method", "search `method`: "+strings.Join(methods(), ", "))
	f.Var(&p.types, "types", "`types` of sharding that tables may have, separated by commas: "+strings.Join(shardingTypeNames(), ", ")+"; or all (needs method neuroshard); with a model of measured samples, and with measure, the default is table_wise,column_wise")
	f.Uint64Var(&p.search.Seed, "seed", 0, "seed of the random numbers in the search")
	f.IntVar(&p.search.Workers, "threads", 0, "threads; they do not change the plan (default: all cores)")
	f.IntVar(&p.search.Steps, "beam-steps", 0, "most steps of method paper; each step splits one more shard (default: 10)")
	f.IntVar(&p.search.Beam, "beam-width", 0, "sets of splits that survive a step of method paper (default: 3)")
	f.IntVar(&p.search.Candidates, "beam-candidates", 0, "number of the largest shards, and of the most expensive ones, that a step of method paper tries to split (default: 10)")
	f.IntVar(&p.search.Grid, "beam-grid", 0, "limits on dim sums that method paper tries (default: 11)")
	f.Int64Var(&p.search.MaxEvaluations, "max-evaluations", 0, "cost estimates after which the search ends with status budget; 0 takes a number that grows with the problem")
	f.DurationVar(&p.search.Budget, "budget", 0, "`time` to search, such as 1s: the plan is refined until then (default: a fixed amount of work)")
	f.StringVar(&p.model, "model", "", modelUsage+" (default: the model that ships for the profile)")
	p.deviceFlag(cmd, &p.model)
	f.StringVar(&p.policy, "policy", "", "`folder` of the policy that method dreamshard or autoshard places tables with, as lab train-policy writes it")
	f.IntVar(&p.search.Samples, "rollouts", 0, "drawn rollouts of the policy, beside the greedy one; the cheapest plan of all is taken")
	f.Float64Var(&p.riskPenalty, "risk-penalty", 0, riskPenaltyUsage)
	f.BoolVar(&p.baselines, "baselines", true, "compare with plans of the baseline methods; with --engine, also with a plan without the engine's rules")
	f.BoolVar(&p.certificate, "certificate", true, "compute the lower bound on the cost of every plan; on small problems this takes most of the time")
	f.StringArrayVar(&p.compared.given, "compare-plan", nil, "`NAME=FILE`: list a plan that another planner made among the baselines, under this name; FILE is a plan file, as convert --from writes it, or what plan --json prints; may be repeated")
	inSection()
	p.measure.register(cmd)
	f.BoolVar(&p.json, "json", false, "print one JSON object")
	f.BoolVar(&p.tables, "all-tables", false, "list every table as well, on a line of its own, with the cheapest other place for it")
	cmd.MarkFlagsMutuallyExclusive("json", "all-tables")
	f.BoolVar(&p.allDevices, "full", false, "report everything, on every device")
	cmd.MarkFlagsMutuallyExclusive("json", "full")
	f.StringVar(&p.from, "from", "", "an old `plan` to begin from: bytes move only where that pays; the command replan says more")
	f.StringVarP(&p.output, "output", "o", "", "write the plan to this `file`; - is standard output, in place of the report")
	complete(cmd, "method", methods)
	completeList(cmd, "types", func() []string { return append([]string{allShardingTypes}, shardingTypeNames()...) })
	completeModel(cmd)
	return cmd
}

type planCommand struct {
	*app
	cluster     clusterFlags
	method      methodFlag
	types       shardingTypesFlag
	given       func(flag string) bool
	search      search.Options
	baselines   bool
	certificate bool
	json        bool
	allDevices  bool
	tables      bool
	output      string
	model       string
	policy      string
	from        string
	compared    comparedPlans
	measure     measureFlags
	riskPenalty float64
	// chosen and allowed are the prices and the sharding types that the search goes by.
	chosen  neuroshard.Prices
	allowed []problem.ShardingType
}

func (p *planCommand) run(ctx context.Context, source string) error {
	start := p.env.now()
	var model *cost.Model
	if formulasOf(p.model) == nil {
		var err error
		// An error ends here: the model could supply what seems to be missing.
		if model, err = p.givenModel(p.model); err != nil {
			return err
		}
		p.cluster.setModel(model)
	}
	old, oldErr := p.oldPlan()
	p.cluster.planned = old
	parts := readParts(p.app, source, &p.cluster)
	loaded, err := p.compose(parts)
	if err := input.Join(p.check(), err, oldErr, p.compared.load(p.app)); err != nil {
		return err
	}
	if err := p.compared.check(loaded.problem); err != nil {
		return err
	}
	if err := p.checkTypes(loaded.problem); err != nil {
		return err
	}
	if err := p.checkOutput(p.output, append([]string{source, p.cluster.topology, p.model, p.policy, p.from}, p.compared.files...)...); err != nil {
		return err
	}
	if in := loaded.step; in != nil && in.Measured.Step > 0 && in.Measured.Shards == nil {
		loaded.warnings = append(loaded.warnings, fmt.Sprintf("the measured step of %v is taken to be one of the plan found here: name the plan that it was measured with, with step_plan", in.Measured.Step))
	}
	defer saveMemory(p.env, len(loaded.problem.Tables), loaded.problem.Topology.Devices)()
	prices, err := p.prices(model, loaded.problem.Topology)
	if err != nil {
		return err
	}
	if err := p.learn(&loaded); err != nil {
		return err
	}
	bar := p.newProgressBar()
	defer bar.clear()
	options := neuroshard.Options{Search: p.search, Prices: prices, Warnings: loaded.warnings, Step: loaded.step}
	measure, end, err := startMeasure(ctx, p, &loaded, bar)
	if err != nil {
		return err
	}
	defer end()
	progress := newPlanProgress(p.app, bar)
	options.Search.Method, options.Search.OnEvent, options.OnStep = search.Method(p.method), progress.event, progress.next
	options.Search.ShardingTypes = p.types.options()
	if (p.measure.on() || model != nil && model.Manifest().Source != string(dataset.Simulated)) && !p.given("types") {
		options.Search.ShardingTypes = search.Columns() // no backend measures the others
	}
	p.chosen, p.allowed = prices, options.Search.ShardingTypes
	f, err := p.planned(ctx, parts, &loaded, old, measure, options)
	if err == nil {
		err = p.complete(ctx, f, measure, old)
	}
	bar.clear()
	if err != nil {
		return p.failed(stepError(err))
	}
	return p.print(f, source, start)
}

// planFound is a plan with what it was made from.
type planFound struct {
	*neuroshard.Result
	planner *neuroshard.Planner
	problem *problem.Problem
	// from is the re-plan that the plan comes from; nil without an old plan.
	from *replan.Outcome
}

// checkTypes refuses stated sharding types that the search would leave out.
func (p *planCommand) checkTypes(of *problem.Problem) error {
	if of.Accounting != problem.CountWeights || !p.given("types") || !slices.ContainsFunc(p.types, problem.ShardingType.Joint) {
		return nil
	}
	return faulty("--types: where only weights count as memory, as in the workloads paper-*, tables are whole or cut by columns only", "leave --types out, or state table_wise,column_wise")
}

// compose composes the problem; with replicas auto that of one sharding group.
func (p *planCommand) compose(parts input.Parts) (loaded, error) {
	if !p.cluster.autoReplicas {
		return composeProblem(p.app, parts, &p.cluster)
	}
	l, err := composeProblem(p.app, parts, p.cluster.inGroups(1))
	text := p.cluster.stated["sync_every"]
	if n, wrong := strconv.Atoi(text); text != "" && (wrong != nil || n < 1 || n > hardware.MaxSyncEvery) {
		err = input.Join(err, faulty(fmt.Sprintf("sync_every: %s steps are not between 1 and %d", text, hardware.MaxSyncEvery), "state the steps from one all-reduce of the replicas to the next"))
	}
	return l, err
}

// planned plans for the stated number of sharding groups, or for the best one, or from the old plan.
func (p *planCommand) planned(ctx context.Context, parts input.Parts, l *loaded, old *plan.Plan, measure *neuroshard.Measure, options neuroshard.Options) (f *planFound, err error) {
	f = &planFound{problem: l.problem}
	switch {
	case p.cluster.autoReplicas:
		problems, untried := p.grouped(parts, l.problem)
		options.Warnings = append(slices.Clone(options.Warnings), notTried(untried)...)
		if f.Result, err = neuroshard.PlanReplicas(ctx, problems, options); err != nil {
			return nil, err
		}
		f.Untried = untried
		f.problem = problems[slices.IndexFunc(problems, func(q *problem.Problem) bool {
			return q.Topology.ReplicaCount() == f.Plan.Cluster.ReplicaCount()
		})]
		f.problem = f.Plan.Decided(f.problem)
	case old != nil:
		f.from, err = replan.Plan(ctx, l.problem, old, replan.Options{Options: options})
		if err != nil {
			return nil, replanError(err, p.from)
		}
		f.Result = f.from.Result
	}
	// A search that was interrupted has a plan, which is completed.
	if f.planner, err = neuroshard.NewPlanner(context.WithoutCancel(ctx), f.problem, options); err != nil {
		return nil, err
	}
	if measure != nil {
		if err := f.planner.CheckMeasure(measure); err != nil {
			return nil, err
		}
	}
	if f.Result == nil {
		f.Result, err = f.planner.Plan(ctx)
	}
	if err == nil {
		f.problem = f.Plan.Decided(f.problem)
	}
	return f, err
}

// complete adds to a plan what the report says beside it.
func (p *planCommand) complete(ctx context.Context, f *planFound, measure *neuroshard.Measure, old *plan.Plan) (err error) {
	if p.baselines && old == nil {
		f.Result, err = f.planner.FreeSlices(ctx, f.Result)
	}
	if err == nil && measure != nil {
		f.Result, err = f.planner.Measure(ctx, f.Result, measure)
	}
	if err == nil && p.certificate {
		err = f.planner.Certify(context.WithoutCancel(ctx), f.Result)
	}
	if err == nil && p.baselines {
		err = f.planner.Baselines(ctx, f.Result)
	}
	if err == nil {
		err = f.planner.Compare(f.Result, p.compared.read)
	}
	return err
}

// grouped returns the problem of each number of sharding groups into which the cluster can be
// divided, the problem of one group first. untried are the other numbers that divide the devices,
// each with the reason why it has no problem.
func (p *planCommand) grouped(parts input.Parts, whole *problem.Problem) (problems []*problem.Problem, untried []neuroshard.Untried) {
	problems = []*problem.Problem{whole}
	for n, most := 2, whole.Topology.Devices; n <= most; n++ {
		if most%n != 0 {
			continue
		}
		other, err := composeProblem(p.app, parts, p.cluster.inGroups(n))
		if err == nil {
			problems = append(problems, other.problem)
			continue
		}
		why := err.Error()
		if faults := (*input.Errors)(nil); errors.As(err, &faults) {
			why = faults.List[0].String()
		}
		untried = append(untried, neuroshard.Untried{Replicas: n, Reason: report.OneLine(why)})
	}
	return problems, untried
}

// notTried returns a warning for each reason why numbers of sharding groups were not tried.
// Numbers whose reasons differ only in the number of groups share a warning.
func notTried(untried []neuroshard.Untried) []string {
	var order, all []string
	alike := map[string][]neuroshard.Untried{}
	for _, u := range untried {
		key := strings.ReplaceAll(u.Reason, fmt.Sprintf(" %d ", u.Replicas), " ")
		if alike[key] == nil {
			order = append(order, key)
		}
		alike[key] = append(alike[key], u)
	}
	for _, key := range order {
		var numbers []string
		for _, u := range alike[key] {
			numbers = append(numbers, strconv.Itoa(u.Replicas))
		}
		were := "were"
		if len(numbers) == 1 {
			were = "was"
		}
		all = append(all, fmt.Sprintf("sharding groups: %s %s not tried: %s", words.List(numbers, len(numbers)), were, alike[key][0].Reason))
	}
	return all
}

// oldPlan reads the plan of --from; nil without the flag.
func (p *planCommand) oldPlan() (*plan.Plan, error) {
	if p.from == "" {
		return nil, nil
	}
	old, err := p.readPlan(p.from)
	return old, asInput(err)
}

// learn loads the policy that policy names, and adds its doubts to the warnings.
func (p *planCommand) learn(loaded *loaded) error {
	if p.policy == "" {
		return nil
	}
	trained, manifest, err := loadPolicy(p.policy)
	if err != nil {
		return err
	}
	if manifest.Method != string(p.method) {
		return usagef(fmt.Sprintf("plan with --set method=%s, or train another policy", manifest.Method), "policy: the policy %s is one of method %s, not %s", p.policy, manifest.Method, search.Method(p.method))
	}
	if err := reinforce.Fits(manifest, loaded.problem); err != nil {
		return bad(fmt.Errorf("policy %s: %w", p.policy, err), "make another one with: neuroshard lab train-policy")
	}
	p.search.Policy = trained
	loaded.warnings = append(loaded.warnings, reinforce.Doubts(manifest, loaded.problem)...)
	return nil
}

// prices returns the prices to search with. model is nil unless --model names a folder.
func (p *planCommand) prices(model *cost.Model, t hardware.Topology) (neuroshard.Prices, error) {
	if err := checkRiskPenalty(p.riskPenalty, model); err != nil {
		return nil, err
	}
	switch {
	case model != nil:
		return neuroshard.Trained(model, p.riskPenalty), bad(model.FitsProfile(t), "train one for this profile, or leave --model out")
	case formulasOf(p.model) != nil:
		return formulasOf(p.model), nil // for every profile
	case !slices.Contains(pretrained.Profiles(), t.Profile.Name):
		return nil, usagef("choose one of "+strings.Join(pretrained.Profiles(), ", "), "no cost model ships for device profile %q", t.Profile.Name)
	}
	return neuroshard.Pretrained(), nil
}

// print writes the plan to its file, and the report to standard output.
func (p *planCommand) print(f *planFound, source string, start time.Time) error {
	result := f.Result
	if p.output != "" && p.output != standardOutput {
		if err := result.Plan.Save(p.output); err != nil {
			return bad(err, "")
		}
	}
	var err error
	if p.output == standardOutput {
		err = p.printPlan(result.Plan)
	} else if p.json {
		err = report.JSON(p.stdout, result, f.problem, f.from, unit.Millis(p.env.now().Sub(start))/unit.Millis(time.Millisecond))
	} else {
		o := p.reportOptions()
		o.AllDevices, o.Name, o.Problem, o.From = p.allDevices, source, f.problem, f.from
		o.ListTables, o.Full = "--all-tables", p.allDevices
		o.Wrote, o.Next = p.output, nextAfter(p.output, result.Plan)
		err = report.Result(p.stdout, result, o)
		if p.tables && err == nil {
			err = p.printTables(result, f.problem, o)
		}
	}
	if err == nil && result.Status == search.Interrupted {
		err = &exitError{exitInterrupted, errors.New("interrupted: this is the best plan found until then"), "plan again for a complete search"}
	}
	return bad(err, "")
}

// nextAfter says what to do with a plan.
func nextAfter(output string, pl *plan.Plan) string {
	if output == "" {
		return "-o plan.json keeps the plan; --full shows all devices and tables"
	}
	engine := problem.TorchRec
	if pl.Cluster.Engine == problem.HugeCTR {
		engine = problem.HugeCTR
	}
	module := ""
	if engine == problem.TorchRec && slices.ContainsFunc(pl.Tables, func(t plan.Table) bool { return t.Module == "" }) {
		module = " --set module=PATH"
	}
	return fmt.Sprintf("neuroshard convert %s --to %s%s; or neuroshard show %s --full", output, engine, module, output)
}

// printTables lists every table, with the cheapest other place for it.
func (p *planCommand) printTables(result *neuroshard.Result, of *problem.Problem, o report.Options) error {
	options := neuroshard.Options{Prices: p.chosen}
	options.Search.ShardingTypes = search.Columns()
	if search.Method(p.method) == search.Default {
		options.Search.ShardingTypes = p.allowed
	}
	// The tables of an interrupted search are listed, too.
	other, err := compared(context.Background(), result.Plan, of, options)
	if err != nil {
		return err
	}
	return report.Tables(p.stdout, result.Plan, other, o)
}

// check reports all flags with values that are out of range, or that others contradict.
func (p *planCommand) check() error {
	var f faults
	f.below(0, map[string]int{"threads": p.search.Workers, "max-evaluations": int(p.search.MaxEvaluations), "rollouts": p.search.Samples})
	beam := map[string]int{"beam-steps": p.search.Steps, "beam-width": p.search.Beam, "beam-candidates": p.search.Candidates, "beam-grid": p.search.Grid}
	maps.DeleteFunc(beam, func(name string, _ int) bool { return !p.given(name) })
	f.below(1, beam)
	f.add(p.search.Budget < 0, "leave the flag out for the default", "--budget: %v is negative", p.search.Budget)
	f.add(p.cluster.autoReplicas && len(p.compared.given) > 0, "state the number, such as --set replicas=2, or leave compare_plan out", "replicas auto: compare_plan needs a stated number of sharding groups")
	return f.err(p.checkMethod(), p.checkFrom(), checkMeasure(p), checkOutputs(p.output, p.json, map[string]bool{"all-tables": p.tables, "full": p.allDevices}))
}

// checkMethod reports the flags that the method ignores.
func (p *planCommand) checkMethod() error {
	var f faults
	method := search.Method(p.method)
	f.add(p.given("types") && !slices.Equal(p.types.options(), search.Columns()) && method != search.Default,
		fmt.Sprintf("leave --types out, or plan with --set method=%s", search.Default), "--types: method %s places tables in slices of columns only", method)
	for _, name := range []string{"beam-steps", "beam-width", "beam-candidates", "beam-grid"} {
		f.add(method != search.Paper && p.given(name), fmt.Sprintf("leave the flag out, or plan with --set method=%s", search.Paper), "%s: method %s runs no beam search", keyOf(name), method)
	}
	single := slices.Contains(search.Baselines(), method) && p.from == ""
	searching := fmt.Sprintf("leave the flag out, or plan with --set method=%s or --set method=%s", search.NeuroShard, search.Paper)
	f.add((single || method == search.HugeCTR) && p.given("max-evaluations"), searching, "max_evaluations: method %s tries a single placement", method)
	f.add(single && p.given("budget"), searching, "--budget: method %s tries a single placement", method)
	trained := "leave the flag out, or plan with --set method=" + strings.Join(learned(), " or --set method=")
	f.add(method.Learned() && p.policy == "", fmt.Sprintf("train a policy with: neuroshard lab train-policy --set method=%s -o FOLDER", method), "method %s needs a policy", method)
	f.add(!method.Learned() && p.policy != "", trained, "policy: method %s takes no policy", method)
	f.add(!method.Learned() && p.search.Samples != 0, trained, "rollouts: method %s draws no rollouts", method)
	return f.err()
}

// checkFrom reports the flags that a search from an old plan does not use.
func (p *planCommand) checkFrom() error {
	if p.from == "" {
		return nil
	}
	var f faults
	f.add(p.cluster.autoReplicas, "state the number of the old plan, or leave --from out", "replicas auto: --from needs a stated number of sharding groups")
	for _, name := range []string{"method", "beam-steps", "beam-width", "beam-candidates", "beam-grid", "max-evaluations", "budget", "policy", "rollouts"} {
		f.add(p.given(name) && (name != "method" || search.Method(p.method) != search.Default), "leave "+keyOf(name)+" or --from out", "%s: a search from an old plan does not use it", keyOf(name))
	}
	return f.err()
}

// failureJSON is what --json prints if nothing fits.
type failureJSON struct {
	Valid bool `json:"valid"`
	Error struct {
		Message string     `json:"message"`
		Table   string     `json:"table"`
		Missing unit.Bytes `json:"missing_bytes"`
		// DevicesNeeded is null if no number of devices is enough.
		DevicesNeeded *int   `json:"devices_needed"`
		Reason        string `json:"reason"`
	} `json:"error"`
}

// failed returns the error of a search. If nothing fits, it also prints why as a JSON object, with
// --json.
func (p *planCommand) failed(err error) error {
	if refused, ok := errors.AsType[*neuroshard.MeasureError](err); ok {
		return usagef(refused.Hint+", or plan without measure", "measure: %w", refused)
	}
	var infeasible *search.Infeasible
	if !p.json || !errors.As(err, &infeasible) {
		return err
	}
	var out failureJSON
	out.Error.Message, out.Error.Reason = infeasible.Error(), infeasible.Reason
	out.Error.Table, out.Error.Missing = infeasible.Table, infeasible.Missing
	if infeasible.DevicesNeeded > 0 {
		out.Error.DevicesNeeded = &infeasible.DevicesNeeded
	}
	return errors.Join(err, p.printJSON(out))
}
