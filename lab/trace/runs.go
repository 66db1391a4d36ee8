package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/format"
)

// runs.go counts the values in the encoded parts of a page. A run of a few bytes may state 2^31
// values, whatever the header of the page says, and the library takes memory for all of them.

// errRuns is the fault of a part that states more values than its page, or is cut short.
var errRuns = errors.New("its runs have more values than its header states, or are cut short: it is damaged")

// plainDictionary is what old files call the encoding of a data page that is now RLEDictionary.
const plainDictionary format.Encoding = 2

// runs are the rest of a page's data. A part of the page has at most most values.
type runs struct {
	data []byte
	most int
	err  error
}

// levels passes over the repetition and the definition levels of a page of the first version: the
// length of the part, and its runs.
func (r *runs) levels(highest [2]byte) {
	for _, h := range highest {
		if h > 0 {
			r.sized(bits.Len8(h))
		}
	}
}

// sized passes over a part that begins with its length.
func (r *runs) sized(width int) {
	if r.err != nil || len(r.data) < 4 {
		r.err = errors.Join(r.err, errRuns)
		return
	}
	length := int64(binary.LittleEndian.Uint32(r.data))
	if length > int64(len(r.data)-4) {
		r.err = errRuns
		return
	}
	part := runs{data: r.data[4 : 4+length], most: r.most}
	part.packed(width, &r.err)
	r.data = r.data[4+length:]
}

// values checks the values of a page, which are the rest of its data.
func (r *runs) values(encoding format.Encoding) {
	switch encoding {
	case format.Plain, format.ByteStreamSplit: // each value takes bytes of the page
	case plainDictionary, format.RLEDictionary:
		if len(r.data) > 0 {
			width := int(r.data[0])
			(&runs{data: r.data[1:], most: r.most}).packed(width, &r.err)
		}
	case format.RLE:
		r.sized(1)
	case format.DeltaBinaryPacked, format.DeltaLengthByteArray:
		r.delta()
	case format.DeltaByteArray:
		r.delta()
		r.prefixes()
	default:
		r.err = errors.Join(r.err, fmt.Errorf("encoded as %v: write it with a dictionary, or plain", encoding))
	}
}

// packed counts the values in runs of a number of bits each: repeated values, and groups of eight.
func (r *runs) packed(width int, err *error) {
	for total := uint64(0); len(r.data) > 0; {
		head, n := binary.Uvarint(r.data)
		count, length := head>>1, uint64(width+7)/8
		if head&1 == 1 {
			count, length = 8*count, count*uint64(width)
		}
		// The last group may be filled up.
		if total += count; n <= 0 || width > 32 || head > 1<<31 || total >= uint64(r.most)+8 || length > uint64(len(r.data)-n) {
			*err = errors.Join(*err, errRuns)
			return
		}
		r.data = r.data[uint64(n)+length:]
	}
}

// delta checks the number of values that a part in the encoding DELTA_BINARY_PACKED states, after
// the sizes of its blocks.
func (r *runs) delta() {
	var stated uint64
	for data, i := r.data, 0; i < 3 && len(r.data) > 0; i++ {
		v, n := binary.Uvarint(data)
		if stated = v; n <= 0 {
			stated = math.MaxUint64
			break
		}
		data = data[n:]
	}
	if stated > uint64(r.most) {
		r.err = errors.Join(r.err, errRuns)
	}
}

// prefixes checks the bytes of texts that share their beginnings: the sum of the lengths of these, and
// the rest of the page.
func (r *runs) prefixes() {
	if r.err != nil {
		return
	}
	lengths, err := new(delta.BinaryPackedEncoding).DecodeInt32(nil, r.data)
	total := int64(len(r.data))
	for _, n := range lengths {
		total += int64(max(0, n))
	}
	if total > maxPageBytes {
		err = fmt.Errorf("texts of %d bytes, more than %d: write it with smaller pages", total, maxPageBytes)
	}
	r.err = err
}
