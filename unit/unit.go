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

// The multiples that ParseBytes knows.
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

var suffixes = []struct {
	name string
	size Bytes
}{
	{"KiB", KiB},
	{"MiB", MiB},
	{"GiB", GiB},
	{"TiB", TiB},
	{"KB", KB},
	{"MB", MB},
	{"GB", GB},
	{"TB", TB},
	{"B", 1},
}

// largest is the largest size that ParseBytes accepts: the sum of two fits an int64.
const largest = 1 << 62

// ParseSize reads a size as ParseBytes does, and refuses a number other than 0 without a
// unit: a bare 40 is hardly meant as bytes.
func ParseSize(s string) (Bytes, error) {
	b, err := ParseBytes(s)
	if last := strings.TrimSpace(s); err == nil && b != 0 && strings.ContainsAny(last[len(last)-1:], "0123456789.") {
		return 0, fmt.Errorf("size %q has no unit: write a number and its unit, such as 40GiB or 2GB", s)
	}
	return b, err
}

// ParseBytes reads a size such as "80GiB", "1.5 GB", "512 MiB" or "4096"
// (bytes). Suffixes are exact but for case. Whole numbers are read exactly, others
// are rounded to the nearest byte. It refuses negative sizes, sizes above 2^62
// and anything that is not a decimal number.
func ParseBytes(s string) (Bytes, error) {
	text := strings.TrimSpace(s)
	size := Bytes(1)
	for _, suffix := range suffixes {
		if len(text) > len(suffix.name) && strings.EqualFold(text[len(text)-len(suffix.name):], suffix.name) {
			text, size = strings.TrimSpace(text[:len(text)-len(suffix.name)]), suffix.size
			break
		}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n <= largest/int64(size) {
		return Bytes(n) * size, nil
	}
	// A number out of float64's range comes back infinite, and is refused as such.
	value, err := strconv.ParseFloat(text, 64)
	foreign := strings.ContainsAny(text, "xX_") // Go's own: 0x1B would be one byte
	if err != nil && !errors.Is(err, strconv.ErrRange) || math.IsNaN(value) || foreign {
		return 0, fmt.Errorf("%q is not a size: write a number and a unit, such as 80GiB or 40GB", s)
	}
	if value < 0 {
		return 0, fmt.Errorf("size %q is negative", s)
	}
	if value*float64(size) > largest {
		return 0, fmt.Errorf("size %q is too large", s)
	}
	return Bytes(math.Round(value * float64(size))), nil
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
	const hint = "write a number and its unit, such as 20GB/s"
	text := strings.TrimSpace(s)
	if _, complaint := decimal(text); complaint == "" {
		return 0, fmt.Errorf("bandwidth %q has no unit: %s", s, hint)
	}
	size, perSecond := strings.CutSuffix(text, "/s")
	size = strings.TrimSpace(size)
	switch {
	case !perSecond:
		return 0, fmt.Errorf("%q is not a bandwidth: %s", s, hint)
	case strings.HasSuffix(size, "b"), strings.HasSuffix(size, "bit"):
		return 0, fmt.Errorf("bandwidth %q is in bits: write bytes, 8 bits each, such as 20GB/s", s)
	}
	for _, suffix := range suffixes {
		if len(size) <= len(suffix.name) || !strings.EqualFold(size[len(size)-len(suffix.name):], suffix.name) {
			continue
		}
		value, complaint := decimal(strings.TrimSpace(size[:len(size)-len(suffix.name)]))
		value *= float64(suffix.size)
		switch {
		case complaint != "":
			return 0, fmt.Errorf("%q is not a bandwidth: %s", s, hint)
		case value <= 0:
			return 0, fmt.Errorf("bandwidth %q is not above 0", s)
		case value < 1:
			return 0, fmt.Errorf("bandwidth %q is below 1B/s", s)
		case value > largestBandwidth:
			return 0, fmt.Errorf("bandwidth %q is too large", s)
		}
		return Bandwidth(value), nil
	}
	return 0, fmt.Errorf("%q is not a bandwidth: %s", s, hint)
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

// decimal reads a decimal number as files write it: without Go's own forms, such as 0x1p4.
// The complaint is empty, or says why the text is no number.
func decimal(text string) (value float64, complaint string) {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || math.IsNaN(value) || strings.ContainsAny(text, "xXiInN_") {
		return 0, "it is not a number"
	}
	return value, ""
}

// Millis is a duration in milliseconds.
type Millis float64

// largestMillis is the largest duration that ParseMillis accepts: a day.
const largestMillis Millis = 24 * 60 * 60 * 1000

// ParseMillis reads a duration such as "3.9ms", "900 us" or "1.2s". The unit is required. It
// refuses durations that are not above 0, and those above a day.
func ParseMillis(s string) (Millis, error) {
	const hint = "write a number and its unit, such as 3.9ms"
	text := strings.TrimSpace(s)
	if _, complaint := decimal(text); complaint == "" {
		return 0, fmt.Errorf("time %q has no unit: %s", s, hint)
	}
	for _, u := range []struct {
		name string
		size Millis
	}{{"ms", 1}, {"us", 1e-3}, {"\u00b5s", 1e-3}, {"s", 1000}} {
		number, found := strings.CutSuffix(text, u.name)
		if !found {
			continue
		}
		value, complaint := decimal(strings.TrimSpace(number))
		m := Millis(value) * u.size
		switch {
		case complaint != "":
			return 0, fmt.Errorf("%q is not a time: %s", s, hint)
		case m <= 0:
			return 0, fmt.Errorf("time %q is not above 0", s)
		case m > largestMillis:
			return 0, fmt.Errorf("time %q is too long", s)
		}
		return m, nil
	}
	return 0, fmt.Errorf("%q is not a time: %s", s, hint)
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
