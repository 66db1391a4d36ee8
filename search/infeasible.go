package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// Infeasible is the error of a search that found no placement. Another method may find
// one, or the same method on devices with more memory: Reason says so.
type Infeasible struct {
	// Method is the method that failed.
	Method Method
	// Table names the table that found no device (the first table of a co-location),
	// and Width is the number of columns of its slice.
	Table string
	Width int
	// Device is the allowed device with the most bytes free when the slice was to be
	// placed. Have is the number of bytes that were free there, Need the number that the
	// slice (or its co-location) takes, and Missing the difference. Missing is 0 if
	// bytes were not the obstacle. Have is below 0 if what the device needs beside tables takes
	// more than its memory.
	Device              int
	Need, Have, Missing unit.Bytes
	// Activations are those of the dense part, if the bytes are missing in the dense forward.
	Activations unit.Bytes
	// DevicesNeeded is the least number of such devices that holds the tables, as by the
	// function DevicesNeeded; 0 if no number does, or if Options.Brief left it out.
	DevicesNeeded int
	// Reason says why the tables do not fit, and what would help.
	Reason string
	// Tried are the sharding types, and InHostMemory, with which the search found no
	// placement either. Proven says that no placement, also with them, fits; otherwise the search
	// did not try all placements.
	Tried  []string
	Proven bool
	// OtherTypes says that the sharding types allowed leave out a type that may cut a table into
	// smaller parts, so that allowing all may help.
	OtherTypes bool
	// OnlyHBM says that the problem's engine keeps all tables in the memory of the devices,
	// so that host memory would not help.
	OnlyHBM bool
	// OneHost says that all slices of Table must lie on one host (problem.Constraint.OneHost).
	OneHost bool
	// Replicas is the number of sharding groups of the cluster, 0 for one: the placement is for one
	// of them.
	Replicas int
}

// Error names the table, the bytes that are missing and the device, and then gives the
// reason.
func (e *Infeasible) Error() string {
	reason := e.Reason
	if len(e.Tried) > 0 {
		reason += "; " + noPlacement(e.Tried, " either", e.Proven)
	} else if e.Method == NeuroShard && !e.Proven {
		reason += "; the search did not try all placements"
	}
	if e.Missing == 0 {
		return fmt.Sprintf("table %q: no device takes a slice of %d columns, although it takes only %v and device %d has %s; %s",
			e.Table, e.Width, e.Need, e.Device, free(e.Have), reason)
	}
	beside := ""
	if e.Activations > 0 {
		beside = fmt.Sprintf(" beside the %v of activations of the dense part", e.Activations)
	}
	return fmt.Sprintf("table %q: a slice of %d columns takes %v, and device %d, the allowed device with the most room, has %s: %v missing%s; %s",
		e.Table, e.Width, e.Need, e.Device, free(e.Have), e.Missing, beside, reason)
}

// free says how much of a device's memory is free for tables. The bytes are below 0 if what a device
// needs beside tables takes more than its memory.
func free(bytes unit.Bytes) string {
	if bytes < 0 {
		return fmt.Sprintf("none free, because its reserve and the buffers of exchanges take %v more than its memory", -bytes)
	}
	return fmt.Sprintf("%v free", bytes)
}

// cutsFurther reports whether the options leave out a sharding type that the search could cut
// tables by. Replicas take more bytes, so they are no such type.
func cutsFurther(r *run) bool {
	if r.opt.Method != NeuroShard || r.opt.ColumnsOnly || r.catalog.problem.Accounting == problem.CountWeights || len(r.catalog.all) < 2 {
		return false
	}
	types := []problem.ShardingType{problem.ColumnWise, problem.RowWise}
	if r.catalog.problem.Topology.Hosts() > 1 {
		types = append(types, problem.Grid)
	}
	allowed := r.opt.ShardingTypes
	if len(allowed) == 0 {
		allowed = []problem.ShardingType{problem.ColumnWise}
	}
	return slices.ContainsFunc(types, func(t problem.ShardingType) bool { return !slices.Contains(allowed, t) })
}

// infeasible describes the failure of the piece with index p, which found no room when
// the other pieces were on the given devices.
func infeasible(c *catalog, method Method, pieces, devices []int32, p int32) *Infeasible {
	l := newLedger(c)
	for i, d := range devices {
		if d != none {
			l.count(&c.pieces[pieces[i]], d, 1)
		}
	}
	k := &c.pieces[pieces[p]]
	freest := slices.MinFunc(c.allowed(k), func(a, b int32) int { return cmp.Compare(l.beyond(a, &k.own), l.beyond(b, &k.own)) })
	phase := 0
	for f := range k.own {
		if k.own[f]-l.free(freest, f) > k.own[phase]-l.free(freest, phase) {
			phase = f
		}
	}
	need, have := k.own[phase], l.free(freest, phase)
	e := &Infeasible{
		Method: method,
		Table:  c.problem.Tables[k.members[0].table].Name,
		Width:  k.members[0].width,
		Device: int(freest),
		Need:   unit.Bytes(need), Have: unit.Bytes(have), Missing: unit.Bytes(max(0, need-have)),
		OnlyHBM: c.rules.OnlyHBM, Replicas: c.problem.Topology.Replicas,
	}
	if phase == int(problem.DenseForward) {
		e.Activations = c.problem.Topology.Activations
	}
	if e.OneHost = staysOnHost(c, k); e.OneHost {
		e.Reason = "all slices of the table must lie on one host, and no host was found with room for them beside the other tables"
		return e
	}
	if c.brief {
		e.Reason = "the search did not count how many devices would be enough"
		return e
	}
	e.DevicesNeeded, e.Reason = devicesNeeded(c.problem)
	switch n := len(c.all); {
	case e.DevicesNeeded == 0:
	case method != Default && columnsFit(c):
		e.Reason = fmt.Sprintf("method %q finds no room for it, but method %q does", method, Default)
	default:
		have := fmt.Sprintf("%d devices have", n)
		if n == 1 {
			have = "1 device has"
		}
		e.Reason = fmt.Sprintf("all tables take %v of the %v that %s for them; %d devices would be enough",
			c.total(pieces), max(0, c.room()), have, e.DevicesNeeded)
	}
	return e
}

// DevicesNeeded returns the least number of devices, otherwise like the devices of p,
// on which first fit with column splits places all tables, or 0 if no number is enough.
// Method NeuroShard may need fewer devices. Allowed devices and pins keep their
// numbers. The problem must be valid; it is not modified.
func DevicesNeeded(p *problem.Problem) int {
	n, _ := devicesNeeded(p)
	return n
}

// devicesNeeded also returns the reason if no number of devices is enough. A device of
// a larger cluster never has less room, with one exception: two devices need buffers
// for received data, one does not. So from two devices on, the number is doubled until
// the tables fit, and then bisected.
func devicesNeeded(p *problem.Problem) (n int, reason string) {
	least, most := 1, hardware.MaxDevices
	for i := range p.Tables {
		for _, d := range p.Tables[i].Constraint.Devices {
			least = max(least, d+1)
		}
	}
	if t := p.Topology; t.Device().NICGBps == 0 && t.DevicesPerHost > 0 {
		most = max(t.DevicesPerHost, t.NVLinkDomain)
	}
	sized := func(n int) *catalog {
		resized := *p
		resized.Topology.Devices = n
		return newCatalog(&resized, nil)
	}
	fits := func(n int) bool { return columnsFit(sized(n)) }
	if least == 1 && fits(1) {
		return 1, ""
	}
	low, high := max(1, least-1), min(max(2, least), most) // the tables do not fit on low devices
	for !fits(high) {
		if high == most {
			return 0, hopeless(sized(most), sized(p.Topology.Devices).ownBudget.less(int64(p.Topology.Usable(p.Topology.Largest()))))
		}
		low, high = high, min(2*high, most)
	}
	for high-low > 1 {
		if middle := low + (high-low)/2; fits(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high, ""
}

// columnsFit reports whether slices of columns certainly fit: first fit or the pour places them, and method
// Default tries both.
func columnsFit(c *catalog) bool {
	pieces, failed := forced(c)
	if failed != none {
		return false
	}
	if devices, failed := firstFit(c, pieces); failed == none && c.holds(pair(pieces, devices)) {
		return true
	}
	columns := onlyColumns(c)
	variants := variantsOf(c, &columns, false)
	if _, _, ok := balanced(c, variants, 1); !ok {
		return false
	}
	return newPacker(c, variants).overflow() == 0
}

// finest returns the widest slice of an unsplit piece that is cut into the most slices possible.
func finest(c *catalog, k int32) int32 {
	m := c.pieces[k].members[0]
	if len(c.pieces[k].members) > 1 {
		return k
	}
	if widths := c.equalWidths[m.table]; c.rules.EqualSlices {
		return c.slice(k, widths[len(widths)-1])
	}
	pieces := even(c, k, m.width/c.least(m.table))
	return pieces[len(pieces)-1]
}

// hopeless says why even the largest cluster does not hold the tables. The catalog has
// that cluster's size; budgets are what shards may take of a device of the actual cluster, less what
// tables may take of it.
func hopeless(c *catalog, budgets perPhase) string {
	var narrowest []int32
	for _, k := range c.whole() {
		narrowest = append(narrowest, finest(c, k))
	}
	worst := slices.MaxFunc(narrowest, func(a, b int32) int { return cmp.Compare(c.bytes(a), c.bytes(b)) })
	k := &c.pieces[worst]
	if !c.exceeds(worst) {
		if len(c.all) < hardware.MaxDevices {
			return fmt.Sprintf("profile %q has no network between hosts, and no placement of slices of columns was found on the %d devices of one host", c.problem.Topology.Profile.Name, len(c.all))
		}
		return "no placement of slices of columns was found for any number of devices: some tables may only use certain devices; allow more devices"
	}
	what := fmt.Sprintf("the narrowest slice (%d columns)", k.members[0].width)
	if len(k.members) > 1 {
		what = fmt.Sprintf("the co-location (%d tables)", len(k.members))
	}
	t, f := c.problem.Topology, 0
	for other := range k.own {
		if k.own[other]-budgets[other] > k.own[f]-budgets[f] {
			f = other
		}
	}
	taken := float64(unit.Bytes(k.own[f]-budgets[f]) + t.ReserveFixed)
	step := float64(unit.GiB)
	if taken/(1-t.KeptShare()) < step/2 {
		step = float64(unit.MiB)
	}
	memory := math.Ceil(taken/(1-t.KeptShare())/step) * step
	return fmt.Sprintf("no number of devices would be enough: with splits by columns only, %s of table %q takes %v of the %v available on a device; in this cluster the table needs devices of at least %v",
		what, c.problem.Tables[k.members[0].table].Name, unit.Bytes(k.own[f]), unit.Bytes(max(0, c.ownBudget[f])), unit.Bytes(memory))
}
