package search

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// rows.go cuts tables by rows over chosen devices (problem.Form.Blocks), for an engine that runs
// such plans. It begins with the placement that the stages found. Tables on single devices change
// places, one at a time:
//
//	blocks   a table is cut into blocks of rows, or into equal slices of columns, and its parts
//	         go to the devices that compute the least with a part
//	move     one part of a table goes to another device
//
// A change that makes the placement more expensive may stay, as in an annealing, and the cheapest
// placement is returned if it saves more than leastGain. Bytes are counted exactly, with those
// that every device receives from blocks. A piece of the other stages has all rows, so these
// placements are made of parts of their own.

const (
	// rowTries is the number of changes tried. On many devices these are fewer: at most mostRowWork
	// divided by the number of devices.
	rowTries    = 80_000
	mostRowWork = 1_600_000
	// rowHeat is the temperature at the start, as a share of the cost.
	rowHeat = .01
	// mostBlocks is the largest number of blocks that are tried.
	mostBlocks = 16
	// leastGain is the share of the cost that rows must save.
	leastGain = 1e-3
)

// part is a part of a table on a device: a block of rows or a slice of columns.
type part struct {
	device int
	item   int
	bytes  int64
}

// rowCut is how a table is cut into equal parts: blocks of rows, or slices of columns.
type rowCut struct {
	blocks, width int
}

// place is where the parts of a table lie. It must not be modified.
type place struct {
	cut   rowCut
	parts []part
}

// cutter is a placement in which tables are cut by rows over chosen devices.
type cutter struct {
	problem *problem.Problem
	scorer  Scorer
	draw    *rand.Rand
	// tables may change places, and places are those of each table.
	tables []int
	places []place
	// used is the bytes, and held the number of parts, of each device. received is the bytes that
	// each device receives from blocks.
	used     []int64
	held     []int
	received int64
	budget   int64
	devices  []int32
	order    []int
	busy     []float64
	// best is the cost of the cheapest placement, and bestPlaces are its places.
	best       float64
	bestPlaces []place
}

// chosenRows returns the result with tables cut by rows over chosen devices, if the engine runs
// such plans and the result is cheaper.
func chosenRows(r *run, p *problem.Problem, found Result) Result {
	if !r.opt.Chooses(p) || found.Status != Complete || found.Optimal || r.most > 0 {
		return found
	}
	c := newCutter(r, p, found.Shards)
	if len(c.tables) == 0 {
		return found
	}
	start, tries := c.scorer.Cost(), min(rowTries, mostRowWork/len(c.devices))
	c.best, c.bestPlaces = start, slices.Clone(c.places)
	whole := c.anneal(r, start, tries)
	c.scorer.Reset()
	if !whole {
		return found
	}
	found.Stats.Evaluations += int64(tries)
	if c.best >= start*(1-leastGain) {
		return found
	}
	found.Shards, found.Cost = c.shards(found.Shards, c.bestPlaces), c.best
	return found
}

// anneal tries a number of changes of the placement, which costs start. It returns false if the
// search was ended.
func (c *cutter) anneal(r *run, start float64, tries int) bool {
	current := start
	for i := range tries {
		if i%256 == 0 && r.ended() {
			return false
		}
		heat := rowHeat * start * (1 - float64(i)/float64(tries))
		table := c.tables[c.draw.IntN(len(c.tables))]
		was := c.places[table]
		c.take(table)
		next, ok := c.change(table, was, heat)
		if !ok || c.onHost(next) {
			c.put(table, was)
			continue
		}
		c.put(table, next)
		cost := c.scorer.Cost()
		if !c.fits() || cost > current+heat*c.draw.ExpFloat64() {
			c.take(table)
			c.put(table, was)
			continue
		}
		if current = cost; cost < c.best {
			c.best, c.bestPlaces = cost, slices.Clone(c.places)
		}
	}
	return true
}

// newCutter returns the placement of the shards.
func newCutter(r *run, p *problem.Problem, shards [][]problem.Shard) *cutter {
	n := len(shards)
	c := &cutter{
		problem: p, scorer: r.scorer(), draw: rand.New(rand.NewPCG(r.opt.Seed, 0x726f7773)), budget: r.catalog.budget,
		places: make([]place, len(p.Tables)), used: slices.Clone(r.catalog.short), held: make([]int, n), busy: make([]float64, n),
	}
	c.scorer.Reset()
	type slice struct {
		table int
		first int64
	}
	seen := map[slice]bool{}
	for d, held := range shards {
		c.devices, c.order = append(c.devices, int32(d)), append(c.order, d)
		for _, s := range held {
			form := p.Form(s)
			c.used[d] += int64(p.ShardMemory(s).Tables())
			c.held[d]++
			if form == (problem.Form{}) {
				at := &c.places[s.Table]
				at.parts = append(at.parts, part{d, c.scorer.Item(s.Table, s.Dim(), form), int64(p.ShardMemory(s).Tables())})
				at.cut.width = s.Dim()
			}
			if key := (slice{s.Table, s.Columns.Start}); !form.ShardingType.Joint() || !seen[key] {
				seen[key] = true
				c.scorer.Add(d, c.scorer.Item(s.Table, s.Dim(), form))
			}
		}
	}
	for i := range p.Tables {
		if c.places[i].parts != nil && mayCutRows(&p.Tables[i], r.opt.ShardingTypes) {
			c.tables = append(c.tables, i)
		}
	}
	return c
}

// take takes the table off its devices, and put puts it in a place.
func (c *cutter) take(table int) { c.add(table, -1) }

func (c *cutter) put(table int, at place) {
	c.places[table] = at
	c.add(table, 1)
}

func (c *cutter) add(table int, sign int) {
	for _, x := range c.places[table].parts {
		if sign > 0 {
			c.scorer.Add(x.device, x.item)
		} else {
			c.scorer.Remove(x.device, x.item)
		}
		c.used[x.device] += int64(sign) * x.bytes
		c.held[x.device] += sign
	}
	if cut := c.places[table].cut; cut.blocks > 1 {
		_, s := c.part(table, cut)
		s.Rows.Start = 1 // not the first block
		c.received += int64(sign) * int64(cut.blocks-1) * int64(c.problem.ReceivedOf(s))
	}
}

// fits reports whether each device has room for what it holds and receives, and holds a part.
func (c *cutter) fits() bool {
	for d, used := range c.used {
		if used+c.received > c.budget || c.held[d] == 0 {
			return false
		}
	}
	return true
}

// part returns the form of a part of the table, and the first part as a shard.
func (c *cutter) part(table int, cut rowCut) (problem.Form, problem.Shard) {
	s := c.problem.Whole(table)
	s.Columns.End = int64(cut.width)
	if cut.blocks < 2 {
		return problem.Form{}, s
	}
	s.ShardingType, s.Blocks = problem.RowWise, cut.blocks
	s.Rows.End = c.problem.Tables[table].BlockRows(cut.blocks)
	return problem.Form{Blocks: cut.blocks}, s
}

// onHost reports whether the blocks of a place lie on all devices of a host: such a table is
// table_row_wise.
func (c *cutter) onHost(at place) bool {
	per := c.problem.Topology.PerHost()
	return at.cut.blocks == per && !slices.ContainsFunc(at.parts, func(x part) bool { return x.device/per != at.parts[0].device/per })
}

// change draws another place for a table that was taken off its devices.
func (c *cutter) change(table int, was place, heat float64) (place, bool) {
	t, n := &c.problem.Tables[table], len(c.devices)
	switch c.draw.IntN(3) {
	case 0:
		cut := rowCut{2 + c.draw.IntN(min(n-1, mostBlocks)-1), t.Dim} // all devices is row_wise
		return c.least(table, cut, cut.blocks, heat), t.CutsByRows(cut.blocks)
	case 1:
		widths := t.EqualWidths()
		cut := rowCut{0, widths[c.draw.IntN(len(widths))]}
		if t.Dim/cut.width > n {
			return place{}, false
		}
		return c.least(table, cut, t.Dim/cut.width, heat), true
	}
	moved := slices.Clone(was.parts)
	k, to := c.draw.IntN(len(moved)), c.draw.IntN(n)
	if slices.ContainsFunc(moved, func(x part) bool { return x.device == to }) {
		return place{}, false
	}
	moved[k].device = to
	return place{was.cut, moved}, true
}

// least puts the parts of a table on the devices that compute the least with a part, after a
// random time of up to three times the heat is added to each device.
func (c *cutter) least(table int, cut rowCut, parts int, heat float64) place {
	form, s := c.part(table, cut)
	x := part{item: c.scorer.Item(table, cut.width, form), bytes: int64(c.problem.ShardMemory(s).Tables())}
	c.scorer.ComputeWith(x.item, c.devices, c.busy)
	for d := range c.busy {
		c.busy[d] += 3 * heat * c.draw.Float64()
	}
	slices.SortFunc(c.order, func(a, b int) int { return cmp.Or(cmp.Compare(c.busy[a], c.busy[b]), cmp.Compare(a, b)) })
	placed := make([]part, parts)
	for k := range placed {
		placed[k] = x
		placed[k].device = c.order[k]
	}
	return place{cut, placed}
}

// shards returns the shards with the tables that may change in other places.
func (c *cutter) shards(before [][]problem.Shard, places []place) [][]problem.Shard {
	after := make([][]problem.Shard, len(before))
	for d, held := range before {
		for _, s := range held {
			if _, may := slices.BinarySearch(c.tables, s.Table); !may {
				after[d] = append(after[d], s)
			}
		}
	}
	for _, i := range c.tables {
		parts := slices.SortedFunc(slices.Values(places[i].parts), func(a, b part) int { return cmp.Compare(a.device, b.device) })
		for k, x := range parts {
			_, s := c.part(i, places[i].cut)
			if blocks := places[i].cut.blocks; blocks > 1 {
				height := s.Rows.End
				s.Rows = problem.Range{Start: int64(k) * height, End: min(c.problem.Tables[i].Rows, int64(k+1)*height)}
			} else {
				width := int64(places[i].cut.width)
				s.Columns = problem.Range{Start: int64(k) * width, End: int64(k+1) * width}
			}
			after[x.device] = append(after[x.device], s)
		}
	}
	for d := range after {
		slices.SortFunc(after[d], func(a, b problem.Shard) int {
			return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Columns.Start, b.Columns.Start))
		})
	}
	return after
}
