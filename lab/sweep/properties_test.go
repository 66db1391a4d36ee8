package sweep

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/problem"
)

// Every combination is a cell once, the parts of a sweep have each cell once, and a part says
// how many cells it has.
func TestCellsAndParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := func(name string) []int {
			return rapid.SliceOfNDistinct(rapid.IntRange(1, 64), 0, 4, rapid.ID[int]).Draw(t, name)
		}
		axes := Axes{Counts: numbers("devices"), Hosts: numbers("hosts"), PerDevice: numbers("batches"), Devices: []string{"a100-80", "h100-80"}, Precisions: []problem.Precision{problem.FP16, problem.FP32}}
		list := axes.list()
		seen := map[string]bool{}
		for i := range cells(list) {
			c := combinationOf(list, i)
			seen[fmt.Sprint(c.count, c.host, c.perDevice, c.device, *c.precision)] = true
		}
		if want := max(1, len(axes.Counts)) * max(1, len(axes.Hosts)) * max(1, len(axes.PerDevice)) * 4; cells(list) != want || len(seen) != want {
			t.Fatalf("got %d cells and %d combinations, want %d", cells(list), len(seen), want)
		}
		n := rapid.IntRange(1, cells(list)).Draw(t, "parts")
		held := 0
		for i := range n {
			part, size := Part{i + 1, n}, 0
			for cell := range cells(list) {
				if part.has(cell) {
					size++
				}
			}
			if size != part.size(cells(list)) || size == 0 {
				t.Fatalf("part %v of %d cells: got size %d, want %d", part, cells(list), part.size(cells(list)), size)
			}
			held += size
		}
		if held != cells(list) {
			t.Fatalf("the parts have %d cells, want %d", held, cells(list))
		}
	})
}

// One cell of each scale is the fastest and one the cheapest; a cell that ties differs from it
// by less than the error bar; a sweep of one curve has at most one knee.
func TestMarksHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "cells")
		file := File{Head: Head{Cells: n, Part: Part{1, 1}, Axes: []Axis{{axisDevices, make([]string, n)}}}}
		for i := range n {
			o := outcome(i+1, "none", i+1, rapid.Float64Range(1, 100).Draw(t, "speed"), rapid.Float64Range(0, 9).Draw(t, "price"), rapid.Float64Range(0, 30).Draw(t, "bar"))
			if rapid.Bool().Draw(t, "unfit") {
				o.Plan, o.Status = nil, Infeasible
			}
			file.Outcomes = append(file.Outcomes, o)
		}
		for _, by := range []By{"", BySpeed, ByCost} {
			r := NewResults(file, by)
			count := map[Mark]int{}
			plans, fastest := 0, 0.0
			for i, o := range r.Outcomes {
				if o.Plan != nil {
					plans++
					fastest = max(fastest, o.Plan.SamplesPerSecond)
				}
				for _, m := range r.Marks[i] {
					count[m]++
					if o.Plan == nil {
						t.Fatalf("cell %d has no plan, and mark %q", o.Number, m)
					}
				}
			}
			if count[Fastest] != min(1, plans) || count[Cheapest] > 1 || count[Knee] > 1 {
				t.Fatalf("got marks %v of %d plans", count, plans)
			}
			for i, o := range r.Outcomes {
				switch {
				case slices.Contains(r.Marks[i], Fastest) && o.Plan.SamplesPerSecond != fastest:
					t.Fatalf("cell %d is marked fastest at %v, want %v", o.Number, o.Plan.SamplesPerSecond, fastest)
				case slices.Contains(r.Marks[i], AsFast) && fastest/o.Plan.SamplesPerSecond > 1.3:
					t.Fatalf("cell %d is marked as fast at %v, and the fastest has %v", o.Number, o.Plan.SamplesPerSecond, fastest)
				}
			}
			order := slices.Clone(r.Order)
			if slices.Sort(order); len(order) != n || order[0] != 0 || order[n-1] != n-1 {
				t.Fatalf("got order %v of %d cells", r.Order, n)
			}
		}
	})
}
