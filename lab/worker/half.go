package worker

import (
	"encoding/binary"

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

// The exponents of fp32 and fp16 differ by bias, and their mantissas by mantissa bits.
const (
	bias     = 127 - 15
	mantissa = 23 - 10
)

// toFP16 rounds a number to the nearest of fp16, ties to even. What is too large becomes
// an infinity.
func toFP16(bits uint32) uint16 {
	sign, exponent := uint16(bits>>16)&0x8000, int(bits>>23&0xff)-bias
	fraction, shift := bits&0x7fffff, mantissa
	switch {
	case exponent == 0xff-bias && fraction != 0:
		return sign | 0x7e00 // not a number
	case exponent >= 31:
		return sign | 0x7c00
	case exponent <= 0: // below the normal numbers of fp16
		fraction |= 1 << 23
		shift += 1 - exponent
		exponent = 0
		if shift > 24 {
			return sign
		}
	}
	half := uint32(exponent)<<10 | fraction>>shift
	rest, middle := fraction&(1<<shift-1), uint32(1)<<(shift-1)
	if rest > middle || rest == middle && half&1 == 1 {
		half++ // a carry raises the exponent
	}
	return sign | uint16(half)
}

func fromFP16(bits uint16) uint32 {
	sign, exponent, fraction := uint32(bits&0x8000)<<16, uint32(bits>>10&0x1f), uint32(bits&0x3ff)
	switch {
	case exponent == 31:
		return sign | 0x7f800000 | fraction<<mantissa
	case exponent == 0 && fraction == 0:
		return sign
	case exponent == 0: // below the normal numbers of fp16
		exponent = 1
		for fraction&0x400 == 0 {
			fraction <<= 1
			exponent--
		}
		fraction &= 0x3ff
	}
	return sign | (exponent+bias)<<23 | fraction<<mantissa
}
