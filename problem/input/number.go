package input

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// number is a number as written in a file, or what stands in its place.
type number string

// whole returns the number as an integer. The complaint is empty, or says why
// that cannot be. 1e6 and 2.0 are whole; magnitudes above 10^18 are refused.
func (n number) whole() (value int64, complaint string) {
	if complaint := n.malformed(); complaint != "" {
		return 0, complaint
	}
	text, negative := strings.CutPrefix(string(n), "-")
	mantissa, exponent := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa = text[:i]
		// An exponent out of range is clamped by Atoi, which is far enough here.
		exponent, _ = strconv.Atoi(text[i+1:])
	}
	integer, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(integer+fraction, "0")
	if digits == "" {
		return 0, ""
	}
	trimmed := strings.TrimRight(digits, "0")
	zeros := float64(exponent) - float64(len(fraction)) + float64(len(digits)-len(trimmed))
	switch {
	case zeros < 0:
		return 0, clip(string(n)) + " is not a whole number"
	case float64(len(trimmed))+zeros > 18:
		if negative {
			return 0, clip(string(n)) + " is negative"
		}
		return 0, clip(string(n)) + " is too large"
	}
	value, err := strconv.ParseInt(trimmed+strings.Repeat("0", int(zeros)), 10, 64)
	if err != nil {
		return 0, clip(string(n)) + " is not a whole number"
	}
	if negative {
		value = -value
	}
	return value, ""
}

// real returns the number as a finite float64, or a complaint.
func (n number) real() (value float64, complaint string) {
	if complaint := n.malformed(); complaint != "" {
		return 0, complaint
	}
	value, err := strconv.ParseFloat(string(n), 64)
	if err != nil || math.IsInf(value, 0) {
		return 0, clip(string(n)) + " is too large"
	}
	return value, ""
}

// malformed returns a complaint unless n is written as JSON writes numbers.
func (n number) malformed() string {
	if n != "" && (n[0] == '-' || digit(n[0])) && digit(n[len(n)-1]) && json.Valid([]byte(n)) {
		return ""
	}
	switch strings.ToLower(strings.TrimLeft(string(n), "+-")) {
	case "nan", "inf", "infinity":
		return string(n) + " is not a finite number"
	}
	return fmt.Sprintf("%s is not a number", quote(string(n)))
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
