package main

import "fmt"

// A named sheet is one of a table.
type named struct {
	table string
	*sheet
}

// targets sums up all other tables: each set that has a target, and whether it was met.
func targets() (*sheet, error) {
	var all []named
	for _, t := range tables() {
		if t.name == targetsTable {
			continue
		}
		s, err := t.compute()
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", t.name, err)
		}
		all = append(all, named{t.name, s})
	}
	return targetsOf(all), nil
}

// targetsTable is the name of the table of targets.
const targetsTable = "targets"

// targetsOf returns the table of targets of other tables.
func targetsOf(all []named) *sheet {
	s := &sheet{columns: []string{"table", "rows", ">number", ">median error", ">worst", "target", "result"}}
	for _, one := range all {
		for _, set := range one.sets {
			if set.target == (goal{}) {
				continue
			}
			s.rows = append(s.rows, []string{
				one.table, set.name, fmt.Sprint(len(set.ratios)), percent(set.median()) + " " + set.unit(), signed(set.worst()) + " " + set.unit(), set.targets(), set.verdict(),
			})
		}
	}
	return s
}
