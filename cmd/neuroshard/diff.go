package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/report"
)

func newDiffCommand(a *app) *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Show what changes from one plan to another",
		Long: `Show the differences between two plans: tables with another sharding type or other
cuts, shards on another device or in another memory, and the totals of devices. The line
"moves" gives the bytes of weights and optimizer state that devices must send each other, and
the time of the links for the busiest device. A device receives only what it lacks, from a
device on its host if one holds it; new rows and columns are counted, too. Tables are the
same if their names are. Devices keep their numbers.

The exit code is 0 if both plans place all tables alike on the same cluster, 1 if not,
2 if a plan cannot be read.`,
		Args: exactArgs("BEFORE", "AFTER"),
		RunE: func(_ *cobra.Command, args []string) error {
			before, err := a.readPlan(args[0])
			if err != nil {
				return err
			}
			after, err := a.readPlan(args[1])
			if err != nil {
				return err
			}
			for i, pl := range []*plan.Plan{before, after} {
				if name, twice := doubled(pl); twice {
					return bad(fmt.Errorf("%s: table %q is listed twice", args[i], name), "neuroshard validate says what else is wrong with the plan")
				}
			}
			a.doubt(args[0], before)
			a.doubt(args[1], after)
			changes := plan.Diff(before, after)
			if asJSON {
				err = a.printJSON(changes)
			} else {
				options := a.reportOptions()
				options.AllChanges = all
				err = report.Diff(a.stdout, changes, options)
			}
			if err == nil && !report.Same(changes) {
				return &exitError{code: exitNo}
			}
			return bad(err, "")
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&all, "all", false, "list every change, not only the first 15 tables and devices")
	cmd.MarkFlagsMutuallyExclusive("json", "all")
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
