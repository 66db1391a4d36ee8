package plan

import (
	"github.com/neuroshard/neuroshard/internal/assign"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// rename.go gives the devices of a plan other names, so that fewer bytes move.
//
// Devices of a host are equal, and so are hosts of one size: which of them holds what does not
// change the cost. So the device that holds the tables of an earlier plan's device 3 may well
// be called device 3:
//
//	          earlier plan        later plan         later plan, renamed
//	device 0  a b                 d                  a b e
//	device 1  c                   c                  c
//	device 2  d                   a b e              d
//
// For two hosts, which device of one takes the name of which device of the other is an
// assignment problem, whose gains are the bytes that need not move. Its best sum is the gain of
// the two hosts, and which host takes the place of which is an assignment problem again; NVLink
// domains of several hosts are a third level. This is O(n^2 h) for n devices, h of them on a
// host, and O(m^3) for m hosts; usually far below that, because most pairs of hosts
// have no bytes in common.

// mostRenamed is the largest cluster that Renaming looks at: the bytes that each pair of devices
// has in common take 8 bytes, so 128 MiB here.
const mostRenamed = 1 << 12

// Renaming returns the names that the devices of plan after take: device d becomes
// Renaming(...)[d]. Of all renamings that Renamed accepts and that leave the plan a valid
// placement of p, it returns one with the fewest Transfer.Bytes from plan before; it changes no
// name if that saves nothing. after must be a valid placement of p, and before as NewTransfer
// takes it. Clusters of more than 4,096 devices keep all names.
func Renaming(before, after *Plan, p *problem.Problem) []int {
	names := make([]int, after.Cluster.Devices)
	for d := range names {
		names[d] = d
	}
	if len(names) > mostRenamed {
		return names
	}
	r := newRenamer(before, after, p)
	best := make([]int, len(names))
	if r.solve(best) > r.gainOf(names) {
		return best
	}
	return names
}

// Renamed returns the plan's shards by device, as ByDevice does, after device d took the name
// names[d]. A host stays together: the devices of each host must take the names of all devices of
// a host of the same size, in the same NVLink domain, and a domain as a whole those of another
// one. Blocks of row_wise tables and replicas stay on their devices, because each device
// holds one. Blocks of table_row_wise and grid tables go to the host that their host becomes,
// and stay in the order of its devices. Devices with blocks that the plan chose a device for
// (Table.Blocks) must keep their names.
func (pl *Plan) Renamed(names []int) [][]problem.Shard {
	by := make([][]problem.Shard, len(names))
	per := max(1, pl.Cluster.DevicesPerHost)
	holdings := make([]holding, len(pl.Tables))
	for i := range holdings {
		holdings[i] = pl.Tables[i].holding(&pl.Cluster)
	}
	for d, shards := range pl.ByDevice() {
		host := names[d/per*per] / per
		for _, s := range shards {
			to := names[d]
			switch holdings[s.Table] {
			case holdNumbered, holdPinned:
				to = d
			case holdHosted:
				to = host*per + d%per
			}
			by[to] = append(by[to], s)
		}
	}
	return by
}

// holding says what a device's new name means for its shard of a table.
type holding uint8

const (
	// holdNamed: the shard goes with the device's name.
	holdNamed holding = iota
	// holdNumbered: the shard stays on its device.
	holdNumbered
	// holdHosted: the shard goes with the host's name, and keeps its place in the host.
	holdHosted
	// holdPinned: the device keeps its name.
	holdPinned
)

// holding returns what new names mean for the shards of the table.
func (t *Table) holding(c *Cluster) holding {
	switch {
	case t.Blocks(c) > 0:
		return holdPinned
	case t.ShardingType == RowWise || t.ShardingType == DataParallel:
		return holdNumbered
	case t.ShardingType.Span() == problem.OneHost:
		return holdHosted
	}
	return holdNamed
}

// renamer finds a renaming. Devices are of level 0, hosts of level 1, and NVLink domains
// of level 2; level 3 is the cluster. A unit is one of them, by its number.
type renamer struct {
	devices int
	// size is the number of devices in a full unit of each level.
	size [4]int
	// gain has, for each device and each name, the bytes that need not move.
	gain []int64
	// hosts has, for each pair of hosts, the bytes of blocks that need not move.
	hosts []int64
	// matched has, for each pair of hosts, 0 before match looks at the pair, and then the gain
	// plus 1, or assign.Forbidden.
	matched []int64
	// gains are the gains of the pairs of children of two units, by level.
	gains  [4][]int64
	limits *nameLimits
}

func newRenamer(before, after *Plan, p *problem.Problem) *renamer {
	c := &after.Cluster
	r := &renamer{devices: c.Devices}
	per := max(1, min(c.Devices, c.DevicesPerHost))
	r.size = [4]int{1, per, min(max(1, c.Devices), max(per, c.linkDomain())), max(1, c.Devices)}
	r.gain = make([]int64, c.Devices*c.Devices)
	hosts := r.units(1)
	r.hosts, r.matched = make([]int64, hosts*hosts), make([]int64, hosts*hosts)
	earlier := byName(before)
	for i := range after.Tables {
		b := &after.Tables[i]
		a := earlier[b.Name]
		h := b.holding(c)
		if a == nil || h == holdNumbered || h == holdPinned {
			continue
		}
		w, held := weightsOf(a, b), newHeld(a, before.Cluster.Devices)
		for _, s := range b.Shards {
			r.shard(held, w, s, h)
		}
	}
	r.limits = newNameLimits(after, p)
	return r
}

// units returns the number of units of a level.
func (r *renamer) units(level int) int { return (r.devices + r.size[level] - 1) / r.size[level] }

// shard adds the bytes of a shard that need not move, for each name that its device may take.
func (r *renamer) shard(held *held, w weights, s Shard, h holding) {
	per := r.size[1]
	held.grid(s).common(w, r.devices, func(name int, bytes unit.Bytes) {
		if h == holdNamed {
			r.gain[s.Device*r.devices+name] += int64(bytes)
		} else if name%per == s.Device%per {
			r.hosts[s.Device/per*r.units(1)+name/per] += int64(bytes)
		}
	})
}

// solve writes the best names and returns their gain.
func (r *renamer) solve(names []int) int64 {
	gain, ok := r.match(3, 0, 0)
	if !ok {
		return -1
	}
	r.write(3, 0, 0, names)
	return gain
}

// gainOf returns the bytes that need not move with the given names.
func (r *renamer) gainOf(names []int) int64 {
	gain := int64(0)
	for d, name := range names {
		gain += r.gain[d*r.devices+name]
	}
	hosts := r.units(1)
	for h := range hosts {
		gain += r.hosts[h*hosts+names[h*r.size[1]]/r.size[1]]
	}
	return gain
}

// match returns the largest gain of unit a if it takes the place of unit b; ok is false if it
// cannot.
func (r *renamer) match(level, a, b int) (gain int64, ok bool) {
	if level == 0 {
		return r.gain[a*r.devices+b], r.limits.allow(a, b)
	}
	if level != 1 {
		_, gain, ok = r.children(level, a, b)
		return gain, ok
	}
	known := &r.matched[a*r.units(1)+b]
	if *known == 0 {
		*known = assign.Forbidden
		if _, gain, ok := r.children(level, a, b); ok {
			*known = gain + 1
		}
	}
	return *known - 1, *known != assign.Forbidden
}

// children returns which child of unit b each child of unit a takes the place of, both counted
// from the first child; nil if each child keeps its place. ok is false if no child can.
func (r *renamer) children(level, a, b int) (children []int, gain int64, ok bool) {
	first, n := r.span(level, a)
	other, m := r.span(level, b)
	if r.width(level, a) != r.width(level, b) || n != m {
		return nil, 0, false
	}
	if level == 1 {
		gain = r.hosts[a*r.units(1)+b]
	}
	if r.gains[level] == nil {
		r.gains[level] = make([]int64, n*n)
	}
	gains, nothing := r.gains[level][:n*n], true
	for i := range n {
		for j := range n {
			g, possible := r.match(level-1, first+i, other+j)
			if !possible {
				g = assign.Forbidden
			}
			gains[i*n+j] = g
			nothing = nothing && g == 0
		}
	}
	if nothing {
		return nil, gain, true
	}
	children, ok = assign.Max(n, func(i, j int) int64 { return gains[i*n+j] })
	if ok {
		for i, j := range children {
			gain += gains[i*n+j]
		}
	}
	return children, gain, ok
}

// span returns the first child of a unit, and the number of its children.
func (r *renamer) span(level, unit int) (first, n int) {
	ratio := (r.size[level] + r.size[level-1] - 1) / r.size[level-1]
	first = unit * ratio
	return first, min(ratio, r.units(level-1)-first)
}

// width returns the number of devices of a unit.
func (r *renamer) width(level, unit int) int {
	return min(r.size[level], r.devices-unit*r.size[level])
}

// write writes the names of the devices of unit a, which takes the place of unit b.
func (r *renamer) write(level, a, b int, names []int) {
	if level == 0 {
		names[a] = b
		return
	}
	first, n := r.span(level, a)
	other, _ := r.span(level, b)
	children, _, _ := r.children(level, a, b)
	for i := range n {
		j := i
		if children != nil {
			j = children[i]
		}
		r.write(level-1, first+i, other+j, names)
	}
}
