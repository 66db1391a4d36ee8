package report_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/verify"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/unit"
)

// measurements are the reports of what was measured, of numbers made up.
func measurements() []goldenCase {
	plain, colour := report.Options{}, report.Options{Colour: true}
	show := func(name string, opt report.Options, change func(*dataset.Dataset, *report.DatasetInfo)) goldenCase {
		return goldenCase{name, func(b *bytes.Buffer) error {
			set := measuredDataset()
			var info report.DatasetInfo
			change(&set, &info)
			folder, seconds, realised := info.Folder, info.Seconds, info.Realised
			info = report.DatasetSummary(set)
			info.Folder, info.Seconds, info.Realised = folder, seconds, realised
			return report.Dataset(b, info, opt)
		}}
	}
	return []goldenCase{
		show("dataset", plain, func(_ *dataset.Dataset, i *report.DatasetInfo) {
			i.Folder, i.Seconds = "samples", 1234.5
			i.Realised = &report.RealisedInfo{Tables: 1234, Mean: .125, Max: 4.9}
		}),
		show("dataset_simulated", plain, func(set *dataset.Dataset, i *report.DatasetInfo) {
			i.Folder = "samples"
			by := dataset.Provenance{Source: dataset.Simulated, Profile: "a100-80", Backend: "simulated device, version 1", Seed: 3}
			set.Compute.Provenance, set.Comm.Provenance = by, by
			set.Compute.Repeats, set.Compute.Anchors = nil, nil
			for k := range set.Compute.Samples {
				g := &set.Compute.Samples[k]
				g.Quarantined, g.ForwardSpread, g.BackwardSpread = false, 0, 0
			}
			set.Comm.Samples[0].Quarantined = false
		}),
		show("dataset_mixed", plain, func(set *dataset.Dataset, _ *report.DatasetInfo) {
			set.Comm.Provenance = dataset.Provenance{Source: dataset.Simulated, Profile: "my-cpu", Backend: "simulated device, version 1", Seed: 3}
		}),
		show("dataset_hostile", plain, func(set *dataset.Dataset, i *report.DatasetInfo) {
			i.Folder = "my \x1b[2J samples"
			by := &set.Compute.Provenance
			by.Device, by.Kernel, by.Clocks, by.Lookups = "dev\x1b[31mice", "kernel\nquarantine   none", "\x9b2J", "log\x07.csv"
			set.Comm.Provenance = *by
		}),

		{"ceilings", func(b *bytes.Buffer) error {
			return report.Ceilings(b, measuredDataset().Compute.Provenance, map[string]float64{
				"copy_gbps": 23.456, "gather_gbps": 4.5678, "sort_mkeys": 123.456, "alltoall_us": 1e-3, "clock_ghz": 3,
			}, plain)
		}},
		{"ceilings_hostile", func(b *bytes.Buffer) error {
			return report.Ceilings(b, dataset.Provenance{Device: "dev\x1b[31mice", Kernel: "ker\nnel"}, map[string]float64{"copy\x1b[2J": 1, "": 2}, colour)
		}},

		{"verify", func(b *bytes.Buffer) error {
			return report.Verify(b, verifiedPlan(), report.Options{Name: "plan.json"})
		}},
		{"verify_json", func(b *bytes.Buffer) error { return report.VerifyJSON(b, verifiedPlan()) }},
		{"verify_simulated", func(b *bytes.Buffer) error {
			r := verifiedPlan()
			r.Provenance = dataset.Provenance{Source: dataset.Simulated, Profile: "a100-80", Backend: "simulated device, version 1"}
			r.Costs, r.Spread = r.Costs[:1], 0
			return report.Verify(b, r, plain)
		}},
		{"verify_no_comm", func(b *bytes.Buffer) error { return report.Verify(b, withoutComm(), plain) }},
		{"verify_no_comm_json", func(b *bytes.Buffer) error { return report.VerifyJSON(b, withoutComm()) }},
		{"verify_hostile", func(b *bytes.Buffer) error {
			r := withoutComm()
			r.Provenance.Device, r.Provenance.Kernel, r.CommMissing = "dev\x1b[31mice", "ker\nnel", "one GPU\x1b[2J\nonly"
			return report.Verify(b, r, report.Options{Name: "plan\x1b[2J.json"})
		}},

		{"verified", func(b *bytes.Buffer) error { return report.Verified(b, verifiedPlans(), plain) }},
		{"verified_hostile", func(b *bytes.Buffer) error {
			c := verifiedPlans()
			c.Method, c.Methods[0].Method = "neuro\x1b[2Jshard", "neuro\x1b[2Jshard"
			return report.Verified(b, c, plain)
		}},

		{"trace", func(b *bytes.Buffer) error {
			return report.Trace(b, report.NewTraceInfo("fbgemm_t856.pt.gz", "tables.json", tracedTables(7), 65536, nil), plain)
		}},
		{"trace_warnings", func(b *bytes.Buffer) error {
			warnings := []string{"table 3: no lookups", "table\x1b[31m 4:\nno lookups", "table 5: no lookups", "table 6: no lookups", "table 7: no lookups"}
			return report.Trace(b, report.NewTraceInfo("log.csv", "tables.json", tracedTables(2), 1, warnings), colour)
		}},
		{"trace_hostile", func(b *bytes.Buffer) error {
			tables := tracedTables(1)
			tables[0].Name = "t\x1b[2J able"
			return report.Trace(b, report.NewTraceInfo("my log.csv", "out\n.json", tables, 100, nil), plain)
		}},
	}
}

// measuredDataset is of a small machine, with a sample and an exchange that were
// set aside.
func measuredDataset() dataset.Dataset {
	by := dataset.Provenance{
		Source: dataset.Measured, Profile: "my-cpu", Backend: "neuroshard cpu meter, version 1", Seed: 7, Design: "0123", Tool: "1.2.3",
		Device: "EPYC 9654, 2 threads", Kernel: "neuroshard engine 1 avx2", Clocks: "not told by the system", Threads: 2,
		Cache: "flushed 256MiB", Warmup: 1, Repeats: 5,
	}
	compute := &dataset.Compute{Provenance: by, Tables: make([]problem.Table, 1200)}
	for i := range 1500 {
		time := unit.Millis(i%10 + 1)
		compute.Samples = append(compute.Samples, dataset.Group{ID: i, Forward: time, Backward: 3 * time, ForwardSpread: .01, BackwardSpread: .02, Quarantined: i == 3})
	}
	// Off by 5 %, by 10 %, and not at all; the sample of the last was set aside.
	compute.Repeats = []dataset.Repeat{
		{ID: 9, Forward: 10.5, Backward: 31.5},
		{ID: 0, Forward: .9, Backward: 2.7},
		{ID: 1, Forward: 2, Backward: 6},
		{ID: 3, Forward: 400, Backward: 1200},
	}
	compute.Anchors = []dataset.Anchor{{Forward: 1, Backward: 3}, {After: 200, Forward: 1.02, Backward: 3.06}, {After: 400, Forward: 1, Backward: 3}}
	comm := &dataset.Comm{Provenance: by, Samples: []dataset.Exchange{{Quarantined: true}, {ID: 1}}}
	return dataset.Dataset{Compute: compute, Comm: comm}
}

func verifiedPlan() *verify.Result {
	return &verify.Result{
		Devices: []verify.Device{
			{
				Shards: 12, DimSum: 1536, Spread: .125,
				Predicted: plan.StepTimes{Forward: 1, ForwardComm: 2, BackwardComm: .5, Backward: 3},
				Measured:  plan.StepTimes{Forward: 1.25, ForwardComm: 2, BackwardComm: .5, Backward: 3.5},
			},
			{
				Shards: 1, DimSum: 64, Spread: .25,
				Predicted: plan.StepTimes{Forward: .5, ForwardComm: 4.25, BackwardComm: .5, Backward: 1},
				Measured:  plan.StepTimes{Forward: .5, ForwardComm: 3.75, BackwardComm: .5, Backward: 1.25},
			},
		},
		Predicted: 6.5, Measured: 7.25, Costs: []unit.Millis{7.25, 7, 7.5}, Spread: .5, CommMeasured: true,
		Provenance: measuredDataset().Compute.Provenance,
	}
}

// withoutComm is what a single GPU can measure of a plan.
func withoutComm() *verify.Result {
	r := verifiedPlan()
	r.CommMeasured, r.CommMissing, r.Predicted, r.Measured = false, "one GPU has nobody to exchange <with>", 4, 4.75
	for i := range r.Devices {
		r.Devices[i].Measured.ForwardComm, r.Devices[i].Measured.BackwardComm = 0, 0
	}
	return r
}

func verifiedPlans() *verify.Comparison {
	return &verify.Comparison{
		Plans: 62, Tasks: 1, Tau: .98765, TaskTau: .87654, MeanError: .0512, P95Error: .1345, Noise: .0213, Method: "neuroshard",
		Methods: []verify.MethodCost{
			{Method: "neuroshard", Tasks: 20, Mean: 12.3456, Ratio: 1, PValue: 1},
			{Method: "paper", Tasks: 19, Mean: 13.25, Ratio: .95678, Wins: 15, Losses: 4, PValue: .0123},
			{Method: "random", Tasks: 20, Mean: 130, Ratio: .1, Wins: 20},
		},
		Best: verify.MethodCost{Tasks: 20, Mean: 13, Ratio: .97, Wins: 14, Losses: 5, PValue: .0123},
	}
}

// tracedTables have lookups that rise and fall with their number.
func tracedTables(n int) []problem.Table {
	var all []problem.Table
	for i := range n {
		pooling := float64(i*5%7) + .25
		all = append(all, problem.Table{
			Name: fmt.Sprintf("t%d", i), Rows: int64(1000 * (i + 1)), Dim: 64,
			Features: []problem.Feature{{PoolingFactor: pooling, LengthCV: float64(i) / 8}},
			Access:   access.Distribution{Kind: access.Histogram, UniqueRows: 100*float64(i) + .6, Reuse: [access.Classes]float64{.75, .25}},
		})
	}
	return all
}

// Whatever a worker or a file calls itself, a report has no control characters
// but line ends, and no lines that it did not begin.
func TestHostileNamesStayInTheirLines(t *testing.T) {
	lines := map[string]int{}
	for _, c := range append(measurements(), judgements()...) {
		var b bytes.Buffer
		must.Do(t, c.write(&b))
		text := b.String()
		lines[c.name] = strings.Count(text, "\n")
		for _, mark := range []string{"\x1b[1m", "\x1b[33m", "\x1b[0m"} { // of Options.Colour
			if strings.Contains(c.name, "colour") || c.name == "trace_warnings" || c.name == "ceilings_hostile" {
				text = strings.ReplaceAll(text, mark, "")
			}
		}
		if i := strings.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 }); i >= 0 {
			t.Errorf("%s: got a control character in %q", c.name, text[max(0, i-20):min(len(text), i+20)])
		}
	}
	for hostile, plain := range map[string]string{"verify_hostile": "verify_no_comm", "verified_hostile": "verified", "accuracy_mixed": "accuracy_measured"} {
		more := 0
		if hostile == "accuracy_mixed" {
			more = 1 // the line of the all-to-alls
		}
		if lines[hostile] != lines[plain]+more {
			t.Errorf("%s: got %d lines, want %d", hostile, lines[hostile], lines[plain]+more)
		}
	}
}

// Simulated times say so in every report of them, and measured ones never do.
func TestReportsSayWhatIsSimulated(t *testing.T) {
	for _, c := range append(measurements(), judgements()...) {
		var b bytes.Buffer
		must.Do(t, c.write(&b))
		mixed := strings.Contains(c.name, "mixed")
		simulated := mixed || strings.HasSuffix(c.name, "simulated") || c.name == "accuracy" || c.name == "comparison_colour"
		if got := strings.Contains(b.String(), "SIMULATED"); got != simulated {
			t.Errorf("%s: SIMULATED in it is %v, want %v:\n%s", c.name, got, simulated, b.String())
		}
	}
}
