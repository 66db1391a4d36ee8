package main

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/internal/manual"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/step"
)

// problem.go reads the parts of a problem, tables, topology file and flags, and has
// package input compose them.

// clusterFlags are the flags that describe a cluster and its batch.
type clusterFlags struct {
	set *pflag.FlagSet

	topology string
	// stated are the fields of the cluster that flags state, and autoReplicas that replicas is auto.
	stated       input.Overrides
	autoReplicas bool

	// step has the flags of the whole step, which plan and step register.
	step stepFlags

	// planned is a plan of the tables, or nil: its optimizers are those of tables that state none.
	planned *plan.Plan

	// maxTables is the most tables that a file may have (input.Options.MaxTables). If it is 0, only
	// the limit of package input holds.
	maxTables int

	// own holds the profile of the cost model to plan with if package hardware does not
	// have it. It is the device if none is stated.
	own []hardware.Profile
}

// setModel adds the profile of the model's device if no built-in profile has its name. If --device
// describes it, it is the device of the cluster. The model may be nil.
func (c *clusterFlags) setModel(m *cost.Model) {
	if m == nil {
		return
	}
	if hw := m.Hardware(); !hardware.Known(hw.Name) {
		c.own = []hardware.Profile{hw}
		if f := c.set.Lookup("device"); f != nil && f.Changed && !c.stated.Has("device") {
			c.stated = maps.Clone(c.stated)
			if c.stated == nil {
				c.stated = input.Overrides{}
			}
			c.stated["device"] = hw.Name
		}
	}
}

func (c *clusterFlags) register(cmd *cobra.Command) {
	c.set = cmd.Flags()
	f := cmd.Flags()
	defer manual.Section(f, clusterSection)()
	f.StringVar(&c.topology, "cluster", "", "read the cluster from this YAML or JSON `file`; flags and --set override it")
	for _, key := range input.ClusterKeys() {
		if !key.Step {
			c.state(cmd, key)
		}
	}
}

// state adds a flag, or a key, that states a field of a cluster.
func (c *clusterFlags) state(cmd *cobra.Command, key input.ClusterKey) {
	name, plain := strings.CutPrefix(input.Flag(key.Name), "--")
	about := key.About
	for _, verb := range []string{" is ", " says ", " are "} {
		about = strings.TrimPrefix(about, key.Name+verb)
	}
	if len(key.Words) > 0 {
		about += " (" + strings.Join(key.Words, ", ") + ")"
	}
	kind := cmp.Or(map[string]string{"B": "size", "B/s": "bandwidth", "ms": "time"}[key.Unit], key.Type)
	f := cmd.Flags().VarPF(&override{c, key.Name, kind}, name, "", about)
	if key.Type == "boolean" {
		f.NoOptDefVal = "true"
	}
	if plain {
		manual.Alias(f, key.Name)
	}
	words := key.Words
	if key.Name == "device" {
		words = hardware.Names()
	}
	if len(words) > 0 && plain {
		complete(cmd, name, func() []string { return words })
	}
}

// completeTables offers workloads and files for the argument of that index.
func completeTables(index int) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) != index || !strings.HasPrefix(workload.Prefix, word) && !strings.HasPrefix(word, workload.Prefix) {
			return nil, cobra.ShellCompDirectiveDefault
		}
		names := workload.Names()
		for i := range names {
			names[i] = workload.Prefix + names[i]
		}
		return names, cobra.ShellCompDirectiveDefault
	}
}

// loaded is a problem, with the warnings of its files and flags.
type loaded struct {
	problem *problem.Problem
	// step is the whole step to price; nil if none is stated.
	step     *step.Input
	warnings []string
	// accounting is true if a flag or the topology file states which bytes count.
	accounting bool
}

// loadProblem composes the problem of planning the tables of source: a file, "-" or
// workload:NAME. fallback is the cluster if there is no topology file; nil: the cluster is
// that of the tables' workload or scenario, or flags state it.
func loadProblem(a *app, source string, c *clusterFlags, fallback *input.Cluster) (loaded, error) {
	parts := readParts(a, source, c)
	parts.Fallback = fallback
	return composeProblem(a, parts, c)
}

// readParts reads the tables of source as parts of a problem.
func readParts(a *app, source string, c *clusterFlags) (parts input.Parts) {
	parts.Tables, parts.Workload, parts.TablesErr = readTables(a, source, c)
	return parts
}

// composeProblem adds the topology file and the flags to parts of a problem.
func composeProblem(a *app, parts input.Parts, c *clusterFlags) (loaded, error) {
	c.states(a, &parts)
	if c.autoReplicas {
		err := faulty("replicas=auto: only plan chooses the number of sharding groups", "state the number")
		return loaded{}, err
	}
	if c.topology != "" {
		file, err := readTopology(a, c)
		parts.Topology, parts.TopologyErr = &file, err
	}
	p, warnings, err := parts.Problem()
	if err != nil {
		return loaded{problem: p, warnings: warnings}, err
	}
	if c.planned != nil {
		p = c.planned.Decided(p)
	}
	in := parts.Step()
	return loaded{p, in, warnings, parts.StatesAccounting()}, c.step.measuredWith(a, c, p, in)
}

// override is a flag for a field of the cluster.
type override struct {
	c         *clusterFlags
	key, kind string
}

// Set keeps the text, which package input reads.
func (o *override) Set(text string) error {
	if o.c.stated == nil {
		o.c.stated = input.Overrides{}
	}
	auto := o.key == "replicas" && text == "auto"
	if o.key == "replicas" {
		o.c.autoReplicas = auto
	}
	if !auto {
		o.c.stated[o.key] = text
	}
	return nil
}

// String returns the value that is stated.
func (o *override) String() string {
	if o.c == nil {
		return ""
	}
	return o.c.stated[o.key]
}

// Type names the value in help texts.
func (o *override) Type() string { return o.kind }

// inGroups returns the flags for a cluster of the given number of sharding groups.
func (c *clusterFlags) inGroups(n int) *clusterFlags {
	groups := *c
	groups.autoReplicas, groups.stated = false, maps.Clone(c.stated)
	if groups.stated == nil {
		groups.stated = input.Overrides{}
	}
	groups.stated["replicas"] = strconv.Itoa(n)
	if n == 1 {
		delete(groups.stated, "sync_every")
		delete(groups.stated, "inter_host_allreduce")
	}
	return &groups
}

// countAs has the problem count the bytes that the plan counts, unless a flag or the topology
// file states which.
func (l *loaded) countAs(pl *plan.Plan) {
	if !l.accounting {
		l.problem.Accounting = pl.Cluster.Accounting()
	}
}

// readTables reads the tables of a file, "-" or workload:NAME. The cluster is that of the
// workload, or nil.
func readTables(a *app, source string, c *clusterFlags) (input.TableFile, *input.Cluster, error) {
	if strings.HasPrefix(source, workload.Prefix) {
		return input.Workload(source, c.stated)
	}
	name, r, err := a.openOr(source, "check the path; for a published model write workload:NAME, listed by: neuroshard list workloads")
	if err != nil {
		return input.Unread(source), nil, err
	}
	defer r.Close()
	opt := c.stated.Options()
	opt.MaxTables, opt.Optimizers = c.maxTables, optimizersOf(c.planned)
	file, err := input.Tables(name, r, opt)
	return file, nil, err
}

// optimizersOf returns the optimizers that a plan states, by table. The plan may be nil.
func optimizersOf(pl *plan.Plan) map[string]problem.Optimizer {
	if pl == nil {
		return nil
	}
	all := make(map[string]problem.Optimizer, len(pl.Tables))
	for i := range pl.Tables {
		all[pl.Tables[i].Name] = pl.Tables[i].Optimizer
	}
	return all
}

// readTopology reads the file of --cluster. Beside an error it returns what could be
// read, so that input.Check reports the rest.
func readTopology(a *app, c *clusterFlags) (input.TopologyFile, error) {
	name, r, err := a.open(c.topology)
	if err != nil {
		file, _ := input.Topology(name, input.Broken{})
		return file, err
	}
	defer r.Close()
	return input.Topology(name, r, c.own...)
}

// faulty returns an input error that has no place in a file.
func faulty(message, hint string) error {
	return &input.Errors{List: []input.Error{{Message: message, Hint: hint}}}
}

// unreadable returns the error of a file that cannot be opened. The hint is for a file that
// does not exist.
func unreadable(path string, err error, hint string) error {
	if !errors.Is(err, os.ErrNotExist) {
		hint = ""
	}
	message := err.Error()
	if pathErr := (*os.PathError)(nil); errors.As(err, &pathErr) {
		message = pathErr.Err.Error()
	}
	return &input.Errors{List: []input.Error{{File: path, Message: message, Hint: hint}}}
}
