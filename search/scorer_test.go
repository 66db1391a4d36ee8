package search_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// closedForm is a cost model in integers, in nanoseconds: a device pays a
// launch, its shards' bytes, or, where that is more, their lookups times the
// lanes of its widest shard; all pay for the largest dim sum. It has the traits
// that make the problem hard: fusion is not additive, and mixing widths costs.
type closedForm struct {
	p       *problem.Problem
	items   *items
	held    []held
	widths  [][]int32 // device -> width/4 -> count
	network int64     // ns per pooled column
}

type slice struct{ table, width int }

// items is the memory that the Scorers of a factory share.
type items struct {
	list  []slice
	index map[slice]int
}

type held struct {
	count, bytes, narrow, dims int64
	widest                     int
}

// factory returns a Factory of closedForm Scorers.
func factory(p *problem.Problem) search.Factory {
	items := &items{index: map[slice]int{}}
	return func() search.Scorer {
		s := &closedForm{p: p, items: items, network: 200}
		s.held = make([]held, p.Topology.Devices)
		s.widths = make([][]int32, p.Topology.Devices)
		widest := 0
		for i := range p.Tables {
			widest = max(widest, p.Tables[i].Dim)
		}
		for d := range s.widths {
			s.widths[d] = make([]int32, widest/4+1)
		}
		return s
	}
}

func (s *closedForm) Item(table, width int, form problem.Form) int {
	if form != (problem.Form{}) {
		panic("search: closedForm estimates slices of columns in HBM only")
	}
	key := slice{table, width}
	i, ok := s.items.index[key]
	if !ok {
		i = len(s.items.list)
		s.items.index[key] = i
		s.items.list = append(s.items.list, key)
	}
	return i
}

func (s *closedForm) Reset() {
	clear(s.held)
	for _, w := range s.widths {
		clear(w)
	}
}

func (s *closedForm) Add(device, item int) { s.shift(device, item, 1) }

func (s *closedForm) Remove(device, item int) { s.shift(device, item, -1) }

func (s *closedForm) shift(device, item int, sign int64) {
	h, counts := &s.held[device], s.widths[device]
	i := s.items.list[item]
	h.add(s.p, i, sign)
	counts[i.width/4] += int32(sign)
	switch {
	case sign > 0:
		h.widest = max(h.widest, i.width)
	default:
		for h.widest > 0 && counts[h.widest/4] == 0 {
			h.widest -= 4
		}
	}
}

func (h *held) add(p *problem.Problem, i slice, sign int64) {
	t := &p.Tables[i.table]
	lookups := int64(math.Ceil(t.PoolingFactor() * 16))
	h.count += sign
	h.bytes += sign * lookups * int64(i.width+8)
	h.narrow += sign * lookups * int64((i.width+127)/128)
	h.dims += sign * int64(problem.Columns(i.width, t.Bags()))
}

func (h held) time() float64 {
	if h.count == 0 {
		return 0
	}
	lanes := int64(32)
	switch {
	case h.widest <= 32:
		lanes = 8
	case h.widest <= 64:
		lanes = 16
	}
	return float64(40_000+20*max(h.bytes, 3*lanes*h.narrow)) / 1e6
}

func (s *closedForm) Compute(device int) float64 { return s.held[device].time() }

func (s *closedForm) ComputeWith(item int, devices []int32, out []float64) {
	i := s.items.list[item]
	for k, d := range devices {
		h := s.held[d]
		h.add(s.p, i, 1)
		h.widest = max(h.widest, i.width)
		out[k] = h.time()
	}
}

func (s *closedForm) Cost() float64 {
	slowest, dims := 0.0, int64(0)
	for _, h := range s.held {
		slowest, dims = max(slowest, h.time()), max(dims, h.dims)
	}
	return slowest + float64(s.network*dims)/1e6
}

func (s *closedForm) Shared() float64 { return 0 }

// TestColumnsOnly: whatever sharding types and host memory allow, a search with
// Options.ColumnsOnly asks for the zero form only. closedForm panics on others.
func TestColumnsOnly(t *testing.T) {
	p := pool(1, 12, 4, 128)
	p.Topology.HostMemory = unit.TiB
	opt := search.Options{ShardingTypes: problem.ShardingTypes(), ColumnsOnly: true, Workers: 1, MaxEvaluations: 5000}
	r := must.Get(search.Run(context.Background(), p, factory(p), opt))(t)
	for d, held := range r.Shards {
		for _, s := range held {
			if form := p.Form(s); form != (problem.Form{}) {
				t.Errorf("device %d: got table %d in form %+v, want columns in HBM", d, s.Table, form)
			}
		}
	}
}

// pool returns a problem of n tables like those of dlrm_datasets: log-normal
// rows and pooling factors, dims the powers of two from 4.
func pool(seed uint64, n, devices, maxDim int) *problem.Problem {
	random := rand.New(rand.NewPCG(seed, 77))
	p := &problem.Problem{Batch: 4096, Accounting: problem.CountWeights}
	profile, err := hardware.ByName("a100-40")
	if err != nil {
		panic(err)
	}
	p.Topology = hardware.Topology{Profile: profile, Devices: devices, Memory: 4 * unit.GiB, ReserveShare: hardware.NoReserve}
	dims := 0
	for 4<<dims < maxDim {
		dims++
	}
	for i := range n {
		p.Tables = append(p.Tables, problem.Table{
			Name:     "t" + string(rune('a'+i%26)) + string(rune('0'+i/26%10)) + string(rune('0'+i/260%10)) + string(rune('0'+i/2600)),
			Rows:     int64(math.Exp(random.NormFloat64()*2 + 12)),
			Dim:      4 << random.IntN(dims+1),
			Features: []problem.Feature{{Name: "f", PoolingFactor: math.Exp(random.NormFloat64() * 1.5)}},
			Access:   access.Distribution{Kind: access.Uniform},
		})
		t := &p.Tables[i]
		t.Rows = min(t.Rows, int64(3*unit.GiB)/int64(4*t.Dim))
	}
	return p
}
