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

// Infeasible is the error of a search that found no placement under the constraints on
// devices of this memory. Another method may find one: see Reason.
type Infeasible struct {
	// Method is the method that failed.
	Method Method
	// Table names the table that found no device (the first one of a co-location
	// group) and Width its slice's columns.
	Table string
	Width int
	// Device is the allowed device with the most bytes free when the slice was to
	// be placed. Have is the bytes it had free, Need the bytes that the slice (or its
	// group) takes, and Missing the difference; 0 if bytes were not the obstacle.
	Device              int
	Need, Have, Missing unit.Bytes
	// DevicesNeeded is the least number of such devices that holds the tables; 0 if no
	// number does.
	DevicesNeeded int
	// Reason says why, and what would help.
	Reason string
	// Tried are the sharding types, and host memory, in which the tables do not fit
	// either.
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

// infeasible describes the piece with index p, which found no room when the other pieces
// were on the given devices.
func infeasible(c *catalog, method Method, pieces, devices []int32, p int32) *Infeasible {
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
	packables := packablesOf(c, whole)
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
		if bytes, ok := fewest(c, packables); !ok || bytes > c.room() {
			return false
		}
		if p := newPacker(c, packables); len(p.pour(p.order())) == 0 {
			return true
		}
		return ladder(c, c.above(whole, c.budget), func(pieces []int32) bool {
			_, failed := firstFit(c, pieces)
			return failed == none
		})
	}
	if least == 1 && fits(1) {
		return 1, ""
	}
	if !fits(most) {
		return 0, hopeless(c, whole, p.DeviceMemory())
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

// hopeless says why the largest cluster does not hold the tables either. The
// catalog has its size; fixed is what a device of the actual cluster keeps free.
func hopeless(c *catalog, whole []int32, fixed problem.Memory) string {
	var narrowest []int32
	for _, l := range packablesOf(c, whole) {
		narrowest = append(narrowest, even(c, &l, l.width/l.narrowest)...)
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
