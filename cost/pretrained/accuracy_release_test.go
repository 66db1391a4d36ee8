//go:build release

package pretrained_test

import (
	"context"
	"flag"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/internal/f32"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab"
	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/lab/train"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// The command in a manifest makes that model again, byte for byte on the build
// that made it; elsewhere, where rounding differs, one as good.
func TestCommandMakesTheModelAgain(t *testing.T) {
	const name = "a100-80"
	shipped := must.Get(pretrained.File(name))(t)
	var opt lab.Options
	var simulated string
	words := strings.Fields(shipped.Manifest.Command)
	if len(words) < 2 || words[0] != "neuroshard" || words[1] != "train" {
		t.Fatalf("got command %q, want neuroshard train", shipped.Manifest.Command)
	}
	flags := flag.NewFlagSet("train", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&simulated, "simulate", "", "")
	flags.IntVar(&opt.Samples, "samples", 0, "")
	flags.IntVar(&opt.CommSamples, "comm-samples", 0, "")
	flags.IntVar(&opt.Train.Epochs, "epochs", 0, "")
	flags.Uint64Var(&opt.Seed, "seed", 1, "")
	if err := flags.Parse(words[2:]); err != nil || simulated != name {
		t.Fatalf("command %q: got profile %q, error %v", shipped.Manifest.Command, simulated, err)
	}
	profile := must.Get(hardware.ByName(name))(t)
	again, _ := must.Get2(lab.Simulate(context.Background(), profile, opt))(t)
	if f32.Assembly() {
		if again.Manifest.ID != shipped.Manifest.ID {
			t.Errorf("got model %s, want %s; card %+v, want %+v", again.Manifest.ID, shipped.Manifest.ID, again.Manifest.Card, shipped.Manifest.Card)
		}
		return
	}
	for what, pair := range map[string][2]modelfile.Errors{
		"compute": {again.Manifest.Card.Compute, shipped.Manifest.Card.Compute},
		"large":   {again.Manifest.Card.Large, shipped.Manifest.Card.Large},
		"comm":    {again.Manifest.Card.Comm, shipped.Manifest.Card.Comm},
	} {
		got, want := pair[0], pair[1]
		if got.Samples != want.Samples || math.Abs(got.Mean-want.Mean) > .1 || math.Abs(got.P95-want.P95) > .5 {
			t.Errorf("%s: got errors %+v, want %+v, the mean within 0.1 and the p95 within 0.5 points", what, got, want)
		}
	}
}

// Every model keeps its promises on tables, groups and exchanges drawn anew.
func TestAccuracyOnFreshSamples(t *testing.T) {
	const seed = 20_260_101
	for _, name := range pretrained.Profiles() {
		t.Run(name, func(t *testing.T) {
			profile := must.Get(hardware.ByName(name))(t)
			file := must.Get(pretrained.File(name))(t)
			data := train.Data{
				Compute: design.Compute(seed, 2000, 8_000, 1, design.MaxShards),
				Large:   design.Compute(seed+1, 2000, 2_000, 100, 200),
				Comm:    design.Comm(seed, 1000, profile),
			}
			for _, set := range []*dataset.Compute{data.Compute, data.Large} {
				for i := range set.Samples {
					set.Samples[i].Split = dataset.Test
				}
				must.Do(t, collect.SimulateCompute(context.Background(), set, profile, 0))
			}
			for i := range data.Comm.Samples {
				data.Comm.Samples[i].Split = dataset.Test
			}
			must.Do(t, collect.SimulateComm(context.Background(), data.Comm, profile, 0))
			id := file.Manifest.ID
			report := must.Get(train.Judge(file, data, runtime.GOMAXPROCS(0)))(t)
			if file.Manifest.ID != id {
				t.Errorf("judging changed the model's id to %q, want %q", file.Manifest.ID, id)
			}
			t.Logf("compute %+v, large %+v, comm %+v", report.Compute.All, report.Large.All, report.Comm.All)
			for _, c := range []struct {
				what      string
				got       modelfile.Errors
				samples   int
				mean, p95 float64
			}{
				{"compute", report.Compute.All, 8_000, promisedMean, promisedP95},
				{"large groups", report.Large.All, 2_000, promisedLarge, promisedP95},
				{"comm", report.Comm.All, 1000, promisedComm, promisedP95},
			} {
				if c.got.Samples != c.samples || !(c.got.Mean <= c.mean) || !(c.got.P95 <= c.p95) {
					t.Errorf("%s: got %+v, want %d samples, a mean of at most %v %% and a p95 of at most %v %%", c.what, c.got, c.samples, c.mean, c.p95)
				}
			}
			// No part of the domain is badly off.
			for _, p := range append(report.Compute.Parts, report.Comm.Parts...) {
				if p.Errors.Samples >= 50 && !(p.Errors.Mean <= 2) {
					t.Errorf("%s %s: got a mean error of %.2f %% over %d samples, want at most 2 %%", p.By, strings.TrimSpace(p.Name), p.Errors.Mean, p.Errors.Samples)
				}
			}
		})
	}
}
