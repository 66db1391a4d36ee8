package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/plan/export"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/report"
)

func newImportCommand(a *app) *cobra.Command {
	c := &importCommand{app: a}
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Turn a plan of TorchRec or HugeCTR into a plan",
		Long: `Turn a plan of TorchRec or HugeCTR into a plan, to show it, to compare it and to
estimate its cost.

With --from torchrec, the default, FILE is a file that export --to torchrec wrote, or a
serialized ShardingPlan: json.dump(plan._serialize(), file). With --from hugectr, FILE is
a file that export --to hugectr wrote, or {"shard_matrix": ..., "shard_strategy": ...}.

A ShardingPlan does not state the lookups of its tables. With --tables, a file or
workload:NAME, the plan is validated against the tables and its cost estimated.
Without --tables only shapes and places are known, and no cost is estimated. A plan of
HugeCTR does not state shapes either, so it needs --tables.

If the file states no cluster, flags do, as in plan.`,
		Example: `  neuroshard import torchrec_plan.json --tables tables.json -o plan.json
  neuroshard import serialized.json --tables tables.json --device a100-80 -o theirs.json
  neuroshard import matrix.json --from hugectr --tables tables.json --device h100-80
  neuroshard diff theirs.json ours.json`,
		Args: exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutputs(c.output, c.json, map[string]bool{"all-devices": c.allDevices}); err != nil {
				return err
			}
			return c.run(cmd.Context(), args[0])
		},
	}
	c.cluster.register(cmd)
	f := cmd.Flags()
	f.StringVar(&c.from, "from", string(problem.TorchRec), "the `engine` whose plan it is: "+strings.Join(engineNames(), " or "))
	f.StringVar(&c.tables, "tables", "", "the `tables` that the plan places: a file or workload:NAME")
	f.StringVar(&c.model, "model", "", "`folder` of the cost model to estimate with, as train writes it, or torchrec for the formulas of TorchRec's own planner in the newest release that is known, torchrec-1.6 for those of another release (default: the one that ships for the profile)")
	f.StringVarP(&c.output, "output", "o", "", "write the plan to this `file`; - is standard output, in place of the report")
	f.BoolVar(&c.json, "json", false, "print one JSON object")
	f.BoolVar(&c.allDevices, "all-devices", false, "list every device, also of large clusters")
	cmd.MarkFlagsMutuallyExclusive("json", "all-devices")
	completeModel(cmd)
	complete(cmd, "from", engineNames)
	return cmd
}

type importCommand struct {
	*app
	cluster          clusterFlags
	from             string
	tables, model    string
	output           string
	json, allDevices bool
}

// readers are the functions that read a plan of an engine, by its name.
var readers = map[string]func(name string, r io.Reader) (*export.File, error){
	"torchrec": export.ReadTorchRec,
	"hugectr":  export.ReadHugeCTR,
}

// setEngine checks --from. A plan of HugeCTR keeps to its rules alone, so the engine is HugeCTR
// unless --for says otherwise.
func (c *importCommand) setEngine() error {
	if readers[c.from] == nil {
		return faulty(fmt.Sprintf("--from: engine %q is unknown", c.from), "choose one of "+strings.Join(engineNames(), ", "))
	}
	if c.from != string(problem.HugeCTR) {
		return nil
	}
	if c.tables == "" {
		return usagef("add --tables: a plan of HugeCTR does not say how many rows and columns its tables have", "import: --from %s needs --tables", c.from)
	}
	if c.cluster.set.Changed("for") {
		return nil
	}
	return c.cluster.set.Set("for", c.from)
}

// method returns the method of an imported plan.
func (c *importCommand) method() string {
	if c.from == string(problem.HugeCTR) {
		return report.ImportedHugeCTR
	}
	return report.Imported
}

func (c *importCommand) run(ctx context.Context, path string) error {
	var model *cost.Model
	if err := c.setEngine(); err != nil {
		return err
	}
	if c.model != "" {
		if c.tables == "" {
			return usagef("add --tables: without tables no cost is estimated", "import: --model needs --tables")
		}
		if formulasOf(c.model) == nil {
			var err error
			if model, err = c.loadModel(c.model); err != nil {
				return err
			}
			c.cluster.setModel(model)
		}
	}
	if err := c.checkOutput(c.output, path, c.tables, c.cluster.topology, c.model); err != nil {
		return err
	}
	file, err := c.readEngine(path)
	if err != nil {
		if c.tables != "" && c.tables != path {
			largest := input.AnyCluster()
			largest.Batch = 1
			_, other := loadProblem(c.app, c.tables, &c.cluster, &largest)
			err = input.Join(err, other)
		}
		return err
	}
	l, err := c.problem(file)
	if err != nil {
		return err
	}
	pl, err := file.Place(l.problem)
	if err != nil {
		return err
	}
	warnings := append(slices.Clone(l.warnings), file.Notes...)
	doubts, err := violations(pl.Validate(l.problem))
	if err != nil {
		return err
	}
	warnings = append(warnings, doubts...)
	if hosted, _ := pl.Hosted(); hosted > 0 && l.problem.Topology.MostHostMemory() == 0 {
		warnings = append(warnings, "tables lie in host memory, and the cluster has none that is stated: import with --host-memory SIZE, such as 1TiB")
	}
	pl.Provenance = plan.Provenance{
		Tool: "neuroshard", Version: neuroshard.Version, Method: c.method(), Status: "complete",
		ModelSource: plan.Unpriced, Input: plan.Digest(l.problem), Warnings: warnings,
	}
	if err := c.price(ctx, pl, l, model); err != nil {
		return err
	}
	return c.print(pl, path)
}

// print writes the plan to its file, and the report to standard output.
func (c *importCommand) print(pl *plan.Plan, path string) error {
	if c.output == standardOutput {
		return c.printPlan(pl)
	}
	if c.output != "" {
		if err := pl.Save(c.output); err != nil {
			return bad(err, "")
		}
	}
	if c.json {
		return bad(report.PlanJSON(c.stdout, pl), "")
	}
	options := c.reportOptions()
	options.AllDevices, options.Name, options.ListTables = c.allDevices, path, "neuroshard show PLAN --tables"
	options.Full = true
	return bad(report.Plan(c.stdout, pl, options), "")
}

// readEngine reads the engine's plan.
func (c *importCommand) readEngine(path string) (*export.File, error) {
	name, r, err := c.open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return readers[c.from](name, r)
}

// problem composes the problem that the plan is for.
func (c *importCommand) problem(file *export.File) (loaded, error) {
	var fallback *input.Cluster
	if file.Cluster != nil {
		own := c.cluster.own // the device of --model: clusterOf knows only its name
		fallback = clusterOf(&plan.Plan{Cluster: *file.Cluster}, &c.cluster)
		if len(own) > 0 {
			c.cluster.own = own
			if own[0].Name == fallback.Topology.Profile.Name {
				fallback.Topology.Profile = own[0]
			}
		}
	}
	// What the file says of the ranks stands in for a flag that was not given.
	for _, stated := range []struct {
		flag  string
		ranks int
	}{{"devices", file.World}, {"devices-per-host", file.Local}} {
		if stated.ranks > 0 && c.cluster.topology == "" && !c.cluster.set.Changed(stated.flag) {
			if err := c.cluster.set.Set(stated.flag, strconv.Itoa(stated.ranks)); err != nil {
				return loaded{}, err
			}
		}
	}
	if c.tables != "" {
		return loadProblem(c.app, c.tables, &c.cluster, fallback)
	}
	shapes, err := file.Shapes()
	if err != nil {
		return loaded{}, err
	}
	l, err := composeProblem(c.app, input.Parts{Tables: input.TableFile{Tables: shapes}, Fallback: fallback}, &c.cluster)
	l.warnings = append(l.warnings, "no tables were given: one feature with one lookup a sample, fp32 and sgd are assumed for every table, so its bytes are a guess; no model was asked for times")
	return l, err
}

// mostDoubts is the number of violations that are listed as warnings; the rest are counted.
const mostDoubts = 20

// violations splits the violations that Validate found. A plan that runs elsewhere may
// break the rules of memory and constraints: these are warnings; the others are errors.
func violations(err error) (doubts []string, wrong error) {
	var invalid *plan.Invalid
	if !errors.As(err, &invalid) {
		return nil, err
	}
	var errs []error
	for _, v := range invalid.Violations {
		switch v.Rule {
		case plan.RuleMemory, plan.RuleTier, plan.RuleRows, plan.RuleSplit, plan.RuleColocation, plan.RuleDevice, plan.RuleWidth:
			doubts = append(doubts, fmt.Sprintf("not valid for these tables: %s: %v", v.Rule, v))
		default:
			errs = append(errs, faulty(v.String(), ""))
		}
	}
	if more := len(doubts) - mostDoubts; more > 0 {
		doubts = append(doubts[:mostDoubts], fmt.Sprintf("not valid for these tables: %d more violations, listed by: neuroshard validate", more))
	}
	return doubts, input.Join(errs...)
}

// price estimates the cost of the plan, or adds a warning that says why it cannot.
func (c *importCommand) price(ctx context.Context, pl *plan.Plan, l loaded, model *cost.Model) error {
	if c.tables == "" {
		return nil
	}
	profile := l.problem.Topology.Profile.Name
	prices := neuroshard.Pretrained()
	switch {
	case formulasOf(c.model) != nil:
		prices = formulasOf(c.model) // for every profile
	case model != nil:
		prices = neuroshard.Trained(model, 0)
		if err := model.FitsProfile(l.problem.Topology); err != nil {
			return bad(err, "train one for this profile, or leave --model out")
		}
	case !slices.Contains(pretrained.Profiles(), profile):
		pl.Provenance.Warnings = append(pl.Provenance.Warnings, fmt.Sprintf("not priced: no cost model ships for device profile %q; name one with --model", profile))
		return nil
	}
	err := neuroshard.Price(ctx, pl, l.problem, neuroshard.Options{Prices: prices, Warnings: pl.Provenance.Warnings})
	if none := (*neuroshard.Unpriceable)(nil); errors.As(err, &none) {
		pl.Provenance.Warnings = append(pl.Provenance.Warnings, "not priced: "+none.Error())
		return nil
	}
	return err
}
