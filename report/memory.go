package report

import (
	"fmt"
	"io"

	"github.com/neuroshard/neuroshard/plan"
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
	p.printf("%s\n", p.paint(bold, fmt.Sprintf("memory of device %d: %s", device, plural(d.Shards, "shard"))))
	row := func(name string, bytes unit.Bytes, what string) []string {
		return []string{name, count(int64(bytes)), bytes.String(), percent(float64(bytes), float64(total)), what}
	}
	outputs, gradients := "pooled vectors of the batch, before the all-to-all", "pooled vectors to be sent, later their gradients"
	if !pl.Plain() {
		outputs = "pooled vectors of the batch, before the exchanges"
	}
	if pl.ShardingTypes()[plan.DataParallel] > 0 {
		gradients += ", and dense gradients of the tables on every device"
		if m.Outputs == 0 { // the device has no pooled vectors of its own
			gradients = "dense gradients of the tables on every device"
		}
	}
	lines := [][]string{
		row("weights", m.Weights, "the rows themselves, in their precision"),
		row("optimizer", m.Optimizer, "the optimizer's state, fp32"),
		row("outputs", m.Outputs, outputs),
		row("gradients", m.Gradients, gradients),
		row("indices", m.Indices, "indices and offsets of the batch, with the buffers to sort them"),
	}
	if m.Cache > 0 {
		lines = append(lines, row("cache", m.Cache, "copies of the rows in host memory that are read most"))
	}
	fixed := topology.FixedBytes(device)
	lines = append(lines, [][]string{
		row("received", m.Received, "this device's share of all pooled vectors"),
		row("used", used(d), ""),
		row("reserve", m.Reserve-fixed, "kept free for the dense part and the allocator"),
	}...)
	if fixed > 0 {
		lines = append(lines, row("fixed", fixed, "tables that the plan does not place"))
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
