package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/manual"
	"github.com/neuroshard/neuroshard/lab/sweep"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/report/page"
)

// pageCommand has the flags of show and diff, which write pages for the browser.
type pageCommand struct {
	*app
	cluster clusterFlags

	tables, model, alternatives, output string
	compared                            comparedPlans
}

func (r *pageCommand) register(cmd *cobra.Command) {
	f := cmd.Flags()
	r.cluster.set = f
	r.cluster.step.register(cmd, &r.cluster)
	f.StringVar(&r.tables, "tables", "", "the tables that were planned: a `file`, \"-\" or workload:NAME")
	f.StringVar(&r.model, "model", "", "`folder` of the cost model that the plan was made with, or torchrec (default: the one that ships for the profile, or TorchRec's formulas that the plan names)")
	inSection := manual.Section(f, pageSection)
	f.StringVar(&r.alternatives, "alternatives", "", "`tables` of a page whose cheapest other place is computed: all, critical (those on the critical device, and the largest tables) or none (default: all, and critical for large plans)")
	f.StringArrayVar(&r.compared.given, "compare-plan", nil, "`NAME=FILE`: list a plan that another planner made among the baselines of a page, as in plan; may be repeated")
	inSection()
	f.StringVarP(&r.output, "output", "o", "", "write a page for the browser to this `file`: one that needs no network; - is standard output")
	completeModel(cmd)
}

// onPage is a plan to show, with the name that the page gives it.
type onPage struct {
	name string
	plan *plan.Plan
}

// write writes a page of what files hold.
func (r *pageCommand) write(ctx context.Context, files []viewed) error {
	var parts input.Parts
	if r.tables != "" {
		for _, f := range files {
			r.cluster.planned = f.plan
		}
		parts = readParts(r.app, r.tables, &r.cluster)
	}
	plans, d, err := r.contents(files)
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
	d.Tool, d.Title = neuroshard.Version, page.Title(inputs...)
	if d.Sweep != nil {
		d.Title = modelOf(d.Sweep.Name) + ": a sweep of clusters"
	}
	d.Plans = []page.Plan{}
	for _, in := range inputs {
		one, err := page.New(*in)
		if err != nil {
			return bad(fmt.Errorf("%s: %w", in.Name, err), "list what is wrong with: neuroshard check PLAN TABLES")
		}
		d.Plans = append(d.Plans, one)
	}
	if len(inputs) == 2 {
		d.Changes = page.Compare(inputs[0].Plan, inputs[1].Plan)
	}
	var text bytes.Buffer
	if err := page.Write(&text, d); err != nil {
		return err
	}
	return r.writeOut(r.output, text.Bytes())
}

// explainedNames are the values of alternatives.
func explainedNames() []string {
	return []string{string(page.ExplainAll), string(page.ExplainCritical), string(page.ExplainNone)}
}

// check reports everything that is wrong with the command line.
func (r *pageCommand) check(command string, args []string) error {
	var f faults
	if r.tables == "" {
		needy := []string{"model", "alternatives", "compare_plan"}
		if r.output != "" {
			needy = append(needy, "dense", "stack", "step", "step_plan", "loader", "sample_length_cv", "price")
		}
		for _, name := range needy {
			f.add(r.cluster.set.Changed(name), "add --tables with the tables that were planned, a file or workload:NAME", "%s needs --tables", keyOf(name))
		}
	}
	f.add(r.alternatives != "" && !slices.Contains(explainedNames(), r.alternatives), "", "alternatives: %q is none of %s", r.alternatives, strings.Join(explainedNames(), ", "))
	if r.output == "" {
		pages := []string{"alternatives", "compare_plan"}
		if command == "diff" {
			pages = append(pages, "tables", "model", "dense", "stack", "step", "step_plan", "loader", "sample_length_cv", "price")
		}
		for _, name := range pages {
			f.add(r.cluster.set.Changed(name), "add -o plan.html", "%s is for a page", keyOf(name))
		}
		return f.err()
	}
	if r.model != "" && formulasOf(r.model) == nil {
		_, err := r.loadModel(r.model)
		f = append(f, asInput(err))
	}
	_, terminal := r.env.terminal(r.stdout.to)
	f.add(toStandardOutput(r.output) && terminal, "name a file: -o plan.html, and open it in a browser", "%s: a page is not for a terminal", command)
	f = append(f, r.compared.load(r.app))
	files := append(append(slices.Clone(args), r.compared.files...), r.tables, r.model, r.cluster.stated["dense"], r.cluster.stated["stack"], r.cluster.step.with)
	return f.err(r.checkOutput(r.output, files...))
}

// viewed is what a file holds: a plan, what replan --json prints with its new plan, or a sweep.
type viewed struct {
	name   string
	plan   *plan.Plan
	replan *report.ReplanObject
	sweep  *sweep.Results
}

// readShown reads what show and diff take, told by its content.
func (a *app) readShown(path string) (s viewed, err error) {
	name, r, err := a.open(path)
	if err != nil {
		return s, asInput(err)
	}
	defer r.Close()
	s.name = name
	in := bufio.NewReaderSize(r, 1<<16)
	head, _ := in.Peek(in.Size()) // an error comes again below
	switch {
	case sweepFile.Match(head):
		read, err := sweep.Read(name, in)
		if err != nil {
			return s, faulty(err.Error(), "write it with: neuroshard sweep TABLES -o sweep.jsonl")
		}
		s.sweep = sweep.NewResults(*read, "")
	case verdict.Match(head):
		if s.replan, s.plan, err = report.ReadReplan(in); err != nil {
			return s, faulty(fmt.Sprintf("%s: %v", name, err), "write it with: neuroshard replan OLD TABLES --json")
		}
	default:
		if s.plan, err = plan.Read(in); err != nil {
			return s, faulty(fmt.Sprintf("%s: %v", name, err), "plans are written by: neuroshard plan TABLES -o plan.json")
		}
	}
	return s, nil
}

// sweepFile is how the file of a sweep begins, and verdict the key of a re-plan that no plan has.
var (
	sweepFile = regexp.MustCompile(`^\s*\{\s*"format"\s*:\s*"` + sweep.Format + `"`)
	verdict   = regexp.MustCompile(`"verdict"\s*:`)
)

// contents gives a page what files hold.
func (r *pageCommand) contents(files []viewed) (plans []onPage, d *page.Document, err error) {
	d = &page.Document{}
	for _, f := range files {
		switch {
		case f.sweep != nil:
			d.Sweep = page.NewSweep(f.sweep)
			continue
		case f.replan != nil:
			d.Replan = f.replan
		}
		if n := len(plans); n == 1 && f.replan != nil && plans[0].plan.Predicted == f.plan.Predicted && report.Same(plan.Diff(plans[0].plan, f.plan)) {
			continue // the old plan stays
		}
		plans = append(plans, onPage{f.name, f.plan})
	}
	var errs []error
	for _, one := range plans {
		if name, twice := doubled(one.plan); twice && len(plans) > 1 {
			errs = append(errs, faulty(fmt.Sprintf("%s: table %q is listed twice", one.name, name), "neuroshard check says what else is wrong with the plan"))
		}
	}
	return plans, d, input.Join(errs...)
}

// inputs adds the problems of the plans, where they are known. If there are two plans, one of them
// may have other tables than --tables names.
func (r *pageCommand) inputs(ctx context.Context, plans []onPage, parts input.Parts) ([]*page.Input, error) {
	var all []*page.Input
	var others []error
	for _, one := range plans {
		in := &page.Input{Name: one.name, Model: modelOf(cmp.Or(strings.TrimPrefix(r.tables, standardOutput), one.name)), Plan: one.plan}
		all = append(all, in)
		if r.tables == "" {
			if source := publishedAs(one.plan); source != "" {
				in.Model = modelOf(source)
			}
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

// modelOf returns the name of what was planned: that of the workload, or of the file without its folder
// and extension.
func modelOf(source string) string {
	if model, known := strings.CutPrefix(source, workload.Prefix); known {
		return model
	}
	file := filepath.Base(source)
	return strings.TrimSuffix(file, filepath.Ext(file))
}

// planned adds the problem of a plan, and its whole step if flags state one.
func (r *pageCommand) planned(ctx context.Context, in *page.Input, parts input.Parts) error {
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
func (r *pageCommand) published(in *page.Input) {
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
	p := clusterOf(pl, &clusterFlags{}).Problem
	p.Tables = w.Tables()
	if !pl.MadeFrom(&p) || pl.Validate(&p) != nil {
		return nil
	}
	return &p
}

// judge computes the costs and alternatives of the plans whose problems are known.
func (r *pageCommand) judge(ctx context.Context, inputs []*page.Input) error {
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
