package input

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/step"
)

// DefaultBatch is the global batch, in samples, of a problem whose batch nobody states:
// the batch of the NeuroShard paper and of its prototype's data.
const DefaultBatch = 65536

// Cluster is all of a problem but its tables.
type Cluster struct {
	// Problem has no tables. Its Batch is 0 if none is stated.
	problem.Problem
	// Sizes are the numbers of devices of a workload's default clusters.
	Sizes []int

	// devices and hosts are the memories that a topology file states of them, one by one.
	devices, hosts oneByOne
	// any says that the cluster is AnyCluster, which stands for one that is not known.
	any bool
}

// AnyCluster returns a cluster that is large enough for all tables: the most devices,
// with the most memory, and host memory unless the engine uses none. Tables can be checked on it before their cluster is known.
func AnyCluster() Cluster {
	profiles := hardware.Profiles()
	return Cluster{Problem: problem.Problem{Topology: hardware.Topology{Profile: profiles[len(profiles)-1], Memory: hardware.MaxMemory, Devices: hardware.MaxDevices, ReserveShare: hardware.NoReserve, HostMemory: hardware.MaxMemory}}, any: true}
}

// Overrides are the fields of a problem that a user states beside files, by flags: texts, by the keys of a
// topology file, where dense and stack name presets, and by min_width, the width of the narrowest slice of columns allowed for all tables,
// choose_dedup, that of all tables that state no index_dedup, dim, the columns of tables whose file states none, and optimizer, that of tables whose file states none. A
// devices_per_host of 0 is all devices; if nobody states it, the hosts are Topology.OnUsualHosts.
type Overrides map[string]string

// Has reports whether the key is stated.
func (o Overrides) Has(key string) bool {
	_, ok := o[key]
	return ok
}

// ClusterKey is a key of Overrides.
type ClusterKey struct {
	// Name is the key, and About says what it is, with its default.
	Name, About string
	// Type is the JSON type of its values, Unit the unit of a quantity, and Words are the values of a key
	// that knows only some.
	Type, Unit string
	Words      []string
	// Step says that the key is about the whole training step.
	Step bool
}

// ClusterKeys returns the keys of Overrides: those of a topology file in its order, then those of tables.
func ClusterKeys() (list []ClusterKey) {
	add := func(key, about string, s schema) {
		kind, _ := s["type"].(string)
		of, _ := s["unit"].(string)
		known, _ := s["enum"].([]string)
		list = append(list, ClusterKey{key, about, cmp.Or(kind, "string"), of, known, slices.Contains(stepKeys, key)})
	}
	add("hosts", hostsHint, schema{"type": "integer"})
	for _, f := range clusterFields {
		add(f.key, f.hint, f.schema)
	}
	for _, f := range listedFields {
		if slices.Contains([]string{"min_width", "choose_dedup", "dim", "optimizer"}, f.key) {
			add(f.key, f.hint, f.schema)
		}
	}
	return list
}

// Set states a text such as host_memory=1TiB, which a key and "=" begin. The error is nil or an *Errors,
// for a text without a key of ClusterKeys; Parts.Problem reports a wrong value.
func (o Overrides) Set(text string) error {
	key, value, stated := strings.Cut(text, "=")
	if !stated {
		return flagError(fmt.Sprintf("%s states no value", quote(text)), "write key=value, such as host_memory=1TiB")
	}
	var known []string
	for _, k := range ClusterKeys() {
		known = append(known, k.Name)
	}
	if key = strings.TrimSpace(key); !slices.Contains(known, key) {
		return flagError("unknown key "+quote(key), (&report{}).suggest(key, known))
	}
	o[key] = strings.TrimSpace(value)
	return nil
}

// Flag returns what states a key on a command line: a flag, or the key itself after --set.
func Flag(key string) string {
	switch key {
	case "devices":
		return "--gpus"
	case "device":
		return "--gpu"
	case "hosts", "memory", "host_memory", "batch", "optimizer", "engine":
		return "--" + strings.ReplaceAll(key, "_", "-")
	}
	return key
}

const hostsHint = "hosts is the number of hosts; each has devices_per_host devices, 8 if nobody states the devices"

// onHosts has the overrides state the devices of a stated number of hosts. described is the topology
// file or scenario of the cluster, or nil.
func (p *Parts) onHosts(base *Cluster, described *TopologyFile) error {
	t := base.Topology
	if !p.Overrides.Has("hosts") {
		return nil
	}
	r := &report{}
	usual := p.fullHost(t.Profile)
	hosts := valueOf(r, p.Overrides, "hosts", whole[int](1, hardware.MaxDevices), hostsHint)
	perHost := valueOf(r, p.Overrides, "devices_per_host", anyWhole[int](), "")
	devices, stated := p.Overrides.Devices()
	if err := r.err(); err != nil || hosts == 0 {
		return err
	}
	if !stated && described != nil && t.DevicesPerHost == 0 {
		devices, stated = t.Devices, t.Devices > 0
	}
	switch {
	case perHost > 0:
	case stated:
		perHost = devices / hosts
	case !base.any && (t.Devices > 0 || t.DevicesPerHost > 0) && usual == t.Profile.FullHost():
		perHost = cmp.Or(t.DevicesPerHost, t.Devices)
	default:
		perHost = usual
	}
	if stated && devices != hosts*perHost {
		return flagError(fmt.Sprintf("--hosts: %d devices are not %d hosts of the same size", devices, hosts), "leave --gpus or --hosts out, or state numbers that divide")
	}
	p.Overrides = maps.Clone(p.Overrides)
	p.Overrides["devices"], p.Overrides["devices_per_host"] = strconv.Itoa(hosts*perHost), strconv.Itoa(perHost)
	return nil
}

// fullHost returns the devices of a full host of the device that a flag states, or else of own.
func (p *Parts) fullHost(own hardware.Profile) int {
	name, stated := p.Overrides["device"]
	if !stated {
		return own.FullHost()
	}
	if i := slices.IndexFunc(p.Own, func(o hardware.Profile) bool { return o.Name == name }); i >= 0 {
		return p.Own[i].FullHost()
	}
	named, _ := hardware.ByName(name) // override reports an unknown name
	return named.FullHost()
}

// flagged are overrides that were read.
type flagged struct {
	TopologyFile
	minWidth, dim int
	chooseDedup   bool
	optimizer     problem.Optimizer
}

// read reads the overrides. own are profiles to know beside those of package hardware.
func (o Overrides) read(own []hardware.Profile) (f flagged, err error) {
	f.own, f.lines, f.unread = own, map[string]int{}, map[string]bool{}
	r := &report{}
	for _, of := range clusterFields {
		if text, ok := o[of.key]; ok {
			is := &reading{report: r}
			of.value(is, &node{kind: cell, key: Flag(of.key), text: text}, &f.TopologyFile)
			f.unread[of.key] = is.bad != 0
		}
	}
	f.minWidth = valueOf(r, o, "min_width", kind[int]{read: width}, about("min_width"))
	f.chooseDedup = valueOf(r, o, "choose_dedup", truth, about("choose_dedup"))
	f.dim = valueOf(r, o, "dim", kind[int]{read: width}, about("dim"))
	f.optimizer = valueOf(r, o, "optimizer", optimizer, "")
	return f, r.err()
}

// valueOf returns the value that a flag states, or the zero value.
func valueOf[V any](r *report, o Overrides, key string, of kind[V], hint string) (v V) {
	if text, ok := o[key]; ok {
		v, _ = of.read(r, &node{kind: cell, key: Flag(key), text: text}, hint)
	}
	return v
}

// width is a number of columns.
func width(r *report, n *node, hint string) (int, bool) {
	v, ok := whole[int](1, problem.MaxDim).read(r, n, hint)
	if ok && v%problem.ColumnGranule != 0 {
		r.add(n.line, fmt.Sprintf("%s: %d is not a multiple of %d", n.key, v, problem.ColumnGranule), hint)
		return 0, false
	}
	return v, ok
}

// Options returns the options to read a file of tables with. A dim or an optimizer that is wrong
// is left for Parts.Problem to report.
func (o Overrides) Options() Options {
	var opt Options
	f, _ := o.read(nil)
	if o.Has("dim") {
		if opt.DefaultDim = f.dim; f.dim == 0 {
			opt.DefaultDim = -1
		}
	}
	if o.Has("optimizer") {
		opt.Optimizer = &f.optimizer
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
	// Dense and Stack are the files of a dense part and of a training system that flags name, or nil.
	// DenseErr and StackErr are the errors of reading them, or nil.
	Dense              *DenseFile
	Stack              *step.Stack
	DenseErr, StackErr error
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
		base = &Cluster{Problem: problem.Problem{Batch: p.Tables.Batch}}
	}
	var file TopologyFile
	sources := []Source{p.Tables}
	if described != nil {
		file = *described
		sources = append(sources, file)
	}
	if base.Topology.Profile.Name == "" && len(p.Own) > 0 && !p.Overrides.Has("device") && !file.Has("device") {
		base.Topology.Profile = p.Own[0]
	}
	base.Topology.Fixed = p.Tables.Fixed // those of an old plan belong to the tables that it was made of
	hostsErr := p.onHosts(base, described)
	grown, before := p.outgrown(base.Topology), base.Topology
	flags, overrideErr := p.Overrides.read(p.Own)
	p.override(base, &flags)
	p.giveHosts(base, file, &before, grown)
	p.giveDomains(base, file, &before)
	overrideErr = Join(hostsErr, overrideErr, giveMemories(p.Overrides, base, file))
	var missingErr error
	if !complete && p.TopologyErr == nil {
		missingErr = p.missing(base.Topology, file)
	}
	composed := base.Problem
	composed.Tables = changed(p.Tables.Tables, &flags)
	warnings := p.Tables.Warnings
	if base.Batch == 0 && !p.Overrides.Has("batch") {
		composed.Batch = DefaultBatch
		warnings = append(slices.Clip(warnings), fmt.Sprintf("no batch is stated: a global batch of %d samples is assumed", DefaultBatch))
	}
	warnings = append(append(slices.Clip(warnings), p.otherBatch(described, composed.Batch)...), uneven(&composed)...)
	base.Batch = composed.Batch
	replicasErr := replicate(p, base, file)
	composed.Topology, composed.Batch = base.Topology, base.Batch
	whole, stepErr := p.step()
	doubts, fitErr := p.fit(&whole, &composed)
	warnings = append(append(slices.Clip(warnings), whole.warnings...), doubts...)
	judged := composed
	if overrideErr != nil || missingErr != nil {
		flags.forgive(&judged.Topology)
		judged.Topology = p.filled(judged.Topology, file)
	}
	return &composed, warnings, Join(p.TablesErr, p.TopologyErr, overrideErr, replicasErr, missingErr, stepErr, fitErr, Check(&judged, sources...))
}

// StatesAccounting reports whether a flag or the topology file says which bytes count against a
// device's memory. If neither does, the problem of an old plan counts those that the plan counts.
func (p *Parts) StatesAccounting() bool { return p.states("accounting") }

// states reports whether a flag or the topology file states one of the keys.
func (p *Parts) states(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return p.Overrides.Has(key) || p.Topology != nil && p.Topology.Has(key) })
}

// otherBatch returns the warning of a fallback whose batch counts in place of that of the tables.
// described is the topology file that takes the fallback's place, or nil.
func (p *Parts) otherBatch(described *TopologyFile, batch int) []string {
	own := p.Tables.Batch
	if p.Fallback == nil || described != nil || p.Overrides.Has("batch") || own == 0 || own == batch {
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
	devices, stated := p.Overrides.Devices()
	return p.Fallback != nil && stated && devices > t.Devices && t.PerHost() == t.Devices && t.Devices <= t.Profile.FullHost()
}

// giveHosts puts the devices on full hosts if nobody states the hosts, or a flag states devices that
// stand on other hosts than before.
func (p *Parts) giveHosts(c *Cluster, file TopologyFile, before *hardware.Topology, outgrown bool) {
	t := &c.Topology
	other := outgrown || before.Profile.Name != "" && before.Profile.FullHost() != t.Profile.FullHost()
	if c.any || p.Overrides.Has("devices_per_host") || file.Has("devices_per_host") || t.DevicesPerHost > 0 && !other {
		return
	}
	if other {
		t.DevicesPerHost = 0
	}
	*t = t.OnUsualHosts()
}

// giveDomains joins the hosts of devices that are sold in racks by their links, if nobody states which.
// The cluster of a plan or workload states it.
func (p *Parts) giveDomains(c *Cluster, file TopologyFile, before *hardware.Topology) {
	t := &c.Topology
	racks := before.Profile.NVLinkDomain > 0 || t.Profile.NVLinkDomain > 0
	same := !p.Overrides.Has("device") && before.Devices == t.Devices && before.Devices > 0 && p.Topology == nil && p.Tables.Cluster == nil
	if racks && !same && t.Devices > 0 && !c.any && !p.Overrides.Has("nvlink_domain") && !file.Has("nvlink_domain") {
		*t = t.InUsualDomains()
	}
}

// override replaces the fields of the cluster that flags state.
func (p *Parts) override(c *Cluster, flags *flagged) {
	into := TopologyFile{Cluster: *c}
	p.Overrides.into(&into, flags)
	*c = into.Cluster
	if c.Accounting != problem.CountAll && !p.states("activations") {
		c.Topology.Activations = 0 // only accounting all counts them; an old plan may state them
	}
	if c.any && !p.Overrides.Has("host_memory") && c.Engine.Rules().OnlyHBM {
		c.Topology.HostMemory = 0
	}
}

// into replaces the fields that flags state.
func (o Overrides) into(file *TopologyFile, flags *flagged) {
	for _, f := range clusterFields {
		if o.Has(f.key) && !flags.unread[f.key] {
			f.copy(file, &flags.TopologyFile)
		}
	}
}

// Devices returns the number of devices that is stated, and whether one is.
func (o Overrides) Devices() (n int, stated bool) {
	n = valueOf(&report{}, o, "devices", anyWhole[int](), "")
	return n, o.Has("devices")
}

// changed returns the tables with the least width of slices and the choice of deduplication that flags state.
func changed(tables []problem.Table, flags *flagged) []problem.Table {
	if flags.minWidth == 0 && !flags.chooseDedup {
		return tables
	}
	own := slices.Clone(tables)
	for i := range own {
		t := &own[i]
		t.Constraint.MinWidth = max(t.Constraint.MinWidth, min(flags.minWidth, t.Dim))
		t.ChooseDedup = t.ChooseDedup || flags.chooseDedup && !t.IndexDedup
	}
	return own
}

// CheckDim returns nil, or an *Errors that says what is wrong with the value of --dim, a
// number of columns.
func CheckDim(dim int) error {
	_, err := Overrides{"dim": strconv.Itoa(dim)}.read(nil)
	return err
}

// missing reports the required fields that neither the file nor a flag states.
func (p *Parts) missing(t hardware.Topology, file TopologyFile) error {
	var errs []error
	if t.Devices == 0 && !p.statesDevices(file) && !p.Overrides.Has("hosts") {
		errs = append(errs, flagError("the number of devices is missing", "add --gpus N or --hosts N, or describe the cluster in a file: --cluster cluster.yaml"))
	}
	if t.Profile.Name == "" && !p.Overrides.Has("device") {
		errs = append(errs, flagError("the device profile is missing", "add --gpu PROFILE, one of "+strings.Join(hardware.Names(), ", ")))
	}
	return Join(errs...)
}

// statesDevices reports whether the file or a flag states the number of devices, even if
// it is a wrong number.
func (p *Parts) statesDevices(file TopologyFile) bool {
	return file.Has("devices") || p.Overrides.Has("devices")
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
