package design

import (
	"context"
	"fmt"
	"strings"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// The default sizes of an Experiment.
const (
	DefaultSamples      = 5_000
	DefaultCommSamples  = 500
	DefaultTables       = 3_000
	DefaultPlannedTasks = 40
)

// Experiment states which samples to measure.
type Experiment struct {
	Domain Domain
	// Samples is the number of groups to draw, and CommSamples the number of
	// all-to-alls; 0 draws none.
	Samples, CommSamples int
	// PoolTables is the number of random tables over which the groups are drawn
	// (default DefaultTables). It is not used if the domain has its own tables.
	PoolTables int
	// Tasks is the number of planning tasks. The device groups of their plans are
	// samples too: at most a tenth of the samples. Model makes those plans, on
	// Hardware; without a model, greedy methods make them.
	Tasks    int
	Model    *cost.Model
	Hardware hardware.Profile
	Seed     uint64
}

// nearShare is the part of the samples that are groups of plans: one in ten.
const nearShare = 10

// Draw draws the experiment: a dataset without times. The same experiment gives the
// same samples, numbered from 0. Groups of plans are among the last tenth. If there
// are too few groups of plans, drawn groups take their place.
func (e Experiment) Draw(ctx context.Context) (dataset.Dataset, error) {
	var set dataset.Dataset
	var err error
	if e.PoolTables <= 0 {
		e.PoolTables = DefaultTables
	}
	if e.Samples > 0 {
		if set.Compute, err = e.Domain.Compute(e.Seed, e.PoolTables, e.Samples); err != nil {
			return set, err
		}
		if err := e.near(ctx, set.Compute); err != nil {
			return set, err
		}
	}
	if e.CommSamples > 0 {
		set.Comm, err = e.Domain.Comm(e.Seed, e.CommSamples)
	}
	return set, err
}

// near replaces the last samples with groups of plans. Each group replaces a sample
// of its own split, so that the shares of the splits stay the same.
func (e Experiment) near(ctx context.Context, set *dataset.Compute) error {
	room := len(set.Samples) / nearShare
	if e.Tasks <= 0 || room == 0 {
		return nil
	}
	hw := e.Hardware
	switch {
	case e.Model != nil:
		hw = e.Model.Hardware()
	case hw.Name == "":
		// Greedy methods use only the memory of the profile.
		hw = hardware.Profiles()[0]
	}
	if problems := hw.Problems(); len(problems) > 0 {
		return fmt.Errorf("the tasks are not valid: %s", strings.Join(problems, "; "))
	}
	planner := planner{set: set, domain: e.Domain.WithDefaults(), hw: hw, model: e.Model, seed: e.Seed}
	groups, err := planner.groups(ctx, e.Tasks)
	if err != nil {
		return err
	}
	added := map[dataset.Split][]dataset.Group{}
	for _, g := range groups {
		added[g.Split] = append(added[g.Split], g)
	}
	drawn := len(set.Samples)
	places := map[dataset.Split][]int{}
	for i := drawn - room; i < drawn; i++ {
		split := set.Samples[i].Split
		places[split] = append(places[split], i)
	}
	for split, at := range places {
		groups := added[split]
		kept := min(len(at), len(groups))
		for k, i := range at[:kept] {
			// The kept groups come from the plans of all tasks.
			set.Samples[i] = groups[k*len(groups)/kept]
			set.Samples[i].ID = i
		}
	}
	return nil
}
