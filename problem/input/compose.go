package input

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// DefaultBatch is the global batch, in samples, of a problem whose batch nobody states:
// the batch of the NeuroShard paper and of its prototype's data.
const DefaultBatch = 65536

// Cluster is all of a problem but its tables.
type Cluster struct {
	Topology hardware.Topology
	// Batch is the global batch in samples; 0: none is stated.
	Batch int
	// Accounting says which bytes count as memory.
	Accounting problem.Accounting
	// CommPrecision is the number format of the vectors that devices send each other.
	CommPrecision problem.Precision
	// Engine is the engine that is to run the plan; empty: any.
	Engine problem.Engine
	// LaneRule says how kernels choose the lanes of a bag.
	LaneRule problem.LaneRule

	// devices and hosts are the memories that a topology file states of them, one by one.
	devices, hosts oneByOne
	// any says that the cluster is AnyCluster, which stands for one that is not known.
	any bool
}

// AnyCluster returns a cluster that is large enough for all tables: the most devices,
// with the most memory, and host memory unless the engine uses none. Tables can be checked on it before their cluster is known.
func AnyCluster() Cluster {
	profiles := hardware.Profiles()
	return Cluster{Topology: hardware.Topology{Profile: profiles[len(profiles)-1], Memory: hardware.MaxMemory, Devices: hardware.MaxDevices, ReserveShare: hardware.NoReserve, HostMemory: hardware.MaxMemory}, any: true}
}

// Overrides are the fields of a problem that a user states beside files, by flags. A
// field that is nil is not stated.
type Overrides struct {
	// DevicesPerHost replaces that of the file or of the plan; 0 is all devices. If nobody states
	// it, the hosts are Topology.OnUsualHosts.
	Devices, DevicesPerHost *int
	// Device is the name of a device profile.
	Device                           *string
	Memory, ReserveFixed, HostMemory *unit.Bytes
	// DeviceMemories and HostMemories are the memories of devices and of hosts that differ, as
	// hardware.ParseMemories reads them.
	DeviceMemories, HostMemories *string
	// NetworkBandwidth is a device's share of the network between hosts. NVLinkDomain is the
	// number of devices that the links inside hosts join.
	NetworkBandwidth *unit.Bandwidth
	NVLinkDomain     *int
	// Replicas is the number of sharding groups of 2D parallelism; all other fields are those of
	// the whole cluster. SyncEvery is the number of steps between all-reduces of the replicas.
	Replicas, SyncEvery *int
	// InterHostAllReduce says that the devices of a sharding group are consecutive.
	InterHostAllReduce *bool
	// LinkBandwidth, HBMBandwidth and HostLinkBandwidth are hardware.Bandwidths.
	LinkBandwidth, HBMBandwidth, HostLinkBandwidth *unit.Bandwidth
	// BackwardMultiplier and WeightedBackwardMultiplier are hardware.Multipliers.
	BackwardMultiplier, WeightedBackwardMultiplier *float64
	ReserveShare                                   *float64
	// Accounting is the name of an accounting.
	Accounting *string
	// CommPrecision is the name of a precision.
	CommPrecision *string
	// Engine is the name of an engine.
	Engine *string
	// Lanes is the name of a lane rule.
	Lanes *string
	// MinWidth is the width of the narrowest slice of columns allowed, for all tables.
	MinWidth *int
	// Batch is the global batch in samples.
	Batch *int
	// Dim is the number of columns of tables whose file states none.
	Dim *int
	// Optimizer is the name of the optimizer of tables whose file states none.
	Optimizer *string
}

// Options returns the options to read a file of tables with. A Dim or an Optimizer that is wrong
// is left for Parts.Problem to report.
func (o *Overrides) Options() Options {
	var opt Options
	if o.Dim != nil {
		if opt.DefaultDim = *o.Dim; CheckDim(*o.Dim) != nil {
			opt.DefaultDim = -1
		}
	}
	if o.Optimizer != nil {
		optimizer, _ := problem.ParseOptimizer(*o.Optimizer)
		opt.Optimizer = &optimizer
	}
	return opt
}

// Parts are what a problem is composed of.
type Parts struct {
	// Tables are the tables, and TablesErr is the error of reading them, or nil.
	Tables    TableFile
	TablesErr error
	// Workload is the cluster of the workload that the tables come from; nil if they
	// come from a file.
	Workload *Cluster
	// Topology is a topology file, or nil, and TopologyErr is the error of reading it,
	// or nil.
	Topology    *TopologyFile
	TopologyErr error
	// Fallback is a cluster that takes the place of the workload's and of the
	// scenario's, such as the cluster of a plan; nil: there is none.
	Fallback *Cluster
	// Overrides are the fields that flags state.
	Overrides Overrides
	// Flags is what flags state of the whole training step.
	Flags StepOverrides
	// Own are device profiles to know beside those of package hardware, such as the
	// device of a cost model. The first is the device if none is stated.
	Own []hardware.Profile
}

// Problem composes a problem, and returns it with the warnings of its tables and of what
// had to be assumed. The cluster is that of the topology file; without such a file it is the
// fallback; without a fallback it is that of the scenario or workload. The overrides
// replace single fields of the cluster.
//
// The error is nil or an *Errors with all that is wrong with the parts: TablesErr and
// TopologyErr, wrong overrides, fields that nobody states, and what Check finds. Beside
// an error the problem is incomplete and must not be used.
func (p *Parts) Problem() (*problem.Problem, []string, error) {
	base, described := p.base()
	// A topology file or scenario can leave out fields, and so can flags alone; a
	// workload's cluster and the fallback are complete.
	complete := base != nil && described == nil
	if base == nil {
		base = &Cluster{Topology: hardware.Topology{}, Batch: p.Tables.Batch}
	}
	var file TopologyFile
	sources := []Source{p.Tables}
	if described != nil {
		file = *described
		sources = append(sources, file)
	}
	if base.Topology.Profile.Name == "" && len(p.Own) > 0 && p.Overrides.Device == nil && !file.Has("device") {
		base.Topology.Profile = p.Own[0]
	}
	base.Topology.Fixed = p.Tables.Fixed // those of an old plan belong to the tables that it was made of
	grown := p.outgrown(base.Topology)
	overrideErr := p.override(base)
	p.giveHosts(base, file, grown)
	overrideErr = Join(overrideErr, giveMemories(&p.Overrides, base, file))
	var missingErr error
	if !complete && p.TopologyErr == nil {
		missingErr = p.missing(base.Topology, file)
	}
	composed := &problem.Problem{Tables: p.Tables.Tables, Topology: base.Topology, Batch: base.Batch, Accounting: base.Accounting, CommPrecision: base.CommPrecision, Engine: base.Engine, LaneRule: base.LaneRule}
	composed.Tables = p.Overrides.widened(composed.Tables)
	warnings := p.Tables.Warnings
	if base.Batch == 0 && p.Overrides.Batch == nil {
		composed.Batch = DefaultBatch
		warnings = append(slices.Clip(warnings), fmt.Sprintf("no batch is stated: a global batch of %d samples is assumed", DefaultBatch))
	}
	warnings = append(append(slices.Clip(warnings), p.otherBatch(described, composed.Batch)...), uneven(composed)...)
	base.Batch = composed.Batch
	replicasErr := replicate(p, base, file)
	composed.Topology, composed.Batch = base.Topology, base.Batch
	whole, stepErr := p.step()
	doubts, fitErr := p.fit(&whole, composed)
	warnings = append(append(slices.Clip(warnings), whole.warnings...), doubts...)
	judged := *composed
	if overrideErr != nil || missingErr != nil {
		judged.Topology = p.filled(judged.Topology, file)
	}
	return composed, warnings, Join(p.TablesErr, p.TopologyErr, overrideErr, replicasErr, missingErr, stepErr, fitErr, Check(&judged, sources...))
}

// StatesAccounting reports whether a flag or the topology file says which bytes count against a
// device's memory. If neither does, the problem of an old plan counts those that the plan counts.
func (p *Parts) StatesAccounting() bool {
	return p.Overrides.Accounting != nil || p.Topology != nil && p.Topology.Has("accounting")
}

// otherBatch returns the warning of a fallback whose batch counts in place of that of the tables.
// described is the topology file that takes the fallback's place, or nil.
func (p *Parts) otherBatch(described *TopologyFile, batch int) []string {
	own := p.Tables.Batch
	if p.Fallback == nil || described != nil || p.Overrides.Batch != nil || own == 0 || own == batch {
		return nil
	}
	return []string{fmt.Sprintf("the tables state a batch of %d samples, but the batch of the old plan's cluster counts, %d: state the batch (--batch) to change it", own, batch)}
}

// uneven returns warnings of hosts that are not full, and of a batch that the devices cannot
// share evenly.
func uneven(p *problem.Problem) []string {
	n := p.Topology.Devices
	if n <= 0 {
		return nil // an error says so
	}
	var all []string
	if per := p.Topology.PerHost(); n%per != 0 {
		all = append(all, fmt.Sprintf("the last of %d hosts has only %d of %d devices: no table is table_row_wise or grid there, and launchers start the same number of processes on every host", p.Topology.Hosts(), n%per, per))
	}
	if rest := p.Batch % n; rest != 0 {
		samples := "samples"
		if p.Batch == 1 {
			samples = "sample"
		}
		all = append(all, fmt.Sprintf("the batch of %d %s does not divide by %d devices: training gives every device the same number of samples, so state %d or %d", p.Batch, samples, n, max(n, p.Batch-rest), max(n, p.Batch-rest)+n))
	}
	return all
}

// base returns the cluster to start from, which is nil if only flags state it, and the
// topology file or scenario that describes that cluster, or nil.
func (p *Parts) base() (*Cluster, *TopologyFile) {
	described := p.Topology
	if described == nil && p.Fallback == nil {
		described = p.Tables.Cluster
	}
	switch {
	case described != nil:
		copied := described.Cluster
		copied.Batch = cmp.Or(copied.Batch, p.Tables.Batch)
		return &copied, described
	case p.Fallback != nil:
		copied := *p.Fallback
		copied.unite()
		return &copied, nil
	case p.Workload != nil:
		copied := *p.Workload
		return &copied, nil
	}
	return nil, nil
}

// outgrown reports whether the fallback is one host that may not be full, and flags state more devices.
func (p *Parts) outgrown(t hardware.Topology) bool {
	devices := p.Overrides.Devices
	return p.Fallback != nil && devices != nil && *devices > t.Devices && t.PerHost() == t.Devices && t.Devices <= hardware.UsualPerHost
}

// giveHosts puts the devices on the usual hosts if nobody states the hosts.
func (p *Parts) giveHosts(c *Cluster, file TopologyFile, outgrown bool) {
	t := &c.Topology
	if c.any || p.Overrides.DevicesPerHost != nil || file.Has("devices_per_host") || t.DevicesPerHost > 0 && !outgrown {
		return
	}
	if outgrown {
		t.DevicesPerHost = 0
	}
	*t = t.OnUsualHosts()
}

// override replaces the fields of the cluster that flags state. Errors come in the order of the
// flags' names.
func (p *Parts) override(c *Cluster) error {
	o, t := &p.Overrides, &c.Topology
	var errs []error
	replace(&t.Devices, o.Devices)
	replace(&t.DevicesPerHost, o.DevicesPerHost)
	replace(&t.Memory, o.Memory)
	if o.ReserveShare != nil {
		t.ReserveShare = hardware.ReserveShare(*o.ReserveShare)
	}
	replace(&t.ReserveFixed, o.ReserveFixed)
	replace(&t.HostMemory, o.HostMemory)
	replace(&t.NetworkBandwidth, o.NetworkBandwidth)
	replace(&t.NVLinkDomain, o.NVLinkDomain)
	replace(&t.Bandwidths.Links, o.LinkBandwidth)
	replace(&t.Bandwidths.HBM, o.HBMBandwidth)
	replace(&t.Bandwidths.HostLink, o.HostLinkBandwidth)
	multiply(&t.Multipliers.Backward, "--backward-multiplier", o.BackwardMultiplier, &errs)
	multiply(&t.Multipliers.WeightedBackward, "--weighted-backward-multiplier", o.WeightedBackwardMultiplier, &errs)
	replace(&t.Replicas, o.Replicas)
	replace(&t.SyncEvery, o.SyncEvery)
	replace(&t.InterHostAllReduce, o.InterHostAllReduce)
	replace(&c.Batch, o.Batch)
	choose(&c.Accounting, "--accounting", o.Accounting, problem.ParseAccounting, &errs)
	choose(&c.CommPrecision, "--comm-precision", o.CommPrecision, problem.ParsePrecision, &errs)
	choose(&c.Engine, "--for", o.Engine, problem.ParseEngine, &errs)
	if c.any && o.HostMemory == nil && c.Engine.Rules().OnlyHBM {
		t.HostMemory = 0
	}
	choose(&c.LaneRule, "--lanes", o.Lanes, problem.ParseLaneRule, &errs)
	if o.MinWidth != nil && !validWidth(*o.MinWidth) {
		errs = append(errs, flagError(fmt.Sprintf("--min-width: %d is not a multiple of %d from %d to %d", *o.MinWidth, problem.ColumnGranule, problem.ColumnGranule, problem.MaxDim), widthHint))
	}
	if o.Device != nil {
		var err error
		if t.Profile, err = p.profile(*o.Device); err != nil {
			errs = append(errs, flagError("--device: "+err.Error(), profileHint))
		}
	}
	if o.Dim != nil {
		errs = append(errs, CheckDim(*o.Dim))
	}
	choose(new(problem.Optimizer), "--optimizer", o.Optimizer, problem.ParseOptimizer, &errs)
	if o.Memory != nil && *o.Memory == 0 {
		errs = append(errs, flagError("--memory: 0 is no memory", "leave the flag out for the profile's own"))
	}
	return Join(errs...)
}

// choose sets a field to the value that a flag names, if the flag is stated.
func choose[T any](field *T, flag string, stated *string, parse func(string) (T, error), errs *[]error) {
	if stated == nil {
		return
	}
	value, err := parse(*stated)
	if err != nil {
		*errs = append(*errs, flagError(flag+": "+err.Error(), ""))
	}
	*field = value
}

// multiply sets a factor to the one that a flag states.
func multiply(field *float64, flag string, stated *float64, errs *[]error) {
	if stated == nil {
		return
	}
	if !(*stated > 0 && *stated <= hardware.MaxMultiplier) {
		*errs = append(*errs, flagError(fmt.Sprintf("%s: %v is not above 0 and at most %d", flag, *stated, hardware.MaxMultiplier), multiplierHint))
		return
	}
	*field = *stated
}

func validWidth(width int) bool {
	return width > 0 && width <= problem.MaxDim && width%problem.ColumnGranule == 0
}

// widened returns the tables with slices of at least MinWidth columns. A table that is
// narrower stays whole, and a table that states a larger width keeps it.
func (o *Overrides) widened(tables []problem.Table) []problem.Table {
	if o.MinWidth == nil || !validWidth(*o.MinWidth) {
		return tables
	}
	wide := slices.Clone(tables)
	for i := range wide {
		c := &wide[i].Constraint
		c.MinWidth = max(c.MinWidth, min(*o.MinWidth, wide[i].Dim))
	}
	return wide
}

// replace sets a field to the value that is stated, if one is.
func replace[T any](field, stated *T) {
	if stated != nil {
		*field = *stated
	}
}

// profile returns the device profile of that name.
func (p *Parts) profile(name string) (hardware.Profile, error) {
	for _, own := range p.Own {
		if own.Name == name {
			return own, nil
		}
	}
	known, err := hardware.ByName(name)
	if err != nil && len(p.Own) > 0 {
		err = fmt.Errorf("%w; or %s, the model's own", err, p.Own[0].Name)
	}
	return known, err
}

// CheckDim returns nil, or an *Errors that says what is wrong with the value of --dim, a
// number of columns.
func CheckDim(dim int) error {
	switch {
	case dim < 1:
		return flagError(fmt.Sprintf("--dim: %d is not above 0", dim), "dim is the number of columns of a table")
	case dim > problem.MaxDim:
		return flagError(fmt.Sprintf("--dim: %d is above %d", dim, problem.MaxDim), "dim is the number of columns of a table")
	case dim%problem.ColumnGranule != 0:
		return flagError(fmt.Sprintf("--dim: %d is not a multiple of %d", dim, problem.ColumnGranule), "pad the tables")
	}
	return nil
}

// missing reports the required fields that neither the file nor a flag states.
func (p *Parts) missing(t hardware.Topology, file TopologyFile) error {
	var errs []error
	if t.Devices == 0 && !p.statesDevices(file) {
		errs = append(errs, flagError("the number of devices is missing", "add --devices N, or describe the cluster in a file: --topology cluster.yaml"))
	}
	if t.Profile.Name == "" && p.Overrides.Device == nil {
		errs = append(errs, flagError("the device profile is missing", "add --device PROFILE, one of "+strings.Join(hardware.Names(), ", ")))
	}
	return Join(errs...)
}

// statesDevices reports whether the file or a flag states the number of devices, even if
// it is a wrong number.
func (p *Parts) statesDevices(file TopologyFile) bool {
	return file.Has("devices") || p.Overrides.Devices != nil
}

// filled replaces fields that were reported as missing or wrong with valid values, so
// that Check can report the rest.
func (p *Parts) filled(t hardware.Topology, file TopologyFile) hardware.Topology {
	if t.Profile.Name == "" {
		largest := AnyCluster().Topology
		t.Profile, t.Memory = largest.Profile, cmp.Or(t.Memory, largest.Memory)
	}
	if t.Devices == 0 && !p.statesDevices(file) {
		t.Devices, t.DevicesPerHost = hardware.MaxDevices, min(t.DevicesPerHost, 0)
	}
	return t
}

// flagError returns the error of a flag, which has no place in a file.
func flagError(message, hint string) error {
	return &Errors{List: []Error{{Message: message, Hint: hint}}}
}
