package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/internal/atomicfile"
	"github.com/neuroshard/neuroshard/lab/trace"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/report"
)

// defaultTraceDim is the dim of a trace's tables where none is stated.
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
facebookresearch/dlrm_datasets), which runs no code when it is read; or a log
with the columns sample, table and index, in CSV, packed or not, or in Parquet.
It is read table by table.`,
		Example: `  neuroshard profile fbgemm_t856_bs65536.pt.gz --dim 128 -o tables.json
  neuroshard profile lookups.csv --rows rows.csv -o tables.json`,
		Args: exactArgs("TRACE"),
		RunE: func(_ *cobra.Command, args []string) error { return a.profile(f, args[0]) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.dim, "dim", defaultTraceDim, "columns of the tables, which a trace does not state")
	flags.IntVar(&f.batch, "batch", 0, "samples to read, the first of the trace (default: all)")
	flags.StringVar(&f.rows, "rows", "", "CSV `file` of table and rows, for tables with more rows than the trace uses")
	flags.StringVarP(&f.out, "output", "o", "", "write the tables to this `file` (default: standard output)")
	flags.BoolVar(&f.json, "json", false, "print what was found as one JSON object")
	return cmd
}

func (a *app) profile(f *profileFlags, path string) error {
	if err := dimFault(f.dim); err != nil {
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
	tables, warnings, batch, err := a.readTrace(path, trace.Options{Batch: f.batch}, rows, f.dim, nil)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := input.Write(&text, tables, batch); err != nil {
		return bad(fmt.Errorf("%s: the tables that follow from it are not valid:\n%w", path, err), "")
	}
	if f.out == "" {
		_, err := a.stdout.Write(text.Bytes())
		for _, w := range warnings {
			fmt.Fprintln(a.stderr, "neuroshard: warning:", w)
		}
		return bad(err, "")
	}
	if info, err := os.Stat(filepath.Dir(f.out)); err != nil || !info.IsDir() {
		return usagef("choose a file that can be written", "profile: there is no folder %s", filepath.Dir(f.out))
	}
	err = atomicfile.Write(f.out, func(w io.Writer) error {
		_, err := w.Write(text.Bytes())
		return err
	})
	if err != nil {
		return bad(err, "choose a file that can be written")
	}
	if f.json {
		return bad(a.printJSON(report.NewTraceInfo(path, f.out, tables, batch, warnings)), "")
	}
	return bad(report.Trace(a.stdout, report.NewTraceInfo(path, f.out, tables, batch, warnings), a.reportOptions()), "")
}

// readTrace returns the tables of a trace. keep, where not nil, is given each
// table's lookups with its number.
func (a *app) readTrace(path string, opt trace.Options, rows map[string]int64, dim int, keep func(i int, t trace.Table) error) (tables []problem.Table, warnings []string, batch int, err error) {
	bar := a.newProgressBar()
	defer bar.clear()
	const unit = 1 << 20
	opt.Progress = func(done, total int64) {
		bar.at(int(done/unit), int(max(1, total/unit)), "reading "+filepath.Base(path))
	}
	r, err := trace.Open(path, opt)
	if err != nil {
		return nil, nil, 0, bad(err, "")
	}
	defer r.Close()
	for {
		t, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, 0, bad(err, "")
		}
		table, doubts, err := trace.Profile(t, trace.Properties{Rows: rows[t.Name], Dim: dim})
		if err != nil {
			return nil, nil, 0, bad(fmt.Errorf("%s: %w", path, err), "")
		}
		if keep != nil {
			if err := keep(len(tables), t); err != nil {
				return nil, nil, 0, err
			}
		}
		batch = t.Samples
		tables, warnings = append(tables, table), append(warnings, doubts...)
	}
	if len(tables) == 0 {
		return nil, nil, 0, usagef("", "%s: there are no tables in it", path)
	}
	return tables, warnings, batch, nil
}
