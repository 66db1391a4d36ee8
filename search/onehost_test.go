package search

import (
	"context"
	"errors"
	"fmt"
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
	for seed := range uint64(2) {
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
