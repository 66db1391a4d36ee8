package bound

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
)

// placed is a drawn placement: the slices of each device, its longest compute without the fixed time of
// an operator, in ms, and the columns of the device with the most.
type placed struct {
	devices [][]problem.Shard
	longest float64
	columns int
}

// drawPlaced cuts the tables of p into slices on the given number of devices. Each of the slices of
// table 0 is on a device of its own, in a third of the draws with nothing beside it.
func drawPlaced(random *rand.Rand, p *problem.Problem, devices, pieces int) placed {
	d := placed{devices: make([][]problem.Shard, devices)}
	first := 0
	if pieces < devices && random.IntN(3) == 0 {
		first = pieces
	}
	for i := range p.Tables {
		n := 1 + random.IntN(3)
		if i == 0 {
			n = pieces
		}
		rest := int64(p.Tables[i].Dim)
		for at := range n {
			s := p.Whole(i)
			s.Columns.Start = s.Columns.End - rest
			if width := 4 * (1 + random.Int64N(max(1, rest/4-int64(n-1-at)))); at < n-1 && width < rest {
				s.Columns.End = s.Columns.Start + width
			}
			on := first + random.IntN(devices-first)
			if i == 0 {
				on = at
			}
			d.devices[on] = append(d.devices[on], s)
			if rest -= s.Columns.Len(); rest == 0 {
				break
			}
		}
	}
	judge := simulate.NewPricer(p)
	for _, held := range d.devices {
		forward, backward := judge.GroupCost(held)
		d.longest = max(d.longest, float64(forward+backward)-fixedMS)
		columns := 0
		for _, s := range held {
			columns += problem.Columns(int(s.Columns.Len()), p.Tables[s.Table].Bags())
		}
		d.columns = max(d.columns, columns)
	}
	return d
}

// operatorOf returns the place of the operator of a device with one operator, in the modes of a memory
// class.
func operatorOf(r *relaxation, p *problem.Problem, held []problem.Shard, memory int) int {
	widest, rows := 0, 0.0
	for _, s := range held {
		widest, rows = max(widest, int(s.Columns.Len()/4)), rows+float64(p.Tables[s.Table].Rows)
	}
	passes := min(sortPasses(rows), r.mostPasses(0))
	at := -1
	for k := range r.operators {
		o := &r.operators[k]
		if m := &r.modes[o.mode]; m.several == 0 && m.memory == memory && o.passes == passes && o.widest >= widest && (at < 0 || o.widest < r.operators[at].widest) {
			at = k
		}
	}
	return at
}

// TestRoomsHoldEveryPlacement: at any tangents, the times of beyond of the slices of a device add up to at
// most its room. In half of the draws, the first table is a guest.
func TestRoomsHoldEveryPlacement(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 1))
	sharper := 0
	for draw := range 150 {
		p := hotProblem(random, 4)
		allowed := Allowed{}
		comm := must.Get(newExchange(p, allowed))(t)
		tree := newTree(newRelaxation(p, simulate.NewPricer(p), 4, allowed), comm, nil)
		pieces, guests := 1+random.IntN(min(3, p.Tables[0].Dim/4)), draw%2 == 1
		d := drawPlaced(random, p, 4, pieces)
		if guests {
			tree = (division{tree}).withPieces(0, pieces, 4, math.Inf(1), true)
		}
		r := tree.relaxation
		r.longest = d.longest * (1 + 1e-6)
		for k := range r.directions {
			drawDirection(random, &r.directions[k], r.operators[k].forwards)
		}
		makeRooms(r, float64(d.columns))
		for on, held := range d.devices {
			if len(held) == 0 {
				continue // the fewest columns of a device are 0
			}
			memory := 0
			if guests && on >= pieces {
				memory = 1
			}
			k := operatorOf(r, p, held, memory)
			sum := 0.0
			for _, s := range held {
				table := &r.tables[s.Table]
				v := beyond(r, k, table, &table.slices[s.Columns.Len()/4-1])
				if v < -1e-9*r.longest {
					t.Fatalf("slice %v: beyond returns %v ms, want 0 or more", s, v)
				}
				sum += v
			}
			if room := roomOf(r, &r.operators[k]); sum > room {
				t.Fatalf("device %d of %v: the times of beyond add up to %v ms, want at most the room of %v ms", on, d, sum, room)
			}
			if r.rooms[r.operators[k].mode].taken > 0.05*r.longest {
				sharper++
			}
		}
	}
	if sharper < 30 {
		t.Errorf("got %d devices on which rooms take 5 %% of the longest time or more, want at least 30", sharper)
	}
}

// drawDirection sets d to the tangent of the time of an operator at a drawn load.
func drawDirection(random *rand.Rand, d *load, forwards float64) {
	var l load
	for j := range sorting {
		l[j] = random.Float64()
	}
	size := l.sizes()
	tangent(d, &l, forward, forwards, size.forward)
	tangent(d, &l, backward, 1, size.backward)
	d[sorting] = 1
}
