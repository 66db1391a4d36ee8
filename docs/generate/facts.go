package main

import (
	"embed"
	"encoding/csv"
	"fmt"
	"strconv"
)

// testdata holds the facts: numbers of public sources, each row with its source.
//
//go:embed testdata
var testdata embed.FS

// must returns v. It panics on an error: the facts are part of the program, so what is wrong with them
// is a bug.
func must[T any](v T, err error) T {
	if err != nil {
		panic("generate: " + err.Error())
	}
	return v
}

// A fact is one row of a file of facts.
type fact struct {
	where  string
	values map[string]string
}

// readFacts reads a CSV file of testdata with a header.
func readFacts(name string) (all []fact) {
	file := must(testdata.Open("testdata/" + name))
	defer file.Close()
	lines := must(csv.NewReader(file).ReadAll())
	for i, line := range lines[1:] {
		f := fact{fmt.Sprintf("%s:%d", name, i+2), map[string]string{}}
		for c, column := range lines[0] {
			f.values[column] = line[c]
		}
		all = append(all, f)
	}
	return all
}

// text returns a value of the row.
func (f fact) text(column string) string {
	value, ok := f.values[column]
	if !ok {
		panic("generate: " + f.where + " has no column " + column)
	}
	return value
}

// number returns a value of the row, and 0 if the value is empty.
func (f fact) number(column string) float64 {
	text := f.text(column)
	if text == "" {
		return 0
	}
	return must(strconv.ParseFloat(text, 64))
}

// count returns a whole number of the row.
func (f fact) count(column string) int { return int(f.number(column)) }
