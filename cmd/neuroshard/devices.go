package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/report"
)

func newDevicesCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "List the device profiles",
		Args:  exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			shipped := pretrained.Profiles()
			modelled := func(name string) bool { return slices.Contains(shipped, name) }
			if asJSON {
				return bad(a.printJSON(report.DevicesJSON(modelled)), "")
			}
			return bad(report.Devices(a.stdout, hardware.Profiles(), modelled, a.reportOptions()), "")
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return cmd
}
