// Command sharding makes the tables of docs/SHARDING.md: what each sharding type and memory
// saves, under TorchRec's estimator and on the simulated device. Tables
// workloads, operators, short, drawn and traffic are in docs/evidence/SHARDING.md.
// Each argument but scenarios is a table of SIMULATED costs, planned in this
// process; scenarios runs the neuroshard binary.
//
//	go build -o bin/neuroshard ./cmd/neuroshard
//	go run ./docs/generate/sharding scenarios   the scenarios, beside TorchRec's own planner
//	go run ./docs/generate/sharding workloads   gain over table- and column-wise plans
//	go run ./docs/generate/sharding pays        equal tables in one kind or memory after the other
//	go run ./docs/generate/sharding vectors     the same of tables of several bags and of sequences
//	go run ./docs/generate/sharding short       too little HBM, and memory on the hosts
//	go run ./docs/generate/sharding drawn       small problems with little HBM, and restricted searches
//	go run ./docs/generate/sharding precision   exchanges in 16 bits
//	go run ./docs/generate/sharding traffic     how much of the exchanges stays inside hosts
//	go run ./docs/generate/sharding operators   plans with and without divided operators
//	go run ./docs/generate/sharding lanes       plans by one lane rule, if the other rule holds
//
// With -doc FILE the table takes the place of the one in that document.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/marks"
	"github.com/neuroshard/neuroshard/problem/workload"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sharding: error:", err)
		stop()
		os.Exit(1)
	}
}

// program is what the tables are made with.
type program struct {
	out io.Writer
	// binary is the neuroshard binary, and runs the number of its runs for each scenario.
	binary string
	runs   int
	// folder holds the scenarios, and engines what TorchRec's planner took on them
	// here (docs/ENGINES.md).
	folder, engines string
	workloads       []string
}

func run(ctx context.Context, out io.Writer, args []string) error {
	p := &program{out: out}
	tables := map[string]func(context.Context, *program) error{
		"scenarios": scenarios, "workloads": gains, "pays": pays, "vectors": vectors, "short": short, "drawn": drawn, "precision": precision, "traffic": traffic, "operators": operators, "lanes": lanes,
	}
	const usage = "say which table to make: scenarios, workloads, pays, vectors, short, drawn, precision, traffic, operators or lanes"
	if len(args) == 0 {
		return fmt.Errorf("%s", usage)
	}
	help := slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0])
	table, ok := tables[args[0]]
	if !ok && !help {
		return fmt.Errorf("table %q is unknown: %s", args[0], usage)
	}
	flags := flag.NewFlagSet("sharding", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprintln(out, "usage: go run ./docs/generate/sharding TABLE [flags]\n\nTABLE is scenarios, workloads, pays, vectors, short, drawn, precision, traffic, operators or lanes.\n\nflags:")
		flags.PrintDefaults()
	}
	flags.StringVar(&p.binary, "binary", "bin/neuroshard", "the neuroshard `binary`, for scenarios")
	flags.IntVar(&p.runs, "runs", 10, "runs of each scenario; their median counts")
	flags.StringVar(&p.folder, "folder", "problem/input/testdata/scenarios", "`folder` of the scenarios")
	flags.StringVar(&p.engines, "engines", "docs/perf/engines.json", "`file` of python -m neuroshard_compare, for scenarios")
	doc := flags.String("doc", "", "document to put the tables into, in place of those between its marks: `file`")
	names := flags.String("workloads", strings.Join(workload.Names(), ","), "`names` of workloads, with commas between")
	if help {
		args = []string{"", "-h"}
	}
	if err := flags.Parse(args[1:]); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is one argument too many: give one table and flags", flags.Arg(0))
	}
	if p.runs < 1 {
		return fmt.Errorf("-runs: %d is not at least 1", p.runs)
	}
	for _, name := range strings.Split(*names, ",") {
		w, err := workload.ByName(name)
		if err != nil {
			return err
		}
		p.workloads = append(p.workloads, w.Name)
	}
	if *doc == "" {
		return table(ctx, p)
	}
	var made strings.Builder
	p.out = io.MultiWriter(out, &made)
	if err := table(ctx, p); err != nil {
		return err
	}
	return marks.Replace(*doc, "sharding "+args[0], strings.Split(strings.TrimSpace(made.String()), "\n\n"))
}

// head prints the head of a table: a column each, those of numbers with a leading
// ">".
func (p *program) head(columns ...string) {
	rule := ""
	for i, c := range columns {
		right := strings.HasPrefix(c, ">")
		columns[i] = strings.TrimPrefix(c, ">")
		if right {
			rule += "--:|"
		} else {
			rule += "---|"
		}
	}
	fmt.Fprintf(p.out, "| %s |\n|%s\n", strings.Join(columns, " | "), rule)
}

// row prints a row of a table.
func (p *program) row(cells ...string) { fmt.Fprintf(p.out, "| %s |\n", strings.Join(cells, " | ")) }
