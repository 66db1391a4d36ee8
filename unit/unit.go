// Package unit holds the two quantities every other package passes around:
// bytes and milliseconds. A quantity crosses a package boundary in one of
// these types, never as a bare number, and is formatted only here.
//
// GiB is 2^30 bytes and GB is 10^9 bytes: memory is stated in GiB, bandwidth
// in GB/s, as the hardware's own data sheets do.
package unit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a size in bytes. Negative values only appear as differences.
type Bytes int64

// The multiples ParseBytes knows.
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
	{"KiB", KiB}, {"MiB", MiB}, {"GiB", GiB}, {"TiB", TiB},
	{"KB", KB}, {"MB", MB}, {"GB", GB}, {"TB", TB}, {"B", 1},
}

// ParseBytes reads a size such as "80GiB", "1.5 GB", "512 MiB" or "4096"
// (bytes). Suffixes are exact but for case. It refuses negative sizes, sizes
// above 2^62 and anything that is not a number.
func ParseBytes(s string) (Bytes, error) {
	text := strings.TrimSpace(s)
	size := Bytes(1)
	for _, suffix := range suffixes {
		if len(text) > len(suffix.name) && strings.EqualFold(text[len(text)-len(suffix.name):], suffix.name) {
			text, size = strings.TrimSpace(text[:len(text)-len(suffix.name)]), suffix.size
			break
		}
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) {
		return 0, fmt.Errorf("%q is not a size: write a number and a unit, such as 80GiB or 40GB", s)
	}
	if value < 0 {
		return 0, fmt.Errorf("size %q is negative", s)
	}
	if value*float64(size) > 1<<62 {
		return 0, fmt.Errorf("size %q is too large", s)
	}
	return Bytes(math.Round(value * float64(size))), nil
}

// GiB returns b in units of 2^30 bytes.
func (b Bytes) GiB() float64 { return float64(b) / float64(GiB) }

// String prints b in the largest binary unit that leaves a number of at least
// one, with three significant digits: "1.50 GiB", "512 MiB", "17 B".
func (b Bytes) String() string {
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

// Millis is a duration in milliseconds.
type Millis float64

// Micros returns the duration of us microseconds.
func Micros(us float64) Millis { return Millis(us / 1000) }

// String prints m in milliseconds with three significant digits: "4.17 ms",
// "0.0312 ms", "128 ms".
func (m Millis) String() string { return significant(float64(m)) + " ms" }

// significant prints v with three significant digits and no exponent.
func significant(v float64) string {
	abs := math.Abs(v)
	switch {
	case abs == 0:
		return "0"
	case abs >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case abs >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case abs >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	digits := 2 - int(math.Floor(math.Log10(abs)))
	return strconv.FormatFloat(v, 'f', min(digits, 6), 64)
}
