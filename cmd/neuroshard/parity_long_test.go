//go:build long

package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/search"
)

// parityTolerance is the relative difference allowed to the figures of
// docs/PARITY.md: on other machines ties may fall differently.
const parityTolerance = .005

// TestParity runs the commands of docs/PARITY.md, our search and the
// prototype's saved plans, and compares their outputs and the table that joins
// them with what the document has. Times are not compared.
func TestParity(t *testing.T) {
	t.Chdir("../..")
	const document = "docs/PARITY.md"
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	// Of the parts between fences, the odd ones are inside.
	parts := strings.Split(string(text), "```")
	var runs []*bench.Results
	for i := 1; i+2 < len(parts); i += 2 {
		args := strings.Fields(strings.ReplaceAll(parts[i], "\\\n", " "))
		if len(args) < 2 || args[0] != "neuroshard" || args[1] != "bench" {
			continue
		}
		path := filepath.Join(t.TempDir(), "out.json")
		r := runHere(t.Context(), quiet(), append(args[1:], "--json", path)...)
		if r.code != exitOK {
			t.Fatalf("%q: got exit code %d: %s", args, r.code, r.stderr)
		}
		runs = append(runs, readBench(t, path))
		shown := parts[i+2]
		parts[i+2] = "\n" + strings.TrimLeft(r.stdout, "\n")
		compareFigures(t, strings.Split(shown, "\n"), strings.Split(parts[i+2], "\n"), 2)
	}
	if len(runs) != 2 {
		t.Fatalf("got %d commands in %s, want ours and the prototype's", len(runs), document)
	}
	lines := strings.Split(strings.Join(parts, "```"), "\n")
	from := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "| setting | method |") }) + 2
	to := from
	for ; strings.HasPrefix(lines[to], "| d4_"); to++ {
	}
	table := joined(t, runs[0], runs[1])
	compareFigures(t, lines[from:to], table, 1)
	if *update {
		lines = slices.Concat(lines[:from], table, lines[to:])
		if err := os.WriteFile(document, []byte(strings.Join(lines, "\n")), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// joined returns the rows of the table: what we and the prototype made of the
// same tasks.
func joined(t *testing.T, ours, theirs *bench.Results) []string {
	t.Helper()
	type job struct {
		setting, task string
		method        search.Method
	}
	saved := map[job]bench.Record{}
	for _, r := range theirs.Records {
		saved[job{r.Setting, r.Task, r.Method}] = r
	}
	var rows []string
	for _, s := range ours.Summary {
		against := s.Method
		name := fmt.Sprintf("`%s`", s.Method)
		if s.Method == search.Default {
			against = search.Paper
			name += " against `paper`"
		}
		var solved, both int
		var mean, mine, its, largest float64
		for _, r := range ours.Records {
			if r.Setting != s.Setting || r.Method != s.Method {
				continue
			}
			other, ok := saved[job{r.Setting, r.Task, against}]
			if !ok {
				t.Fatalf("the prototype has no plan by %s for task %s", against, r.Task)
			}
			if other.Valid {
				solved++
				mean += *other.CostMS
			}
			if !other.Valid || !r.Valid {
				continue
			}
			both++
			mine, its = mine+*r.CostMS, its+*other.CostMS
			if difference := *r.CostMS / *other.CostMS - 1; math.Abs(difference) > math.Abs(largest) {
				largest = difference
			}
		}
		// Baselines ask no nets and have no ties to break otherwise: all their costs
		// are the prototype's. Of paper the mean is.
		if s.Method != search.Random && s.Method != search.Paper && s.Method != search.Default && math.Abs(largest) > 1e-4 {
			t.Errorf("%s by %s: got a cost %.3g off the prototype's, want at most 1e-4", s.Setting, s.Method, largest)
		}
		if s.Method == search.Paper && (s.Solved < solved || mine > its*1.001) {
			t.Errorf("%s by %s: got %d solved at %.4f ms, want at least %d at %.4f", s.Setting, s.Method, s.Solved, mine, solved, its)
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %d | %.3f | %d | %.3f | %d | %.3f | %.3f | %+.4f |", s.Setting, name,
			solved, mean/float64(solved), s.Solved, s.MeanMS, both, its/float64(both), mine/float64(both), 100*largest))
	}
	return rows
}

// compareFigures holds lines of a document against fresh ones, word by word:
// numbers may differ a little. The last skip words of a line are left out.
func compareFigures(t *testing.T, shown, fresh []string, skip int) {
	t.Helper()
	if *update {
		return
	}
	const hint = "(rewrite it: go test ./cmd/neuroshard -run TestParity -update)"
	if len(shown) != len(fresh) {
		t.Fatalf("docs/PARITY.md: got %d lines, want the %d of\n%s\n%s", len(shown), len(fresh), strings.Join(fresh, "\n"), hint)
	}
	for i := range shown {
		got, want := figures(fresh[i]), figures(shown[i])
		agree := len(got) == len(want)
		for w := 0; agree && w < len(got)-skip; w++ {
			agree = agreeing(got[w], want[w])
		}
		if !agree {
			t.Errorf("docs/PARITY.md: got %q, want %q %s", fresh[i], shown[i], hint)
		}
	}
}

// figures returns the words of a line of a table. The ends of an interval are two words.
func figures(line string) []string {
	return strings.Fields(strings.ReplaceAll(interval.ReplaceAllString(line, "$1 $2"), "|", " "))
}

// interval matches what joins the ends of an interval: 0.9886-0.9910.
var interval = regexp.MustCompile(`(\d)-(\d)`)

// agreeing compares words; those that are numbers with a point, nearly.
func agreeing(got, want string) bool {
	a, err1 := strconv.ParseFloat(got, 64)
	b, err2 := strconv.ParseFloat(want, 64)
	if err1 != nil || err2 != nil || !strings.Contains(want, ".") {
		return got == want
	}
	return math.Abs(a-b) <= parityTolerance*math.Abs(b)
}
