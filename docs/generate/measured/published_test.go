package main

import (
	"math"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

func TestBadPublishedTimes(t *testing.T) {
	header, row, _ := strings.Cut(publishedCSV, "\n")
	row, _, _ = strings.Cut(row, "\n")
	for _, c := range []struct{ from, to, want string }{
		{",a100-80,", ",gtx,", `published.csv:2: device profile "gtx" is unknown`},
		{",sum,", ",most,", `published.csv:2: pooling "most" is unknown`},
		{",sgd,", ",lamb,", `published.csv:2: optimizer "lamb" is unknown`},
		{",121.216,", ",fast,", `published.csv:2: us: "fast" is not a number`},
		{",121.216,", ",1,2,", "published.csv: record on line 2: wrong number of fields"},
	} {
		if _, err := readPublished(header + "\n" + strings.Replace(row, c.from, c.to, 1) + "\n"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in place of %s: got error %v, want %q", c.to, c.from, err, c.want)
		}
	}
}

// The profiles, operators and times of all points are those of the file. The forwards of an H100
// with all rows in HBM are in no fit, and within 4 %; its backwards are in the fit.
func TestPublishedTimes(t *testing.T) {
	points, err := publishedTimes()
	if err != nil {
		t.Fatal(err)
	}
	if len(points) != 35 {
		t.Errorf("got %d points, want 35", len(points))
	}
	for i := range points {
		p := &points[i]
		got := p.predict(p.Device, 0)
		if !(got > 0 && p.US > 0) {
			t.Errorf("point %d: got %v us predicted, %v measured", i, got, p.US)
		}
		limit := map[string]float64{"forward": .04, "backward": .065}[p.Pass]
		if p.Note == "rows in HBM" && math.Abs(got/p.US-1) > limit {
			t.Errorf("point %d: got %v us predicted, %v measured, want them within %v", i, got, p.US, limit)
		}
	}
}

// apartMisfit returns the sum of the squared logarithms of predicted over measured times of kernels
// that keep lookups apart. bag is the time of a bag in ns, and gap the time of the host in us
// inside the measurements of one source.
func apartMisfit(points []published, bag, gap float64) float64 {
	sum := 0.0
	for i := range points {
		p := &points[i]
		if p.Use != "fit" || p.Op.Pooling != problem.PoolingNone {
			continue
		}
		hw := p.Device.Profile()
		apart := hw.KernelTimes(false)
		apart.Bag = bag
		off := math.Log(p.predict(p.Device.WithKernels(hw.KernelTimes(true), apart), gap) / p.US)
		sum += off * off
	}
	return sum
}

// The time of a bag without pooling in the code is that of the fit, rounded to a ns.
func TestBagApartIsFitted(t *testing.T) {
	points, err := publishedTimes()
	if err != nil {
		t.Fatal(err)
	}
	var best float64
	least := math.Inf(1)
	for bag := 10.0; bag <= 40; bag++ {
		for gap := 20.0; gap <= 60; gap++ {
			if off := apartMisfit(points, bag, gap); off < least {
				best, least = bag, off
			}
		}
	}
	if bag := (hardware.Profile{WarpLanes: 32}).KernelTimes(false).Bag; best != bag {
		t.Errorf("the fit has %v ns for a bag, the code %v", best, bag)
	}
}
