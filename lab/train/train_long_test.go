//go:build long

package train_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/train"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// Data of a device that follows no known formula, with noise of 3 %, gives a model
// that is closer to the noiseless law than the data is.
func TestMeasuredData(t *testing.T) {
	hw := desk()
	data, truth := synthetic(hw, warpedLaw(hw), 600, 1000, 300, .03, 1)
	m, report := fit(t, data, hw, train.Options{Seed: 1, Epochs: 40})
	exact := must.Get(train.Judge(m, truth, 2))(t)
	t.Logf("against the data %+v, against the law %+v; exchanges %+v and %+v", report.Compute.All, exact.Compute.All, report.Comm.All, exact.Comm.All)
	if got := exact.Compute.All; !(got.Mean < 4.8) || !(got.P95 < 14) {
		t.Errorf("groups against the law: got %+v, want a mean below 4.8 %% and a p95 below 14 %%", got)
	}
	if got := exact.Comm.All; !(got.Mean < 1.5) {
		t.Errorf("exchanges against the law: got %+v, want a mean below 1.5 %%", got)
	}
	if got := report.Compute.All; !(got.Mean > exact.Compute.All.Mean) {
		t.Errorf("got errors %+v against noisy times, want more than %+v against the law", got, exact.Compute.All)
	}
	if !(exact.Compute.KendallTau > .97) {
		t.Errorf("got tau %v, want above .97", exact.Compute.KendallTau)
	}
	// The sum of two times varies less than each of them; a difference of two
	// measurements varies more than one.
	noise := report.Compute.Noise
	if noise.Repeats != 20 || noise.Mean < 1 || noise.Mean > 5 {
		t.Errorf("got noise %+v, want 20 repeats that differ by some percent", noise)
	}
	card := m.Manifest.Card
	if card.KendallTau != report.Compute.KendallTau || card.Repeated != (modelfile.Errors{Samples: noise.Repeats, Mean: noise.Mean, P95: noise.P95}) {
		t.Errorf("got card %+v, want the report's tau and noise", card)
	}
	if l := m.Manifest.Compute; !(l.LaunchForwardMS > .01 && l.LaunchForwardMS < .02) || !(l.LaunchBackwardMS > .2 && l.LaunchBackwardMS < .3) {
		t.Errorf("got fixed costs of %v and %v ms, want about .015 and .23", l.LaunchForwardMS, l.LaunchBackwardMS)
	}
	if report.Compute.Spread != nil {
		t.Errorf("got a spread %+v of a single net", report.Compute.Spread)
	}
}

// On a device whose collectives do not follow the closed form, the residual net
// removes most of the remaining error.
func TestResidualMendsADistortedDevice(t *testing.T) {
	hw := must.Get(hardware.ByName("a100-80"))(t)
	data := simulated(t, hw, 20, 900)
	for i := range data.Comm.Samples {
		e := &data.Comm.Samples[i]
		sum := 0
		for _, d := range e.DimSums {
			sum += d
		}
		n := float64(e.Devices)
		most := float64(slices.Max(e.DimSums))
		bytes := 4 * float64(e.Batch) * max((n-1)/n*most, (float64(sum)-float64(slices.Min(e.DimSums)))/n)
		unpack := 2 * float64(e.Batch) / n * float64(sum) * 4 / (hw.HBMGBps * hw.HBMEfficiency * 1e6)
		for r := range e.Backward {
			// Messages of some MB are up to 40 % slower, as if a library switched from one
			// protocol to another too late.
			slower := .4 * math.Exp(-math.Pow(math.Log(bytes/8e6)/2.5, 2))
			extra := (e.Backward[r] - unit.Millis(unpack)) * unit.Millis(slower)
			e.Backward[r] += extra
			e.Forward[r] += extra
		}
	}
	m, report := must.Get2(train.Fit(context.Background(), data, hw, train.Options{Epochs: 2, Hidden: 16, Embed: 8, Head: 8, Seed: 1}))(t)
	for i, tensor := range m.Tensors {
		if strings.HasPrefix(tensor.Name, "comm.residual") {
			m.Tensors[i].Data = make([]float32, len(tensor.Data))
		}
	}
	constants := must.Get(train.Judge(m, data, 2))(t)
	alone, mended := constants.Comm.All.Mean, report.Comm.All.Mean
	t.Logf("mean error of the constants alone %.2f %%, with the residual net %.2f %%", alone, mended)
	if !(alone > 4) {
		t.Errorf("constants alone: got %.2f %%, want more than 4 %%: the device is distorted by up to 40 %%", alone)
	}
	if !(mended < .45*alone) {
		t.Errorf("with the residual net: got %.2f %%, want below 0.45 of the constants' %.2f %%", mended, alone)
	}
}
