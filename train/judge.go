package train

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/dataset"
	"github.com/neuroshard/neuroshard/modelfile"
	"github.com/neuroshard/neuroshard/unit"
)

// Report tells how far a model's predictions lie from a dataset's test samples.
// All errors are relative and in percent.
type Report struct {
	// Compute is over the test groups, Large over groups larger than any the model
	// was trained on.
	Compute ComputeReport `json:"compute"`
	Large   ComputeReport `json:"large_groups"`
	// Comm is over the collectives and copies of the test exchanges, without the
	// wait for the slowest device, which is exact.
	Comm CommReport `json:"comm"`
}

// CommReport is the errors of all-to-alls, one for each exchange.
type CommReport struct {
	All   modelfile.Errors `json:"all"`
	Parts []Part           `json:"parts"`
}

// ComputeReport is the errors of fused operations: of forward and backward
// together, apart, and by what the groups are.
type ComputeReport struct {
	All      modelfile.Errors `json:"all"`
	Forward  modelfile.Errors `json:"forward"`
	Backward modelfile.Errors `json:"backward"`
	// The parts are ordered by name within a kind.
	Parts []Part `json:"parts"`
}

// Part is the errors of the groups that have something in common.
type Part struct {
	// Kind is what the part is by, such as "shards", and Name which it is.
	Kind   string           `json:"kind"`
	Name   string           `json:"name"`
	Errors modelfile.Errors `json:"errors"`
}

// Judge predicts the test samples of the data with the model.
func Judge(m *modelfile.Model, data Data, workers int) (*Report, error) {
	if err := m.Seal(); err != nil {
		return nil, err
	}
	model, err := cost.Load(m)
	if err != nil {
		return nil, err
	}
	r := &Report{Compute: judgeCompute(model, data.Compute, dataset.Test, workers)}
	if r.Compute.All.Samples == 0 {
		return nil, errNoGroups
	}
	if data.Large != nil {
		r.Large = judgeCompute(model, data.Large, dataset.Test, workers)
	}
	if r.Comm, err = judgeComm(model, data.Comm); err != nil {
		return nil, err
	}
	return r, nil
}

func judgeCompute(model *cost.Model, set *dataset.Compute, split dataset.Split, workers int) ComputeReport {
	var groups []*dataset.Group
	for i := range set.Samples {
		if set.Samples[i].Split == split {
			groups = append(groups, &set.Samples[i])
		}
	}
	type predicted struct{ forward, backward unit.Millis }
	results := make([]predicted, len(groups))
	described := newDescriber(set.Tables)
	parallel(len(groups), workers, func(i int) {
		g := groups[i]
		members := make([]cost.Slice, len(g.Members))
		for j, m := range g.Members {
			members[j] = cost.Slice{Table: described.table(int(m.Table), g.Operation.Batch), Dim: int(m.Dim)}
		}
		results[i].forward, results[i].backward = model.Group(g.Operation, members)
	})
	var both, forward, backward []float64
	parts := map[[2]string][]float64{}
	for i, g := range groups {
		e := relative(results[i].forward+results[i].backward, g.Forward+g.Backward)
		both = append(both, e)
		forward = append(forward, relative(results[i].forward, g.Forward))
		backward = append(backward, relative(results[i].backward, g.Backward))
		for _, p := range partsOf(g) {
			parts[p] = append(parts[p], e)
		}
	}
	return ComputeReport{All: summarise(both), Forward: summarise(forward), Backward: summarise(backward), Parts: sorted(parts)}
}

func relative(got, want unit.Millis) float64 { return 100 * math.Abs(float64((got-want)/want)) }

// partsOf says which parts of the report a group belongs to.
func partsOf(g *dataset.Group) [][2]string {
	narrow, wide := g.Members[0].Dim, g.Members[0].Dim
	powers := true
	for _, m := range g.Members {
		narrow, wide = min(narrow, m.Dim), max(wide, m.Dim)
		powers = powers && m.Dim&(m.Dim-1) == 0
	}
	mix := "any multiples of 4"
	switch {
	case narrow == wide:
		mix = "equal"
	case powers && wide <= 32:
		mix = "powers of two to 32"
	case powers:
		mix = "powers of two"
	}
	return [][2]string{
		{"shards", interval(len(g.Members), 1, 5, 15, 30, 60, 100, 200)},
		{"dims", mix},
		{"batch", interval(g.Operation.Batch, 512, 2047, 8191, 32767, 131072)},
		{"optimizer", g.Operation.Optimizer.String()},
		{"precision", g.Operation.Precision.String()},
		{"weighted", fmt.Sprint(g.Operation.Weighted)},
	}
}

// interval names the interval between the bounds that v lies in, so that names
// sort in the order of the numbers.
func interval(v int, bounds ...int) string {
	at := sort.SearchInts(bounds, v)
	if at == 0 || bounds[0] == v {
		at = 1
	}
	if at >= len(bounds) {
		return fmt.Sprintf("%6d-      ", bounds[len(bounds)-1]+1)
	}
	low := bounds[at-1] + 1
	if at == 1 {
		low = bounds[0]
	}
	return fmt.Sprintf("%6d-%6d", low, bounds[at])
}

// judgeComm gives every exchange one error, whatever its number of devices: the
// mean over the devices of forward and backward.
func judgeComm(model *cost.Model, set *dataset.Comm) (CommReport, error) {
	all, err := exchanges(set, dataset.Test)
	if err != nil {
		return CommReport{}, err
	}
	var errors []float64
	parts := map[[2]string][]float64{}
	for i := range all {
		x := &all[i]
		forward, backward := model.Exchange(x.cluster, x.load)
		e := relative(backward, unit.Millis(x.backward)) / 2
		for r, f := range x.forward {
			pack := model.Pack(x.cluster, x.dims[r])
			e += relative(forward+pack, unit.Millis(f)) / 2 / float64(len(x.forward))
		}
		errors = append(errors, e)
		hosts := (x.cluster.Devices + x.cluster.PerHost - 1) / x.cluster.PerHost
		for _, p := range [][2]string{
			{"devices", interval(x.cluster.Devices, 2, 8, 32, 128, 1024)},
			{"hosts", interval(hosts, 1, 1, 2, 4, 16, 512)},
		} {
			parts[p] = append(parts[p], e)
		}
	}
	return CommReport{All: summarise(errors), Parts: sorted(parts)}, nil
}

// sorted returns the parts by kind, then name.
func sorted(parts map[[2]string][]float64) []Part {
	var all []Part
	for key, errors := range parts {
		all = append(all, Part{key[0], key[1], summarise(errors)})
	}
	sort.Slice(all, func(i, j int) bool {
		return all[i].Kind < all[j].Kind || all[i].Kind == all[j].Kind && all[i].Name < all[j].Name
	})
	return all
}

// summarise returns the mean and the 95th percentile.
func summarise(percents []float64) modelfile.Errors {
	e := modelfile.Errors{Samples: len(percents)}
	if len(percents) == 0 {
		return e
	}
	ranked := slices.Clone(percents)
	slices.Sort(ranked)
	for _, v := range ranked {
		e.Mean += v / float64(len(ranked))
	}
	e.P95 = ranked[min(len(ranked)-1, int(math.Ceil(.95*float64(len(ranked)))))]
	return e
}
