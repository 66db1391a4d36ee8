package chart

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Axis is one direction of a panel.
type Axis struct {
	Label string
	Log   bool // equal ratios are equal distances
	// Min and Max are the ends. If both are 0, the ends are those of the points; 0 to 1, or 1 to
	// 10 on a logarithmic axis, if there are no points.
	Min, Max float64
	// Room widens the range of the points on both sides: by this share of it, or, on a
	// logarithmic axis, by this share of its logarithm.
	Room float64
	// Ticks are the labelled values; those beyond the ends are left out. Nil takes round values: on
	// a logarithmic axis 1, 2 and 5 times powers of ten if there are three of them.
	Ticks []Tick
}

// Tick is a labelled value of an axis.
type Tick struct {
	At    float64
	Label string
}

// scale gives the values of an axis their places in pixels.
type scale struct {
	log      bool
	min, max float64
	from, to float64
	ticks    []Tick
}

// scale returns the scale of the axis for the values that are drawn, with the ends at two pixels.
func (a *Axis) scale(values []float64, from, to float64) (scale, error) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) || a.Log && v <= 0 {
			return scale{}, fmt.Errorf("%v has no place on the axis %q", v, a.Label)
		}
		low, high = min(low, v), max(high, v)
	}
	low, high = a.ends(low, high)
	s := scale{log: a.Log, min: low, max: high, from: from, to: to, ticks: a.Ticks}
	if s.ticks == nil {
		s.ticks = round(low, high, a.Log)
	}
	s.ticks = slices.DeleteFunc(slices.Clone(s.ticks), func(t Tick) bool { return t.At < low || t.At > high })
	return s, nil
}

// ends returns the ends of the axis for values between low and high.
func (a *Axis) ends(low, high float64) (float64, float64) {
	switch {
	case a.Min != 0 || a.Max != 0:
		return a.Min, a.Max
	case low > high && a.Log:
		return 1, 10
	case low > high:
		return 0, 1
	case a.Log && low == high:
		low, high = low/2, high*2
	case low == high:
		low, high = low-.5, high+.5
	}
	if a.Log {
		factor := math.Pow(high/low, a.Room)
		return low / factor, high * factor
	}
	room := (high - low) * a.Room
	return low - room, high + room
}

// at returns the place of a value.
func (s scale) at(v float64) float64 {
	share := (v - s.min) / (s.max - s.min)
	if s.log {
		share = math.Log(v/s.min) / math.Log(s.max/s.min)
	}
	return s.from + share*(s.to-s.from)
}

// mostTicks is about the most ticks that an axis gets by itself.
const mostTicks = 8

// round returns ticks at round values between two ends.
func round(low, high float64, log bool) []Tick {
	if log {
		if ticks := powers(low, high); len(ticks) > 2 {
			return ticks
		}
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/mostTicks)))
	for _, factor := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
		if (high-low)/step > mostTicks {
			step *= factor
		}
	}
	decimals := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	var ticks []Tick
	for i := math.Ceil(low/step - 1e-9); i*step <= high+step*1e-9; i++ {
		ticks = append(ticks, Tick{i * step, strconv.FormatFloat(i*step+0, 'f', decimals, 64)})
	}
	return ticks
}

// powers returns ticks at 1, 2 and 5 times the powers of ten, at the powers alone if those are
// too many, or at every n-th power.
func powers(low, high float64) []Tick {
	first, last := int(math.Floor(math.Log10(low))), int(math.Floor(math.Log10(high)))
	digits, every := []float64{1, 2, 5}, 1
	if decades := math.Log10(high / low); decades > 3 {
		digits, every = []float64{1}, 1+int(decades)/mostTicks
	}
	var ticks []Tick
	for exponent := first; exponent <= last; exponent++ {
		for _, digit := range digits {
			v := digit * math.Pow(10, float64(exponent))
			if v >= low*(1-1e-9) && v <= high*(1+1e-9) && (exponent-first)%every == 0 {
				ticks = append(ticks, Tick{v, strconv.FormatFloat(v, 'f', max(0, -exponent), 64)})
			}
		}
	}
	return ticks
}
