package main

import (
	"embed"
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
)

// testdata holds the facts: numbers of public sources, each row with its source.
//
//go:embed testdata
var testdata embed.FS

// A fact is one row of a file of facts.
type fact struct {
	where  string
	values map[string]string
	err    error
}

// readFacts reads a CSV file of testdata with a header.
func readFacts(name string) ([]*fact, error) {
	file, err := testdata.Open("testdata/" + name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var all []*fact
	for i, line := range lines[1:] {
		f := &fact{where: fmt.Sprintf("%s:%d", name, i+2), values: map[string]string{}}
		for c, column := range lines[0] {
			f.values[column] = line[c]
		}
		all = append(all, f)
	}
	return all, nil
}

// text returns a value of the row. It panics on a column that the file lacks.
func (f *fact) text(column string) string {
	value, ok := f.values[column]
	if !ok {
		panic("reality: " + f.where + " has no column " + column)
	}
	return value
}

// number returns a value of the row, and 0 if the value is empty. The row keeps the first
// error.
func (f *fact) number(column string) float64 {
	text := f.text(column)
	if text == "" {
		return 0
	}
	v, err := strconv.ParseFloat(text, 64)
	if (err != nil || math.IsNaN(v) || math.IsInf(v, 0)) && f.err == nil {
		f.err = fmt.Errorf("%s: %s: %q is not a number", f.where, column, text)
	}
	return v
}

// count returns a whole number of the row.
func (f *fact) count(column string) int { return int(f.number(column)) }
