package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// mixed returns a problem of n tables of all optimizers, precisions and widths, with bags of
// equal and of unequal length, on the given topology.
func mixed(n int, topology hardware.Topology) *problem.Problem {
	random := rand.New(rand.NewPCG(1, 2))
	p := &problem.Problem{Topology: topology, Batch: 65536}
	for i := range n {
		t := problem.Table{
			Name: fmt.Sprint("t", i), Rows: int64(math.Exp(4 + 14*random.Float64())), Dim: 4 << random.IntN(6),
			Features: []problem.Feature{{PoolingFactor: 50 * random.Float64() * random.Float64()}},
			Access:   access.Distribution{Kind: access.Zipf, Exponent: .8 + .5*random.Float64()},
		}
		if i%5 == 0 {
			t.Features = append(t.Features, problem.Feature{PoolingFactor: 1, LengthCV: 2})
		}
		t.Features[0].LengthCV = .4 * float64(i%3)
		t.Optimizer = problem.Optimizer(i % 4)
		t.Precision = problem.Precision(i % 3)
		t.Weighted = i%7 == 0
		p.Tables = append(p.Tables, t)
	}
	return p
}

// dealt puts table i on devices i and i+1, in two halves if it is wide enough.
func dealt(p *problem.Problem) [][]problem.Shard {
	shards := make([][]problem.Shard, p.Topology.Devices)
	for i := range p.Tables {
		s, r := p.Whole(i), i%len(shards)
		if s.Dim() >= 8 {
			other := s
			half := s.Columns.End / 2
			s.Columns.End, other.Columns.Start = half, half
			next := (r + 1) % len(shards)
			shards[next] = append(shards[next], other)
		}
		shards[r] = append(shards[r], s)
	}
	return shards
}

// TestGroupIsOneOpForEachKind compares a mixed group with its operators one by one.
func TestGroupIsOneOpForEachKind(t *testing.T) {
	p := mixed(60, hardware.Topology{Profile: a100(t), Devices: 1})
	for i := 1; i < len(p.Tables); i += 12 {
		p.Tables[i].Pooling, p.Tables[i].Weighted = problem.PoolingNone, false
	}
	group := dealt(p)[0]
	d := NewDevice(a100(t))
	ops := map[string]*Op{}
	for _, s := range group {
		table := &p.Tables[s.Table]
		key := fmt.Sprint(table.Optimizer, table.Precision, table.Weighted, table.Pooling)
		if ops[key] == nil {
			ops[key] = &Op{Batch: p.Batch, WeightBytes: int(table.Precision.Bytes()), Optimizer: table.Optimizer, Weighted: table.Weighted, Pooling: table.Pooling}
		}
		ops[key].Tables = append(ops[key].Tables, Table{Rows: table.Rows, Dim: s.Dim(), Bags: table.Bags(), Counts: table.Counts(p.Batch), LengthCV: table.LengthCV()})
	}
	if len(ops) < 12 {
		t.Fatalf("got %d operators, want at least 12 in a mixed group", len(ops))
	}
	var want, wantBack unit.Millis
	for _, op := range ops {
		forward, backward := d.Compute(*op)
		want += forward
		wantBack += backward
	}
	got, gotBack := NewPricer(p).GroupCost(group)
	if math.Abs(float64(got-want)) > 1e-12*float64(want) || math.Abs(float64(gotBack-wantBack)) > 1e-12*float64(wantBack) {
		t.Errorf("a mixed group: got %v and %v, want %v and %v", got, gotBack, want, wantBack)
	}
}

func TestInputExchangeIsAnOption(t *testing.T) {
	p := mixed(50, hardware.Topology{Profile: a100(t), Devices: 6, DevicesPerHost: 4})
	shards := dealt(p)
	pricer := NewPricer(p)
	got := must.Get(pricer.Input(shards))(t)
	// The host's wait and three starts over the network are the least.
	least := unit.Micros(60 + 3*(20+20*math.Log2(6)))
	if got < least {
		t.Errorf("got an input exchange of %v, want at least %v", got, least)
	}
	shards[0][0].Columns.End += 1 << 20
	if _, err := pricer.Input(shards); err == nil {
		t.Error("a slice beyond the table: got no error")
	}
}

func TestPriceRefusesOtherShards(t *testing.T) {
	p := mixed(3, hardware.Topology{Profile: a100(t), Devices: 2})
	beyond, far, wide := p.Whole(0), p.Whole(1), p.Whole(2)
	beyond.Rows = problem.Range{Start: beyond.Rows.End, End: 2 * beyond.Rows.End}
	far.Table = 3
	wide.Columns.End += 4
	numbered := p.Whole(2)
	numbered.Operator = problem.Operators
	for want, shards := range map[string][][]problem.Shard{
		"3 devices, the cluster 2":                        {{}, {}, {}},
		`table "t0": rows 708127 to`:                      {{beyond}, {}},
		"device 0: table #3 does not exist":               {{far}, {}},
		`device 1: table "t2": columns`:                   {{}, {wide}},
		`device 1: table "t2": operator 3 does not exist`: {{}, {numbered}},
	} {
		if _, err := NewPricer(p).Price(shards); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("GroupCost of rows beyond the table: got no panic")
		}
	}()
	NewPricer(p).GroupCost([]problem.Shard{beyond})
}
