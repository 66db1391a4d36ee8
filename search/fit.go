package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// What fits is decided without costs, by bytes alone.
//
//	forced splits   a slice larger than a device's budget is cut in halves,
//	                and those again, until each fits
//	first fit       the pieces by falling bytes, each on the first device with
//	                room: fills the devices to the brim
//	the ladder      where first fit fails, everything larger than 1/2, 1/3, 1/4,
//	                1/6, 1/8, ... of a budget is cut too, down to the narrowest
//	                slices: small pieces leave small gaps
//	the packing     where that fails as well, slices of any width that fill the
//	                gaps (pack.go)
//
// Each rung costs O(P log D) for P pieces on D devices (firstFit keeps a tree
// of the most room left).

// Infeasible is the error of a search that found no placement: no devices of
// this memory hold the tables under the constraints, as far as the method can
// tell.
type Infeasible struct {
	// Method is the one that failed.
	Method Method
	// Table names the table that found no device (the first one of a co-location
	// group) and Width its slice's columns.
	Table string
	Width int
	// Device is the allowed device with the most bytes free when the slice was to
	// be placed; Have is what it had free, Need what the slice (or its group)
	// takes, Missing the difference, 0 where it was not bytes that were missing.
	Device              int
	Need, Have, Missing unit.Bytes
	// DevicesNeeded is the least number of such devices that would do; 0 if no
	// number would.
	DevicesNeeded int
	// Reason says why, and what would help.
	Reason string
	// Tried are the pieces, and host memory, in which the tables do not fit either.
	Tried []string
}

// Error says what lacks where, and why.
func (e *Infeasible) Error() string {
	reason := e.Reason
	if len(e.Tried) > 0 {
		reason += "; with " + strings.Join(e.Tried, ", ") + " they do not fit either"
	}
	if e.Missing == 0 {
		return fmt.Sprintf("table %q: a slice of %d columns finds no device, though it takes %v and device %d has %v free; %s",
			e.Table, e.Width, e.Need, e.Device, e.Have, reason)
	}
	return fmt.Sprintf("table %q: a slice of %d columns takes %v, and device %d, the emptiest it may use, has %v free: %v missing; %s",
		e.Table, e.Width, e.Need, e.Device, e.Have, e.Missing, reason)
}

// forced returns the pieces after forced splits. Where halves come to no slices that
// are narrow enough, MinWidth being too wide for them, the slices are even. failed is
// the piece that lacks most at its narrowest, none if all fit a device.
func (c *catalog) forced() (pieces []int32, failed int32) {
	large := func(k int32) bool { return c.pieces[k].bytes > c.budget }
	whole := c.whole()
	pieces = c.above(whole, c.budget)
	if slices.ContainsFunc(pieces, large) {
		pieces = pieces[:0]
		for _, l := range c.loads(whole) {
			halves := c.above([]int32{l.piece}, c.budget)
			if n := c.cuts(&l); n > 0 && slices.ContainsFunc(halves, large) {
				halves = c.even(&l, n)
			}
			pieces = append(pieces, halves...)
		}
	}
	failed = none
	for _, k := range pieces {
		if large(k) && (failed == none || c.pieces[k].bytes > c.pieces[failed].bytes) {
			failed = k
		}
	}
	return pieces, failed
}

// even returns n slices of a load that are as wide as each other, but for a granule.
func (c *catalog) even(l *load, n int32) []int32 {
	pieces := make([]int32, n)
	for i := range pieces {
		granules := (l.width + int32(i)) / n
		pieces[i] = c.slice(l.piece, int(granules)*problem.ColumnGranule)
	}
	return pieces
}

// above cuts what takes more than limit bytes.
func (c *catalog) above(pieces []int32, limit int64) []int32 {
	return c.refine(pieces, func(k int32) bool { return c.pieces[k].bytes > limit })
}

// ladder calls try for finer and finer splits of pieces, the first being pieces
// itself, until it returns true or nothing can be cut any more.
func (c *catalog) ladder(pieces []int32, try func(pieces []int32) bool) bool {
	if try(pieces) {
		return true
	}
	for parts := int64(2); c.budget/parts > 0; parts = nextRung(parts) {
		finer := c.above(pieces, c.budget/parts)
		if len(finer) > len(pieces) {
			pieces = finer
			if try(pieces) {
				return true
			}
		}
		if !slices.ContainsFunc(pieces, func(k int32) bool { _, _, ok := c.cut(k); return ok }) {
			break
		}
	}
	return false
}

// nextRung counts 2, 3, 4, 6, 8, 12, 16, ...
func nextRung(parts int64) int64 {
	if parts&(parts-1) == 0 {
		return parts / 2 * 3
	}
	return parts / 3 * 4
}

// firstFit places the pieces by falling bytes, each on the first allowed device
// with room, and where that fails once more with the most constrained pieces
// first. It returns the device of each piece and none, or the first piece that
// fitted nowhere in the first attempt.
func (c *catalog) firstFit(pieces []int32) (devices []int32, failed int32) {
	order := make([]entry, len(pieces))
	constrained := false
	for i, k := range pieces {
		order[i] = c.entry(k, int32(i))
		constrained = constrained || c.pieces[k].devices != nil
	}
	slices.SortFunc(order, c.largestFirst)
	devices, failed = c.fit(order)
	if failed != none && constrained {
		slices.SortStableFunc(order, func(a, b entry) int {
			return cmp.Compare(len(c.allowed(&c.pieces[a.piece])), len(c.allowed(&c.pieces[b.piece])))
		})
		if second, f := c.fit(order); f == none {
			return second, none
		}
	}
	return devices, failed
}

// fit is first fit over the pieces in the given order. It stops at the first
// piece without a device and returns its index.
func (c *catalog) fit(order []entry) (devices []int32, failed int32) {
	devices = make([]int32, len(order))
	for i := range devices {
		devices[i] = none
	}
	// Without constraints, no more devices are used than there are pieces.
	usable := len(order)
	for _, p := range order {
		if d := c.pieces[p.piece].devices; d != nil {
			usable = max(usable, len(order)+int(d[len(d)-1])+1)
		}
	}
	free := newRoom(min(usable, len(c.all)), c.budget)
	for _, p := range order {
		k := &c.pieces[p.piece]
		d := none
		if k.devices == nil {
			d = free.first(k.bytes)
		} else if i := slices.IndexFunc(k.devices, func(d int32) bool { return free.of(int(d)) >= k.bytes }); i >= 0 {
			d = int(k.devices[i])
		}
		if d == none {
			return devices, p.index
		}
		free.take(d, k.bytes)
		devices[p.index] = int32(d)
	}
	return devices, none
}

// room is a tournament tree of the bytes free on each device: node i holds the
// larger of nodes 2i and 2i+1, the leaves are the devices.
type room struct {
	tree   []int64
	leaves int
}

func newRoom(devices int, budget int64) *room {
	leaves := 1
	for leaves < devices {
		leaves *= 2
	}
	r := &room{make([]int64, 2*leaves), leaves}
	for i := range r.tree {
		r.tree[i] = math.MinInt64
	}
	for d := range devices {
		for i := leaves + d; i > 0; i /= 2 {
			r.tree[i] = budget
		}
	}
	return r
}

func (r *room) of(device int) int64 { return r.tree[r.leaves+device] }

// first returns the first device with that many bytes free, or none.
func (r *room) first(bytes int64) int {
	if r.tree[1] < bytes {
		return none
	}
	i := 1
	for i < r.leaves {
		i *= 2
		if r.tree[i] < bytes {
			i++
		}
	}
	return i - r.leaves
}

func (r *room) take(device int, bytes int64) {
	i := r.leaves + device
	r.tree[i] -= bytes
	for i /= 2; i > 0; i /= 2 {
		r.tree[i] = max(r.tree[2*i], r.tree[2*i+1])
	}
}

// infeasible describes piece p of the state whose pieces are pieces, which found
// no room when the others were on the given devices.
func (c *catalog) infeasible(method Method, pieces, devices []int32, p int32) *Infeasible {
	used := make([]int64, len(c.all))
	for i, d := range devices {
		if d != none {
			used[d] += c.pieces[pieces[i]].bytes
		}
	}
	k := &c.pieces[pieces[p]]
	freest := c.allowed(k)[0]
	for _, d := range c.allowed(k) {
		if used[d] < used[freest] {
			freest = d
		}
	}
	have := c.budget - used[freest]
	e := &Infeasible{
		Method: method,
		Table:  c.problem.Tables[k.members[0].table].Name,
		Width:  k.members[0].width,
		Device: int(freest),
		Need:   unit.Bytes(k.bytes), Have: unit.Bytes(have), Missing: unit.Bytes(max(0, k.bytes-have)),
	}
	if c.brief {
		e.Reason = "how many devices would do was not asked"
		return e
	}
	e.DevicesNeeded, e.Reason = devicesNeeded(c.problem)
	switch n := len(c.all); {
	case e.DevicesNeeded == 0:
	case e.DevicesNeeded <= n && method != Default:
		e.Reason = fmt.Sprintf("method %q places it nowhere, method %q does", method, Default)
	default:
		e.Reason = fmt.Sprintf("all tables take %v of the %v that %s for them; %d devices would do",
			c.total(pieces), c.room(), devicesHave(n), e.DevicesNeeded)
	}
	return e
}

func devicesHave(n int) string {
	if n == 1 {
		return "1 device has"
	}
	return fmt.Sprintf("%d devices have", n)
}

// room returns the bytes of all devices together that shards may take.
func (c *catalog) room() unit.Bytes { return unit.Bytes(c.budget) * unit.Bytes(len(c.all)) }

// total returns the bytes of all pieces together.
func (c *catalog) total(pieces []int32) (sum unit.Bytes) {
	for _, k := range pieces {
		sum += unit.Bytes(c.pieces[k].bytes)
	}
	return sum
}

// DevicesNeeded returns the least number of devices, otherwise like those of p,
// on which first fit with column splits places all tables: 0 if no number does.
// Method NeuroShard may do with fewer.
// Allowed devices and pins keep their numbers. The problem must be valid.
func DevicesNeeded(p *problem.Problem) int {
	n, _ := devicesNeeded(p)
	return n
}

// devicesNeeded also says why, where no number does. More devices never have
// less room each, but for the step from one to two, which brings the first
// received buffers; so from two on it gallops and bisects.
func devicesNeeded(p *problem.Problem) (n int, reason string) {
	c := newCatalog(p, nil)
	whole := c.whole()
	loads := c.loads(whole)
	least, most := 1, hardware.MaxDevices
	for i := range p.Tables {
		for _, d := range p.Tables[i].Constraint.Devices {
			least = max(least, d+1)
		}
	}
	if t := p.Topology; t.Profile.NICGBps == 0 && t.DevicesPerHost > 0 {
		most = t.DevicesPerHost
	}
	fits := func(n int) bool {
		c.resize(n)
		if bytes, ok := c.fewest(loads); !ok || bytes > c.room() {
			return false
		}
		if p := newPacker(c, loads); len(p.pour(p.order())) == 0 {
			return true
		}
		return c.ladder(c.above(whole, c.budget), func(pieces []int32) bool {
			_, failed := c.firstFit(pieces)
			return failed == none
		})
	}
	if least == 1 && fits(1) {
		return 1, ""
	}
	if !fits(most) {
		return 0, c.hopeless(whole, p.DeviceMemory())
	}
	low, high := max(1, least-1), min(max(2, least), most) // low does not fit
	for !fits(high) {
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

// resize makes the catalog one of the same tables on n devices.
func (c *catalog) resize(n int) {
	resized := *c.problem
	resized.Topology.Devices = n
	c.problem = &resized
	c.budget = int64(resized.ShardBudget())
	for d := len(c.all); d < n; d++ {
		c.all = append(c.all, int32(d))
	}
	c.all = c.all[:n]
}

// hopeless says why the largest cluster does not hold the tables either. The
// catalog has its size; fixed is what a device of the actual cluster keeps free.
func (c *catalog) hopeless(whole []int32, fixed problem.Memory) string {
	var narrowest []int32
	for _, l := range c.loads(whole) {
		narrowest = append(narrowest, c.even(&l, l.width/l.narrowest)...)
	}
	worst := slices.MaxFunc(narrowest, func(a, b int32) int { return cmp.Compare(c.pieces[a].bytes, c.pieces[b].bytes) })
	k := &c.pieces[worst]
	if k.bytes <= c.budget {
		if len(c.all) < hardware.MaxDevices {
			return fmt.Sprintf("profile %q has no network between hosts, and the %d devices of one host do not hold the tables", c.problem.Topology.Profile.Name, len(c.all))
		}
		return "no number of devices would do: the devices that its constraints allow do not hold what is bound to them; allow more"
	}
	what := fmt.Sprintf("its narrowest slice, %d columns,", k.members[0].width)
	if len(k.members) > 1 {
		what = fmt.Sprintf("its co-location group of %d tables", len(k.members))
	}
	t := c.problem.Topology
	taken := float64(unit.Bytes(k.bytes) + fixed.Received + t.ReserveFixed)
	memory := math.Ceil(taken/(1-t.ReserveShare)/float64(unit.GiB)) * float64(unit.GiB)
	return fmt.Sprintf("no number of devices would do: split by columns alone %s of table %q takes %v of the %v available on a device; it needs devices of at least %v",
		what, c.problem.Tables[k.members[0].table].Name, unit.Bytes(k.bytes), unit.Bytes(c.budget), unit.Bytes(memory))
}
