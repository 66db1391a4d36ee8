package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
)

// hugectr returns the norms of the forward, of the reduction of gradients and of the update of
// HugeCTR's kernels: the second implementation of the page.
func (o refOp) hugectr() (forward, reduce, update float64) {
	const each = 16.2
	var h, z, i [3]float64
	for _, t := range o.tables {
		if t.lookups == 0 {
			continue
		}
		bags, width, gradient := o.batch*t.features, t.dim*o.weight, up(t.dim*o.output, 32)
		a := float64(o.device.Granule)
		state := map[string]float64{"sgd": 0, "rowwise_adagrad": 64, "adagrad": 2 * up(4*t.dim, a), "adam": 4 * up(4*t.dim, a)}[o.optimizer]
		steps := math.Ceil(t.dim / (4 * o.warp()))
		rest := (t.lookups+bags)*o.index + bags*gradient
		if o.weighted {
			rest += 4 * t.lookups
		}
		inFlight := math.Max(1, math.Ceil(float64(o.device.SMs)*45/o.batch))
		room := .9 * float64(o.device.L2) / (math.Min(inFlight, float64(o.used())) * up(width, 32))
		h[0] += refMisses(t, room)*(up(width, a)+o.overhead()) + rest + 16*t.lookups
		z[0] += t.lookups*up(width, 32) + rest
		i[0] += (t.lookups*steps + bags) * each

		q := math.Min(1, .9*float64(o.device.L2)/(bags*gradient))
		h[1] += math.Min(bags, t.lookups)*gradient + math.Max(0, t.lookups-bags)*gradient*(1-q) + t.unique*gradient + t.lookups*(32+t.dim/4)
		z[1] += (t.lookups + t.unique) * gradient
		i[1] += t.lookups * steps * each

		h[2] += t.unique * (gradient + 2*(up(width, a)+o.overhead()) + state)
		z[2] += t.unique * (gradient + 2*up(width, 32) + state)
		i[2] += t.unique * steps * each
	}
	return o.slowest(h[0], .90, z[0], i[0]), o.slowest(h[1], .90, z[1], i[1]), o.slowest(h[2], .90, z[2], i[2])
}

// used returns the number of tables with lookups.
func (o refOp) used() (n int) {
	for _, t := range o.tables {
		if t.lookups > 0 {
			n++
		}
	}
	return n
}

func TestHugeCTREqualsReference(t *testing.T) {
	draws := refDraws{rand.New(rand.NewPCG(5, 6))}
	for i := range 300 {
		d, op := draws.op()
		op.Pooling, op.Tables[0].Dim = problem.Pooling(0), min(op.Tables[0].Dim, WideColumns)
		forward, reduce, update := refOf(d, op).hugectr()
		what := fmt.Sprintf("%+v on %s", op, d.Profile().Name)
		k := d.HugeCTR(op, false)
		difference(t, "forward of "+what, i, float64(k.Forward), forward)
		difference(t, "backward of "+what, i, float64(k.Update), reduce+update)
		difference(t, "replicas of "+what, i, float64(d.HugeCTR(op, true).Update), reduce)
		if usual := d.Kernels(op); k.Sort != usual.Sort || k.Prepare != usual.Prepare {
			t.Errorf("%s: got %v and %v to sort and prepare, want those of other kernels, %v and %v", what, k.Sort, k.Prepare, usual.Sort, usual.Prepare)
		}
	}
}
