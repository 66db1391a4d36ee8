package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/unit"
)

// Workloads lists published models, then examples of drawn ones, with the memory and the
// default cluster of each. A star marks models whose source states no index distribution.
func Workloads(w io.Writer, published, drawn []workload.Workload, opt Options) error {
	p := &printer{w: w, opt: opt}
	workloadTable(p, published)
	p.section("Drawn to match the statistics of dlrm_datasets; other sizes, settings, task numbers and @SEED are possible")
	workloadTable(p, drawn)
	return p.err
}

// workloadTable lists workloads, one line each.
func workloadTable(p *printer, all []workload.Workload) {
	var rows [][]string
	assumed := false
	for _, one := range all {
		totals, mark := one.Totals(), ""
		if one.AssumedDistribution {
			assumed, mark = true, "*"
		}
		rows = append(rows, []string{
			one.Name + mark, count(int64(totals.Tables)), gib(totals.Weights), count(int64(math.Round(totals.LookupsPerSample))),
			count(int64(one.Batch)), one.Precision.String(), one.Optimizer.String(), topologies(one),
		})
	}
	p.grid([]string{"<workload", "tables", "fp32 weights", "?lookups/sample", "?batch", "?<precision", "?<optimizer", "<default cluster"}, rows)
	if assumed {
		p.printf("\n* the source states no index distribution: a Zipf law is assumed\n")
	}
}

// gib prints a size in GiB with one decimal, so that the sizes of a column can be compared.
func gib(b unit.Bytes) string {
	tenths := int64(math.Round(10 * b.GiB()))
	return fmt.Sprintf("%s.%d GiB", count(tenths/10), tenths%10)
}

func topology(t hardware.Topology) string {
	text := fmt.Sprintf("%d x %s", t.Devices, t.Profile.Name)
	if t.PerHost() < t.Devices {
		text += fmt.Sprintf(", %d a host", t.PerHost())
	}
	return text
}

// topologies prints the default clusters of a workload.
func topologies(w workload.Workload) string {
	var all []string
	for _, n := range w.Sizes[:max(0, len(w.Sizes)-1)] {
		all = append(all, fmt.Sprint(n))
	}
	largest := w.Cluster
	if len(all) > 0 {
		largest.Devices = w.Sizes[len(all)]
	}
	return strings.Join(append(all, topology(largest)), ", ")
}

// Devices lists hardware profiles. modelled reports whether a cost model ships for the
// profile of a name.
func Devices(w io.Writer, profiles []hardware.Profile, modelled func(name string) bool, opt Options) error {
	p := &printer{w: w, opt: opt}
	var rows [][]string
	for _, h := range profiles {
		network := "-"
		if h.NICGBps > 0 {
			network = fmt.Sprintf("%g GB/s", h.NICGBps)
		}
		model := "no"
		if modelled(h.Name) {
			model = "yes"
		}
		rows = append(rows, []string{
			h.Name, fmt.Sprintf("%g GiB", h.Memory.GiB()), fmt.Sprintf("%g GB/s", h.HBMGBps), fmt.Sprintf("%g MiB", float64(h.L2)/float64(unit.MiB)),
			fmt.Sprint(h.SMs), fmt.Sprintf("%g GB/s", h.IntraGBps), network, model,
		})
	}
	p.grid([]string{"<device", "memory", "bandwidth", "?cache", "?SMs", "?inside a host", "?between hosts", "<cost model"}, rows)
	return p.err
}

// ListedWorkload is a workload in a list.
type ListedWorkload struct {
	Name              string        `json:"name"`
	Source            string        `json:"source"`
	Tables            int           `json:"tables"`
	Weights           unit.Bytes    `json:"fp32_weights_bytes"`
	Lookups           float64       `json:"lookups_per_sample"`
	Batch             int           `json:"batch"`
	Precision         string        `json:"precision"`
	Optimizer         string        `json:"optimizer"`
	IndexDistribution string        `json:"index_distribution"`
	Assumed           bool          `json:"index_distribution_assumed"`
	Drawn             bool          `json:"drawn"`
	Cluster           ListedCluster `json:"default_cluster"`
}

// ListedCluster is the default cluster of a workload.
type ListedCluster struct {
	Device         string `json:"device"`
	Devices        int    `json:"devices"`
	DevicesPerHost int    `json:"devices_per_host"`
	Sizes          []int  `json:"sizes,omitempty" doc:"Devices of all default clusters; drawn workloads have one"`
}

// WorkloadsJSON returns all workloads, the published ones first, then an example of each drawn one.
func WorkloadsJSON() []ListedWorkload {
	var all []ListedWorkload
	for _, w := range append(workload.All(), workload.Drawn()...) {
		totals := w.Totals()
		all = append(all, ListedWorkload{
			Name: w.Name, Source: w.Source, Tables: totals.Tables, Weights: totals.Weights, Lookups: totals.LookupsPerSample,
			Batch: w.Batch, Precision: fmt.Sprint(w.Precision), Optimizer: fmt.Sprint(w.Optimizer),
			IndexDistribution: w.IndexDistribution, Assumed: w.AssumedDistribution, Drawn: w.IsDrawn(),
			Cluster: ListedCluster{w.Cluster.Profile.Name, w.Cluster.Devices, w.Cluster.PerHost(), w.Sizes},
		})
	}
	return all
}

// ListedDevice is a device profile in a list.
type ListedDevice struct {
	hardware.Profile
	Model bool `json:"model"`
}

// DevicesJSON returns all device profiles. modelled reports whether a cost model ships for one.
func DevicesJSON(modelled func(name string) bool) []ListedDevice {
	var all []ListedDevice
	for _, h := range hardware.Profiles() {
		all = append(all, ListedDevice{h, modelled(h.Name)})
	}
	return all
}
