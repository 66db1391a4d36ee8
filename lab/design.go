package lab

import (
	"context"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/lab/preferred"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// The sizes of a design that is to be measured, where nothing else is asked.
const (
	DefaultMeasuredSamples     = 5_000
	DefaultMeasuredCommSamples = 500
	DefaultMeasuredTables      = 3_000
	DefaultNearTasks           = 40
)

// Design says what is to be measured.
type Design struct {
	Domain design.Domain
	// Samples is the number of groups to draw, and CommSamples that of all-to-alls;
	// 0 draws none.
	Samples, CommSamples int
	// PoolTables is the number of random tables to draw the groups over (default
	// DefaultMeasuredTables); the domain's own tables take their place.
	PoolTables int
	// Tasks is the number of planning tasks whose plans' device groups are samples
	// too: a tenth of the samples at most. Model makes those plans, on Hardware;
	// without a model greedy methods do.
	Tasks    int
	Model    *cost.Model
	Hardware hardware.Profile
	Seed     uint64
}

// nearShare is the part of the samples that are groups of plans: one in ten.
const nearShare = 10

// Draw draws the design: a dataset without times. The same design gives the same
// samples, numbered from 0. Groups of plans are among the last tenth; what there
// are none for, or not enough, is drawn.
func (d Design) Draw(ctx context.Context) (dataset.Dataset, error) {
	var set dataset.Dataset
	var err error
	if d.PoolTables <= 0 {
		d.PoolTables = DefaultMeasuredTables
	}
	if d.Samples > 0 {
		if set.Compute, err = d.Domain.Compute(d.Seed, d.PoolTables, d.Samples); err != nil {
			return set, err
		}
		if err := d.near(ctx, set.Compute); err != nil {
			return set, err
		}
	}
	if d.CommSamples > 0 {
		set.Comm, err = d.Domain.Comm(d.Seed, d.CommSamples)
	}
	return set, err
}

// near puts groups of plans in the place of the last samples, each in that of one
// of its split: so the shares of the splits stay as they are.
func (d Design) near(ctx context.Context, set *dataset.Compute) error {
	room := len(set.Samples) / nearShare
	if d.Tasks <= 0 || room == 0 {
		return nil
	}
	hw := d.Hardware
	switch {
	case d.Model != nil:
		hw = d.Model.Hardware()
	case hw.Name == "":
		// Greedy methods ask for no more than that there is a device.
		hw = hardware.Profiles()[0]
	}
	drawn := len(set.Samples)
	_, err := preferred.Add(ctx, set, hw, d.Model, preferred.Options{Domain: d.Domain, Tasks: d.Tasks, Memory: d.Domain.MaxBytes, Seed: d.Seed})
	if err != nil {
		return err
	}
	added := map[dataset.Split][]dataset.Group{}
	for _, g := range set.Samples[drawn:] {
		added[g.Split] = append(added[g.Split], g)
	}
	set.Samples = set.Samples[:drawn:drawn]
	places := map[dataset.Split][]int{}
	for i := drawn - room; i < drawn; i++ {
		split := set.Samples[i].Split
		places[split] = append(places[split], i)
	}
	for split, at := range places {
		groups := added[split]
		kept := min(len(at), len(groups))
		for k, i := range at[:kept] {
			// Plans of all tasks are among those that are kept.
			set.Samples[i] = groups[k*len(groups)/kept]
			set.Samples[i].ID = i
		}
	}
	return nil
}
