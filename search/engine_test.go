package search

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// evenProblem draws a problem of a few tables whose dims have several divisors.
func evenProblem(seed uint64, tables, devices int) *problem.Problem {
	draw := rand.New(rand.NewPCG(seed, 0x6576656e))
	p := &problem.Problem{Batch: 64, Engine: problem.TorchRec}
	p.Topology.Profile.Memory, p.Topology.Devices = 1<<40, devices
	for i := range tables {
		p.Tables = append(p.Tables, problem.Table{
			Name: fmt.Sprint("t", i), Rows: 100 + draw.Int64N(1000), Dim: []int{8, 12, 24, 32}[draw.IntN(4)],
			Features: []problem.Feature{{PoolingFactor: 1 + draw.Float64()*20}},
		})
	}
	return p
}

// TestEqualSlices: the slices of a table have equal widths, and under HugeCTR a device
// holds one of them at most, and none holds nothing.
func TestEqualSlices(t *testing.T) {
	for seed := range uint64(20) {
		for _, engine := range []problem.Engine{problem.TorchRec, problem.HugeCTR} {
			p := evenProblem(seed, 6, 3)
			p.Engine = engine
			for _, method := range []Method{NeuroShard, Paper, Size, Random} {
				result, err := Run(context.Background(), p, additiveFactory(p), Options{Method: method, MaxEvaluations: 3000})
				if err != nil {
					t.Fatalf("seed %d, %s, %s: %v", seed, engine, method, err)
				}
				checkEqual(t, fmt.Sprintf("seed %d, %s, %s", seed, engine, method), p, result.Shards)
			}
		}
	}
}

// TestFromKeepsToTheRules: a search from an old placement keeps to the rules of engines, too,
// whether tables are new or read differently.
func TestFromKeepsToTheRules(t *testing.T) {
	for seed := range uint64(8) {
		for _, engine := range []problem.Engine{problem.TorchRec, problem.HugeCTR} {
			p := evenProblem(seed, 6, 3)
			p.Engine = engine
			fewer := *p
			fewer.Tables = p.Tables[:5]
			old, err := Run(context.Background(), &fewer, additiveFactory(&fewer), Options{MaxEvaluations: 1000})
			if err != nil {
				t.Fatal(err)
			}
			for i := range p.Tables {
				p.Tables[i].Features[0].PoolingFactor *= 1 + float64(seed%7)*float64(i%3)
			}
			forced := unit.Bytes(0)
			for _, from := range []From{{Limited: true}, {Limited: true, Most: 3000}, {Price: 1e-6}, {}} {
				from.Shards = old.Shards
				r, err := Run(context.Background(), p, additiveFactory(p), Options{MaxEvaluations: 6000, From: &from})
				if err != nil {
					t.Fatal(err)
				}
				checkEqual(t, fmt.Sprintf("seed %d, %s, from %v", seed, engine, from.Most), p, r.Shards)
				if from.Most == 0 && from.Limited {
					forced = r.Moved
				}
				if from.Limited && r.Moved > forced+from.Most {
					t.Errorf("seed %d, %s: got %d moved bytes, want at most %d beyond %d", seed, engine, r.Moved, from.Most, forced)
				}
			}
		}
	}
}

// TestEqualOptimum: all placements of a tiny problem are tried in equal slices, and the
// other stages find no cheaper one.
func TestEqualOptimum(t *testing.T) {
	for seed := range uint64(10) {
		p := evenProblem(seed, 2, 2)
		best, err := Run(context.Background(), p, additiveFactory(p), Options{})
		if err != nil || !best.Optimal {
			t.Fatalf("seed %d: optimal %v, error %v, want an optimum", seed, best.Optimal, err)
		}
		checkEqual(t, fmt.Sprintf("seed %d", seed), p, best.Shards)
		drawn, err := Run(context.Background(), p, additiveFactory(p), Options{MaxEvaluations: 20_000})
		if err != nil || drawn.Cost < best.Cost*(1-1e-9) {
			t.Errorf("seed %d: the stages find %v, error %v, and all placements are %v or more", seed, drawn.Cost, err, best.Cost)
		}
	}
}

func checkEqual(t *testing.T, what string, p *problem.Problem, held [][]problem.Shard) {
	t.Helper()
	width := map[int]int{}
	for d, shards := range held {
		on := map[int]int{}
		for _, s := range shards {
			if w, ok := width[s.Table]; ok && w != s.Dim() {
				t.Errorf("%s: table %d has slices of %d and of %d columns", what, s.Table, w, s.Dim())
			}
			width[s.Table] = s.Dim()
			if on[s.Table]++; on[s.Table] > 1 && p.Engine.Rules().OneSlice {
				t.Errorf("%s: device %d holds %d slices of table %d", what, d, on[s.Table], s.Table)
			}
		}
		if len(shards) == 0 && p.Engine.Rules().NoIdle {
			t.Errorf("%s: device %d holds nothing", what, d)
		}
	}
}

// TestEqualSlicesFindRoom compares with a search through all placements in equal slices, on devices of
// two memories. Each problem gets a placement, or a proof that there is none.
func TestEqualSlicesFindRoom(t *testing.T) {
	third := evenProblem(0, 1, 2) // three slices of 8 columns fit as 2 + 1; halves of 12 do not
	third.Tables[0].Rows, third.Tables[0].Dim = 1000, 24
	problems := []*problem.Problem{third}
	for seed := range uint64(200) {
		problems = append(problems, evenProblem(seed, 1+int(seed%4), 2+int(seed%3)))
	}
	fits := 0
	for seed, p := range problems {
		p.Engine = []problem.Engine{problem.TorchRec, problem.HugeCTR}[seed%2]
		p.Accounting, p.Topology.ReserveShare = problem.CountWeights, hardware.NoReserve
		all, draw := unit.Bytes(0), rand.New(rand.NewPCG(uint64(seed), 1))
		for i := range p.Tables {
			all += p.ShardMemory(p.Whole(i)).Tables()
		}
		fill := 1.0 / 3
		if seed > 0 {
			fill = (.6 + .3*draw.Float64()) / float64(p.Topology.Devices)
		}
		for d := range p.Topology.Devices {
			p.Topology.DeviceMemories = append(p.Topology.DeviceMemories, unit.Bytes(float64(all)*fill)*unit.Bytes(2-d%2))
		}
		c := newCatalog(p, nil, false)
		room := make([]int64, len(c.all))
		for d := range room {
			room[d] = c.free(int32(d))
		}
		want := fitEqually(c, room, 0)
		columns := onlyColumns(c)
		parts, none := fitting(c, &columns, never)
		if len(parts) > 0 != want || none == want {
			t.Errorf("problem %d, %s: got a placement %v, and a proof that there is none: %t, want %t", seed, p.Engine, parts, none, !want)
		}
		if breaks(c, parts) {
			t.Errorf("problem %d, %s: %v breaks a rule", seed, p.Engine, parts)
		}
		if want {
			fits++
			if _, err := Run(context.Background(), p, additiveFactory(p), Options{MaxEvaluations: 100}); err != nil && !errors.As(err, new(*Idle)) {
				t.Errorf("problem %d: %v", seed, err)
			}
		}
	}
	if fits < 50 || fits > 150 {
		t.Errorf("%d of %d problems have a placement, want about half", fits, len(problems))
	}
}

// fitEqually reports whether the tables from i on fit in equal slices.
func fitEqually(c *catalog, room []int64, i int) bool {
	if i == len(c.problem.Tables) {
		return true
	}
	dim := c.problem.Tables[i].Dim
	for _, width := range c.equalWidths[i] {
		bytes := c.pieces[c.slice(c.whole()[i], width)].bytes
		var from func(d, left int) bool
		from = func(d, left int) bool {
			if d == len(room) {
				return left == 0 && fitEqually(c, room, i+1)
			}
			for n := 0; n <= left && (n <= 1 || !c.rules.OneSlice) && int64(n)*bytes <= room[d]; n++ {
				room[d] -= int64(n) * bytes
				found := from(d+1, left-n)
				room[d] += int64(n) * bytes
				if found {
					return true
				}
			}
			return false
		}
		if from(0, dim/width) {
			return true
		}
	}
	return false
}
