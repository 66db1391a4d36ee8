package worker

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
)

// TestFP16ByHand: values of the table of half-precision numbers.
func TestFP16ByHand(t *testing.T) {
	for _, c := range []struct {
		number float32
		half   uint16
	}{
		{0, 0},
		{float32(math.Copysign(0, -1)), 0x8000},
		{1, 0x3c00},
		{-2, 0xc000},
		{65504, 0x7bff},
		{0x1p-14, 0x0400},
		{0x1p-24, 0x0001},
		{-0x1p-24 * 3, 0x8003},
		{float32(math.Inf(1)), 0x7c00},
		{float32(math.Inf(-1)), 0xfc00},
	} {
		if got := toFP16(math.Float32bits(c.number)); got != c.half {
			t.Errorf("%v: got %#04x, want %#04x", c.number, got, c.half)
		}
		if got := math.Float32frombits(fromFP16(c.half)); got != c.number {
			t.Errorf("%#04x: got %v, want %v", c.half, got, c.number)
		}
	}
	for _, c := range []struct{ number, want float32 }{
		{1 + 0x1p-11, 1},
		{1 + 3*0x1p-11, 1 + 0x1p-9}, // ties to even
		{65520, float32(math.Inf(1))},
		{1e30, float32(math.Inf(1))},
		{2047.9, 2048},
		{0x1p-25, 0},
		{0x1.8p-24, 0x1p-23},
		{1e-30, 0},
	} {
		if got := math.Float32frombits(fromFP16(toFP16(math.Float32bits(c.number)))); got != c.want {
			t.Errorf("%v: got %v, want %v", c.number, got, c.want)
		}
	}
	if got := fromFP16(toFP16(math.Float32bits(float32(math.NaN())))); !math.IsNaN(float64(math.Float32frombits(got))) {
		t.Errorf("not a number: got %#08x", got)
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
