package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/neuroshard/neuroshard/lab/trace"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/report"
)

// defaultTraceDim is the dim of a trace's tables if dim is not given.
const defaultTraceDim = 64

type profileFlags struct {
	set        *pflag.FlagSet
	dim, batch int
	rows, out  string
	tables     string
	columns    []string
	ids        string
	hashSize   int64
	json       bool
}

func newProfileCommand(a *app) *cobra.Command {
	f := &profileFlags{}
	cmd := &cobra.Command{
		Use:   "profile TRACE",
		Short: "Turn a log of real lookups into a file of tables",
		Long: `Turn a log of real lookups into a file of tables: rows, pooling factors, the spread of
the lengths of bags, distinct rows and reuse histograms, for plan and for collect --tables.

TRACE is one of
  a file in the form of FBGEMM's benchmark data (.pt or .pt.gz, as in
  facebookresearch/dlrm_datasets); code in it is not run
  a log with a row for each lookup: the columns sample, table and index
  a log with a row for each sample, as Criteo's: a column for each feature (--columns),
  with one id in a cell, or several with | or spaces between them; in Parquet, lists
Logs are CSV or text with tabs, compressed with gzip or not, or Parquet. The file is
read table by table. docs/FORMATS.md has the details.

Ids are rows of their tables. With --hash-size they are hashes, taken modulo the rows
that --rows or --tables states, or else modulo --hash-size. With --tables, existing
tables get the pooling factors and the accesses of the log, and keep all else.`,
		Example: `  neuroshard lab profile fbgemm_t856_bs65536.pt.gz --set dim=128 -o tables.json
  neuroshard lab profile lookups.csv --rows rows.csv -o tables.json
  neuroshard lab profile day_0.gz --hash-size 10000000 --batch 65536 -o tables.json
  neuroshard lab profile clicks.parquet --tables tables.json -o profiled.json`,
		Args: exactArgs("TRACE"),
		RunE: func(_ *cobra.Command, args []string) error { return runProfile(a, f, args[0]) },
	}
	flags := cmd.Flags()
	f.set = flags
	flags.IntVar(&f.dim, "dim", defaultTraceDim, "columns of the tables; a trace does not state them")
	flags.IntVar(&f.batch, "batch", 0, "samples to read, the first of the trace (default: all)")
	flags.StringVar(&f.rows, "rows", "", "CSV `file` with the columns table and rows, for tables with more rows than the trace uses")
	flags.StringVar(&f.tables, "tables", "", "`file` of tables that get the accesses of the trace and keep all else")
	flags.StringSliceVar(&f.columns, "columns", nil, "`names` of the columns that hold ids, if each row is a sample (default: Criteo's names; in Parquet, lists of whole numbers)")
	flags.StringVar(&f.ids, "ids", "", "how ids are written: decimal, hex or text (default: decimal; hex in Criteo's format)")
	flags.Int64Var(&f.hashSize, "hash-size", 0, "ids are hashes, taken modulo the `rows` of their table: those that --rows or --tables states, or else this number (default: ids are rows)")
	complete(cmd, "ids", trace.FormsOfIDs)
	flags.StringVarP(&f.out, "output", "o", "", "write the tables to this `file`; - is standard output, the default")
	flags.BoolVar(&f.json, "json", false, "print what was found as one JSON object")
	return cmd
}

func runProfile(a *app, f *profileFlags, path string) error {
	if err := f.check(); err != nil {
		return err
	}
	if f.out == standardOutput {
		f.out = ""
	}
	if err := a.checkOutput(f.out, path, f.rows, f.tables); err != nil {
		return err
	}
	if f.json && f.out == "" {
		return usagef("name the tables' file: -o tables.json", "profile: --json needs --output, since both would go to standard output")
	}
	found, batch, err := f.read(a, path)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := input.Write(&text, input.TableFile{Tables: found.List, Batch: batch, Warnings: found.Warnings}); err != nil {
		return bad(fmt.Errorf("%s: the tables made of it are not valid:\n%w", path, err), "")
	}
	if f.out == "" {
		_, err := a.stdout.Write(text.Bytes())
		for _, w := range found.Warnings {
			warn(a.stderr, "%s", w)
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

// check reports flags that are wrong or do not go together.
func (f *profileFlags) check() error {
	if f.tables != "" {
		for _, flag := range []string{"dim", "rows"} {
			if f.set.Changed(flag) {
				return usagef("leave one of them out", "profile: --tables and %s do not go together: the tables state their own", keyOf(flag))
			}
		}
	}
	if f.set.Changed("hash-size") && (f.hashSize < 1 || f.hashSize > problem.MaxRows) {
		return usagef("", "profile: --hash-size %d is not between 1 and %d", f.hashSize, int64(problem.MaxRows))
	}
	if f.ids != "" && !slices.Contains(trace.FormsOfIDs(), f.ids) {
		return usagef("choose one of "+strings.Join(trace.FormsOfIDs(), ", "), "profile: ids: %q is unknown", f.ids)
	}
	return input.CheckDim(f.dim)
}

// read reads the trace, and returns its tables and their batch.
func (f *profileFlags) read(a *app, path string) (found trace.Tables, batch int, err error) {
	opt := trace.Options{Batch: f.batch, Columns: f.columns, IDs: trace.IDs(f.ids), HashSize: f.hashSize}
	of := trace.TableOptions{Dim: f.dim}
	var known trace.Known
	switch {
	case f.rows != "":
		if opt.Rows, err = trace.ReadRows(f.rows); err != nil {
			return found, 0, bad(err, "a line for each table: its name and its rows")
		}
	case f.tables != "":
		name, r, err := a.open(f.tables)
		if err != nil {
			return found, 0, err
		}
		file, err := input.Tables(name, r, input.Options{})
		if err := errors.Join(err, r.Close()); err != nil {
			return found, 0, err
		}
		known, batch = file.Tables, file.Batch
		opt.Rows, opt.TableOf, of.MoreRows = known.Rows(), known.TableOf(), true
	}
	of.Rows = opt.Rows
	bar := a.newProgressBar()
	opt.Progress = readingProgress(bar, path)
	found, err = trace.ReadTables(path, opt, of)
	bar.clear()
	if err != nil {
		return found, 0, bad(err, "")
	}
	if known != nil {
		if found.List, found.Warnings, err = known.Enrich(found); err != nil {
			return found, 0, bad(fmt.Errorf("%s: %w", path, err), "the tables and features of the trace must have the names that they have in "+f.tables)
		}
	}
	return found, cmp.Or(batch, found.Samples), nil
}

// readingProgress returns a function that shows how far a trace is read, in MiB.
func readingProgress(bar *progressBar, path string) func(done, all int64) {
	const mib = 1 << 20
	return func(done, all int64) { bar.at(int(done/mib), int(max(1, all/mib)), "reading "+filepath.Base(path)) }
}
