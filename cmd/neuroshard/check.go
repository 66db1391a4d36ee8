package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/report"
)

func newCheckCommand(a *app) *cobra.Command {
	var flags clusterFlags
	cmd := &cobra.Command{
		Use:   "check PLAN TABLES",
		Short: "Check a plan against its tables, and list every violation",
		Long: `Check a plan against its tables: every part of every table is placed exactly
once, on an allowed device, with an allowed width, and no device holds more than its
memory allows.

TABLES is what was planned: a file, "-" or workload:NAME. The cluster is the one that
the plan states; flags override single fields of it, and --cluster all of it.

It prints "valid", or every violation, after the name of the rule that it breaks, and
exits with code 1. If the tables changed after the plan was made, the first lines say what
changed, as far as the sums in the plan show it. A plan that states no digest is checked
in the same way, with a warning: changes of the plan itself cannot be seen. Another warning
says that the plan is valid, but was made from other tables, such as other access statistics.

show, diff and convert read a plan without its tables. They print what the plan alone shows
to be wrong as warnings, and go on; but convert refuses tables that are not placed exactly
once, and diff refuses tables that are listed twice.`,
		Args:              exactArgs("PLAN", "TABLES"),
		ValidArgsFunction: completeTables(1),
		RunE: func(_ *cobra.Command, args []string) error {
			pl, digest, err := a.readStated(args[0])
			if err != nil {
				return err
			}
			if !digest {
				warn(a.stderr, "%s: %s", args[0], plan.NoDigest)
			}
			own := clusterOf(pl, &flags)
			loaded, err := loadProblem(a, args[1], &flags, own)
			if err != nil {
				return err
			}
			loaded.countAs(pl)
			var invalid *plan.Invalid
			switch err := pl.Validate(loaded.problem); {
			case errors.As(err, &invalid):
				for _, v := range invalid.Violations {
					fmt.Fprintf(a.stdout, "%s: %s\n", v.Rule, report.OneLine(v.String()))
				}
				return &exitError{code: exitNo}
			case err != nil:
				return err
			}
			if doubt := pl.Origin(loaded.problem); doubt != "" {
				warn(a.stderr, "%s: %s", args[0], doubt)
			}
			fmt.Fprintln(a.stdout, "valid")
			return nil
		},
	}
	flags.register(cmd)
	return cmd
}

// clusterOf returns the cluster that a plan states, for the flags to override, and has the flags
// know the plan's device and optimizers.
func clusterOf(pl *plan.Plan, flags *clusterFlags) *input.Cluster {
	flags.planned = pl
	cluster, own := input.ClusterOf(pl, flags.stated)
	if own != nil {
		flags.own = own
	}
	return &cluster
}
