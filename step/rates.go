package step

import (
	"fmt"
	"strings"

	"github.com/neuroshard/neuroshard/problem/hardware"
)

// rates.go states how fast a device multiplies matrices.

// Rates are the peak rates of a device's matrix units, in TFLOP/s, without structured
// sparsity.
type Rates struct {
	// Half is for fp16 and bf16, TF32 for tf32, and Single for fp32.
	Half, TF32, Single float64
	// Best is the share of Half that the best product of matrices was measured to reach; 0
	// is not known, and taken as 0.8.
	Best float64
}

// bestSingle is the share of the peak that the best product in fp32 reaches, without
// matrix units [recalled: cuBLAS on V100].
const bestSingle = 0.93

// best returns the share of the peak that the best product in a format reaches.
func (r Rates) best(f Format) float64 {
	switch {
	case r.Of(f) == r.Single*1e9:
		return bestSingle
	case r.Best == 0:
		return 0.8
	}
	return r.Best
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

// rates has the data sheets' figures by profile, with the best shares that stas00/ml-engineering
// (MAMF finder, bf16) measured. h200, gb200, b300 and gb300 have the share of their family, h100-80 or b200, and
// mi350x and mi355x that of mi300x [assumed]. Devices without TF32 multiply in fp32.
var rates = []struct {
	profile string
	Rates
}{
	{"rtx2080ti", Rates{53.8, 13.4, 13.4, 0}},
	{"v100-16", Rates{125, 15.7, 15.7, 0}},
	{"v100-32", Rates{125, 15.7, 15.7, 0}},
	{"a100-40", Rates{312, 156, 19.5, .869}},
	{"a100-80", Rates{312, 156, 19.5, .869}},
	{"h100-80", Rates{989.5, 494.7, 66.9, .803}},
	{"h200", Rates{989.5, 494.7, 66.9, .803}},
	{"b200", Rates{2250, 1125, 80, .776}},
	{"gb200", Rates{2500, 1250, 80, .776}},
	{"b300", Rates{2250, 1125, 75, .776}},
	{"gb300", Rates{2500, 1250, 80, .776}},
	{"mi300x", Rates{1307, 654, 163, .601}},
	{"mi350x", Rates{2300, 144.2, 144.2, .601}},
	{"mi355x", Rates{2500, 157.3, 157.3, .601}},
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
