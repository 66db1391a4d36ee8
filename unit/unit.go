// Package unit holds the quantities that other packages pass around: bytes, bytes a
// second, and milliseconds. A quantity crosses a package boundary in one of these types,
// never as a bare number, and only this package formats it.
//
// GiB is 2^30 bytes and GB is 10^9 bytes: memory is stated in GiB, bandwidth
// in GB/s, as the hardware's own data sheets do.
package unit

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a size in bytes. Negative values only appear as differences.
type Bytes int64

// The multiples that ParseSize knows.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40

	KB Bytes = 1e3
	MB Bytes = 1e6
	GB Bytes = 1e9
	TB Bytes = 1e12
)

// multiple is a unit that a text states, as a multiple of a quantity's own.
type multiple struct {
	name string
	size float64
}

var sizes = []multiple{
	{"KiB", float64(KiB)},
	{"MiB", float64(MiB)},
	{"GiB", float64(GiB)},
	{"TiB", float64(TiB)},
	{"KB", float64(KB)},
	{"MB", float64(MB)},
	{"GB", float64(GB)},
	{"TB", float64(TB)},
	{"B", 1},
}

// parse reads a number with one of the units, whose case does not matter. what names the quantity, and
// example is one. The number is a decimal one as files write it, without Go's own forms, such as 0x1p4.
func parse(s, what, example string, units []multiple) (number string, size float64, err error) {
	text := strings.TrimSpace(s)
	if decimal(text) {
		return "", 0, fmt.Errorf("%s %q has no unit: write a number and its unit, such as %s", what, s, example)
	}
	for _, u := range units {
		if end := len(text) - len(u.name); end > 0 && strings.EqualFold(text[end:], u.name) {
			number, size = strings.TrimSpace(text[:end]), u.size
			break
		}
	}
	if !decimal(number) {
		return "", 0, fmt.Errorf("%q is not a %s: write a number and its unit, such as %s", s, what, example)
	}
	return number, size, nil
}

// decimal reports whether a text is a decimal number; one out of float64's range is.
func decimal(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return (err == nil || errors.Is(err, strconv.ErrRange)) && !strings.ContainsAny(text, "xXiInN_")
}

// largest is the largest size that ParseSize accepts: the sum of two fits an int64.
const largest = 1 << 62

// ParseSize reads a size such as "80GiB", "1.5 GB" or "512 MiB". A size other than 0 needs its unit: a
// bare 40 is hardly meant as bytes. Whole numbers are read exactly, others are rounded to the nearest
// byte. It refuses negative sizes and sizes above 2^62.
func ParseSize(s string) (Bytes, error) {
	if strings.TrimSpace(s) == "0" {
		return 0, nil
	}
	number, size, err := parse(s, "size", "80GiB or 40GB", sizes)
	if err != nil {
		return 0, err
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && n >= 0 && n <= largest/int64(size) {
		return Bytes(n) * Bytes(size), nil
	}
	switch value, _ := strconv.ParseFloat(number, 64); { // infinite if it is out of range
	case value < 0:
		return 0, fmt.Errorf("size %q is negative", s)
	case value*size > largest:
		return 0, fmt.Errorf("size %q is too large", s)
	default:
		return Bytes(math.Round(value * size)), nil
	}
}

// GiB returns b in units of 2^30 bytes.
func (b Bytes) GiB() float64 { return float64(b) / float64(GiB) }

// String prints b in the largest binary unit that leaves a number of at least
// one, with three significant digits: "1.50 GiB", "512 MiB", "17 B".
func (b Bytes) String() string {
	if b == math.MinInt64 {
		b++ // -b would overflow; b+1 prints the same
	}
	if b < 0 {
		return "-" + (-b).String()
	}
	for _, u := range []struct {
		name string
		size Bytes
	}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}} {
		if b >= u.size {
			return significant(float64(b)/float64(u.size)) + " " + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + " B"
}

// Bandwidth is a number of bytes a second.
type Bandwidth float64

// largestBandwidth is the largest bandwidth that ParseBandwidth accepts, in bytes a second.
const largestBandwidth = 1e18

// ParseBandwidth reads a bandwidth such as "20GB/s", "1.5 GiB/s" or "900 MB/s". The unit is
// required, and its B stands for bytes: network cards are often sold in bits, so a small b is
// refused. So are bandwidths below one byte a second, and those above 10^18.
func ParseBandwidth(s string) (Bandwidth, error) {
	const example = "20GB/s"
	size, perSecond := strings.CutSuffix(strings.TrimSpace(s), "/s")
	if size = strings.TrimSpace(size); perSecond && (strings.HasSuffix(size, "b") || strings.HasSuffix(size, "bit")) {
		return 0, fmt.Errorf("bandwidth %q is in bits: write bytes, 8 bits each, such as %s", s, example)
	}
	number, unit, err := parse(s, "bandwidth", example, bandwidths)
	if err != nil {
		return 0, err
	}
	value, _ := strconv.ParseFloat(number, 64) // infinite if it is out of range
	switch value *= unit; {
	case value <= 0:
		return 0, fmt.Errorf("bandwidth %q is not above 0", s)
	case value < 1:
		return 0, fmt.Errorf("bandwidth %q is below 1B/s", s)
	case value > largestBandwidth:
		return 0, fmt.Errorf("bandwidth %q is too large", s)
	}
	return Bandwidth(value), nil
}

// bandwidths are the units of bandwidths.
var bandwidths = perSecond(sizes)

func perSecond(sizes []multiple) (all []multiple) {
	for _, u := range sizes {
		all = append(all, multiple{u.name + "/s", u.size})
	}
	return all
}

// GBps returns b in units of 10^9 bytes a second.
func (b Bandwidth) GBps() float64 { return float64(b) / float64(GB) }

// String prints b in the largest decimal unit that leaves a number of at least one, with
// three significant digits: "13.4 GB/s", "900 MB/s".
func (b Bandwidth) String() string {
	for _, u := range []struct {
		name string
		size Bytes
	}{{"TB/s", TB}, {"GB/s", GB}, {"MB/s", MB}, {"KB/s", KB}} {
		if math.Abs(float64(b)) >= float64(u.size) {
			return significant(float64(b)/float64(u.size)) + " " + u.name
		}
	}
	return significant(float64(b)) + " B/s"
}

// Millis is a duration in milliseconds.
type Millis float64

// largestMillis is the largest duration that ParseMillis accepts: a day.
const largestMillis Millis = 24 * 60 * 60 * 1000

// ParseMillis reads a duration such as "3.9ms", "900 us" or "1.2s". The unit is required. It
// refuses durations that are not above 0, and those above a day.
func ParseMillis(s string) (Millis, error) {
	number, unit, err := parse(s, "time", "3.9ms", []multiple{{"ms", 1}, {"us", 1e-3}, {"\u00b5s", 1e-3}, {"s", 1000}})
	if err != nil {
		return 0, err
	}
	value, _ := strconv.ParseFloat(number, 64) // infinite if it is out of range
	switch m := Millis(value * unit); {
	case m <= 0:
		return 0, fmt.Errorf("time %q is not above 0", s)
	case m > largestMillis:
		return 0, fmt.Errorf("time %q is too long", s)
	default:
		return m, nil
	}
}

// Micros returns the duration of us microseconds.
func Micros(us float64) Millis { return Millis(us / 1000) }

// String prints m in milliseconds with three significant digits: "4.17 ms",
// "0.0312 ms", "128 ms".
func (m Millis) String() string { return significant(float64(m)) + " ms" }

// significant prints v with three significant digits, but at most six decimals,
// and no exponent. A number that would print as 0.000000 prints as "0".
func significant(v float64) string {
	if math.Abs(v) < 0.5e-6 {
		return "0"
	}
	// The exponent after rounding: 9.996 is 10.0, not 10.00.
	rounded := strconv.FormatFloat(v, 'e', 2, 64)
	_, after, found := strings.Cut(rounded, "e")
	if !found {
		return rounded // not finite
	}
	exponent, err := strconv.Atoi(after)
	if err != nil {
		panic("unit: " + rounded + " has no exponent")
	}
	return strconv.FormatFloat(v, 'f', max(0, min(2-exponent, 6)), 64)
}
