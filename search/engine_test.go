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

// TestEveryDeviceHoldsAPart: under HugeCTR, few tables are spread over all devices, in equal slices of
// which a device holds one; or the error says that there are too few slices.
func TestEveryDeviceHoldsAPart(t *testing.T) {
	idle := 0
	for seed := range uint64(20) {
		p := evenProblem(seed, 1+int(seed%3), 3+int(seed%4))
		p.Engine = problem.HugeCTR
		r, err := Run(context.Background(), p, additiveFactory(p), Options{MaxEvaluations: 3000})
		if errors.As(err, new(*Idle)) {
			idle++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for d, held := range r.Shards {
			on := map[int]bool{}
			for _, s := range held {
				if dim := p.Tables[s.Table].Dim; dim%s.Dim() != 0 || on[s.Table] {
					t.Errorf("seed %d, device %d: got %v", seed, d, held)
				}
				on[s.Table] = true
			}
			if len(held) == 0 {
				t.Errorf("seed %d: device %d holds nothing", seed, d)
			}
		}
	}
	if idle == 0 || idle > 10 {
		t.Errorf("got %d of 20 problems with too few slices, want some", idle)
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
			all += p.ShardMemory(p.Whole(i))[problem.ForwardExchange].Used()
		}
		fill := 1.0 / 3
		if seed > 0 {
			fill = (.6 + .3*draw.Float64()) / float64(p.Topology.Devices)
		}
		for d := range p.Topology.Devices {
			p.Topology.DeviceMemories = append(p.Topology.DeviceMemories, unit.Bytes(float64(all)*fill)*unit.Bytes(2-d%2))
		}
		c := newCatalog(p, additiveFactory(p)())
		room := make([]int64, len(c.all))
		for d := range room {
			room[d] = c.free(int32(d))[c.phase]
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
		bytes := c.bytes(c.slice(c.whole()[i], width))
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
