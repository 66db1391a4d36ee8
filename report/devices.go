package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// devices.go lists the devices: one line each with its bytes, its times and a
// bar of them.
//
// A device that is ready early waits for the last one in the forward all-to-all, so
// the totals of all devices are nearly equal. The bars therefore show the wait
// separately, and the busy time is the total without it. The wait of a device is the
// time of its forward all-to-all less the shortest one of all devices.

// Up to mostDevices devices are all listed; of more, the busiest and the least busy.
const (
	mostDevices = 32
	busiest     = 8
	leastBusy   = 4
)

// Load is a device's time in a step, by what it does.
type Load struct {
	Forward, Backward unit.Millis
	// ForwardComm is the time of the forward exchange without Wait.
	ForwardComm, BackwardComm unit.Millis
	// Wait is the time that the device waits for the slowest one, before the forward exchange.
	Wait unit.Millis
}

// Busy is the time without waiting.
func (l Load) Busy() unit.Millis { return l.Forward + l.Backward + l.ForwardComm + l.BackwardComm }

// Total is the time with waiting.
func (l Load) Total() unit.Millis { return l.Busy() + l.Wait }

// Loads returns the predicted times of a plan's devices, with the wait separated from the rest of
// the forward exchange. The times of TorchRec's formulas have no wait. All times are 0 if
// the plan is not Priced.
func Loads(pl *plan.Plan) []Load {
	shortest := unit.Millis(math.Inf(1))
	for i := range pl.Devices {
		shortest = min(shortest, pl.Devices[i].ForwardComm)
	}
	all := make([]Load, len(pl.Devices))
	for i := range pl.Devices {
		d := &pl.Devices[i]
		all[i] = Load{d.Forward, d.Backward, shortest, d.BackwardComm, d.ForwardComm - shortest}
		if formulas(pl) { // devices do not wait for each other
			all[i].ForwardComm, all[i].Wait = d.ForwardComm, 0
		}
	}
	return all
}

// Critical returns the busiest device of a plan, the first of several; -1 if the plan has no predicted
// times.
func Critical(pl *plan.Plan) int {
	if len(pl.Devices) == 0 || !pl.Priced() {
		return -1
	}
	return busiestOf(Loads(pl))
}

// busiestOf returns the device with the longest busy time, the first of several.
func busiestOf(all []Load) int {
	busiest := 0
	for i, l := range all {
		if l.Busy() > all[busiest].Busy() {
			busiest = i
		}
	}
	return busiest
}

func meanLoad(all []Load) Load {
	var sum Load
	for _, l := range all {
		sum.Forward += l.Forward
		sum.Backward += l.Backward
		sum.ForwardComm += l.ForwardComm
		sum.BackwardComm += l.BackwardComm
		sum.Wait += l.Wait
	}
	n := unit.Millis(max(1, len(all)))
	return Load{sum.Forward / n, sum.Backward / n, sum.ForwardComm / n, sum.BackwardComm / n, sum.Wait / n}
}

// used returns the bytes of a device that tables and their buffers take.
func used(d *plan.Device) unit.Bytes { return d.Memory.Used() }

// between prints a size, or the least and the most of several.
func between(least, most unit.Bytes) string {
	if least == most {
		return most.String()
	}
	return fmt.Sprintf("%v to %v", least, most)
}

func (v *view) devices() {
	n := len(v.plan.Devices)
	if n == 0 {
		return
	}
	shown, note := v.choose()
	topology := v.plan.Cluster.Topology()
	v.section("devices: %s%s", roomOf(&topology), note)
	longest := unit.Millis(0)
	for _, l := range v.loads {
		longest = max(longest, l.Total())
	}
	t := deviceTable{view: v, times: alignTo(longest), longest: longest, narrow: v.opt.width() < 110, topology: topology, uneven: topology.UnevenMemory()}
	for i := range v.plan.Devices {
		m := &v.plan.Devices[i].Memory
		t.caches = t.caches || m.Cache > 0
		t.hosts = t.hosts || m.Host > 0
	}
	var lines []line
	for _, i := range shown {
		if i < 0 {
			lines = append(lines, line{cells: []string{"..."}})
			continue
		}
		d := &v.plan.Devices[i]
		lines = append(lines, t.line(strconv.Itoa(i), d.Shards, d.DimSum, t.bytesOf(i), v.loads[i]))
	}
	if n > 1 {
		lines = append(lines, t.summary(len(shown) < n)...)
	}
	t.draw(lines)
	for i := range topology.Fixed {
		v.printf("%s\n", Fixed(&topology.Fixed[i]))
	}
	if !v.plan.Priced() {
		return
	}
	parts := blocks[:]
	if formulas(v.plan) {
		parts = blocks[:waiting]
	}
	legend := make([]string, len(parts))
	for i, b := range parts {
		meaning := b.meaning
		if i == exchanges && !v.plan.Plain() {
			meaning = "exchanges"
		}
		legend[i] = v.paint(b.colour, b.glyph) + " " + meaning
	}
	v.printf("%s; times in ms, predicted\n", strings.Join(legend, "  "))
}

// Fixed says what a fixed load takes: "device 3 also holds user_dynamic: 12 GiB, 0.8 ms".
func Fixed(l *hardware.FixedLoad) string {
	where := "each device"
	if n := len(l.Devices); n > 0 {
		where = "device"
		if n > 1 {
			where = "each of devices"
		}
		numbers := make([]string, n)
		for i, d := range l.Devices {
			numbers[i] = strconv.Itoa(d)
		}
		where += " " + words.List(numbers, mostDevices)
	}
	var takes []string
	if l.Bytes > 0 {
		takes = append(takes, l.Bytes.String())
	}
	if l.Time > 0 {
		takes = append(takes, l.Time.String())
	}
	return fmt.Sprintf("%s also holds %s: %s", where, OneLine(l.Name), strings.Join(takes, ", "))
}

// roomOf says how much memory devices have, and how much of it and of host memory tables may use.
func roomOf(t *hardware.Topology) string {
	small, large, bare := t.Smallest(), t.Largest(), *t
	bare.Fixed = nil
	text := fmt.Sprintf("%s of memory each, tables may use %s", between(t.DeviceMemory(bare.Smallest()), t.DeviceMemory(bare.Largest())), between(t.Usable(small), t.Usable(large)))
	if t.MostHostMemory() == 0 {
		return text
	}
	least, most := t.HostBudget(0), t.HostBudget(0)
	for d := range t.Devices {
		least, most = min(least, t.HostBudget(d)), max(most, t.HostBudget(d))
	}
	return text + fmt.Sprintf(", and %s of host memory", between(least, most))
}

// choose returns the devices to list: -1 stands for those left out.
func (v *view) choose() (shown []int, note string) {
	n := len(v.loads)
	if n <= mostDevices || v.opt.AllDevices {
		for i := range n {
			shown = append(shown, i)
		}
		return shown, ""
	}
	order := byBusy(v.loads)
	shown = append(slices.Clone(order[:busiest]), -1)
	return append(shown, order[n-leastBusy:]...), fmt.Sprintf("; showing the %d busiest and the %d least busy of %d", busiest, leastBusy, n)
}

// deviceTable lays out the lines of devices.
type deviceTable struct {
	*view
	times   aligned
	longest unit.Millis
	// narrow leaves the parts of the total to the bar.
	narrow bool
	// topology says what each device has; uneven is true if the devices' memories differ.
	topology hardware.Topology
	uneven   bool
	// caches and hosts are true if some device has bytes of a cache, or of host memory.
	caches, hosts bool
}

// deviceBytes are the bytes of tables on a device: used is what they take and of what they may take;
// cache and host are what they take in caches and in host memory. share and hostShare are the
// quotients of what they take and what they may take.
type deviceBytes struct {
	used, of, cache, host unit.Bytes
	share, hostShare      float64
}

func (t *deviceTable) bytesOf(device int) deviceBytes {
	d := &t.plan.Devices[device]
	of, host := t.topology.Usable(device), t.topology.HostBudget(device)
	return deviceBytes{used(d), of, d.Memory.Cache, d.Memory.Host, float64(used(d)) / float64(of), float64(d.Memory.Host) / float64(host)}
}

// The blocks of exchanges and of waiting.
const exchanges, waiting = 2, 3

// The parts of a bar, in the order in which they are drawn.
var blocks = [4]struct{ glyph, colour, meaning string }{
	{"█", cyan, "forward"},
	{"▓", blue, "backward"},
	{"▒", magenta, "all-to-alls"},
	{"░", "", "waiting for the busiest device"},
}

func (t *deviceTable) titles() []string {
	titles := []string{"device", "shards", "dim sum", "memory"}
	if t.uneven {
		titles = append(titles, "of")
	}
	titles = append(titles, "used")
	if t.caches {
		titles = append(titles, "cache")
	}
	if t.hosts {
		titles = append(titles, "host memory", "used")
	}
	if !t.plan.Priced() {
		return titles
	}
	if !t.narrow {
		titles = append(titles, "forward", "fwd comm", "bwd comm", "backward")
	}
	return append(titles, "total")
}

// line is a line of the table: its cells, and the bar behind them, if any.
type line struct {
	cells []string
	bar   *Load
}

func (t *deviceTable) line(label string, shards, dimSum int, bytes deviceBytes, l Load) line {
	cells := t.sizes(label, shards, dimSum, bytes)
	return line{t.timed(cells, l.Forward, l.ForwardComm+l.Wait, l.BackwardComm, l.Backward, l.Total()), &l}
}

// sizes returns the columns up to the times.
func (t *deviceTable) sizes(label string, shards, dimSum int, bytes deviceBytes) []string {
	cells := []string{label, count(int64(shards)), count(int64(dimSum)), bytes.used.String()}
	if t.uneven {
		cells = append(cells, bytes.of.String())
	}
	cells = append(cells, percent(bytes.share, 1))
	if t.caches {
		cells = append(cells, bytes.cache.String())
	}
	if t.hosts {
		cells = append(cells, bytes.host.String(), percent(bytes.hostShare, 1))
	}
	return cells
}

// timed adds the columns of times.
func (t *deviceTable) timed(cells []string, forward, forwardComm, backwardComm, backward, total unit.Millis) []string {
	if !t.plan.Priced() {
		return cells
	}
	if !t.narrow {
		cells = append(cells, t.times.ms(forward), t.times.ms(forwardComm), t.times.ms(backwardComm), t.times.ms(backward))
	}
	return append(cells, t.times.ms(total))
}

// summary adds the mean and, if devices are left out, the extremes of each column.
func (t *deviceTable) summary(extremes bool) []line {
	n := len(t.loads)
	shards, dims, bytes, hosts := 0, 0, deviceBytes{}, unit.Bytes(0)
	for i := range t.plan.Devices {
		d := &t.plan.Devices[i]
		shards, dims = shards+d.Shards, dims+d.DimSum
		one := t.bytesOf(i)
		bytes = deviceBytes{used: bytes.used + one.used, of: bytes.of + one.of, cache: bytes.cache + one.cache, host: bytes.host + one.host}
		hosts += t.topology.HostBudget(i)
	}
	of := unit.Bytes(n)
	bytes = deviceBytes{used: bytes.used / of, of: bytes.of / of, cache: bytes.cache / of, host: bytes.host / of}
	bytes.share, bytes.hostShare = float64(bytes.used)/float64(bytes.of), float64(bytes.host)/float64(hosts/of)
	lines := []line{t.line("mean", round(shards, n), round(dims, n), bytes, meanLoad(t.loads))}
	if extremes {
		lines = append(lines, t.extreme("min", -1), t.extreme("max", +1))
	}
	return lines
}

// extreme returns the line of the least (sign -1) or largest values.
func (t *deviceTable) extreme(label string, sign int) line {
	devices := t.plan.Devices
	shards := pick(sign, len(devices), func(i int) int { return devices[i].Shards })
	dims := pick(sign, len(devices), func(i int) int { return devices[i].DimSum })
	size := func(part func(b deviceBytes) unit.Bytes) unit.Bytes {
		return pick(sign, len(devices), func(i int) unit.Bytes { return part(t.bytesOf(i)) })
	}
	share := func(part func(b deviceBytes) float64) float64 {
		return pick(sign, len(devices), func(i int) float64 { return part(t.bytesOf(i)) })
	}
	bytes := deviceBytes{
		size(func(b deviceBytes) unit.Bytes { return b.used }),
		size(func(b deviceBytes) unit.Bytes { return b.of }),
		size(func(b deviceBytes) unit.Bytes { return b.cache }),
		size(func(b deviceBytes) unit.Bytes { return b.host }),
		share(func(b deviceBytes) float64 { return b.share }),
		share(func(b deviceBytes) float64 { return b.hostShare }),
	}
	cells := t.sizes(label, shards, dims, bytes)
	of := func(part func(l Load) unit.Millis) unit.Millis {
		return pick(sign, len(t.loads), func(i int) unit.Millis { return part(t.loads[i]) })
	}
	return line{cells: t.timed(cells,
		of(func(l Load) unit.Millis { return l.Forward }),
		of(func(l Load) unit.Millis { return l.ForwardComm + l.Wait }),
		of(func(l Load) unit.Millis { return l.BackwardComm }),
		of(func(l Load) unit.Millis { return l.Backward }),
		of(Load.Total))}
}

// pick returns the least (sign -1) or largest of n values.
func pick[T cmp.Ordered](sign, n int, value func(i int) T) T {
	best := value(0)
	for i := 1; i < n; i++ {
		if v := value(i); cmp.Compare(v, best) == sign {
			best = v
		}
	}
	return best
}

func round(sum, n int) int { return int(math.Round(float64(sum) / float64(n))) }

// draw renders the table and puts the bars behind its lines.
func (t *deviceTable) draw(lines []line) {
	rows := make([][]string, len(lines))
	for i := range lines {
		rows[i] = lines[i].cells
	}
	texts := strings.Split(render(t.titles(), rows, 0), "\n")
	widest := 0
	for _, text := range texts {
		widest = max(widest, len(text))
	}
	room := min(max(t.opt.width()-widest-2, 10), 40)
	for i, text := range texts {
		if i > 0 && lines[i-1].bar != nil && t.plan.Priced() {
			text = fmt.Sprintf("%-*s  %s", widest, text, t.bar(lines[i-1].bar, room))
		}
		t.write(text + "\n")
	}
}

// bar draws a device's times as blocks. The longest total takes the whole width. It rounds the
// ends of the parts, not their lengths, so that rounding does not change the length of a bar.
func (t *deviceTable) bar(l *Load, width int) string {
	var b strings.Builder
	sum, drawn := unit.Millis(0), 0
	for i, part := range []unit.Millis{l.Forward, l.Backward, l.ForwardComm + l.BackwardComm, l.Wait} {
		sum += part
		end := 0
		if t.longest > 0 {
			end = int(math.Round(float64(sum / t.longest * unit.Millis(width))))
		}
		b.WriteString(t.paint(blocks[i].colour, strings.Repeat(blocks[i].glyph, max(0, end-drawn))))
		drawn = max(drawn, end)
	}
	return b.String()
}
