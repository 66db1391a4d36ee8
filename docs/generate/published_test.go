package main

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

// published is a published time of equal tables in one operator.
type published struct {
	Note string
	// Device is the simulated device of its profile, and Op the operator.
	Device      simulate.Device
	Op          simulate.Op
	Tables, Dim int
	Rows        int64
	// Bags is the bags of each table, and Lookups those of a bag.
	Bags, Lookups int
	// Mode is graph, eager, host for rows in a host's memory, or gap for times that contain
	// the time of the host.
	Mode string
	// Pass is forward or backward, US the published time in us, and Use is fit or out.
	Pass, Use string
	US        float64
}

// publishedTimes returns all times of published.csv, in the order of the file.
func publishedTimes() []published {
	facts := readFacts("published.csv")
	var all []published
	for _, f := range facts {
		p := newPublished(f)
		all = append(all, p)
	}
	return all
}

// newPublished returns the point of a row.
func newPublished(f fact) published {
	profile := must(hardware.ByName(f.text("profile")))
	optimizer := must(problem.ParseOptimizer(f.text("optimizer")))
	pooling := must(problem.ParsePooling(f.text("pooling")))
	p := published{
		Note: f.text("note"), Mode: f.text("mode"), Pass: f.text("pass"), Use: f.text("use"),
		Device: simulate.NewDevice(profile), US: f.number("us"),
		Tables: f.count("tables"), Rows: int64(f.number("rows")), Dim: f.count("dim"),
		Bags: f.count("bags"), Lookups: f.count("lookups"),
		Op: simulate.Op{
			Batch: f.count("bags"), WeightBytes: f.count("weight_bytes"), Optimizer: optimizer,
			Pooling: pooling, Lanes: f.count("lanes"), CachedRows: int64(f.number("cached_rows")),
		},
	}
	if p.Mode == "eager" {
		p.Op.Launch = simulate.Eager
	}
	table := simulate.Table{Rows: p.Rows, Dim: p.Dim, LengthCV: f.number("length_cv"), Counts: counts(f.text("accesses"), f.number("unique"), p)}
	for range p.Tables {
		p.Op.Tables = append(p.Op.Tables, table)
	}
	return p
}

// counts returns the accesses of a table: uniform draws, or Zipf's law, with the published
// number of distinct rows if it is above 0.
func counts(accesses string, unique float64, p published) access.Counts {
	d := access.Distribution{Kind: access.Uniform}
	if accesses != "uniform" {
		d = access.Distribution{Kind: access.Zipf, Exponent: must(strconv.ParseFloat(strings.TrimPrefix(accesses, "zipf "), 64))}
	}
	c := d.At(p.Rows, float64(p.Lookups), p.Bags)
	if unique > 0 {
		c.Unique = unique
	}
	return c
}

// predict returns the time of the point on a device, in us. gap is the time of the host in
// measurements of mode gap.
func (p *published) predict(d simulate.Device, gap float64) float64 {
	forward, backward := d.Compute(p.Op)
	if p.Mode == "host" {
		table := problem.Table{Rows: p.Rows, Dim: p.Dim, Optimizer: p.Op.Optimizer}
		for i := range p.Op.Tables {
			read, update := d.HostLink(&table, p.Op.Tables[i].Counts, p.Dim, problem.Form{Tier: problem.Host})
			forward += read
			backward += update
		}
	}
	ms := forward
	if p.Pass == "backward" {
		ms = backward
	}
	us := 1000 * float64(ms)
	if p.Mode == "gap" {
		us += gap
	}
	return us
}

// The profiles, operators and times of all points are those of the file. The forwards of an H100
// with all rows in HBM are in no fit, and within 4 %; its backwards are in the fit.
func TestPublishedTimes(t *testing.T) {
	points := publishedTimes()
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
	points := publishedTimes()
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
