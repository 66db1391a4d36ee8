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
	"github.com/neuroshard/neuroshard/step"
)

// stepFlags are the flags that describe the whole training step.
type stepFlags struct {
	// flags are those of the command; nil if the command has no flags of the step.
	flags *pflag.FlagSet

	// with is the plan that step was measured with.
	with string
}

func (f *stepFlags) register(cmd *cobra.Command, c *clusterFlags) {
	flags := cmd.Flags()
	f.flags = flags
	defer manual.Section(flags, stepSection)()
	for _, key := range input.ClusterKeys() {
		if key.Step {
			c.state(cmd, key)
		}
	}
	flags.StringVar(&f.with, "step-plan", "", "the `plan` that step was measured with, for the same tables (default: the plan that is priced)")
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
		return faulty("step_plan: no measured step is stated", "add --set step=TIME, or leave step_plan out")
	}
	pl, err := a.readPlan(f.with)
	if err != nil {
		return err
	}
	// The measurement may be of another cluster, but is of the same tables.
	flags := clusterFlags{set: &pflag.FlagSet{}}
	cluster := clusterOf(pl, &flags)
	judged := cluster.Problem
	judged.Tables, judged.Hierarchy = p.Tables, p.Hierarchy
	if err := pl.Validate(&judged); err != nil {
		return usagef("name a plan of the same tables", "step_plan: the plan %s is not one of the tables: %v", f.with, firstViolation(err))
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
	p.Topology.Activations, p.Topology.AllocatorOverhead = t.Activations, t.AllocatorOverhead
	p.Topology.HostMemory, p.Topology.HostMemories = c.HostMemory, c.HostMemories
	p.CommPrecision, p.Engine, p.LaneRule, p.Pipeline = c.CommPrecision, c.Engine, c.LaneRule, c.Pipeline
}

// stepError marks the error of a step that has no price as one of the input.
func stepError(err error) error {
	if without := (*neuroshard.StepError)(nil); errors.As(err, &without) {
		return bad(fmt.Errorf("the whole step has no price: %w", without.Err), "docs/OPERATION.md says what a step needs")
	}
	return err
}
