package sweep

import (
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// Cell is one combination of the values of all axes, with what the other options state.
type Cell struct {
	// Number is the cell's number, from 1, in the order of the axes.
	Number int    `json:"cell"`
	Scale  string `json:"scale"`
	// Batch is the global batch. BatchPerDevice is that of one device if an axis states it, and
	// otherwise 0.
	Batch          int `json:"batch"`
	BatchPerDevice int `json:"batch_per_device"`
	// Precision is the number format of the weights, "mixed" if tables differ.
	Precision     string `json:"precision"`
	CommPrecision string `json:"comm_precision"`
	ShardingTypes string `json:"sharding_types"`
	// Engine is the engine that the plan is for, or "any".
	Engine         string `json:"engine"`
	Device         string `json:"device"`
	DevicesPerHost int    `json:"devices_per_host"`
	Devices        int    `json:"devices"`
}

// Value returns the cell's value on an axis, as text.
func (c *Cell) Value(axis string) string {
	return map[string]string{
		axisScale: c.Scale, axisBatch: strconv.Itoa(c.Batch), axisPerDevice: strconv.Itoa(c.BatchPerDevice), axisPrecision: c.Precision,
		axisCommPrecision: c.CommPrecision, axisTypes: c.ShardingTypes, axisEngine: c.Engine, axisDevice: c.Device,
		axisHost: strconv.Itoa(c.DevicesPerHost), axisDevices: strconv.Itoa(c.Devices),
	}[axis]
}

// text returns the cell's values on the axes.
func (c *Cell) text(axes []Axis) string {
	words := make([]string, len(axes))
	for i, x := range axes {
		words[i] = x.Name + " " + c.Value(x.Name)
	}
	return strings.Join(words, ", ")
}

// Status says what became of a cell.
type Status string

// The statuses.
const (
	// Fits says that there is a plan.
	Fits Status = "fits"
	// Infeasible says that the search found no plan that fits.
	Infeasible Status = "does not fit"
	// Impossible says that the combination is no problem that can be planned: a batch that a
	// constraint excludes, or a device without the network that several hosts need.
	Impossible Status = "not possible"
)

// Outcome is a cell with its plan, or with the reason why there is none.
type Outcome struct {
	Cell
	Status Status `json:"status"`
	// Reason says why there is no plan, and Remedy what change would bring one. Both are empty
	// if there is a plan.
	Reason string `json:"reason,omitempty"`
	Remedy string `json:"remedy,omitempty"`
	// Plan describes the plan; nil if there is none.
	Plan *Planned `json:"plan,omitempty"`
}

// Bind names what a step spends most of its time on, or what it cannot be shorter than.
type Bind string

// What can bind. The lookups are bound by the memory that holds the rows, and the exchanges by
// the links that take longer.
const (
	HBM        Bind = "hbm"
	HostMemory Bind = "host_memory"
	NVLink     Bind = "nvlink"
	Network    Bind = "network"
	Dense      Bind = "dense"
	Loader     Bind = "loader"
	Host       Bind = "host"
)

// Planned is the plan of a cell in numbers. Times are in milliseconds.
type Planned struct {
	// Shards is the number of shards.
	Shards int `json:"shards"`
	// Predicted is the cost of the embeddings as the cost model estimates it, and Simulated the
	// cost on the simulated device; 0 if that did not judge the plan.
	Predicted float64 `json:"predicted_ms"`
	Simulated float64 `json:"simulated_ms,omitempty"`
	// Step is the time of the whole step, or of the embeddings alone if Whole is false.
	Step             float64 `json:"step_ms"`
	Whole            bool    `json:"whole_step"`
	SamplesPerSecond float64 `json:"samples_per_second"`
	// ErrorPercent is the error bar of Step, in percent: of a whole step that of its stack, and
	// of the embeddings alone the one below which 95 % of the cost model's errors stay. 0 if it
	// is not known, and if Measured says that Step is the measured step itself.
	ErrorPercent float64 `json:"error_percent,omitempty"`
	Measured     bool    `json:"measured,omitempty"`
	// PricePerHour is what the cluster costs, and PriceSource says who states it.
	// PricePerBillion is the price of 10^9 samples. The prices are 0 if they are not known.
	PricePerHour    float64 `json:"price_per_hour,omitempty"`
	PriceSource     string  `json:"price_source,omitempty"`
	PricePerBillion float64 `json:"price_per_1e9_samples,omitempty"`
	// Memory is the bytes that tables and their buffers take of the fullest device, and Budget the
	// bytes that they may take of this device. The fullest device is the first of those that use
	// the largest share of what tables may take of them.
	Memory unit.Bytes `json:"memory_bytes"`
	Budget unit.Bytes `json:"budget_bytes"`
	// Binds says what the step spends most of its time on.
	Binds Bind `json:"binds"`
	// The parts of the step; the last two are 0 if Whole is false.
	Lookups   float64  `json:"lookups_ms"`
	Exchanges float64  `json:"exchanges_ms"`
	Dense     float64  `json:"dense_ms,omitempty"`
	AllReduce float64  `json:"allreduce_ms,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
}

// Embeddings returns the cost of the embeddings: the simulated one if there is one.
func (n *Planned) Embeddings() float64 {
	if n.Simulated > 0 {
		return n.Simulated
	}
	return n.Predicted
}

// fail sets why there is no plan.
func (o *Outcome) fail(status Status, err error, explain func(error) (string, string)) {
	o.Status, o.Reason = status, err.Error()
	if explain != nil {
		o.Reason, o.Remedy = explain(err)
	}
	o.Reason = strings.ReplaceAll(o.Reason, "\n", "; ")
}

// planned sets the plan.
func (o *Outcome) planned(p *problem.Problem, r *neuroshard.Result, tariff *Tariff) {
	o.Status = Fits
	n := &Planned{Predicted: float64(r.Predicted.Cost), Simulated: float64(r.Simulated.Cost), Warnings: r.Warnings()}
	if !r.Judged() {
		n.Simulated = 0
	}
	n.Memory, n.Budget = fullest(r.Plan, p.Topology)
	for i := range r.Plan.Tables {
		n.Shards += len(r.Plan.Tables[i].Shards)
	}
	n.Step, n.ErrorPercent = n.Embeddings(), r.ModelError
	d := busiest(r)
	if r.Step != nil {
		n.wholeStep(&r.Step.Times)
	} else {
		n.alone(r, d)
	}
	n.Binds = n.binds(p, r, d)
	n.SamplesPerSecond = float64(p.Batch) / n.Step * 1e3
	if tariff == nil && r.Step != nil && r.Step.Input.PricePerHour > 0 {
		tariff = &Tariff{flat: r.Step.Input.PricePerHour} // the price that the topology file states
	}
	if tariff != nil {
		n.priced(p.Topology, tariff)
	}
	o.Plan = n
}

// fullest returns the bytes that tables and their buffers take of the fullest device of a plan, and
// the bytes that they may take of it.
func fullest(pl *plan.Plan, t hardware.Topology) (used, budget unit.Bytes) {
	most := -1.0
	for i := range pl.Devices {
		m := pl.Devices[i].Memory
		takes, may := m.Total()-m.Reserve, t.Budget(i)
		if share := float64(takes) / float64(max(1, may)); share > most {
			most, used, budget = share, takes, may
		}
	}
	return used, budget
}

// wholeStep sets the parts of a whole step.
func (n *Planned) wholeStep(t *step.Times) {
	n.Step, n.Whole = float64(t.Step), true
	n.Lookups = float64(t.Terms.LookupForward + t.Terms.LookupBackward + t.Terms.Replicas)
	n.Exchanges = float64(t.Embedding) - n.Lookups
	n.Dense, n.AllReduce = float64(t.Dense), float64(t.AllReduce)
	n.ErrorPercent, n.Measured = t.ErrorPercent, t.Measured
	switch t.Bound {
	case step.BoundLoader:
		n.Binds = Loader
	case step.BoundHost:
		n.Binds = Host
	}
}

// alone sets the parts of the embeddings of the busiest device.
func (n *Planned) alone(r *neuroshard.Result, d int) {
	t := judged(r).Devices[d]
	n.Lookups = float64(t.Forward + t.Backward)
	n.Exchanges = n.Step - n.Lookups
}

// judged returns the breakdown that the outcome's times are of.
func judged(r *neuroshard.Result) plan.Breakdown {
	if r.Judged() {
		return r.Simulated
	}
	return r.Predicted
}

// busiest returns the device that the others wait for: the one with the longest lookups.
func busiest(r *neuroshard.Result) int {
	best := 0
	devices := judged(r).Devices
	for d := range devices {
		if devices[d].Forward+devices[d].Backward > devices[best].Forward+devices[best].Backward {
			best = d
		}
	}
	return best
}

// binds returns what most of the step is spent on. A loader or a host that allows no shorter
// step stays what binds.
func (n *Planned) binds(p *problem.Problem, r *neuroshard.Result, d int) Bind {
	if n.Binds != "" {
		return n.Binds
	}
	most, bind := n.Lookups, HBM
	if linked(p, r.Shards[d]) > n.Lookups/2 {
		bind = HostMemory
	}
	links := linkOf(p.Topology)
	for _, other := range []struct {
		time float64
		bind Bind
	}{{n.Exchanges, links}, {n.Dense, Dense}, {n.AllReduce, links}} {
		if other.time > most {
			most, bind = other.time, other.bind
		}
	}
	return bind
}

// linked returns the time that the shards of a device in host memory take on the link to the
// host, in ms.
func linked(p *problem.Problem, shards []problem.Shard) float64 {
	device := simulate.NewDevice(p.Topology.Device())
	sum := 0.0
	p = problem.Deduplicated(p)
	for _, s := range shards {
		if !s.Tier.OnHost() {
			continue
		}
		t := &p.Tables[s.Table]
		forward, backward := device.HostLink(t, t.Counts(p.Batch), s.Dim(), p.Form(s))
		sum += float64(forward + backward)
	}
	return sum
}

// linkOf returns the links that an all-to-all of the cluster takes longer on.
func linkOf(t hardware.Topology) Bind {
	if t.Devices < 1 || t.LinkDomains() == 1 {
		return NVLink
	}
	n, err := simulate.NewDevice(t.Device()).Network(simulate.Cluster{Devices: t.Devices, PerHost: t.PerHost(), Domain: t.LinkDomain(), Batch: 1})
	if err != nil {
		return NVLink
	}
	if all := n.AllToAll(1); all.Inside > all.Between {
		return NVLink
	}
	return Network
}

// priced sets the prices.
func (n *Planned) priced(t hardware.Topology, tariff *Tariff) {
	hourly, source, ok := tariff.Hourly(t)
	if !ok {
		return
	}
	n.PricePerHour, n.PriceSource = hourly, source
	n.PricePerBillion = hourly / 3600 / n.SamplesPerSecond * 1e9
}
