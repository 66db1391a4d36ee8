package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/lab/sweep"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/report/page"
)

func newReportCommand(a *app) *cobra.Command {
	r := reportCommand{app: a}
	cmd := &cobra.Command{
		Use:   "report [PLAN [PLAN2]]",
		Short: "Write plans as a page for the browser: one file that needs no network",
		Long: `Write plans as a page for the browser: one HTML file that needs no network, so that you
can send it by mail or attach it to a ticket.

The page shows which device holds which parts of which tables, the step of each device with
its waits, memory against capacity, the critical device and why it is critical, every table,
the warnings, and how the plan was made. With two plans the page compares them, and shows
the bytes that move from the first plan to the second. Costs of the simulated device are
labelled SIMULATED.

A plan file does not state the lookups of its tables. With --tables, which names the tables
that were planned, the page also has the SIMULATED cost, the lower bound of all plans, the
times of single tables, and the cheapest other place of each table. If the tables are those
of a published workload, report finds them without --tables. If the number of tables times
the number of devices is above 2,000,000, report computes the cheapest other place only for
the tables on the critical device and for the 100 largest tables, because all tables would
take many seconds; --alternatives all computes it for every table.

--replan adds the curve of a re-plan, from the output of replan --json. This output has the
new plan, so PLAN is the old plan, or can be left out. --sweep adds a sweep, from the file
that sweep --output wrote, and needs no PLAN.`,
		Example: `  neuroshard report plan.json --tables tables.json -o plan.html
  neuroshard report before.json after.json --tables tables.json -o change.html
  neuroshard report old.json --replan replan.json -o replan.html
  neuroshard report --sweep sweep.jsonl -o sweep.html`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 2 {
				return exactArgs("PLAN", "PLAN2")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args) },
	}
	f := cmd.Flags()
	r.cluster.set = f
	r.cluster.step.register(cmd, &r.cluster)
	f.StringVar(&r.tables, "tables", "", "the tables that were planned: a `file`, \"-\" or workload:NAME")
	f.StringVar(&r.model, "model", "", "`folder` of the cost model that the plan was made with, or torchrec (default: the one that ships for the profile, or TorchRec's formulas that the plan names)")
	f.StringVar(&r.alternatives, "alternatives", "", "`tables` whose cheapest other place is computed: all, critical (those on the critical device, and the largest tables) or none (default: all, and critical for large plans)")
	f.StringArrayVar(&r.compared.given, "compare-plan", nil, "`NAME=FILE`: list a plan that another planner made among the baselines of the page, as in plan; may be repeated")
	f.StringVar(&r.replan, "replan", "", "`file` with the output of replan --json: adds its curve, and its plan")
	f.StringVar(&r.sweep, "sweep", "", "`file` that sweep --output wrote: adds its table and its plot")
	f.StringVarP(&r.output, "output", "o", "", "`file` to write the page to; - is standard output")
	complete(cmd, "alternatives", explainedNames)
	completeModel(cmd)
	return cmd
}

// reportCommand has the flags of report.
type reportCommand struct {
	*app
	cluster clusterFlags

	tables, model, alternatives, replan, sweep, output string
	compared                                           comparedPlans
}

// onPage is a plan to show, with the name that the page gives it.
type onPage struct {
	name string
	plan *plan.Plan
}

func (r *reportCommand) run(ctx context.Context, args []string) error {
	if err := r.check(args); err != nil {
		return err
	}
	var parts input.Parts
	if r.tables != "" {
		parts = readParts(r.app, r.tables, &r.cluster)
	}
	plans, d, err := r.read(args)
	if err != nil {
		return input.Join(err, parts.TablesErr)
	}
	inputs, err := r.inputs(ctx, plans, parts)
	if err != nil {
		return err
	}
	if err := r.judge(ctx, inputs); err != nil {
		return err
	}
	d.Tool, d.Title = neuroshard.Version, title(plans, r.sweep)
	d.Plans = []page.Plan{}
	for _, in := range inputs {
		one, err := page.New(*in)
		if err != nil {
			return bad(fmt.Errorf("%s: %w", in.Name, err), "list what is wrong with: neuroshard validate PLAN TABLES")
		}
		d.Plans = append(d.Plans, one)
	}
	if len(inputs) == 2 {
		d.Changes = page.Compare(formatted(inputs[0]), formatted(inputs[1]))
	}
	var text bytes.Buffer
	if err := page.Write(&text, d); err != nil {
		return err
	}
	return r.writeOut(r.output, text.Bytes())
}

// explainedNames are the values of --alternatives.
func explainedNames() []string {
	return []string{string(page.ExplainAll), string(page.ExplainCritical), string(page.ExplainNone)}
}

// check reports everything that is wrong with the command line.
func (r *reportCommand) check(args []string) error {
	var f faults
	noPlan := len(args) == 0 && r.replan == ""
	f.add(noPlan && r.sweep == "", "name a plan file, a re-plan (--replan FILE) or a sweep (--sweep FILE)", "report: PLAN is missing")
	f.add(noPlan && r.sweep != "" && r.tables != "", "name a plan of these tables, or leave --tables out", "--tables: no plan is named")
	if r.tables == "" {
		for _, name := range []string{"model", "alternatives", "compare-plan", "dense", "stack", "step", "step-plan", "loader", "price"} {
			f.add(r.cluster.set.Changed(name), "add --tables with the tables that were planned, a file or workload:NAME", "--%s needs --tables", name)
		}
	}
	f.add(r.alternatives != "" && !slices.Contains(explainedNames(), r.alternatives), "", "--alternatives: %q is none of %s", r.alternatives, strings.Join(explainedNames(), ", "))
	if r.model != "" && formulasOf(r.model) == nil {
		_, err := r.loadModel(r.model)
		f = append(f, asInput(err))
	}
	_, terminal := r.env.terminal(r.stdout.to)
	f.add(toStandardOutput(r.output) && terminal, "name a file: -o plan.html, and open it in a browser", "report: a page is not for a terminal")
	f = append(f, r.compared.load(r.app))
	files := append(append(slices.Clone(args), r.compared.files...), r.tables, r.replan, r.sweep, r.model, r.cluster.stated["dense"], r.cluster.stated["stack"], r.cluster.step.with)
	return f.err(r.checkOutput(r.output, files...))
}

// read reads the plans, the re-plan and the sweep, and reports the errors of all of them.
func (r *reportCommand) read(args []string) ([]onPage, *page.Document, error) {
	var errs []error
	var plans []onPage
	d := &page.Document{}
	for _, path := range args {
		pl, err := r.readPlan(path)
		if err != nil {
			errs = append(errs, asInput(err))
			continue
		}
		if path == standardOutput {
			path = "standard input"
		}
		plans = append(plans, onPage{path, pl})
	}
	replanned, found, err := r.readReplan()
	if err != nil {
		errs = append(errs, err)
	}
	results, err := r.readSweep()
	if err != nil {
		errs = append(errs, err)
	}
	if err := input.Join(errs...); err != nil {
		return nil, nil, err
	}
	if results != nil {
		d.Sweep = page.NewSweep(results)
	}
	if found != nil {
		d.Replan = replanned
		if plans, err = withReplanned(plans, onPage{r.replan, found}); err != nil {
			return nil, nil, err
		}
	}
	for _, one := range plans {
		if name, twice := doubled(one.plan); twice && len(plans) > 1 {
			errs = append(errs, faulty(fmt.Sprintf("%s: table %q is listed twice", one.name, name), "neuroshard validate says what else is wrong with the plan"))
		}
	}
	return plans, d, input.Join(errs...)
}

// withReplanned adds the plan of a re-plan behind the old plan, unless it is the last of the
// plans.
func withReplanned(plans []onPage, found onPage) ([]onPage, error) {
	if n := len(plans); n > 0 {
		last := plans[n-1].plan
		if last.Predicted == found.plan.Predicted && report.Same(plan.Diff(last, found.plan)) {
			return plans, nil
		}
	}
	if len(plans) == 2 {
		return nil, faulty(fmt.Sprintf("--replan: the plan of %s is not %s", found.name, plans[1].name), "name the old plan alone: the file has the new one")
	}
	return append(plans, found), nil
}

// readReplan reads the file of --replan, and its plan; nil without it.
func (r *reportCommand) readReplan() (*report.ReplanObject, *plan.Plan, error) {
	if r.replan == "" {
		return nil, nil, nil
	}
	const hint = "write it with: neuroshard replan OLD TABLES --json"
	name, file, err := r.openOr(r.replan, hint)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	found, pl, err := report.ReadReplan(file)
	if err != nil {
		return nil, nil, faulty(fmt.Sprintf("%s: %v", name, err), hint)
	}
	return found, pl, nil
}

// readSweep reads the file of --sweep; nil without it.
func (r *reportCommand) readSweep() (*sweep.Results, error) {
	if r.sweep == "" {
		return nil, nil
	}
	const hint = "write it with: neuroshard sweep TABLES -o sweep.jsonl"
	name, file, err := r.openOr(r.sweep, hint)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	read, err := sweep.Read(name, file)
	if err != nil {
		return nil, faulty(err.Error(), hint)
	}
	return sweep.NewResults(*read, ""), nil
}

// inputs adds the problems of the plans, where they are known. If there are two plans, one of them
// may have other tables than --tables names.
func (r *reportCommand) inputs(ctx context.Context, plans []onPage, parts input.Parts) ([]*page.Input, error) {
	var all []*page.Input
	var others []error
	for _, one := range plans {
		in := &page.Input{Name: one.name, Plan: one.plan}
		all = append(all, in)
		if r.tables == "" {
			r.published(in)
			continue
		}
		err := r.planned(ctx, in, parts)
		if read := (*input.Errors)(nil); errors.As(err, &read) {
			return nil, err
		}
		if err != nil {
			others = append(others, asInput(err))
			in.Missing = append(in.Missing, fmt.Sprintf("%s is not a plan of %s, so the page has no SIMULATED cost, no lower bound, no times of tables and no alternatives of it", one.name, r.tables))
		}
	}
	if len(plans) > 0 && len(others) == len(plans) {
		return nil, input.Join(others...)
	}
	return all, nil
}

// planned adds the problem of a plan, and its whole step if flags state one.
func (r *reportCommand) planned(ctx context.Context, in *page.Input, parts input.Parts) error {
	l, err := plannedFrom(r.app, in.Plan, r.tables, parts, &r.cluster)
	if err != nil {
		return err
	}
	in.Problem, in.Warnings = l.problem, l.warnings
	if l.step == nil {
		return nil
	}
	in.Step, err = neuroshard.PriceStep(l.problem, in.Plan.ByDevice(), *l.step)
	return stepError(err)
}

// published adds the problem of a plan that was made for a published workload: the digest of
// the plan's input shows whether it was.
func (r *reportCommand) published(in *page.Input) {
	if in.Problem = publishedProblem(in.Plan); in.Problem == nil {
		in.Missing = append(in.Missing, "the plan file does not state the lookups of its tables, so the page has no SIMULATED cost, no lower bound, no times of tables and no alternatives: add --tables with the tables that were planned")
	}
}

// publishedProblem returns the problem of a published workload that has the digest of the
// plan's input and for which the plan is valid, or nil.
func publishedProblem(pl *plan.Plan) *problem.Problem {
	source := publishedAs(pl)
	if source == "" {
		return nil
	}
	w, err := workload.ByName(source)
	if err != nil {
		return nil
	}
	p := w.Problem()
	c := pl.Cluster
	p.Topology = clusterOf(pl, &clusterFlags{set: &pflag.FlagSet{}}).Topology
	p.Batch, p.CommPrecision, p.Engine, p.LaneRule = c.Batch, c.CommPrecision, c.Engine, c.LaneRule
	if !pl.MadeFrom(&p) || pl.Validate(&p) != nil {
		return nil
	}
	return &p
}

// judge computes the costs and alternatives of the plans whose problems are known.
func (r *reportCommand) judge(ctx context.Context, inputs []*page.Input) error {
	bar := r.newProgressBar()
	defer bar.clear()
	progress := newPlanProgress(r.app, bar)
	for _, in := range inputs {
		if in.Problem == nil {
			continue
		}
		if err := r.compared.check(in.Problem); err != nil {
			return err
		}
		prices, missing, err := pricesOf(r.app, in.Plan, in.Problem, r.model)
		if err != nil {
			return err
		}
		if prices == nil {
			in.Missing = append(in.Missing, "without costs and alternatives: "+missing)
			continue
		}
		err = page.Judge(ctx, in, page.Judgement{Prices: prices, Compared: r.compared.read, Explained: page.Explained(r.alternatives), OnStep: func(what string, done, of int) {
			if !progress.shown() {
				return
			}
			if of > 0 {
				bar.at(done, of, what)
			} else {
				bar.phase(what)
			}
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

// formatted returns a plan whose tables state their number formats, as far as they are known, so
// that moved bytes can be counted.
func formatted(in *page.Input) *plan.Plan {
	if in.Problem == nil {
		return in.Plan
	}
	return in.Plan.Stated(in.Problem)
}

// title names what the page shows.
func title(plans []onPage, sweep string) string {
	var names []string
	for _, one := range plans {
		names = append(names, one.name)
	}
	if sweep != "" {
		names = append(names, sweep)
	}
	return strings.Join(names, ", ")
}
