package words

import "strings"

// Closest returns the known word that was probably meant by word, for hints such as
// "did you mean ...?", or "" if no known word is near. All words must be in lower case,
// with underscores.
func Closest(word string, known []string) string {
	if len(word) > 40 {
		return ""
	}
	best, least := "", max(1, min(3, len(word)/3))+1
	for _, k := range known {
		if d := Distance(word, k); d < least {
			best, least = k, d
		}
	}
	if best == "" && len(word) >= 3 {
		for _, k := range known {
			if strings.HasPrefix(k, word) {
				return k
			}
		}
	}
	return best
}

// Distance returns the fewest insertions, deletions, substitutions and
// swaps of neighbours that turn a into b (optimal string alignment), in
// O(len(a) len(b)).
func Distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
