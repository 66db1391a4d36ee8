// Package words writes counts and short lists for sentences, and reads words: Plural writes
// a count with its noun, List and Quoted the first few of many names. Closest finds the word
// that was probably meant (closest.go), Split divides a command line into words (split.go).
package words

import (
	"fmt"
	"strings"
)

// Plural returns a count with its noun: "1 table", "3 tables". A noun that ends in s is
// its own plural.
func Plural(n int, noun string) string {
	if n == 1 || strings.HasSuffix(noun, "s") {
		return fmt.Sprintf("%d %s", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// List joins the first most items with commas and counts the others: "a, b and 3 more".
func List(items []string, most int) string {
	shown := items[:min(most, len(items))]
	return strings.Join(shown, ", ") + More(" ", len(items)-len(shown))
}

// Quoted is like List, with each item in quotes, as %q writes it.
func Quoted(items []string, most int) string {
	quoted := make([]string, min(most, len(items)))
	for i := range quoted {
		quoted[i] = fmt.Sprintf("%q", items[i])
	}
	return List(quoted, most) + More(" ", len(items)-len(quoted))
}

// More returns the separator and "and n more", or nothing if n is not above 0.
func More(separator string, n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("%sand %d more", separator, n)
}
