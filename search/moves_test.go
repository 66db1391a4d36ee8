package search

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// formless estimates a slice in any form as a slice in HBM.
type formless struct{ *additive }

func (f formless) Item(table, width int, _ problem.Form) int {
	return f.additive.Item(table, width, problem.Form{})
}

func formlessFactory(p *problem.Problem) Factory {
	return func() Scorer { return formless{additiveFactory(p)().(*additive)} }
}

// moverOn returns a mover of a layout with a whole table on each device, in the order of
// the tables.
func moverOn(p *problem.Problem, newScorer Factory, opt Options) *mover {
	r := newRun(context.Background(), p, newScorer, opt)
	m := &mover{layout: newLayout(r.catalog, r.scorer(), r.forms), draw: rand.New(rand.NewPCG(1, 0))}
	var parts []placed
	for i, k := range r.catalog.whole() {
		parts = append(parts, placed{k, int32(i % p.Topology.Devices)})
	}
	m.reset(parts)
	return m
}

// slotsOf returns the slot of each table's first part.
func slotsOf(m *mover, tables int) []int32 {
	slots := make([]int32, tables)
	for t := range slots {
		slots[t] = m.tables[t][0]
	}
	return slots
}

// widthsOn returns the widths that the devices hold of each table after the proposed
// change, by device and table.
func widthsOn(m *mover) [][]int {
	widths := make([][]int, len(m.held))
	for d := range widths {
		widths[d] = make([]int, len(m.c.problem.Tables))
	}
	add := func(p placed) {
		k := m.c.pieces[p.piece].members[0]
		widths[p.device][k.table] += k.width
	}
	for _, slot := range m.live {
		if !slices.Contains(m.gone, slot) {
			add(m.parts[slot])
		}
	}
	for _, p := range m.come {
		add(p)
	}
	return widths
}

// Device 0 holds 48 columns of A, and device 1 16 of B. After a trade, device 0 holds 32
// of A beside B, and device 1 16 of A. The sums of columns stay the same.
func TestTrade(t *testing.T) {
	p := handMade(unit.GiB, 2, table{10, 48, 1}, table{10, 16, 1})
	for range 20 {
		m := moverOn(p, additiveFactory(p), Options{Method: NeuroShard})
		if !m.trade(slotsOf(m, 2)[0]) {
			continue // drew A as the other slice
		}
		if got := widthsOn(m); got[0][0] != 32 || got[0][1] != 16 || got[1][0] != 16 || got[1][1] != 0 {
			t.Errorf("got widths %v by device and table, want A 32, B 16 and A 16", got)
		}
		return
	}
	t.Error("no trade was proposed")
}

// A table that must not be narrower than 32 columns gives no part of 16 away.
func TestTradeKeepsLeastWidth(t *testing.T) {
	p := handMade(unit.GiB, 2, table{10, 48, 1}, table{10, 16, 1})
	p.Tables[0].Constraint.MinWidth = 32
	m := moverOn(p, additiveFactory(p), Options{Method: NeuroShard})
	for range 20 {
		m.gone, m.come = m.gone[:0], m.come[:0]
		if m.trade(slotsOf(m, 2)[0]) {
			t.Fatalf("got %v, want no change", widthsOn(m))
		}
	}
}

// Device 0 sends 64 columns and device 1 sends 16. Of two features each, a column of A
// counts twice. So 12 of 32 columns go.
func TestBalance(t *testing.T) {
	p := handMade(unit.GiB, 2, table{10, 32, 1}, table{10, 16, 1})
	p.Tables[0].Features = []problem.Feature{{PoolingFactor: 1}, {PoolingFactor: 1}}
	m := moverOn(p, additiveFactory(p), Options{Method: NeuroShard})
	if !m.balance(slotsOf(m, 2)[0]) {
		t.Fatal("got no change, want one")
	}
	if got := widthsOn(m); got[0][0] != 20 || got[1][0] != 12 {
		t.Errorf("got widths %v, want 20 and 12 of A", got)
	}
	m.gone, m.come = m.gone[:0], m.come[:0]
	if m.balance(slotsOf(m, 2)[1]) {
		t.Errorf("got %v, want no columns moved to a device that sends more", widthsOn(m))
	}
}

// One slice of a table goes into host memory, and the other stays in HBM. Both slices may
// then lie on one device without becoming one.
func TestRetier(t *testing.T) {
	p := onHosts(problem.Constraint{}, problem.Constraint{})
	m := moverOn(p, formlessFactory(p), Options{Method: NeuroShard, ShardingTypes: []problem.ShardingType{problem.ColumnWise}})
	half := m.c.slice(m.forms.whole[0], 8)
	m.reset([]placed{{half, 0}, {half, 1}, {m.forms.whole[1], 2}})
	for range 50 {
		m.gone, m.come = m.gone[:0], m.come[:0]
		slot := m.tables[0][0]
		if !m.retier(slot, problem.Form{Tier: problem.Host}) {
			t.Fatal("got no change, want one")
		}
		m.try()
		m.accept()
		forms := map[problem.Form]int{}
		for _, slot := range m.tables[0] {
			forms[m.formAt(slot)] += m.width(slot)
		}
		if forms[problem.Form{}] != 8 || forms[problem.Form{Tier: problem.Host}] != 8 {
			t.Fatalf("got widths %v by form, want 8 in HBM and 8 in host memory", forms)
		}
		if m.formOf(1) != (problem.Form{}) {
			t.Fatal("got B in host memory, want A alone")
		}
		m.reset([]placed{{half, 0}, {half, 1}, {m.forms.whole[1], 2}})
	}
}

// A table that a start cuts by rows goes to the host with the least compute. During the annealing,
// such a table goes to any host.
func TestTablesByRowsGoToTheIdlestHost(t *testing.T) {
	p := onHosts(problem.Constraint{}, problem.Constraint{}, problem.Constraint{})
	m := moverOn(p, formlessFactory(p), Options{Method: NeuroShard, ShardingTypes: problem.ShardingTypes()})
	byRows := problem.Form{ShardingType: problem.TableRowWise}
	for host := range m.fullHosts() {
		m.reset([]placed{{m.forms.whole[0], host * m.local}, {m.forms.whole[1], host * m.local}, {m.forms.whole[2], host * m.local}})
		drawn := map[int32]bool{}
		for range 50 {
			if !m.become(0, byRows, 0, true) || m.hostOf[m.come[0].device] == host {
				t.Fatalf("got blocks of rows on %v beside all tables on host %d, want them on another host", m.come, host)
			}
			if !m.become(0, byRows, 0, false) {
				t.Fatal("got no change, want one")
			}
			drawn[m.hostOf[m.come[0].device]] = true
		}
		if len(drawn) != int(m.fullHosts()) {
			t.Errorf("got hosts %v, want all %d", drawn, m.fullHosts())
		}
	}
}

// blocksOn returns the widths of a proposed change's blocks of rows by host.
func blocksOn(m *mover) map[int32]int {
	widths := map[int32]int{}
	for _, p := range m.come {
		widths[m.hostOf[p.device]] += m.c.pieces[p.piece].members[0].width
	}
	return widths
}

// A table of 16 columns that becomes blocks of rows lies on one host of four in some changes of an
// annealing, and on two or four in others. A start lays it across the number of hosts asked for, and
// on one host if the table has no equal slices for that number.
func TestBlocksAcrossHosts(t *testing.T) {
	p := onHosts(problem.Constraint{}, problem.Constraint{})
	p.Topology.Devices = 8
	m := moverOn(p, formlessFactory(p), Options{Method: NeuroShard, ShardingTypes: problem.ShardingTypes()})
	byRows := problem.Form{ShardingType: problem.TableRowWise}
	drawn := map[int]bool{}
	for range 100 {
		if !m.become(0, byRows, 0, false) {
			t.Fatal("got no change, want one")
		}
		widths := blocksOn(m)
		for host, width := range widths {
			if width != 16/len(widths) {
				t.Errorf("got %d columns on host %d of %d, want equal slices of 16 columns", width, host, len(widths))
			}
		}
		drawn[len(widths)] = true
	}
	if want := map[int]bool{1: true, 2: true, 4: true}; !cmp.Equal(drawn, want) {
		t.Errorf("got numbers of hosts %v, want %v", drawn, want)
	}
	for across, want := range map[int]int{0: 1, 1: 1, 2: 2, 3: 1, 4: 4} {
		m.acrossHosts = across
		if !m.become(0, byRows, 0, true) || len(blocksOn(m)) != want {
			t.Errorf("across %d hosts: got columns %v by host, want them on %d hosts", across, blocksOn(m), want)
		}
	}
}

// Two hosts exchange the blocks of their tables, or a part of the wider table for the whole narrower one.
func TestHostsExchangeBlocks(t *testing.T) {
	for _, hosts := range []int{2, 3} {
		p := onHosts(problem.Constraint{}, problem.Constraint{})
		p.Topology.Devices, p.Tables[0].Dim = 2*hosts, 48
		m := moverOn(p, formlessFactory(p), Options{Method: NeuroShard, ShardingTypes: problem.ShardingTypes()})
		byRows := problem.Form{ShardingType: problem.TableRowWise}
		m.reset([]placed{{m.c.inForm(m.forms.whole[0], 48, byRows), 0}, {m.c.inForm(m.forms.whole[1], 16, byRows), 2}})
		for _, change := range []struct {
			name    string
			propose func(int32) bool
			want    map[int32]int
		}{
			{"swap", m.swap, map[int32]int{0: 16, 1: 48}},
			{"trade", m.trade, map[int32]int{0: 48, 1: 16}},
		} {
			found := false
			for range 50 {
				m.gone, m.come = m.gone[:0], m.come[:0]
				if change.propose(m.tables[0][0]) && cmp.Equal(blocksOn(m), change.want) {
					found = true
				}
			}
			if !found {
				t.Errorf("%d hosts, %s: got no columns %v by host, want them", hosts, change.name, change.want)
			}
		}
	}
}

// A run that keeps forms proposes no other form, with slices of any width and with equal slices; other runs do.
func TestSameForms(t *testing.T) {
	for _, engine := range []problem.Engine{"", problem.TorchRec} {
		for _, same := range []bool{false, true} {
			p := onHosts(problem.Constraint{}, problem.Constraint{})
			p.Engine = engine
			m := moverOn(p, formlessFactory(p), Options{Method: NeuroShard, ShardingTypes: problem.ShardingTypes()})
			m.mixed, m.sameForms = true, same
			other := false
			for range 300 {
				if m.propose() {
					other = other || slices.ContainsFunc(m.come, func(p placed) bool { return *m.c.pieces[p.piece].form != problem.Form{} })
				}
			}
			if other == same {
				t.Errorf("engine %v, same forms %v: got another form %v, want the opposite", engine, same, other)
			}
		}
	}
}

// Of racers from the cheapest on, the first ones stay, and the cheapest one of each set of forms.
func TestCheapestOfEachSet(t *testing.T) {
	p := onHosts(problem.Constraint{}, problem.Constraint{})
	r := newRun(context.Background(), p, formlessFactory(p), Options{Method: NeuroShard, ShardingTypes: problem.ShardingTypes(), Workers: 1})
	a, b := r.forms.whole[0], r.forms.whole[1]
	replica := r.catalog.inForm(a, 16, problem.Form{ShardingType: problem.DataParallel})
	var sorted []racer
	for i, parts := range [][]placed{
		{{a, 0}, {b, 1}},
		{{a, 0}, {b, 0}},
		{{replica, 0}, {b, 1}},
		{{r.catalog.inForm(a, 16, problem.Form{Operator: 1}), 0}, {b, 1}},
		{{replica, 0}},
	} {
		sorted = append(sorted, racer{placement: placement{parts: parts, cost: float64(i + 1)}})
	}
	for first, want := range [][]float64{{1, 3, 5}, {1, 3, 5}, {1, 2, 3, 5}, {1, 2, 3, 5}, {1, 2, 3, 4, 5}} {
		var got []float64
		for _, s := range (&course{r: r}).eachSet(sorted, first) {
			got = append(got, s.cost)
		}
		if !cmp.Equal(got, want) {
			t.Errorf("the first %d: got placements of cost %v, want %v", first, got, want)
		}
	}
}

// A slice for a change is drawn of the slowest device in half of the draws, and if
// exchanges take most of the time, of the device that sends the most columns.
func TestDrawnSlices(t *testing.T) {
	p := onHosts(problem.Constraint{}, problem.Constraint{}, problem.Constraint{}, problem.Constraint{})
	p.Tables[3].Dim = 32
	m := moverOn(p, formlessFactory(p), Options{Method: NeuroShard, ShardingTypes: problem.ShardingTypes()})
	share := func(table int) float64 {
		n := 0
		const draws = 4000
		for range draws {
			if slot := m.drawn(); m.parts[slot].device == int32(table) {
				n++
			}
		}
		return float64(n) / draws
	}
	m.slowest, m.computeScale, m.dimScale = 0, 1, 32
	for _, test := range []struct {
		column          float64
		slowest, widest float64
	}{{0, .625, .125}, {1e9, .125, .625}} {
		if m.column = test.column; math.Abs(share(0)-test.slowest) > .04 || math.Abs(share(3)-test.widest) > .04 {
			t.Errorf("column %v: got shares %.3f and %.3f, want %v and %v", test.column, share(0), share(3), test.slowest, test.widest)
		}
	}
}
