package search

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

func never() bool { return false }

// drawn returns a problem of small tables with all pieces of overheads and limits to
// splitting, on devices with room for whatever they take.
func drawn(intN func(n int) int, devices, tables int) *problem.Problem {
	p := &problem.Problem{
		Batch:    1 << intN(8),
		Topology: hardware.Topology{Profile: hardware.Profiles()[0], Devices: devices, Memory: unit.GiB, ReserveShare: hardware.NoReserve},
	}
	for i := range tables {
		t := problem.Table{
			Name: fmt.Sprint(i), Rows: int64(1 + intN(60)), Dim: 4 * (1 + intN(8)),
			Optimizer: problem.Optimizer(intN(4)), Precision: problem.Precision(intN(2)), Weighted: intN(4) == 0,
			Features: []problem.Feature{{PoolingFactor: float64(intN(30)) / 10}},
		}
		switch intN(6) {
		case 0, 1:
			t.Constraint.MinWidth = min(t.Dim, 4*(1+intN(4)))
		case 2:
			t.Constraint.NoSplit = true
		}
		p.Tables = append(p.Tables, t)
	}
	return p
}

// leave sets the memory of the devices so that shards may take that many bytes.
func leave(p *problem.Problem, budget int64) {
	p.Topology.Memory = p.DeviceMemory(0)[problem.ForwardExchange].Used() + unit.Bytes(budget)
}

// columnsOf returns the variants in slices of columns, one of each table; nil if a table fits no device.
func columnsOf(c *catalog) (loads []variant) {
	columns := onlyColumns(c)
	for _, list := range variantsOf(c, &columns, false) {
		if len(list) == 0 {
			return nil
		}
		loads = append(loads, list[0])
	}
	return loads
}

// apiece returns lists of one variant each.
func apiece(loads []variant) (all [][]variant) {
	for i := range loads {
		all = append(all, loads[i:i+1])
	}
	return all
}

// total returns the bytes of the loads, unsplit.
func total(loads []variant) (sum int64) {
	for i := range loads {
		sum += loads[i].own.of(loads[i].width)[0]
	}
	return sum
}

// TestPropertyPourPlacesWhatIsCertain draws problems that just meet the conditions
// of pack.go.
func TestPropertyPourPlacesWhatIsCertain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		intN := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") }
		devices := 1 + intN(8)
		p := drawn(intN, devices, 1+intN(20))
		if intN(3) == 0 {
			for range 3 {
				p.Tables[intN(len(p.Tables))].Constraint.Colocation = fmt.Sprint(intN(2))
			}
		}
		p.Accounting = problem.CountWeights // the same bytes in all phases
		c := newCatalog(p, nil)
		loads := columnsOf(c)
		// Any table's least slice may be what L is.
		at := &loads[intN(len(loads))]
		least := at.own.of(at.least())[0]
		budget := (total(loads)+int64(devices)-1)/int64(devices) + least
		bulky, together := 0, int64(0)
		for i := range loads {
			if l := &loads[i]; l.own.of(l.least())[0] > least {
				bulky++
				together += l.own.of(l.width)[0]
				budget = max(budget, l.own.of(l.width)[0])
			}
		}
		if bulky > devices {
			budget = max(budget, (2*together+int64(devices)-1)/int64(devices))
		}
		leave(p, budget)
		c = newCatalog(p, nil)
		if c.budget[c.phase] != budget {
			t.Fatalf("got a budget of %d, want %d", c.budget[c.phase], budget)
		}
		pk := newPacker(c, apiece(columnsOf(c)))
		if pk.overflow() > 0 {
			t.Errorf("got %v of a device too much of %+v on %d devices of %d bytes, with L = %d", pk.overflow(), columnsOf(c), devices, budget, least)
		}
		r, err := Run(context.Background(), p, additiveFactory(p), Options{Workers: 1, MaxEvaluations: 1})
		if err != nil {
			t.Errorf("got error %v, want a plan", err)
		}
		if len(r.Shards) != devices {
			t.Errorf("got %d devices, want %d", len(r.Shards), devices)
		}
	})
}

// TestPropertyBytesOfSlices checks what the packing takes for granted of package
// problem: bytes grow evenly with the width, and one slice takes no more than two.
func TestPropertyBytesOfSlices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawn(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") }, 2, 1)
		if rapid.Bool().Draw(t, "weights only") {
			p.Accounting = problem.CountWeights
		}
		c := newCatalog(p, nil)
		l := columnsOf(c)[0]
		bytes := func(width int32) perPhase {
			s := p.Whole(0)
			s.Columns.End = int64(width) * problem.ColumnGranule
			return bytesOf(p.ShardMemory(s).Used())
		}
		for w := int32(1); w <= l.width; w++ {
			if got, want := l.own.of(w), bytes(w); got != want {
				t.Errorf("%d granules: got %d bytes, want %d", w, got, want)
			}
			if left := w / 2; left > 0 && bytes(w)[c.phase] > bytes(left)[c.phase]+bytes(w - left)[c.phase] {
				t.Errorf("%d granules take %d bytes, more than two slices of them", w, bytes(w)[c.phase])
			}
		}
		if slices.Min(l.own.fixed[:]) < 0 || slices.Min(l.own.each[:]) < 1 {
			t.Errorf("got %+v, want no negative bytes", l)
		}
	})
}

// TestWholeTablesFillDevices draws whole tables that just fill the devices, where pouring and a search
// through all placements do not help: most get a placement.
func TestWholeTablesFillDevices(t *testing.T) {
	solved := 0
	for seed := range uint64(2) {
		random := rand.New(rand.NewPCG(seed, 9))
		var tables []table
		for range 6 { // devices
			a, b := 2_500+random.Int64N(1_500), 2_500+random.Int64N(1_500)
			tables = append(tables, table{a, 4, 1}, table{b, 4, 1}, table{10_000 - a - b, 4, 1})
		}
		p := handMade(16*10_100, 6, tables...)
		if r, err := Run(context.Background(), p, additiveFactory(p), Options{ShardingTypes: []problem.ShardingType{problem.TableWise}, MaxEvaluations: 1, Brief: true}); err == nil {
			if got := len(slices.Concat(r.Shards...)); got != len(tables) {
				t.Errorf("seed %d: got %d tables placed, want %d", seed, got, len(tables))
			}
			solved++
		}
	}
	if solved < 2 {
		t.Errorf("got placements for %d of 2 problems, want both", solved)
	}
}
