package search

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// blocked is additive with blocks of rows on chosen devices: a block has its share of a table's time
// and all of its columns. Each placement costs a fixed time more.
type blocked struct {
	*additive
	fixed float64
}

// blockItem is above all items of slices.
const blockItem = 1_000_000

func (b blocked) Item(table, width int, form problem.Form) int {
	item := b.additive.Item(table, width, problem.Form{})
	if form == (problem.Form{}) {
		return item
	}
	if form != (problem.Form{Blocks: form.Blocks}) {
		panic(fmt.Sprintf("search: blocked does not estimate form %+v", form))
	}
	return blockItem*form.Blocks + item
}

func (b blocked) shift(device, item int, sign float64) {
	time, dims := b.price(item % blockItem)
	b.time[device] += sign * time / float64(max(1, item/blockItem))
	b.dims[device] += sign * dims
}

func (b blocked) Add(device, item int)    { b.shift(device, item, 1) }
func (b blocked) Remove(device, item int) { b.shift(device, item, -1) }
func (b blocked) Cost() float64           { return b.additive.Cost() + b.fixed }

func (b blocked) ComputeWith(item int, devices []int32, out []float64) {
	for i, d := range devices {
		b.Add(int(d), item)
		out[i] = b.Compute(int(d))
		b.Remove(int(d), item)
	}
}

// rowsProblem returns a problem for HugeCTR, and its run.
func rowsProblem(t *testing.T, fixed float64, p *problem.Problem) *run {
	t.Helper()
	p.Accounting, p.Engine = problem.CountAll, problem.HugeCTR
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	base := additiveFactory(p)
	opt, err := Options{Workers: 1, ShardingTypes: problem.ShardingTypes(), ChosenRows: true}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return newRun(context.Background(), p, func() Scorer { return blocked{base().(*additive), fixed} }, opt)
}

// inTurn returns the whole tables, dealt to the devices in turn.
func inTurn(p *problem.Problem) [][]problem.Shard {
	shards := make([][]problem.Shard, p.Topology.Devices)
	for i := range p.Tables {
		d := i % len(shards)
		shards[d] = append(shards[d], p.Whole(i))
	}
	return shards
}

// TestCutterCountsBytes: after each of many changes, the bytes that a cutter counts are those of the
// shards, and every device receives a vector of each sample and of each block but the first.
func TestCutterCountsBytes(t *testing.T) {
	p := handMade(unit.GiB, 8, table{1000, 32, 9}, table{77, 16, 4}, table{5, 64, 2}, table{400, 8, 30},
		table{10, 4, 1}, table{10, 4, 1}, table{10, 4, 1}, table{10, 4, 1})
	p.Topology.NetworkBandwidth, p.Topology.DevicesPerHost, p.Batch = 1e10, 4, 800
	r := rowsProblem(t, 0, p)
	shards := inTurn(p)
	c := newCutter(r, p, shards)
	blocks := map[int]bool{}
	for range 2000 {
		i := c.tables[c.draw.IntN(len(c.tables))]
		at := c.places[i]
		c.take(i)
		if next, ok := c.change(i, at, 1); ok && !c.onHost(next) {
			at = next
		}
		c.put(i, at)
		cut := at.cut
		if blocks[cut.blocks] = true; cut.blocks > 1 && !p.Tables[i].CutsByRows(cut.blocks) {
			t.Fatalf("got %d rows in %d blocks", p.Tables[i].Rows, cut.blocks)
		}
		received := int64(0)
		for i := range p.Tables {
			if n := c.places[i].cut.blocks; n > 1 {
				received += int64(n-1) * 100 * int64(p.Tables[i].Dim) * 4
			}
		}
		if c.received != received {
			t.Fatalf("got %d bytes received, want %d", c.received, received)
		}
		for d, held := range c.shards(shards, c.places) {
			bytes := int64(0)
			for k, s := range held {
				if s.Blocks > 1 { // a shorter last block counts as a full one
					s.Rows = problem.Range{End: p.Tables[s.Table].BlockRows(s.Blocks)}
				}
				bytes += int64(p.ShardMemory(s).Tables())
				if k > 0 && held[k-1].Table >= s.Table {
					t.Fatalf("device %d: got shards %v, want one of each table, in the order of the tables", d, held)
				}
			}
			if c.used[d] != bytes || c.held[d] != len(held) {
				t.Fatalf("device %d: got %d bytes of %d parts, want %d of %d", d, c.used[d], c.held[d], bytes, len(held))
			}
		}
		c.budget = slices.Max(c.used) + received
		full := !slices.Contains(c.held, 0)
		if c.fits() != full {
			t.Fatalf("got fits %v with exactly the memory and %v parts", !full, c.held)
		}
		if c.budget--; c.fits() {
			t.Fatal("got fits with a byte less than the fullest device needs")
		}
	}
	for n := 2; n < 8; n++ {
		if !blocks[n] {
			t.Errorf("no table was cut into %d blocks", n)
		}
	}
	if len(blocks) != 7 {
		t.Errorf("got tables in these numbers of blocks: %v, want 2 to 7, and 0", blocks)
	}
}

// TestRowsMustSave: rows on chosen devices stay only if they save more than a thousandth of the
// cost. Here one of four tables takes most of the time, and rows save the same time of placements
// that differ in a fixed time.
func TestRowsMustSave(t *testing.T) {
	for _, c := range []struct {
		fixed float64
		saves bool
	}{{0, true}, {100_000, true}, {10_000_000, false}} {
		p := handMade(unit.GiB, 4, table{1000, 4, 250}, table{1000, 4, 25}, table{1000, 4, 25}, table{1000, 4, 25})
		r := rowsProblem(t, c.fixed, p)
		r.scorer().Reset()
		found := Result{Shards: inTurn(p), Cost: 1000.4 + c.fixed, Status: Complete}
		got := chosenRows(r, p, found)
		if saved := found.Cost - got.Cost; (saved > 400) != c.saves || !c.saves && saved != 0 {
			t.Errorf("beside %v ms: got a placement that saves %v ms of %v, want saved: %v", c.fixed, saved, found.Cost, c.saves)
		}
		cut := slices.ContainsFunc(slices.Concat(got.Shards...), func(s problem.Shard) bool { return s.Blocks > 1 })
		if cut != c.saves {
			t.Errorf("beside %v ms: got blocks of rows %v, want %v", c.fixed, cut, c.saves)
		}
		if got.Stats.Evaluations != rowTries {
			t.Errorf("got %d evaluations, want %d", got.Stats.Evaluations, rowTries)
		}
		for _, left := range []func(*Result, *run){
			func(found *Result, _ *run) { found.Status = OutOfBudget },
			func(found *Result, _ *run) { found.Optimal = true },
			func(_ *Result, r *run) { r.most = 1 },
		} {
			other := found
			left(&other, r)
			if got := chosenRows(r, p, other); got.Cost != found.Cost {
				t.Errorf("got a search for rows in a search that a budget limits, or that tried all placements")
			}
			r.most = 0
		}
	}
}

// TestConstrainedTablesStay: tables that a constraint keeps whole, together, or off some devices or
// sharding types are not cut by rows.
func TestConstrainedTablesStay(t *testing.T) {
	p := handMade(unit.GiB, 4, table{100, 8, 1}, table{100, 8, 1}, table{100, 8, 1}, table{100, 8, 1}, table{100, 8, 1})
	p.Tables[0].Constraint = problem.Constraint{NoSplit: true}
	p.Tables[1].Constraint = problem.Constraint{Devices: []int{1}}
	p.Tables[2].Constraint = problem.Constraint{Colocation: "pair"}
	p.Tables[3].Constraint = problem.Constraint{ShardingTypes: []problem.ShardingType{problem.TableWise}}
	p.Topology.ReserveShare = hardware.NoReserve
	r := rowsProblem(t, 0, p)
	if c := newCutter(r, p, inTurn(p)); !slices.Equal(c.tables, []int{4}) {
		t.Errorf("tables %v may be cut by rows, want table 4 alone", c.tables)
	}
	r.opt.ShardingTypes = []problem.ShardingType{problem.TableWise, problem.ColumnWise}
	if c := newCutter(r, p, inTurn(p)); c.tables != nil {
		t.Errorf("without row_wise: tables %v may be cut by rows, want none", c.tables)
	}
}
