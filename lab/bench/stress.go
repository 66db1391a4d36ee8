package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// packedPrefix begins the names of the families of StressTasks that have a
// placement by construction.
const packedPrefix = "packed-"

// StressTasks draws tasks that nearly fill the memory that a cluster has for tables,
// as package problem counts it: perFamily for each family, which is the tasks'
// setting.
//
//	mid            many tables of like size
//	huge           wide tables, most of them larger than a device, of odd dims; half of
//	               them with a least width of slices
//	few            one to three tables a device
//	fewer          fewer tables than devices
//	dust           huge tables beside tiny ones
//	equal          equal tables; their number is no multiple of the devices'
//	bound          co-locations, allowed devices, tables to stay whole
//	packed-whole   tables to stay whole
//	packed-cut     tables cut over several devices, in half of the tasks into slices
//	               hardly wider than the least; with tables to stay whole
//	packed-bound   the same with co-locations and allowed devices
//
// The tables of a drawn task take 80 to 99 % of the memory; whether it has a
// placement is not known. A task whose family's name begins with "packed-" has one:
// devices were filled with slices up to 95 to 99 %, and the tables were put together from
// the slices.
func StressTasks(profile hardware.Profile, perFamily int, seed uint64) ([]Task, error) {
	var tasks []Task
	for number, f := range stressFamilies {
		for i := range perFamily {
			d := stress{
				draw: rand.New(rand.NewPCG(seed, uint64(number)<<32|uint64(i))),
				p:    problem.Problem{Topology: hardware.Topology{Profile: profile, ReserveShare: hardware.NoReserve}},
			}
			d.p.Batch = 1 << d.between(9, 15)
			fill := .8 + .19*d.draw.Float64()
			if strings.HasPrefix(f.name, packedPrefix) {
				fill = .95 + .04*d.draw.Float64()
			}
			f.tables(&d, fill)
			name := fmt.Sprintf("%s/%d", f.name, i)
			if err := d.p.Validate(); err != nil {
				return nil, fmt.Errorf("drawing task %s: %w", name, err)
			}
			tasks = append(tasks, Task{f.name, name, d.p})
		}
	}
	return tasks, nil
}

var stressFamilies = []struct {
	name   string
	tables func(d *stress, fill float64)
}{
	{"mid", (*stress).mid},
	{"huge", (*stress).huge},
	{"few", (*stress).few},
	{"fewer", (*stress).fewer},
	{"dust", (*stress).dust},
	{"equal", (*stress).equal},
	{"bound", (*stress).bound},
	{packedPrefix + "whole", func(d *stress, fill float64) { d.packed(fill, true, false) }},
	{packedPrefix + "cut", func(d *stress, fill float64) { d.packed(fill, false, false) }},
	{packedPrefix + "bound", func(d *stress, fill float64) { d.packed(fill, false, true) }},
}

// stress draws one task.
type stress struct {
	draw *rand.Rand
	p    problem.Problem
}

// between returns a number from low to high.
func (d *stress) between(low, high int) int { return low + d.draw.IntN(high-low+1) }

// spread returns a number from low to high, each power of ten alike.
func (d *stress) spread(low, high float64) float64 {
	return low * math.Pow(high/low, d.draw.Float64())
}

// table appends a table of dim columns that takes about the given bytes, and
// returns it.
func (d *stress) table(dim int, bytes float64) *problem.Table {
	t := problem.Table{
		Name:      fmt.Sprintf("t%d", len(d.p.Tables)),
		Rows:      1,
		Dim:       dim,
		Features:  []problem.Feature{{PoolingFactor: d.spread(.5, 30)}},
		Weighted:  d.draw.IntN(8) == 0,
		Precision: []problem.Precision{problem.FP32, problem.FP32, problem.FP16}[d.draw.IntN(3)],
		Optimizer: []problem.Optimizer{problem.SGD, problem.RowwiseAdagrad, problem.RowwiseAdagrad, problem.Adagrad, problem.Adam}[d.draw.IntN(5)],
	}
	if d.draw.IntN(6) == 0 {
		t.Features = append(t.Features, problem.Feature{PoolingFactor: d.spread(.5, 10)})
	}
	d.p.Tables = append(d.p.Tables, t)
	d.rows(len(d.p.Tables)-1, dim, bytes)
	return &d.p.Tables[len(d.p.Tables)-1]
}

// rows gives a table the most rows, at least one, with which a slice of width columns
// takes no more than the given bytes, and reports whether the slice takes no more.
func (d *stress) rows(i, width int, bytes float64) bool {
	t := &d.p.Tables[i]
	t.Rows = 1
	one := d.bytes(i, width)
	t.Rows = 2
	row := d.bytes(i, width) - one
	t.Rows = max(1, 1+int64((bytes-float64(one))/float64(row)))
	return float64(one) <= bytes
}

// bytes returns the bytes of a slice of width columns of a table.
func (d *stress) bytes(i, width int) int64 {
	s := d.p.Whole(i)
	s.Columns.End = int64(width)
	return int64(d.p.ShardMemory(s)[problem.ForwardExchange].Used())
}

// budget sets the devices' memory so that tables may take the given bytes of each.
func (d *stress) budget(bytes float64) {
	d.p.Topology.Memory = d.p.DeviceMemory(0)[problem.ForwardExchange].Used() + unit.Bytes(math.Ceil(bytes))
}

// filled sets the devices' memory so that the tables take that share of it.
func (d *stress) filled(share float64) {
	total := 0.0
	for i := range d.p.Tables {
		total += float64(d.bytes(i, d.p.Tables[i].Dim))
	}
	d.budget(total / share / float64(d.p.Topology.Devices))
}

// dim returns a power of two from 4 to 256.
func (d *stress) dim() int { return 4 << d.between(0, 6) }

func (d *stress) mid(fill float64) {
	d.p.Topology.Devices = d.between(2, 16)
	for range d.p.Topology.Devices * d.between(3, 10) {
		d.table(d.dim(), d.spread(.3e9, 3e9))
	}
	d.filled(fill)
}

func (d *stress) huge(fill float64) {
	d.p.Topology.Devices = d.between(3, 16)
	for range d.between(2, d.p.Topology.Devices/2+2) {
		t := d.table(4*d.between(8, 128), d.spread(5e9, 60e9))
		if d.draw.IntN(2) == 0 {
			t.Constraint.MinWidth = min(t.Dim, 4*d.between(1, 16))
		}
	}
	d.filled(fill)
}

func (d *stress) few(fill float64) {
	d.p.Topology.Devices = d.between(4, 32)
	for range d.between(d.p.Topology.Devices, 3*d.p.Topology.Devices) {
		d.table(4*d.between(1, 64), d.spread(1e9, 10e9))
	}
	d.filled(fill)
}

func (d *stress) fewer(fill float64) {
	d.p.Topology.Devices = d.between(4, 32)
	for range d.between(1, d.p.Topology.Devices-1) {
		d.table(4*d.between(8, 128), d.spread(2e9, 20e9))
	}
	d.filled(fill)
}

func (d *stress) dust(fill float64) {
	d.p.Topology.Devices = d.between(2, 12)
	for range d.between(1, d.p.Topology.Devices) {
		d.table(4*d.between(16, 128), d.spread(10e9, 50e9))
	}
	for range d.between(20, 100) {
		d.table(d.dim(), d.spread(1e6, .3e9))
	}
	d.filled(fill)
}

func (d *stress) equal(fill float64) {
	n := d.between(2, 16)
	d.p.Topology.Devices = n
	count := n*d.between(1, 4) + d.between(1, n-1)
	first := *d.table(4*d.between(2, 32), d.spread(1e9, 10e9))
	if d.draw.IntN(4) == 0 {
		first.Constraint.MinWidth = first.Dim / 8 * 4
	}
	d.p.Tables = nil
	for i := range count {
		t := first
		t.Name = fmt.Sprintf("t%d", i)
		d.p.Tables = append(d.p.Tables, t)
	}
	d.filled(fill)
}

func (d *stress) bound(fill float64) {
	n := d.between(3, 12)
	d.p.Topology.Devices = n
	for range n * d.between(4, 10) {
		t := d.table(d.dim(), d.spread(.2e9, 3e9))
		switch d.draw.IntN(6) {
		case 0:
			t.Constraint.NoSplit = true
		case 1:
			t.Constraint.Colocation = fmt.Sprintf("g%d", d.draw.IntN(2*n))
		case 2:
			t.Constraint.Devices = d.devices(d.between(1, n))
		case 3:
			t.Constraint.MinWidth = min(t.Dim, 4*d.between(1, 8))
		}
	}
	d.filled(fill)
}

// devices draws count devices, ascending.
func (d *stress) devices(count int) []int {
	devices := d.draw.Perm(d.p.Topology.Devices)[:count]
	slices.Sort(devices)
	return devices
}

// packed fills each device up to the share with slices, and makes tables of the slices.
// If whole is true, every slice is a table that must stay whole; else some tables are cut
// over several devices. If bound is true, it adds constraints that this placement obeys.
func (d *stress) packed(fill float64, whole, bound bool) {
	n := d.between(2, 16)
	d.p.Topology.Devices = n
	budget := d.spread(5e9, 80e9)
	largest := budget * d.spread(.1, .7)
	narrow := d.draw.IntN(2) == 0
	room := slices.Repeat([]float64{budget * fill}, n)
	for failed := 0; failed < 10; {
		devices := d.devices(1)
		if !whole && d.draw.IntN(3) > 0 {
			devices = d.devices(d.between(1, min(n, 6)))
		}
		if !d.place(devices, room, d.spread(largest/3, largest), narrow) {
			failed++
			continue
		}
		failed = 0
		c := &d.p.Tables[len(d.p.Tables)-1].Constraint
		if len(devices) == 1 {
			c.NoSplit = whole || d.draw.IntN(3) > 0
			if bound && d.draw.IntN(3) == 0 {
				c.Colocation = fmt.Sprintf("g%d-%d", devices[0], d.draw.IntN(2))
			}
		}
		if bound && d.draw.IntN(3) == 0 {
			c.Devices = append(d.devices(d.draw.IntN(n)), devices...)
			slices.Sort(c.Devices)
			c.Devices = slices.Compact(c.Devices)
		}
	}
	// One more table fills the rest of a device.
	for to := range n {
		dim := d.dim()
		d.table(dim, 0)
		last := len(d.p.Tables) - 1
		if !d.rows(last, dim, room[to]) {
			d.p.Tables = d.p.Tables[:last]
			continue
		}
		d.p.Tables[last].Constraint.NoSplit = whole || d.draw.IntN(3) > 0
	}
	d.budget(budget)
}

// place appends a table with a slice on each of the devices and takes their bytes off
// the room; the widest slice takes the given bytes. It does nothing if there is not enough
// room.
// If narrow is true, slices are less than twice as wide as the table's least width.
func (d *stress) place(devices []int, room []float64, bytes float64, narrow bool) bool {
	least, more := 1, 64/len(devices)
	if narrow {
		least = d.between(2, 20)
		more = least - 1
	}
	widths, dim := make([]int, len(devices)), 0
	for i := range widths {
		widths[i] = 4 * (least + d.between(0, more))
		dim += widths[i]
	}
	d.table(dim, 0).Constraint.MinWidth = 4 * least
	last := len(d.p.Tables) - 1
	fits := d.rows(last, slices.Max(widths), bytes)
	for i, to := range devices {
		fits = fits && float64(d.bytes(last, widths[i])) <= room[to]
	}
	if !fits {
		d.p.Tables = d.p.Tables[:last]
		return false
	}
	for i, to := range devices {
		room[to] -= float64(d.bytes(last, widths[i]))
	}
	return true
}
