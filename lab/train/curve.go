package train

import (
	"context"
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// CurvePoint is one point of a learning curve: the errors of a model trained on
// Samples samples. All points are judged on the same test groups.
type CurvePoint struct {
	Samples int              `json:"samples"`
	Compute modelfile.Errors `json:"compute"`
	Large   modelfile.Errors `json:"large_groups"`
}

// MinCurveSamples is the least size of a learning curve's point.
const MinCurveSamples = 10

// LearningCurve trains compute nets on growing parts of the dataset, the first samples of each split,
// and judges each net on all test groups. A size beyond the dataset's means all usable samples. A net of
// fewer simulated samples gets more epochs, at most ten times, so that every net sees the same number of
// groups. The points are in the order of the sizes.
func LearningCurve(ctx context.Context, data Data, profile hardware.Profile, sizes []int, opt Options) ([]CurvePoint, error) {
	opt = opt.withDefaults()
	if err := data.check(profile, opt.MixedSources, dataset.Train, dataset.Validation, dataset.Test); err != nil {
		return nil, err
	}
	all := len(data.Compute.Usable())
	if len(sizes) == 0 || slices.Min(sizes) < MinCurveSamples || all < MinCurveSamples {
		return nil, fmt.Errorf("learning curve: sizes %v of %d samples: give one or more, each at least %d", sizes, all, MinCurveSamples)
	}
	comm, err := fitComm(ctx, data.Comm, profile, opt)
	if err != nil {
		return nil, err
	}
	var points []CurvePoint
	for _, size := range sizes {
		size = min(size, all)
		part := data
		part.Compute = share(data.Compute, size, all)
		fit := opt
		if !measured(data.Compute.Provenance) {
			if fit.Epochs <= 0 {
				fit.Epochs = DefaultEpochs
			}
			fit.Epochs *= min(10, min(all, slices.Max(sizes))/size)
		}
		compute, err := fitCompute(ctx, part.Compute, profile, fit)
		if err != nil {
			return nil, err
		}
		report, err := Judge(assemble(part, profile, compute, comm, fit), data, opt.Workers)
		if err != nil {
			return nil, err
		}
		points = append(points, CurvePoint{size, report.Compute.All, report.Large.All})
	}
	return points, nil
}

// share returns a dataset with the first samples of each split: samples of all the
// samples that are not quarantined.
func share(set *dataset.Compute, samples, all int) *dataset.Compute {
	of, taken := map[dataset.Split]int{}, map[dataset.Split]int{}
	usable := set.Usable()
	for i := range usable {
		of[usable[i].Split]++
	}
	part := *set
	part.Samples = nil
	for i := range usable {
		g := &usable[i]
		if taken[g.Split]*all < of[g.Split]*samples {
			taken[g.Split]++
			part.Samples = append(part.Samples, *g)
		}
	}
	return &part
}
