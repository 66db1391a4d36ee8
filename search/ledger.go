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
//	returned    HBM of each device           room for the backward that it does not need, as its outputs are large
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
	// room is the most that a device keeps free for its backward. outputs, hostOutputs and allOutputs are the bytes of
	// pooled vectors of the pieces on one device, of a host's devices together, and of all devices.
	room                 int64
	outputs, hostOutputs []int64
	allOutputs           int64
	// taken knows the most bytes of own and onHost, less shorter and returned, on a device, and hostTaken those of host. takenSum is
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
		room: c.backwardRoom, outputs: make([]int64, n), hostOutputs: make([]int64, t.Hosts()),
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
	clear(l.outputs)
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
	clear(l.hostOutputs)
	l.everywhere, l.allOutputs = 0, 0
	l.clearDevices()
}

// returned returns the part of the room for the backward that device d does not need, if it has more bytes of outputs than
// those counted: nothing up to half of the room, and all of it if the outputs take the bytes that the device receives or more
// (problem.LeavesBackwardRoom). A piece takes twice its outputs or more, so another piece never leaves more memory free.
func (l *ledger) returned(d int32, more int64) int64 {
	outputs := l.outputs[d] + l.hostOutputs[l.hostOf[d]] + l.allOutputs + more
	return min(max(0, 2*outputs-l.room), l.room)
}

// with returns the bytes that device d takes of its HBM with further own pieces of some bytes and outputs.
func (l *ledger) with(d int32, bytes, outputs int64) int64 {
	return l.own[d] + bytes + l.shared(d) - l.returned(d, outputs)
}

// update counts what device d holds, after a change of its pieces.
func (l *ledger) update(d int32) {
	bytes := l.own[d] + l.onHost[l.hostOf[d]] - l.shorter[d] - l.returned(d, 0)
	l.takenSum += bytes - l.taken.Values()[d]
	l.taken.Set(int(d), bytes)
}

// count adds sign times a piece's bytes on the span of a device.
func (l *ledger) count(k *piece, device int32, sign int64) {
	switch k.span {
	case everywhere:
		l.everywhere += sign * k.bytes
		l.shorter[len(l.own)-1] += sign * k.shorter
		was := l.allOutputs
		if l.allOutputs += sign * k.outputs; min(was, l.allOutputs) < l.room && max(was, l.allOutputs) > 0 {
			for d := range l.own {
				l.update(int32(d))
			}
		} else {
			l.update(int32(len(l.own)) - 1)
		}
	case oneHost:
		host := l.hostOf[device]
		l.onHost[host] += sign * k.bytes
		l.hostOutputs[host] += sign * k.outputs
		l.shorter[min((host+1)*l.local, int32(len(l.own)))-1] += sign * k.shorter
		for d := host * l.local; d < min((host+1)*l.local, int32(len(l.own))); d++ {
			l.update(d)
		}
	case oneDevice:
		l.own[device] += sign * k.bytes
		l.outputs[device] += sign * k.outputs
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
