package unit_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/unit"
	"pgregory.net/rapid"
)

func ExampleParseSize() {
	for _, text := range []string{"80GiB", "1.5 GB", "4096", "80 gigs"} {
		size, err := unit.ParseSize(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("%d bytes, %v\n", int64(size), size)
	}
	// Output:
	// 85899345920 bytes, 80.0 GiB
	// 1500000000 bytes, 1.40 GiB
	// size "4096" has no unit: write a number and its unit, such as 80GiB or 40GB
	// "80 gigs" is not a size: write a number and its unit, such as 80GiB or 40GB
}

func ExampleMillis_String() {
	fmt.Println(unit.Millis(4.1666), unit.Micros(31.2), unit.Millis(128.3))
	// Output:
	// 4.17 ms 0.0312 ms 128 ms
}

// parsed is a text, and what it reads as, or a part of its error.
type parsed[T any] struct {
	text string
	want T
	err  string
}

// parses reads each text.
func parses[T comparable](t *testing.T, parse func(string) (T, error), cases []parsed[T]) {
	t.Helper()
	for _, c := range cases {
		got, err := parse(c.text)
		switch {
		case got != c.want || (err == nil) != (c.err == ""):
			t.Errorf("%q: got %v and error %v, want %v and %q", c.text, got, err, c.want, c.err)
		case err != nil && !(strings.Contains(err.Error(), c.err) && strings.Contains(err.Error(), strconv.Quote(c.text))):
			t.Errorf("%q: got error %v, want one with %q and the text", c.text, err, c.err)
		}
	}
}

func TestParse(t *testing.T) {
	const noUnit, garbage, negative, large = "has no unit", "is not a size: write a number and its unit", "is negative", "is too large"
	parses(t, unit.ParseSize, []parsed[unit.Bytes]{
		{"0", 0, ""},
		{"17B", 17, ""},
		{"1KiB", 1 << 10, ""},
		{"1TiB", 1 << 40, ""},
		{"1KB", 1_000, ""},
		{"1TB", 1_000_000_000_000, ""},
		{"  80 \t gib \n", 80 << 30, ""},
		{".5KiB", 512, ""},
		{"1e-3 KB", 1, ""},
		{"+4 KiB", 4096, ""},
		{"-0B", 0, ""},
		{"0.4B", 0, ""},
		{"2.6B", 3, ""},
		{"9007199254740993B", 1<<53 + 1, ""}, // not a float64
		{"4194304TiB", 1 << 62, ""},
		{"17", 0, noUnit},
		{"40. ", 0, noUnit},
		{"-1", 0, noUnit},
		{"", 0, garbage},
		{"GiB", 0, garbage},
		{"80G", 0, garbage},
		{"80PiB", 0, garbage},
		{"80GiBGiB", 0, garbage},
		{"80 GiB free", 0, garbage},
		{"1,5GB", 0, garbage},
		{"1_000B", 0, garbage},
		{"0x1B", 0, garbage},
		{"0X1p4 KB", 0, garbage},
		{"NaN GiB", 0, garbage},
		{"infB", 0, garbage},
		{"-1GiB", 0, negative},
		{"-1e999B", 0, negative},
		{"1e999 B", 0, large},
		{"4611686018427389952B", 0, large}, // the next float64 after 2^62
		{"4194305TiB", 0, large},
		{"9223372036854775808B", 0, large},
	})
	parses(t, unit.ParseBandwidth, []parsed[unit.Bandwidth]{
		{"20GB/s", 20e9, ""},
		{" 1.5 GiB/s ", 1.5 * (1 << 30), ""},
		{"900 MB/s", 900e6, ""},
		{"7B/s", 7, ""},
		{"20gB/s", 20e9, ""},
		{"20", 0, "has no unit"},
		{"1e3", 0, "has no unit"},
		{"20GB", 0, "is not a bandwidth"},
		{"20Gb/s", 0, "is in bits"},
		{"100 Gbit/s", 0, "is in bits"},
		{"GB/s", 0, "is not a bandwidth"},
		{"", 0, "is not a bandwidth"},
		{"/s", 0, "is not a bandwidth"},
		{"0x1p4GB/s", 0, "is not a bandwidth"},
		{"NaN GB/s", 0, "is not a bandwidth"},
		{"inf GB/s", 0, "is not a bandwidth"},
		{"0 GB/s", 0, "not above 0"},
		{"-1 GB/s", 0, "not above 0"},
		{"0.1 B/s", 0, "below 1B/s"},
		{"1e-300 GB/s", 0, "below 1B/s"},
		{"1e300 GB/s", 0, "too large"},
		{"1e999 GB/s", 0, "too large"},
	})
	parses(t, unit.ParseMillis, []parsed[unit.Millis]{
		{"3.9ms", 3.9, ""},
		{" 1.2 s", 1200, ""},
		{"500us", 0.5, ""},
		{"500\u00b5s", 0.5, ""},
		{"3.9", 0, "has no unit"},
		{"3.9 min", 0, "is not a time"},
		{"ms", 0, "is not a time"},
		{"", 0, "is not a time"},
		{"NaNms", 0, "is not a time"},
		{"infs", 0, "is not a time"},
		{"0x1p4ms", 0, "is not a time"},
		{"0ms", 0, "not above 0"},
		{"-3ms", 0, "not above 0"},
		{"90000s", 0, "too long"},
		{"1e999ms", 0, "too long"},
	})
}

func TestBytesString(t *testing.T) {
	for size, want := range map[unit.Bytes]string{
		0:                           "0 B",
		17:                          "17 B",
		1023:                        "1023 B",
		1 << 10:                     "1.00 KiB",
		1536:                        "1.50 KiB",
		10234:                       "9.99 KiB",
		10239:                       "10.0 KiB", // 9.999 has three digits after rounding, too
		1<<20 - 1:                   "1024 KiB",
		512 << 20:                   "512 MiB",
		3 << 29:                     "1.50 GiB",
		80 << 30:                    "80.0 GiB",
		1 << 40:                     "1.00 TiB",
		math.MaxInt64:               "8388608 TiB",
		-1:                          "-1 B",
		-3 << 29:                    "-1.50 GiB",
		math.MinInt64:               "-8388608 TiB",
		unit.TiB - unit.GiB:         "1023 GiB",
		123*unit.MiB + 400*unit.KiB: "123 MiB",
	} {
		if got := size.String(); got != want {
			t.Errorf("Bytes(%d).String(): got %q, want %q", int64(size), got, want)
		}
	}
}

func TestMillisString(t *testing.T) {
	for m, want := range map[unit.Millis]string{
		0:                         "0 ms",
		4.1666:                    "4.17 ms",
		9.994:                     "9.99 ms",
		9.996:                     "10.0 ms",
		99.96:                     "100 ms",
		128.4:                     "128 ms",
		123456.7:                  "123457 ms",
		1000:                      "1000 ms",
		0.9996:                    "1.00 ms",
		0.03125:                   "0.0312 ms",
		0.1:                       "0.100 ms",
		0.001:                     "0.00100 ms",
		0.00123456:                "0.00123 ms",
		0.000012345:               "0.000012 ms",
		0.0000004:                 "0 ms",
		-0.0000004:                "0 ms",
		-4.1666:                   "-4.17 ms",
		unit.Millis(math.Inf(1)):  "+Inf ms",
		unit.Millis(math.Inf(-1)): "-Inf ms",
	} {
		if got := m.String(); got != want {
			t.Errorf("Millis(%v).String(): got %q, want %q", float64(m), got, want)
		}
	}
	if got := unit.Millis(math.NaN()).String(); got != "NaN ms" {
		t.Errorf("Millis(NaN).String(): got %q, want %q", got, "NaN ms")
	}
}

func TestConversions(t *testing.T) {
	if got, want := unit.Bytes(3<<29).GiB(), 1.5; got != want {
		t.Errorf("got %v GiB, want %v", got, want)
	}
	if got, want := unit.Micros(1500), unit.Millis(1.5); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// What String prints, ParseSize reads: to three digits, and exactly below KiB.
func TestStringRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Shifted, so that all units come up.
		b := unit.Bytes(rapid.Int64Range(0, 1<<62).Draw(t, "bytes") >> rapid.IntRange(0, 62).Draw(t, "shift"))
		got, err := unit.ParseSize(b.String())
		if err != nil {
			t.Fatalf("ParseSize(%q): %v", b, err)
		}
		allowed := 0.0
		if b >= unit.KiB {
			allowed = 0.005
		}
		if !(math.Abs(float64(got-b)) <= allowed*float64(b)) {
			t.Fatalf("%d bytes, printed as %q: got %d back, want it within %v", int64(b), b, int64(got), allowed)
		}
	})
}

// Whole numbers of any unit are read exactly.
func TestParseSizeExact(t *testing.T) {
	units := map[string]unit.Bytes{"B": 1, "KiB": unit.KiB, "MB": unit.MB, "GiB": unit.GiB}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"B", "KiB", "MB", "GiB"}).Draw(t, "unit")
		n := rapid.Int64Range(0, 1<<62/int64(units[name])).Draw(t, "number")
		got, err := unit.ParseSize(strconv.FormatInt(n, 10) + name)
		if want := unit.Bytes(n) * units[name]; err != nil || got != want {
			t.Fatalf("ParseSize(%d%s): got %d, %v, want %d", n, name, int64(got), err, int64(want))
		}
	})
}

func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"", "0", "80GiB", "1.5 GB", "-1", "NaN", "inf", "1e999", "0x1B", "9223372036854775807", " 7 kib ", "B", "1__0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := unit.ParseSize(text)
		if err != nil {
			if got != 0 || !strings.Contains(err.Error(), strconv.Quote(text)) {
				t.Fatalf("ParseSize(%q): got %d with error %q, want 0 and the text quoted", text, int64(got), err)
			}
			return
		}
		if got < 0 || got > 1<<62 {
			t.Fatalf("ParseSize(%q): got %d, want 0 to 2^62", text, int64(got))
		}
		if _, err := unit.ParseSize(got.String()); err != nil {
			t.Fatalf("ParseSize(%q) prints as %q, which it refuses: %v", text, got, err)
		}
	})
}

func ExampleParseBandwidth() {
	b, err := unit.ParseBandwidth("20GB/s")
	fmt.Println(b, b.GBps(), err)
	_, err = unit.ParseBandwidth("100Gb/s")
	fmt.Println(err)
	// Output:
	// 20.0 GB/s 20 <nil>
	// bandwidth "100Gb/s" is in bits: write bytes, 8 bits each, such as 20GB/s
}

func ExampleParseMillis() {
	m, err := unit.ParseMillis("3900us")
	fmt.Println(m, err)
	_, err = unit.ParseMillis("3.9")
	fmt.Println(err)
	// Output:
	// 3.90 ms <nil>
	// time "3.9" has no unit: write a number and its unit, such as 3.9ms
}

func TestBandwidthString(t *testing.T) {
	for b, want := range map[unit.Bandwidth]string{0: "0 B/s", 999: "999 B/s", 1e3: "1.00 KB/s", 13.4e9: "13.4 GB/s", 2.5e12: "2.50 TB/s"} {
		if got := b.String(); got != want {
			t.Errorf("Bandwidth(%v).String(): got %q, want %q", float64(b), got, want)
		}
	}
}
