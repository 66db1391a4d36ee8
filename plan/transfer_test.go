package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// drawnProblem returns a small problem: up to three hosts of up to three devices, the last host
// perhaps not full, and tables of every precision and optimizer.
func drawnProblem(t testing.TB, r *rand.Rand) *problem.Problem {
	t.Helper()
	per := 1 + r.IntN(3)
	p := &problem.Problem{Topology: cluster(t, 1+r.IntN(3*per), per), Batch: 8}
	p.Topology.HostMemory = unit.GiB
	if domain := 2 * per; r.IntN(4) == 0 && domain < p.Topology.Devices {
		p.Topology.NVLinkDomain = domain
	}
	for i := range 1 + r.IntN(5) {
		p.Tables = append(p.Tables, problem.Table{
			Name: fmt.Sprintf("t%d", i), Rows: 1 + r.Int64N(12), Dim: 4 * (1 + r.IntN(4)),
			Features:  []problem.Feature{{Name: "f", PoolingFactor: 1}},
			Precision: problem.Precision(r.IntN(3)), Optimizer: problem.Optimizer(r.IntN(4)),
		})
	}
	return p
}

// drawnShards places the tables of a problem: each by a drawn sharding type that it can have.
func drawnShards(r *rand.Rand, p *problem.Problem) [][]problem.Shard {
	shards := make([][]problem.Shard, p.Topology.Devices)
	for i := range p.Tables {
		for !drawTable(r, p, i, shards) {
		}
	}
	return shards
}

// drawTable places table i by a drawn sharding type; false if the table cannot have it.
func drawTable(r *rand.Rand, p *problem.Problem, i int, shards [][]problem.Shard) bool {
	t, n, per := &p.Tables[i], p.Topology.Devices, p.Topology.PerHost()
	put := func(s problem.Shard, devices ...int) {
		for _, d := range devices {
			shards[d] = append(shards[d], s)
		}
	}
	any := func() int {
		if allowed := t.Constraint.Devices; len(allowed) > 0 {
			return allowed[r.IntN(len(allowed))]
		}
		return r.IntN(n)
	}
	blocks := func(columns problem.Range, kind ShardingType, devices []int) {
		for k, d := range devices {
			if rows := blockAt(t, len(devices), k); rows.Len() > 0 {
				put(problem.Shard{Table: i, Rows: rows, Columns: columns, ShardingType: kind}, d)
			}
		}
	}
	hosted := func() ([]int, bool) { // the devices of a host on which the table is allowed
		first := any() / per * per
		list := sequence(first, min(n, first+per))
		for _, d := range list {
			if a := t.Constraint.Devices; len(a) > 0 && !slices.Contains(a, d) {
				return nil, false
			}
		}
		return list, len(list) == per && t.CutsByRows(per)
	}
	all := problem.Range{End: int64(t.Dim)}
	free := len(t.Constraint.Devices) == 0
	switch kind := shardingTypes[r.IntN(len(shardingTypes))]; kind {
	case TableWise:
		s := p.Whole(i)
		s.Tier = []Tier{HBM, HBM, Host, HostCached}[r.IntN(4)]
		if s.Tier == HostCached {
			s.Cache = 0.5
		}
		put(s, any())
	case ColumnWise:
		for from := int64(0); from < int64(t.Dim); {
			to := from + 4*(1+r.Int64N((int64(t.Dim)-from)/4))
			put(problem.Shard{Table: i, Rows: problem.Range{End: t.Rows}, Columns: problem.Range{Start: from, End: to}}, any())
			from = to
		}
	case RowWise:
		if !free || !t.CutsByRows(n) {
			return false
		}
		blocks(all, kind, sequence(0, n))
	case TableRowWise:
		host, ok := hosted()
		if !ok {
			return false
		}
		blocks(all, kind, host)
	case Grid:
		if t.Dim < 8 {
			return false
		}
		first, ok := hosted()
		second, also := hosted()
		if !ok || !also {
			return false
		}
		blocks(problem.Range{End: 4}, kind, first)
		blocks(problem.Range{Start: 4, End: all.End}, kind, second)
	case DataParallel:
		if !free {
			return false
		}
		put(problem.Shard{Table: i, Rows: problem.Range{End: t.Rows}, Columns: all, ShardingType: kind}, sequence(0, n)...)
	}
	return true
}

func sequence(from, to int) (list []int) {
	for ; from < to; from++ {
		list = append(list, from)
	}
	return list
}

// later returns a problem that a drawn one may have become: tables added, removed, resized, with
// another precision or optimizer, on another cluster.
func later(t testing.TB, r *rand.Rand, p *problem.Problem) *problem.Problem {
	q := drawnProblem(t, r)
	q.Tables = slices.Clone(p.Tables)
	if r.IntN(2) == 0 {
		q.Topology = p.Topology
	}
	for i := range q.Tables {
		switch u := &q.Tables[i]; r.IntN(8) {
		case 0:
			u.Rows = 1 + r.Int64N(12)
		case 1:
			u.Dim = 4 * (1 + r.IntN(4))
		case 2:
			u.Name += " new"
		case 3:
			u.Optimizer = problem.Optimizer(r.IntN(4))
		case 4:
			u.Precision = problem.Precision(r.IntN(3))
		}
	}
	return q
}

// cell is a cell of a table on a device.
type cell struct {
	table       string
	device      int
	row, column int64
}

// cellsOf returns the cells that each device holds.
func cellsOf(pl *Plan) map[cell]bool {
	cells := map[cell]bool{}
	for i := range pl.Tables {
		t := &pl.Tables[i]
		for _, s := range t.Shards {
			devices := []int{s.Device}
			if s.Device == replicated {
				devices = sequence(0, pl.Cluster.Devices)
			}
			for _, d := range devices {
				for row := s.Rows.Start; row < s.Rows.End; row++ {
					for column := s.Columns.Start; column < s.Columns.End; column++ {
						cells[cell{t.Name, d, row, column}] = true
					}
				}
			}
		}
	}
	return cells
}

// counted is what a transfer moves, counted cell by cell.
type counted struct {
	weights, state, added, lost, total unit.Bytes
	in, inBetween                      map[int]unit.Bytes
	// inside and between have the cells that must be sent, by the link that they must take.
	link map[cell]Link
}

// countCells counts a transfer one cell after the other.
func countCells(before, after *Plan) counted {
	c := counted{in: map[int]unit.Bytes{}, inBetween: map[int]unit.Bytes{}, link: map[cell]Link{}}
	held, earlier := cellsOf(before), byName(before)
	most := max(before.Cluster.Devices, after.Cluster.Devices)
	for i := range after.Tables {
		t := &after.Tables[i]
		a := earlier[t.Name]
		for _, s := range t.Shards {
			devices := []int{s.Device}
			if s.Device == replicated {
				devices = sequence(0, after.Cluster.Devices)
			}
			for _, d := range devices {
				for row := s.Rows.Start; row < s.Rows.End; row++ {
					c.row(held, a, t, s, d, row, before, after, most)
				}
			}
		}
	}
	return c
}

// row counts one row of a shard on device d. A cell is sent, lost, new, or there already.
func (c *counted) row(held map[cell]bool, a, t *Table, s Shard, d int, row int64, before, after *Plan, most int) {
	carried := a == nil || a.Optimizer == t.Optimizer
	each, once := unit.Bytes(0), unit.Bytes(0) // bytes of state of a cell, and of a row
	switch t.Optimizer {
	case problem.RowwiseAdagrad:
		once = 4
	case problem.Adagrad:
		each = 4
	case problem.Adam:
		each = 8
	}
	hadRow := false
	for column := s.Columns.Start; column < s.Columns.End; column++ {
		hadRow = hadRow || held[cell{t.Name, d, row, column}]
	}
	sent, missing := unit.Bytes(0), unit.Bytes(0)
	rowLink := Link("")
	for column := s.Columns.Start; column < s.Columns.End; column++ {
		at := cell{t.Name, d, row, column}
		weight := unit.Bytes(t.Precision.Bytes())
		c.total += weight + each
		if held[at] {
			if !carried {
				c.added += each
			}
			continue
		}
		var link Link
		for from := range most {
			if held[cell{t.Name, from, row, column}] && link != LinkInside {
				link = linkOf(before, after, from, d)
			}
		}
		state := each
		if !carried {
			c.added += each
			state = 0
		}
		switch {
		case link != "":
			if rowLink == "" {
				rowLink = link
			}
			sent++
			c.link[at] = link
			c.weights += weight
			c.state += state
			c.in[d] += weight + state
			if link == LinkBetween {
				c.inBetween[d] += weight + state
			}
		case a != nil && row < a.Rows && column < int64(a.Dim):
			missing++
			c.lost += weight + state
		default:
			c.added += weight + state
		}
	}
	c.total += once
	switch {
	case !carried:
		c.added += once
	case hadRow:
	case sent > 0:
		c.state += once
		c.in[d] += once
		if rowLink == LinkBetween {
			c.inBetween[d] += once
		}
	case missing > 0:
		c.lost += once
	default:
		c.added += once
	}
}

// linkOf returns what joins two devices: in the later cluster if it has both.
func linkOf(before, after *Plan, a, b int) Link {
	c := after.Cluster
	if a >= c.Devices || b >= c.Devices {
		c = before.Cluster
	}
	domain := max(c.DevicesPerHost, c.NVLinkDomain)
	if a/domain == b/domain {
		return LinkInside
	}
	return LinkBetween
}

// NewTransfer counts what counting cell by cell counts.
func TestTransferByCells(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 0))
	seen := map[string]bool{}
	for range 300 {
		p := drawnProblem(t, r)
		q := later(t, r, p)
		before, after := New(p, drawnShards(r, p)), New(q, drawnShards(r, q))
		if r.IntN(4) == 0 {
			lose(before, r.IntN(before.Cluster.Devices))
		}
		got := must.Get(NewTransfer(before, after))(t)
		want := countCells(before, after)
		if got.Weights != want.weights || got.State != want.state || got.Bytes != want.weights+want.state || got.Added != want.added || got.Lost != want.lost || got.Total != want.total {
			t.Fatalf("got %d + %d bytes, %d added, %d lost, of %d; want %d + %d, %d, %d, %d\nbefore %+v\nafter %+v",
				got.Weights, got.State, got.Added, got.Lost, got.Total, want.weights, want.state, want.added, want.lost, want.total, before.Tables, after.Tables)
		}
		checkMoves(t, before, after, got, want)
		for _, table := range after.Tables {
			seen[string(table.ShardingType)] = true
		}
		seen["lost"] = seen["lost"] || got.Lost > 0
		seen["between"] = seen["between"] || got.BetweenBytes > 0
		seen["inside"] = seen["inside"] || got.BetweenBytes < got.Bytes
	}
	for _, what := range append([]string{"lost", "between", "inside"}, typeNames()...) {
		if !seen[what] {
			t.Errorf("no case has %s", what)
		}
	}
}

func typeNames() (list []string) {
	for _, k := range shardingTypes {
		list = append(list, string(k))
	}
	return list
}

// lose takes the shards of a device out of a plan.
func lose(pl *Plan, device int) {
	for i := range pl.Tables {
		var left []Shard
		for _, s := range pl.Tables[i].Shards {
			if s.Device != replicated && s.Device != device {
				left = append(left, s)
				continue
			}
			for d := range pl.Cluster.Devices {
				if s.Device == replicated && d != device {
					s := s
					s.Device = d
					left = append(left, s)
				}
			}
		}
		pl.Tables[i].Shards = left
	}
}

// checkMoves checks the moves of a transfer: each cell that must be sent is sent once, by a
// device that held it, over the link that it must take, and by the device that had sent the
// least; and the bytes of devices are those of the moves.
func checkMoves(t *testing.T, before, after *Plan, got *Transfer, want counted) {
	t.Helper()
	held, sent := cellsOf(before), map[cell]int{}
	devices := make([]DeviceTransfer, len(got.Devices))
	between := unit.Bytes(0)
	for _, table := range got.Tables {
		bytes := unit.Bytes(0)
		for _, m := range table.Moves {
			var holders []int
			for d := range devices {
				all := true
				eachCell(table.Name, m, d, func(c cell) { all = all && held[c] })
				if all {
					holders = append(holders, d)
				}
			}
			if !slices.Contains(holders, m.From) {
				t.Fatalf("table %s: device %d did not hold %+v", table.Name, m.From, m)
			}
			for _, d := range holders {
				if linkOf(before, after, d, m.To) == m.Link && devices[d].Out < devices[m.From].Out {
					t.Fatalf("table %s: device %d sends %+v, and device %d had sent less", table.Name, m.From, m, d)
				}
			}
			eachCell(table.Name, m, m.To, func(c cell) {
				if sent[c]++; want.link[c] != m.Link || sent[c] > 1 {
					t.Fatalf("cell %+v: got link %q, %d times; want %q once", c, m.Link, sent[c], want.link[c])
				}
			})
			if m.Link != linkOf(before, after, m.From, m.To) {
				t.Fatalf("got link %s of %+v", m.Link, m)
			}
			bytes += m.Bytes
			devices[m.From].Out += m.Bytes
			devices[m.To].In += m.Bytes
			if m.Link == LinkBetween {
				between += m.Bytes
				devices[m.From].OutBetween += m.Bytes
				devices[m.To].InBetween += m.Bytes
			}
		}
		if bytes != table.Bytes {
			t.Fatalf("table %s: got %d bytes, its moves have %d", table.Name, table.Bytes, bytes)
		}
	}
	if len(sent) != len(want.link) || between != got.BetweenBytes {
		t.Fatalf("got %d cells sent, %d bytes between; want %d, %d", len(sent), got.BetweenBytes, len(want.link), between)
	}
	for d := range devices {
		devices[d].Device = d
		if devices[d] != got.Devices[d] || devices[d].In != want.in[d] || devices[d].InBetween != want.inBetween[d] {
			t.Fatalf("device %d: got %+v, its moves give %+v, its cells %d in, %d between", d, got.Devices[d], devices[d], want.in[d], want.inBetween[d])
		}
	}
}

func eachCell(table string, m Sent, device int, visit func(cell)) {
	for row := m.Rows[0]; row < m.Rows[1]; row++ {
		for column := m.Columns[0]; column < m.Columns[1]; column++ {
			visit(cell{table, device, row, column})
		}
	}
}

// Times are those of the busiest device, on the links of the later cluster.
func TestTransferTimes(t *testing.T) {
	p := &problem.Problem{Topology: cluster(t, 4, 2), Batch: 8}
	for i := range 3 {
		p.Tables = append(p.Tables, problem.Table{Name: fmt.Sprintf("t%d", i), Rows: 1e6, Dim: 64, Features: []problem.Feature{{PoolingFactor: 1}}})
	}
	place := func(devices ...int) *Plan {
		shards := make([][]problem.Shard, 4)
		for i, d := range devices {
			shards[d] = append(shards[d], p.Whole(i))
		}
		return New(p, shards)
	}
	const table = 256 * unit.MB
	got := must.Get(NewTransfer(place(0, 0, 2), place(1, 2, 1)))(t)
	hw, _ := hardware.ByName("a100-80")
	if want := unit.Millis(256 / hw.IntraGBps); !same(got.Inside, want) || !got.Timed {
		t.Errorf("got %v inside, want %v", got.Inside, want)
	}
	if want := unit.Millis(256 / (hw.NICGBps * hardware.NetworkShare(2))); !same(got.Between, want) {
		t.Errorf("got %v between, want %v", got.Between, want)
	}
	if d, bytes := got.Busiest(); d != 0 || bytes != 2*table {
		t.Errorf("got device %d with %d bytes, want 0 with %d", d, bytes, 2*table)
	}
	unknown := place(1, 2, 1)
	unknown.Cluster.Profile = "mine"
	if got, err := NewTransfer(place(0, 0, 2), unknown); err != nil || got.Timed || got.Inside != 0 || got.Bytes != 3*table {
		t.Errorf("unknown profile: got %+v, %v", got, err)
	}
	faster := place(1, 2, 1)
	faster.Cluster.NetworkBandwidth = 1e12
	if got, _ := NewTransfer(place(0, 0, 2), faster); !same(got.Between, 0.256/unit.Millis(hardware.NetworkShare(2))) {
		t.Errorf("got %v at 1 TB/s, want 0.256 ms over the share of a collective", got.Between)
	}
	// The busiest device may send to several devices, or receive from several.
	p.Topology.DevicesPerHost = 4
	for _, plans := range [][2]*Plan{{place(0, 0, 0), place(1, 2, 3)}, {place(1, 2, 3), place(0, 0, 0)}} {
		got, err := NewTransfer(plans[0], plans[1])
		if want := unit.Millis(3 * 256 / hw.IntraGBps); err != nil || !same(got.Inside, want) || got.Between != 0 {
			t.Errorf("got %+v, %v; want %v inside and 0 between", got, err, want)
		}
	}
}

// NewTransfer refuses plans that it cannot count.
func TestTransferRefuses(t *testing.T) {
	_, good := sample(t)
	for name, spoil := range map[string]func(*Plan){
		"twice":   func(pl *Plan) { pl.Tables[1].Name = pl.Tables[0].Name },
		"outside": func(pl *Plan) { pl.Tables[0].Shards[0].Rows.End++ },
		"device":  func(pl *Plan) { pl.Tables[0].Shards[0].Device = 4 },
	} {
		_, bad := sample(t)
		spoil(bad)
		if _, err := NewTransfer(good, bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
