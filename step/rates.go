package step

import (
	"fmt"
	"strings"

	"github.com/neuroshard/neuroshard/problem/hardware"
)

// rates.go states how fast a device multiplies matrices.

// Rates are the peak rates of a device's matrix units, in TFLOP/s, dense (without
// structured sparsity).
type Rates struct {
	// Half is for fp16 and bf16, TF32 for tf32, and Single for fp32.
	Half, TF32, Single float64
}

// Of returns the peak rate of a format, in FLOP a millisecond.
func (r Rates) Of(f Format) float64 {
	switch f {
	case FP16, BF16:
		return r.Half * 1e9
	case TF32:
		return r.TF32 * 1e9
	}
	return r.Single * 1e9
}

// rates has the data sheets' figures by profile. Devices without TF32 multiply in fp32.
var rates = []struct {
	profile string
	Rates
}{
	{"rtx2080ti", Rates{53.8, 13.4, 13.4}},
	{"v100-16", Rates{125, 15.7, 15.7}},
	{"v100-32", Rates{125, 15.7, 15.7}},
	{"a100-40", Rates{312, 156, 19.5}},
	{"a100-80", Rates{312, 156, 19.5}},
	{"h100-80", Rates{989.5, 494.7, 66.9}},
	{"h200", Rates{989.5, 494.7, 66.9}},
	{"b200", Rates{2250, 1125, 80}},
	{"mi300x", Rates{1307, 654, 163}},
}

// RatesOf returns the peak rates of a profile. It fails for a profile whose data sheet is
// not known here.
func RatesOf(p hardware.Profile) (Rates, error) {
	var known []string
	for _, r := range rates {
		if r.profile == p.Name {
			return r.Rates, nil
		}
		known = append(known, r.profile)
	}
	return Rates{}, fmt.Errorf("the rates of matrix products of device profile %q are not known: give a measured step instead of a dense part, or choose one of %s", p.Name, strings.Join(known, ", "))
}
