package main

import (
	"bytes"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/report"
)

func newListCommand(a *app) *cobra.Command {
	var asJSON bool
	var output string
	cmd := &cobra.Command{
		Use:   "list devices|workloads|workload:NAME",
		Short: "List device profiles or workloads, or write the tables of a workload",
		Long: `List the device profiles, or the workloads that can be planned by name: published models,
and seeded draws that match the statistics of facebookresearch/dlrm_datasets. A star marks
models whose source states no distribution of indices. With workload:NAME, write the tables
of that workload as a file, to be changed and planned.

workload:NAME also takes drawn tables. Without @SEED the seed is 1:

  dlrm-datasets[@SEED]                   the pool of 856 tables
  dlrm-datasets-TABLESxDEVICES[@SEED]    tables drawn from the pool, for that many devices
  paper-SETTING-NUMBER[@SEED]            a task as the NeuroShard paper draws them; SETTING
                                         is d4_ or d8_ with m16, m64 or m128, and NUMBER
                                         counts from 0: paper-d8_m64-3`,
		Example: `  neuroshard list devices
  neuroshard list workload:mlperf-dlrm-dcnv2 -o tables.json`,
		Args: exactArgs("WHAT"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			names, _ := completeTables(0)(nil, args, word)
			return append(names, "devices", "workloads"), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			name, isWorkload := strings.CutPrefix(args[0], workload.Prefix)
			switch {
			case isWorkload:
				return printTables(a, name, output)
			case args[0] != "devices" && args[0] != "workloads":
				return usagef("list devices, workloads, or the tables of one: workload:NAME", "list: %q is unknown", args[0])
			case output != "":
				return usagef("usage: neuroshard list workload:NAME -o tables.json", "--output needs the name of a workload")
			case args[0] == "workloads" && asJSON:
				return bad(a.printJSON(report.WorkloadsJSON()), "")
			case args[0] == "workloads":
				return bad(report.Workloads(a.stdout, workload.All(), workload.Drawn(), a.reportOptions()), "")
			}
			modelled := func(name string) bool { return slices.Contains(pretrained.Profiles(), name) }
			if asJSON {
				return bad(a.printJSON(report.DevicesJSON(modelled)), "")
			}
			return bad(report.Devices(a.stdout, hardware.Profiles(), modelled, a.reportOptions()), "")
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the tables to this `file`; - is standard output, the default")
	return cmd
}

// printTables writes the tables of a workload as a file of tables.
func printTables(a *app, name, output string) error {
	w, err := workload.ByName(name)
	if err != nil {
		return bad(err, "list them with: neuroshard list workloads")
	}
	if err := a.checkOutput(output); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := input.Write(&b, input.TableFile{Tables: w.Tables(), Batch: w.Batch, Samples: w.Samples}); err != nil {
		return err
	}
	return a.writeOut(output, b.Bytes())
}
