package search

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
)

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
