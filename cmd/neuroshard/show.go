package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/search"
)

func newShowCommand(a *app) *cobra.Command {
	var asJSON, full, allDevices, tables bool
	var memory, model string
	cmd := &cobra.Command{
		Use:   "show PLAN [TABLES]",
		Short: "Show a plan: what each device holds, and its times",
		Long: `Show a plan: what each device holds, and its times.

A plan file has neither lookups nor accesses of the tables. So instead of the tables
that the critical device reads most, show lists its largest tables by weights. With
TABLES, what was planned (a file, "-" or workload:NAME), it lists those read most.

--tables lists every table on a line of its own: where it lies and, with TABLES, the
cheapest other place for it and what the plan would cost then. While all other tables
stay, it tries the table whole on each other device, its slices alone, cuts into 2, 4,
8, ... equal slices, the other sharding types, and host memory if there is any; above 32
devices, on the 32 that would be the least busy. A negative difference says that the
search missed a cheaper place.`,
		Example: `  neuroshard show plan.json
  neuroshard show plan.json --memory      # the fullest device, line by line
  neuroshard show plan.json --memory=3    # device 3
  neuroshard show plan.json tables.json --tables | grep user_id`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return exactArgs("PLAN")(cmd, args)
		},
		ValidArgsFunction: completeTables(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pl, err := a.readPlan(args[0])
			if err != nil {
				return err
			}
			a.doubt(args[0], pl)
			options := a.reportOptions()
			options.AllDevices, options.Name, options.ListTables = allDevices, args[0], "--tables"
			if options.Full = full || allDevices; !options.Full {
				options.Next = "--full shows all devices and tables"
			}
			if len(args) == 2 {
				l, err := planned(a, pl, args[1], &clusterFlags{set: cmd.Flags()})
				if err != nil {
					return err
				}
				options.Problem = l.problem
			}
			switch {
			case model != "" && (!tables || options.Problem == nil):
				return usagef("usage: neuroshard show PLAN TABLES --tables --model "+model, "show: --model goes with TABLES and --tables")
			case tables:
				other, err := elsewhere(cmd.Context(), a, pl, options.Problem, model)
				if err != nil {
					return err
				}
				return bad(report.Tables(a.stdout, pl, other, options), "")
			case cmd.Flags().Changed("memory"):
				device := report.Fullest(pl)
				if memory != fullest {
					if device, err = strconv.Atoi(memory); err != nil {
						return usagef("write --memory for the fullest device, or --memory=N", "--memory: %q is not the number of a device", memory)
					}
				}
				return bad(report.Memory(a.stdout, pl, device, options), "")
			case asJSON:
				return bad(report.PlanJSON(a.stdout, pl), "")
			}
			return bad(report.Plan(a.stdout, pl, options), "")
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	f.BoolVar(&full, "full", false, "print the whole report: every device, split tables and what found the plan")
	f.BoolVar(&allDevices, "all-devices", false, "list every device, also of large clusters; implies --full")
	f.StringVar(&memory, "memory", "", "show the memory of a `device`, line by line")
	f.Lookup("memory").NoOptDefVal = fullest
	f.BoolVar(&tables, "tables", false, "list every table, on a line of its own; with TABLES also the cheapest other place for it")
	f.StringVar(&model, "model", "", "`folder` of the cost model that the plan was made with, or torchrec (default: the one that ships for the profile, or TorchRec's formulas that the plan names)")
	cmd.MarkFlagsMutuallyExclusive("json", "memory", "tables", "full")
	cmd.MarkFlagsMutuallyExclusive("json", "all-devices")
	completeModel(cmd)
	return cmd
}

// planned reads the tables of a plan, and composes the problem that the plan is for.
func planned(a *app, pl *plan.Plan, source string, flags *clusterFlags) (loaded, error) {
	return plannedFrom(a, pl, source, readParts(a, source, flags), flags)
}

// plannedFrom composes the problem that a plan is for of tables that were read from source.
func plannedFrom(a *app, pl *plan.Plan, source string, parts input.Parts, flags *clusterFlags) (loaded, error) {
	parts.Fallback = clusterOf(pl, flags)
	l, err := composeProblem(a, parts, flags)
	if err != nil {
		return loaded{}, err
	}
	l.countAs(pl)
	if flags.topology != "" {
		keepsPlan(l.problem, pl)
	}
	if err := pl.Validate(l.problem); err != nil {
		return loaded{}, usagef("list what is wrong with: neuroshard validate PLAN TABLES", "the plan is not one of %s: %v", source, firstViolation(err))
	}
	return l, nil
}

// firstViolation returns the first violation of a plan that is not valid.
func firstViolation(err error) error {
	if invalid, ok := errors.AsType[*plan.Invalid](err); ok {
		return errors.New(invalid.Violations[0].String())
	}
	return err
}

// elsewhere computes the cheapest other place of each table, with the model that the plan was
// made with. p is nil if the tables are not given.
func elsewhere(ctx context.Context, a *app, pl *plan.Plan, p *problem.Problem, folder string) (report.Elsewhere, error) {
	if p == nil {
		return report.Elsewhere{Missing: "add what was planned, a file or workload:NAME, after the plan"}, nil
	}
	prices, missing, err := pricesOf(a, pl, p, folder)
	if prices == nil || err != nil {
		return report.Elsewhere{Missing: missing}, err
	}
	options := neuroshard.Options{Prices: prices}
	if pl.Provenance.ModelSource == plan.Measured {
		options.Search.ShardingTypes = search.Columns() // no backend measures the others
	}
	return compared(ctx, pl, p, options)
}

// compared computes the cheapest other place of each table.
func compared(ctx context.Context, pl *plan.Plan, p *problem.Problem, options neuroshard.Options) (report.Elsewhere, error) {
	cost, all, err := neuroshard.Alternatives(ctx, pl, p, options)
	if none := (*neuroshard.Unpriceable)(nil); errors.As(err, &none) {
		return report.Elsewhere{Missing: none.Error()}, nil
	}
	return report.Elsewhere{Cost: cost, Tables: all}, err
}

// pricesOf returns what estimated a plan's cost, or says why that is missing.
func pricesOf(a *app, pl *plan.Plan, p *problem.Problem, folder string) (prices neuroshard.Prices, missing string, err error) {
	by := pl.Provenance
	if by.ModelSource == plan.ClosedForm && (folder == "" || folder == string(problem.TorchRec)) {
		folder = by.Model // the release that the plan was made with
	}
	switch formulas := formulasOf(folder); {
	case formulas != nil:
		return formulas, "", nil
	case folder != "":
		model, err := a.loadModel(folder)
		if err != nil {
			return nil, "", err
		}
		return neuroshard.Trained(model, 0), "", bad(model.FitsProfile(p.Topology), "name the model that the plan was made with")
	case !pl.Priced():
		return nil, "the plan was made without a cost model; name one with --model", nil
	}
	if file, err := pretrained.File(pl.Cluster.Profile); err == nil && file.Manifest.ID == by.Model {
		return neuroshard.Pretrained(), "", nil
	}
	return nil, fmt.Sprintf("the plan was made with the cost model %q, which does not ship; name its folder with --model", by.Model), nil
}

// fullest stands for the device with the most bytes in use.
const fullest = "fullest"
