// Package workload provides embedding tables to plan for: the published models
// by name (this file), drawn ones by name (generated.go), pools of tables whose
// accesses match published statistics (pool.go, locality.go), and the tasks that are
// drawn from such a pool (task.go).
//
//	w, err := workload.ByName("mlperf-dlrm-dcnv2")  // its tables, batch and a cluster that holds it
//	p := w.Problem()
//
//	pool := workload.Pool(1)                        // 856 tables
//	task, err := workload.Draw(pool, workload.PaperSettings()[0], 1, 0)
//
// Everything is a function of its arguments: the same seed gives the same
// tables.
package workload

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// Prefix is what users write before a workload's name where a file of tables
// could stand too: "workload:mlperf-dlrm-dcnv2".
const Prefix = "workload:"

// Workload is one published model.
type Workload struct {
	// Name is its key, such as "mlperf-dlrm-dcnv2"; Source says who published it.
	Name, Source string
	// Batch is the global batch, in samples.
	Batch int
	// Samples is the number of training samples of an epoch; 0 if the source states none.
	Samples   int64
	Optimizer problem.Optimizer
	Precision problem.Precision
	Pooling   problem.Pooling
	// IndexDistribution is what the source says of its indices, in its words.
	IndexDistribution string
	// Access is that of tables whose accesses the source does not state one by one: access.Zipf with the
	// stated exponent, or access.Unstated, with the index law of the source's data.
	Access access.Distribution
	// AssumedDistribution is true where the source states no distribution, so
	// that one has to be assumed.
	AssumedDistribution bool
	// Stated holds the totals that the specification comes with.
	Stated Totals
	// Cluster is the default cluster: one that holds the tables with their
	// optimizer state and buffers, split by columns alone.
	Cluster hardware.Topology
	// Sizes are the numbers of devices of all default clusters, Cluster's first, each with Cluster's batch of a device.
	Sizes []int
	// Steps are the published times of a whole training step (embeddings and
	// dense part), by growing number of devices; empty if none were published. They
	// were taken on DGX A100 hosts.
	Steps []Step

	// Accounting says which bytes count against the cluster's memory: all, but
	// for the paper's tasks.
	Accounting problem.Accounting

	sets []tableSet
	// drawn, where not nil, are the tables of a drawn workload.
	drawn []problem.Table
}

// Totals sums up a workload.
type Totals struct {
	Tables int
	// Weights is the size of all tables in fp32. The stated one is rounded to a
	// tenth of a GiB.
	Weights unit.Bytes
	// LookupsPerSample is the sum of all pooling factors.
	LookupsPerSample float64
}

// Step is a published time of a training step.
type Step struct {
	Devices int
	Time    unit.Millis
}

// tableSet is count tables of rows x dim. Shared, the features of Pooling all read
// one table; otherwise each reads a table of its own. The names are those of a single table and of its
// features.
type tableSet struct {
	Count    int       `json:"count"`
	Rows     int64     `json:"rows"`
	Dim      int       `json:"dim"`
	Pooling  []float64 `json:"pooling"`
	Shared   bool      `json:"shared"`
	Name     string    `json:"name"`
	Features []string  `json:"features"`
	// Distinct is the stated share of distinct rows among the lookups of a rank, and Load the lookups of the
	// rank of 32 with the most of them, over the mean, if the table is row_wise. 0 if not stated.
	Distinct float64 `json:"distinct"`
	Load     float64 `json:"load"`
}

// loadRanks is the number of ranks of tableSet.Load.
const loadRanks = 32

// access returns the accesses of a table of the set, in the samples of one rank if Distinct is stated.
func (g *tableSet) access(w *Workload) access.Distribution {
	if g.Distinct == 0 {
		return w.Access
	}
	samples, pooling := w.Batch/w.Cluster.Devices, 0.0
	for _, factor := range g.Pooling {
		pooling += factor
	}
	lookups := pooling * float64(samples)
	// A rank has 1/32 of all other lookups, and those of the most used row: load/32 = most + (1-most)/32.
	most := (g.Load - 1) / (loadRanks - 1)
	return access.Repeated(lookups, g.Distinct*lookups, max(0, most), samples)
}

// All returns every published workload, in a fixed order. They are the caller's.
func All() []Workload {
	workloads, err := parse(data)
	if err != nil {
		panic("workload: embedded data: " + err.Error())
	}
	return workloads
}

// Names returns the names of all workloads, in the order of All.
func Names() []string {
	var names []string
	for _, w := range All() {
		names = append(names, w.Name)
	}
	return names
}

// ByName returns the published or drawn (generated.go) workload of that name,
// with or without Prefix. The error suggests the names that come near, or lists
// them all and the patterns of drawn ones.
func ByName(name string) (Workload, error) {
	name = strings.TrimPrefix(name, Prefix)
	for _, w := range All() {
		if w.Name == name {
			return w, nil
		}
	}
	if w, ok, err := drawn(name); ok {
		return w, err
	}
	if similar := near(name, Names()); len(similar) > 0 {
		return Workload{}, fmt.Errorf("workload %q is unknown: did you mean %s?", name, strings.Join(similar, " or "))
	}
	patterns := "draw one: " + strings.Join(DrawnNames(), ", ")
	if strings.HasPrefix(name, "dlrm-datasets") || strings.HasPrefix(name, "paper-") {
		var settings []string
		for _, s := range PaperSettings() {
			settings = append(settings, s.Name)
		}
		return Workload{}, fmt.Errorf("workload %q is unknown: %s; the settings are %s", name, patterns, strings.Join(settings, ", "))
	}
	return Workload{}, fmt.Errorf("workload %q is unknown: choose one of %s; or %s", name, strings.Join(Names(), ", "), patterns)
}

// Tables returns the workload's tables, named t000, t001, ... in the order of
// the specification, and its features, named f000, f001, ... in the order of
// the tables that they read, where the specification has no names. The slice is the caller's.
func (w Workload) Tables() []problem.Table {
	if w.drawn != nil {
		return slices.Clone(w.drawn)
	}
	var tables []problem.Table
	features := 0
	add := func(g tableSet, pooling ...float64) {
		t := problem.Table{
			Name: fmt.Sprintf("t%03d", len(tables)), Rows: g.Rows, Dim: g.Dim,
			Access: g.access(&w), Pooling: w.Pooling, Precision: w.Precision, Optimizer: w.Optimizer,
		}
		if g.Name != "" {
			t.Name = g.Name
		}
		for i, factor := range pooling {
			name := fmt.Sprintf("f%03d", features)
			if i < len(g.Features) {
				name = g.Features[i]
			}
			t.Features = append(t.Features, problem.Feature{Name: name, PoolingFactor: factor})
			features++
		}
		tables = append(tables, t)
	}
	for _, g := range w.sets {
		if g.Shared {
			for range g.Count {
				add(g, g.Pooling...)
			}
			continue
		}
		for _, factor := range g.Pooling {
			for range g.Count {
				add(g, factor)
			}
		}
	}
	return tables
}

// IsDrawn reports whether the workload was drawn, not published.
func (w Workload) IsDrawn() bool { return w.drawn != nil }

// Totals returns what Tables adds up to.
func (w Workload) Totals() Totals {
	var sum Totals
	tables := w.Tables()
	for i := range tables {
		t := &tables[i]
		sum.Tables++
		sum.Weights += unit.Bytes(t.Rows * int64(t.Dim) * problem.FP32.Bytes())
		sum.LookupsPerSample += t.PoolingFactor()
	}
	return sum
}

// Problem returns the problem of placing the workload on its default cluster,
// all memory counted.
func (w Workload) Problem() problem.Problem {
	return problem.Problem{Tables: w.Tables(), Topology: w.Cluster, Batch: w.Batch, Accounting: w.Accounting}
}

// devicesPerHost is the size of a host in every default cluster, as in a DGX.
const devicesPerHost = 8

//go:embed workloads.json
var data []byte

// record is a workload as workloads.json has it.
type record struct {
	Name              string   `json:"name"`
	Source            string   `json:"source"`
	Batch             int      `json:"batch"`
	Samples           int64    `json:"samples"`
	Optimizer         string   `json:"optimizer"`
	Precision         string   `json:"precision"`
	Pooling           string   `json:"pooling"`
	IndexDistribution string   `json:"index_distribution"`
	Zipf              *float64 `json:"zipf"`
	IndexLaw          string   `json:"index_law"`
	Tables            int      `json:"tables"`
	WeightsGiB        float64  `json:"weights_gib_fp32"`
	LookupsPerSample  float64  `json:"lookups_per_sample"`
	Cluster           struct {
		Profile string `json:"profile"`
		Devices int    `json:"devices"`
		Also    []int  `json:"also"`
	} `json:"cluster"`
	Steps []struct {
		Devices int         `json:"devices"`
		MS      unit.Millis `json:"ms"`
	} `json:"step_ms"`
	Sets []tableSet `json:"groups"`
}

func parse(data []byte) ([]Workload, error) {
	var file struct {
		Note      string   `json:"note"`
		Workloads []record `json:"workloads"`
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, err
	}
	workloads := make([]Workload, len(file.Workloads))
	for i, r := range file.Workloads {
		w, err := r.workload()
		if err != nil {
			return nil, fmt.Errorf("workload %q: %w", r.Name, err)
		}
		workloads[i] = w
	}
	return workloads, nil
}

func (r record) workload() (Workload, error) {
	optimizer, err := problem.ParseOptimizer(r.Optimizer)
	if err != nil {
		return Workload{}, err
	}
	precision, err := problem.ParsePrecision(r.Precision)
	if err != nil {
		return Workload{}, err
	}
	profile, err := hardware.ByName(r.Cluster.Profile)
	if err != nil {
		return Workload{}, err
	}
	pooling, err := problem.ParsePooling(cmp.Or(r.Pooling, problem.Pooling(0).String()))
	if err != nil {
		return Workload{}, err
	}
	w := Workload{
		Name: r.Name, Source: r.Source, Batch: r.Batch, Samples: r.Samples,
		Optimizer: optimizer, Precision: precision, Pooling: pooling,
		IndexDistribution:   r.IndexDistribution,
		AssumedDistribution: r.Zipf == nil && !slices.ContainsFunc(r.Sets, func(g tableSet) bool { return g.Distinct > 0 }),
		Stated: Totals{
			Tables:           r.Tables,
			Weights:          unit.Bytes(r.WeightsGiB * float64(unit.GiB)),
			LookupsPerSample: r.LookupsPerSample,
		},
		Cluster: hardware.Topology{
			Profile: profile, Devices: r.Cluster.Devices, DevicesPerHost: devicesPerHost,
		},
		Sizes: append([]int{r.Cluster.Devices}, r.Cluster.Also...),
		sets:  r.Sets,
	}
	if r.Zipf != nil {
		w.Access = access.Distribution{Kind: access.Zipf, Exponent: *r.Zipf}
	}
	if r.IndexLaw != "" {
		if w.Access.Law, err = access.ParseLaw(r.IndexLaw); err != nil {
			return Workload{}, err
		}
	}
	for _, s := range r.Steps {
		w.Steps = append(w.Steps, Step{Devices: s.Devices, Time: s.MS})
	}
	return w, nil
}

// near returns the names, quoted, that contain the given one or come within a
// third of its letters of it, nearest first and at most three.
func near(name string, names []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	lower := strings.ToLower(name)
	for _, n := range names {
		switch d := words.Distance(lower, n); {
		case len(name) >= 3 && strings.Contains(n, lower):
			found = append(found, candidate{n, 0})
		case d <= max(2, len(name)/3):
			found = append(found, candidate{n, d})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return a.distance - b.distance })
	var quoted []string
	for _, c := range found[:min(3, len(found))] {
		quoted = append(quoted, strconv.Quote(c.name))
	}
	return quoted
}
