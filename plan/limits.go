package plan

import (
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// limits.go says which names a device may take, so that the renamed plan is a valid placement.

// nameLimits says which names each device may take.
type nameLimits struct {
	devices, per int
	// refused has, for each device and each name, whether a constraint or a pin refuses the
	// name; nil if none does. hosts is the same for hosts, because of blocks that go with the host.
	refused, hosts []bool
	// own is what goes with a device's name; stays is what stays on the device of a name;
	// hosted is what goes with a host, by the device that holds it in the plan.
	own, stays, hosted []nameLoad
	// needsShard says that each device
	// must hold a shard. topology says which devices have the same budgets.
	needsShard bool
	topology   hardware.Topology
}

// nameLoad is a number of shards, and their bytes in a device's memory in each phase.
type nameLoad struct {
	bytes  [problem.Phases]unit.Bytes
	shards int
}

// newNameLimits returns the limits of the devices of a valid placement of p.
func newNameLimits(pl *Plan, p *problem.Problem) *nameLimits {
	l := &nameLimits{topology: p.Topology, devices: pl.Cluster.Devices, per: max(1, min(pl.Cluster.Devices, pl.Cluster.DevicesPerHost))}
	l.needsShard = p.Engine.Rules().NoIdle
	l.own, l.stays, l.hosted = make([]nameLoad, l.devices), make([]nameLoad, l.devices), make([]nameLoad, l.devices)
	index := indexOf(pl, p)
	for d, all := range tally(pl, p, index, l.devices) {
		l.own[d] = nameLoad{all.step.Used(), all.Shards}
	}
	for i := range pl.Tables {
		if t := &pl.Tables[i]; index[i] >= 0 {
			l.table(t, t.holding(&pl.Cluster), p, index[i])
		}
	}
	return l
}

// table adds the limits of table t, which is table at of p.
func (l *nameLimits) table(t *Table, h holding, p *problem.Problem, at int) {
	var allowed []bool
	if devices := p.Tables[at].Constraint.Devices; len(devices) > 0 {
		allowed = make([]bool, l.devices)
		for _, d := range devices {
			allowed[d] = true
		}
	}
	for _, s := range t.Shards {
		if s.Device == replicated {
			continue
		}
		switch h {
		case holdPinned:
			l.only(s.Device, func(name int) bool { return name == s.Device })
		case holdNamed:
			if allowed != nil {
				l.only(s.Device, func(name int) bool { return allowed[name] })
			}
		case holdHosted:
			l.move(p, s.of(at, t.ShardingType, 0), s.Device, l.hosted)
			if allowed != nil {
				l.onlyHosts(s.Device, allowed)
			}
		case holdNumbered:
			l.move(p, s.of(at, t.ShardingType, 0), s.Device, l.stays)
		}
	}
}

// move counts a shard of a device elsewhere than with the device's name.
func (l *nameLimits) move(p *problem.Problem, s problem.Shard, device int, to []nameLoad) {
	for f, bytes := range p.ShardMemory(s).Used() {
		l.own[device].bytes[f] -= bytes
		to[device].bytes[f] += bytes
	}
	l.own[device].shards--
	to[device].shards++
}

// only refuses the names of a device that are not among the given ones.
func (l *nameLimits) only(device int, among func(name int) bool) {
	if l.refused == nil {
		l.refused = make([]bool, l.devices*l.devices)
	}
	for name := range l.devices {
		if !among(name) {
			l.refused[device*l.devices+name] = true
		}
	}
}

// onlyHosts refuses the hosts in which the place of a device is not an allowed device, to the
// device's host.
func (l *nameLimits) onlyHosts(device int, allowed []bool) {
	hosts := (l.devices + l.per - 1) / l.per
	if l.hosts == nil {
		l.hosts = make([]bool, hosts*hosts)
	}
	for h := range hosts {
		if at := h*l.per + device%l.per; at >= l.devices || !allowed[at] {
			l.hosts[device/l.per*hosts+h] = true
		}
	}
}

// allow reports whether a device may take a name. Only devices with the same budgets exchange names.
func (l *nameLimits) allow(device, name int) bool {
	if !l.topology.Alike(device, name) {
		return false
	}
	if l.refused != nil && l.refused[device*l.devices+name] {
		return false
	}
	if l.hosts != nil {
		if hosts := (l.devices + l.per - 1) / l.per; l.hosts[device/l.per*hosts+name/l.per] {
			return false
		}
	}
	place := device/l.per*l.per + name%l.per // both hosts have the same size
	own, stays, hosted := l.own[device], l.stays[name], l.hosted[place]
	if l.needsShard && own.shards+stays.shards+hosted.shards == 0 {
		return false
	}
	for f, bytes := range own.bytes {
		if bytes+stays.bytes[f]+hosted.bytes[f] > l.topology.Usable(name) {
			return false
		}
	}
	return true
}
