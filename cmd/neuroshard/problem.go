package main

import (
	"errors"
	"fmt"
	"os"
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
	"github.com/neuroshard/neuroshard/unit"
)

// problem.go reads the parts of a problem, tables, topology file and flags, and has
// package input compose them.

// clusterFlags are the flags that describe a cluster and its batch.
type clusterFlags struct {
	set *pflag.FlagSet

	topology                     string
	devices, perHost, batch, dim int
	device                       string
	memory, reserveFixed         size
	hostMemory                   size
	deviceMemories, hostMemories string
	network, link, hbm, hostLink bandwidth
	domain                       int
	replicas                     replicasFlag
	// single says that there is one sharding group, whatever flags and files say of the all-reduce.
	single                    bool
	interHost                 bool
	syncEvery                 int
	accounting, commPrecision string
	engine, lanes             string
	optimizer                 string
	minWidth                  int
	reserveShare              float64
	backward, weighted        float64

	// step has the flags of the whole step, which plan and step register.
	step stepFlags

	// maxTables is the most tables that a file may have (input.Options.MaxTables). If it is 0, only
	// the limit of package input holds.
	maxTables int

	// own holds the profile of the cost model to plan with if package hardware does not
	// have it. It is the device if none is stated.
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

func (c *clusterFlags) register(cmd *cobra.Command) {
	c.set = cmd.Flags()
	f := cmd.Flags()
	defer manual.Section(f, clusterSection)()
	f.StringVar(&c.topology, "topology", "", "read the cluster from this YAML or JSON `file`; other flags override it")
	f.IntVar(&c.devices, "devices", 0, "number of devices")
	f.StringVar(&c.device, "device", "", "device `profile`; list them with: neuroshard devices")
	f.IntVar(&c.perHost, "devices-per-host", 0, fmt.Sprintf("devices that share a host's fast links (default: %d; all, if they are fewer, have no network between hosts, or are those of your own model)", hardware.UsualPerHost))
	f.Var(&c.memory, "memory", "memory of a device, such as 40GiB (default: the profile's)")
	f.StringVar(&c.deviceMemories, "device-memories", "", "memory of each device if devices differ: `sizes` in order, such as 40GiB,80GiB for two devices, or by number, such as 0-3=40GiB, the others with --memory")
	f.Float64Var(&c.reserveShare, "reserve-share", hardware.DefaultReserveShare, "`share` of each device's memory to keep free of tables")
	f.Var(&c.reserveFixed, "reserve-fixed", "memory of each device to keep free on top of the share")
	f.Var(&c.hostMemory, "host-memory", "memory of a full host that the tables of its devices may use, such as 1TiB (default: none)")
	f.StringVar(&c.hostMemories, "host-memories", "", "memory of each host if hosts differ: `sizes` in order or by number, such as 0=512GiB, the others with --host-memory")
	f.Var(&c.network, "network-bandwidth", "a device's share of the network between hosts, such as 50GB/s (default: the profile's)")
	f.IntVar(&c.domain, "nvlink-domain", 0, "devices that the links inside hosts join, where they join several hosts, such as 72 (default: those of a host)")
	f.Var(&c.link, "link-bandwidth", "bandwidth of a device to the others of its host, with --model torchrec (default: TorchRec's, 600 GiB/s)")
	f.Var(&c.hbm, "hbm-bandwidth", "bandwidth of a device's memory, with --model torchrec (default: TorchRec's, 897 GiB/s)")
	f.Var(&c.hostLink, "host-link-bandwidth", "bandwidth of a device to its host's memory, with --model torchrec (default: TorchRec's, 32 GiB/s)")
	f.Float64Var(&c.backward, "backward-multiplier", 2, "time of the kernels of the backward over that of the forward, with --model torchrec: TorchRec's bwd_compute_multiplier")
	f.Float64Var(&c.weighted, "weighted-backward-multiplier", 1, "factor of the time of the backward for weighted lookups, with --model torchrec: TorchRec's weighted_feature_bwd_compute_multiplier")
	f.Var(&c.replicas, "replicas", "`sharding groups` of 2D parallelism, each with all tables and a part of the batch; all other flags describe the whole cluster; plan also takes auto, for the groups of the cheapest step (default: 1)")
	f.IntVar(&c.syncEvery, "sync-every", 1, "steps from one all-reduce of the replicas' weights and optimizer states to the next")
	f.BoolVar(&c.interHost, "inter-host-allreduce", false, "the devices of a sharding group are consecutive, so the all-reduce of the replicas takes the network: TorchRec's use_inter_host_allreduce (default: the replicas of a shard are neighbours)")
	f.StringVar(&c.accounting, "accounting", problem.CountAll.String(), "which `bytes` count against a device's memory: all; or torchrec, those that TorchRec's storage estimator counts in the newest release that is known, or torchrec-1.6, in another release")
	f.StringVar(&c.commPrecision, "comm-precision", problem.FP32.String(), "number `format` of the vectors that devices send each other: fp32, fp16 or bf16")
	f.StringVar(&c.engine, "for", "", "the `engine` that is to run the plan, torchrec or hugectr: the plan keeps to the engine's rules, so the engine trains it, stores checkpoints of it and loads them (default: any engine)")
	f.StringVar(&c.lanes, "lanes", problem.LanesByWidest.String(), "which table sets the `lanes` of a bag in the estimates: widest, the widest of its operator; or own, each table its own, for those who measured that")
	f.IntVar(&c.minWidth, "min-width", 0, "no slice of a table is narrower than this number of columns, a multiple of 4 (default: 4)")
	f.IntVar(&c.batch, "batch", 0, fmt.Sprintf("global batch in samples (default: the tables' own, or %d)", input.DefaultBatch))
	f.StringVar(&c.optimizer, "optimizer", "", "`name` of the optimizer of tables that state none: "+strings.Join(problem.Optimizers(), ", ")+" (default: sgd, which keeps no state, with a warning)")
	f.IntVar(&c.dim, "dim", 0, "columns of tables in the prototype's format, which does not state them")
	complete(cmd, "device", hardware.Names)
	complete(cmd, "accounting", problem.ChosenAccountings)
	complete(cmd, "comm-precision", problem.Precisions)
	complete(cmd, "for", problem.Engines)
	complete(cmd, "lanes", problem.LaneRules)
	complete(cmd, "optimizer", problem.Optimizers)
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
	parts.Overrides, parts.Own = c.overrides(), c.own
	if c.replicas.auto {
		err := faulty("--replicas auto: only plan chooses the number of sharding groups", "state the number")
		return loaded{}, err
	}
	if c.topology != "" {
		file, err := readTopology(a, c)
		parts.Topology, parts.TopologyErr = &file, err
	}
	if c.step.flags != nil {
		parts.Flags = c.step.overrides(a, c)
	}
	p, warnings, err := parts.Problem()
	if err != nil {
		return loaded{problem: p, warnings: warnings}, err
	}
	in := parts.Step()
	return loaded{p, in, warnings, parts.StatesAccounting()}, c.step.measuredWith(a, c, p, in)
}

// overrides returns the fields that flags state.
func (c *clusterFlags) overrides() input.Overrides {
	if c.single {
		one, o := 1, *c
		o.single, o.replicas = false, replicasFlag{}
		all := o.overrides()
		all.Replicas, all.SyncEvery, all.InterHostAllReduce = &one, nil, nil
		return all
	}
	return input.Overrides{
		Devices: stated(c, "devices", &c.devices), DevicesPerHost: stated(c, "devices-per-host", &c.perHost),
		Device: stated(c, "device", &c.device),
		Memory: stated(c, "memory", (*unit.Bytes)(&c.memory)), HostMemory: stated(c, "host-memory", (*unit.Bytes)(&c.hostMemory)),
		DeviceMemories: stated(c, "device-memories", &c.deviceMemories), HostMemories: stated(c, "host-memories", &c.hostMemories),
		NetworkBandwidth: stated(c, "network-bandwidth", (*unit.Bandwidth)(&c.network)), NVLinkDomain: stated(c, "nvlink-domain", &c.domain),
		Replicas: stated(c, "replicas", &c.replicas.n), SyncEvery: stated(c, "sync-every", &c.syncEvery), InterHostAllReduce: stated(c, "inter-host-allreduce", &c.interHost),
		LinkBandwidth: stated(c, "link-bandwidth", (*unit.Bandwidth)(&c.link)), HBMBandwidth: stated(c, "hbm-bandwidth", (*unit.Bandwidth)(&c.hbm)),
		HostLinkBandwidth:  stated(c, "host-link-bandwidth", (*unit.Bandwidth)(&c.hostLink)),
		BackwardMultiplier: stated(c, "backward-multiplier", &c.backward), WeightedBackwardMultiplier: stated(c, "weighted-backward-multiplier", &c.weighted),
		ReserveShare: stated(c, "reserve-share", &c.reserveShare), ReserveFixed: stated(c, "reserve-fixed", (*unit.Bytes)(&c.reserveFixed)),
		Accounting: stated(c, "accounting", &c.accounting), CommPrecision: stated(c, "comm-precision", &c.commPrecision),
		Engine: stated(c, "for", &c.engine), Lanes: stated(c, "lanes", &c.lanes), MinWidth: stated(c, "min-width", &c.minWidth),
		Batch: stated(c, "batch", &c.batch), Dim: stated(c, "dim", &c.dim), Optimizer: stated(c, "optimizer", &c.optimizer),
	}
}

// countAs has the problem count the bytes that the plan counts, unless a flag or the topology
// file states which.
func (l *loaded) countAs(pl *plan.Plan) {
	if !l.accounting {
		l.problem.Accounting = pl.Cluster.Accounting()
	}
}

// stated returns the value of a flag, or nil if the flag is not given.
func stated[T any](c *clusterFlags, flag string, value *T) *T {
	if !c.set.Changed(flag) {
		return nil
	}
	return value
}

// readTables reads the tables of a file, "-" or workload:NAME. The cluster is that of the
// workload, or nil.
func readTables(a *app, source string, c *clusterFlags) (input.TableFile, *input.Cluster, error) {
	if strings.HasPrefix(source, workload.Prefix) {
		overrides := c.overrides()
		return input.Workload(source, &overrides)
	}
	name, r, err := a.openOr(source, "check the path; for a published model write workload:NAME, listed by: neuroshard workloads")
	if err != nil {
		return input.Unread(source), nil, err
	}
	defer r.Close()
	overrides := c.overrides()
	opt := overrides.Options()
	opt.MaxTables = c.maxTables
	file, err := input.Tables(name, r, opt)
	return file, nil, err
}

// readTopology reads the file of --topology. Beside an error it returns what could be
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
