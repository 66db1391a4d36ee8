package input

import (
	"fmt"
	"io"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/workload"
)

// origin.go has the parts of a problem that come from no file: tables of a workload, and the
// cluster of a plan.

// Workload returns the tables of the workload of that name, with or without workload.Prefix, and
// its cluster. The error is nil or an *Errors; beside an error the tables are those of Unread.
func Workload(name string, o Overrides) (TableFile, *Cluster, error) {
	w, err := workload.ByName(name)
	if err != nil {
		largest := AnyCluster()
		return Unread(name), &largest, flagError(err.Error(), workloadHint)
	}
	p := w.Problem()
	file := TableFile{Tables: p.Tables, Batch: p.Batch, Samples: w.Samples}
	if w.AssumedDistribution {
		file.Warnings = []string{fmt.Sprintf("%s states no index distribution (%s): Zipf %v is assumed for every table", w.Name, w.IndexDistribution, access.DefaultExponent)}
	}
	unstated := 0
	for i := range p.Tables {
		if p.Tables[i].Access.Kind == access.Unstated {
			unstated++
		}
	}
	if unstated > 0 && !w.AssumedDistribution {
		file.Warnings = []string{fmt.Sprintf("%d of %d tables of %s have no stated accesses: Zipf %v is assumed", unstated, len(p.Tables), w.Name, access.DefaultExponent)}
	}
	if opt := o.Options(); opt.DefaultDim > 0 {
		file.Warnings = append(file.Warnings, UnusedDim(opt.DefaultDim))
	}
	if o.Has("optimizer") {
		file.Warnings = append(file.Warnings, unusedOptimizer(o["optimizer"]))
	}
	return file, &Cluster{Problem: problem.Problem{Topology: p.Topology, Batch: p.Batch, Accounting: p.Accounting, CommPrecision: p.CommPrecision}, Sizes: w.Sizes}, nil
}

// workloadHint is the hint for a workload that is not known.
const workloadHint = "list them with: neuroshard list workloads"

// Unread returns the file of tables that could not be opened, so that Check reports the rest.
func Unread(name string) TableFile {
	file, _ := Tables(name, Broken{}, Options{})
	return file
}

// Broken is a file that could not be opened, as a reader that fails: what is read from it lets Check
// report the rest.
type Broken struct{}

// Read fails.
func (Broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// ClusterOf returns the cluster that a plan states, as a Fallback of Parts with these overrides.
// own holds the plan's device profile if package hardware does not know it, for Parts.Own.
func ClusterOf(pl *plan.Plan, o Overrides) (cluster Cluster, own []hardware.Profile) {
	c := &pl.Cluster
	cluster.Problem = c.Problem()
	t := &cluster.Topology
	if profile, err := hardware.ByName(c.Profile); err == nil {
		t.Profile = profile
	} else {
		// The device of a user's own cost model. Validation needs only bytes and
		// places, and the plan states everything that they depend on.
		t.Profile = hardware.Profile{Name: c.Profile, Memory: c.DeviceMemory, NICGBps: 1}
		own = []hardware.Profile{t.Profile}
	}
	if o.Has("device") && !o.Has("memory") {
		t.Memory = 0 // the other device's own
	}
	if o.Has("reserve_share") {
		t.ReserveFixed = 0
	}
	return cluster, own
}
