package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/step"
)

// showCommand has the flags of show.
type showCommand struct {
	pageCommand
	json, full, tablesToo bool
	memory                string
}

func newShowCommand(a *app) *cobra.Command {
	s := showCommand{pageCommand: pageCommand{app: a}}
	cmd := &cobra.Command{
		Use:   "show PLAN",
		Short: "Show a plan, a re-plan or a sweep, as text or as a page for the browser",
		Long: `Show a plan: what each GPU holds, and its times. PLAN is a plan file, what replan --json
printed, or the file of a sweep. With -o it is a page for the browser: one file that you
can send by mail.

A plan file has neither lookups nor accesses of its tables. --tables names what was planned;
show then has the tables that are read most and, with a dense part or a measured step
(--set dense=..., --set step=..., or both in a --cluster file), the whole training step; a
page also has the lower bound and the gain over simple methods. --all-tables lists every table on a line, with the cheapest other place for
it; a negative difference says that the search missed a cheaper place.`,
		Example: `  neuroshard show plan.json
  neuroshard show plan.json --memory=3    # GPU 3; without a number the fullest
  neuroshard show plan.json --tables tables.json -o plan.html
  neuroshard show plan.json --tables tables.json --set dense=mlperf-dlrm-dcnv2 --set price=2.95`,
		Args: exactArgs("PLAN"),
		RunE: func(cmd *cobra.Command, args []string) error { return s.run(cmd, args) },
	}
	f := cmd.Flags()
	s.register(cmd)
	f.StringVar(&s.cluster.topology, "cluster", "", "read the dense part and the training system from this YAML or JSON `file` of a cluster")
	f.BoolVar(&s.json, "json", false, "print one JSON object")
	f.BoolVar(&s.full, "full", false, "report everything, on every device")
	f.StringVar(&s.memory, "memory", "", "show the memory of a `device`, line by line")
	f.Lookup("memory").NoOptDefVal = fullest
	f.BoolVar(&s.tablesToo, "all-tables", false, "list every table, on a line of its own; with --tables also the cheapest other place for it")
	cmd.MarkFlagsMutuallyExclusive("json", "memory", "all-tables", "output")
	cmd.MarkFlagsMutuallyExclusive("json", "full")
	cmd.MarkFlagsMutuallyExclusive("full", "output")
	return cmd
}

func (s *showCommand) run(cmd *cobra.Command, args []string) error {
	if err := s.check("show", args); err != nil {
		return err
	}
	file, err := s.readShown(args[0])
	if err != nil {
		return err
	}
	if file.sweep != nil {
		var f faults
		cmd.Flags().Visit(func(flag *pflag.Flag) {
			f.add(!slices.Contains([]string{"json", "output", "set"}, flag.Name), "leave it out", "%s: %s is for a plan, and this is a sweep", args[0], keyOf(flag.Name))
		})
		if err := f.err(); err != nil {
			return err
		}
	}
	switch {
	case s.output != "":
		return s.write(cmd.Context(), []viewed{file})
	case file.sweep == nil:
		return s.plan(cmd, args[0], file.plan)
	case s.json:
		return bad(s.printJSON(file.sweep), "")
	}
	return bad(report.Sweep(s.stdout, file.sweep, s.reportOptions()), "")
}

// plan shows a plan, which was read from name, as text or JSON.
func (s *showCommand) plan(cmd *cobra.Command, name string, pl *plan.Plan) error {
	s.doubt(name, pl)
	options := s.reportOptions()
	options.AllDevices, options.Full, options.Name, options.ListTables = s.full, s.full, name, "--all-tables"
	if !s.full {
		options.Next = "--full shows all devices and tables"
	}
	var step *step.Input
	var warnings []string
	if source := s.source(pl); source == "" && len(s.cluster.stated) > 0 {
		return usagef("name what was planned, a file or workload:NAME, with --tables", "%s: the tables are not those of a published workload, and a plan file does not have their lookups", name)
	} else if source != "" {
		l, err := planned(s.app, pl, source, &s.cluster)
		if err != nil {
			return err
		}
		options.Problem, step, warnings = l.problem, l.step, l.warnings
	}
	switch {
	case s.model != "" && !s.tablesToo:
		return usagef("add --all-tables, or write a page with -o", "show: --model goes with --all-tables")
	case s.tablesToo:
		other, err := elsewhere(cmd.Context(), s.app, pl, options.Problem, s.model)
		if err != nil {
			return err
		}
		return bad(report.Tables(s.stdout, pl, other, options), "")
	case cmd.Flags().Changed("memory"):
		device, err := s.device(pl)
		if err != nil {
			return err
		}
		return bad(report.Memory(s.stdout, pl, device, options), "")
	case step == nil && len(s.cluster.stated) > 0:
		return usagef("add --set dense=NAME or --set step=TIME", "show: neither a dense part nor a measured step is stated")
	case step != nil:
		return s.step(cmd.Context(), pl, options, *step, warnings)
	case s.json:
		return bad(report.PlanJSON(s.stdout, pl), "")
	}
	return bad(report.Plan(s.stdout, pl, options), "")
}

// device returns the device whose memory is asked for.
func (s *showCommand) device(pl *plan.Plan) (int, error) {
	if s.memory == fullest {
		return report.Fullest(pl), nil
	}
	device, err := strconv.Atoi(s.memory)
	if err != nil {
		return 0, usagef("write --memory for the fullest device, or --memory=N", "--memory: %q is not the number of a device", s.memory)
	}
	return device, nil
}

// source returns what was planned: --tables or, for the whole step, the published workload of the plan.
func (s *showCommand) source(pl *plan.Plan) string {
	if s.tables == "" && (s.cluster.topology != "" || len(s.cluster.stated) > 0) {
		return publishedAs(pl)
	}
	return s.tables
}

// step prints the whole training step of a plan.
func (s *showCommand) step(ctx context.Context, pl *plan.Plan, options report.Options, in step.Input, warnings []string) error {
	whole, err := neuroshard.PriceStep(options.Problem, pl.ByDevice(), in)
	if err != nil {
		return stepError(err)
	}
	// Without an estimate of the problem there is nothing to compare with.
	if size, err := neuroshard.Plan(ctx, options.Problem, neuroshard.Options{Step: &whole.Input, Search: search.Options{Method: search.Size, Brief: true}}); err == nil {
		whole.Size = &size.Step.Times
	}
	if s.json {
		return bad(report.StepJSON(s.stdout, whole, warnings), "")
	}
	return bad(report.Step(s.stdout, pl, whole, warnings, options), "")
}

// planned reads the tables of a plan, and composes the problem that the plan is for.
func planned(a *app, pl *plan.Plan, source string, flags *clusterFlags) (loaded, error) {
	flags.planned = pl
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
		return loaded{}, usagef("list what is wrong with: neuroshard check PLAN TABLES", "the plan is not one of %s: %v", source, firstViolation(err))
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
		return report.Elsewhere{Missing: "add --tables with what was planned, a file or workload:NAME"}, nil
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
