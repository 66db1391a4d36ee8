package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
)

// MaxCells is the most cells that a sweep may have.
const MaxCells = 100_000

// Axes are the values that a sweep combines, each once. An axis without values keeps what the
// tables, the cluster and the other options state.
type Axes struct {
	// Scales are changes of the tables.
	Scales []Scale
	// Batches are global batches, in samples: the strong scaling of a step. PerDevice are
	// batches of one device, whose product with the number of devices is the global batch: the
	// weak scaling. A sweep has one of the two at most.
	Batches, PerDevice []int
	// Precisions are number formats of the weights of all tables, and CommPrecisions those of
	// the vectors that devices exchange.
	Precisions, CommPrecisions []problem.Precision
	// ShardingTypes are lists of sharding types.
	ShardingTypes []Types
	// Engines are engines that are to run the plan; an empty one is any engine.
	Engines []problem.Engine
	// Devices are names of device profiles, Hosts numbers of devices on a host, and Counts
	// numbers of devices.
	Devices       []string
	Hosts, Counts []int
}

// Types is a list of sharding types, as a value of an axis.
type Types struct {
	// Name is the list as text: "table_wise+column_wise".
	Name string
	// Allowed is the list as search.Options takes it.
	Allowed []problem.ShardingType
}

// The names of axes, in the order in which cells are numbered: the values of the last one
// change first.
const (
	axisScale         = "scale"
	axisBatch         = "batch"
	axisPerDevice     = "batch-per-device"
	axisPrecision     = "precision"
	axisCommPrecision = "comm-precision"
	axisTypes         = "sharding-types"
	axisEngine        = "for"
	axisDevice        = "device"
	axisHost          = "devices-per-host"
	axisDevices       = "devices"
)

// Axis is one axis as text.
type Axis struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// anyEngine stands for no engine.
const anyEngine = "any"

// axis is one axis with the field of a combination that it sets.
type axis struct {
	Axis
	set func(c *combination, i int)
}

// combination holds one value of each axis. The zero value of a field is what the base states.
type combination struct {
	scale               Scale
	batch, perDevice    int
	precision, exchange *problem.Precision
	types               Types
	engine              *problem.Engine
	device              string
	host, count         int
}

// list returns the axes that have values.
func (a *Axes) list() []axis {
	var all []axis
	add := func(name string, n int, text func(i int) string, set func(c *combination, i int)) {
		if n == 0 {
			return
		}
		values := make([]string, n)
		for i := range values {
			values[i] = text(i)
		}
		all = append(all, axis{Axis{name, values}, set})
	}
	number := func(list []int) func(int) string { return func(i int) string { return strconv.Itoa(list[i]) } }
	add(axisScale, len(a.Scales), func(i int) string { return a.Scales[i].String() }, func(c *combination, i int) { c.scale = a.Scales[i] })
	add(axisBatch, len(a.Batches), number(a.Batches), func(c *combination, i int) { c.batch = a.Batches[i] })
	add(axisPerDevice, len(a.PerDevice), number(a.PerDevice), func(c *combination, i int) { c.perDevice = a.PerDevice[i] })
	add(axisPrecision, len(a.Precisions), func(i int) string { return a.Precisions[i].String() }, func(c *combination, i int) { c.precision = &a.Precisions[i] })
	add(axisCommPrecision, len(a.CommPrecisions), func(i int) string { return a.CommPrecisions[i].String() }, func(c *combination, i int) { c.exchange = &a.CommPrecisions[i] })
	add(axisTypes, len(a.ShardingTypes), func(i int) string { return a.ShardingTypes[i].Name }, func(c *combination, i int) { c.types = a.ShardingTypes[i] })
	add(axisEngine, len(a.Engines), func(i int) string { return engineName(a.Engines[i]) }, func(c *combination, i int) { c.engine = &a.Engines[i] })
	add(axisDevice, len(a.Devices), func(i int) string { return a.Devices[i] }, func(c *combination, i int) { c.device = a.Devices[i] })
	add(axisHost, len(a.Hosts), number(a.Hosts), func(c *combination, i int) { c.host = a.Hosts[i] })
	add(axisDevices, len(a.Counts), number(a.Counts), func(c *combination, i int) { c.count = a.Counts[i] })
	return all
}

// stated returns what states an axis on a command line.
func stated(axis string) string {
	switch axis {
	case axisEngine:
		return input.Flag("engine")
	case axisTypes:
		return "--types"
	}
	return input.Flag(strings.ReplaceAll(axis, "-", "_"))
}

func engineName(e problem.Engine) string { return cmp.Or(string(e), anyEngine) }

// check reports values that occur twice, numbers that are out of range, and axes that do not go
// together. own are the profiles that are known beside those of package hardware.
func (a *Axes) check(own []hardware.Profile) error {
	var errs []error
	fault := func(hint, format string, args ...any) {
		errs = append(errs, &input.Errors{List: []input.Error{{Message: fmt.Sprintf(format, args...), Hint: hint}}})
	}
	if len(a.Batches) > 0 && len(a.PerDevice) > 0 {
		fault("leave one of them out: --batch keeps the global batch, batch_per_device that of a device", "--batch and batch_per_device contradict each other")
	}
	for _, x := range a.list() {
		for i, value := range x.Values {
			if slices.Contains(x.Values[:i], value) {
				fault("give each value once", "%s: the value %s is given twice", stated(x.Name), value)
			}
		}
	}
	for _, numbers := range []struct {
		axis   string
		values []int
		most   int
	}{
		{axisBatch, a.Batches, problem.MaxBatch},
		{axisPerDevice, a.PerDevice, problem.MaxBatch},
		{axisHost, a.Hosts, hardware.MaxDevices},
		{axisDevices, a.Counts, hardware.MaxDevices},
	} {
		for _, n := range numbers.values {
			if n < 1 || n > numbers.most {
				fault("", "%s: %d is not between 1 and %d", stated(numbers.axis), n, numbers.most)
			}
		}
	}
	for _, name := range a.Devices {
		if slices.ContainsFunc(own, func(p hardware.Profile) bool { return p.Name == name }) {
			continue
		}
		if _, err := hardware.ByName(name); err != nil {
			fault("describe them with: neuroshard list devices", "--gpu: %v", err)
		}
	}
	if n, ok := a.size(); !ok {
		fault("leave values out, or give some of them to another sweep", "the axes have %s cells: the most of a sweep are %d", n, MaxCells)
	}
	return input.Join(errs...)
}

// fill adds the default clusters of a workload, if it has several and nobody states devices.
func (a *Axes) fill(parts *input.Parts) {
	w, o := parts.Workload, parts.Overrides
	if w == nil || len(w.Sizes) < 2 || parts.Topology != nil || len(a.Counts) > 0 || o.Has("devices") || o.Has("hosts") {
		return
	}
	a.Counts = w.Sizes
	if len(a.Batches)+len(a.PerDevice) == 0 && !o.Has("batch") {
		a.PerDevice = []int{w.Batch / w.Sizes[0]}
	}
}

// size returns the number of cells as text, and whether a sweep may have that number.
func (a *Axes) size() (text string, ok bool) {
	n := 1.0
	for _, x := range a.list() {
		n *= float64(len(x.Values))
	}
	return strconv.FormatFloat(n, 'f', 0, 64), n <= MaxCells
}

// cells returns the number of cells.
func cells(axes []axis) int {
	n := 1
	for _, x := range axes {
		n *= len(x.Values)
	}
	return n
}

// combinationOf returns the combination of the cell with the number i, from 0.
func combinationOf(axes []axis, i int) combination {
	var c combination
	for _, x := range slices.Backward(axes) {
		x.set(&c, i%len(x.Values))
		i /= len(x.Values)
	}
	return c
}
