package main

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/marks"
)

// limits are the largest median and worst errors of the tables' sets, in percent, those of
// changes in points, as the document states them, rounded up. A set without a row here fails.
// The geometric mean of launch-bound steps has a target of 15 %.
var limits = map[string]struct{ median, worst, geomean float64 }{
	"alltoall, in the fit, one host":                                               {2, 13, 100},
	"alltoall, in the fit, 2 to 8 hosts":                                           {1.5, 13, 100},
	"alltoall, in the fit, 16 hosts":                                               {4, 18, 100},
	"refit, in the fit, 16 hosts, share of version 3":                              {4, 18, 100},
	"refit, in the fit, 16 hosts, share of version 2":                              {8, 21, 100},
	"alltoall, out of sample, a healthy cluster":                                   {12.5, 27, 100},
	"hipc, in the fit, two constants a GPU":                                        {3, 14.5, 3.5},
	"hipc, out of sample, constants of the GPU's other two models":                 {5.5, 17.5, 4.5},
	"steps, in the fit, one host of v3.0":                                          {1.5, 5, 100},
	"steps, out of sample, PCIe":                                                   {17, 24.5, 100},
	"steps, out of sample, several hosts, first software":                          {13.5, 13.5, 100},
	"steps, out of sample, one host":                                               {2, 5, 100},
	"steps, out of sample, several hosts":                                          {2.5, 4.5, 100},
	"steps, out of sample, several hosts, newest software of each":                 {3.5, 4, 100},
	"changes, one host, v3.0 in the fit":                                           {.3, .5, 100},
	"changes, out of sample, several hosts":                                        {8.5, 9, 100},
	"ratios, ratios of kinds":                                                      {7.5, 8, 100},
	"measured, one measured step, the same number of hosts":                        {3, 8.5, 100},
	"measured, one measured step, another number of hosts":                         {3, 12, 100},
	"onehot, in the fit, hugectr-hybrid":                                           {7, 16.5, 100},
	"onehot, in the fit, distributed-embeddings":                                   {.1, .1, 100},
	"onehot, in the fit, sok, stock interaction":                                   {2, 3.5, 100},
	"onehot, in the fit, sok, custom interaction":                                  {2, 3.5, 100},
	"onehot, out of sample, HugeCTR before v1.1":                                   {30, 47, 100},
	"onehot, out of sample, all stacks from v1.1 on":                               {15.5, 41, 100},
	"onehot, out of sample, hugectr-hybrid":                                        {6, 41, 100},
	"onehot, out of sample, distributed-embeddings":                                {12, 12, 100},
	"onehot, out of sample, sok, stock interaction":                                {17, 21, 100},
	"onehot, out of sample, sok, custom interaction":                               {22.5, 27, 100},
	"stacks, out of sample, no constant of the stack":                              {56, 66.5, 100},
	"stacks, out of sample, one constant of the stack, fitted to the other models": {17.5, 38, 100},
	"stacks, out of sample, one measured step on another number of GPUs":           {20, 58, 100},
	"pipelines, out of sample, steps where the GPU is named":                       {3, 3.5, 100},
	"pipelines, out of sample, changes of steps":                                   {7.5, 9, 100},
	"dlrm, out of sample, without the loader":                                      {64.5, 72.5, 100},
	"dlrm, out of sample, with the loader from the largest batch":                  {20, 40, 100},
	"alltoall, out of sample, reported as a fault":                                 {70, 70, 100},
}

// docs/REALITY.md holds what the command prints, and no error is above its limit.
func TestDocument(t *testing.T) {
	page, err := os.ReadFile("../../REALITY.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := os.ReadFile(rowsFile("../../REALITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	sheets := map[string]*sheet{}
	var all []named
	for _, table := range tables() {
		if table.name == targetsTable {
			continue
		}
		s, err := table.compute()
		if err != nil {
			t.Fatalf("table %s: %v", table.name, err)
		}
		sheets[table.name] = s
		all = append(all, named{table.name, s})
	}
	sheets[targetsTable] = targetsOf(all)
	for _, table := range tables() {
		s := sheets[table.name]
		command := "go run ./docs/generate/reality " + table.name
		if part, ok := marks.Part(string(page), "reality "+table.name); !ok || part != s.String() {
			t.Errorf("docs/REALITY.md has another table %s: run %s -doc docs/REALITY.md", table.name, command)
		}
		if part, ok := marks.Part(string(rows), "reality "+table.name); ok != s.folded || ok && part != s.rowsText() {
			t.Errorf("docs/evidence/REALITY.md has other rows of %s: run %s -doc docs/REALITY.md", table.name, command)
		}
		if !strings.Contains(string(page), "`"+command+"`") {
			t.Errorf("docs/REALITY.md does not name the command of the table %s: want `%s`", table.name, command)
		}
		for _, one := range s.sets {
			name := table.name + ", " + one.name
			limit, ok := limits[name]
			seen[name] = true
			median, worst, geomean := 100*one.median(), 100*math.Abs(one.worst()), 100*one.geomean()
			if !ok || median > limit.median || worst > limit.worst || geomean > limit.geomean {
				t.Errorf("%s: got a median error of %.2f %%, a worst of %.2f %% and a geometric mean of %.2f %%, want at most %v, %v and %v", name, median, worst, geomean, limit.median, limit.worst, limit.geomean)
			}
		}
	}
	for name := range limits {
		if !seen[name] {
			t.Errorf("limit of %q: got no such comparisons", name)
		}
	}
}

// The command prints one table, or its usage; without names it takes all tables.
func TestRun(t *testing.T) {
	var one, usage bytes.Buffer
	if err := run(&one, []string{"alltoall"}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(one.String(), "| rows |") {
		t.Errorf("alltoall: got %q, want its summary", one.String())
	}
	if all, err := choose(nil); err != nil || len(all) != len(tables()) {
		t.Errorf("no names: got %d tables, %v, want all %d", len(all), err, len(tables()))
	}
	if err := run(&usage, []string{"-h"}); err != nil {
		t.Fatal(err)
	}
	for _, table := range tables() {
		if !strings.Contains(usage.String(), table.name) {
			t.Errorf("usage: got\n%s\nwant %q in it", usage.String(), table.name)
		}
	}
}

// Wrong arguments are reported, and nothing is printed.
func TestWrongArguments(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"widths", `table "widths" is unknown: choose among`},
		{"-doc x.md alltoall", `"alltoall" is one argument too many`},
	} {
		var out bytes.Buffer
		err := run(&out, strings.Fields(tt.args))
		if err == nil || !strings.Contains(err.Error(), tt.want) || out.Len() > 0 {
			t.Errorf("reality %s: got error %v and output %q, want an error with %q", tt.args, err, out.String(), tt.want)
		}
	}
}

// Errors are those of the ratios: by size for the median, with their sign for the worst.
func TestSet(t *testing.T) {
	one := &set{}
	for _, predicted := range []float64{90, 104, 101, 70} {
		one.add(predicted, 100)
	}
	if got := one.median(); math.Abs(got-.07) > 1e-12 {
		t.Errorf("median: got %v, want the mean of 0.04 and 0.1", got)
	}
	if got := one.worst(); math.Abs(got+.3) > 1e-12 {
		t.Errorf("worst: got %v, want -0.3", got)
	}
	if got, want := one.geomean(), math.Pow(.1*.04*.01*.3, .25); math.Abs(got-want) > 1e-12 {
		t.Errorf("geometric mean: got %v, want %v", got, want)
	}
}

// Differences of changes are in points, in the summary and in the table of targets.
func TestPoints(t *testing.T) {
	s := &sheet{columns: []string{"a"}, rows: [][]string{{"b"}}}
	one := s.set("changes", goal{points: 10})
	one.add(.75, .84)
	one.add(.73, .66)
	if got, want := s.String(), "| changes | 2 | 8.0 | 7.9 | -9.0 | within 10 points |"; !strings.Contains(got, want) || !strings.Contains(got, "worst, points") {
		t.Errorf("summary: got\n%s\nwant %s in it", got, want)
	}
	if got, want := targetsOf([]named{{"table", s}}).rows[0], []string{"table", "changes", "2", "8.0 points", "-9.0 points", "within 10 points", "met"}; !slices.Equal(got, want) {
		t.Errorf("targets: got %q, want %q", got, want)
	}
}

// A value that is no number is reported with its file, line and column.
func TestFact(t *testing.T) {
	f := &fact{where: "x.csv:2", values: map[string]string{"a": "fast", "b": "", "c": "NaN", "d": "4"}}
	if got := f.number("b") + f.number("d"); got != 4 || f.err != nil {
		t.Errorf("got %v and error %v, want 4", got, f.err)
	}
	f.number("c")
	f.number("a")
	if want := `x.csv:2: c: "NaN" is not a number`; f.err == nil || f.err.Error() != want {
		t.Errorf("got error %v, want %q", f.err, want)
	}
}
