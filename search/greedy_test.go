package search

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A coarse placement fits and covers all tables, and each of its slices that can be cut is no
// wider and takes no longer than its division allows. The state stays at most as expensive.
func TestCoarsePlacements(t *testing.T) {
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		r, first := firstFitted(t, drawHandMade(t))
		if r == nil {
			return
		}
		before := state{best: first, forced: first.division, fitting: first.division}
		after := coarse(r, before, 1)
		if after.best.cost > first.cost || len(after.coarse) > len(coarseClasses) {
			t.Fatalf("got cost %v and %d placements, want at most %v and %d", after.best.cost, len(after.coarse), first.cost, len(coarseClasses))
		}
		for _, parts := range after.coarse {
			found++
			checkParts(t, r.catalog, parts)
			if !slices.ContainsFunc(coarseClasses, func(class uint8) bool { return isCoarse(r.catalog, first.division.pieces(), parts, class) }) {
				t.Fatalf("%v is no placement of a coarse division", parts)
			}
		}
	})
	if found == 0 && !testing.Short() {
		t.Error("no coarse placement was found")
	}
}

// isCoarse reports whether each slice that can be cut is within the class and takes at most the
// mean load of a device, once all pieces are cut to the class.
func isCoarse(c *catalog, pieces []int32, parts []placed, class uint8) bool {
	mean := c.meanTime(c.halved(pieces, func(k int32) bool { return c.pieces[k].class > class }))
	return !slices.ContainsFunc(parts, func(p placed) bool {
		_, _, ok := c.cut(p.piece)
		return ok && (c.pieces[p.piece].class > class || c.time(p.piece) > mean)
	})
}

// summed is a Scorer whose times add up.
type summed struct{ Scorer }

func (summed) Additive() bool { return true }

// A problem is large if the published search is not run and no shape is placed, unless the caller
// steers the beam or the times of slices add up.
func TestLargeProblems(t *testing.T) {
	for _, c := range []struct {
		pieces, devices int
		opt             Options
		scorer          Scorer
		want            bool
	}{
		{publishedPieces, 2 * largePairs, Options{}, nil, false},
		{publishedPieces + 1, 93, Options{}, nil, true},
		{publishedPieces + 1, 92, Options{}, nil, false},
		{largePairs, 1, Options{}, nil, false},
		{largePairs + 1, 1, Options{}, nil, true},
		{largePairs + 1, 1, Options{}, summed{}, false},
		{largePairs + 1, 1, Options{Beam: defaultBeam, Grid: defaultGrid}, nil, true},
		{largePairs + 1, 1, Options{Candidates: 11}, nil, false},
		{largePairs + 1, 1, Options{Beam: 4}, nil, false},
		{largePairs + 1, 1, Options{Steps: 11}, nil, false},
		{largePairs + 1, 1, Options{Grid: 12}, nil, false},
	} {
		opt, err := c.opt.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		r := &run{opt: opt, catalog: &catalog{all: make([]int32, c.devices)}, workers: []*worker{{scorer: c.scorer}}}
		if got := r.large(&division{entries: make([]entry, c.pieces)}); got != c.want {
			t.Errorf("%d pieces on %d devices, %+v: got %v, want %v", c.pieces, c.devices, c.opt, got, c.want)
		}
	}
}
