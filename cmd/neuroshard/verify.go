package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/lab/verify"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/report"
)

func newVerifyCommand(a *app) *cobra.Command {
	var (
		backend   backendFlags
		flags     clusterFlags
		runs      int
		asJSON    bool
		anyDevice bool
	)
	cmd := &cobra.Command{
		Use:   "verify PLAN TABLES --backend cpu|worker|simulated",
		Short: "Run a plan on a backend, and compare measured with predicted times",
		Long: `Run a plan: the shards of each device as fused lookups, one device after the other,
and then the all-to-alls with the start times that follow. The measured times are
printed beside those that the plan predicts.

TABLES is what was planned: a file, "-" or workload:NAME, since a plan holds
neither lookups nor accesses. The backend is as in collect; it must be of the
device that the plan is for, unless any_device says otherwise.

A backend can run tables that are whole or cut by columns, in the devices' memory. The
option --types table_wise,column_wise makes plan find such a plan.`,
		Example: `  neuroshard lab verify plan.json tables.json --backend cpu
  neuroshard lab verify plan.json tables.json --backend worker --worker "torchrun --nproc-per-node 8 -m neuroshard_worker"
  neuroshard lab verify plan.json tables.json --backend simulated --gpu a100-80`,
		Args:              exactArgs("PLAN", "TABLES"),
		ValidArgsFunction: completeTables(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if runs < 1 || runs > mostRuns {
				return usagef("", "verify: runs %d is not between 1 and %d", runs, mostRuns)
			}
			pl, err := a.readPlan(args[0])
			if err != nil {
				return err
			}
			if err := verify.Measurable(pl); err != nil {
				return usagef("plan with --types table_wise,column_wise and without host memory", "%s: it cannot be run on a backend: %w", args[0], err)
			}
			if !pl.Priced() {
				return usagef("convert it with --tables, which estimates its cost", "%s: no model estimated the cost of the plan: there is nothing to compare with", args[0])
			}
			if backend.profile == "" && backend.name != backendCPU {
				backend.profile = pl.Cluster.Profile
			}
			if err := backend.check("verify"); err != nil {
				return err
			}
			own := clusterOf(pl, &flags)
			loaded, err := loadProblem(a, args[1], &flags, own)
			if err != nil {
				return err
			}
			if err := pl.Validate(loaded.problem); err != nil {
				return bad(fmt.Errorf("%s: %w", args[0], err), "give the tables that were planned; neuroshard check lists what differs")
			}
			return runVerify(cmd.Context(), a, verification{
				name: args[0], plan: pl, problem: loaded.problem, backend: &backend, runs: runs, anyDevice: anyDevice, json: asJSON,
			})
		},
	}
	backend.register(cmd)
	f := cmd.Flags()
	f.IntVar(&runs, "runs", 3, "runs of the whole plan; its cost is their median")
	f.BoolVar(&anyDevice, "any-device", false, "allow a backend with another device than the plan's")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	flags.set = f
	return cmd
}

// verification is a plan to be run.
type verification struct {
	name      string
	plan      *plan.Plan
	problem   *problem.Problem
	backend   *backendFlags
	runs      int
	anyDevice bool
	json      bool
}

func runVerify(ctx context.Context, a *app, v verification) error {
	bar := a.newProgressBar()
	defer bar.clear()
	bar.phase("starting the backend")
	if !hardware.Known(v.plan.Cluster.Profile) && v.backend.profile == "" {
		v.backend.profile = v.plan.Cluster.Profile
	}
	v.backend.network = v.problem.Topology.NetworkBandwidth
	backend, err := v.backend.start(ctx, false, a.stderr)
	if err != nil {
		return err
	}
	defer backend.Close()
	if of := backend.Provenance().Profile; of != v.plan.Cluster.Profile && !v.anyDevice {
		return usagef("plan for the device that is measured, or add any_device", "verify: the plan is for %q, and the backend's device is %q", v.plan.Cluster.Profile, of)
	}
	result, err := verify.Plan(ctx, v.problem, v.plan.ByDevice(), v.plan.Breakdown(), backend, verify.Options{
		Repeats: v.runs, Fastest: v.backend.fastest, OnProgress: func(done, of int) { bar.at(done, of, "running the plan") },
	})
	bar.clear()
	if err != nil && ctx.Err() == nil {
		err = bad(err, measuringHint(err))
	}
	if err != nil {
		return err
	}
	if v.json {
		return bad(report.VerifyJSON(a.stdout, result), "")
	}
	o := a.reportOptions()
	o.Name = v.name
	return bad(report.Verify(a.stdout, result, o), "")
}
