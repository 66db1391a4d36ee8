package page

import (
	"fmt"
	"strings"

	h "maragu.dev/gomponents"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/unit"
)

// memory.go draws the memory of one device over a step, a column for each phase:
//
//	80 GiB - - - - - - - - - - -   all of the device's memory
//	68 GiB - - - - - - - - - - -   the same less the reserve
//	       +---+ +---+ +---+ +---+ +---+
//	       |   | |   | |   | |   | |   |  the lines of problem.Memory, in the colours of page.css
//	       +---+ +---+ +---+ +---+ +---+
//
// Places across are shares of the width and places down are pixels, so that letters keep their size
// at any width.

// Places of the picture: pixels down, percent across.
const (
	memoryTop, memoryFoot   = 24., 324. // of the columns
	memoryLeft, memoryPitch = 17., 16.8 // of the first column, and from one to the next
	memoryWide              = 15.6      // a column
	memoryRow               = 20        // height of a row of the key
	memoryLetters           = 14.       // height of a part that has room for its bytes
)

// memory returns an SVG of the fullest device's memory; empty if there is nothing to tell phases apart.
func (b *builder) memory() string {
	if b.in.Problem == nil || b.in.Problem.Accounting != problem.CountAll || len(b.plan.Devices) == 0 {
		return ""
	}
	topology, device := b.plan.Cluster.Topology(), 0
	filled := func(d int) float64 { // of its own memory, as page.js has it
		return float64(b.plan.Devices[d].Memory.Used()) / float64(max(1, topology.Usable(d)))
	}
	for d := range b.plan.Devices {
		if filled(d) > filled(device) {
			device = d
		}
	}
	p := memoryPicture{
		step: b.plan.StepMemory(b.in.Problem)[device], device: device,
		usable: topology.Usable(device), all: topology.DeviceMemory(device),
	}
	var text strings.Builder
	if err := p.draw().Render(&text); err != nil {
		panic(err) // a builder takes every byte
	}
	return text.String()
}

// memoryPicture is what the picture shows.
type memoryPicture struct {
	step        problem.StepMemory
	device      int
	usable, all unit.Bytes
	end         unit.Bytes // of the axis
}

// draw returns the picture.
func (p *memoryPicture) draw() h.Node {
	fullest, peak := p.step.Peak()
	// Like page.js: without the device's memory if little of it is in use.
	if p.end = p.all; peak.Used() < p.usable/5 {
		p.end = peak.Used()
	}
	p.end += p.end / 50
	nodes := h.Group{
		attr("xmlns", "http://www.w3.org/2000/svg"), attr("width", "100%"), attr("role", "img"),
		attr("font-size", "12"), attr("font-family", "var(--font)"),
	}
	words := fmt.Sprintf("Memory of device %d over a step. Of %v, %v are reserve.", p.device, p.all, p.all-p.usable)
	marks := p.axis()
	for _, of := range []unit.Bytes{p.usable, p.all} {
		if of <= p.end {
			marks = append(marks, line(p.y(of), percent(memoryLeft-1), "100%", stroke(of == p.all)...))
		}
	}
	for f := range p.step {
		column, said := p.column(problem.Phase(f), problem.Phase(f) == fullest)
		marks, words = append(marks, column...), words+" "+said
	}
	key, height := p.key()
	nodes = append(nodes, attr("height", fmt.Sprint(height)), attr("aria-label", words))
	return h.El("svg", append(append(nodes, marks...), key...)...)
}

// y returns the place of a number of bytes.
func (p *memoryPicture) y(bytes unit.Bytes) float64 {
	return memoryFoot - float64(bytes)/float64(max(1, p.end))*(memoryFoot-memoryTop)
}

// axis returns the axis of bytes: at most five lines at round numbers.
func (p *memoryPicture) axis() (nodes h.Group) {
	size := unit.Bytes(1)
	for size <= p.end/2048 {
		size *= 1024
	}
	step := size
	for i := 0; p.end/step > 5; i++ {
		step = size * []unit.Bytes{2, 5, 10, 20, 50, 100, 200, 500, 1000}[i]
	}
	for at := unit.Bytes(0); at <= p.end; at += step {
		nodes = append(nodes, line(p.y(at), "0", "100%", attr("stroke", "var(--line)")), label("0", p.y(at)-3, "var(--muted)", at.String()))
	}
	return nodes
}

// column returns the stacked lines of a phase, and the same in words.
func (p *memoryPicture) column(f problem.Phase, fullest bool) (nodes h.Group, words string) {
	x := memoryLeft + memoryPitch*float64(f)
	middle, centre := percent(x+memoryWide/2), attr("text-anchor", "middle")
	m, from := p.step[f], unit.Bytes(0)
	var parts []string
	for i, of := range report.MemoryLines() {
		bytes := of.Of(&m)
		if bytes == 0 {
			continue
		}
		said := fmt.Sprintf("%s %v", of.Name, bytes)
		top, height := p.y(from+bytes), p.y(from)-p.y(from+bytes)
		nodes = append(nodes, h.El("rect", attr("x", percent(x)), attr("y", px(top)), attr("width", percent(memoryWide)), attr("height", px(height)),
			attr("fill", colour(i)), attr("stroke", "var(--surface)"), attr("stroke-width", "0.5"), h.El("title", h.Text(f.Words()+": "+said))))
		if height >= memoryLetters {
			nodes = append(nodes, label(middle, top+height/2+4, "#10151c", bytes.String(), centre, attr("font-size", "11"), attr("pointer-events", "none")))
		}
		from, parts = from+bytes, append(parts, said)
	}
	weight := attr("font-weight", "400")
	if fullest {
		weight = attr("font-weight", "700")
	}
	nodes = append(nodes, label(middle, p.y(from)-5, "var(--text)", from.String(), centre, weight,
		attr("stroke", "var(--surface)"), attr("stroke-width", "3"), attr("paint-order", "stroke")))
	for i, word := range strings.Fields(f.Words()) {
		nodes = append(nodes, label(middle, memoryFoot+16+14*float64(i), "var(--text)", word, centre, weight))
	}
	return nodes, fmt.Sprintf("In the %s %v: %s.", f.Words(), from, strings.Join(parts, ", "))
}

// key returns the names of the colours and lines, two in a row, and the height of the picture.
func (p *memoryPicture) key() (nodes h.Group, height int) {
	n, top, beside := 0, int(memoryFoot)+56, attr("dx", "26")
	place := func() (x, y float64) {
		x, y = 50*float64(n%2), float64(top+n/2*memoryRow)
		n++
		return x, y
	}
	for i, of := range report.MemoryLines() {
		most := unit.Bytes(0)
		for f := range p.step {
			most = max(most, of.Of(&p.step[f]))
		}
		if most > 0 {
			x, y := place()
			nodes = append(nodes, h.El("rect", attr("x", percent(x)), attr("y", px(y-10)), attr("width", "18"), attr("height", "12"), attr("fill", colour(i))),
				label(percent(x), y, "var(--text)", of.Name, beside))
		}
	}
	for n%2 > 0 {
		place()
	}
	for _, of := range []struct {
		bytes unit.Bytes
		name  string
	}{{p.all, "the device's memory, %v"}, {p.usable, "the same less the reserve, %v"}} {
		_, y := place()
		place()
		nodes = append(nodes, line(y-4, "0", "18", stroke(of.bytes == p.all)...), label("0", y, "var(--text)", fmt.Sprintf(of.name, of.bytes), beside))
	}
	return nodes, top + n/2*memoryRow
}

// stroke returns how the line of a device's memory is drawn: of all of it, or less the reserve.
func stroke(all bool) []h.Node {
	dashes := "6 4"
	if all {
		dashes = "none"
	}
	return []h.Node{attr("stroke", "var(--critical)"), attr("stroke-width", "2"), attr("stroke-dasharray", dashes)}
}

// line returns a line across.
func line(y float64, from, to string, more ...h.Node) h.Node {
	return h.El("line", append(more, attr("x1", from), attr("x2", to), attr("y1", px(y)), attr("y2", px(y)))...)
}

// label returns a text.
func label(x string, y float64, fill, text string, more ...h.Node) h.Node {
	return h.El("text", append(more, attr("x", x), attr("y", px(y)), attr("fill", fill), h.Text(text))...)
}

// colour is that of line i in the chart of the devices' memory.
func colour(i int) string { return fmt.Sprintf("var(--c-%d)", i+1) }

func percent(share float64) string { return fmt.Sprintf("%.4g%%", share) }

// px rounds a place to tenths of a pixel.
func px(v float64) string { return fmt.Sprintf("%.1f", v) }
