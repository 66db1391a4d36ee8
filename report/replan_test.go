package report_test

import (
	"bytes"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/unit"
)

// replans returns the reports of re-plans: one that keeps the old plan, one that moves, and one
// for lost devices of a TorchRec job.
func replans() []goldenCase {
	return []goldenCase{
		{"replan_keep", func(b *bytes.Buffer) error { return report.Replan(b, kept(), report.Options{}) }},
		{"replan_move", func(b *bytes.Buffer) error { return report.Replan(b, movedOn(), report.Options{}) }},
		{"replan_narrow", func(b *bytes.Buffer) error { return report.Replan(b, movedOn(), report.Options{Width: 80}) }},
		{"replan_lost", func(b *bytes.Buffer) error { return report.Replan(b, afterLoss(), report.Options{AllChanges: true}) }},
		{"replan_json", func(b *bytes.Buffer) error { return report.ReplanJSON(b, afterLoss()) }},
		{"replan_plan", func(b *bytes.Buffer) error {
			moved := movedOn()
			return report.Result(b, moved.Result, report.Options{From: moved})
		}},
	}
}

// curvePoint returns a point that moves some bytes of table t000, half of them between hosts.
func curvePoint(label string, limit unit.Bytes, cost unit.Millis, bytes unit.Bytes, steps int64) replan.Point {
	t := &plan.Transfer{Bytes: bytes, Total: 40 * unit.GiB, Timed: true, Tables: []plan.TableTransfer{}}
	if bytes > 0 {
		t.Inside, t.Between = unit.Millis(bytes)/1e9, unit.Millis(bytes)/1e8
		t.Devices = []plan.DeviceTransfer{{Device: 0, Out: bytes}, {Device: 1, In: bytes / 2}, {Device: 2, In: bytes / 2}}
		t.Tables = append(t.Tables, plan.TableTransfer{Name: "t000", Bytes: bytes, Moves: []plan.Sent{
			{From: 0, To: 1, Bytes: bytes / 2, Link: plan.LinkInside},
			{From: 0, To: 2, Bytes: bytes / 2, Link: plan.LinkBetween},
		}})
	}
	return replan.Point{Label: label, Limit: limit, Cost: cost, Simulated: cost * 1.01, Transfer: t, PaysBack: steps}
}

// replanned returns a re-plan with the chosen point of a curve.
func replanned(chosen int, points ...replan.Point) *replan.Outcome {
	result, _ := result(4, 7)
	r := &replan.Outcome{Verdict: replan.Move, Result: result, Curve: points, Chosen: chosen, Judged: true, Total: 40 * unit.GiB}
	return r
}

func kept() *replan.Outcome {
	old := unit.Millis(4)
	r := replanned(0, curvePoint("keep", 0, old, 0, 0), curvePoint("0", 0, 3.99, 0, 0), curvePoint("free", -1, 3.97, unit.GiB, 400))
	r.Verdict, r.OldCost = replan.Keep, &old
	return r
}

func movedOn() *replan.Outcome {
	old := unit.Millis(4)
	r := replanned(2, curvePoint("keep", 0, old, 0, 0), curvePoint("0", 0, old, 0, 0), curvePoint("1 %", unit.GiB, 3.8, unit.GiB, 4321),
		curvePoint("budget", 2*unit.GiB, 3.8, unit.GiB, 4321), curvePoint("price", -1, 3.8, unit.GiB, 4321), curvePoint("free", -1, 3.79, 30*unit.GiB, -1))
	r.Curve[5].Whole, r.OldCost = true, &old
	return r
}

func afterLoss() *replan.Outcome {
	r := replanned(0, curvePoint("0", unit.GiB, 4, unit.GiB, 0), curvePoint("free", -1, 3.99, 2*unit.GiB, 40))
	r.Unfit = "1 table added, 2 devices lost"
	r.Curve[0].Transfer.Lost, r.Curve[0].Transfer.Added = 3*unit.GiB, unit.MiB
	r.Changes = replan.Changes{Added: []string{"new"}, Removed: []string{"old"}, Resized: []string{"t001"}, Lost: []int{1, 5}}
	r.Changes.Cluster = &plan.Change[plan.Cluster]{Before: r.Result.Plan.Cluster, After: r.Result.Plan.Cluster}
	r.Changes.Cluster.Before.Devices += 2
	r.Reshard = &replan.Reshard{Restart: r.Unfit, Checkpoint: 40 * unit.GiB}
	r.Result.Doubts = r.Doubts()
	return r
}
