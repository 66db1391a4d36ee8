package search

import (
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// A piece lies on a seat: one device, all devices of one host, or all there are. What
// is on all devices is alike on each, so it is kept once.

// seat says which devices a piece takes.
type span uint8

const (
	oneDevice span = iota
	oneHost
	everywhere
)

func spanOf(f problem.Form) span {
	switch f.Kind {
	case problem.RowWise, problem.DataParallel:
		return everywhere
	case problem.TableRowWise:
		return oneHost
	}
	return oneDevice
}

// devicesOf returns the number of devices of a seat.
func (c *catalog) devicesOf(s span) int {
	switch s {
	case oneHost:
		return c.problem.Topology.PerHost()
	case everywhere:
		return len(c.all)
	}
	return 1
}

// seat calls visit for each device of the seat that device d is of, with its number
// within the seat.
func (c *catalog) eachOf(s span, d int32, visit func(i int, device int32)) {
	first, n := d, int32(c.devicesOf(s))
	if s == everywhere {
		first = 0
	} else if s == oneHost {
		first = d / n * n
	}
	for i := range n {
		visit(int(i), first+i)
	}
}

// cacheShares are the shares of a table's rows in host memory that are tried as its
// cache; 0 stands for no cache.
var cacheShares = []float64{.02, .05, .1, .2, .4, 0}

// forms is what the tables may be besides slices in HBM, and what such take: the part
// of a refiner that knows of other forms than columns.
type forms struct {
	scorer Scorer
	// columns says that slices in HBM are allowed at all.
	columns bool
	// choices are the forms of a table, by the table; nil where it has the zero one
	// only. The zero form is not among them.
	choices [][]problem.Form
	// whole is the piece of the unsplit table.
	whole []int32
	// sliced says whether a table by rows may be cut by columns as well (grid).
	sliced bool
	// local is the devices of a host.
	local int32

	// everywhere is the bytes on every device of what lies on all, and onHost those on
	// every device of a host; hostBytes those of host memory by device, of which each
	// may take hostBudget.
	everywhere int64
	onHost     []int64
	hostBytes  []int64
	hostBudget int64
	// loose says that only all devices together need have room.
	loose bool
}

// newForms returns the forms that the options allow for the catalog's tables, nil if
// there are none but slices in HBM. On one
// host, blocks for a host are those for all devices, and tried only in their place.
func newForms(c *catalog, opt Options) *forms {
	t := c.problem.Topology
	n, local := len(c.all), t.PerHost()
	allowed := func(k problem.Kind) bool { return slices.Contains(opt.Kinds, k) }
	f := &forms{
		columns: len(opt.Kinds) == 0 || allowed(problem.TableWise) || allowed(problem.ColumnWise),
		choices: make([][]problem.Form, len(c.problem.Tables)), whole: make([]int32, len(c.problem.Tables)),
		sliced: allowed(problem.Grid), local: int32(local),
		onHost: make([]int64, t.Hosts()), hostBytes: make([]int64, n), hostBudget: int64(t.HostBudget()),
	}
	any := false
	for _, k := range c.whole() {
		members := c.pieces[k].members
		i := members[0].table
		table := &c.problem.Tables[i]
		f.whole[i] = k
		if table.Constraint.Group != "" {
			continue
		}
		free := len(table.Constraint.Devices) == 0 && n > 1 && c.problem.Accounting == problem.CountAll
		rows := free && !table.Constraint.NoSplit
		if rows && allowed(problem.RowWise) && table.CutsByRows(n) {
			f.choices[i] = append(f.choices[i], problem.Form{Kind: problem.RowWise})
		}
		if rows && (t.Hosts() > 1 || !allowed(problem.RowWise)) && (allowed(problem.TableRowWise) || allowed(problem.Grid)) && table.CutsByRows(local) {
			f.choices[i] = append(f.choices[i], problem.Form{Kind: problem.TableRowWise})
		}
		if free && allowed(problem.DataParallel) {
			f.choices[i] = append(f.choices[i], problem.Form{Kind: problem.DataParallel})
		}
		if f.columns && f.hostBudget > 0 && c.problem.Accounting == problem.CountAll {
			for _, share := range cacheShares {
				form := problem.Form{Tier: problem.HostCached, Cache: share}
				if share == 0 {
					form = problem.Form{Tier: problem.Host}
				}
				f.choices[i] = append(f.choices[i], form)
			}
		}
		any = any || len(f.choices[i]) > 0
	}
	if !any && f.columns {
		return nil
	}
	return f
}

// clear takes all out.
func (f *forms) clear() {
	f.everywhere = 0
	clear(f.onHost)
	clear(f.hostBytes)
}

// count adds a piece's bytes to what they are counted by, or takes them out, unless
// they are those of one device's HBM.
func (f *forms) count(k *piece, device int32, sign int64) {
	switch k.span {
	case everywhere:
		f.everywhere += sign * k.bytes
	case oneHost:
		f.onHost[device/f.local] += sign * k.bytes
	case oneDevice:
		f.hostBytes[device] += sign * k.hostBytes
	}
}

// on returns the bytes of HBM that device d gives to what it does not hold alone.
func (f *forms) on(d int32) int64 {
	if f == nil {
		return 0
	}
	return f.everywhere + f.onHost[d/f.local]
}

// fullHosts is the number of hosts that have all their devices.
func (f *forms) fullHosts(devices int) int32 { return int32(devices) / f.local }

// lack returns by how many bytes the devices are beyond their budgets, in HBM and in
// host memory, given what each holds alone.
func (f *forms) lack(bytes []int64, budget int64) int64 {
	most := int64(math.MinInt64)
	if f.loose {
		sum := int64(0)
		for d := range bytes {
			sum += bytes[d] + f.on(int32(d)) - budget
			most = max(most, f.hostBytes[d]-f.hostBudget)
		}
		return max(0, most, sum)
	}
	for d := range bytes {
		most = max(most, bytes[d]+f.on(int32(d))-budget, f.hostBytes[d]-f.hostBudget)
	}
	return max(0, most)
}

// spreads reports whether the change that is tried is one of other bytes than those
// of single devices' HBM.
func (r *refiner) spreads() bool {
	other := func(piece int32) bool {
		k := &r.c.pieces[piece]
		return k.span != oneDevice || k.hostBytes > 0
	}
	for _, slot := range r.gone {
		if other(r.parts[slot].piece) {
			return true
		}
	}
	for _, p := range r.come {
		if other(p.piece) {
			return true
		}
	}
	return false
}

// fitsAll is fits for such changes: it looks at all devices.
func (r *refiner) fitsAll() bool {
	change := func(p placed, sign int64) {
		k := &r.c.pieces[p.piece]
		if k.span == oneDevice {
			r.bytes[p.device] += sign * k.bytes
		}
		r.f.count(k, p.device, sign)
	}
	for _, slot := range r.gone {
		change(r.parts[slot], -1)
	}
	for _, p := range r.come {
		change(p, 1)
	}
	fits := r.f.lack(r.bytes, r.c.budget) == 0
	for _, p := range r.come {
		change(p, -1)
	}
	for _, slot := range r.gone {
		change(r.parts[slot], 1)
	}
	if fits {
		for _, p := range r.come {
			r.c.items(&r.c.pieces[p.piece])
		}
	}
	return fits
}

// probe finds what a column of the device with the most takes of the all-to-alls, and
// what they take besides: by two slices that are put there and taken off again.
func (r *refiner) probe() {
	probe := int32(none)
	for _, k := range r.f.whole {
		if r.c.pieces[k].dims > 0 && len(r.c.pieces[k].members) == 1 {
			probe = k
			break
		}
	}
	if probe == none {
		return
	}
	r.c.items(&r.c.pieces[probe])
	device := 0
	for d, columns := range r.dims {
		if columns > r.dims[device] {
			device = d
		}
	}
	item, columns := r.c.pieces[probe].members[0].item, float64(r.c.pieces[probe].dims)
	var exchange [2]float64
	for i := range exchange {
		r.scorer.Add(device, item)
		longest := r.scorer.Compute(device)
		for d, t := range r.compute {
			if d != device {
				longest = max(longest, t)
			}
		}
		exchange[i] = r.scorer.Cost() - longest - r.f.scorer.Shared()
	}
	r.scorer.Remove(device, item)
	r.scorer.Remove(device, item)
	r.column = max(0, (exchange[1]-exchange[0])/columns)
	r.opening = max(0, exchange[0]-r.column*(float64(r.dims[device])+columns))
}

// otherHost draws a full host other than a part's own, and returns its first device.
func (r *refiner) otherHost(p placed) (int32, bool) {
	if r.c.pieces[p.piece].span != oneHost {
		return 0, false
	}
	hosts := r.f.fullHosts(len(r.c.all))
	if hosts < 2 {
		return 0, false
	}
	h := int32(r.draw.IntN(int(hosts - 1)))
	if h >= p.device/r.f.local {
		h++
	}
	return h * r.f.local, true
}

// mayCut reports whether a part may be cut by columns in the form it has.
func (r *refiner) mayCut(slot int32) bool {
	switch r.c.pieces[r.parts[slot].piece].span {
	case oneHost:
		return r.f.sliced
	case everywhere:
		return false
	}
	return true
}

const (
	// reformEvery is how many changes there are for one of a table's form.
	reformEvery = 6
	// reformLooks is how many devices are looked at for one that takes the least.
	reformLooks = 3
)

// reform takes a table, a slice of which is given, into another form.
func (r *refiner) reform(slot int32) bool {
	p := r.parts[slot]
	table, ok := r.table(p.piece)
	if !ok || len(r.f.choices[table]) == 0 {
		return false
	}
	choices := r.f.choices[table]
	now := r.c.pieces[p.piece].form
	n := len(choices)
	if r.f.columns {
		n++ // the zero form
	}
	to := problem.Form{}
	if i := r.draw.IntN(n); i < len(choices) {
		to = choices[i]
	}
	if to == now {
		return false
	}
	if spanOf(to) == oneDevice && spanOf(now) == oneDevice && r.draw.IntN(2) == 0 {
		return r.remain(table, to)
	}
	return r.become(table, to, int64(r.draw.IntN(2)))
}

// remain proposes that the slices of a table take another form where they are.
func (r *refiner) remain(table int, to problem.Form) bool {
	r.gone, r.come = append(r.gone[:0], r.tables[table]...), r.come[:0]
	for _, slot := range r.gone {
		p := r.parts[slot]
		r.come = append(r.come, placed{r.c.inForm(p.piece, r.width(slot), to), p.device})
	}
	return r.fits()
}

// become proposes that a table takes a form: in slices if that is of columns and a
// slice is larger than a device takes, and in twice as many for each finer.
func (r *refiner) become(table int, to problem.Form, finer int64) bool {
	r.gone, r.come = append(r.gone[:0], r.tables[table]...), r.come[:0]
	whole := r.f.whole[table]
	width := r.c.pieces[whole].members[0].width
	switch spanOf(to) {
	case everywhere:
		r.come = append(r.come, placed{r.c.inForm(whole, width, to), 0})
	case oneHost:
		hosts := r.f.fullHosts(len(r.c.all))
		host := int32(r.draw.IntN(int(hosts)))
		pieces := []int32{r.c.inForm(whole, width, to)}
		if r.f.sliced {
			pieces = r.c.refine(pieces, func(k int32) bool { return r.c.pieces[k].bytes > r.c.budget })
		}
		if len(pieces) > int(hosts) {
			return false
		}
		for i, k := range pieces { // on hosts of their own
			r.come = append(r.come, placed{k, (host + int32(i)) % hosts * r.f.local})
		}
	case oneDevice:
		return r.slices(whole, to, finer) && r.fits()
	}
	return r.fits()
}

// slices proposes slices of a whole table, on devices that take little.
func (r *refiner) slices(whole int32, form problem.Form, finer int64) bool {
	const g = problem.ColumnGranule
	k := &r.c.pieces[r.c.inForm(whole, r.c.pieces[whole].members[0].width, form)]
	m := k.members[0]
	n := (k.bytes + r.c.budget - 1) / max(1, r.c.budget)
	if r.f.hostBudget > 0 {
		n = max(n, (k.hostBytes+r.f.hostBudget-1)/r.f.hostBudget)
	}
	n <<= finer
	granules := int64(m.width / g)
	n = max(1, min(n, int64(len(r.c.allowed(k))), granules*g/int64(r.c.least(m.table))))
	if r.c.problem.Tables[m.table].MinWidth() == m.width {
		n = 1
	}
	allowed := r.c.allowed(k)
	for i := range n {
		piece := r.c.inForm(whole, int((granules+i)/n)*g, form)
		best := int32(none)
		for range reformLooks {
			d := allowed[r.draw.IntN(len(allowed))]
			used := slices.ContainsFunc(r.come, func(p placed) bool { return p.device == d })
			if !used && (best == none || r.compute[d] < r.compute[best]) {
				best = d
			}
		}
		if best == none {
			return false
		}
		r.come = append(r.come, placed{piece, best})
	}
	return true
}
