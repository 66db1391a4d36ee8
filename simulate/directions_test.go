package simulate

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
	"pgregory.net/rapid"
)

// directions_test.go tests which of two placements must cost more, for any sizes.

// TestMoreDevicesComputeLess: more devices make blocks of rows smaller, but less so if the
// accesses are skewed.
func TestMoreDevicesComputeLess(t *testing.T) {
	shrinks := func(skewed bool) (first, last unit.Millis) {
		before := unit.Millis(math.Inf(1))
		for _, n := range []int{2, 4, 8, 16, 64} {
			p := on(t, "a100-80", n, 8, tableOf("t", 1_000_000, 64, 20, skewed))
			d := place(p).rowWise(0).price(t).Devices[0]
			if got := d.Forward + d.Backward; got >= before {
				t.Errorf("skewed %v, %d devices: got %v, want less than the %v of half the devices", skewed, n, got, before)
			} else {
				before = got
			}
			if n == 2 {
				first = before
			}
		}
		return first, before
	}
	even, evenLast := shrinks(false)
	skewed, skewedLast := shrinks(true)
	if even/evenLast < 1.5*(skewed/skewedLast) {
		t.Errorf("from 2 to 64 devices: uniform lookups gain %.1f times, skewed ones %.1f; want skewed blocks uneven", even/evenLast, skewed/skewedLast)
	}
}

// TestSkewedBlocksAreUneven: the block of the most used row takes more than its share.
func TestSkewedBlocksAreUneven(t *testing.T) {
	p := on(t, "a100-80", 8, 0, tableOf("even", 1_000_000, 64, 20, false), tableOf("skewed", 1_000_000, 64, 20, true))
	pricer, l := NewPricer(p), place(p).rowWise(0).rowWise(1)
	for i, least := range []float64{1, 1.3} {
		share := pricer.block(&l.shards[0][i]).counts.Lookups / pricer.Counts(i).Lookups * 8
		if share < least || share > least+2 || i == 0 && share > 1.001 {
			t.Errorf("table %q: a block of an eighth has %.3f times its part of the lookups", p.Tables[i].Name, share)
		}
	}
}

// TestRowWiseMovesMore: every block has sums of all columns, so on n devices the
// reduce-scatter moves n times the bytes of balanced all-to-alls.
func TestRowWiseMovesMore(t *testing.T) {
	p := on(t, "a100-80", 8, 0)
	tables, rows := place(p), place(p)
	for i := range 8 {
		p.Tables = append(p.Tables, tableOf(string(rune('a'+i)), 1_000_000, 64, 20, false))
		tables.on(i, i)
		rows.rowWise(i)
	}
	alpha := unit.Micros(45)
	one, all := tables.price(t).Devices[0], rows.price(t).Devices[0]
	if ratio := (all.BackwardComm - alpha) / (one.BackwardComm - alpha); ratio < 4 {
		t.Errorf("row-wise: got %v of backward comm, want several times the %v of the all-to-all", all.BackwardComm, one.BackwardComm)
	}
	if all.ForwardComm <= one.ForwardComm {
		t.Errorf("row-wise: got %v of forward comm, want above the %v of the all-to-all", all.ForwardComm, one.ForwardComm)
	}
}

// TestReplicasFollowBytes: the exchange of replicas grows with the table's bytes, not its
// lookups, columns or features, and the exchange of blocks with the columns, not the rows.
func TestReplicasFollowBytes(t *testing.T) {
	comm := func(rows int64, dim int, pooling float64, features int) (replicas, byRows unit.Millis) {
		table := tableOf("t", rows, dim, pooling, false)
		for range features - 1 {
			table.Features = append(table.Features, table.Features[0])
		}
		p := on(t, "a100-80", 16, 8, table)
		return place(p).replicate(0).price(t).Devices[0].BackwardComm, place(p).rowWise(0).price(t).Devices[0].BackwardComm
	}
	base, baseRows := comm(100_000, 64, 2, 1)
	if got, _ := comm(1_000_000, 64, 2, 1); got < 2*base {
		t.Errorf("ten times the rows: got %v, want far above %v", got, base)
	}
	if got, gotRows := comm(100_000, 64, 50, 3); got != base || gotRows < 2*baseRows {
		t.Errorf("three features of many lookups: got %v and %v, want %v and far above %v", got, gotRows, base, baseRows)
	}
	if got, gotRows := comm(400_000, 16, 2, 1); math.Abs(float64(got-base)) > 1e-12 || gotRows >= baseRows {
		t.Errorf("the same elements in a quarter of the columns: got %v and %v, want %v and less than %v", got, gotRows, base, baseRows)
	}
	// The update of all rows is compute.
	update := func(rows int64) unit.Millis {
		p := on(t, "a100-80", 16, 8, tableOf("t", rows, 64, .01, false))
		p.Tables[0].Optimizer = problem.Adam
		return place(p).replicate(0).price(t).Devices[0].Backward
	}
	if small, large := update(100_000), update(10_000_000); large < 10*small {
		t.Errorf("dense updates: got %v of 1e7 rows, want far above %v of 1e5", large, small)
	}
}

// TestHostCostsMore: a table costs most in a host's memory, less the more of it is cached, and
// least in HBM. A cache fetches the optimizer's state before the forward and writes it back
// after the backward. Without a cache the state crosses the link both ways at the same time, so
// a cache that misses nearly all rows may cost one way of the state more than none.
func TestHostCostsMore(t *testing.T) {
	for _, skewed := range []bool{false, true} {
		for o := range problem.Adam + 1 {
			p := on(t, "h100-80", 1, 0, tableOf("t", 1_000_000, 64, 20, skewed))
			p.Tables[0].Optimizer = o
			least := place(p).on(0, 0).price(t).Cost
			first := place(p).slice(0, 0, problem.Host, 0).price(t).Cost
			state := p.Tables[0].Counts(p.Batch).Unique * float64(o.StateBytes(1, 64))
			before := first + unit.Millis(state/(p.Topology.Profile.HostLinkGBps()*1e6))
			for _, share := range []float64{.001, .01, .1, .5, .9} {
				got := place(p).slice(0, 0, problem.HostCached, share).price(t).Cost
				if got >= before || got <= least {
					t.Errorf("%v, skewed %v: a cache of %v: got %v, want below %v and above %v", o, skewed, share, got, before, least)
				}
				if share >= .5 && got >= first {
					t.Errorf("%v, skewed %v: a cache of %v: got %v, want below %v of no cache", o, skewed, share, got, first)
				}
				before = got
			}
			if first < 2*least {
				t.Errorf("%v, skewed %v: got %v in host memory, want far above %v", o, skewed, first, least)
			}
		}
	}
}

// TestSkewMakesCachesGood: a cache of a tenth of the rows serves most lookups of a table
// with skewed accesses.
func TestSkewMakesCachesGood(t *testing.T) {
	saved := func(skewed bool) float64 {
		p := on(t, "h100-80", 1, 0, tableOf("t", 10_000_000, 64, 20, skewed))
		host := place(p).slice(0, 0, problem.Host, 0).price(t).Cost
		return float64(place(p).slice(0, 0, problem.HostCached, .1).price(t).Cost / host)
	}
	if even, skewed := saved(false), saved(true); skewed > even/2 {
		t.Errorf("a cache of a tenth leaves %.2f of a skewed table's time and %.2f of an even one's", skewed, even)
	}
}

// TestHostsAreFar: rows cut over the devices of a host exchange less than rows cut over
// all devices, and rows cut over several hosts more than over one host.
func TestHostsAreFar(t *testing.T) {
	for _, name := range []string{"v100-32", "a100-80", "h100-80"} {
		var tables []problem.Table
		for i := range 4 {
			tables = append(tables, tableOf(string(rune('a'+i)), 1_000_000, 64, 20, false))
		}
		p := on(t, name, 32, 8, tables...)
		inside, grid, across := place(p), place(p), place(p)
		for i := range p.Tables {
			inside.hostWise(i, i)
			grid.grid(i, i, (i+1)%4)
			across.rowWise(i)
		}
		far := across.price(t).Devices[0].BackwardComm
		for what, l := range map[string]*placed{"table-row-wise": inside, "grid": grid} {
			if got := l.price(t).Devices[0].BackwardComm; got*1.3 > far {
				t.Errorf("%s, %s: got %v of comm, want well below the %v of row-wise", name, what, got, far)
			}
		}
		// Equal columns on all hosts are quickest.
		uneven := place(p)
		for i := range p.Tables {
			uneven.hostWise(i, 0)
		}
		if got, even := uneven.price(t).Devices[0].BackwardComm, inside.price(t).Devices[0].BackwardComm; got < 1.5*even {
			t.Errorf("%s: all on one host: got %v of comm, want far above the %v of one each", name, got, even)
		}
		one := on(t, name, 8, 8, tables...)
		alone, spread := place(one), place(p)
		for i := range p.Tables {
			alone.rowWise(i)
			spread.rowWise(i)
		}
		if got, least := spread.price(t).Devices[0].BackwardComm, alone.price(t).Devices[0].BackwardComm; got <= 1.1*least {
			t.Errorf("%s: row-wise over four hosts: got %v of comm, want above the %v in one", name, got, least)
		}
	}
}

// drawPlaced draws a cluster, tables, and a way to place each table.
func drawPlaced(t *rapid.T) *placed {
	perHost := rapid.IntRange(1, 4).Draw(t, "per host")
	hosts := rapid.IntRange(1, 3).Draw(t, "hosts")
	tail := rapid.IntRange(0, perHost-1).Draw(t, "tail")
	p := &problem.Problem{
		Batch:         rapid.SampledFrom([]int{1, 100, 8192, 65536}).Draw(t, "batch"),
		CommPrecision: problem.Precision(rapid.IntRange(0, 2).Draw(t, "comm precision")),
		Topology:      hardware.Topology{Profile: rapid.SampledFrom(hardware.Profiles()[1:]).Draw(t, "profile"), Devices: perHost*hosts + tail, DevicesPerHost: perHost},
	}
	l := place(p)
	for i := range rapid.IntRange(0, 8).Draw(t, "tables") {
		table := tableOf(string(rune('a'+i)), int64(math.Exp(rapid.Float64Range(0, 20).Draw(t, "ln rows"))),
			8*rapid.IntRange(1, 16).Draw(t, "dim/8"), math.Exp(rapid.Float64Range(-4, 4).Draw(t, "ln pooling")), rapid.Bool().Draw(t, "skewed"))
		table.Optimizer = problem.Optimizer(rapid.IntRange(0, 3).Draw(t, "optimizer"))
		table.Precision = problem.Precision(rapid.IntRange(0, 2).Draw(t, "precision"))
		table.Weighted = rapid.Bool().Draw(t, "weighted")
		p.Tables = append(p.Tables, table)
		device := rapid.IntRange(0, len(l.shards)-1).Draw(t, "device")
		host := rapid.IntRange(0, hosts-1).Draw(t, "host")
		kind := rapid.SampledFrom([]string{"row", "host", "grid", "replica", "host memory", "cached", "slice"}).Draw(t, "kind")
		switch {
		case kind == "row" && table.CutsByRows(len(l.shards)):
			l.rowWise(i)
		case kind == "host" && table.CutsByRows(perHost):
			l.hostWise(i, host)
		case kind == "grid" && table.CutsByRows(perHost) && hosts > 1:
			l.grid(i, host, (host+1)%hosts)
		case kind == "replica":
			l.replicate(i)
		case kind == "host memory":
			l.slice(i, device, problem.Host, 0)
		case kind == "cached":
			l.slice(i, device, problem.HostCached, rapid.Float64Range(1e-6, .999).Draw(t, "cache"))
		default:
			l.on(i, device)
		}
	}
	return l
}

func priced(t *rapid.T, l *placed) plan.Breakdown {
	cost, err := NewPricer(l.p).Price(l.shards)
	if err != nil {
		t.Fatal(err)
	}
	return cost
}

// TestPricesAreSound: times are finite, not negative, the same for each device by itself,
// and no higher if smaller elements travel.
func TestPricesAreSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawPlaced(t)
		cost := priced(t, l)
		pricer := NewPricer(l.p)
		for r, d := range cost.Devices {
			for _, x := range []unit.Millis{d.Forward, d.Backward, d.ForwardComm, d.BackwardComm, cost.Cost - d.Total()} {
				if !(x >= 0) || math.IsInf(float64(x), 0) {
					t.Fatalf("device %d: got %+v of %v", r, d, cost.Cost)
				}
			}
			if f, b := pricer.GroupCost(l.shards[r]); f != d.Forward || b != d.Backward {
				t.Fatalf("device %d computes %v and %v in a placement, %v and %v by itself", r, d.Forward, d.Backward, f, b)
			}
		}
		other := *l.p
		other.CommPrecision = problem.FP32
		if wide := priced(t, &placed{&other, l.shards}); cost.Cost > wide.Cost*(1+1e-12) {
			t.Fatalf("%v elements that travel cost %v, fp32 %v", l.p.CommPrecision, cost.Cost, wide.Cost)
		} else if l.p.CommPrecision != problem.FP32 && wide.Devices[0].BackwardComm > 0 && cost.Devices[0].BackwardComm > wide.Devices[0].BackwardComm {
			t.Fatalf("the exchange of %v elements takes %v, of fp32 %v", l.p.CommPrecision, cost.Devices[0].BackwardComm, wide.Devices[0].BackwardComm)
		}
	})
}

// TestOrderOfHostsIsNoMatter: the order of the devices of a host does not matter, nor
// the order of hosts.
func TestOrderOfHostsIsNoMatter(t *testing.T) {
	p := mixed(12, hardware.Topology{Profile: a100(t), Devices: 8, DevicesPerHost: 4})
	one, other := place(p), place(p)
	for i := range p.Tables {
		switch {
		case i%3 == 0:
			one.on(i, i%8)
			other.on(i, (i+4)%8)
		case i%3 == 1 && p.Tables[i].CutsByRows(4):
			one.hostWise(i, i%2)
			other.hostWise(i, (i+1)%2)
		}
	}
	near(t, "hosts the other way round", other.price(t).Cost, one.price(t).Cost)
}

// TestMonotone: exchanges take longer with more columns and elements, blocks take less
// time with more devices, and caches save time, apart from the time in which their places
// are sorted.
func TestMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := NewDevice(rapid.SampledFrom(hardware.Profiles()[1:]).Draw(t, "profile"))
		c := Comm{PerHost: rapid.IntRange(1, 8).Draw(t, "per host"), Batch: rapid.IntRange(1, 1<<17).Draw(t, "batch")}
		hosts := rapid.IntRange(1, 5).Draw(t, "hosts")
		c.DimSums = make([]int, hosts*c.PerHost)
		c.RowWise = rapid.IntRange(0, 5000).Draw(t, "row-wise")
		c.Replicated = math.Floor(rapid.Float64Range(0, 1e9).Draw(t, "replicated"))
		for range hosts {
			c.ByHost = append(c.ByHost, rapid.IntRange(0, 5000).Draw(t, "by host"))
		}
		more := c
		more.ByHost = append([]int(nil), c.ByHost...)
		more.RowWise += rapid.IntRange(0, 100).Draw(t, "more")
		more.Replicated += math.Floor(rapid.Float64Range(0, 1e8).Draw(t, "more"))
		more.ByHost[rapid.IntRange(0, hosts-1).Draw(t, "host")] += rapid.IntRange(0, 100).Draw(t, "more")
		forward, backward, err := d.Comm(c)
		if err != nil {
			t.Fatal(err)
		}
		moreForward, moreBackward, _ := d.Comm(more)
		// Without tables that ranks hold together, there is an all-to-all of nothing,
		// whose fixed time may be longer.
		if c.joint() && (moreForward[0] < forward[0] || moreBackward[0] < backward[0]) || backward[0] < forward[0] || !(forward[0] >= 0) {
			t.Fatalf("%+v takes %v and %v, %+v %v and %v", c, forward[0], backward[0], more, moreForward[0], moreBackward[0])
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		table := tableOf("t", int64(math.Exp(rapid.Float64Range(6, 20).Draw(t, "ln rows"))), 4*rapid.IntRange(1, 64).Draw(t, "dim/4"),
			math.Exp(rapid.Float64Range(-4, 4).Draw(t, "ln pooling")), rapid.Bool().Draw(t, "skewed"))
		table.Optimizer = problem.Optimizer(rapid.IntRange(0, 3).Draw(t, "optimizer"))
		compute := func(n int) unit.Millis {
			p := &problem.Problem{Tables: []problem.Table{table}, Batch: 8192, Topology: hardware.Topology{Profile: hardware.Profiles()[4], Devices: n}}
			forward, backward := NewPricer(p).GroupCost(place(p).rowWise(0).shards[0])
			return forward + backward
		}
		n := rapid.IntRange(2, 8).Draw(t, "devices")
		if few, many := compute(n), compute(2*n); many > few*(1+1e-12) {
			t.Fatalf("a block of %d devices computes %v, one of %d %v", n, few, 2*n, many)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		p := &problem.Problem{Batch: 8192, Topology: hardware.Topology{Profile: hardware.Profiles()[4], Devices: 1}}
		p.Tables = []problem.Table{tableOf("t", int64(math.Exp(rapid.Float64Range(0, 20).Draw(t, "ln rows"))), 4*rapid.IntRange(1, 64).Draw(t, "dim/4"),
			math.Exp(rapid.Float64Range(-4, 4).Draw(t, "ln pooling")), rapid.Bool().Draw(t, "skewed"))}
		p.Tables[0].Optimizer = problem.Optimizer(rapid.IntRange(0, 3).Draw(t, "optimizer"))
		small := rapid.Float64Range(1e-6, .999).Draw(t, "cache")
		large := rapid.Float64Range(small, .999).Draw(t, "larger cache")
		d, rows := NewDevice(p.Topology.Profile), p.Tables[0].Rows
		cached := func(share float64) unit.Millis {
			sort := d.SortPlaces(p.Tables[0].Counts(p.Batch).Lookups, float64(problem.CachedRows(rows, share)))
			return priced(t, place(p).slice(0, 0, problem.HostCached, share)).Cost - sort
		}
		// A cache that misses nearly all rows may cost one way of the optimizer's state more than
		// none: see TestHostCostsMore.
		state := p.Tables[0].Counts(p.Batch).Unique * float64(p.Tables[0].Optimizer.StateBytes(1, p.Tables[0].Dim))
		before := priced(t, place(p).slice(0, 0, problem.Host, 0)).Cost + unit.Millis(state/(p.Topology.Profile.HostLinkGBps()*1e6))
		for _, got := range []unit.Millis{cached(small), cached(large), priced(t, place(p).on(0, 0)).Cost} {
			if got > before*(1+1e-12) {
				t.Fatalf("more in HBM costs %v, less %v", got, before)
			} else {
				before = got
			}
		}
	})
}
