package main

import (
	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/simulate"
)

func newSimulateCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "simulate FILE",
		Short: "Compute times of operators and all-to-alls on the simulated device",
		Long: `Compute the times of operators and all-to-alls on the simulated device. FILE, or "-" for
standard input, holds {"compute": [...], "comm": [...]}; docs/SIMULATED.md draws
the form. The times are SIMULATED, not measured.`,
		Args: exactArgs("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			_, r, err := a.open(args[0])
			if err != nil {
				return err
			}
			defer r.Close()
			return bad(simulate.RunCases(r, a.stdout), "docs/SIMULATED.md draws the form of cases")
		},
	}
}
