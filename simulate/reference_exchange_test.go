package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// This file is a second implementation of the exchanges of docs/SIMULATED.md, which only
// tests use. It is written from the page, without the code that it checks, in the symbols of
// the page.

// refExchange is what the ranks of a step exchange: B, l, b, d_r, W, D_h, E and s_r of the
// page. vector is the bytes of an element before packing.
type refExchange struct {
	device                        hardware.Profile
	batch, perHost, bytes, vector float64
	columns                       []float64 // d, of each rank
	rowWise                       float64   // W
	byHost                        []float64 // D, of each host; nil for no such tables
	replicated                    float64   // E
	start                         []float64 // s, of each rank; nil for ready at once
}

func largest(values []float64) float64 {
	most := math.Inf(-1)
	for _, v := range values {
		most = math.Max(most, v)
	}
	return most
}

func total(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum
}

func (x refExchange) ranks() float64 { return float64(len(x.columns)) }
func (x refExchange) hosts() float64 { return math.Ceil(x.ranks() / x.perHost) }

// fixed returns alpha, or the fixed time between hosts, in ms.
func (x refExchange) fixed() float64 {
	if x.hosts() == 1 {
		return x.device.AllToAllLatencyUS / 1000
	}
	return .020 + .020*math.Log2(x.ranks())
}

// intra returns the bandwidth inside a host, nic the share of that between hosts, and stream
// that of the memory, in bytes/ms.
func (x refExchange) intra() float64  { return x.device.IntraGBps * 1e6 }
func (x refExchange) stream() float64 { return x.device.HBMGBps * x.device.HBMEfficiency * 1e6 }
func (x refExchange) nic() float64 {
	share := .89
	switch {
	case x.hosts() == 2:
		share = .80
	case x.hosts() <= 4:
		share = .95
	case x.hosts() <= 8:
		share = .93
	}
	return share * x.device.NICGBps * 1e6
}

// packed returns the bytes that packing an element moves: 2b, or the vector's and b.
func (x refExchange) packed() float64 { return x.vector + x.bytes }

// inHost returns T_host of the given bytes, which a host of one device does not need.
func (x refExchange) inHost(bytes float64) float64 {
	if x.perHost == 1 {
		return 0
	}
	return x.device.AllToAllLatencyUS/1000 + bytes/x.intra()
}

// allToAll returns T of the pooled vectors.
func (x refExchange) allToAll() float64 {
	n, sum, most := x.ranks(), total(x.columns), 0.0
	for _, d := range x.columns {
		sent := (n - 1) / n * x.batch * d * x.bytes
		received := x.batch / n * (sum - d) * x.bytes
		most = math.Max(most, math.Max(sent, received))
	}
	if x.hosts() == 1 {
		return x.fixed() + most/x.intra()
	}
	f := (n - x.perHost) / (n - 1)
	return x.fixed() + math.Max(most*(1-f)/x.intra(), most*f/x.nic())
}

// ring returns the time of a reduce-scatter of the row_wise tables.
func (x refExchange) ring() float64 {
	n, slowness := x.ranks(), 1/x.intra()
	if x.hosts() > 1 {
		slowness = math.Max(slowness, 1/(x.perHost*x.nic()))
	}
	return x.fixed() + (n-1)/n*x.batch*x.rowWise*x.bytes*slowness + x.batch*x.rowWise*x.packed()/x.stream()
}

// twoStages returns the time of the exchanges of the table_row_wise tables and grids.
func (x refExchange) twoStages() float64 {
	l, hosts, most := x.perHost, x.hosts(), largest(x.byHost)
	time := x.inHost((l-1)/l*x.batch*most*x.bytes) + x.batch*most*x.packed()/x.stream()
	if hosts == 1 {
		return time
	}
	moved := 0.0
	for _, d := range x.byHost {
		sent := (hosts - 1) / hosts * x.batch / l * d * x.bytes
		received := x.batch / (hosts * l) * (total(x.byHost) - d) * x.bytes
		moved = math.Max(moved, math.Max(sent, received))
	}
	return time + x.fixed() + moved/x.nic()
}

// allReduce returns the time of the all-reduce of the replicas' gradients.
func (x refExchange) allReduce() float64 {
	l, hosts := x.perHost, x.hosts()
	time := x.inHost(2 * (l - 1) / l * x.replicated * x.bytes)
	if hosts > 1 {
		time += x.fixed() + 2*(hosts-1)/hosts*x.replicated*x.bytes/l/x.nic()
	}
	return time
}

// exchange returns the times of each rank in ms.
func (x refExchange) exchange() (forward, backward []float64) {
	n := x.ranks()
	held := x.rowWise > 0 || len(x.byHost) > 0 && largest(x.byHost) > 0 || x.replicated > 0
	together, reduce := 0.0, 0.0
	if x.rowWise > 0 {
		together += x.ring()
	}
	if len(x.byHost) > 0 && largest(x.byHost) > 0 {
		together += x.twoStages()
	}
	if x.replicated > 0 {
		reduce = x.allReduce()
	}
	for r, d := range x.columns {
		if n == 1 {
			return []float64{0}, []float64{0}
		}
		f, b := together, together+reduce
		if x.start != nil {
			f += largest(x.start) - x.start[r]
		}
		if sum := total(x.columns); sum > 0 || !held {
			f += x.allToAll() + x.batch*d*x.packed()/x.stream()
			b += x.allToAll() + x.batch/n*sum*x.packed()/x.stream()
		}
		forward, backward = append(forward, f), append(backward, b)
	}
	return forward, backward
}

// TestExchangesEqualReference compares 600 exchanges with the second implementation.
func TestExchangesEqualReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...int) int { return of[rng.IntN(len(of))] }
	for i := range 600 {
		p := hardware.Profiles()[rng.IntN(len(hardware.Profiles()))]
		perHost, hosts := pick(1, 2, 4, 8), pick(1, 2, 3, 4, 7, 16)
		if p.NICGBps == 0 {
			hosts = 1
		}
		c := Comm{PerHost: perHost, Batch: pick(1, 512, 65536), ElementBytes: pick(2, 4), VectorBytes: 4}
		x := refExchange{
			device: p, batch: float64(c.Batch), perHost: float64(perHost),
			bytes: float64(c.ElementBytes), vector: float64(c.VectorBytes),
		}
		whole, missing := rng.IntN(4) > 0, 0
		if hosts > 1 {
			missing = rng.IntN(perHost) // the last host may have fewer
		}
		for range hosts*perHost - missing {
			d := 0
			if whole {
				d = rng.IntN(4096)
			}
			c.DimSums, x.columns = append(c.DimSums, d), append(x.columns, float64(d))
		}
		if rng.IntN(3) == 0 {
			c.RowWise = 1 + rng.IntN(2048)
			x.rowWise = float64(c.RowWise)
		}
		if rng.IntN(3) == 0 {
			for h := range hosts {
				d := rng.IntN(1024) + 1 - min(h, 1)
				c.ByHost, x.byHost = append(c.ByHost, d), append(x.byHost, float64(d))
			}
		}
		if rng.IntN(3) == 0 {
			c.Replicated = math.Exp(20 * rng.Float64())
			x.replicated = c.Replicated
		}
		if rng.IntN(2) == 0 {
			for range c.DimSums {
				s := 20 * rng.Float64()
				c.Start, x.start = append(c.Start, unit.Millis(s)), append(x.start, s)
			}
		}
		forward, backward := must.Get2(NewDevice(p).Comm(c))(t)
		wantForward, wantBackward := x.exchange()
		for r := range forward {
			what := fmt.Sprintf("exchange on rank %d of %s, %d hosts of %d", r, p.Name, hosts, perHost)
			difference(t, what+", forward", i, float64(forward[r]), wantForward[r])
			difference(t, what+", backward", i, float64(backward[r]), wantBackward[r])
		}
	}
}

// TestInputExchangeEqualsReference compares 200 exchanges of indices: collectives of
// nothing, of 4 bytes for each bag and of an index for each lookup, and 60 us of the host.
func TestInputExchangeEqualsReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 200 {
		p := a100(t)
		ranks, perHost := 1+rng.IntN(40), 1+rng.IntN(9)
		c := InputComm{PerHost: perHost, Batch: 1 + rng.IntN(65536), IndexBytes: 4 + 4*rng.IntN(2)}
		for range ranks {
			bags := math.Floor(20 * rng.Float64())
			c.Bags, c.Lookups = append(c.Bags, bags), append(c.Lookups, bags*50*rng.Float64())
		}
		got := must.Get(NewDevice(p).InputComm(c))(t)
		x := refExchange{device: p, batch: float64(c.Batch), perHost: math.Min(float64(perHost), float64(ranks))}
		x.columns, x.bytes = make([]float64, ranks), 0
		want := .060 + x.allToAll()
		x.columns, x.bytes = c.Bags, 4
		want += x.allToAll()
		x.columns, x.bytes = c.Lookups, float64(c.IndexBytes)
		want += x.allToAll()
		if ranks == 1 {
			want = 0
		}
		difference(t, fmt.Sprintf("input exchange of %d ranks, %d on a host", ranks, perHost), i, float64(got), want)
	}
}
