// Command reality makes the tables of docs/REALITY.md: published measurements, and
// predictions of others, beside what the formulas here predict. It reads committed facts
// only, so it needs no network and no GPU, and prints the same bytes each time.
//
//	go run ./docs/generate/reality                                all tables
//	go run ./docs/generate/reality alltoall                       one table
//	go run ./docs/generate/reality alltoall -doc docs/REALITY.md  the table, into the document;
//	                                                              long ones into docs/evidence/REALITY.md
//	go run ./docs/generate/reality plans                          testdata/our_plans.csv
//
// The facts are in testdata, each row with its source. Each table has a file: a function
// that reads the facts and returns a sheet, and a line in the list of tables below. A sheet
// groups its comparisons by what they were used for: rows that constants were fitted to are
// in the sample, all others are out of it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/marks"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "reality: error:", err)
		os.Exit(1)
	}
}

// A table is one table of the document.
type table struct {
	// name is the argument that makes the table, and its mark in the document is
	// "reality NAME". about is one line of the usage.
	name, about string
	compute     func() (*sheet, error)
}

// tables lists all tables in the order of the document.
func tables() []table {
	return []table{
		{targetsTable, "the targets of all other tables, and whether they were met", targets},
		{"alltoall", "all-to-alls of nccl-tests and PARAM", allToAll},
		{"refit", "the share of the network over 16 hosts, fitted to half of the sizes", refit},
		{"hipc", "steps of one GPU that the launches of the host bound", hipc},
		{"share", "the share of embeddings, beside the one that the paper NeuroShard implies", share},
		{"madmax", "the predictions of MAD-Max for one model, which are no measurements", madMax},
		{"dlrm", "the example of TorchRec, whose loader is slow", dlrm},
		{"pipelines", "the pipelines of TorchRec", pipelines},
		{"steps", "whole steps of MLPerf's systems by configuration", wholeSteps},
		{"changes", "changes of plan between two rounds of MLPerf", planChanges},
		{"ratios", "ratios of the steps of GPU kinds", deviceRatios},
		{"measured", "steps predicted from one measured step", oneMeasured},
		{"ours", "our plans for MLPerf's systems", ourSteps},
		{"onehot", "steps of models with one lookup a table", oneHot},
		{"stacks", "steps of a training system with unknown constants", stacks},
	}
}

// run makes the tables that the arguments name, or all of them.
func run(out io.Writer, args []string) error {
	names, flags := split(args)
	set := flag.NewFlagSet("reality", flag.ContinueOnError)
	set.SetOutput(out)
	set.Usage = func() {
		fmt.Fprintln(out, "usage: go run ./docs/generate/reality [TABLE...] [-doc FILE]\n\nTables, all of them without an argument:")
		for _, t := range tables() {
			fmt.Fprintf(out, "  %-10s %s\n", t.name, t.about)
		}
		fmt.Fprintln(out, "\nflags:")
		set.PrintDefaults()
	}
	doc := set.String("doc", "", "document to put the tables into, in place of those between its marks: `file`")
	if err := set.Parse(flags); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("%q is one argument too many: give tables first, then flags", set.Arg(0))
	}
	if len(names) == 1 && names[0] == "plans" {
		return writePlans(out)
	}
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	for _, t := range chosen {
		s, err := t.compute()
		if err != nil {
			return fmt.Errorf("table %s: %w", t.name, err)
		}
		text := s.String()
		fmt.Fprintf(out, "%s\n\n", text)
		if s.folded {
			fmt.Fprintf(out, "%s\n\n", s.rowsText())
		}
		if *doc == "" {
			continue
		}
		if err := marks.Replace(*doc, "reality "+t.name, []string{text}); err != nil {
			return err
		}
		if !s.folded {
			continue
		}
		if err := marks.Replace(rowsFile(*doc), "reality "+t.name, []string{s.rowsText()}); err != nil {
			return err
		}
	}
	return nil
}

// split parts the arguments before the first flag from the rest.
func split(args []string) (names, flags []string) {
	at := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") })
	if at < 0 {
		return args, nil
	}
	return args[:at], args[at:]
}

// choose returns the tables of the names, or all tables if there is no name.
func choose(names []string) ([]table, error) {
	if len(names) == 0 {
		return tables(), nil
	}
	var chosen []table
	for _, name := range names {
		at := slices.IndexFunc(tables(), func(t table) bool { return t.name == name })
		if at < 0 {
			var known []string
			for _, t := range tables() {
				known = append(known, t.name)
			}
			return nil, fmt.Errorf("table %q is unknown: choose among %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, tables()[at])
	}
	return chosen, nil
}
