package main

import (
	"bytes"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/report"
)

func newWorkloadsCommand(a *app) *cobra.Command {
	var asJSON bool
	var output string
	cmd := &cobra.Command{
		Use:   "workloads [NAME]",
		Short: "List the workloads known by name, or print the tables of one",
		Long: `List the workloads that can be planned by name (published models, and seeded
draws that match the statistics of facebookresearch/dlrm_datasets), or print the
tables of one as a file, to be changed and planned. A star marks models whose source
states no distribution of indices.

workload:NAME also takes drawn tables. Without @SEED the seed is 1:

  dlrm-datasets[@SEED]                   the pool of 856 tables
  dlrm-datasets-TABLESxDEVICES[@SEED]    tables drawn from the pool, for that many devices
  paper-SETTING-NUMBER[@SEED]            a task as the NeuroShard paper draws them; SETTING
                                         is d4_ or d8_ with m16, m64 or m128, and NUMBER
                                         counts from 0: paper-d8_m64-3`,
		Example: `  neuroshard workloads
  neuroshard workloads mlperf-dlrm-dcnv2 -o tables.json
  neuroshard plan workload:dlrm-datasets-300x32@7`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("usage: "+cmd.UseLine(), "workloads: one argument too many: %q", args[1])
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return workload.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return printTables(a, args[0], output)
			}
			if output != "" {
				return usagef("usage: neuroshard workloads NAME -o tables.json", "--output needs the name of a workload")
			}
			if asJSON {
				return bad(a.printJSON(report.WorkloadsJSON()), "")
			}
			return bad(report.Workloads(a.stdout, workload.All(), workload.Drawn(), a.reportOptions()), "")
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
		return bad(err, "list them with: neuroshard workloads")
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
