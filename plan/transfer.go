package plan

import (
	"fmt"
	"iter"
	"slices"

	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// transfer.go counts the bytes that devices must send each other so that a running job, placed by
// one plan, goes on by another plan. held.go finds the parts of the tables that each device lacks.

// Transfer is what a change of plans moves: the weights and the optimizer state that each device
// needs under the later plan and did not hold under the earlier plan.
//
// A table of the same name is the same table, and a cell of it (row and column) has the same
// weight in both plans. So a table that gets other rows or another dim keeps the cells that both
// sizes have: whether a new hash size maps the same ids to the same rows is not looked at. A
// device number stands for the same device in both plans.
//
// Each needed cell comes from a device that held the cell. If several devices held it, a device
// that NVLink joins to the target sends it, and of several such devices the one that sends the
// fewest bytes so far. Optimizer state moves with its weights. Row-wise state, one number for each
// row of a shard, moves with the first part of the row, unless the target held any part of the
// shard's row. A change of the memory tier on one device moves nothing between devices. A table whose
// optimizer changes leaves its state behind.
type Transfer struct {
	// Bytes is what devices receive from other devices: Weights, in the later plan's precision,
	// and State, of the optimizer.
	Bytes   unit.Bytes `json:"bytes"`
	Weights unit.Bytes `json:"weights_bytes"`
	State   unit.Bytes `json:"state_bytes"`
	// BetweenBytes is the part of Bytes that crosses the network; the rest stays inside.
	BetweenBytes unit.Bytes `json:"between_bytes"`
	// Added is the bytes that no device held, because tables are new or grew, or their optimizer
	// changed: the job initialises them.
	Added unit.Bytes `json:"added_bytes"`
	// Lost is the bytes of cells that the earlier plan's tables have and none of its devices
	// holds: the job reads them from a checkpoint. It is 0 if the earlier plan is complete.
	Lost unit.Bytes `json:"lost_bytes"`
	// Total is the bytes of all tables under the later plan, each replica counted.
	Total unit.Bytes `json:"total_bytes"`
	// Inside is the time of the busiest device's bytes over NVLink, and Between of the busiest
	// device's bytes over the network: the larger of what the device sends and what it receives,
	// because links carry both at once. The bandwidths are those at which the simulated device
	// exchanges vectors: IntraGBps of the later cluster's profile; and NICGBps, or the cluster's
	// NetworkBandwidth, times hardware.NetworkShare. The times assume that nothing else is on
	// the links. They leave out fixed times, and what devices take to prepare the data and to write
	// it. Both are 0 if Timed is false, because the cluster's profile is not known or has no
	// network for what must cross it.
	Inside  unit.Millis `json:"inside_ms"`
	Between unit.Millis `json:"between_ms"`
	Timed   bool        `json:"timed"`
	// Devices has an entry for every device that one of the plans has, by number.
	Devices []DeviceTransfer `json:"devices"`
	// Tables has the tables with parts that are moved, added or lost, in the later plan's order.
	Tables []TableTransfer `json:"tables"`
}

// DeviceTransfer is what one device receives and sends.
type DeviceTransfer struct {
	Device int        `json:"device"`
	In     unit.Bytes `json:"in_bytes"`
	Out    unit.Bytes `json:"out_bytes"`
	// InBetween and OutBetween are the parts of In and Out that cross the network.
	InBetween  unit.Bytes `json:"in_between_bytes"`
	OutBetween unit.Bytes `json:"out_between_bytes"`
}

// TableTransfer is what is moved of one table. Bytes, Added and Lost are as in Transfer.
type TableTransfer struct {
	Name  string     `json:"name"`
	Bytes unit.Bytes `json:"bytes"`
	Added unit.Bytes `json:"added_bytes,omitempty"`
	Lost  unit.Bytes `json:"lost_bytes,omitempty"`
	Moves []Sent     `json:"moves"`
}

// Link is what joins two devices.
type Link string

// The links.
const (
	// LinkInside is NVLink, or what joins the devices of a host in its place.
	LinkInside Link = "inside"
	// LinkBetween is the network.
	LinkBetween Link = "between"
)

// Sent is a rectangle of a table that one device sends another.
type Sent struct {
	// Rows and Columns are the rectangle: the first, and the one after the last.
	Rows    [2]int64 `json:"rows"`
	Columns [2]int64 `json:"columns"`
	From    int      `json:"from"`
	To      int      `json:"to"`
	// Bytes is the rectangle's weights, and the optimizer state that moves with them.
	Bytes unit.Bytes `json:"bytes"`
	Link  Link       `json:"link"`
}

// Busiest returns the device that sends or receives the most bytes, and these bytes: the larger
// of its In and Out. Of equal devices it returns the first; it returns 0, 0 if there is none.
func (t *Transfer) Busiest() (device int, bytes unit.Bytes) {
	for _, d := range t.Devices {
		if most := max(d.In, d.Out); most > bytes {
			device, bytes = d.Device, most
		}
	}
	return device, bytes
}

// NewTransfer returns what a change from plan before to plan after moves. Both must be placements
// (Validate), except that shards of before may be left out: their devices are lost. A replica that
// is lost is left out by listing the others by device, because Device -1 stands for all devices
// of the plan's cluster. Neither plan is modified.
//
// It fails if a plan lists a table twice, and if a shard lies outside its table or on a device that
// the plan does not have.
func NewTransfer(before, after *Plan) (*Transfer, error) {
	if err := countable(before, after); err != nil {
		return nil, err
	}
	c := &transferCounter{t: &Transfer{Tables: []TableTransfer{}}, before: before, after: after}
	c.t.Devices = make([]DeviceTransfer, max(before.Cluster.Devices, after.Cluster.Devices))
	for d := range c.t.Devices {
		c.t.Devices[d].Device = d
	}
	earlier := byName(before)
	for i := range after.Tables {
		c.table(earlier[after.Tables[i].Name], &after.Tables[i])
	}
	c.times()
	return c.t, nil
}

// countable returns an error if NewTransfer cannot count the bytes between two plans.
func countable(before, after *Plan) error {
	for _, pl := range []struct {
		name string
		*Plan
	}{{"the earlier plan", before}, {"the later plan", after}} {
		seen := make(map[string]bool, len(pl.Tables))
		for i := range pl.Tables {
			t := &pl.Tables[i]
			if seen[t.Name] {
				return fmt.Errorf("table %q is in %s more than once: validate the plan", t.Name, pl.name)
			}
			seen[t.Name] = true
			for k, s := range t.Shards {
				if s.Device < replicated || s.Device >= pl.Cluster.Devices || !t.inside(s) {
					return fmt.Errorf("table %q, shard %d of %s lies outside the table or on device %d of %d: validate the plan", t.Name, k, pl.name, s.Device, pl.Cluster.Devices)
				}
			}
		}
	}
	return nil
}

// transferCounter adds up a Transfer.
type transferCounter struct {
	t             *Transfer
	before, after *Plan
}

// table adds what moves of table b, which the earlier plan has as a, or nil.
func (c *transferCounter) table(a, b *Table) {
	w := weightsOf(a, b)
	devices := c.after.Cluster.Devices
	copies := func(s Shard) unit.Bytes {
		if s.Device == replicated {
			return unit.Bytes(devices)
		}
		return 1
	}
	for _, s := range b.Shards {
		c.t.Total += copies(s) * w.shard(s)
	}
	moved := TableTransfer{Name: b.Name, Moves: []Sent{}}
	if a == nil {
		for _, s := range b.Shards {
			moved.Added += copies(s) * w.shard(s)
		}
		c.add(moved)
		return
	}
	if w.carried && devices <= c.before.Cluster.Devices && sameShards(a, b) {
		return
	}
	held := newHeld(a, c.before.Cluster.Devices)
	for _, s := range b.Shards {
		g, first, last := held.grid(s), s.Device, s.Device
		if s.Device == replicated {
			first, last = 0, devices-1
		}
		for d := first; d <= last; d++ {
			if !w.carried {
				moved.Added += w.state(s)
			}
			c.lacking(&moved, g, w, d)
		}
	}
	c.add(moved)
}

// add adds a table's bytes that are not moved, and lists the table.
func (c *transferCounter) add(moved TableTransfer) {
	if moved.Bytes > 0 || moved.Added > 0 || moved.Lost > 0 {
		c.t.Added += moved.Added
		c.t.Lost += moved.Lost
		c.t.Tables = append(c.t.Tables, moved)
	}
}

// sameShards reports whether both tables have the same size and the same rectangles on the same
// devices, in the same order.
func sameShards(a, b *Table) bool {
	if a.Rows != b.Rows || a.Dim != b.Dim || len(a.Shards) != len(b.Shards) {
		return false
	}
	for k, s := range a.Shards {
		if o := b.Shards[k]; s.Rows != o.Rows || s.Columns != o.Columns || s.Device != o.Device {
			return false
		}
	}
	return true
}

// lacking adds what device lacks of a shard.
func (c *transferCounter) lacking(moved *TableTransfer, g *grid, w weights, device int) {
	for _, p := range g.lacks(device) {
		weights, state := w.piece(p)
		switch p.fate {
		case isAdded:
			moved.Added += weights + state
		case isLost:
			moved.Lost += weights + state
		case isMoved:
			from, link := c.source(p.holders, device)
			c.send(from, device, link, weights+state)
			c.t.Weights += weights
			c.t.State += state
			moved.Bytes += weights + state
			moved.Moves = append(moved.Moves, Sent{
				Rows: [2]int64{p.rows.Start, p.rows.End}, Columns: [2]int64{p.columns.Start, p.columns.End},
				From: from, To: device, Bytes: weights + state, Link: link,
			})
		}
	}
}

// source returns the holder that sends a piece to a device. A holder of -1 stands for all
// devices of the earlier plan.
func (c *transferCounter) source(holders []int, to int) (from int, link Link) {
	inside, between := -1, -1
	for _, h := range holders {
		switch {
		case h == replicated:
			for d := range c.inside(to) {
				inside = c.lighter(inside, d)
			}
		case c.link(h, to) == LinkInside:
			inside = c.lighter(inside, h)
		default:
			between = c.lighter(between, h)
		}
	}
	if inside >= 0 {
		return inside, LinkInside
	}
	if slices.Contains(holders, replicated) { // and all of them are outside
		for d := range c.before.Cluster.Devices {
			between = c.lighter(between, d)
		}
	}
	return between, LinkBetween
}

// lighter returns the device of two that sends fewer bytes so far, and the first of equal ones. A
// device of -1 is none.
func (c *transferCounter) lighter(a, b int) int {
	if a < 0 || c.t.Devices[b].Out < c.t.Devices[a].Out || c.t.Devices[b].Out == c.t.Devices[a].Out && b < a {
		return b
	}
	return a
}

// inside yields the devices of the earlier plan that NVLink joins to a device of the later plan.
func (c *transferCounter) inside(to int) iter.Seq[int] {
	return func(yield func(int) bool) {
		before, after := &c.before.Cluster, &c.after.Cluster
		domain := after.linkDomain()
		for d := to / domain * domain; d < min(before.Devices, after.Devices, (to/domain+1)*domain); d++ {
			if !yield(d) {
				return
			}
		}
		domain = before.linkDomain()
		for d := max(after.Devices, to/domain*domain); d < min(before.Devices, (to/domain+1)*domain); d++ {
			if !yield(d) {
				return
			}
		}
	}
}

// link returns what joins two devices: in the later cluster, or in the earlier cluster if the
// later cluster lacks one of them.
func (c *transferCounter) link(a, b int) Link {
	cluster := &c.after.Cluster
	if max(a, b) >= cluster.Devices {
		cluster = &c.before.Cluster
	}
	if domain := cluster.linkDomain(); a/domain == b/domain {
		return LinkInside
	}
	return LinkBetween
}

// linkDomain returns the number of devices of a full NVLink domain, at least 1.
func (c *Cluster) linkDomain() int { return max(1, c.DevicesPerHost, c.NVLinkDomain) }

func (c *transferCounter) send(from, to int, link Link, bytes unit.Bytes) {
	source, target := &c.t.Devices[from], &c.t.Devices[to]
	c.t.Bytes += bytes
	source.Out += bytes
	target.In += bytes
	if link == LinkBetween {
		c.t.BetweenBytes += bytes
		source.OutBetween += bytes
		target.InBetween += bytes
	}
}

// times sets the times of the busiest devices.
func (c *transferCounter) times() {
	profile, err := hardware.ByName(c.after.Cluster.Profile)
	if err != nil {
		return
	}
	cluster := &c.after.Cluster
	topology := hardware.Topology{
		Profile: profile, NetworkBandwidth: cluster.NetworkBandwidth,
		Devices: max(1, cluster.Devices), DevicesPerHost: cluster.DevicesPerHost, NVLinkDomain: cluster.NVLinkDomain,
	}
	device := topology.Device()
	var inside, between unit.Bytes
	for _, d := range c.t.Devices {
		inside = max(inside, d.In-d.InBetween, d.Out-d.OutBetween)
		between = max(between, d.InBetween, d.OutBetween)
	}
	if between > 0 && device.NICGBps == 0 {
		return
	}
	c.t.Timed = true
	c.t.Inside = over(inside, device.IntraGBps)
	c.t.Between = over(between, device.NICGBps*hardware.NetworkShare(topology.LinkDomains()))
}

// over returns the time of some bytes at a bandwidth in GB/s.
func over(bytes unit.Bytes, gbps float64) unit.Millis {
	if bytes == 0 {
		return 0
	}
	return unit.Millis(float64(bytes) / (gbps * 1e6))
}
