package pretrained_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/feature"
	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

// The errors that docs/RESULTS.md promises of every model, in percent.
const (
	promisedMean  = .7
	promisedP95   = 2
	promisedLarge = 1
	promisedComm  = 1
)

func TestEveryModelKeepsItsPromises(t *testing.T) {
	names := pretrained.Profiles()
	want := hardware.Names()
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("got models of %q, want one of every profile, sorted: %q", names, want)
	}
	ids := map[string]string{}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			file := must.Get(pretrained.File(name))(t)
			m := file.Manifest
			if other, ok := ids[m.ID]; ok {
				t.Errorf("id %q is that of %q, too", m.ID, other)
			}
			ids[m.ID] = name
			if m.Profile != name || !strings.HasPrefix(m.ID, name+"-") {
				t.Errorf("got profile %q and id %q, want those of %q", m.Profile, m.ID, name)
			}
			if m.Source != simulate.Source || !strings.Contains(m.Backend, simulate.ModelVersion) {
				t.Errorf("got source %q, meter %q, want %q and version %q of the simulated device", m.Source, m.Backend, simulate.Source, simulate.ModelVersion)
			}
			if m.Compute.FeatureVersion != feature.Version || !slices.Equal(m.Compute.Features, feature.Names()) || !slices.Equal(m.Compute.Scalars, feature.ScalarNames()) {
				t.Errorf("got features %q, %v and %v, want those of this build, %q, %v and %v",
					m.Compute.FeatureVersion, m.Compute.Features, m.Compute.Scalars, feature.Version, feature.Names(), feature.ScalarNames())
			}
			for what, c := range map[string]struct {
				got       modelfile.Errors
				mean, p95 float64
				samples   int
			}{
				"compute":      {m.Card.Compute, promisedMean, promisedP95, lab.DefaultSamples / 10},
				"large groups": {m.Card.Large, promisedLarge, promisedP95, lab.DefaultLargeSamples / 10},
				"comm":         {m.Card.Comm, promisedComm, promisedP95, lab.DefaultCommSamples / 10},
			} {
				if c.got.Samples != c.samples || !(c.got.Mean > 0 && c.got.Mean <= c.mean) || !(c.got.P95 > 0 && c.got.P95 <= c.p95) {
					t.Errorf("%s: got %+v, want %d samples, a mean of at most %v %% and a p95 of at most %v %%", what, c.got, c.samples, c.mean, c.p95)
				}
			}
			if m.Card.ComputeSamples != lab.DefaultSamples || m.Card.CommSamples != lab.DefaultCommSamples {
				t.Errorf("got %d groups and %d exchanges, want %d and %d", m.Card.ComputeSamples, m.Card.CommSamples, lab.DefaultSamples, lab.DefaultCommSamples)
			}
			if want := "neuroshard train --simulate " + name + " --samples 100000 --seed 1"; m.Command != want {
				t.Errorf("got command %q, want %q", m.Command, want)
			}
			model := must.Get(cost.Load(file))(t)
			profile := must.Get(hardware.ByName(name))(t)
			if err := model.FitsProfile(hardware.Topology{Profile: profile, Devices: 8}); err != nil {
				t.Errorf("one host: %v", err)
			}
			if err := model.FitsProfile(hardware.Topology{Profile: profile, Devices: 16, DevicesPerHost: 8}); (err == nil) != (profile.NICGBps > 0) {
				t.Errorf("two hosts: got error %v, want one just where the profile has no network (%v GB/s)", err, profile.NICGBps)
			}
		})
	}
}

func TestNoModel(t *testing.T) {
	for _, name := range []string{"nope", "", ".", "..", "a100-80/model.safetensors", "../models/a100-80"} {
		m, err := pretrained.File(name)
		if err == nil || m != nil {
			t.Errorf("File(%q): got a model, want an error", name)
			continue
		}
		if want := "neuroshard lab train --simulate " + name; name == "nope" && !strings.Contains(err.Error(), want) {
			t.Errorf("File(%q): got error %q, want one that says how to train: %q", name, err, want)
		}
	}
}
