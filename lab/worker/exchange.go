package worker

import (
	"encoding/binary"
	"math"

	"github.com/neuroshard/neuroshard/problem"
)

// The data of an all-to-all, as one rank of n sees it.
//
// Rank r computes the pooled vectors of its own dims for the whole batch. Then it
// continues with all dims of its own samples. So the forward all-to-all turns a
// wide matrix into a tall one, and the backward turns the gradients back:
//
//	wide, batch x dims[r]                 tall, (batch/n) x sum of dims
//	+-------+  samples of rank 0          +-------+-----+---------+
//	|       |  samples of rank 1   <-->   | of 0  | of 1|  of 2   |  its samples
//	+-------+  samples of rank 2          +-------+-----+---------+
//	 its dims                              columns of each rank
//
// Ranks r and p exchange chunks, which are row-major and without gaps. In the
// forward, r sends its own dims for the samples of p, and receives the dims of p
// for its own samples. Packing copies the matrix into the chunks to send; unpacking
// copies the received chunks into the other matrix. The matrices are in fp32. If the
// numbers travel in fp16 or bf16, packing and unpacking convert them (half.go). Both
// directions use the same buffers, so nothing is allocated during the timing.

// element is the size of a number of a matrix in bytes.
const element = 4

// sizes are the sizes of an all-to-all: the samples, the columns of each rank, and the
// precision in which the numbers travel.
type sizes struct {
	Batch     int
	Dims      []int
	Precision problem.Precision
}

// newSizes returns the sizes of an all-to-all whose numbers travel in the precision of
// the given name; the empty name is fp32.
func newSizes(batch int, dims []int, precision string) (sizes, error) {
	s := sizes{Batch: batch, Dims: dims}
	if precision == "" {
		return s, nil
	}
	var err error
	s.Precision, err = problem.ParsePrecision(precision)
	return s, err
}

// moved is the size in bytes of a number that travels.
func (s *sizes) moved() int { return int(s.Precision.Bytes()) }

// share returns the samples [from, to) of rank r: the batch is divided into n parts
// that differ by at most one sample.
func share(batch, n, r int) (from, to int) { return r * batch / n, (r + 1) * batch / n }

// bytes returns the size of the buffers of all ranks together.
func (s *sizes) bytes() int64 {
	sum := int64(0)
	for _, d := range s.Dims {
		sum += int64(d)
	}
	// Each number of the batch is in a wide matrix, in a tall one, and in one chunk
	// for each of the two.
	return 2*int64(element+s.moved())*int64(s.Batch)*sum + 2*header*int64(len(s.Dims)*len(s.Dims))
}

// exchange is one rank's part of an all-to-all.
type exchange struct {
	sizes
	rank  int
	first []int // column of tall where each rank's begin; the last is their sum

	wide, tall []byte
	// own[p] is the chunk with this rank's dims for the samples of p, and all[p] the
	// chunk with the dims of p for this rank's samples. The forward sends own and
	// receives all. A header
	// precedes each chunk, so that a message without data is one, too.
	own, all [][]byte
}

// header is the number of bytes before a chunk. It keeps chunks aligned to cache lines.
const header = 64

// newExchange lays out the part of a rank in memory, which it fills with numbers of ordinary
// size, and returns the rest of the memory.
func newExchange(rank int, s sizes, memory []byte) (*exchange, []byte) {
	e := &exchange{sizes: s, rank: rank, first: make([]int, len(s.Dims)+1)}
	for p, d := range s.Dims {
		e.first[p+1] = e.first[p] + d
	}
	n := len(s.Dims)
	from, to := share(s.Batch, n, rank)
	cut := func(size int) []byte {
		part := memory[:size:size]
		memory = memory[size:]
		return part
	}
	e.wide, e.tall = cut(element*s.Batch*s.Dims[rank]), cut(element*(to-from)*e.first[n])
	for _, matrix := range [][]byte{e.wide, e.tall} {
		for i := 0; i < len(matrix); i += element {
			binary.LittleEndian.PutUint32(matrix[i:], math.Float32bits(.5+float32(i%1024)/2048))
		}
	}
	for p, d := range s.Dims {
		pFrom, pTo := share(s.Batch, n, p)
		e.own = append(e.own, cut(header+s.moved()*(pTo-pFrom)*s.Dims[rank]))
		e.all = append(e.all, cut(header+s.moved()*(to-from)*d))
	}
	return e, memory
}

// sent and received are the messages to and from peer p: a header and a chunk.
func (e *exchange) sent(p int, backward bool) []byte {
	if backward {
		return e.all[p]
	}
	return e.own[p]
}

func (e *exchange) received(p int, backward bool) []byte {
	if p == e.rank {
		// The chunk that a rank sends to itself is not moved.
		return e.sent(p, backward)
	}
	return e.sent(p, !backward)
}

// pack copies the numbers for p into its chunk.
func (e *exchange) pack(p int, backward bool) {
	if !backward {
		narrow(e.own[p][header:], e.samples(p), e.Precision)
		return
	}
	chunk := e.all[p][header:]
	e.columns(p, func(row []byte) { chunk = chunk[narrow(chunk, row, e.Precision):] })
}

// unpack copies the numbers from p to their place.
func (e *exchange) unpack(p int, backward bool) {
	chunk := e.received(p, backward)[header:]
	if backward {
		widen(e.samples(p), chunk, e.Precision)
		return
	}
	e.columns(p, func(row []byte) { chunk = chunk[widen(row, chunk, e.Precision):] })
}

// samples returns the part of wide with the samples of p.
func (e *exchange) samples(p int) []byte {
	from, to := share(e.Batch, len(e.Dims), p)
	row := element * e.Dims[e.rank]
	return e.wide[from*row : to*row]
}

// columns calls visit with the columns of p in each row of tall.
func (e *exchange) columns(p int, visit func(row []byte)) {
	stride := element * e.first[len(e.Dims)]
	from, to := element*e.first[p], element*e.first[p+1]
	if from == to {
		return
	}
	for at := 0; at < len(e.tall); at += stride {
		visit(e.tall[at+from : at+to])
	}
}
