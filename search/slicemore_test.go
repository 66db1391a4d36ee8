package search

import (
	"context"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// TestOneSliceMore cuts the hottest of four tables, whose slices lie on devices 0 and 1, into three. Device 3
// is the least busy of the others.
func TestOneSliceMore(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(p *problem.Problem)
		want   map[int32]int // columns by device
	}{
		{name: "three slices", want: map[int32]int{0: 20, 1: 24, 3: 20}},
		{name: "slices of one width", change: func(p *problem.Problem) { p.Engine = problem.TorchRec }},
		{name: "no slice below 24", change: func(p *problem.Problem) { p.Tables[0].Constraint.MinWidth = 24 }},
		{name: "on two devices only", change: func(p *problem.Problem) { p.Tables[0].Constraint.Devices = []int{0, 1} }},
		{name: "not hot", change: func(p *problem.Problem) { p.Tables[1].Features[0].PoolingFactor = 40 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := handMade(unit.GiB, 4, table{100, 64, 20}, table{100, 32, 1}, table{100, 32, 8}, table{100, 32, 4})
			if c.change != nil {
				c.change(p)
			}
			opt, err := Options{Workers: 1}.withDefaults()
			if err != nil {
				t.Fatal(err)
			}
			newScorer := func() Scorer { return &launches{additiveFactory(p)().(*additive)} }
			r := newRun(context.Background(), p, newScorer, opt)
			var parts []placed
			for i, k := range r.catalog.whole() {
				if i == 0 {
					half := r.catalog.inForm(k, 32, problem.Form{})
					parts = append(parts, placed{half, 0}, placed{half, 1})
					continue
				}
				parts = append(parts, placed{k, int32(i)})
			}
			parts[2].device = 0 // table 1, which makes device 0 busier than device 1
			a := newAnnealing(r, r.offer(placement{}, parts), r.forms.none())
			starts := slicedMore(a)
			if c.want == nil {
				if len(starts) > 0 {
					t.Errorf("got %d placements, want none", len(starts))
				}
				return
			}
			if len(starts) == 0 {
				t.Fatal("got no placement")
			}
			for i, s := range starts {
				got, others := map[int32]int{}, 0
				for _, p := range s.parts {
					if m := r.catalog.pieces[p.piece].members[0]; m.table == 0 {
						got[p.device] += m.width
					} else {
						others += m.width
					}
				}
				if diff := gocmp.Diff(c.want, got); diff != "" || others != 3*32 {
					t.Errorf("placement %d: got %d columns of other tables, want 96; columns of the hot one (-want +got):\n%s", i, others, diff)
				}
				if offered := r.offer(placement{}, s.parts); offered.cost != s.cost {
					t.Errorf("placement %d: got the cost %v, want %v", i, s.cost, offered.cost)
				}
			}
		})
	}
}

// TestOneSliceMoreOfOneTable cuts the only table, which lies whole on device 2, in two.
func TestOneSliceMoreOfOneTable(t *testing.T) {
	opt, err := Options{Workers: 1}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	p := handMade(unit.GiB, 4, table{100, 64, 20})
	r := newRun(context.Background(), p, additiveFactory(p), opt)
	a := newAnnealing(r, r.offer(placement{}, []placed{{r.catalog.whole()[0], 2}}), r.forms.none())
	starts := slicedMore(a)
	if len(starts) == 0 {
		t.Fatal("got no placement")
	}
	for i, s := range starts {
		if len(s.parts) != 2 || s.parts[0].device == s.parts[1].device {
			t.Errorf("placement %d: got %v, want two slices on two devices", i, s.parts)
		}
		for _, p := range s.parts {
			if w := r.catalog.pieces[p.piece].members[0].width; w != 32 {
				t.Errorf("placement %d: got a slice of %d columns, want 32", i, w)
			}
		}
	}
}

// Replicas stay as they are, and are no slices to cut.
func TestOneSliceMoreBesideReplicas(t *testing.T) {
	p := handMade(unit.GiB, 4, table{100, 64, 20}, table{10, 32, 1})
	r := newRun(context.Background(), p, formlessFactory(p), Options{Method: NeuroShard, ShardingTypes: problem.ShardingTypes(), Workers: 1})
	hot := r.catalog.whole()[0]
	replica := placed{r.catalog.inForm(r.catalog.whole()[1], 32, problem.Form{ShardingType: problem.DataParallel}), 0}
	a := newAnnealing(r, r.offer(placement{}, []placed{{hot, 2}, replica}), r.forms)
	starts := slicedMore(a)
	if len(starts) == 0 {
		t.Fatal("got no placement")
	}
	for i, s := range starts {
		if len(s.parts) != 3 || !slices.Contains(s.parts, replica) {
			t.Errorf("placement %d: got %v, want two slices and %v", i, s.parts, replica)
		}
	}
	both := placed{r.catalog.inForm(hot, 64, problem.Form{ShardingType: problem.DataParallel}), 0}
	a = newAnnealing(r, r.offer(placement{}, []placed{both, replica}), r.forms)
	if starts := slicedMore(a); len(starts) > 0 {
		t.Errorf("got %d placements of replicas alone, want none", len(starts))
	}
}
