package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/manual"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/step"
)

func newStepCommand(a *app) *cobra.Command {
	var cluster clusterFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "step PLAN [TABLES]",
		Short: "Price the whole training step of a plan: embeddings, dense part, price",
		Long: `Price the whole training step of a plan: its embeddings, the dense part of the
model, and what the training system overlaps. The embeddings are SIMULATED.

TABLES is what was planned: a file, "-" or workload:NAME. Without TABLES, the tables
are those of the published workload whose names and shapes the plan has.

--dense says what else the step runs, and --stack which training system runs it. The
keys dense and stack of a --topology file say the same. A step that you measured with
the plan (--step) calibrates the rest; it is enough without a dense part.`,
		Example: `  neuroshard step plan.json --dense mlperf-dlrm-dcnv2 --stack hugectr
  neuroshard step plan.json tables.json --step 3.9ms --price 2.95
  neuroshard step new.json tables.json --step 3.9ms --step-plan old.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return exactArgs("PLAN")(cmd, args)
		},
		ValidArgsFunction: completeTables(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pl, err := a.readPlan(args[0])
			if err != nil {
				return err
			}
			source := ""
			if len(args) == 2 {
				source = args[1]
			} else if source = publishedAs(pl); source == "" {
				return usagef("name what was planned, a file or workload:NAME, after the plan", "%s: the tables are not those of a published workload, and a plan file does not have their lookups", args[0])
			}
			loaded, err := planned(a, pl, source, &cluster)
			if err != nil {
				return err
			}
			if loaded.step == nil {
				return usagef("add --dense NAME or --step TIME, or state the key dense or step in a --topology file", "step: neither a dense part nor a measured step is stated")
			}
			s, err := neuroshard.PriceStep(loaded.problem, pl.ByDevice(), *loaded.step)
			if err != nil {
				return stepError(err)
			}
			// Without an estimate of the problem there is nothing to compare with.
			if size, err := neuroshard.Plan(cmd.Context(), loaded.problem, neuroshard.Options{Step: &s.Input, Search: search.Options{Method: search.Size, Brief: true}}); err == nil {
				s.Size = &size.Step.Times
			}
			if asJSON {
				return bad(report.StepJSON(a.stdout, s, loaded.warnings), "")
			}
			o := a.reportOptions()
			o.Name = args[0]
			return bad(report.Step(a.stdout, pl, s, loaded.warnings, o), "")
		},
	}
	cluster.register(cmd)
	cluster.step.register(cmd, &cluster)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// stepFlags are the flags that describe the whole training step.
type stepFlags struct {
	// flags are those of the command; nil if the command has no flags of the step.
	flags *pflag.FlagSet

	// with is the plan that --step was measured with.
	with string
}

func (f *stepFlags) register(cmd *cobra.Command, c *clusterFlags) {
	flags := cmd.Flags()
	f.flags = flags
	defer manual.Section(flags, stepSection)()
	state := func(key, usage string) { flags.Var(&override{c, key, "string", ""}, key, usage) }
	state("dense", "the dense part of the model, for the whole step: a `preset`, or a file of its layers")
	state("stack", "the training system that runs the step: a `preset` ("+strings.Join(step.StackNames(), ", ")+"), or a file of its parts")
	state("step", "a measured `time` of the whole step, such as 3.9ms: calibrates the rest of the step")
	flags.StringVar(&f.with, "step-plan", "", "the `plan` that --step was measured with, for the same tables (default: the plan that is priced)")
	state("loader", "`bandwidth` of the input pipeline, to all devices, such as 20GB/s (default: no limit)")
	state("price", "`price` of one device for an hour, such as 2.95")
	complete(cmd, "dense", step.DenseNames)
	complete(cmd, "stack", step.StackNames)
}

// states gives the parts what flags state. It reads the files of a dense part and of a stack.
func (c *clusterFlags) states(a *app, parts *input.Parts) {
	parts.Overrides, parts.Own = maps.Clone(c.stated), c.own
	if name := c.stated["dense"]; name != "" && isFile(name, step.DenseNames()) {
		delete(parts.Overrides, "dense")
		dense, err := readWhole(a, name, input.Dense)
		parts.Dense, parts.DenseErr = &dense, err
	}
	if name := c.stated["stack"]; name != "" && isFile(name, step.StackNames()) {
		delete(parts.Overrides, "stack")
		stack, err := readWhole(a, name, input.Stack)
		parts.Stack, parts.StackErr = &stack, err
	}
}

// isFile reports whether a word names a file, not a preset: it is no preset, and looks like a
// path or exists.
func isFile(word string, presets []string) bool {
	if slices.Contains(presets, word) {
		return false
	}
	if word == "-" || strings.ContainsAny(word, `/\.`) {
		return true
	}
	_, err := os.Stat(word)
	return err == nil
}

// readWhole opens a file and reads it.
func readWhole[T any](a *app, path string, read func(name string, r io.Reader) (T, error)) (T, error) {
	name, r, err := a.open(path)
	if err != nil {
		broken, _ := read(name, input.Broken{})
		return broken, err
	}
	defer r.Close()
	return read(name, r)
}

// measuredWith sets the plan that the measured step belongs to.
func (f *stepFlags) measuredWith(a *app, c *clusterFlags, p *problem.Problem, in *step.Input) error {
	if !c.set.Changed("step-plan") {
		return nil
	}
	if in == nil || in.Measured.Step == 0 {
		return faulty("--step-plan: no measured step is stated", "add --step TIME, or leave --step-plan out")
	}
	pl, err := a.readPlan(f.with)
	if err != nil {
		return err
	}
	// The measurement may be of another cluster, but is of the same tables.
	flags := clusterFlags{set: &pflag.FlagSet{}}
	cluster := clusterOf(pl, &flags)
	judged := *p
	judged.Topology, judged.Batch, judged.CommPrecision = cluster.Topology, cluster.Batch, cluster.CommPrecision
	judged.Engine, judged.LaneRule, judged.Accounting = cluster.Engine, cluster.LaneRule, cluster.Accounting
	if err := pl.Validate(&judged); err != nil {
		return usagef("name a plan of the same tables", "--step-plan: the plan %s is not one of the tables: %v", f.with, firstViolation(err))
	}
	own := *p
	own.Batch = cluster.Batch
	if now, then := p.Topology, cluster.Topology; now.Devices != then.Devices || now.PerHost() != then.PerHost() || now.Profile.Name != then.Profile.Name {
		own.Topology = then
	}
	in.Measured.Problem, in.Measured.Shards = &own, pl.ByDevice()
	return nil
}

// publishedAs returns the published workload whose tables have the names and shapes of the
// plan's, or "".
func publishedAs(pl *plan.Plan) string {
	for _, w := range workload.All() {
		tables := w.Tables()
		if slices.EqualFunc(tables, pl.Tables, func(t problem.Table, placed plan.Table) bool {
			return t.Name == placed.Name && t.Rows == placed.Rows && t.Dim == placed.Dim
		}) {
			return workload.Prefix + w.Name
		}
	}
	return ""
}

// keepsPlan has the cluster of a topology file keep what a plan's cluster decides: the bytes
// and the number formats that the plan was made with.
func keepsPlan(p *problem.Problem, pl *plan.Plan) {
	c := pl.Cluster
	t := c.Topology()
	p.Topology.ReserveShare, p.Topology.ReserveFixed = t.ReserveShare, t.ReserveFixed
	p.Topology.HostMemory, p.Topology.HostMemories, p.CommPrecision, p.Engine, p.LaneRule = c.HostMemory, c.HostMemories, c.CommPrecision, c.Engine, c.LaneRule
}

// stepError marks the error of a step that has no price as one of the input.
func stepError(err error) error {
	if without := (*neuroshard.StepError)(nil); errors.As(err, &without) {
		return bad(fmt.Errorf("the whole step has no price: %w", without.Err), "docs/OPERATION.md says what a step needs")
	}
	return err
}
