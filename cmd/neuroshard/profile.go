package main

import (
	"bytes"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/lab/trace"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/report"
)

// defaultTraceDim is the dim of a trace's tables if --dim is not given.
const defaultTraceDim = 64

type profileFlags struct {
	dim, batch int
	rows, out  string
	json       bool
}

func newProfileCommand(a *app) *cobra.Command {
	f := &profileFlags{}
	cmd := &cobra.Command{
		Use:   "profile TRACE",
		Short: "Turn a log of real lookups into a file of tables",
		Long: `Turn a log of real lookups into a file of tables: rows, pooling factors, distinct
rows and reuse histograms, for plan and for collect --tables.

TRACE is a file in the form of FBGEMM's benchmark data (.pt or .pt.gz, as in
facebookresearch/dlrm_datasets), or a log with the columns sample, table and index, in
CSV, compressed or not, or in Parquet. Code in a .pt file is not run. The file is read
table by table.`,
		Example: `  neuroshard profile fbgemm_t856_bs65536.pt.gz --dim 128 -o tables.json
  neuroshard profile lookups.csv --rows rows.csv -o tables.json`,
		Args: exactArgs("TRACE"),
		RunE: func(_ *cobra.Command, args []string) error { return runProfile(a, f, args[0]) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.dim, "dim", defaultTraceDim, "columns of the tables; a trace does not state them")
	flags.IntVar(&f.batch, "batch", 0, "samples to read, the first of the trace (default: all)")
	flags.StringVar(&f.rows, "rows", "", "CSV `file` with the columns table and rows, for tables with more rows than the trace uses")
	flags.StringVarP(&f.out, "output", "o", "", "write the tables to this `file`; - is standard output, the default")
	flags.BoolVar(&f.json, "json", false, "print what was found as one JSON object")
	return cmd
}

func runProfile(a *app, f *profileFlags, path string) error {
	if err := input.CheckDim(f.dim); err != nil {
		return err
	}
	if f.out == standardOutput {
		f.out = ""
	}
	if err := a.checkOutput(f.out, path, f.rows); err != nil {
		return err
	}
	if f.json && f.out == "" {
		return usagef("name the tables' file: -o tables.json", "profile: --json needs --output, since both would go to standard output")
	}
	var rows map[string]int64
	if f.rows != "" {
		var err error
		if rows, err = trace.ReadRows(f.rows); err != nil {
			return bad(err, "a line for each table: its name and its rows")
		}
	}
	bar := a.newProgressBar()
	defer bar.clear()
	found, err := trace.ReadTables(path, trace.Options{Batch: f.batch, Progress: readingProgress(bar, path)}, trace.TableOptions{Rows: rows, Dim: f.dim})
	bar.clear()
	if err != nil {
		return bad(err, "")
	}
	var text bytes.Buffer
	if err := input.Write(&text, found.List, found.Samples, found.Warnings...); err != nil {
		return bad(fmt.Errorf("%s: the tables made of it are not valid:\n%w", path, err), "")
	}
	if f.out == "" {
		_, err := a.stdout.Write(text.Bytes())
		for _, w := range found.Warnings {
			fmt.Fprintln(a.stderr, "neuroshard: warning:", w)
		}
		return bad(err, "")
	}
	if err := writeFile(f.out, text.Bytes()); err != nil {
		return err
	}
	info := report.NewTraceInfo(path, f.out, found.List, found.Samples, found.Warnings)
	if f.json {
		return bad(a.printJSON(info), "")
	}
	return bad(report.Trace(a.stdout, info, a.reportOptions()), "")
}

// readingProgress returns a function that shows how far a trace is read, in MiB.
func readingProgress(bar *progressBar, path string) func(done, all int64) {
	const mib = 1 << 20
	return func(done, all int64) { bar.at(int(done/mib), int(max(1, all/mib)), "reading "+filepath.Base(path)) }
}
