package page

import (
	"bytes"
	"io"
	"slices"

	h "maragu.dev/gomponents"

	"github.com/neuroshard/neuroshard/report"
)

// shell.go writes the HTML around a document: the head, what a reader without JavaScript sees,
// and the scripts. The library (gomponents) escapes every text and every attribute. The package
// does not use html/template, because templates call methods by name: the linker then keeps all
// exported methods of all types, which added 5.7 MB to the binary.

// shell is what the HTML file holds.
type shell struct {
	title string
	// live is true on the service's page, which loads its scripts from assets/ and has no document.
	live bool
	// policy is the Content-Security-Policy, which allows style and scripts by their digests.
	policy string
	// style, document and scripts are written as they are.
	style, document string
	scripts         []string
	// static is what a reader without JavaScript sees of the document; nil on the service's page.
	static *Document
}

// write writes the HTML file.
func (s shell) write(w io.Writer) error {
	b := bytes.NewBufferString("<!doctype html>\n")
	page := h.El("html", attr("lang", "en"), s.head(), h.El("body",
		// page.js replaces what a reader without JavaScript sees.
		h.El("div", attr("id", "page"), attr("class", "ns"), h.El("main", attr("class", "main frame"),
			h.El("div", attr("class", "head"), h.El("h1", h.Text(s.title))),
			s.body(),
			h.El("noscript", h.El("p", attr("class", "note"), h.Text("The pictures, the tables and the comparison of this page need JavaScript. The page loads nothing from a network."))),
		)),
		s.code(),
	))
	if err := page.Render(b); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

// attr is an attribute of an element.
func attr(name, value string) h.Node { return h.Attr(name, value) }

// head is what a browser reads before the page.
func (s shell) head() h.Node {
	meta := func(key, name, content string) h.Node { return h.El("meta", attr(key, name), attr("content", content)) }
	nodes := h.Group{
		h.El("meta", attr("charset", "utf-8")),
		meta("name", "viewport", "width=device-width, initial-scale=1"),
		meta("name", "color-scheme", "light dark"),
		meta("name", "referrer", "no-referrer"),
	}
	if s.live {
		for _, name := range []string{"assets/page.css", "assets/live.css"} {
			nodes = append(nodes, h.El("link", attr("rel", "stylesheet"), attr("href", name)))
		}
		nodes = append(nodes, h.El("link", attr("rel", "icon"), attr("href", "assets/icon.svg"), attr("type", "image/svg+xml")))
	} else {
		nodes = append(nodes, meta("http-equiv", "Content-Security-Policy", s.policy), h.El("style", h.Raw(s.style)))
	}
	return h.El("head", append(nodes, h.El("title", h.Text(s.title)))...)
}

// code is the scripts, and the document that they draw.
func (s shell) code() h.Node {
	var nodes h.Group
	if s.live {
		for _, name := range []string{"assets/parts.js", "assets/page.js", "assets/live.js"} {
			nodes = append(nodes, h.El("script", attr("src", name)))
		}
		return nodes
	}
	nodes = append(nodes, h.El("script", attr("type", "application/json"), attr("id", "document"), h.Raw(s.document)))
	for _, script := range s.scripts {
		nodes = append(nodes, h.El("script", h.Raw(script)))
	}
	return nodes
}

// body is the document in plain HTML.
func (s shell) body() h.Node {
	d := s.static
	if d == nil {
		return nil
	}
	var nodes h.Group
	for i := range d.Plans {
		nodes = append(nodes, section(&d.Plans[i]))
	}
	if d.Changes != nil {
		nodes = append(nodes, h.El("section", attr("class", "section"), h.El("h2", h.Text("What changes")),
			headline(d.Changes.Headline, d.Changes.Facts)))
	}
	if d.Replan != nil {
		nodes = append(nodes, h.El("section", attr("class", "section"), h.El("h2", h.Text("Re-plan")),
			headline(d.Replan.Headline, d.Replan.Facts)))
	}
	if d.Sweep != nil {
		nodes = append(nodes, h.El("section", attr("class", "section"), h.El("h2", h.Text("Sweep")), headline(d.Sweep.Headline, d.Sweep.Facts)))
	}
	return nodes
}

// headline is a verdict, and what else is to say.
func headline(top report.Headline, rest []report.Fact) h.Node {
	return h.Group{h.El("p", attr("class", "verdict"), h.Text(top.Title)), list("lines", texts(slices.Concat(top.Lines, rest)))}
}

// texts are facts as lines.
func texts(all []report.Fact) (lines []string) {
	for _, f := range all {
		lines = append(lines, f.Name+": "+f.Text)
	}
	return lines
}

// section is a plan in words: its costs, its warnings, its critical device.
func section(p *Plan) h.Node {
	nodes := h.Group{
		attr("class", "section"),
		h.El("h2", h.Text(p.Name)),
		h.El("p", attr("class", "summary"), h.Text(p.Report.Title)),
		list("lines", texts(p.Report.Lines)),
	}
	if p.Memory != "" {
		nodes = append(nodes, h.El("h3", h.Text("Memory over a step")), h.Raw(p.Memory))
	}
	if len(p.Warnings) > 0 {
		nodes = append(nodes, h.El("div", attr("class", "warnings"), h.El("h3", h.Text("Warnings")), list("", p.Warnings)))
	}
	return h.El("section", nodes...)
}

// list is a list of sentences.
func list(class string, lines []string) h.Node {
	nodes := h.Group{}
	if class != "" {
		nodes = append(nodes, attr("class", class))
	}
	return h.El("ul", append(nodes, h.Map(lines, func(line string) h.Node { return h.El("li", h.Text(line)) })...)...)
}
