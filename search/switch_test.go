package search

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// replicating is additive with replicas: a table that every device holds costs every device a
// share of the table's time on a single device, and sends no columns.
type replicating struct {
	*additive
	share  float64
	shared *float64
}

// replicaItem is the item of the replica of table 0.
const replicaItem = 1_000

func (r replicating) Item(table, width int, form problem.Form) int {
	if form.ShardingType == problem.DataParallel {
		return replicaItem + table
	}
	return r.additive.Item(table, width, form)
}

func (r replicating) add(device, item int, sign float64) {
	if table := item - replicaItem; table >= 0 {
		*r.shared += sign * r.share * r.p.Tables[table].PoolingFactor() * float64(r.p.Tables[table].Dim)
		return
	}
	r.shift(device, item, sign)
}

func (r replicating) Add(device, item int)    { r.add(device, item, 1) }
func (r replicating) Remove(device, item int) { r.add(device, item, -1) }
func (r replicating) Reset()                  { r.additive.Reset(); *r.shared = 0 }
func (r replicating) Shared() float64         { return *r.shared }
func (r replicating) Cost() float64           { return r.additive.Cost() + *r.shared }

// TestNeighbours begins from a placement on two devices from which one table has to take
// another form, and other tables have to be cut, before the placement becomes cheaper:
//
//	device 0   A: 32 ms           as replicas, A takes 8 ms and B 9 ms of each device
//	device 1   B: 36 ms
//	both       C as a replica: 2 ms
//
// With a replica of A, too, the placement is more expensive, until B becomes a replica or is cut
// into halves. The other way round, tables whose replicas are expensive become slices again.
func TestNeighbours(t *testing.T) {
	types := []problem.ShardingType{problem.TableWise, problem.ColumnWise, problem.DataParallel}
	replica := problem.Form{ShardingType: problem.DataParallel}
	for _, c := range []struct {
		name  string
		share float64 // of a replica
		// replicas are the tables that all devices hold at first; the other tables lie on the
		// devices in turn. want are those that all devices hold at last.
		replicas, want []int
		before, after  float64
	}{
		{"more replicas", .25, []int{2}, []int{0, 1, 2}, 36 + 3.2 + 2, 8 + 9 + 2},
		{"fewer replicas", .75, []int{0, 1}, nil, 8 + 3.2 + 24 + 27, (32+36+8)/2. + 4.8},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tables []table
			for _, pooling := range []float64{1, 1.125, .25} {
				tables = append(tables, table{10, 32, pooling})
			}
			p := handMade(unit.GiB, 2, tables...)
			p.Accounting = problem.CountAll
			base := additiveFactory(p)
			shared := 0.0
			opt, err := Options{Workers: 1, ShardingTypes: types}.withDefaults()
			if err != nil {
				t.Fatal(err)
			}
			r := newRun(context.Background(), p, func() Scorer { return replicating{base().(*additive), c.share, &shared} }, opt)
			var parts []placed
			for i, k := range r.catalog.whole() {
				if slices.Contains(c.replicas, i) {
					parts = append(parts, placed{r.catalog.inForm(k, 32, replica), 0})
				} else {
					parts = append(parts, placed{k, int32(len(parts) % 2)})
				}
			}
			w := switcher{newAnnealing(r, r.offer(placement{}, parts), r.forms)}
			before := w.placement.cost
			found := (&course{r: r, forms: r.forms}).neighbours(racer{placement: placement{parts: parts, cost: before}}, 2_000)
			var got []int
			for _, p := range found.parts {
				if k := &r.catalog.pieces[p.piece]; *k.form == replica {
					got = append(got, k.members[0].table)
				}
			}
			slices.Sort(got)
			if after := found.cost; !slices.Equal(got, c.want) || math.Abs(before-c.before) > 1e-9 || after > c.after+1e-9 {
				t.Errorf("got %v ms at first, and replicas of %v for %v ms at last, want %v ms, and %v for at most %v ms", before, got, after, c.before, c.want, c.after)
			}
		})
	}
}
