package words

import (
	"fmt"
	"strings"
)

// Split divides a command line into words as a POSIX shell does that expands nothing: words
// end at spaces, '...' keeps everything, "..." keeps everything but \" and \\, and a
// backslash elsewhere keeps the next character. An open quote and a backslash at the end are
// errors.
func Split(line string) ([]string, error) {
	var (
		all   []string
		word  strings.Builder
		begun bool
	)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\t', '\n', '\r':
			if begun {
				all = append(all, word.String())
			}
			word.Reset()
			begun = false
		case '\'', '"':
			n, err := quoted(line[i:], &word)
			if err != nil {
				return nil, err
			}
			i, begun = i+n-1, true
		case '\\':
			if i++; i == len(line) {
				return nil, fmt.Errorf("%q ends with a backslash", line)
			}
			word.WriteByte(line[i])
			begun = true
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	if begun {
		all = append(all, word.String())
	}
	return all, nil
}

// quoted adds the quoted part that text begins with to a word, and returns the length of the
// part with its quotes.
func quoted(text string, word *strings.Builder) (int, error) {
	quote := text[0]
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == quote:
			return i + 1, nil
		case quote == '"' && text[i] == '\\' && i+1 < len(text) && strings.IndexByte(`"\`, text[i+1]) >= 0:
			i++
		}
		word.WriteByte(text[i])
	}
	return 0, fmt.Errorf("the quote %c is not closed", quote)
}
