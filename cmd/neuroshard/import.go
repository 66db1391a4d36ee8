package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/plan/export"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/report"
)

func newConvertCommand(a *app) *cobra.Command {
	c := &convertCommand{app: a}
	cmd := &cobra.Command{
		Use:   "convert PLAN --to ENGINE | FILE --from ENGINE",
		Short: "Turn a plan into the form of TorchRec or HugeCTR, or back",
		Long: `Turn a plan into the form of the engine that runs it (--to), or a plan of an engine into
a plan (--from), to show it, to compare it and to estimate its cost.

For TorchRec the form is the JSON of a ShardingPlan. For HugeCTR it is the shard matrix
and the shard strategy of an embedding collection, as JSON or as Python. Each shard that
the engine cannot run is an error that names the table and the shard; then nothing is
written. docs/PLAN.md draws the forms.

--from torchrec takes what --to torchrec wrote, or a serialized ShardingPlan:
json.dump(plan._serialize(), file). --from hugectr takes what --to hugectr wrote, or
{"shard_matrix": ..., "shard_strategy": ...}. Engines do not state the lookups of tables.
With --tables, a file or workload:NAME, the plan is checked against the tables and its cost
estimated. Without --tables only shapes and places are known; HugeCTR's plans need it. If
the file states no cluster, flags do, as in plan.`,
		Example: `  neuroshard convert plan.json --to torchrec -o torchrec_plan.json
  neuroshard convert plan.json --to torchrec --set module=sparse.ebc --set accelerator=cpu
  neuroshard convert serialized.json --from torchrec --tables tables.json --gpu a100-80 -o theirs.json`,
		Args: exactArgs("PLAN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.from == "" && c.to == "" {
				return usagef("choose an engine: --to torchrec, --to hugectr, --from torchrec or --from hugectr", "convert: --to and --from are missing")
			}
			if c.to != "" {
				return c.export(args[0])
			}
			if err := checkOutputs(c.output, c.json, map[string]bool{"full": c.allDevices}); err != nil {
				return err
			}
			return c.run(cmd.Context(), args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.to, "to", "", "write the plan for this `engine`: "+strings.Join(engineNames(), " or "))
	f.StringVar(&c.from, "from", "", "read a plan of this `engine`: "+strings.Join(engineNames(), " or "))
	c.cluster.register(cmd)
	f.StringVar(&c.module, "module", "", "`path` of the module of the tables that do not state one (--to torchrec)")
	f.StringVar(&c.accelerator, "accelerator", export.CUDA, "where the shards are placed: `cuda` or cpu (--to torchrec)")
	f.BoolVar(&c.python, "python", false, "write Python instead of JSON (--to hugectr)")
	f.StringVar(&c.tables, "tables", "", "the `tables` that the plan places: a file or workload:NAME (--from)")
	f.StringVar(&c.model, "model", "", modelUsage+" (default: the one that ships for the profile)")
	f.StringVarP(&c.output, "output", "o", "", "write to this `file`; - is standard output")
	f.BoolVar(&c.json, "json", false, "print one JSON object (--from)")
	f.BoolVar(&c.allDevices, "full", false, "report everything, on every device (--from)")
	cmd.MarkFlagsMutuallyExclusive("json", "full")
	cmd.MarkFlagsMutuallyExclusive("to", "from")
	completeModel(cmd)
	complete(cmd, "from", engineNames)
	complete(cmd, "to", engineNames)
	return cmd
}

type convertCommand struct {
	*app
	cluster             clusterFlags
	from, to            string
	tables, model       string
	module, accelerator string
	python              bool
	output              string
	json, allDevices    bool
}

// readers are the functions that read a plan of an engine, by its name.
var readers = map[string]func(name string, r io.Reader) (*export.File, error){
	"torchrec": export.ReadTorchRec,
	"hugectr":  export.ReadHugeCTR,
}

// setEngine checks --from. A plan of HugeCTR keeps to its rules alone, so the engine is HugeCTR
// unless --engine says otherwise.
func (c *convertCommand) setEngine() error {
	if readers[c.from] == nil {
		return faulty(fmt.Sprintf("--from: engine %q is unknown", c.from), "choose one of "+strings.Join(engineNames(), ", "))
	}
	if c.from != string(problem.HugeCTR) {
		return nil
	}
	if c.tables == "" {
		return usagef("add --tables: a plan of HugeCTR does not say how many rows and columns its tables have", "convert: --from %s needs --tables", c.from)
	}
	if c.cluster.set.Changed("engine") {
		return nil
	}
	return c.cluster.set.Set("engine", c.from)
}

// method returns the method of an imported plan.
func (c *convertCommand) method() string {
	if c.from == string(problem.HugeCTR) {
		return report.ImportedHugeCTR
	}
	return report.Imported
}

// unread notes the flags that are stated and are for the other direction.
func (c *convertCommand) unread(f *faults, other string, read ...string) {
	c.cluster.set.Visit(func(flag *pflag.Flag) {
		if flag.Name != "set" && !slices.Contains(read, flag.Name) {
			f.add(true, "leave it out", "%s goes with %s", keyOf(flag.Name), other)
		}
	})
}

func (c *convertCommand) run(ctx context.Context, path string) error {
	var model *cost.Model
	if err := c.setEngine(); err != nil {
		return err
	}
	var f faults
	for _, name := range []string{"module", "accelerator", "python"} {
		f.add(c.cluster.set.Changed(name), "leave it out", "%s goes with --to", name)
	}
	if err := f.err(); err != nil {
		return err
	}
	if c.model != "" {
		if c.tables == "" {
			return usagef("add --tables: without tables no cost is estimated", "convert: --model needs --tables")
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
		return inFile(err, path)
	}
	warnings = append(warnings, doubts...)
	if hosted, _ := pl.Hosted(); hosted > 0 && l.problem.Topology.MostHostMemory() == 0 {
		warnings = append(warnings, "tables lie in host memory, and the cluster has none that is stated: convert it with --host-memory SIZE, such as 1TiB")
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
func (c *convertCommand) print(pl *plan.Plan, path string) error {
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
	options.AllDevices, options.Name, options.ListTables = c.allDevices, path, "neuroshard show PLAN --all-tables"
	options.Full = true
	return bad(report.Plan(c.stdout, pl, options), "")
}

// readEngine reads the engine's plan.
func (c *convertCommand) readEngine(path string) (*export.File, error) {
	name, r, err := c.open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return readers[c.from](name, r)
}

// problem composes the problem that the plan is for.
func (c *convertCommand) problem(file *export.File) (loaded, error) {
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
		key   string
		ranks int
	}{{"devices", file.World}, {"devices_per_host", file.Local}} {
		if o := c.cluster.stated; stated.ranks > 0 && c.cluster.topology == "" && !o.Has(stated.key) && !o.Has("hosts") {
			c.cluster.stated = input.Overrides{stated.key: strconv.Itoa(stated.ranks)}
			maps.Copy(c.cluster.stated, o)
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
			hint := ""
			if v.Rule == plan.RuleTables {
				hint = "give the tables of the model that was planned, with its modules"
			}
			errs = append(errs, faulty(v.String(), hint))
		}
	}
	if more := len(doubts) - mostDoubts; more > 0 {
		doubts = append(doubts[:mostDoubts], fmt.Sprintf("not valid for these tables: %d more violations, listed by: neuroshard check", more))
	}
	return doubts, input.Join(errs...)
}

// price estimates the cost of the plan, or adds a warning that says why it cannot.
func (c *convertCommand) price(ctx context.Context, pl *plan.Plan, l loaded, model *cost.Model) error {
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
