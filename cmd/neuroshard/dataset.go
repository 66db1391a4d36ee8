package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/report"
)

func newDatasetCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dataset",
		Short: "Look at datasets of measured costs, join them, export them",
		Args:  exactArgs(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDatasetShowCommand(a), newDatasetMergeCommand(a), newDatasetExportCommand(a))
	return cmd
}

func newDatasetShowCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show DATASET",
		Short: "Show what a dataset holds, what it was measured on, and how noisy it is",
		Args:  exactArgs("DATASET"),
		RunE: func(_ *cobra.Command, args []string) error {
			set, err := a.readDataset(args[0])
			if err != nil {
				return err
			}
			return printDataset(a, set, args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func printDataset(a *app, set dataset.Dataset, folder string, asJSON bool) error {
	summary := report.DatasetSummary(set)
	summary.Folder = folder
	if asJSON {
		return bad(a.printJSON(summary), "")
	}
	return bad(report.Dataset(a.stdout, summary, a.reportOptions()), "")
}

func newDatasetMergeCommand(a *app) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "merge PART... -o DATASET",
		Short: "Join the parts of one design that several machines measured",
		Long: `Join the parts of one design that several machines measured with collect
--shard. All parts must have the same design, device, kernel and way of measuring. If
not, the differences are listed, and nothing is written. A sample that is in two parts
is also an error.`,
		Example: `  neuroshard lab dataset merge part-1 part-2 part-3 -o samples`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("usage: "+cmd.UseLine(), "merge: PART is missing")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if out == "" {
				return usagef("name the folder of the whole: -o samples", "merge: --output is missing")
			}
			if err := a.overwrites(out, args...); err != nil {
				return err
			}
			var parts []dataset.Dataset
			for _, folder := range args {
				part, err := a.readDataset(folder)
				if err != nil {
					return err
				}
				parts = append(parts, part)
			}
			whole, err := dataset.Merge(parts...)
			if err != nil {
				return bad(fmt.Errorf("merge: %w", err), "parts are numbered from 1, in the order they were named")
			}
			if err := dataset.Write(out, whole); err != nil {
				return bad(err, "choose a folder that can be written")
			}
			return printDataset(a, whole, out, false)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "`folder` of the joined dataset")
	return cmd
}

func newDatasetExportCommand(a *app) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "export DATASET -o FOLDER",
		Short: "Write a dataset in the text formats of the published prototype",
		Long: `Write a dataset in the text formats of the published NeuroShard prototype:
compute.txt (ids and time of a group on each line), comm_4.txt and so on (dims,
starts, forward and backward times on 4 devices), table_configs.json, and
augmented_table_configs.json, which has the tables of these ids. The formats state
neither batch nor optimizer, so all samples must have the same: collect paper draws
such samples.`,
		Example: `  neuroshard lab dataset export samples -o prototype`,
		Args:    exactArgs("DATASET"),
		RunE: func(_ *cobra.Command, args []string) error {
			if out == "" {
				return usagef("name the folder to write to: -o prototype", "export: --output is missing")
			}
			if err := a.overwrites(out, args[0]); err != nil {
				return err
			}
			set, err := a.readDataset(args[0])
			if err != nil {
				return err
			}
			return bad(dataset.ExportPrototype(out, set), "collect samples that the formats can hold, with: neuroshard lab collect --set paper")
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "`folder` to write to")
	return cmd
}
