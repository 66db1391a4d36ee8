package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/f32"
	"github.com/neuroshard/neuroshard/internal/must"
)

// documents are the pages whose commands are run.
var documents = []string{"README.md", "docs/TOUR.md", "docs/TROUBLESHOOTING.md", "docs/OPERATION.md", "docs/MEMORY.md"}

// A shown command is a line "$ neuroshard ..." in a fenced block; the lines up to
// the next one are its output, standard error included. A line "..." stands for
// any lines left out; there may be one. Where no output is shown, any will do.
//
// The word after the language of a block says who runs it: "```console long" the
// tests behind the build tag long, which compare no numbers, because they are
// measured; "```console python" python/tests/test_tour.py; "```console service"
// TestServiceOfTheTour. Other blocks are run by every go test, and their output is
// compared byte by byte. "```csv bad.csv" is the
// file bad.csv, which is there for all commands.
const (
	prompt  = "$ "
	leftOut = "..."

	always = ""
	long   = "long"
	python = "python"
	served = "service"
	file   = "file"
)

// shownFile is a fenced block that is a file.
var shownFile = regexp.MustCompile("(?ms)^```[a-z]+ ([a-z_]+\\.[a-z]+)\\n(.*?)^```$")

// shown is a command of a document and the place of its output there.
type shown struct {
	line     int // of the command, from 0
	args     []string
	by       string // who runs it: always or long
	from, to int    // lines of the output
}

// TestDocuments runs the commands that the documents show and compares their output.
func TestDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it runs the commands of all documents")
	}
	for _, name := range documents {
		t.Run(filepath.Base(name), func(t *testing.T) { runDocument(t, name, always) })
	}
}

// TestMemoryPicture compares docs/memory.svg with the picture of memory in the page of the plan that
// docs/MEMORY.md shows. With -update it makes the picture again.
func TestMemoryPicture(t *testing.T) {
	if testing.Short() || !f32.Assembly() {
		t.Skip("left out with -short, and without assembly, which ends at another plan")
	}
	const workload, path = "workload:hugectr-180", "../../docs/memory.svg"
	file, page := filepath.Join(t.TempDir(), "plan.json"), filepath.Join(t.TempDir(), "plan.html")
	for _, args := range [][]string{{"plan", workload, "--set", "baselines=false", "-o", file}, {"show", file, "--tables", workload, "-o", page}} {
		var printed bytes.Buffer
		if code := run(t.Context(), strings.NewReader(""), &printed, &printed, args, quiet()); code != exitOK {
			t.Fatalf("%q: got exit code %d: %s", args, code, printed.String())
		}
	}
	text := must.Get(os.ReadFile(page))(t)
	// The picture alone has neither the width nor the margins nor the colours of a page.
	svg := regexp.MustCompile(`(?s)<svg [^>]*height="(\d+)".*?</svg>`).FindSubmatch(text)
	colours := regexp.MustCompile(`(?s):root \{.*?\}`).Find(text)
	if svg == nil || colours == nil {
		t.Fatal("the page has no picture of memory")
	}
	got := fmt.Appendf(nil, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"500\" height=\"%[1]s\" viewBox=\"0 0 500 %[1]s\"><style>%[2]s svg { background: var(--surface); }</style>%[3]s</svg>\n",
		svg[1], colours, bytes.Replace(svg[0], []byte(`width="100%"`), []byte(`x="10" width="480"`), 1))
	must.Match(t, path, got)
}

// TestServiceOfTheTour starts the server as the tour does, at a free port, and sends the
// requests that the tour shows.
func TestServiceOfTheTour(t *testing.T) {
	text, err := os.ReadFile("../../docs/TOUR.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "```console "+served+"\n"+prompt+"neuroshard ")
	block, _, _ = strings.Cut(block, "```")
	command, requests, _ := strings.Cut(block, "\n")
	if !found {
		t.Fatal("docs/TOUR.md starts no server")
	}
	t.Chdir(t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	output, printed := io.Pipe()
	ended := make(chan int)
	go func() {
		args := append(strings.Fields(command), "--listen", "127.0.0.1:0", "--log", "none")
		ended <- run(ctx, strings.NewReader(""), printed, io.Discard, args, quiet())
	}()
	line, err := bufio.NewReader(output).ReadString('\n')
	address := regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).FindString(line)
	if err != nil || address == "" {
		t.Fatalf("the server printed %q, %v, want its address", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, output) }()
	sent := 0
	for _, request := range regexp.MustCompile(`(?m)^\$ curl http://127\.0\.0\.1:7878(\S+) -H '([^:]+): ([^']+)' -d '([^']+)'$`).FindAllStringSubmatch(requests, -1) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+request[1], strings.NewReader(request[4]))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(request[2], request[3])
		answer := must.Get(http.DefaultClient.Do(r))(t)
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"simulated_cost_ms"`)) {
			t.Errorf("%s: got status %d, %v and %.300s, want a plan", request[0], answer.StatusCode, err, body)
		}
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
		sent++
	}
	if shown := strings.Count(requests, prompt+"curl"); shown == 0 || sent != shown {
		t.Errorf("sent %d of the %d requests that docs/TOUR.md shows", sent, shown)
	}
	stop()
	if code := <-ended; code != exitOK && code != exitInterrupted {
		t.Errorf("the server ended with code %d", code)
	}
}

// runDocument runs the commands of a document that one of the given tests is to run, in order,
// in a folder of their own with the examples, and compares what they print.
func runDocument(t *testing.T, name string, by ...string) {
	page := must.Get(filepath.Abs("../../" + name))(t)
	text := must.Get(os.ReadFile(page))(t)
	lines := strings.Split(string(text), "\n")
	commands, errs := shownCommands(name, lines)
	for _, err := range errs {
		t.Error(err)
	}
	if len(commands) < 3 {
		t.Fatalf("got %d commands in %s, want 3 at least", len(commands), name)
	}

	here := t.TempDir()
	must.Do(t, os.CopyFS(filepath.Join(here, "examples"), os.DirFS("../../examples")))
	t.Chdir(here)
	for _, match := range shownFile.FindAllStringSubmatch(string(text), -1) {
		must.Do(t, os.WriteFile(match[1], []byte(match[2]), 0o666))
	}
	var fresh []string
	copied := 0
	for _, c := range commands {
		if !slices.Contains(by, c.by) {
			continue
		}
		var printed bytes.Buffer
		code := run(t.Context(), strings.NewReader(""), &printed, &printed, c.args, quiet())
		output := printed.String()
		got := strings.Split(strings.TrimSuffix(output, "\n"), "\n")
		want := lines[c.from:c.to]
		if failed(want) != failed(got) || code > exitNo && !failed(got) {
			t.Errorf("%s:%d: got exit code %d: %s", name, c.line+1, code, output)
		}
		fresh = append(append(fresh, lines[copied:c.from]...), refresh(want, got)...)
		copied = c.to
		if !*must.Update && !agreement(c.by)(want, got) {
			t.Errorf("%s:%d: neuroshard %s: got\n%s\nwant\n%s\n(rewrite it: go test ./cmd/neuroshard -run TestDocuments -update)",
				name, c.line+1, strings.Join(c.args, " "), strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if *must.Update && !t.Failed() {
		fresh = append(fresh, lines[copied:]...)
		must.Do(t, os.WriteFile(page, []byte(strings.Join(fresh, "\n")), 0o666))
	}
}

// failed reports whether the output of a command has an error.
func failed(output []string) bool {
	return slices.ContainsFunc(output, func(line string) bool { return strings.HasPrefix(line, "neuroshard: error:") })
}

// agreement returns how the shown output of a command is compared with the one that it prints.
func agreement(by string) func(want, got []string) bool {
	switch {
	case by == long:
		return func(want, got []string) bool { return agrees(numberless(want), numberless(got)) }
	case !f32.Assembly():
		return costsAreNear
	}
	return agrees
}

var (
	number = regexp.MustCompile(`-?\b[0-9a-f]{12}\b|[-+]?[0-9][0-9,.]*`)
	blank  = regexp.MustCompile(`[ █▓▒░]+`)
)

// numberless returns the lines with every number and every id of a model as 0, every run of blanks and bars as one
// blank: what two measurements have in common.
func numberless(lines []string) []string {
	var all []string
	for _, line := range lines {
		all = append(all, strings.TrimSpace(blank.ReplaceAllString(number.ReplaceAllString(line, "0"), " ")))
	}
	return all
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

// shownCommands finds the commands in the fenced blocks of a document. What
// looks like a command but would not be run is an error. Commands of blocks that
// Python's tests run are left out.
func shownCommands(name string, lines []string) (commands []shown, errs []error) {
	complain := func(line int, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s:%d: %s", name, line+1, fmt.Sprintf(format, args...)))
	}
	fenced, open, by := false, false, always
	for i, line := range lines {
		command, isCommand := strings.CutPrefix(line, prompt)
		info, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence:
			fenced, open = !fenced, false
			_, by, _ = strings.Cut(info, " ")
			if strings.Contains(by, ".") {
				by = file
			}
			if !slices.Contains([]string{always, long, python, served, file}, by) {
				complain(i, "%s: got test %q, want %s, %s, %s or the name of a file", line, by, long, python, served)
			}
		case !fenced || by == python || by == served || by == file:
		case isCommand:
			words := strings.Fields(strings.Replace(command, "go run ./cmd/neuroshard ", "neuroshard ", 1))
			open = len(words) > 0 && words[0] == "neuroshard"
			switch {
			case strings.ContainsAny(command, "|<>&;$`\"'\\#*"):
				complain(i, "%s: only plain words can be run", line)
			case open:
				commands = append(commands, shown{line: i, args: words[1:], by: by, from: i + 1, to: i + 1})
			case len(words) == 0 || words[0] != "go":
				complain(i, "%s: this command is not run by any test", line)
			}
			open = open && len(commands) > 0 && commands[len(commands)-1].line == i
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
