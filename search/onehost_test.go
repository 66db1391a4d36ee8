package search

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
)

// hostProblem draws a problem of tables whose slices must stay on one of two hosts of three
// devices.
func hostProblem(seed uint64, engine problem.Engine) *problem.Problem {
	p := evenProblem(seed, 6, 6)
	p.Engine, p.Topology.DevicesPerHost = engine, 3
	for i := range p.Tables {
		p.Tables[i].Constraint.OneHost = true
	}
	return p
}

// cutOnHosts returns the number of tables with several slices. It fails if those of a table are on
// several hosts.
func cutOnHosts(t *testing.T, what string, p *problem.Problem, held [][]problem.Shard) (cut int) {
	t.Helper()
	host, count := map[int]int{}, map[int]int{}
	for d, shards := range held {
		for _, s := range shards {
			if h, ok := host[s.Table]; ok && h != d/p.Topology.PerHost() {
				t.Errorf("%s: table %d has slices on hosts %d and %d", what, s.Table, h, d/p.Topology.PerHost())
			}
			host[s.Table] = d / p.Topology.PerHost()
			if count[s.Table]++; count[s.Table] == 2 {
				cut++
			}
		}
	}
	return cut
}

// TestOneHost: all methods keep the slices of a table on one host, also from an old placement with
// slices on both, and method NeuroShard cuts tables there.
func TestOneHost(t *testing.T) {
	for seed := range uint64(8) {
		for _, engine := range []problem.Engine{"", problem.TorchRec, problem.HugeCTR} {
			p := hostProblem(seed, engine)
			for _, method := range []Method{NeuroShard, Paper, Size, Random, HugeCTR} {
				what := fmt.Sprintf("seed %d, engine %q, %s", seed, engine, method)
				result, err := Run(context.Background(), p, additiveFactory(p), Options{Method: method})
				if method == Paper && errors.As(err, new(*Infeasible)) {
					continue // it caps the columns of devices, and slices of one host may exceed each cap
				}
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if cut := cutOnHosts(t, what, p, result.Shards); cut == 0 && method == NeuroShard {
					t.Errorf("%s: no table is cut", what)
				}
			}
			free := *p
			free.Tables = append([]problem.Table(nil), p.Tables...)
			for i := range free.Tables {
				free.Tables[i].Constraint.OneHost = false
			}
			old, err := Run(context.Background(), &free, additiveFactory(&free), Options{MaxEvaluations: 3000})
			if err != nil {
				t.Fatal(err)
			}
			from := From{Price: 1e-6, Shards: old.Shards}
			result, err := Run(context.Background(), p, additiveFactory(p), Options{MaxEvaluations: 3000, From: &from})
			if err != nil {
				t.Fatal(err)
			}
			cutOnHosts(t, fmt.Sprintf("seed %d, engine %q, from an old placement", seed, engine), p, result.Shards)
		}
	}
}

// TestOneHostIsFullOfSlices: two tables of three devices' bytes each fit two hosts of three
// devices only if each is cut into three slices on a host of its own.
func TestOneHostIsFullOfSlices(t *testing.T) {
	for _, engine := range []problem.Engine{"", problem.TorchRec} {
		p := handMade(4*4*100, 6, table{100, 12, 1}, table{100, 12, 1})
		p.Engine, p.Topology.DevicesPerHost = engine, 3
		for i := range p.Tables {
			p.Tables[i].Constraint.OneHost = true
		}
		result, err := Run(context.Background(), p, additiveFactory(p), Options{MaxEvaluations: 3000})
		if err != nil {
			t.Fatalf("engine %q: %v", engine, err)
		}
		if cut := cutOnHosts(t, string(engine), p, result.Shards); cut != 2 {
			t.Errorf("engine %q: %d tables are cut, want 2", engine, cut)
		}
	}
}

// TestStrays: a placement with slices on two hosts breaks the constraint, and so does a change that
// leads there.
func TestStrays(t *testing.T) {
	for _, test := range []struct {
		device int32
		alone  bool
		want   bool
	}{{1, false, false}, {2, false, false}, {3, false, true}, {3, true, false}} {
		p := hostProblem(1, "")
		p.Tables = p.Tables[:1]
		p.Tables[0].Dim, p.Tables[0].Constraint.OneHost = 32, !test.alone
		c := newCatalog(p, additiveFactory(p)(), false)
		whole := c.whole()[0]
		half := c.slice(whole, 16)
		c.register(&c.pieces[half])
		if got := breaks(c, []placed{{half, 0}, {half, test.device}}); got != test.want {
			t.Errorf("second slice on device %d, any host %v: breaks is %v, want %v", test.device, test.alone, got, test.want)
		}
		l := newLayout(c, c.scorer, onlyColumns(c))
		l.reset([]placed{{half, 0}, {half, 1}})
		l.gone, l.come = append(l.gone[:0], 1), append(l.come[:0], placed{half, test.device})
		if got := changeBreaks(l); got != test.want {
			t.Errorf("second slice to device %d, any host %v: changeBreaks is %v, want %v", test.device, test.alone, got, test.want)
		}
	}
}

// TestOneHostIsTooSmall: the error of a table that fits several hosts, but none alone, says so.
func TestOneHostIsTooSmall(t *testing.T) {
	p := handMade(4*4*100, 6, table{100, 16, 1})
	p.Topology.DevicesPerHost = 3
	p.Tables[0].Constraint.OneHost = true
	_, err := Run(context.Background(), p, additiveFactory(p), Options{MaxEvaluations: 3000})
	var infeasible *Infeasible
	if !errors.As(err, &infeasible) || !infeasible.OneHost || infeasible.DevicesNeeded != 0 || !strings.Contains(err.Error(), "all slices of the table must lie on one host") {
		t.Errorf("got %v, want an Infeasible that says that one host is too small", err)
	}
	p.Tables[0].Constraint.OneHost = false
	if _, err := Run(context.Background(), p, additiveFactory(p), Options{MaxEvaluations: 3000}); err != nil {
		t.Errorf("on any hosts: %v", err)
	}
}

// TestOneHostFills: a table that no host has room for as slices of columns is cut by rows, and a table
// that one host has room for is cut there.
func TestOneHostFills(t *testing.T) {
	alone := problem.Constraint{OneHost: true}
	p := onHosts(alone, alone)
	p.Tables[1].Constraint.ShardingTypes = []problem.ShardingType{problem.ColumnWise}
	p.Topology.HostMemory, p.Tables[0].Rows, p.Tables[1].Rows = 0, 1_000_000, 250_000
	leave(p, 30_000_000)
	c := newCatalog(p, nil, false)
	f := newForms(c, Options{ShardingTypes: []problem.ShardingType{problem.ColumnWise, problem.RowWise}})
	every, none := fitting(c, &f, never)
	if none {
		t.Error("got no placement in any form, want one")
	}
	pk := newPacker(c, variantsOf(c, &f))
	pk.settle(never)
	for what, parts := range map[string][]placed{"any form": every, "packing": partsOf(c, pk.packing())} {
		if len(parts) < 3 { // the first table on all devices, and two slices of the other one
			t.Errorf("%s: got %v, want a placement", what, parts)
		}
		for _, a := range parts {
			for _, b := range parts {
				k, other := &c.pieces[a.piece], &c.pieces[b.piece]
				if k.members[0].table == other.members[0].table && strays(c, k, a.device, b.device) {
					t.Errorf("%s: slices of table %d lie on devices %d and %d of two hosts", what, k.members[0].table, a.device, b.device)
				}
			}
		}
	}
}

// TestRehost: all slices of the table move to the other host, each time.
func TestRehost(t *testing.T) {
	p := hostProblem(1, "")
	p.Tables = p.Tables[:1]
	p.Tables[0].Dim = 32
	c := newCatalog(p, additiveFactory(p)(), false)
	half := c.slice(c.whole()[0], 16)
	c.register(&c.pieces[half])
	m := &mover{layout: newLayout(c, c.scorer, onlyColumns(c)), draw: rand.New(rand.NewPCG(1, 0))}
	for range 20 {
		m.reset([]placed{{half, 0}, {half, 1}})
		m.gone, m.come = m.gone[:0], m.come[:0]
		if !rehost(m, 1) || len(m.come) != 2 || m.come[0].device < 3 || m.come[1].device < 3 {
			t.Fatalf("got %v from devices 0 and 1, want two devices of 3 to 5", m.come)
		}
	}
}
