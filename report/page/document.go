package page

import (
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/unit"
)

// Format and FormatVersion identify a Document. A page refuses a document of another version.
const (
	Format        = "neuroshard-page"
	FormatVersion = 1
)

// Document is the data of one page: the JSON inside a page on disk, and what the service
// sends to its live page. Times are in ms and sizes in bytes. Numbers that are not known are null.
type Document struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Tool is the version of neuroshard that wrote the document.
	Tool  string `json:"tool"`
	Title string `json:"title"`
	// Plans are one plan, or two to compare; none on a page of a sweep alone.
	Plans []Plan `json:"plans"`
	// Changes are what changes from the first plan to the second; nil with one plan.
	Changes *Changes `json:"changes,omitempty"`
	// Replan is the answer of a re-plan, with its curve of cost against moved bytes.
	Replan *report.ReplanObject `json:"replan,omitempty"`
	Sweep  *Sweep               `json:"sweep,omitempty"`
}

// Plan is one plan, with its costs, its tables and its provenance.
type Plan struct {
	Name string `json:"name"`
	// Report is the verdict on the plan.
	Report  *report.Summary `json:"report"`
	Cluster plan.Cluster    `json:"cluster"`
	Costs   Costs           `json:"costs"`
	Devices Devices         `json:"devices"`
	// Memory is an SVG of the fullest device's memory in each phase of the step, without any name of the
	// plan; empty if the problem is not known.
	Memory string `json:"memory_picture,omitempty"`
	Tables Tables `json:"tables"`
	Shards Shards `json:"shards"`
	// Critical is the critical device; -1 if the plan has no predicted times.
	Critical  int        `json:"critical"`
	Baselines []Baseline `json:"baselines,omitempty"`
	// Step is the whole training step; nil if it was not priced.
	Step     *report.StepObject `json:"step,omitempty"`
	Warnings []string           `json:"warnings"`
	// Provenance says how the plan was made, in the order to show.
	Provenance []report.Fact `json:"provenance"`
	// Missing says what the page leaves out, and what to add to see it, a sentence each:
	// "without the tables, the page has no ...; add --tables".
	Missing []string `json:"missing,omitempty"`
}

// Costs are the costs of a plan.
type Costs struct {
	// Predicted is nil if no cost model estimated the plan.
	Predicted *unit.Millis `json:"predicted_ms"`
	// Simulated is the cost on the SIMULATED device.
	Simulated *unit.Millis `json:"simulated_ms"`
}

// Devices are the devices of a plan as columns: the element i of each list is of device i.
// The times are null as a whole if no cost model estimated the plan.
type Devices struct {
	Count  int   `json:"count"`
	Shards []int `json:"shards"`
	DimSum []int `json:"dim_sum"`
	// Times of a step in their order. ForwardComm is without Wait: the wait for the slowest
	// device, which comes before the forward exchange.
	Forward        []unit.Millis `json:"forward_ms"`
	Wait           []unit.Millis `json:"wait_ms"`
	ForwardComm    []unit.Millis `json:"forward_comm_ms"`
	ForwardHidden  []unit.Millis `json:"forward_hidden_ms"`
	BackwardComm   []unit.Millis `json:"backward_comm_ms"`
	BackwardHidden []unit.Millis `json:"backward_hidden_ms"`
	Backward       []unit.Millis `json:"backward_ms"`
	// Memory is the bytes in use line by line, without the reserve.
	Memory []problem.Memory `json:"memory"`
	// Used is the sum of the lines in the device's memory; Capacity is the part of a device's memory
	// that tables may use. HostCapacity is a device's part of the host memory that tables may use;
	// 0 if they may use none.
	Used         []unit.Bytes `json:"used_bytes"`
	Capacity     unit.Bytes   `json:"capacity_bytes"`
	HostCapacity unit.Bytes   `json:"host_capacity_bytes"`
	// Capacities and HostCapacities are those of each device where devices differ; Capacity and
	// HostCapacity are then the largest.
	Capacities     []unit.Bytes `json:"capacities_bytes,omitempty"`
	HostCapacities []unit.Bytes `json:"host_capacities_bytes,omitempty"`
}

// Tables are the tables of a plan as columns.
type Tables struct {
	Count        int                    `json:"count"`
	Name         []string               `json:"name"`
	Rows         []int64                `json:"rows"`
	Dim          []int                  `json:"dim"`
	ShardingType []problem.ShardingType `json:"sharding_type"`
	// Bytes are the weights and the optimizer state of all shards, each copy counted.
	Bytes []unit.Bytes `json:"bytes"`
	// Stored says how the table is stored and looked up: "fp16, adagrad, weighted". Features are the
	// features that read it, if the problem is known.
	Stored   []string `json:"stored"`
	Features []string `json:"features"`
	// Pooling is the mean lookups a sample of all features; empty if the problem is not known.
	Pooling []float64 `json:"pooling"`
	// Vectors says in words how many vectors a sample gets from the table, if it is a sequence or has
	// several bags (report.VectorsOf), and is "" for other tables; empty if there is no such table.
	Vectors []string `json:"vectors"`
	// Time is the table's share of the busy time of a device, in ms, on the device where it is the
	// longest. The busy time is divided in proportion to the bytes read, because the times of tables
	// in one kernel do not add up. Empty if the times are not known.
	Time []unit.Millis `json:"time_ms"`
	// Reason says in one sentence why the table has its form and place: a constraint, or what the
	// best alternative would cost.
	Reason []string `json:"reason"`
	// Alternative is the cheapest other place in words, such as "column_wise on 2, 5", and
	// AlternativeCost the predicted cost of the plan with it; empty lists if they were not computed.
	Alternative     []string       `json:"alternative"`
	AlternativeCost []*unit.Millis `json:"alternative_cost_ms"`
}

// Shards are the shards of a plan as columns, by device and then by size. A shard of a
// data_parallel table, which lies on every device, is listed once with device -1.
type Shards struct {
	Count  int   `json:"count"`
	Table  []int `json:"table"`
	Device []int `json:"device"`
	// Rows and Columns are from, to pairs: shard i has Rows[2i] to Rows[2i+1]-1.
	Rows    []int64        `json:"rows"`
	Columns []int          `json:"columns"`
	Tier    []problem.Tier `json:"tier"`
	// Bytes are the weights and the optimizer state in the device's own memory or in the host's.
	Bytes []unit.Bytes `json:"bytes"`
	// Time is as Tables.Time; for device -1 it is the time on each device. Empty if not known.
	Time []unit.Millis `json:"time_ms"`
}

// Baseline is the outcome of a baseline method, or of another planner.
type Baseline struct {
	Method    string       `json:"method"`
	Valid     bool         `json:"valid"`
	Predicted *unit.Millis `json:"predicted_ms"`
	Simulated *unit.Millis `json:"simulated_ms"`
	// Reason says why another planner has no valid plan, and Wall is the time that it took; empty
	// and 0 for a baseline method.
	Reason string      `json:"reason,omitempty"`
	Wall   unit.Millis `json:"wall_ms,omitempty"`
}

// Changes are what changes from one plan to another.
type Changes struct {
	// Headline says which plan is faster, by how much, and what moves. Facts are the other differences.
	report.Headline
	Facts []report.Fact `json:"facts"`
	// Tables are the changed tables by the tables' names; Moved are the bytes that devices
	// receive for each, and What the change in words: "table_wise on 3 -> column_wise on 1, 2".
	Tables []TableChange `json:"tables"`
	// In and Out are the bytes that each device receives and sends; empty if not known.
	In  []unit.Bytes `json:"in_bytes"`
	Out []unit.Bytes `json:"out_bytes"`
}

// TableChange is one changed table.
type TableChange struct {
	Name  string     `json:"name"`
	What  string     `json:"what"`
	Moved unit.Bytes `json:"moved_bytes"`
}

// Sweep is the table and the plot of a sweep.
type Sweep struct {
	Name string `json:"name"`
	// Headline names the fastest and the cheapest cluster. Facts say what all cells have in common, and
	// what their times and prices come from.
	report.Headline
	Facts []report.Fact `json:"facts"`
	// Axes are the names of the axes with more than one value, which begin each row of Cells.
	Axes  []string    `json:"axes"`
	Cells []SweepCell `json:"cells"`
	// Warnings are the warnings of all plans, each once.
	Warnings []string `json:"warnings"`
}

// SweepCell is one cluster of a sweep.
type SweepCell struct {
	// Number is the cell's number, from 1, in the order of the axes.
	Number int `json:"cell"`
	// Values are the cell's values on Axes.
	Values  []string `json:"values"`
	Device  string   `json:"device"`
	Devices int      `json:"devices"`
	// Step is the time of the step, or of the embeddings alone; nil if there is no plan, and Reason
	// then says why.
	Step       *unit.Millis `json:"step_ms"`
	Throughput *float64     `json:"samples_per_second"`
	// Error is the error bar of Step, Throughput and Price, in percent; nil if it is not known, and 0
	// if the step is measured.
	Error *float64 `json:"error_percent"`
	// Price is in dollars for 10^9 samples; nil without prices.
	Price  *float64 `json:"price"`
	Memory *float64 `json:"memory_share"`
	Bind   string   `json:"bind"`
	Reason string   `json:"reason,omitempty"`
	// Marks are "fastest", "as fast", "cheapest", "as cheap" and "knee".
	Marks []string `json:"marks,omitempty"`
}
