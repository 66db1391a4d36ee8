package strictjson

import "strings"

// ValidNumber reports whether text is a number as JSON writes numbers.
func ValidNumber(text string) bool {
	rest := strings.TrimPrefix(text, "-")
	integer := digits(rest)
	if integer == 0 || integer > 1 && rest[0] == '0' {
		return false
	}
	rest = rest[integer:]
	if after, ok := strings.CutPrefix(rest, "."); ok {
		n := digits(after)
		if n == 0 {
			return false
		}
		rest = after[n:]
	}
	if rest == "" {
		return true
	}
	if rest[0] != 'e' && rest[0] != 'E' {
		return false
	}
	rest = rest[1:]
	if rest != "" && (rest[0] == '+' || rest[0] == '-') {
		rest = rest[1:]
	}
	return rest != "" && digits(rest) == len(rest)
}

// digits returns the number of digits at the start of s.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
