package search

import "github.com/neuroshard/neuroshard/internal/peaks"

// ledger counts the bytes that pieces take, by where they lie:
//
//	own         HBM of one device            pieces on one device
//	onHost      HBM of each device of a host pieces that a host's devices hold together
//	everywhere  HBM of each device           pieces that all devices hold
//	shorter     HBM of one device            what last blocks of rows take less of it than the others
//	host        host memory of one device    pieces whose rows lie there
//	received    HBM of each device           what it receives from blocks of rows on chosen devices
//
// Bytes that several devices hold are kept once, so that counting them takes the same
// time for any number of devices.
type ledger struct {
	// budget is the number of bytes of HBM that the largest device has for pieces, beside what it receives from blocks
	// of rows on chosen devices, and hostBudget the number of bytes of host memory. A device that has less starts with
	// the difference.
	budget, hostBudget int64
	// blocks is the number of such blocks of each table.
	blocks []int32
	// own and host are by device, onHost by host.
	own, host, onHost, shorter []int64
	everywhere                 int64
	// taken knows the most bytes of own and onHost, less shorter, on a device, and hostTaken those of host. takenSum is
	// the sum of taken.
	taken, hostTaken *peaks.List[int64]
	takenSum         int64
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
		budget: c.budget, hostBudget: c.hostBudget, blocks: make([]int32, len(c.problem.Tables)), start: c.short, hostStart: c.hostShort,
		own: make([]int64, n), host: make([]int64, n), shorter: make([]int64, n), onHost: make([]int64, t.Hosts()),
		local: int32(t.PerHost()), hostOf: make([]int32, n), taken: peaks.New[int64](n), hostTaken: peaks.New[int64](n),
	}
	for d := range l.hostOf {
		l.hostOf[d] = int32(d) / l.local
	}
	l.clearDevices()
	return l
}

// clearDevices removes the pieces that lie on one device each.
func (l *ledger) clearDevices() {
	copy(l.own, l.start)
	copy(l.host, l.hostStart)
	for d := range l.own {
		l.update(int32(d))
		l.hostTaken.Set(d, l.host[d])
	}
}

// clear removes all pieces. budget is that of all devices without pieces.
func (l *ledger) clear(budget int64) {
	l.budget = budget
	clear(l.blocks)
	clear(l.onHost)
	clear(l.shorter)
	l.everywhere = 0
	l.clearDevices()
}

// update counts what device d holds, after a change of own or onHost.
func (l *ledger) update(d int32) {
	bytes := l.own[d] + l.onHost[l.hostOf[d]] - l.shorter[d]
	l.takenSum += bytes - l.taken.Values()[d]
	l.taken.Set(int(d), bytes)
}

// count adds sign times a piece's bytes on the span of a device.
func (l *ledger) count(k *piece, device int32, sign int64) {
	switch k.span {
	case everywhere:
		l.everywhere += sign * k.bytes
		last := int32(len(l.own)) - 1
		l.shorter[last] += sign * k.shorter
		l.update(last)
	case oneHost:
		host := l.hostOf[device]
		l.onHost[host] += sign * k.bytes
		l.shorter[min((host+1)*l.local, int32(len(l.own)))-1] += sign * k.shorter
		for d := host * l.local; d < min((host+1)*l.local, int32(len(l.own))); d++ {
			l.update(d)
		}
	case oneDevice:
		l.own[device] += sign * k.bytes
		l.update(device)
		if k.received > 0 {
			l.receive(k, sign)
		}
		if k.hostBytes > 0 {
			l.host[device] += sign * k.hostBytes
			l.hostTaken.Set(int(device), l.host[device])
		}
	}
}

// receive adds sign times what every device receives for a block of rows on a chosen device: nothing for one block of each
// slice. All such blocks of a table must be alike while they are counted.
func (l *ledger) receive(k *piece, sign int64) {
	blocks := &l.blocks[k.table]
	if sign < 0 {
		*blocks--
	}
	if int(*blocks)%k.form.Blocks > 0 {
		l.budget -= sign * k.received
	}
	if sign > 0 {
		*blocks++
	}
}

// shared returns the bytes of device d's HBM that hold pieces which other devices hold,
// too.
func (l *ledger) shared(d int32) int64 { return l.everywhere + l.onHost[l.hostOf[d]] - l.shorter[d] }

// fullHosts returns the number of hosts that have all their devices.
func (l *ledger) fullHosts() int32 { return int32(len(l.own)) / l.local }

// lack returns the largest number of bytes by which a device exceeds its budget, in HBM
// or in host memory; 0 if none does. If together is true, the HBM of all devices counts
// as one memory.
func (l *ledger) lack(together bool) int64 {
	most := l.hostTaken.Max() - l.hostBudget
	if together {
		n := int64(len(l.own))
		most = max(most, l.takenSum+n*l.everywhere-n*l.budget)
	} else {
		most = max(most, l.taken.Max()+l.everywhere-l.budget)
	}
	return max(0, most)
}
