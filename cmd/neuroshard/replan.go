package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/search"
)

func newReplanCommand(a *app) *cobra.Command {
	r := replanCommand{planCommand: planCommand{app: a, types: problem.ShardingTypes()}}
	cmd := &cobra.Command{
		Use:   "replan OLD TABLES",
		Short: "Plan again from an old plan: keep it, or move few bytes",
		Long: `Plan again from an old plan: for other tables, another batch, another cluster, or
lost devices. It says whether to keep the old plan or to move to another one, what
moves, and after how many steps that pays back. Costs are predicted; SIMULATED
costs are those of the simulated device.

OLD is a plan file. TABLES is what is to be planned now: a file, "-" or
workload:NAME. The cluster is the one that the old plan states, without the lost
devices; flags override single fields of it, and --cluster all of it.

The plan moves the fewest bytes among those whose cost is within 1 % of the least:
smaller differences are ties. --max-bytes limits the bytes that move beyond those that
must, and move_price makes moved bytes part of the cost. --engine torchrec keeps to what
neuroshard_torchrec.reshard moves while the job runs.

The exit code is 0 whether the old plan stays or something moves, 1 if nothing fits, 2 if
an input is wrong, 3 if the search was interrupted. With --exit-code it is 6 if
something moves or is placed anew.`,
		Example: `  neuroshard replan old.json tables.json
  neuroshard replan old.json tables.json --max-bytes 5% -o new.json
  neuroshard replan old.json tables.json --lost-gpus 3 --json
  neuroshard replan old.json tables.json --gpus 32 --set move_price=0.05`,
		Args:              exactArgs("OLD", "TABLES"),
		ValidArgsFunction: completeTables(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args[0], args[1]) },
	}
	r.given = cmd.Flags().Changed
	f := cmd.Flags()
	r.cluster.register(cmd)
	r.cluster.maxTables = neuroshard.MaxPlanned
	f.Var(&r.most, "max-bytes", "most bytes to move between devices beyond those that must move: a `size` such as 12GB, or a share of all tables' bytes such as 5%")
	f.Float64Var(&r.price, "move-price", 0, "`ms` of cost that moving one GB (10^9 bytes) must save: the plan with the least sum is taken")
	f.Var(&r.lostDevices, "lost-gpus", "devices of the old plan that are lost, such as 3,4")
	f.Var(&r.lostHosts, "lost-hosts", "hosts of the old plan that are lost, such as 1")
	f.Int64Var(&r.horizon, "horizon", 0, "`steps` still to be trained: a move that pays back later is not taken (default: no limit)")
	f.Var(&r.types, "types", "`types` of sharding that tables may have, as in plan")
	f.Uint64Var(&r.search.Seed, "seed", 0, "seed of the random numbers in the search")
	f.IntVar(&r.search.Workers, "threads", 0, "threads; they do not change the plan (default: all cores)")
	f.StringVar(&r.model, "model", "", modelUsage+" (default: the model that ships for the profile)")
	r.deviceFlag(cmd, &r.model)
	f.Float64Var(&r.riskPenalty, "risk-penalty", 0, riskPenaltyUsage)
	f.BoolVar(&r.json, "json", false, "print one JSON object")
	f.BoolVar(&r.all, "full", false, "list every table that moves")
	f.BoolVar(&r.detailed, "exit-code", false, "end with exit code 6, not 0, if something moves or is placed anew")
	cmd.MarkFlagsMutuallyExclusive("json", "full")
	f.StringVarP(&r.output, "output", "o", "", "write the plan to this `file`, also if the old plan stays; - is standard output, in place of the report")
	completeList(cmd, "types", func() []string { return append([]string{allShardingTypes}, shardingTypeNames()...) })
	completeModel(cmd)
	return cmd
}

type replanCommand struct {
	planCommand
	most                   movedBytes
	price                  float64
	lostDevices, lostHosts intList
	horizon                int64
	all                    bool
	// detailed makes the verdict the exit code.
	detailed bool
}

func (r *replanCommand) run(ctx context.Context, oldPath, source string) error {
	var model *cost.Model
	if formulasOf(r.model) == nil {
		var err error
		if model, err = r.givenModel(r.model); err != nil {
			return err
		}
		r.cluster.setModel(model)
	}
	old, lost, loaded, err := r.load(oldPath, source)
	if err != nil {
		return err
	}
	if err := r.checkOutput(r.output, source, oldPath, r.cluster.topology, r.model); err != nil {
		return err
	}
	if err := r.checkTypes(loaded.problem); err != nil {
		return err
	}
	options, err := r.options(model, loaded)
	if err != nil {
		return err
	}
	options.Lost, options.Price, options.Horizon = lost, r.price, r.horizon
	if r.given("max-bytes") {
		options.Most = &r.most.MovedBytes
	}
	bar := r.newProgressBar()
	defer bar.clear()
	options.OnStep = showStep(r.app, bar)
	found, err := replan.Plan(ctx, loaded.problem, old, options)
	bar.clear()
	if err != nil {
		return r.failed(replanError(err, oldPath))
	}
	return r.printReplan(found, source, loaded.problem)
}

// load reads the old plan and the new problem, and returns the lost devices. It reports the
// errors of both, and of the flags.
func (r *replanCommand) load(oldPath, source string) (*plan.Plan, []int, loaded, error) {
	fallback := input.AnyCluster()
	old, err := r.readPlan(oldPath)
	var lost []int
	if err != nil {
		err = asInput(err)
	} else {
		var own *input.Cluster
		if own, lost, err = r.remaining(old); own != nil {
			fallback = *own
		}
	}
	loaded, loadErr := loadProblem(r.app, source, &r.cluster, &fallback)
	if err := input.Join(err, r.checkReplan(), loadErr); err != nil {
		return nil, nil, loaded, err
	}
	loaded.countAs(old)
	return old, lost, loaded, nil
}

// asInput returns an error with a hint as an error of the inputs, to be printed with others.
func asInput(err error) error {
	if marked := (*exitError)(nil); errors.As(err, &marked) {
		return faulty(marked.Error(), marked.hint)
	}
	return err
}

// remaining returns the old plan's cluster without the lost devices, and these devices.
func (r *replanCommand) remaining(old *plan.Plan) (*input.Cluster, []int, error) {
	var errs []error
	lost := append([]int(nil), r.lostDevices...)
	perHost := old.Cluster.DevicesPerHost
	hosts := (old.Cluster.Devices + perHost - 1) / perHost
	for _, h := range r.lostHosts {
		if h < 0 || h >= hosts {
			errs = append(errs, faulty(fmt.Sprintf("--lost-hosts: the old plan has no host %d", h), hostNumbers(hosts, perHost)))
			continue
		}
		for d := h * perHost; d < min(old.Cluster.Devices, (h+1)*perHost); d++ {
			lost = append(lost, d)
		}
	}
	own := clusterOf(old, &r.cluster)
	groups := old.Cluster.ReplicaCount()
	devices, _ := r.cluster.stated.Devices()
	replaced := r.given("gpus") && devices == groups*old.Cluster.Devices || r.given("cluster")
	if len(lost) > 0 && groups > 1 && !r.given("gpus") && !r.given("cluster") {
		errs = append(errs, faulty(
			fmt.Sprintf("--lost-gpus and --lost-hosts: the old plan has %d sharding groups, and without the lost devices their numbers of devices differ", groups),
			"state the cluster that is left with --gpus, devices_per_host and replicas, or the old cluster if the lost devices are replaced"))
	}
	if len(lost) > 0 && len(errs) == 0 {
		left, err := replan.Remaining(old.Cluster, lost)
		if other := (*replan.OtherPlan)(nil); errors.As(err, &other) && !replaced {
			errs = append(errs, faulty("--lost-gpus: "+other.Message, other.Hint))
		} else if err == nil && !replaced {
			smaller := *old
			smaller.Cluster = left
			own = clusterOf(&smaller, &r.cluster)
		}
	}
	return own, lost, input.Join(errs...)
}

// checkReplan reports the flags with values that are out of range, or that contradict each
// other.
func (r *replanCommand) checkReplan() error {
	var f faults
	f.add(r.given("max-bytes") && r.given("move-price"), "leave one of them out", "--max-bytes and move_price do not go together: one limits the moved bytes, the other prices them")
	f.add(r.given("move-price") && (!(r.price >= 0) || math.IsInf(r.price, 0)), "state the ms of cost that moving one GB must save, such as 0.05", "move_price: %v is not a number of at least 0", r.price)
	f.add(r.given("horizon") && r.horizon < 1, "state the steps still to be trained, or leave the flag out", "--horizon: %d is below 1", r.horizon)
	f.add(r.search.Workers < 0, "leave the flag out for the default", "threads: %d is below 0", r.search.Workers)
	return f.err(checkOutputs(r.output, r.json, nil))
}

// options returns the options of the search.
func (p *planCommand) options(model *cost.Model, loaded loaded) (replan.Options, error) {
	var o replan.Options
	prices, err := p.prices(model, loaded.problem.Topology)
	if err != nil {
		return o, err
	}
	o.Search, o.Prices, o.Warnings, o.Step = p.search, prices, loaded.warnings, loaded.step
	o.Search.ShardingTypes = p.types.options()
	if model != nil && model.Manifest().Source != string(dataset.Simulated) && !p.given("types") {
		o.Search.ShardingTypes = search.Columns() // no backend measures the others
	}
	return o, nil
}

// replanError marks errors of the old plan as those of an input.
func replanError(err error, oldPath string) error {
	if other, ok := errors.AsType[*replan.OtherPlan](err); ok {
		return usagef(other.Hint, "%s: %s", oldPath, other.Message)
	}
	return stepError(err)
}

// printReplan writes the plan to its file, and the report to standard output.
func (r *replanCommand) printReplan(found *replan.Outcome, source string, of *problem.Problem) error {
	if r.output != "" && r.output != standardOutput {
		if err := found.Result.Plan.Save(r.output); err != nil {
			return bad(err, "")
		}
	}
	var err error
	switch {
	case r.output == standardOutput:
		err = r.printPlan(found.Result.Plan)
	case r.json:
		err = report.ReplanJSON(r.stdout, found)
	default:
		o := r.reportOptions()
		o.AllChanges, o.Name, o.Problem = r.all, source, of
		switch o.Wrote = r.output; {
		case r.output != "":
			o.Next = nextAfter(r.output, found.Result.Plan)
		case found.Verdict == replan.Move:
			o.Next = "-o new.json writes the plan that the arrow marks; --full lists every table that moves"
		}
		err = report.Replan(r.stdout, found, o)
	}
	switch {
	case err != nil:
		return bad(err, "")
	case found.Result.Status == search.Interrupted:
		return &exitError{exitInterrupted, errors.New("interrupted: this is the best of the plans found until then"), "plan again for all of them"}
	case r.detailed && found.Verdict == replan.Move:
		return &exitError{code: exitVerdict}
	}
	return nil
}

// movedBytes is a flag's value that limits moved bytes: a size with its unit, or a share in
// percent.
type movedBytes struct {
	replan.MovedBytes
	text string
}

func (m *movedBytes) Set(text string) error {
	limit, err := replan.ParseMovedBytes(text)
	if err == nil {
		m.MovedBytes, m.text = limit, text
	}
	return err
}

func (m *movedBytes) String() string { return m.text }
func (m *movedBytes) Type() string   { return "size or share" }

// hostNumbers says which hosts an old plan has.
func hostNumbers(hosts, perHost int) string {
	if hosts == 1 {
		return fmt.Sprintf("it has host 0 alone, with %d devices", perHost)
	}
	return fmt.Sprintf("its hosts are 0 to %d, with %d devices each", hosts-1, perHost)
}
