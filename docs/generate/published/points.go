// Package published holds published times of the kernels that the simulated device describes, for
// the commands that fit its constants and compare its times.
package published

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

//go:embed points.csv
var pointsCSV string

// A Point is a published time of equal tables in one operator.
type Point struct {
	// Source names the publication, and GPU the device that it states.
	Source, GPU, Note string
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

// Records reads a CSV file with a header. name is the file's in errors.
func Records(text, name string) ([]map[string]string, error) {
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var all []map[string]string
	for _, line := range lines[1:] {
		r := map[string]string{}
		for i, column := range lines[0] {
			r[column] = line[i]
		}
		all = append(all, r)
	}
	return all, nil
}

// Points returns all points, in the order of the file.
func Points() ([]Point, error) { return readPoints(pointsCSV) }

// readPoints reads the points of points.csv.
func readPoints(text string) ([]Point, error) {
	records, err := Records(text, "points.csv")
	if err != nil {
		return nil, err
	}
	var points []Point
	for i, r := range records {
		p, err := newPoint(r)
		if err != nil {
			return nil, fmt.Errorf("points.csv:%d: %w", i+2, err)
		}
		points = append(points, p)
	}
	return points, nil
}

// newPoint returns the point of a record.
func newPoint(r map[string]string) (Point, error) {
	profile, err := hardware.ByName(r["profile"])
	if err != nil {
		return Point{}, err
	}
	optimizer, err := problem.ParseOptimizer(r["optimizer"])
	if err != nil {
		return Point{}, err
	}
	pooling, err := problem.ParsePooling(r["pooling"])
	if err != nil {
		return Point{}, err
	}
	// number reads a member that may be empty.
	number := func(name string) float64 {
		v, e := strconv.ParseFloat(r[name], 64)
		if e != nil && r[name] != "" && err == nil {
			err = fmt.Errorf("%s: %q is not a number", name, r[name])
		}
		return v
	}
	p := Point{
		Source: r["source"], GPU: r["gpu"], Note: r["note"], Mode: r["mode"], Pass: r["pass"], Use: r["use"],
		Device: simulate.NewDevice(profile), US: number("us"),
		Tables: int(number("tables")), Rows: int64(number("rows")), Dim: int(number("dim")),
		Bags: int(number("bags")), Lookups: int(number("lookups")),
		Op: simulate.Op{
			Batch: int(number("bags")), WeightBytes: int(number("weight_bytes")), Optimizer: optimizer,
			Pooling: pooling, Lanes: int(number("lanes")), CachedRows: int64(number("cached_rows")),
		},
	}
	if p.Mode == "eager" {
		p.Op.Launch = simulate.Eager
	}
	table := simulate.Table{Rows: p.Rows, Dim: p.Dim, LengthCV: number("length_cv"), Counts: counts(r["accesses"], number("unique"), p)}
	for range p.Tables {
		p.Op.Tables = append(p.Op.Tables, table)
	}
	return p, err
}

// counts returns the accesses of a table: uniform draws, or Zipf's law, with the published
// number of distinct rows if it is above 0.
func counts(accesses string, unique float64, p Point) access.Counts {
	d := access.Distribution{Kind: access.Uniform}
	if accesses != "uniform" {
		exponent, err := strconv.ParseFloat(strings.TrimPrefix(accesses, "zipf "), 64)
		if err != nil {
			panic("published: accesses " + accesses + " are not known")
		}
		d = access.Distribution{Kind: access.Zipf, Exponent: exponent}
	}
	c := d.At(p.Rows, float64(p.Lookups), p.Bags)
	if unique > 0 {
		c.Unique = unique
	}
	return c
}

// Predict returns the time of the point on a device, in us. gap is the time of the host in
// measurements of mode gap.
func (p *Point) Predict(d simulate.Device, gap float64) float64 {
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

// Place says where the rows lie, and on what GPU if its kernels differ.
func (p *Point) Place() string {
	switch {
	case p.Mode == "host":
		return "rows in a host's memory"
	case p.Op.CachedRows > 0:
		return "rows cached in HBM"
	case p.Mode == "eager":
		return "launches alone, B200"
	case p.Device.Profile().Warp() == 64:
		return "MI350X"
	case strings.HasPrefix(p.Device.Profile().Name, "v100"):
		return "rows in HBM, V100"
	}
	return "rows in HBM, A100 and H100"
}

// Limit names what sets most of the predicted time: the rate whose change moves the time
// most, or launches if no rate moves it much.
func (p *Point) Limit() string {
	if p.Mode == "host" {
		return "host link"
	}
	before := p.Predict(p.Device, 0)
	name, most := "launches", .25*before*.01
	for _, rate := range []struct {
		name string
		slow func(*simulate.Rates)
	}{
		{"memory", func(r *simulate.Rates) { r.Stream /= 1.01 }},
		{"cache", func(r *simulate.Rates) { r.L2 /= 1.01 }},
		{"issue", func(r *simulate.Rates) { r.Issue /= 1.01 }},
	} {
		d := p.Device
		rate.slow(&d.Rates)
		if more := p.Predict(d, 0) - before; more > most {
			name, most = rate.name, more
		}
	}
	return name
}

// OnProfile returns the points with those of one profile on another one.
func OnProfile(points []Point, from, to string) []Point {
	var moved []Point
	for _, p := range points {
		if p.Device.Profile().Name == from {
			profile, err := hardware.ByName(to)
			if err != nil {
				panic("published: " + err.Error())
			}
			p.Device = simulate.NewDevice(profile)
		}
		moved = append(moved, p)
	}
	return moved
}
