package worker

import (
	"encoding/binary"
	"math"

	"github.com/x448/float16"

	"github.com/neuroshard/neuroshard/problem"
)

// half.go converts numbers between fp32, in which an engine has them, and the precision
// in which they travel. The numbers are little-endian.

// narrow writes the fp32 numbers of src to dst, in a precision, and returns the number of
// bytes that it wrote.
func narrow(dst, src []byte, to problem.Precision) int {
	if to == problem.FP32 {
		return copy(dst, src)
	}
	convert := toBF16
	if to == problem.FP16 {
		convert = toFP16
	}
	n := len(src) / element
	for i := range n {
		binary.LittleEndian.PutUint16(dst[2*i:], convert(binary.LittleEndian.Uint32(src[element*i:])))
	}
	return 2 * n
}

// widen fills dst with fp32 numbers from those of src, in a precision, and returns the
// number of bytes that it read.
func widen(dst, src []byte, from problem.Precision) int {
	if from == problem.FP32 {
		return copy(dst, src[:len(dst)])
	}
	convert := fromBF16
	if from == problem.FP16 {
		convert = fromFP16
	}
	n := len(dst) / element
	for i := range n {
		binary.LittleEndian.PutUint32(dst[element*i:], convert(binary.LittleEndian.Uint16(src[2*i:])))
	}
	return 2 * n
}

// toBF16 rounds a finite number to the nearest of bf16, ties to even.
func toBF16(bits uint32) uint16 { return uint16((bits + 0x7fff + bits>>16&1) >> 16) }

func fromBF16(bits uint16) uint32 { return uint32(bits) << 16 }

// toFP16 rounds a number to the nearest of fp16, ties to even. What is too large becomes
// an infinity.
func toFP16(bits uint32) uint16 { return float16.Fromfloat32(math.Float32frombits(bits)).Bits() }

func fromFP16(bits uint16) uint32 { return math.Float32bits(float16.Frombits(bits).Float32()) }
