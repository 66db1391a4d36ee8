//go:build unix

// Command growth measures how planning grows: it runs the neuroshard binary on
// drawn workloads of growing size, each a process of its own, and writes a table
// of wall time and peak memory, and a plot of both. docs/PERFORMANCE.md shows
// them.
//
//	go build -o bin/neuroshard ./cmd/neuroshard
//	go run ./docs/generate/growth -binary bin/neuroshard -svg docs/growth.svg
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/neuroshard/neuroshard/internal/atomicfile"
	"github.com/neuroshard/neuroshard/internal/chart"
)

func main() {
	binary := flag.String("binary", "bin/neuroshard", "the neuroshard binary")
	kinds := flag.String("sharding-types", "all", "sharding types that tables may have, as plan takes them")
	svg := flag.String("svg", "growth.svg", "file of the plot")
	sizes := flag.String("sizes", "100x8,300x32,1000x128,3000x384,5384x1024,10000x1024,60000x4096", "tables x devices, by commas")
	runs := flag.Int("runs", 3, "runs of each size; the quickest counts")
	flag.Parse()
	if err := run(os.Stdout, *binary, *kinds, *svg, strings.Split(*sizes, ","), *runs); err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

// point is one planned problem.
type point struct {
	tables, devices, shards int
	seconds                 float64
	peakMiB                 float64
	// cost is simulated, gap that cost over the lower bound, and balance how much
	// longer the busiest device is at work than the mean, as predicted.
	cost, gap, balance float64
}

func run(w io.Writer, binary, kinds, svg string, sizes []string, runs int) error {
	if runs < 1 {
		return fmt.Errorf("-runs: %d is not at least 1", runs)
	}
	var points []point
	fmt.Fprintln(w, "| tables x devices | shards | wall, s | peak memory, MiB | cost, ms, SIMULATED | within % of the best | busiest over mean |\n|---|--:|--:|--:|--:|--:|--:|")
	for _, size := range sizes {
		p, err := measure(binary, kinds, size, runs)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "| %d x %d | %d | %.2f | %.0f | %.2f | %.1f | %.3f |\n", p.tables, p.devices, p.shards, p.seconds, p.peakMiB, p.cost, 100*p.gap, p.balance)
		points = append(points, p)
	}
	return draws(svg, points)
}

// planned is what is read of the planner's answer.
type planned struct {
	Valid bool    `json:"valid"`
	Cost  float64 `json:"simulated_cost_ms"`
	Gap   float64 `json:"optimality_gap"`
	Plan  struct {
		Devices []struct {
			Shards       int     `json:"shards"`
			Forward      float64 `json:"forward_ms"`
			ForwardComm  float64 `json:"forward_comm_ms"`
			BackwardComm float64 `json:"backward_comm_ms"`
			Backward     float64 `json:"backward_ms"`
		} `json:"devices"`
	} `json:"plan"`
}

// balance returns the time of the busiest device over the mean. Who waits for the
// forward all-to-all is not at work: it takes as long as for the one that waits least.
func (p *planned) balance() float64 {
	shortest, longest, sum := math.Inf(1), 0.0, 0.0
	for _, d := range p.Plan.Devices {
		shortest = min(shortest, d.ForwardComm)
	}
	for _, d := range p.Plan.Devices {
		busy := d.Forward + d.Backward + d.BackwardComm + shortest
		longest, sum = max(longest, busy), sum+busy
	}
	return longest * float64(len(p.Plan.Devices)) / sum
}

// measure plans one size several times and keeps the quickest run. A run without
// a valid plan is an error.
func measure(binary, kinds, size string, runs int) (point, error) {
	tables, devices, ok := strings.Cut(size, "x")
	var p point
	var err1, err2 error
	p.tables, err1 = strconv.Atoi(tables)
	p.devices, err2 = strconv.Atoi(devices)
	if !ok || err1 != nil || err2 != nil {
		return p, fmt.Errorf("size %q is not TABLESxDEVICES", size)
	}
	for i := range runs {
		cmd := exec.Command(binary, "plan", "workload:dlrm-datasets-"+size, "--sharding-types", kinds, "--no-baselines", "--json")
		cmd.Stderr = os.Stderr
		start := time.Now()
		out, err := cmd.Output()
		seconds := time.Since(start).Seconds()
		if err != nil {
			return p, fmt.Errorf("%s: %w", size, err)
		}
		var result planned
		if err := json.Unmarshal(out, &result); err != nil {
			return p, fmt.Errorf("%s: %w", size, err)
		}
		if !result.Valid {
			return p, fmt.Errorf("%s: the plan is not valid", size)
		}
		if i == 0 || seconds < p.seconds {
			p.seconds = seconds
		}
		p.cost, p.gap, p.balance, p.shards = result.Cost, result.Gap, result.balance(), 0
		for _, d := range result.Plan.Devices {
			p.shards += d.Shards
		}
		if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			p.peakMiB = max(p.peakMiB, float64(usage.Maxrss)/1024) // kilobytes on Linux
		}
	}
	return p, nil
}

func draws(path string, points []point) error {
	seconds := chart.Series{Colour: chart.Colour(0), Line: true, Mark: chart.Circle}
	memory := chart.Series{Colour: chart.Colour(0), Line: true, Mark: chart.Circle}
	for _, p := range points {
		seconds.Points = append(seconds.Points, chart.Point{X: float64(p.tables), Y: p.seconds})
		memory.Points = append(memory.Points, chart.Point{X: float64(p.tables), Y: p.peakMiB})
	}
	panel := func(title, unit string, s chart.Series) chart.Panel {
		return chart.Panel{
			Title: title, Series: []chart.Series{s},
			X: chart.Axis{Label: "tables", Log: true, Room: .05},
			Y: chart.Axis{Label: unit, Log: true, Room: .05},
		}
	}
	return atomicfile.Write(path, func(w io.Writer) error {
		return chart.Write(w, 620, 380, []chart.Panel{
			panel("Wall time of the whole process", "s", seconds),
			panel("Peak memory of the whole process", "MiB", memory),
		})
	})
}
