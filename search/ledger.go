package search

import (
	"math"
	"slices"
)

// ledger counts the bytes that pieces take, by where they lie:
//
//	own         HBM of one device            pieces on one device
//	onHost      HBM of each device of a host pieces that a host's devices hold together
//	everywhere  HBM of each device           pieces that all devices hold
//	host        host memory of one device    pieces whose rows lie there
//
// Bytes that several devices hold are kept once, so that counting them takes the same
// time for any number of devices.
type ledger struct {
	// budget is the number of bytes of HBM that the largest device has for pieces, and hostBudget
	// the number of bytes of host memory. A device that has less starts with the difference.
	budget, hostBudget int64
	// own and host are by device, onHost by host.
	own, host, onHost []int64
	everywhere        int64
	// start are the bytes of own before there are pieces: those that the device has less than the
	// largest one, and those of blocks of rows that stay there. hostStart are those of host.
	start, hostStart []int64
	// local is the number of devices of a host, and hostOf the host of each device.
	local  int32
	hostOf []int32
}

func newLedger(c *catalog) ledger {
	t, n := c.problem.Topology, len(c.all)
	l := ledger{
		budget: c.budget, hostBudget: c.hostBudget, start: c.short, hostStart: c.hostShort,
		own: make([]int64, n), host: make([]int64, n), onHost: make([]int64, t.Hosts()),
		local: int32(t.PerHost()), hostOf: make([]int32, n),
	}
	for d := range l.hostOf {
		l.hostOf[d] = int32(d) / l.local
	}
	if c.kept != nil {
		l.start = slices.Clone(c.short)
		for d, bytes := range c.kept.bytes {
			l.start[d] += bytes
		}
	}
	l.clearDevices()
	return l
}

// clearDevices removes the pieces that lie on one device each.
func (l *ledger) clearDevices() {
	copy(l.own, l.start)
	copy(l.host, l.hostStart)
}

// clear removes all pieces.
func (l *ledger) clear() {
	l.clearDevices()
	clear(l.onHost)
	l.everywhere = 0
}

// count adds sign times a piece's bytes on the span of a device.
func (l *ledger) count(k *piece, device int32, sign int64) {
	switch k.span {
	case everywhere:
		l.everywhere += sign * k.bytes
	case oneHost:
		l.onHost[l.hostOf[device]] += sign * k.bytes
	case oneDevice:
		l.own[device] += sign * k.bytes
		l.host[device] += sign * k.hostBytes
	}
}

// shared returns the bytes of device d's HBM that hold pieces which other devices hold,
// too.
func (l *ledger) shared(d int32) int64 { return l.everywhere + l.onHost[l.hostOf[d]] }

// fullHosts returns the number of hosts that have all their devices.
func (l *ledger) fullHosts() int32 { return int32(len(l.own)) / l.local }

// lack returns the largest number of bytes by which a device exceeds its budget, in HBM
// or in host memory; 0 if none does. If together is true, the HBM of all devices counts
// as one memory.
func (l *ledger) lack(together bool) int64 {
	most, sum := int64(math.MinInt64), int64(0)
	for d := range l.own {
		beyond := l.own[d] + l.shared(int32(d)) - l.budget
		sum += beyond
		if !together {
			most = max(most, beyond)
		}
		most = max(most, l.host[d]-l.hostBudget)
	}
	if together {
		most = max(most, sum)
	}
	return max(0, most)
}
