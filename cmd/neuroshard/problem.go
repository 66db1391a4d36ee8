package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/unit"
)

// problem.go composes a problem: tables from a file or a workload, and the
// cluster from the workload or scenario, a topology file and flags, in that order,
// each overriding single fields of what comes before it.

// defaultBatch is the global batch where neither tables, topology nor flags
// state one: the batch of the paper and of its prototype's data.
const defaultBatch = 65536

// clusterFlags are the flags that describe a cluster and its batch.
type clusterFlags struct {
	set *pflag.FlagSet

	topology                     string
	devices, perHost, batch, dim int
	device                       string
	memory, reserveFixed         size
	hostMemory                   size
	commPrecision                string
	reserveShare                 float64

	// own is the profile of the cost model to plan with, where that is not one of
	// package hardware's. It is the device where none is stated.
	own []hardware.Profile
}

// setModel adds the profile of the model's device if no built-in profile has its name. The
// model may be nil.
func (c *clusterFlags) setModel(m *cost.Model) {
	if m == nil {
		return
	}
	if hw := m.Hardware(); !hardware.Known(hw.Name) {
		c.own = []hardware.Profile{hw}
	}
}

// profile returns the profile of that name.
func (c *clusterFlags) profile(name string) (hardware.Profile, error) {
	for _, p := range c.own {
		if p.Name == name {
			return p, nil
		}
	}
	p, err := hardware.ByName(name)
	if err != nil && len(c.own) > 0 {
		err = fmt.Errorf("%w; or %s, the model's own", err, c.own[0].Name)
	}
	return p, err
}

func (c *clusterFlags) register(cmd *cobra.Command) {
	c.set = cmd.Flags()
	f := cmd.Flags()
	f.StringVar(&c.topology, "topology", "", "read the cluster from this YAML or JSON `file`; other flags override it")
	f.IntVar(&c.devices, "devices", 0, "number of devices")
	f.StringVar(&c.device, "device", "", "device `profile`; list them with: neuroshard devices")
	f.IntVar(&c.perHost, "devices-per-host", 0, "devices that share a host's fast links (default: all)")
	f.Var(&c.memory, "memory", "memory of a device, such as 40GiB (default: the profile's)")
	f.Float64Var(&c.reserveShare, "reserve-share", hardware.DefaultReserveShare, "`share` of each device's memory to keep free of tables")
	f.Var(&c.reserveFixed, "reserve-fixed", "memory of each device to keep free on top of the share")
	f.Var(&c.hostMemory, "host-memory", "memory of a full host that the tables of its devices may use, such as 1TiB (default: none)")
	f.StringVar(&c.commPrecision, "comm-precision", problem.FP32.String(), "number `format` of the vectors that devices send each other: fp32, fp16 or bf16")
	f.IntVar(&c.batch, "batch", 0, fmt.Sprintf("global batch in samples (default: the tables' own, or %d)", defaultBatch))
	f.IntVar(&c.dim, "dim", 0, "columns of tables in the prototype's format, which does not state them")
	complete(cmd, "device", hardware.Names)
	complete(cmd, "comm-precision", problem.Precisions)
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
	problem  *problem.Problem
	warnings []string
}

// loadProblem composes the problem of planning the tables of source, a file, "-" or
// workload:NAME. fallback is the cluster to start from if there is neither a
// workload's nor a topology file; nil: flags have to say it.
func loadProblem(a *app, source string, c *clusterFlags, fallback *cluster) (loaded, error) {
	tables, base, err := readTables(a, source, c)
	return composeProblem(a, tables, base, err, c, fallback)
}

// composeProblem does what loadProblem does, for tables that are read: base is their workload's
// cluster, and err1 what was wrong with them.
func composeProblem(a *app, tables input.TableFile, base *cluster, err1 error, c *clusterFlags, fallback *cluster) (loaded, error) {
	topology, err2 := readTopology(a, c)
	// described: a file says what the cluster is, the topology's or a scenario.
	described := c.topology != ""
	if tables.Cluster != nil && !described && fallback == nil {
		topology, described = *tables.Cluster, true
	}
	switch {
	case described:
		base = &cluster{topology: topology.Topology, batch: firstOf(topology.Batch, tables.Batch), commPrecision: topology.CommPrecision}
	case fallback != nil:
		base = fallback
	}
	whole := base != nil && !described
	if base == nil {
		base = &cluster{topology: hardware.Topology{ReserveShare: hardware.DefaultReserveShare}, batch: tables.Batch}
	}
	if base.topology.Profile.Name == "" && len(c.own) > 0 && !c.set.Changed("device") && !topology.Has("device") {
		base.topology.Profile = c.own[0]
	}
	err3 := c.override(base)
	var err4 error
	if !whole && err2 == nil {
		err4 = c.missing(base.topology, topology)
	}
	l := loaded{problem: &problem.Problem{Tables: tables.Tables, Topology: base.topology, Batch: base.batch, Accounting: base.accounting, CommPrecision: base.commPrecision}, warnings: tables.Warnings}
	if base.batch == 0 && !c.set.Changed("batch") {
		l.problem.Batch = defaultBatch
		l.warnings = append(slices.Clip(l.warnings), fmt.Sprintf("no batch is stated: a global batch of %d samples is assumed", defaultBatch))
	}

	sources := []input.Source{tables}
	if described {
		sources = append(sources, topology)
	}
	judged := *l.problem
	if err3 != nil || err4 != nil {
		judged.Topology = c.complete(judged.Topology, topology)
	}
	return l, input.Join(err1, err2, err3, err4, input.Check(&judged, sources...))
}

// complete replaces fields that were reported as missing or wrong with valid values, so
// that the rest can be checked.
func (c *clusterFlags) complete(t hardware.Topology, file input.TopologyFile) hardware.Topology {
	if t.Profile.Name == "" {
		other := anyCluster()
		t.Profile, t.Memory = other.Profile, cmp.Or(t.Memory, other.Memory)
	}
	if t.Devices == 0 && !c.states("devices", file) {
		t.Devices, t.DevicesPerHost = hardware.MaxDevices, min(t.DevicesPerHost, 0)
	}
	return t
}

// states reports whether a flag or the topology file states the number of
// devices, or another key, be it a wrong one.
func (c *clusterFlags) states(key string, file input.TopologyFile) bool {
	return file.Has(key) || c.set.Changed(strings.ReplaceAll(key, "_", "-"))
}

// anyCluster returns a cluster that is large enough for all tables.
func anyCluster() hardware.Topology {
	profiles := hardware.Profiles()
	return hardware.Topology{Profile: profiles[len(profiles)-1], Memory: hardware.MaxMemory, Devices: hardware.MaxDevices}
}

// cluster is a topology and its batch; 0: none is stated.
type cluster struct {
	topology hardware.Topology
	batch    int
	// accounting is that of a workload; a file's tables count all memory.
	accounting problem.Accounting
	// commPrecision is that of what devices send each other.
	commPrecision problem.Precision
}

// readTables reads the tables, and the default cluster of a workload.
func readTables(a *app, source string, c *clusterFlags) (input.TableFile, *cluster, error) {
	if strings.HasPrefix(source, workload.Prefix) {
		w, err := workload.ByName(source)
		if err != nil {
			return unread(source), &cluster{topology: anyCluster()}, faulty(err.Error(), "list them with: neuroshard workloads")
		}
		p := w.Problem()
		file := input.TableFile{Tables: p.Tables, Batch: p.Batch}
		if w.AssumedDistribution {
			file.Warnings = []string{assumed(w)}
		}
		if c.dim > 0 {
			file.Warnings = append(file.Warnings, input.UnusedDim(c.dim))
		}
		return file, &cluster{p.Topology, p.Batch, p.Accounting, p.CommPrecision}, nil
	}
	name, r, err := a.open(source)
	if err != nil {
		return unread(source), nil, err
	}
	defer r.Close()
	options := input.Options{DefaultDim: c.dim}
	if c.set.Changed("dim") && dimFault(c.dim) != nil {
		options.DefaultDim = -1 // override reports it
	}
	file, err := input.Tables(name, r, options)
	return file, nil, err
}

// unread returns the file of tables that could not be opened, so that
// input.Check reports the rest.
func unread(name string) input.TableFile {
	file, _ := input.Tables(name, broken{}, input.Options{})
	return file
}

func readTopology(a *app, c *clusterFlags) (input.TopologyFile, error) {
	if c.topology == "" {
		return input.TopologyFile{}, nil
	}
	name, r, err := a.open(c.topology)
	if err != nil {
		file, _ := input.Topology(name, broken{})
		return file, err
	}
	defer r.Close()
	return input.Topology(name, r, c.own...)
}

// override sets what flags state in c.
func (c *clusterFlags) override(base *cluster) error {
	t := &base.topology
	var errs []error
	c.set.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "devices":
			t.Devices = c.devices
		case "device":
			var err error
			if t.Profile, err = c.profile(c.device); err != nil {
				errs = append(errs, faulty("--device: "+err.Error(), "describe them with: neuroshard devices"))
			}
		case "devices-per-host":
			t.DevicesPerHost = c.perHost
		case "memory":
			t.Memory = unit.Bytes(c.memory)
			if c.memory == 0 {
				errs = append(errs, faulty("--memory: 0 is no memory", "leave the flag out for the profile's own"))
			}
		case "reserve-share":
			t.ReserveShare = c.reserveShare
		case "reserve-fixed":
			t.ReserveFixed = unit.Bytes(c.reserveFixed)
		case "host-memory":
			t.HostMemory = unit.Bytes(c.hostMemory)
		case "comm-precision":
			var err error
			if base.commPrecision, err = problem.ParsePrecision(c.commPrecision); err != nil {
				errs = append(errs, faulty("--comm-precision: "+err.Error(), ""))
			}
		case "batch":
			base.batch = c.batch
		case "dim":
			if err := dimFault(c.dim); err != nil {
				errs = append(errs, err)
			}
		}
	})
	return input.Join(errs...)
}

// dimFault returns the error of a wrong --dim, or nil.
func dimFault(dim int) error {
	switch {
	case dim < 1:
		return faulty(fmt.Sprintf("--dim: %d is not above 0", dim), "dim is the number of columns of a table")
	case dim > problem.MaxDim:
		return faulty(fmt.Sprintf("--dim: %d is above %d", dim, problem.MaxDim), "dim is the number of columns of a table")
	case dim%problem.ColumnGranule != 0:
		return faulty(fmt.Sprintf("--dim: %d is not a multiple of %d", dim, problem.ColumnGranule), "pad the tables")
	}
	return nil
}

// missing reports required fields that nothing states.
func (c *clusterFlags) missing(t hardware.Topology, file input.TopologyFile) error {
	var errs []error
	if t.Devices == 0 && !c.states("devices", file) {
		errs = append(errs, faulty("the number of devices is missing", "add --devices N, or describe the cluster in a file: --topology cluster.yaml"))
	}
	if t.Profile.Name == "" && !c.set.Changed("device") {
		errs = append(errs, faulty("the device profile is missing", "add --device PROFILE, one of "+strings.Join(hardware.Names(), ", ")))
	}
	return input.Join(errs...)
}

// assumed returns the warning of a workload whose access distribution is assumed.
func assumed(w workload.Workload) string {
	return fmt.Sprintf("%s states no index distribution (%s): Zipf %v is assumed for every table", w.Name, w.IndexDistribution, access.DefaultExponent)
}

// faulty returns an input error that no file states.
func faulty(message, hint string) error {
	return &input.Errors{List: []input.Error{{Message: message, Hint: hint}}}
}

func firstOf(values ...int) int {
	for _, v := range values {
		if v != 0 {
			return v
		}
	}
	return 0
}

func unreadable(path string, err error) error {
	hint := ""
	if errors.Is(err, os.ErrNotExist) {
		hint = "check the path; for a published model write workload:NAME, listed by: neuroshard workloads"
	}
	message := err.Error()
	if pathErr := (*os.PathError)(nil); errors.As(err, &pathErr) {
		message = pathErr.Err.Error()
	}
	return &input.Errors{List: []input.Error{{File: path, Message: message, Hint: hint}}}
}

// broken is a file that could not be opened.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
