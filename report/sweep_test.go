package report_test

import (
	"bytes"

	"github.com/neuroshard/neuroshard/lab/sweep"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/unit"
)

// sweeps are the reports of sweeps: all marks and statuses, one with whole steps and prices, one
// with neither, and a part that was interrupted.
func sweeps() []goldenCase {
	return []goldenCase{
		{"sweep", func(b *bytes.Buffer) error {
			return report.Sweep(b, sweep.NewResults(madeSweep(true), ""), report.Options{})
		}},
		{"sweep_by_cost", func(b *bytes.Buffer) error {
			return report.Sweep(b, sweep.NewResults(madeSweep(true), sweep.ByCost), report.Options{Width: 80, Colour: true})
		}},
		{"sweep_embeddings", func(b *bytes.Buffer) error {
			return report.Sweep(b, sweep.NewResults(madeSweep(false), ""), report.Options{})
		}},
		{"sweep_part", func(b *bytes.Buffer) error {
			file := madeSweep(false)
			file.Part = sweep.Part{Index: 2, Count: 3}
			file.Outcomes = file.Outcomes[1:2]
			return report.Sweep(b, sweep.NewResults(file, ""), report.Options{})
		}},
	}
}

// madeSweep makes up a sweep of two profiles and four numbers of devices. The embeddings take
// 16 ms / devices and 1 ms more, half of that on the second profile.
func madeSweep(whole bool) sweep.File {
	file := sweep.File{Head: sweep.Head{
		Format: sweep.Format, Version: sweep.FormatVersion, Name: "tables.json", Tables: 26, Cells: 8, Part: sweep.Part{Index: 1, Count: 1},
		Axes: []sweep.Axis{{Name: "batch", Values: []string{"65536"}}, {Name: "device", Values: []string{"a100-80", "h100-80"}}, {Name: "devices", Values: []string{"2", "4", "8", "16"}}},
	}}
	if whole {
		file.Stack, file.Prices = "hugectr", "catalog.csv"
	}
	for i := range file.Cells {
		devices, fast := 2<<(i%4), float64(1+i/4)
		o := sweep.Outcome{Status: sweep.Fits, Cell: sweep.Cell{
			Number: i + 1, Scale: "none", Batch: 65536, Precision: "fp32", CommPrecision: "fp16", ShardingTypes: "all", Engine: "any",
			Device: file.Axes[1].Values[i/4], DevicesPerHost: min(devices, 8), Devices: devices,
		}}
		n := &sweep.Planned{
			Shards: 40, Simulated: (16/float64(devices) + 1) / fast, ErrorPercent: 1.75, Memory: unit.GiB * unit.Bytes(96/devices), Budget: 68 * unit.GiB,
			Warnings: []string{"times are predicted by a model trained on SIMULATED kernels, not on measured ones"},
		}
		n.Predicted, n.Step, n.Binds, n.Lookups = n.Simulated*1.01, n.Simulated, sweep.HBM, n.Simulated-.5
		if devices > 8 {
			n.Binds = sweep.Network
			n.Warnings = append(n.Warnings, "one of\nmany doubts")
		}
		if whole {
			n.Step, n.Whole, n.Dense, n.ErrorPercent = n.Simulated+1, true, 1, 10
		}
		n.SamplesPerSecond = 65536 / n.Step * 1e3
		if whole && i != 5 {
			n.PricePerHour, n.PriceSource = 2*fast*float64(devices), "1 x eight (8 x H100) in here"
			n.PricePerBillion = n.PricePerHour / 3600 / n.SamplesPerSecond * 1e9
		}
		switch {
		case i == 0 || i == 4:
			o.Status, o.Reason, o.Remedy = sweep.Infeasible, `table "large": 3.00 GiB missing`, "try --gpus 4"
		case i == 7 && !whole:
			o.Status, o.Reason = sweep.Impossible, "no network\x1b[31m"
		default:
			o.Plan = n
		}
		file.Outcomes = append(file.Outcomes, o)
	}
	return file
}
