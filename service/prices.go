package service

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// pricer chooses the prices of problems: those of the operator's model, or of the models that
// ship. Each model is loaded once.
type pricer struct {
	model    *cost.Model
	formulas neuroshard.Prices // nil without formulas

	lock    sync.Mutex
	shipped map[string]*cost.Model
}

func newPricer(model *cost.Model, formulas neuroshard.Prices) *pricer {
	return &pricer{model: model, formulas: formulas, shipped: map[string]*cost.Model{}}
}

// own returns the profile of the model's device if no built-in profile has its name.
func (p *pricer) own() []hardware.Profile {
	if p.model == nil || hardware.Known(p.model.Hardware().Name) {
		return nil
	}
	return []hardware.Profile{p.model.Hardware()}
}

// profiles returns the names of the profiles that can be planned for; nil: all of them.
func (p *pricer) profiles() []string {
	switch {
	case p.model != nil:
		return []string{p.model.Hardware().Name}
	case p.formulas != nil:
		return nil
	}
	return pretrained.Profiles()
}

// of returns the prices for a cluster.
func (p *pricer) of(t hardware.Topology, riskPenalty float64) (neuroshard.Prices, error) {
	ensemble := p.model != nil && p.model.Members() > 1
	if riskPenalty > 0 && !ensemble {
		return nil, refusal(fault{Location: "options.risk_penalty", Message: "the cost model of this server is no ensemble", Hint: "leave risk_penalty out"})
	}
	switch {
	case p.model != nil:
		if err := p.model.FitsProfile(t); err != nil {
			return nil, refusal(fault{Location: "problem.overrides.device", Message: err.Error(), Hint: "this server plans for device " + p.model.Hardware().Name})
		}
		return neuroshard.Trained(p.model, riskPenalty), nil
	case p.formulas != nil:
		return p.formulas, nil
	}
	model, err := p.load(t.Profile.Name)
	if err != nil {
		return nil, err
	}
	return neuroshard.Trained(model, 0), nil
}

// load returns the model that ships for a profile.
func (p *pricer) load(profile string) (*cost.Model, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if model := p.shipped[profile]; model != nil {
		return model, nil
	}
	if all := pretrained.Profiles(); !slices.Contains(all, profile) {
		return nil, refusal(fault{Location: "problem.overrides.device", Message: fmt.Sprintf("no cost model ships for device profile %q", profile), Hint: "choose one of " + strings.Join(all, ", ")})
	}
	file, err := pretrained.File(profile)
	if err != nil {
		return nil, err
	}
	model, err := cost.Load(file)
	if err == nil {
		p.shipped[profile] = model
	}
	return model, err
}

// types returns the sharding types of requests that state none: those that a measured model
// knows, or all.
func (p *pricer) types() []problem.ShardingType {
	if p.model != nil && p.model.Manifest().Source != string(dataset.Simulated) {
		return nil // no backend measures the others
	}
	return problem.ShardingTypes()
}
