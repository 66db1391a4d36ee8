package main

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/f32"
)

var update = flag.Bool("update", false, "rewrite the output shown in README.md")

// A shown command is a line "$ neuroshard ..." in a fenced block; the lines up to
// the next one are its output, standard error included. A line "..." stands for
// any lines left out; there may be one. Where no output is shown, any will do.
const (
	prompt  = "$ "
	leftOut = "..."
)

// shown is a command of a document and the place of its output there.
type shown struct {
	line     int // of the command, from 0
	args     []string
	from, to int // lines of the output
}

// TestReadme runs every command that README.md shows and compares its output.
func TestReadme(t *testing.T) {
	readme, err := filepath.Abs("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	commands, errs := shownCommands(lines)
	for _, err := range errs {
		t.Error(err)
	}
	if len(commands) < 3 {
		t.Fatalf("got %d commands in README.md, want 3 at least", len(commands))
	}

	here := t.TempDir()
	if err := os.CopyFS(filepath.Join(here, "examples"), os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(here)
	var fresh []string
	copied := 0
	for _, c := range commands {
		var output bytes.Buffer
		code := run(t.Context(), strings.NewReader(""), &output, &output, c.args, quiet())
		got := strings.Split(strings.TrimSuffix(output.String(), "\n"), "\n")
		want := lines[c.from:c.to]
		if fails := strings.Contains(strings.Join(want, "\n"), "neuroshard: error:"); fails != (code != exitOK) {
			t.Errorf("README.md:%d: got exit code %d: %s", c.line+1, code, output.String())
		}
		fresh = append(append(fresh, lines[copied:c.from]...), refresh(want, got)...)
		copied = c.to
		same := agrees
		if !f32.Assembly() {
			same = costsAreNear
		}
		if !*update && !same(want, got) {
			t.Errorf("README.md:%d: neuroshard %s: got\n%s\nwant\n%s\n(rewrite it: go test ./cmd/neuroshard -run TestReadme -update)",
				c.line+1, strings.Join(c.args, " "), strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if *update && !t.Failed() {
		fresh = append(fresh, lines[copied:]...)
		if err := os.WriteFile(readme, []byte(strings.Join(fresh, "\n")), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// costsAreNear reports whether both outputs state the same costs within 5 %, or want states
// none. Builds without the assembly round differently, and their searches end at other plans.
func costsAreNear(want, got []string) bool {
	w, g := costs(want), costs(got)
	return len(w) == 0 || slices.EqualFunc(w, g, func(w, g float64) bool { return math.Abs(g/w-1) <= .05 })
}

// costs returns the milliseconds of the lines that state a plan's cost.
func costs(lines []string) []float64 {
	var all []float64
	for _, line := range lines {
		if _, after, ok := strings.Cut(line, " cost  "); ok {
			var ms float64
			if _, err := fmt.Sscanf(after, "%g ms", &ms); err == nil {
				all = append(all, ms)
			}
		}
	}
	return all
}

func TestCostsAreNear(t *testing.T) {
	want := []string{"predicted cost  2.00 ms (by a model)", "devices  8"}
	for got, near := range map[string]bool{
		"predicted cost  2.08 ms (by a model)": true,
		"predicted cost  2.12 ms (by a model)": false,
		"devices  8":                           false,
	} {
		if costsAreNear(want, []string{got}) != near {
			t.Errorf("%q beside %q: near is %v, want %v", got, want[0], !near, near)
		}
	}
}

// shownCommands finds the commands in the fenced blocks of a document. What
// looks like a command but would not be run is an error.
func shownCommands(lines []string) (commands []shown, errs []error) {
	complain := func(line int, format string, args ...any) {
		errs = append(errs, fmt.Errorf("README.md:%d: %s", line+1, fmt.Sprintf(format, args...)))
	}
	fenced, open := false, false
	for i, line := range lines {
		command, isCommand := strings.CutPrefix(line, prompt)
		switch {
		case strings.HasPrefix(line, "```"):
			fenced, open = !fenced, false
		case !fenced:
		case isCommand:
			open = false
			words := strings.Fields(command)
			switch {
			case strings.ContainsAny(command, "|<>&;$`\"'\\#*"):
				complain(i, "%s: only plain words can be run", line)
			case len(words) > 0 && words[0] == "neuroshard":
				commands = append(commands, shown{line: i, args: words[1:], from: i + 1, to: i + 1})
				open = true
			case len(words) == 0 || words[0] != "go":
				complain(i, "%s: this command is not run by any test", line)
			}
		case open:
			commands[len(commands)-1].to = i + 1
		case strings.HasPrefix(line, "neuroshard "):
			complain(i, "write %q before a command, so that it is run", prompt)
		}
	}
	for i := range commands {
		c := &commands[i]
		for c.to > c.from && lines[c.to-1] == "" {
			c.to--
		}
		if n := strings.Count("\n"+strings.Join(lines[c.from:c.to], "\n")+"\n", "\n"+leftOut+"\n"); n > 1 {
			complain(c.line, "output has %d lines %q, want one at most", n, leftOut)
		}
	}
	return commands, errs
}

// around returns the shown lines before and after those left out.
func around(want []string) (head, tail []string, cut bool) {
	at := slices.Index(want, leftOut)
	if at < 0 {
		return want, nil, false
	}
	return want[:at], want[at+1:], true
}

// agrees reports whether got is the output shown.
func agrees(want, got []string) bool {
	head, tail, cut := around(want)
	switch {
	case len(want) == 0:
		return true
	case !cut:
		return slices.Equal(head, got)
	}
	return len(got) > len(head)+len(tail) &&
		slices.Equal(head, got[:len(head)]) && slices.Equal(tail, got[len(got)-len(tail):])
}

// refresh returns the first and last lines of got, in the numbers that are shown.
func refresh(want, got []string) []string {
	head, tail, cut := around(want)
	switch {
	case len(want) == 0:
		return nil
	case !cut || len(got) <= len(head)+len(tail):
		return got
	}
	return slices.Concat(got[:len(head)], []string{leftOut}, got[len(got)-len(tail):])
}

func TestShownCommands(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       string // LINE:ARGS:FROM-TO of each command
		errors     int
	}{
		{"none", "neuroshard plan\n", "", 0},
		{"output", "```\n$ neuroshard plan x\na\nb\n\n$ neuroshard show\n```\nc\n", "1:plan x:2-4 5:show:6-6", 0},
		{"two blocks", "```\n$ neuroshard a\n1\n```\n\n```\n$ neuroshard b\n2\n```", "1:a:2-3 6:b:7-8", 0},
		{"go is not run", "```\n$ go test ./...\nok\n$ neuroshard a\n```", "3:a:4-4", 0},
		{"errors are output", "```\n$ neuroshard a\nneuroshard: error: no\n```", "1:a:2-3", 0},
		{"no prompt", "```\nneuroshard plan\n```", "", 1},
		{"pipe", "```\n$ neuroshard plan x | less\n```", "", 1},
		{"other program", "```\n$ make\n```", "", 1},
		{"two gaps", "```\n$ neuroshard a\n...\nb\n...\n```", "1:a:2-5", 1},
	} {
		commands, errs := shownCommands(strings.Split(test.text, "\n"))
		var all []string
		for _, c := range commands {
			all = append(all, fmt.Sprintf("%d:%s:%d-%d", c.line, strings.Join(c.args, " "), c.from, c.to))
		}
		if got := strings.Join(all, " "); got != test.want || len(errs) != test.errors {
			t.Errorf("%s: got %q and errors %v, want %q and %d", test.name, got, errs, test.want, test.errors)
		}
	}
}

func TestAgrees(t *testing.T) {
	for _, test := range []struct {
		want, got string
		agrees    bool
		refreshed string
	}{
		{"a b", "a b", true, "a b"},
		{"a b", "a c", false, "a c"},
		{"a b", "a b c", false, "a b c"},
		{"a ... c", "a x y c", true, "a ... c"},
		{"a ... c", "b x y d", false, "b ... d"},
		{"a ... c", "a c", false, "a c"},
		{"a ...", "a b c", true, "a ..."},
		{"... c", "a b c", true, "... c"},
	} {
		want, got := strings.Fields(test.want), strings.Fields(test.got)
		if agrees(want, got) != test.agrees {
			t.Errorf("shown %q, output %q: got agreement %v, want %v", test.want, test.got, !test.agrees, test.agrees)
		}
		if got := strings.Join(refresh(want, got), " "); got != test.refreshed {
			t.Errorf("shown %q, output %q: got %q after an update, want %q", test.want, test.got, got, test.refreshed)
		}
	}
}
