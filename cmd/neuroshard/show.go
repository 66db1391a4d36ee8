package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/report"
)

func newShowCommand(a *app) *cobra.Command {
	var asJSON, allDevices bool
	var memory string
	cmd := &cobra.Command{
		Use:   "show PLAN",
		Short: "Show a plan: what each device holds, and its times",
		Long: `Show a plan: what each device holds, and its times.

A plan file has neither lookups nor accesses of the tables. So instead of the tables
that the critical device reads most, show lists its largest tables by weights.`,
		Example: `  neuroshard show plan.json
  neuroshard show plan.json --memory      # the fullest device, line by line
  neuroshard show plan.json --memory=3    # device 3`,
		Args: exactArgs("PLAN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			pl, err := a.readPlan(args[0])
			if err != nil {
				return err
			}
			options := a.reportOptions()
			options.AllDevices, options.Name = allDevices, args[0]
			switch {
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
	f.BoolVar(&allDevices, "all-devices", false, "list every device, also of large clusters")
	f.StringVar(&memory, "memory", "", "show the memory of a `device`, line by line")
	f.Lookup("memory").NoOptDefVal = fullest
	cmd.MarkFlagsMutuallyExclusive("json", "memory")
	return cmd
}

// fullest stands for the device with the most bytes in use.
const fullest = "fullest"
