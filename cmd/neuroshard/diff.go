package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/report"
)

func newDiffCommand(a *app) *cobra.Command {
	p := pageCommand{app: a}
	var asJSON, all, exitCode bool
	cmd := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Show what changes from one plan to another",
		Long: `Show the differences between two plans: tables with another sharding type or other
cuts, shards on another GPU or in another memory, and the totals of GPUs. The line "moves"
gives the bytes of weights and optimizer state that GPUs must send each other, and the time
of the links for the busiest GPU. A GPU receives only what it lacks, from one on its host
if one holds it; new rows and columns are counted, too. Tables are the same if their names
are. With -o it is a page for the browser. AFTER may be what replan --json printed.`,
		Example: `  neuroshard diff before.json after.json
  neuroshard diff before.json after.json --tables tables.json -o change.html`,
		Args: exactArgs("BEFORE", "AFTER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check("diff", args); err != nil {
				return err
			}
			before, firstErr := a.readShown(args[0])
			after, secondErr := a.readShown(args[1])
			if err := input.Join(firstErr, secondErr); err != nil {
				return err
			}
			if p.output != "" {
				return p.write(cmd.Context(), []viewed{before, after})
			}
			for i, s := range []viewed{before, after} {
				if s.plan == nil {
					return usagef("show it with: neuroshard show "+args[i], "%s: it is a sweep, not a plan", args[i])
				}
				if name, twice := doubled(s.plan); twice {
					return bad(fmt.Errorf("%s: table %q is listed twice", args[i], name), "neuroshard check says what else is wrong with the plan")
				}
			}
			a.doubt(args[0], before.plan)
			a.doubt(args[1], after.plan)
			changes := plan.Diff(before.plan, after.plan)
			var err error
			if asJSON {
				err = a.printJSON(changes)
			} else {
				options := a.reportOptions()
				options.AllChanges, options.Name = all, args[1]
				if !report.Same(changes) {
					options.Next = fmt.Sprintf("neuroshard diff %s %s -o change.html shows both side by side", args[0], args[1])
				}
				err = report.Diff(a.stdout, before.plan, after.plan, options)
			}
			if err == nil && exitCode && !report.Same(changes) {
				return &exitError{code: exitVerdict}
			}
			return bad(err, "")
		},
	}
	p.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&all, "full", false, "list every change, not only the first 15 tables and devices")
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "end with exit code 6, not 0, if the plans differ")
	cmd.MarkFlagsMutuallyExclusive("json", "full", "output")
	cmd.MarkFlagsMutuallyExclusive("exit-code", "output")
	return cmd
}

// doubled returns the first table that a plan lists twice.
func doubled(pl *plan.Plan) (name string, twice bool) {
	seen := make(map[string]bool, len(pl.Tables))
	for i := range pl.Tables {
		if name := pl.Tables[i].Name; seen[name] {
			return name, true
		}
		seen[pl.Tables[i].Name] = true
	}
	return "", false
}
