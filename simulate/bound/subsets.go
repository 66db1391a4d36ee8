package bound

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
)

// subsets.go bounds the cost of tables that constraints keep on few devices:
//
//	device        0     1     2     3
//	may hold a    x                       {0}      a
//	         b    x     x                 {0, 1}   a, b
//	         c    x     x     x     x     all      a, b, c
//
// Take a set of devices, and the tables that may lie on these devices only. On these devices
// alone, the argument of the package comment holds for these tables: the devices are fewer,
// and the device of them with the most columns has at least their mean. The other tables
// only add to the work. The tables of a co-location are such tables, too, on one device that
// is not known.
//
// Tables with such a constraint are slices on single devices, unless they may lie on all devices
// of a host, which may hold blocks of them. Tables that may be blocks are left out.

// subset is the tables that may lie only on some devices.
type subset struct {
	// tables are indices into Problem.Tables, ascending, and devices is the number of devices. of
	// has the numbers of these devices; nil if they are not known.
	tables  []int
	devices int
	of      []int
}

const (
	// The work on a subset ends after subsetVisits prices of tables, or after fruitlessInSubset
	// prices that do not raise its bound. Work is done on at most mostSubsets. At most mostSets sets
	// of devices are looked at, and at most mostSets co-locations.
	subsetVisits, fruitlessInSubset = 12_000, 4_000
	mostSubsets, mostSets           = 8, 200
)

// subsetsOf returns the subsets of the problem's tables: if there are many, those of the
// co-locations with the most tables and of the smallest sets of devices.
func subsetsOf(p *problem.Problem, in set) (all []subset) {
	colocations := p.Colocations()
	var sets [][]int
	for _, c := range colocations {
		if len(c.Tables) > 1 {
			all = append(all, subset{tables: c.Tables, devices: 1})
		}
		if len(c.Devices) > 0 && len(c.Devices) < p.Topology.Devices {
			sets = append(sets, c.Devices)
		}
	}
	slices.SortStableFunc(all, func(a, b subset) int { return len(b.tables) - len(a.tables) })
	all = all[:min(len(all), mostSets)]
	slices.SortFunc(sets, func(a, b []int) int { return cmp.Or(len(a)-len(b), slices.Compare(a, b)) })
	sets = slices.CompactFunc(sets, slices.Equal)
	for _, devices := range sets[:min(len(sets), mostSets)] {
		s := subset{devices: len(devices), of: devices}
		for _, c := range colocations {
			if c.Devices != nil && within(c.Devices, devices) && onlyColumns(p, c.Tables, in) {
				s.tables = append(s.tables, c.Tables...)
			}
		}
		if len(s.tables) > 0 {
			slices.Sort(s.tables)
			all = append(all, s)
		}
	}
	return all
}

// onlyColumns reports whether the tables can be nothing but slices on single devices.
func onlyColumns(p *problem.Problem, tables []int, in set) bool {
	return !slices.ContainsFunc(tables, func(i int) bool {
		f := formsOf(p, i, in, false)
		return f.hbm&^only(problem.ClassColumns) != 0
	})
}

// wholeHost reports whether the devices, ascending, include all devices of a host of several, or
// of the cluster.
func wholeHost(p *problem.Problem, devices []int) bool {
	all, size := p.Topology.Devices, p.Topology.PerHost()
	held := map[int]int{}
	for _, d := range devices {
		host := d / size
		held[host]++
		if full := min(size, all-host*size); held[host] == full && full > 1 {
			return true
		}
	}
	return len(devices) == all
}

// within reports whether all of the devices are in the set. Both ascend.
func within(devices, set []int) bool {
	for _, d := range devices {
		if _, ok := slices.BinarySearch(set, d); !ok {
			return false
		}
	}
	return true
}

// bySubsets returns the higher one of a bound of the plans allowed and the bounds of the
// problem's subsets. in are the classes allowed.
func bySubsets(ctx context.Context, p *problem.Problem, allowed Allowed, in set, onHosts bool, b Bound) (Bound, error) {
	var trees []*tree
	for _, s := range subsetsOf(p, in) {
		t, err := s.tree(p, allowed, in, onHosts)
		if err != nil {
			return Bound{}, err
		}
		if len(t.tables) > 0 && t.most() > float64(b.Total) {
			trees = append(trees, t)
		}
	}
	slices.SortStableFunc(trees, func(x, y *tree) int { return cmp.Compare(y.most(), x.most()) })
	for _, t := range trees[:min(len(trees), mostSubsets)] {
		if t.most() <= float64(b.Total) {
			break
		}
		t.raise(ctx, math.Inf(1))
		if err := ctx.Err(); err != nil {
			return Bound{}, err
		}
		if of := t.bound(); of.Total > b.Total {
			b = of
		}
	}
	return b, nil
}

// tree returns the placements of the subset's tables on its devices.
func (s *subset) tree(p *problem.Problem, allowed Allowed, in set, onHosts bool) (*tree, error) {
	q := *p
	q.Tables = make([]problem.Table, len(s.tables))
	for i, t := range s.tables {
		q.Tables[i] = p.Tables[t]
	}
	comm, err := newExchange(&q, allowed)
	if err != nil {
		return nil, err
	}
	mean := comm.mean(s.devices)
	if in == only(problem.ClassColumns) {
		// The other tables are in the same all-to-alls.
		if comm, err = newExchange(p, allowed); err != nil {
			return nil, err
		}
		mean = (mean + comm.granule - 1) / comm.granule * comm.granule
	}
	comm.least = max(comm.least, mean)
	r := newRelaxation(&q, simulate.NewPricer(&q), s.devices, allowed)
	var memories []memoryClass
	if onHosts {
		r = tieredOf(r)
	} else {
		memories = memoriesOf(&q, s.of)
	}
	t := newTree(r, comm, memories)
	t.visits, t.fruitless = subsetVisits, fruitlessInSubset
	if t.byMemory != nil {
		t.byMemory.visits, t.byMemory.fruitless = subsetVisits, fruitlessInSubset
	}
	return t, nil
}

// most estimates the highest bound that the tree can reach, in ms: as if all tables were whole, and
// took as long together as the sum of their times alone.
func (t *tree) most() float64 {
	sum := 0.0
	for i := range t.tables {
		table := &t.tables[i]
		longest := 0.0
		for l := range t.lanes[table.operation] {
			if table.granules <= t.lanes[table.operation][l].widest {
				longest = max(longest, table.slices[len(table.slices)-1].alone[l])
			}
		}
		sum += table.count * longest
	}
	return fixedMS + sum/float64(t.devices) + t.comm.total(t.comm.least)
}
