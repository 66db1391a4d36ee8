package report

import (
	"fmt"
	"io"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// Fullest returns the device of a plan that has the most bytes in use, the
// first of several; -1 if the plan has no devices.
func Fullest(pl *plan.Plan) int {
	fullest := -1
	for i := range pl.Devices {
		if fullest < 0 || used(&pl.Devices[i]) > used(&pl.Devices[fullest]) {
			fullest = i
		}
	}
	return fullest
}

// reserveLine is a part of what a device keeps free.
type reserveLine struct {
	name  string
	bytes unit.Bytes
	what  string
}

// reserved returns what the reserve of a device is for, as far as its plan tells. Where all devices have one
// memory, a plan does not state the share, and only the default one is known by its bytes.
func reserved(t *hardware.Topology, device int, reserve unit.Bytes) (parts []reserveLine) {
	const guess = "a guess for the dense part, NCCL and fragmentation"
	fixed := t.FixedBytes(device)
	kept, usual, stated := reserve-fixed, *t, *t
	usual.ReserveShare, usual.ReserveFixed, stated.ReserveFixed = hardware.DefaultReserveShare, 0, 0
	share := stated.Reserve(device)
	if t.ReserveShare == hardware.NoReserve && kept == usual.Reserve(device) {
		share, kept = kept, 0
		parts = append(parts, reserveLine{"reserve", share, fmt.Sprintf("%s of the memory by default: %s", percent(hardware.DefaultReserveShare, 1), guess)})
	} else if share > 0 {
		kept -= share
		parts = append(parts, reserveLine{"reserve", share, fmt.Sprintf("%s of the memory: %s", percent(t.KeptShare(), 1), guess)})
	}
	if kept > 0 {
		parts = append(parts, reserveLine{"stated", kept, "kept free for the dense part, NCCL and fragmentation, as the cluster states"})
	}
	if fixed > 0 {
		parts = append(parts, reserveLine{"fixed", fixed, "tables that the plan does not place"})
	}
	return parts
}

// MemoryLine is one of the lines that a device's memory in use adds up from.
type MemoryLine struct {
	Name, What string
	// Of returns the bytes of the line.
	Of func(m *problem.Memory) unit.Bytes
}

var memoryLines = []MemoryLine{
	{"weights", "the rows themselves, in their precision", func(m *problem.Memory) unit.Bytes { return m.Weights }},
	{"optimizer", "the optimizer's state, fp32", func(m *problem.Memory) unit.Bytes { return m.Optimizer }},
	{"cache", "copies of the rows in host memory that are read most", func(m *problem.Memory) unit.Bytes { return m.Cache }},
	{"inputs", "raw batches", func(m *problem.Memory) unit.Bytes { return m.Inputs }},
	{"permuted", "their copies in the order in which they are sent", func(m *problem.Memory) unit.Bytes { return m.Permuted }},
	{"indices", "indices and offsets that lookups read, and what sorts them", func(m *problem.Memory) unit.Bytes { return m.Indices }},
	{"outputs", "pooled vectors of the batch, and their copy that is sent", func(m *problem.Memory) unit.Bytes { return m.Outputs }},
	{"received", "this device's share of all pooled vectors", func(m *problem.Memory) unit.Bytes { return m.Received }},
	{"gradients", "gradients of vectors, and of tables on every device", func(m *problem.Memory) unit.Bytes { return m.Gradients }},
	{"activations", "what the dense part keeps until its backward", func(m *problem.Memory) unit.Bytes { return m.Activations }},
	{"allocator", "what the allocator reserves beyond the lines from inputs on", func(m *problem.Memory) unit.Bytes { return m.Allocator }},
}

// MemoryLines returns the lines in the order to show. The list must not be modified.
func MemoryLines() []MemoryLine { return memoryLines }

// Memory writes the memory of one device line by line, as package problem
// counts it. It fails if the plan has no such device.
func Memory(w io.Writer, pl *plan.Plan, device int, opt Options) error {
	if device < 0 || device >= len(pl.Devices) {
		return fmt.Errorf("device %d does not exist: the plan has %s, numbered from 0", device, plural(len(pl.Devices), "device"))
	}
	p := &printer{w: w, opt: opt}
	d := &pl.Devices[device]
	topology := pl.Cluster.Topology()
	m, total := d.Memory, topology.DeviceMemory(device)
	p.printf("%s\n", p.paint(bold, fmt.Sprintf("memory of device %d: %s, the fullest in the %s", device, plural(d.Shards, "shard"), d.Phase.Words())))
	row := func(name string, bytes unit.Bytes, what string) []string {
		return []string{name, count(int64(bytes)), bytes.String(), percent(float64(bytes), float64(total)), what}
	}
	var lines [][]string
	for i, line := range memoryLines {
		if bytes := line.Of(&m); bytes > 0 || i < 2 {
			lines = append(lines, row(line.Name, bytes, line.What))
		}
	}
	lines = append(lines, row("used", used(d), ""))
	if d.Pools > 0 {
		lines = append(lines, row("pools", d.Pools, "estimate of what PyTorch's allocator reserves for them over a step"))
	}
	for _, part := range reserved(&topology, device, m.Reserve) {
		lines = append(lines, row(part.name, part.bytes, part.what))
	}
	lines = append(lines, [][]string{
		row("free", total-used(d)-m.Reserve, ""),
		row("device", total, ""),
	}...)
	if m.Host > 0 {
		host := topology.HostBudget(device)
		lines = append(lines, []string{
			"host", count(int64(m.Host)), m.Host.String(), percent(float64(m.Host), float64(host)),
			fmt.Sprintf("host memory; the tables of this device may use %v", host),
		})
	}
	p.grid([]string{"<line", "bytes", "size", "share", "<what"}, lines)
	return p.err
}
