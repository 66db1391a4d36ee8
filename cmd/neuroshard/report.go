package main

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/report/page"
)

func newReportCommand(a *app) *cobra.Command {
	r := reportCommand{app: a}
	cmd := &cobra.Command{
		Use:   "report PLAN [PLAN2]",
		Short: "Write a plan as a page for the browser: one file that needs no network",
		Long:  `Write a plan as a page for the browser: one file that needs no network.`,
		Example: `  neuroshard report plan.json -o plan.html
  neuroshard report plan.json --tables tables.json -o plan.html`,
		Args: exactArgs("PLAN"),
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd, args) },
	}
	f := cmd.Flags()
	f.StringVar(&r.tables, "tables", "", "what was planned: a `file`, \"-\" or workload:NAME")
	f.StringVar(&r.model, "model", "", "`folder` of the cost model that the plan was made with, or torchrec (default: the one that ships for the profile)")
	f.StringVarP(&r.output, "output", "o", "", "`file` to write; - is standard output")
	completeModel(cmd)
	return cmd
}

// reportCommand has the flags of report.
type reportCommand struct {
	*app
	tables, model, output string
}

func (r *reportCommand) run(cmd *cobra.Command, args []string) error {
	pl, err := r.readPlan(args[0])
	if err != nil {
		return err
	}
	in := page.Input{Name: args[0], Plan: pl}
	if r.tables != "" {
		l, err := planned(r.app, pl, r.tables, &clusterFlags{set: cmd.Flags()})
		if err != nil {
			return err
		}
		in.Problem, in.Warnings = l.problem, l.warnings
		prices, missing, err := pricesOf(r.app, pl, l.problem, r.model)
		if err != nil {
			return err
		}
		if prices == nil {
			in.Missing = append(in.Missing, missing)
		} else if err := page.Judge(cmd.Context(), &in, page.Judgement{Prices: prices}); err != nil {
			return err
		}
	}
	shown, err := page.New(in)
	if err != nil {
		return bad(fmt.Errorf("%s: %w", args[0], err), "")
	}
	var text bytes.Buffer
	d := page.Document{Tool: neuroshard.Version, Title: args[0], Plans: []page.Plan{shown}}
	if err := page.Write(&text, &d); err != nil {
		return err
	}
	return r.writeOut(r.output, text.Bytes())
}
