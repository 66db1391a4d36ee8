//go:build browser

package browser

import (
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"

	"github.com/chromedp/chromedp"
)

// rules are the rules of axe-core that a page must keep: WCAG 2.2 on levels A and AA, and what
// axe-core calls best practice.
const rules = `{runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], resultTypes: ["violations"]}`

// Axe runs axe-core on the page as it is, and fails the test for each violation.
func (p *Page) Axe() {
	p.t.Helper()
	for _, v := range p.Violations() {
		p.t.Errorf("axe: %s", v)
	}
}

// Violations runs axe-core on the page as it is, and returns the rules that the page breaks, with
// the places.
func (p *Page) Violations() []string {
	p.t.Helper()
	path := os.Getenv(AxeVariable)
	if path == "" {
		p.t.Fatalf("there is no axe-core: name its file axe.min.js with %s", AxeVariable)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	if p.Is("!window.axe") {
		p.run("axe-core", chromedp.Evaluate(string(source)+"; true", nil))
	}
	var broken []violation
	p.Value("axe.run(document, "+rules+").then(r => r.violations.map(v => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.map(n => ({target: n.target.join(' '), why: n.failureSummary}))})))", &broken)
	var texts []string
	for _, v := range broken {
		texts = append(texts, v.String())
	}
	return texts
}

// violation is a rule that a page breaks, and where.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ Target, Why string }
}

// String has a line for the rule and two for each of the first five places.
func (v violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s): %s", v.ID, v.Impact, v.Help)
	for i, n := range v.Nodes {
		if i == 5 {
			fmt.Fprintf(&b, "\n\tand %d places more", len(v.Nodes)-i)
			break
		}
		fmt.Fprintf(&b, "\n\t%s\n\t\t%s", n.Target, strings.ReplaceAll(n.Why, "\n", " "))
	}
	return b.String()
}

// Golden compares the page, at most height CSS pixels of it, with a picture in testdata/golden.
// If they differ by more than Difference.Same allows, the test fails and the new picture lies
// beside the old one, with "got" in its name. If update is true, the new picture replaces the
// old one unless they are the same bytes.
func (p *Page) Golden(name string, height int, update bool) {
	p.t.Helper()
	path := filepath.Join("testdata", "golden", name+".png")
	got := p.Picture(height)
	if update {
		if err := write(path, got); err != nil {
			p.t.Fatal(err)
		}
		return
	}
	beside := strings.TrimSuffix(path, ".png") + ".got.png"
	want, err := read(path)
	if err != nil {
		if err := write(beside, got); err != nil {
			p.t.Error(err)
		}
		p.t.Errorf("%v; the page is in %s: look at it, and keep it with -update", err, beside)
		return
	}
	if d := Compare(got, want); !d.Same() {
		if err := write(beside, got); err != nil {
			p.t.Error(err)
		}
		p.t.Errorf("%s: %v; the page is in %s: look at both, and keep it with -update", path, d, beside)
	}
}

func read(path string) (image.Image, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return png.Decode(f)
}

func write(path string, p image.Image) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(f, p); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
