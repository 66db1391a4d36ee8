// Package marks puts generated parts into a document, each between two marks:
//
//	<!-- NAME -->
//
//	the part
//
//	<!-- end -->
//
// Replace writes new parts, and Part reads one, so that a test can compare the document
// with what a program makes.
package marks

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/neuroshard/neuroshard/internal/atomicfile"
)

const end = "\n\n<!-- end -->"

// mark returns the mark before a part.
func mark(name string) string { return fmt.Sprintf("<!-- %s -->\n\n", name) }

// Replace puts the parts in the places of those between the marks of a name in a file, in
// order. It fails, and leaves the file as it was, if the file has the mark another number
// of times, or if a mark has no end.
func Replace(file, name string, parts []string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	mark := mark(name)
	pieces := strings.Split(string(text), mark)
	if len(pieces) != 1+len(parts) {
		return fmt.Errorf("%s: there are %d tables to replace, and the mark %q is there %d times", file, len(parts), strings.TrimSpace(mark), len(pieces)-1)
	}
	for i, part := range parts {
		_, after, ok := strings.Cut(pieces[i+1], end)
		if !ok {
			return fmt.Errorf("%s: the mark %q has no end", file, strings.TrimSpace(mark))
		}
		pieces[i+1] = part + end + after
	}
	return atomicfile.Write(file, func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Join(pieces, mark))
		return err
	})
}

// Part returns the part between the first marks of a name in a document's text, and
// whether the text has these marks.
func Part(text, name string) (string, bool) {
	_, after, ok := strings.Cut(text, mark(name))
	if !ok {
		return "", false
	}
	part, _, ok := strings.Cut(after, end)
	return part, ok
}
