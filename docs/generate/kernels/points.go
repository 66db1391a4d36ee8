package main

import (
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

// A point is a published time of equal tables in one operator.
type point struct {
	source, gpu, note string
	device            simulate.Device
	op                simulate.Op
	tables, dim       int
	rows              int64
	// bags is the bags of each table, and lookups those of a bag.
	bags, lookups int
	// mode is graph, eager, host for rows in a host's memory, or gap for times that contain
	// the time of the host.
	mode string
	// pass is forward or backward, us the published time, and use is fit or out.
	pass, use string
	us        float64
}

// records reads a CSV file with a header.
func records(text, name string) ([]map[string]string, error) {
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

// readPoints reads the points of points.csv.
func readPoints(text string) ([]point, error) {
	records, err := records(text, "points.csv")
	if err != nil {
		return nil, err
	}
	var points []point
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
func newPoint(r map[string]string) (point, error) {
	profile, err := hardware.ByName(r["profile"])
	if err != nil {
		return point{}, err
	}
	optimizer, err := problem.ParseOptimizer(r["optimizer"])
	if err != nil {
		return point{}, err
	}
	// number reads a member that may be empty.
	number := func(name string) float64 {
		v, e := strconv.ParseFloat(r[name], 64)
		if e != nil && r[name] != "" && err == nil {
			err = fmt.Errorf("%s: %q is not a number", name, r[name])
		}
		return v
	}
	p := point{
		source: r["source"], gpu: r["gpu"], note: r["note"], mode: r["mode"], pass: r["pass"], use: r["use"],
		device: simulate.NewDevice(profile), us: number("us"),
		tables: int(number("tables")), rows: int64(number("rows")), dim: int(number("dim")),
		bags: int(number("bags")), lookups: int(number("lookups")),
		op: simulate.Op{
			Batch: int(number("bags")), WeightBytes: int(number("weight_bytes")), Optimizer: optimizer,
			Lanes: int(number("lanes")), CachedRows: int64(number("cached_rows")),
		},
	}
	if p.mode == "eager" {
		p.op.Launch = simulate.Eager
	}
	table := simulate.Table{Rows: p.rows, Dim: p.dim, LengthCV: number("length_cv"), Counts: counts(r["accesses"], number("unique"), p)}
	for range p.tables {
		p.op.Tables = append(p.op.Tables, table)
	}
	return p, err
}

// counts returns the accesses of a table: uniform draws, or Zipf's law, with the published
// number of distinct rows if it is above 0.
func counts(accesses string, unique float64, p point) access.Counts {
	d := access.Distribution{Kind: access.Uniform}
	if accesses != "uniform" {
		exponent, err := strconv.ParseFloat(strings.TrimPrefix(accesses, "zipf "), 64)
		if err != nil {
			panic("kernels: accesses " + accesses + " are not known")
		}
		d = access.Distribution{Kind: access.Zipf, Exponent: exponent}
	}
	c := d.At(p.rows, float64(p.lookups), p.bags)
	if unique > 0 {
		c.Unique = unique
	}
	return c
}

// predict returns the time of the point on a device, in us. gap is the time of the host in
// measurements of mode gap.
func (p *point) predict(d simulate.Device, gap float64) float64 {
	forward, backward := d.Compute(p.op)
	if p.mode == "host" {
		table := problem.Table{Rows: p.rows, Dim: p.dim, Optimizer: p.op.Optimizer}
		for i := range p.op.Tables {
			read, update := d.HostLink(&table, p.op.Tables[i].Counts, p.dim, problem.Form{Tier: problem.Host})
			forward += read
			backward += update
		}
	}
	ms := forward
	if p.pass == "backward" {
		ms = backward
	}
	us := 1000 * float64(ms)
	if p.mode == "gap" {
		us += gap
	}
	return us
}

// place says where the rows lie, and on what GPU if its kernels differ.
func (p *point) place() string {
	switch {
	case p.mode == "host":
		return "rows in a host's memory"
	case p.op.CachedRows > 0:
		return "rows cached in HBM"
	case p.mode == "eager":
		return "launches alone, B200"
	case p.device.Profile().Warp() == 64:
		return "MI350X"
	case strings.HasPrefix(p.device.Profile().Name, "v100"):
		return "rows in HBM, V100"
	}
	return "rows in HBM, A100 and H100"
}

// limit names what sets most of the predicted time: the rate whose change moves the time
// most, or launches if no rate moves it much.
func (p *point) limit() string {
	if p.mode == "host" {
		return "host link"
	}
	before := p.predict(p.device, 0)
	name, most := "launches", .25*before*.01
	for _, rate := range []struct {
		name string
		slow func(*simulate.Rates)
	}{
		{"memory", func(r *simulate.Rates) { r.Stream /= 1.01 }},
		{"cache", func(r *simulate.Rates) { r.L2 /= 1.01 }},
		{"issue", func(r *simulate.Rates) { r.Issue /= 1.01 }},
	} {
		d := p.device
		rate.slow(&d.Rates)
		if more := p.predict(d, 0) - before; more > most {
			name, most = rate.name, more
		}
	}
	return name
}

// onProfile returns the points with those of one profile on another one.
func onProfile(points []point, from, to string) []point {
	var moved []point
	for _, p := range points {
		if p.device.Profile().Name == from {
			profile, err := hardware.ByName(to)
			if err != nil {
				panic("kernels: " + err.Error())
			}
			p.device = simulate.NewDevice(profile)
		}
		moved = append(moved, p)
	}
	return moved
}
