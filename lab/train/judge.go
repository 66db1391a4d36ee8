package train

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/internal/stats"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// Report states how far a model's predictions are from the times of a dataset's
// test samples. All errors are relative and in percent, unless stated otherwise.
// Quarantined samples are left out.
type Report struct {
	// Source is "simulated" or "measured": the source of the groups' times. CommSource
	// is the source of the all-to-alls if it differs.
	Source     string `json:"source,omitempty"`
	CommSource string `json:"comm_source,omitempty"`
	// Compute covers the test groups, Large covers groups larger than any training
	// group.
	Compute ComputeReport `json:"compute"`
	Large   ComputeReport `json:"large_groups"`
	// Comm covers the collectives and copies of the test exchanges. It excludes the
	// wait for the slowest device, which the model computes exactly.
	Comm CommReport `json:"comm"`
	// Points are the test groups in the order of the dataset, for Scatter. They are
	// not in the JSON, because there are many.
	Points []Point `json:"-"`
}

// Point holds two times of a test group, forward and backward together: the
// predicted one, and the measured or simulated one.
type Point struct{ Predicted, Actual unit.Millis }

// CommReport holds the errors of all-to-alls, one error for each exchange.
type CommReport struct {
	All   modelfile.Errors `json:"all"`
	Parts []Part           `json:"parts"`
}

// ComputeReport holds the errors of fused operations: of forward and backward
// together, of each alone, and by the properties of the groups.
type ComputeReport struct {
	All      modelfile.Errors `json:"all"`
	Forward  modelfile.Errors `json:"forward"`
	Backward modelfile.Errors `json:"backward"`
	// MSE is the mean squared error of forward and backward together, in ms².
	MSE float64 `json:"mse_ms2"`
	// KendallTau is the rank correlation of the predicted and the actual times of the
	// groups: 1 means the same order, 0 means no correlation.
	KendallTau float64 `json:"kendall_tau"`
	// Noise is the noise of the backend, over the samples of all splits. The mean
	// error of a perfect model is about 0.7 of the mean difference between a second
	// measurement and the first. Noise is zero for simulated data.
	Noise dataset.Noise `json:"noise,omitzero"`
	// Spread compares the spread of an ensemble's predictions with its errors; it is
	// nil for a single net.
	Spread *Calibration `json:"spread,omitempty"`
	// Parts are ordered by By, then by Name.
	Parts []Part `json:"parts"`
}

// Calibration compares an ensemble's spread with its errors. Sigma is the
// standard deviation of the members' predictions of a group, forward and
// backward together.
type Calibration struct {
	Members int `json:"members"`
	// MeanPercent is the mean of sigma relative to the prediction, in percent.
	MeanPercent float64 `json:"mean_sigma_percent"`
	// Within1 and Within2 are the shares of groups whose time is within one and within
	// two sigma of the prediction: .68 and .95 for a calibrated spread. Both count the
	// noise of the backend as an error of the model.
	Within1 float64 `json:"within_1_sigma"`
	Within2 float64 `json:"within_2_sigma"`
	// NoisePercent is the noise of the backend, a relative standard deviation in
	// percent. WithNoise1 and WithNoise2 are like Within1 and Within2, with the root
	// of sigma² + noise² in place of sigma. All three are for measured data only.
	NoisePercent float64 `json:"noise_percent,omitempty"`
	WithNoise1   float64 `json:"within_1_sigma_and_noise,omitempty"`
	WithNoise2   float64 `json:"within_2_sigma_and_noise,omitempty"`
	// KendallTau is the rank correlation of the relative sigma and the relative error.
	// It is high if the members disagree on the same groups that their mean predicts
	// wrongly.
	KendallTau float64 `json:"kendall_tau"`
}

// Part holds the errors of the samples that share a property.
type Part struct {
	// By is the property that divides samples into parts, such as "shards", and Name
	// is the part, such as "1-15".
	By     string           `json:"kind"`
	Name   string           `json:"name"`
	Errors modelfile.Errors `json:"errors"`
}

// Judge predicts the times of the test samples of the data with the model. The data
// must be of the model's profile.
func Judge(m *modelfile.Model, data Data, workers int) (*Report, error) {
	if err := m.Seal(); err != nil {
		return nil, err
	}
	model, err := cost.Load(m)
	if err != nil {
		return nil, err
	}
	if err := data.check(model.Hardware(), true, dataset.Test); err != nil {
		return nil, err
	}
	r := &Report{Source: string(data.Compute.Provenance.Source)}
	if s := string(data.Comm.Provenance.Source); s != r.Source {
		r.CommSource = s
	}
	r.Compute, r.Points = judgeCompute(model, data.Compute, workers)
	if data.Large != nil {
		r.Large, _ = judgeCompute(model, data.Large, workers)
	}
	if r.Comm, err = judgeComm(model, data.Comm); err != nil {
		return nil, err
	}
	return r, nil
}

// guess is a model's prediction for a group.
type guess struct {
	forward, backward unit.Millis
	sigma             float64
}

func (g guess) both() unit.Millis { return g.forward + g.backward }

func judgeCompute(model *cost.Model, set *dataset.Compute, workers int) (ComputeReport, []Point) {
	groups := usable(set, dataset.Test)
	results := make([]guess, len(groups))
	described := newDescriber(set.Tables)
	parallel(len(groups), workers, func(i int) {
		g := groups[i]
		members := make([]cost.Slice, len(g.Members))
		for j, m := range g.Members {
			members[j] = cost.Slice{Table: described.table(int(m.Table), g.Operation.Batch), Dim: int(m.Dim)}
		}
		results[i].forward, results[i].backward = model.Group(g.Operation, members)
		if model.Members() > 1 {
			results[i].sigma = deviation(model.GroupMembers(g.Operation, members))
		}
	})
	hw := model.Hardware()
	var r ComputeReport
	var both, forward, backward, predicted, actual []float64
	var points []Point
	parts := map[[2]string][]float64{}
	for i, g := range groups {
		got, want := results[i].both(), g.Forward+g.Backward
		e := relative(got, want)
		both = append(both, e)
		forward = append(forward, relative(results[i].forward, g.Forward))
		backward = append(backward, relative(results[i].backward, g.Backward))
		predicted, actual = append(predicted, float64(got)), append(actual, float64(want))
		points = append(points, Point{got, want})
		r.MSE += float64((got-want)*(got-want)) / float64(len(groups))
		for _, p := range partsOf(&hw, set.Tables, g) {
			parts[p] = append(parts[p], e)
		}
	}
	r.All, r.Forward, r.Backward, r.Parts = summarise(both), summarise(forward), summarise(backward), sorted(parts)
	if len(groups) > 0 {
		r.KendallTau = stats.Kendall(predicted, actual)
	}
	noise := 0.
	if measured(set.Provenance) {
		r.Noise, noise = set.Noise(), noiseOf(set)
	}
	if model.Members() > 1 && len(groups) > 0 {
		r.Spread = calibrate(results, points, noise)
		r.Spread.Members = model.Members()
	}
	return r, points
}

// deviation returns the standard deviation of the members' sums of forward and
// backward.
func deviation(forward, backward []unit.Millis) float64 {
	n := float64(len(forward))
	mean, squares := 0., 0.
	for k := range forward {
		mean += float64(forward[k]+backward[k]) / n
	}
	for k := range forward {
		d := float64(forward[k]+backward[k]) - mean
		squares += d * d
	}
	return math.Sqrt(squares / (n - 1))
}

// calibrate compares the spread of the predictions with their errors. noise is the
// relative standard deviation of the times themselves.
func calibrate(results []guess, points []Point, noise float64) *Calibration {
	n := float64(len(points))
	c := &Calibration{NoisePercent: 100 * noise}
	var sigmas, errors []float64
	for i, p := range points {
		off := math.Abs(float64(p.Predicted - p.Actual))
		sigma := results[i].sigma
		all := math.Hypot(sigma, noise*float64(p.Predicted))
		for _, share := range []struct {
			of    *float64
			limit float64
		}{{&c.Within1, sigma}, {&c.Within2, 2 * sigma}, {&c.WithNoise1, all}, {&c.WithNoise2, 2 * all}} {
			if off <= share.limit {
				*share.of++
			}
		}
		relativeSigma := sigma / float64(p.Predicted)
		c.MeanPercent += 100 * relativeSigma / n
		sigmas, errors = append(sigmas, relativeSigma), append(errors, off/float64(p.Actual))
	}
	for _, of := range []*float64{&c.Within1, &c.Within2, &c.WithNoise1, &c.WithNoise2} {
		*of /= n
	}
	if noise == 0 {
		c.WithNoise1, c.WithNoise2 = 0, 0
	}
	c.KendallTau = stats.Kendall(sigmas, errors)
	return c
}

func relative(got, want unit.Millis) float64 { return 100 * math.Abs(float64((got-want)/want)) }

// partsOf returns the parts of the report that a group on a device belongs to.
func partsOf(hw *hardware.Profile, tables []problem.Table, g *dataset.Group) [][2]string {
	narrow, wide := g.Members[0].Dim, g.Members[0].Dim
	powers := true
	bags := "of equal lengths"
	for _, m := range g.Members {
		if tables[m.Table].LengthCV() > 0 {
			bags = "of unequal lengths"
		}
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
		{"lanes", lanesOf(hw, g).String()},
		{"bags", bags},
		{"batch", interval(g.Operation.Batch, 512, 2047, 8191, 32767, 131072)},
		{"optimizer", g.Operation.Optimizer.String()},
		{"precision", g.Operation.Precision.String()},
		{"weighted", fmt.Sprint(g.Operation.Weighted)},
	}
}

// interval returns the name of the interval between bounds that v lies in. The
// names sort in the order of the numbers.
func interval(v int, bounds ...int) string {
	at, _ := slices.BinarySearch(bounds, v)
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
// mean over the devices of forward and backward. For a measured exchange it is the
// error of the times until the last device has all data.
func judgeComm(model *cost.Model, set *dataset.Comm) (CommReport, error) {
	all, _, err := exchanges(set, dataset.Test)
	if err != nil {
		return CommReport{}, err
	}
	var errs []float64
	parts := map[[2]string][]float64{}
	for i := range all {
		x := &all[i]
		forward, backward := model.Exchange(x.cluster, x.load, unit.Millis(x.early))
		e := relative(backward, unit.Millis(x.backward)) / 2
		if x.last {
			pack := model.Pack(x.cluster, slices.Max(x.dims))
			e += relative(forward+pack, unit.Millis(slices.Max(x.forward))) / 2
		} else {
			for r, f := range x.forward {
				pack := model.Pack(x.cluster, x.dims[r])
				e += relative(forward+pack, unit.Millis(f)) / 2 / float64(len(x.forward))
			}
		}
		errs = append(errs, e)
		hosts := (x.cluster.Devices + x.cluster.PerHost - 1) / x.cluster.PerHost
		for _, p := range [][2]string{
			{"devices", interval(x.cluster.Devices, 2, 8, 32, 128, 1024)},
			{"hosts", interval(hosts, 1, 1, 2, 4, 16, 512)},
		} {
			parts[p] = append(parts[p], e)
		}
	}
	return CommReport{All: summarise(errs), Parts: sorted(parts)}, nil
}

// sorted returns the parts ordered by By, then by Name.
func sorted(parts map[[2]string][]float64) []Part {
	var all []Part
	for key, errors := range parts {
		all = append(all, Part{key[0], key[1], summarise(errors)})
	}
	slices.SortFunc(all, func(a, b Part) int { return cmp.Or(cmp.Compare(a.By, b.By), cmp.Compare(a.Name, b.Name)) })
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
