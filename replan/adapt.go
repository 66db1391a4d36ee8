package replan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// adapt.go states an old plan in the terms of a new problem: tables by name, devices by their
// number in the new cluster.
//
//	old plan   tables a b c    devices 0 1 2 3 | 4 5 6 7     device 1 is lost, table d is added
//	new        tables a b c d  devices 4 5 6 7 | 0 2 3       hosts with losses come last

// OtherPlan is the error of an old plan that no re-plan can start from.
type OtherPlan struct {
	// Message says what is wrong, and Hint what to do.
	Message, Hint string
}

func (e *OtherPlan) Error() string { return e.Message }

// Changes is what differs between an old plan and the problem that is to be planned again.
type Changes struct {
	// Added and Removed name the tables that only the problem has, and only the old plan.
	Added, Removed []string
	// Resized names the tables with other rows or another dim, and Converted those whose old plan
	// states another precision or optimizer.
	Resized, Converted []string
	// Lost are the lost devices, as the old plan numbers them.
	Lost []int
	// Cluster is nil if both are for the same cluster and batch.
	Cluster *plan.Change[plan.Cluster]
	// Profile is true if the devices are of another profile: all parts of tables are then loaded
	// from a checkpoint.
	Profile bool
}

// Remaining returns the cluster that is left of an old plan's cluster without lost devices,
// which must be devices of the plan. Hosts with fewer devices come last. It fails with
// *OtherPlan if no device is left, or if the hosts are left with devices of more than two
// different numbers, or with several smaller hosts: a cluster has hosts of one size, and one
// smaller host at most.
func Remaining(c plan.Cluster, lost []int) (plan.Cluster, error) {
	hosts, err := remainingHosts(c, lost)
	if err != nil {
		return c, err
	}
	was := c.Topology()
	c.Devices, c.DevicesPerHost = 0, len(hosts[0])
	for i, h := range hosts {
		if c.Devices += len(h); len(h) < c.DevicesPerHost && i+1 < len(hosts) {
			return c, &OtherPlan{
				fmt.Sprintf("the lost devices leave %d devices on some hosts, and %d of %d hosts have fewer: a cluster has one host at most with fewer devices than the others", c.DevicesPerHost, len(hosts)-i, len(hosts)),
				"give up whole hosts with --lost-hosts, or the same number of devices of every host with --lost-gpus; if the lost devices are replaced, state the old number of devices with --gpus",
			}
		}
	}
	return c.WithMemories(left(was, hosts)), nil
}

// left returns the topology with the memories of the devices, and of the hosts, that are left.
func left(t hardware.Topology, hosts [][]int) hardware.Topology {
	var devices, onHosts []unit.Bytes
	for _, h := range hosts {
		onHosts = append(onHosts, t.HostMemoryOf(h[0]/t.PerHost()))
		for _, d := range h {
			devices = append(devices, t.DeviceMemory(d))
		}
	}
	if len(t.DeviceMemories) > 0 {
		t.DeviceMemories = devices
	}
	if len(t.HostMemories) > 0 {
		t.HostMemories = onHosts
	}
	t.Fixed = leftFixed(t.Fixed, slices.Concat(hosts...))
	return t
}

// leftFixed returns fixed loads on the devices that are left, which are numbered in their order.
func leftFixed(loads []hardware.FixedLoad, devices []int) (left []hardware.FixedLoad) {
	for _, l := range loads {
		on := make([]int, 0, len(l.Devices))
		for number, d := range devices {
			if len(l.Devices) > 0 && l.On(d) {
				on = append(on, number)
			}
		}
		if len(l.Devices) > 0 && len(on) == 0 {
			continue
		}
		l.Devices = on
		left = append(left, l)
	}
	return left
}

// remainingHosts returns the devices left on each host, the hosts with most devices first.
func remainingHosts(c plan.Cluster, lost []int) ([][]int, error) {
	for _, d := range lost {
		if d < 0 || d >= c.Devices {
			return nil, &OtherPlan{fmt.Sprintf("lost device %d: the old plan has devices 0 to %d", d, c.Devices-1), "number the devices as the old plan does"}
		}
	}
	perHost := c.DevicesPerHost
	if perHost <= 0 {
		perHost = c.Devices
	}
	var hosts [][]int
	for first := 0; first < c.Devices; first += perHost {
		var left []int
		for d := first; d < min(c.Devices, first+perHost); d++ {
			if !slices.Contains(lost, d) {
				left = append(left, d)
			}
		}
		if len(left) > 0 {
			hosts = append(hosts, left)
		}
	}
	if len(hosts) == 0 {
		return nil, &OtherPlan{fmt.Sprintf("all %d devices of the old plan are lost", c.Devices), "plan anew, without the old plan: neuroshard plan"}
	}
	slices.SortStableFunc(hosts, func(a, b []int) int { return cmp.Compare(len(b), len(a)) })
	return hosts, nil
}

// adapted is an old plan in the terms of a new problem.
type adapted struct {
	changes Changes
	// before is the old plan with its devices numbered as in the new cluster, without the shards of
	// lost devices. Devices that leave the cluster have numbers above those of the cluster. Its
	// tables have their old sizes.
	before *plan.Plan
	// held are the old shards by device of the new cluster, in the tables of the problem with their
	// new sizes. Tables that cannot stay as they are have some of their shards, or none.
	held [][]problem.Shard
}

// adapt states the old plan in the terms of p, without the lost devices. It fails with
// *OtherPlan if that is not possible.
func adapt(p *problem.Problem, old *plan.Plan, lost []int) (*adapted, error) {
	if err := sameTables(p, old); err != nil {
		return nil, err
	}
	lost = slices.Compact(slices.Sorted(slices.Values(lost)))
	number, err := renumber(p, old.Cluster, lost)
	if err != nil {
		return nil, err
	}
	a := &adapted{changes: Changes{Lost: lost}}
	a.compare(p, old)
	if a.changes.Profile {
		for d := range number {
			number[d] = gone
		}
	}
	a.before = renamed(old, number)
	a.hold(p, old, number)
	return a, nil
}

// sameTables checks that the old plan can be read as one of p's tables: it has each table once,
// and a table in common with p, with the same rows or dim.
func sameTables(p *problem.Problem, old *plan.Plan) error {
	placed := map[string]*plan.Table{}
	for i := range old.Tables {
		name := old.Tables[i].Name
		if placed[name] != nil {
			return &OtherPlan{fmt.Sprintf("the old plan lists table %q twice", name), "neuroshard check says what else is wrong with the plan"}
		}
		placed[name] = &old.Tables[i]
	}
	if has, want := len(old.Devices), old.Cluster.Devices; has != want {
		return &OtherPlan{fmt.Sprintf("the old plan lists %d devices, and its cluster has %d", has, want), "neuroshard check lists all that is wrong with the plan"}
	}
	if found := old.CheckTables(); len(found) > 0 {
		return &OtherPlan{fmt.Sprintf("the old plan is not a placement: %v", found[0]), "neuroshard check lists all that is wrong with the plan"}
	}
	same := 0
	for i := range p.Tables {
		t := &p.Tables[i]
		if was := placed[t.Name]; was != nil {
			if same++; was.Rows == t.Rows || was.Dim == t.Dim {
				return nil
			}
		}
	}
	const hint = "name the plan of these tables, or plan anew: neuroshard plan"
	if same > 0 {
		return &OtherPlan{fmt.Sprintf("the old plan is one of other tables: it has %s of the same name with other rows and another dim", words.Plural(same, "table")), hint}
	}
	return &OtherPlan{fmt.Sprintf("the old plan has no table of the problem, such as %q", p.Tables[0].Name), hint}
}

// gone is the number of a lost device in the new cluster.
const gone = -1

// renumber returns the number of each device of the old cluster in the cluster of p, or gone.
// Devices that leave have numbers from Topology.Devices.
//
// Without lost devices, devices keep their numbers. With lost devices, the cluster of p must be
// Remaining, or have the old number of devices on the same hosts: the lost ones are then replaced
// by empty ones.
func renumber(p *problem.Problem, c plan.Cluster, lost []int) ([]int, error) {
	number := make([]int, c.Devices)
	for d := range number {
		number[d] = d
	}
	if len(lost) == 0 {
		return number, nil
	}
	hosts, err := remainingHosts(c, lost)
	if err != nil {
		return nil, err
	}
	t := &p.Topology
	if t.Devices == c.Devices && t.PerHost() == c.DevicesPerHost {
		for _, d := range lost {
			number[d] = gone
		}
		return number, nil
	}
	left, err := Remaining(c, lost)
	if err != nil {
		return nil, err
	}
	if t.Devices != left.Devices || t.PerHost() != left.DevicesPerHost {
		return nil, &OtherPlan{
			fmt.Sprintf("the lost devices leave %d of %d devices in each sharding group, %d a host, and the problem states %d, %d a host", left.Devices, c.Devices, left.DevicesPerHost, t.Devices, t.PerHost()),
			"leave --gpus and devices_per_host out or, if the lost devices are replaced, state the whole old cluster with them and with replicas",
		}
	}
	for d := range number {
		number[d] = gone
	}
	next := 0
	for _, h := range hosts {
		for _, d := range h {
			number[d] = next
			next++
		}
	}
	return number, nil
}

// compare sets what differs between p and the old plan.
func (a *adapted) compare(p *problem.Problem, old *plan.Plan) {
	is := map[string]*problem.Table{}
	for i := range p.Tables {
		is[p.Tables[i].Name] = &p.Tables[i]
	}
	c := &a.changes
	was := map[string]bool{}
	for i := range old.Tables {
		t := &old.Tables[i]
		was[t.Name] = true
		now := is[t.Name]
		if now == nil {
			c.Removed = append(c.Removed, t.Name)
			continue
		}
		if now.Rows != t.Rows || now.Dim != t.Dim {
			c.Resized = append(c.Resized, t.Name)
		}
		if now.Precision != t.Precision || now.Optimizer != t.Optimizer {
			c.Converted = append(c.Converted, t.Name)
		}
	}
	for i := range p.Tables {
		if name := p.Tables[i].Name; !was[name] {
			c.Added = append(c.Added, name)
		}
	}
	if now := plan.New(p, nil).Cluster; !now.Equal(old.Cluster) {
		c.Cluster = &plan.Change[plan.Cluster]{Before: old.Cluster, After: now}
		c.Profile = now.Profile != old.Cluster.Profile
	}
}

// renamed returns a copy of the plan whose device d has the number number[d], without the
// shards of devices that are gone.
func renamed(old *plan.Plan, number []int) *plan.Plan {
	pl := *old
	n := 0
	for _, to := range number {
		n = max(n, to+1)
	}
	left := slices.DeleteFunc(slices.Clone(number), func(to int) bool { return to == gone })
	compact := n == len(left) // devices 0 to n-1 are all held
	pl.Cluster.Devices = n
	pl.Devices = make([]plan.Device, n)
	pl.Tables = slices.Clone(old.Tables)
	for i := range pl.Tables {
		t := &pl.Tables[i]
		var shards []plan.Shard
		for _, s := range t.Shards {
			switch {
			case s.Device >= 0 && number[s.Device] == gone:
			case s.Device >= 0:
				s.Device = number[s.Device]
				shards = append(shards, s)
			case compact && n > 0:
				shards = append(shards, s)
			default:
				for _, d := range left {
					s.Device = d
					shards = append(shards, s)
				}
			}
		}
		t.Shards = shards
	}
	return &pl
}

// hold sets the old shards of p's tables on the devices of the new cluster.
func (a *adapted) hold(p *problem.Problem, old *plan.Plan, number []int) {
	index := map[string]int{}
	for i := range p.Tables {
		index[p.Tables[i].Name] = i
	}
	a.held = make([][]problem.Shard, p.Topology.Devices)
	for d, shards := range old.ByDevice() {
		to := number[d]
		if to == gone || to >= p.Topology.Devices {
			continue
		}
		for _, s := range shards {
			was := &old.Tables[s.Table]
			i, ok := index[was.Name]
			if !ok {
				continue
			}
			if s, ok = resized(s, was, &p.Tables[i]); ok {
				s.Table = i
				a.held[to] = append(a.held[to], s)
			}
		}
	}
	for d := range a.held {
		slices.SortStableFunc(a.held[d], byTable)
	}
}

// byTable orders shards by table, first column and first row.
func byTable(x, y problem.Shard) int {
	return cmp.Or(cmp.Compare(x.Table, y.Table), cmp.Compare(x.Columns.Start, y.Columns.Start), cmp.Compare(x.Rows.Start, y.Rows.Start))
}

// resized returns a shard of a table in the table's new size: the last slice of columns takes
// the columns that were added or removed, and blocks of rows become blocks of the new rows. ok is
// false if nothing is left of the shard.
func resized(s problem.Shard, was *plan.Table, now *problem.Table) (_ problem.Shard, ok bool) {
	if s.Columns.End == int64(was.Dim) {
		s.Columns.End = int64(now.Dim)
	}
	s.Columns.End = min(s.Columns.End, int64(now.Dim))
	switch {
	case s.Rows.Len() == was.Rows:
		s.Rows.End = now.Rows
	case was.Rows != now.Rows:
		blocks := blocksOf(was, s.Columns.Start)
		height := (was.Rows + blocks - 1) / blocks
		size := now.BlockRows(int(blocks))
		at := s.Rows.Start / height
		s.Rows.Start, s.Rows.End = min(now.Rows, at*size), min(now.Rows, (at+1)*size)
	}
	return s, s.Rows.Len() > 0 && s.Columns.Len() > 0
}

// blocksOf returns the number of blocks of the slice that begins at a column, at least 1.
func blocksOf(t *plan.Table, column int64) int64 {
	n := int64(0)
	for _, s := range t.Shards {
		if s.Columns.Start == column {
			n++
		}
	}
	return max(1, n)
}

// otherDevices reports whether the number of devices, or that of a host, changed.
func (c *Changes) otherDevices() bool {
	return c.Cluster != nil && (c.Cluster.Before.Devices != c.Cluster.After.Devices || c.Cluster.Before.DevicesPerHost != c.Cluster.After.DevicesPerHost)
}

// describe says in a few words what changed, for the warnings of the plan; "" if nothing did.
func (c *Changes) describe() string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, words.Plural(n, "table")+" "+what)
		}
	}
	add(len(c.Added), "added")
	add(len(c.Removed), "removed")
	add(len(c.Resized), "resized")
	if n := len(c.Lost); n > 0 {
		parts = append(parts, words.Plural(n, "device")+" lost")
	}
	return strings.Join(parts, ", ")
}
