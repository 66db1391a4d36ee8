// Command generate prints the tables of docs/RESULTS.md from committed facts, so it needs no network
// and no GPU, and prints the same bytes each time:
//
//	go run ./docs/generate            # predictions beside published times, and beside our own
//	go run ./docs/generate embark hugectr-510   # plans beside those of EMBark, in minutes
//	go test ./docs/generate -update   # writes the tables into the document
//
// The published times are in testdata, each row with its source. Each comparison has a function that
// reads facts and returns sets: rows that constants were fitted to are in the fit, all others are out
// of it. What scripts/measure-gpu measured is in docs/measured, a folder for each backend. The tests
// fit the constants of the simulated device and of stacks to these times.
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "embark" {
		embark(os.Args[2])
		return
	}
	fmt.Println(strings.Join(parts("docs/measured"), "\n\n"))
}

// parts returns the generated parts of the document, in Markdown: beside published measurements, of
// GPUs that no constant was fitted to, of memory, and beside our own measurements in a folder.
func parts(folder string) []string {
	return []string{summary(), unseenTable(), memoryTable(), ownTable(folder)}
}

// comparisons lists all comparisons in the order of the table.
func comparisons() []func() []*set {
	return []func() []*set{allToAll, hipc, wholeSteps, oneMeasured, oneHot, stacks}
}

// summary returns the table in Markdown: one line for each set.
func summary() string {
	var b strings.Builder
	fmt.Fprint(&b, "| what | rows | number | median error | worst |\n|---|---|--:|--:|--:|")
	for _, compare := range comparisons() {
		for _, s := range compare() {
			fmt.Fprintf(&b, "\n| %s | %s | %d | %s %% | %s %% |", s.what, s.rows, len(s.ratios), percent(s.median()), signed(s.worst()))
		}
	}
	return b.String()
}
