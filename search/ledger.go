package search

import (
	"math"

	"github.com/neuroshard/neuroshard/internal/peaks"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// perPhase is a number of bytes in each phase of the step.
type perPhase [problem.Phases]int64

func bytesOf(bytes [problem.Phases]unit.Bytes) (all perPhase) {
	for f := range bytes {
		all[f] = int64(bytes[f])
	}
	return all
}

// add adds sign times o.
func (b *perPhase) add(o perPhase, sign int64) {
	for f := range b {
		b[f] += sign * o[f]
	}
}

// less returns the bytes less some in each phase.
func (b perPhase) less(bytes int64) perPhase {
	for f := range b {
		b[f] -= bytes
	}
	return b
}

// plus returns b and times times o.
func (b perPhase) plus(o perPhase, times int64) perPhase {
	b.add(o, times)
	return b
}

// ledger counts the bytes that pieces take, by where they lie:
//
//	own         HBM of one device            pieces on one device, and what the first and the last block of rows of others
//	                                         take beyond the blocks between them
//	onHost      HBM of each device of a host pieces that a host's devices hold together
//	everywhere  HBM of each device           pieces that all devices hold
//	host        host memory of one device    pieces whose rows lie there
//	budget      HBM of each device           what is left of the largest device beside what every device takes
//	                                         because of pieces, wherever they lie (piece.shared)
//
// Bytes that several devices hold are kept once, so that counting them takes the same
// time for any number of devices. A device may exceed its budget in no phase of the step.
type ledger struct {
	// budget is the number of bytes of HBM that the largest device has for pieces, and hostBudget the number of bytes
	// of host memory. A device that has less starts with the difference.
	budget     perPhase
	hostBudget int64
	// pieces is the number of pieces of each table, or of each co-location by its first table, and blocks that of the
	// blocks of rows on chosen devices.
	pieces, blocks []int32
	// own and host are by device, onHost by host.
	own, onHost []perPhase
	host        []int64
	everywhere  perPhase
	// taken knows the most bytes of own and onHost on a device in each phase, and hostTaken those of host.
	// takenSum is the sum of taken.
	taken     [problem.Phases]*peaks.List[int64]
	takenSum  perPhase
	hostTaken *peaks.List[int64]
	// start are the bytes of own before there are pieces: those that the device has less than the
	// largest one. hostStart are those of host.
	start, hostStart []int64
	// local is the number of devices of a host, and hostOf the host of each device.
	local  int32
	hostOf []int32
}

func newLedger(c *catalog) ledger {
	t, n := c.problem.Topology, len(c.all)
	l := ledger{
		budget: c.ownBudget, hostBudget: c.hostBudget, pieces: make([]int32, len(c.problem.Tables)), blocks: make([]int32, len(c.problem.Tables)), start: c.short, hostStart: c.hostShort,
		own: make([]perPhase, n), host: make([]int64, n), onHost: make([]perPhase, t.Hosts()),
		local: int32(t.PerHost()), hostOf: make([]int32, n), hostTaken: peaks.New[int64](n),
	}
	for f := range l.taken {
		l.taken[f] = peaks.New[int64](n)
	}
	for d := range l.hostOf {
		l.hostOf[d] = int32(d) / l.local
	}
	l.clear(l.budget)
	return l
}

// clear removes all pieces. budget is that of all devices without pieces.
func (l *ledger) clear(budget perPhase) {
	l.budget, l.everywhere = budget, perPhase{}
	clear(l.pieces)
	clear(l.blocks)
	clear(l.onHost)
	copy(l.host, l.hostStart)
	for d := range l.own {
		for f := range l.own[d] {
			l.own[d][f] = l.start[d]
		}
		l.update(int32(d))
		l.hostTaken.Set(d, l.host[d])
	}
}

// beyond returns the bytes by which device d exceeds its HBM with further own pieces, in the phase where they are the
// most; they are below 0 if it does not exceed it.
func (l *ledger) beyond(d int32, more *perPhase) int64 {
	most := int64(math.MinInt64)
	for f := range more {
		most = max(most, more[f]-l.free(d, f))
	}
	return most
}

// free returns the bytes of HBM that device d has left in a phase; they are below 0 if it exceeds its HBM.
func (l *ledger) free(d int32, f int) int64 {
	return l.budget[f] - l.everywhere[f] - l.own[d][f] - l.onHost[l.hostOf[d]][f]
}

// update counts what device d holds, after a change of its pieces.
func (l *ledger) update(d int32) {
	own, onHost := &l.own[d], &l.onHost[l.hostOf[d]]
	for f, taken := range l.taken {
		bytes := own[f] + onHost[f]
		l.takenSum[f] += bytes - taken.Values()[d]
		taken.Set(int(d), bytes)
	}
}

// count adds sign times a piece's bytes on the span of a device.
func (l *ledger) count(k *piece, device int32, sign int64) {
	switch k.span {
	case everywhere:
		l.everywhere.add(k.own, sign)
		l.share(k, sign)
		last := int32(len(l.own)) - 1
		l.own[0].add(k.first, sign)
		l.own[last].add(k.last, sign)
		l.update(0)
		l.update(last)
	case oneHost:
		host := l.hostOf[device]
		first, end := host*l.local, min((host+1)*l.local, int32(len(l.own)))
		l.onHost[host].add(k.own, sign)
		l.share(k, sign)
		l.own[first].add(k.first, sign)
		l.own[end-1].add(k.last, sign)
		for d := first; d < end; d++ {
			l.update(d)
		}
	case oneDevice:
		l.own[device].add(k.own, sign)
		l.update(device)
		l.share(k, sign)
		if k.hostBytes > 0 {
			l.host[device] += sign * k.hostBytes
			l.hostTaken.Set(int(device), l.host[device])
		}
	}
}

// share adds sign times what every device takes because of a piece. All blocks of a table that lie
// on chosen devices must be alike while they are counted.
func (l *ledger) share(k *piece, sign int64) {
	if l.pieces[k.table] += int32(sign); l.pieces[k.table] == max(0, int32(sign)) { // the first one comes, or the last one goes
		l.budget.add(k.aside, sign)
	}
	shared := &k.shared
	if k.form.Blocks > 0 {
		blocks := &l.blocks[k.table]
		if sign < 0 {
			*blocks--
		}
		if int(*blocks)%k.form.Blocks > 0 {
			shared = &k.block
		}
		if sign > 0 {
			*blocks++
		}
	}
	l.budget.add(*shared, -sign)
}

// empty reports whether device d holds no part of a table if its own bytes change by some.
func (l *ledger) empty(d int32, more *perPhase) bool {
	const f = problem.ForwardExchange
	return l.own[d][f]+more[f]-l.start[d]+l.everywhere[f]+l.onHost[l.hostOf[d]][f] == 0
}

// fullHosts returns the number of hosts that have all their devices.
func (l *ledger) fullHosts() int32 { return int32(len(l.own)) / l.local }

// lack returns the largest number of bytes by which a device exceeds its budget, in HBM
// or in host memory; 0 if none does. If together is true, the HBM of all devices counts
// as one memory.
func (l *ledger) lack(together bool) int64 {
	most, n := max(0, l.hostTaken.Max()-l.hostBudget), int64(len(l.own))
	for f, taken := range l.taken {
		if together {
			most = max(most, l.takenSum[f]+n*(l.everywhere[f]-l.budget[f]))
		} else {
			most = max(most, taken.Max()+l.everywhere[f]-l.budget[f])
		}
	}
	return most
}
