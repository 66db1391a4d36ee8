package worker

import "encoding/binary"

// The data of an all-to-all, as one rank of n sees it.
//
// Rank r computes the pooled vectors of its own dims for the whole batch, and
// goes on with all dims of its own samples. So the forward all-to-all turns a
// wide matrix into a tall one, and the backward turns the gradients back:
//
//	wide, batch x dims[r]                 tall, (batch/n) x sum of dims
//	+-------+  samples of rank 0          +-------+-----+---------+
//	|       |  samples of rank 1   <-->   | of 0  | of 1|  of 2   |  its samples
//	+-------+  samples of rank 2          +-------+-----+---------+
//	 its dims                              columns of each rank
//
// What goes between r and a peer p is a chunk, row-major and without gaps: in
// the forward r sends the samples of p by its own dims and receives its own
// samples by the dims of p. Packing copies the matrix into the chunks that are
// sent, unpacking copies the chunks that came into the other matrix. Both
// directions use the same buffers, so nothing is allocated while timing.

// element is the bytes of a number.
const element = 4

// share returns the samples [from, to) of rank r: the batch cut into n parts as
// equal as can be.
func share(batch, n, r int) (from, to int) { return r * batch / n, (r + 1) * batch / n }

// exchangeBytes is what the buffers of all ranks together take.
func exchangeBytes(batch int, dims []int) int64 {
	sum := int64(0)
	for _, d := range dims {
		sum += int64(d)
	}
	// Each number of the batch is in a wide matrix, a tall one, and a chunk beside
	// each.
	return 4 * element * int64(batch) * sum
}

// exchange is one rank's part of an all-to-all.
type exchange struct {
	rank, batch int
	dims        []int
	first       []int // column of tall where each rank's begin; the last is their sum

	wide, tall []byte
	// own[p] is the chunk of the samples of p by this rank's dims, all[p] that of
	// this rank's samples by the dims of p. The forward sends own and receives all.
	// A header stands before each chunk, so that both are one message.
	own, all [][]byte
}

// header is the number of bytes before a chunk: the number of the run, which
// shows whether a peer's chunk belongs to another run, then zeroes. It keeps
// chunks on cache lines.
const header = 64

// newExchange lays out an all-to-all in memory that grow gives it.
func newExchange(rank, batch int, dims []int, grow func(int) []byte) *exchange {
	e := &exchange{rank: rank, batch: batch, dims: dims, first: make([]int, len(dims)+1)}
	for p, d := range dims {
		e.first[p+1] = e.first[p] + d
	}
	n := len(dims)
	from, to := share(batch, n, rank)
	wide, tall := element*batch*dims[rank], element*(to-from)*e.first[n]
	memory := grow(2*wide + 2*tall + 2*n*header)
	cut := func(size int) []byte {
		part := memory[:size:size]
		memory = memory[size:]
		return part
	}
	e.wide, e.tall = cut(wide), cut(tall)
	for p, d := range dims {
		pFrom, pTo := share(batch, n, p)
		e.own = append(e.own, cut(header+element*(pTo-pFrom)*dims[rank]))
		e.all = append(e.all, cut(header+element*(to-from)*d))
	}
	return e
}

// sent and received are the messages that go to and come from peer p: a header
// and a chunk.
func (e *exchange) sent(p int, backward bool) []byte {
	if backward {
		return e.all[p]
	}
	return e.own[p]
}

func (e *exchange) received(p int, backward bool) []byte {
	if p == e.rank {
		// What a rank sends to itself stays where it was packed.
		return e.sent(p, backward)
	}
	return e.sent(p, !backward)
}

// pack copies what goes to p into its chunk.
func (e *exchange) pack(p int, backward bool) {
	if !backward {
		copy(e.own[p][header:], e.samples(p))
		return
	}
	chunk := e.all[p][header:]
	e.columns(p, func(row []byte) {
		copy(chunk, row)
		chunk = chunk[len(row):]
	})
}

// unpack copies what came from p to its place.
func (e *exchange) unpack(p int, backward bool) {
	chunk := e.received(p, backward)[header:]
	if backward {
		copy(e.samples(p), chunk)
		return
	}
	e.columns(p, func(row []byte) {
		copy(row, chunk)
		chunk = chunk[len(row):]
	})
}

// samples is the part of wide that holds the samples of p.
func (e *exchange) samples(p int) []byte {
	from, to := share(e.batch, len(e.dims), p)
	row := element * e.dims[e.rank]
	return e.wide[from*row : to*row]
}

// columns calls visit with the columns of p in each row of tall.
func (e *exchange) columns(p int, visit func(row []byte)) {
	stride := element * e.first[len(e.dims)]
	from, to := element*e.first[p], element*e.first[p+1]
	if from == to {
		return
	}
	for at := 0; at < len(e.tall); at += stride {
		visit(e.tall[at+from : at+to])
	}
}

// stamp is the number that stands, while an exchange is checked, for the first
// of rank r's dims in sample s; the next dims' are stampStep apart. The odd
// factors give different places different numbers, but for a few in 2^32.
func stamp(r, s int, backward bool) uint32 {
	v := uint32(r)*0x9e3779b1 + uint32(s)*0x85ebca6b + 0x27d4eb2f
	if backward {
		v ^= 0x5bd1e995
	}
	return v
}

const stampStep = 0xc2b2ae35

// fill writes stamps to the matrix that is sent and zeroes to the one that is
// received, so that nothing of an earlier exchange passes for this one's.
func (e *exchange) fill(backward bool) {
	write := func(row []byte, v uint32) bool {
		for ; len(row) >= element; row = row[element:] {
			binary.LittleEndian.PutUint32(row, v)
			v += stampStep
		}
		return true
	}
	if backward {
		e.stampTall(backward, write)
		clear(e.wide)
		return
	}
	e.stampWide(backward, write)
	clear(e.tall)
}

// arrived reports whether what was received is what the peers have sent.
func (e *exchange) arrived(backward bool) bool {
	same := func(row []byte, v uint32) bool {
		for ; len(row) >= element; row = row[element:] {
			if binary.LittleEndian.Uint32(row) != v {
				return false
			}
			v += stampStep
		}
		return true
	}
	if backward {
		return e.stampWide(backward, same)
	}
	return e.stampTall(backward, same)
}

// stampWide and stampTall visit every rank's part of every sample of a matrix
// with the stamp it begins with, until visit returns false.
func (e *exchange) stampWide(backward bool, visit func(row []byte, v uint32) bool) bool {
	width := element * e.dims[e.rank]
	for s := range e.batch {
		if !visit(e.wide[s*width:(s+1)*width], stamp(e.rank, s, backward)) {
			return false
		}
	}
	return true
}

func (e *exchange) stampTall(backward bool, visit func(row []byte, v uint32) bool) bool {
	rest := e.tall
	from, to := share(e.batch, len(e.dims), e.rank)
	for s := from; s < to; s++ {
		for p, d := range e.dims {
			if !visit(rest[:element*d], stamp(p, s, backward)) {
				return false
			}
			rest = rest[element*d:]
		}
	}
	return true
}
