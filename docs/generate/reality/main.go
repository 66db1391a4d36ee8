// Command reality prints how far predictions are from published measurements: the first table of
// docs/RESULTS.md. It reads committed facts only (testdata, each row with its source), so it needs
// no network and no GPU, and prints the same bytes each time:
//
//	go run ./docs/generate/reality
//	go test ./docs/generate/reality -update    # writes the table into the document
//
// Each comparison has a function that reads facts and returns sets: rows that constants were
// fitted to are in the fit, all others are out of it.
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	text, err := summary()
	if err != nil {
		fmt.Fprintln(os.Stderr, "reality: error:", err)
		os.Exit(1)
	}
	fmt.Println(text)
}

// comparisons lists all comparisons in the order of the table.
func comparisons() []func() ([]*set, error) {
	return []func() ([]*set, error){allToAll, hipc, wholeSteps, planChanges, deviceRatios, oneMeasured, oneHot, stacks}
}

// summary returns the table in Markdown: one line for each set.
func summary() (string, error) {
	var b strings.Builder
	fmt.Fprint(&b, "| what | rows | number | median error | worst |\n|---|---|--:|--:|--:|")
	for _, compare := range comparisons() {
		sets, err := compare()
		if err != nil {
			return "", err
		}
		for _, s := range sets {
			fmt.Fprintf(&b, "\n| %s | %s | %d | %s %s | %s %s |", s.what, s.rows, len(s.ratios), percent(s.median()), s.unit(), signed(s.worst()), s.unit())
		}
	}
	return b.String(), nil
}
