package worker

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
)

// TestFP16ByHand: values of the table of half-precision numbers, and ties to even.
func TestFP16ByHand(t *testing.T) {
	for _, c := range []struct {
		number float32
		half   uint16
	}{{1, 0x3c00}, {-2, 0xc000}, {65504, 0x7bff}, {0x1p-24, 0x0001}, {65520, 0x7c00}, {1 + 0x1p-11, 0x3c00}, {1 + 3*0x1p-11, 0x3c02}} {
		if got := toFP16(math.Float32bits(c.number)); got != c.half {
			t.Errorf("%v: got %#04x, want %#04x", c.number, got, c.half)
		}
	}
}

// TestHalvesSurvive converts every finite number of 16 bits to fp32 and back.
func TestHalvesSurvive(t *testing.T) {
	for _, in := range []problem.Precision{problem.FP16, problem.BF16} {
		wide, chunk, back := make([]byte, element<<16), make([]byte, 2<<16), make([]byte, element<<16)
		for i := range 1 << 16 {
			// without the highest bit of the exponent, all numbers are finite
			if half := uint16(i) & 0xbfff; in == problem.FP16 {
				binary.LittleEndian.PutUint32(wide[element*i:], fromFP16(half))
			} else {
				binary.LittleEndian.PutUint32(wide[element*i:], fromBF16(half))
			}
		}
		if n := narrow(chunk, wide, in); n != len(chunk) {
			t.Errorf("%v: wrote %d bytes, want %d", in, n, len(chunk))
		}
		if n := widen(back, chunk, in); n != len(chunk) {
			t.Errorf("%v: read %d bytes, want %d", in, n, len(chunk))
		}
		if string(back) != string(wide) {
			t.Errorf("%v: a number came back as another", in)
		}
	}
}
