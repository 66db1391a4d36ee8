//go:build browser

package page_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/neuroshard/neuroshard/internal/browser"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/report/page"
)

// stored reads a document of testdata. golden/dlrm.json is what the page of these commands
// holds:
//
//	neuroshard plan workload:dlrm-datasets-80x8 --set baselines=false -o a.json
//	neuroshard show a.json -o a.html
func stored(t *testing.T, name string) *page.Document {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
	d := new(page.Document)
	must.Do(t, json.Unmarshal(text, d))
	if d.Title == "" {
		d.Title = name
	}
	return d
}

// onDisk writes the document's page into a file, and returns its address.
func onDisk(t *testing.T, d *page.Document) string {
	t.Helper()
	f := must.Get(os.Create(filepath.Join(t.TempDir(), "plan.html")))(t)
	must.Do(t, page.Write(f, d))
	must.Do(t, f.Close())
	return "file://" + f.Name()
}

// alone wants that the page asked for nothing but itself.
func alone(t *testing.T, p *browser.Page) {
	t.Helper()
	for _, address := range p.Requests()[1:] {
		if !strings.HasPrefix(address, "data:") && !strings.HasPrefix(address, "blob:") {
			t.Errorf("the page asked for %s", address)
		}
	}
}

// fits wants that the page is not wider than the window.
func fits(t *testing.T, p *browser.Page) {
	t.Helper()
	if wide := p.Text(`String(document.documentElement.scrollWidth - innerWidth)`); !strings.HasPrefix(wide, "-") && wide != "0" {
		t.Errorf("the page is %s px wider than the window", wide)
	}
}

// Every document opens without a fault at three widths, light and dark, without a network, and
// axe-core finds nothing.
func TestPagesInABrowser(t *testing.T) {
	b := browser.Start(t)
	files := must.Get(filepath.Glob("testdata/*.json"))(t)
	names := []string{"golden/dlrm.json"}
	for _, f := range files {
		names = append(names, filepath.Base(f))
	}
	for _, name := range names {
		address := onDisk(t, stored(t, name))
		for _, width := range []int{390, 900, 1440} {
			for _, dark := range []bool{false, true} {
				if dark && width == 900 {
					continue // the colours of another width
				}
				t.Run(fmt.Sprintf("%s/%d/dark=%v", name, width, dark), func(t *testing.T) {
					p := b.Open(t, address, browser.View{Width: width, Dark: dark, Offline: true})
					fits(t, p)
					p.Axe()
					alone(t, p)
				})
			}
		}
	}
}

// selection is what a page shows as selected: the headings of its panels.
const selection = `[...document.querySelectorAll(".rail:not([hidden]) .panel h2")].map(e => e.textContent).join()`

// Tables and devices are selected with the mouse: tiles, cards, lists and charts.
func TestMouse(t *testing.T) {
	b := browser.Start(t)
	p := b.Open(t, onDisk(t, stored(t, "golden/dlrm.json")), browser.View{Height: 1600})
	p.Click(".tile:not(.type-many)")
	name := p.Text(selection)
	p.Want(`document.querySelectorAll(".tile.on").length > 0`)
	p.Want(`document.querySelector("[aria-live]").textContent.includes("is selected")`)
	p.Axe()
	p.Click(".rail .close")
	p.Want(selection + ` === ""`)
	p.Click(".card-name")
	p.Want(selection + `.startsWith("Device ")`)
	p.Click(".rail .close")
	p.Click(".section-tables tbody .link")
	p.Want(selection + ` !== ""`)
	p.Want(`document.querySelector(".section-tables tr.selected") !== null`)
	p.Click(".rail .close")
	// A bar of the timeline.
	p.Click(".section-step .row .track")
	p.Want(selection + `.startsWith("Device ")`)
	// The search box.
	p.Fill(".search input", name)
	p.Press("\r")
	p.Want(fmt.Sprintf(`%s.includes(%q)`, selection, name))
}

// The same works without a mouse.
func TestKeyboard(t *testing.T) {
	b := browser.Start(t)
	p := b.Open(t, onDisk(t, stored(t, "golden/dlrm.json")), browser.View{Height: 1600, Still: true})
	p.Press("\t")
	p.Want(`document.activeElement.className === "skip"`)
	p.Press("\r")
	p.Want(`document.activeElement.tagName === "MAIN"`)
	// Tab goes to one tile, arrow keys to the others, Enter selects.
	p.Focus(`.tile[tabindex="0"]`)
	p.Press(kb.ArrowRight)
	p.Press(kb.ArrowDown)
	p.Want(`document.activeElement.classList.contains("tile") && document.activeElement.tabIndex === 0 && document.querySelectorAll('.tile[tabindex="0"]').length === 1`)
	p.Want(`document.activeElement.title !== ""`)
	p.Press(kb.Home)
	p.Press("\r")
	p.Want(selection + ` !== ""`)
	p.Press("\r")
	p.Want(selection + ` === ""`)
	// The search box.
	p.Focus(".search input")
	p.Press("device 3\r")
	p.Want(selection + ` === "Device 3"`)
	// Everything that a mouse can click can have the focus.
	p.Want(`[...document.querySelectorAll("button, select, input, summary, a")].every(e => e.tabIndex >= 0 || e.classList.contains("tile"))`)
	// The focus can be seen.
	p.Focus(".section-tables .sort")
	p.Press("\t")
	p.Want(`getComputedStyle(document.activeElement).outlineStyle !== "none"`)
	// A table is sorted by its head.
	p.Focus(".section-tables .sort")
	p.Press(" ")
	p.Want(`document.querySelector(".section-tables th").getAttribute("aria-sort") === "ascending"`)
	p.Press(" ")
	p.Want(`document.querySelector(".section-tables th").getAttribute("aria-sort") === "descending"`)
}

// The controls of the devices change what the picture shows.
func TestControls(t *testing.T) {
	b := browser.Start(t)
	pl, prob := large(300, 64)
	in := page.Input{Name: "plan.json", Plan: pl, Problem: prob, Result: judged(pl)}
	p := b.Open(t, onDisk(t, one(t, in)), browser.View{})
	field := func(title string) string {
		t.Helper()
		id := strings.ReplaceAll(title, " ", "-")
		p.Want(fmt.Sprintf(`[...document.querySelectorAll(".section-placement label.field")].filter(l => l.textContent.startsWith(%q)).map(l => l.querySelector("select").id = %q).length === 1`, title, id))
		return "#" + id
	}
	const cards = `[...document.querySelectorAll(".card-title")].map(e => e.firstChild.textContent).join()`
	const values = `[...document.querySelectorAll(".card-value")].map(e => e.textContent).join()`
	first := p.Text(cards)
	if got := strings.Count(first, "Device"); got != 32 {
		t.Errorf("got %d cards, want 32", got)
	}
	before := p.Text(values)
	p.Want(`document.querySelectorAll(".tile").length > 32`)
	if p.Is(`[...document.querySelectorAll("label.field")].some(l => l.textContent.startsWith("Area of a tile"))`) {
		p.Choose(field("Area of a tile"), "bytes")
		p.Want(fmt.Sprintf(`%s !== %q`, values, before))
		p.Want(values + `.includes("iB")`)
	} else {
		t.Errorf("got no choice of the area")
	}
	p.Click(".section-placement .pager button:last-of-type")
	p.Want(cards + `.startsWith("Device 32,")`)
	p.Choose(field("Show"), "host")
	p.Want(cards + `.startsWith("Host 0,Host 1,")`)
	p.Choose(field("Show"), "device")
	p.Choose(field("At once"), "8")
	p.Want(cards + `.split(",").length === 8`)
	p.Choose(field("Order"), "memory")
	p.Want(fmt.Sprintf(`!%q.startsWith(%s)`, first, cards))
	p.Choose(field("Order"), "number")
	p.Want(fmt.Sprintf(`%q.startsWith(%s)`, first, cards))
	p.Axe()
}

// Each device is drawn, ordered and labelled against its own memory, where memories differ.
func TestUnevenMemory(t *testing.T) {
	b := browser.Start(t)
	p := b.Open(t, onDisk(t, stored(t, "uneven.json")), browser.View{Height: 1600})
	const charts = `[...document.querySelectorAll(".section-memory .chart:has(.bars)")]`
	p.Want(charts + `[0].querySelector(".note").textContent === "Tables may take 13.6 MiB to 54.4 MiB of each device's memory. Device 3 is the fullest and uses 45 %."`)
	p.Want(charts + `[1].querySelector(".note").textContent.startsWith("Tables may take 512 KiB to 1.00 MiB of host memory for each device.")`)
	// The fullest device over a step, in the colours of the bars.
	p.Want(`document.querySelector(".section-memory svg[role=img]").getAttribute("aria-label").startsWith("Memory of device 3 over a step. Of 16.0 MiB, 2.40 MiB are reserve. In the forward exchange ")`)
	p.Want(`getComputedStyle(document.querySelector(".section-memory svg rect")).fill === getComputedStyle(document.querySelector(".section-memory .look-1")).backgroundColor`)
	// One mark in each row, where the device's capacity is: those of 48, 64, 32 and 16 MiB.
	const marks = `.map(c => [...c.querySelectorAll(".mark-line")].map(e => e.getBoundingClientRect().left))`
	p.Want(`(([a, b]) => a.length === 4 && b.length === 4 && a[1] > a[0] && a[0] > a[2] && a[2] > a[3]
		&& Math.abs((a[1] - a[3]) - 3 * (a[2] - a[3])) < 2 && b[0] === b[1] && b[2] > b[1] && b[2] === b[3])(` + charts + marks + `)`)
	p.Want(charts + `[0].textContent.includes("Device 3, 13.6 MiB")`)
	// The data beside the chart: the last columns are what the device has and what is free of it.
	p.Click(`.section-memory .chart details.data summary`)
	p.Want(`[...document.querySelectorAll(".section-memory .chart tbody tr")].map(r => [...r.children].slice(-3).map(c => c.textContent).join("/")).join() ===
		"7.66 MiB/40.8 MiB/33.1 MiB,5.18 MiB/54.4 MiB/49.2 MiB,5.81 MiB/27.2 MiB/21.4 MiB,6.07 MiB/13.6 MiB/7.53 MiB"`)
	// The panel of a device, and the order.
	p.Fill(".search input", "device 3")
	p.Press("\r")
	p.Want(`[...document.querySelectorAll(".rail dd")].some(e => e.textContent === "6.07 MiB, 45 % of 13.6 MiB")`)
	p.Fill(".search input", "device 2")
	p.Press("\r")
	p.Want(`[...document.querySelectorAll(".rail dd")].some(e => e.textContent.endsWith(" of 1.00 MiB"))`)
	p.Value(`(() => { const s = [...document.querySelectorAll(".section-placement label.field")].find(l => l.textContent.startsWith("Order")).querySelector("select"); s.id = "order"; return 0 })()`, new(int))
	p.Choose("#order", "memory")
	p.Want(`[...document.querySelectorAll(".card-title")].map(e => e.firstChild.textContent).join() === "Device 3,Device 2,Device 0,Device 1"`)
	p.Axe()
}

// Plans of other planners stand among the baselines, with the reasons why some are not valid.
func TestComparedPlans(t *testing.T) {
	b := browser.Start(t)
	p := b.Open(t, onDisk(t, stored(t, "compared.json")), browser.View{Height: 1600})
	p.Want(`[...document.querySelectorAll(".section-baselines tbody tr")].map(r => [...r.children].map(c => c.textContent).join("/")).join() ===
		"this plan/2.25 ms/2.27 ms/–/–,size/5.00 ms/5.50 ms/–/–,lookup/–/–/–/yes,torchrec/6.00 ms/6.50 ms/1,300 ms/–,hugectr/4.00 ms/4.50 ms/–/device 0: it is full,mine/–/–/20.0 ms/no plan <b>fits</b>"`)
	p.Axe()
}

// Lists of tables sort, filter and turn pages, and charts show their data as tables.
func TestLists(t *testing.T) {
	b := browser.Start(t)
	d := stored(t, "golden/dlrm.json")
	p := b.Open(t, onDisk(t, d), browser.View{})
	const names = `[...document.querySelectorAll(".section-tables tbody th")].map(e => e.textContent)`
	status := `document.querySelector(".section-tables .status").textContent`
	p.Want(status + ` === "1–20 of 80"`)
	p.Click(".section-tables .sort")
	sorted := slices.Clone(d.Plans[0].Tables.Name)
	slices.Sort(sorted)
	p.Want(fmt.Sprintf(`%s[0] === %q`, names, sorted[0]))
	p.Click(".section-tables .pager button:last-of-type")
	p.Want(status + ` === "21–40 of 80"`)
	p.Click(".section-tables .pager button:first-of-type")
	p.Want(status + ` === "1–20 of 80"`)
	p.Fill(".section-tables input[type=search]", sorted[5])
	p.Want(status + `.endsWith("(of 80)")`)
	p.Want(fmt.Sprintf(`%s.includes(%q)`, names, sorted[5]))
	p.Fill(".section-tables input[type=search]", "no such table")
	p.Want(status + ` === "0 (of 80)"`)
	p.Fill(".section-tables input[type=search]", "")
	p.Want(status + ` === "1–20 of 80"`)
	p.Click(".section-step details.data summary")
	p.Want(`document.querySelectorAll(".section-step details.data tbody tr").length >= 8`)
}

// The page is dark where the reader's system is.
func TestTheme(t *testing.T) {
	b := browser.Start(t)
	const back = `getComputedStyle(document.body).backgroundColor + getComputedStyle(document.querySelector(".section-step .look-forward")).backgroundColor`
	address := onDisk(t, stored(t, "golden/dlrm.json"))
	light := b.Open(t, address, browser.View{}).Text(back)
	if dark := b.Open(t, address, browser.View{Dark: true}).Text(back); dark == light {
		t.Errorf("got %s, light and dark", light)
	}
}

// Two plans stand side by side, with what changes.
func TestTwoPlans(t *testing.T) {
	b := browser.Start(t)
	p := b.Open(t, onDisk(t, stored(t, "two.json")), browser.View{})
	p.Want(`[...document.querySelectorAll(".section-placement h3")].map(e => e.textContent).join() === "Before: before.json,After: after.json"`)
	p.Want(`document.querySelector(".section-changes tbody tr") !== null`)
	p.Click(".section-changes tbody .link")
	p.Want(selection + ` !== ""`)
	p.Want(`document.querySelectorAll(".half:first-child .tile.on").length > 0 && document.querySelectorAll(".half:last-child .tile.on").length > 0`)
	p.Want(`[...document.querySelectorAll(".rail .note")].map(e => e.textContent).join() === "Before: before.json,After: after.json"`)
	p.Axe()
}

// A re-plan has its curve, and a sweep its plot with a choice of axes.
func TestReplanAndSweep(t *testing.T) {
	b := browser.Start(t)
	p := b.Open(t, onDisk(t, stored(t, "replan.json")), browser.View{})
	p.Want(`document.querySelector(".section-replan .points[role=img]").getAttribute("aria-label").includes("(chosen)")`)
	p.Want(`document.querySelector(".section-replan tr.selected").textContent.includes("(chosen)")`)

	p = b.Open(t, onDisk(t, stored(t, "sweep.json")), browser.View{})
	const plot = `document.querySelector(".section-sweep .points").outerHTML`
	before := p.Text(plot)
	p.Choose(".section-sweep .bar select", "0")
	p.Want(fmt.Sprintf(`%s !== %q`, plot, before))
	p.Click(".section-sweep th .sort")
	p.Want(`document.querySelector(".section-sweep th").getAttribute("aria-sort") !== "none"`)
}

// On paper the page is light, has no controls, and every chart.
func TestPaper(t *testing.T) {
	b := browser.Start(t)
	for _, name := range []string{"golden/dlrm.json", "two.json", "replan.json", "sweep.json"} {
		p := b.Open(t, onDisk(t, stored(t, name)), browser.View{Dark: true})
		pdf := p.Print()
		if len(pdf) < 20_000 {
			t.Errorf("%s: got a PDF of %d bytes, want charts in it", name, len(pdf))
		}
		p = b.Open(t, onDisk(t, stored(t, name)), browser.View{Paper: true, Width: 794})
		p.Want(`[...document.querySelectorAll("header.top nav, .pager button, input, select")].every(e => !e.checkVisibility())`)
		fits(t, p)
	}
}

// Without JavaScript the page says what it can.
func TestNoScript(t *testing.T) {
	b := browser.Start(t)
	d := stored(t, "golden/dlrm.json")
	p := b.Open(t, onDisk(t, d), browser.View{NoScript: true})
	text := p.Text(`document.body.innerText`)
	for _, want := range []string{"JavaScript", d.Plans[0].Report.Title, d.Plans[0].Report.Lines[0].Text, d.Plans[0].Warnings[0]} {
		if !strings.Contains(text, want) {
			t.Errorf("got %q, want %q in it", text, want)
		}
	}
	p = b.Open(t, onDisk(t, stored(t, "forms.json")), browser.View{NoScript: true})
	p.Want(`document.querySelector("main svg[role=img]").getBoundingClientRect().height > 300`)
}

// hostile are texts that become markup or code where they are not kept text.
var hostile = []string{
	`<img src=x onerror="window.ran=1">`, `<script>window.ran=1</script>`, `</script><script>window.ran=1</script>`,
	`"><svg onload=window.ran=1>`, `javascript:window.ran=1`, `{{constructor.constructor("window.ran=1")()}}`,
	`<!--`, `{critical|x}`, "line\u2028separator\x00\x7f", `';window.ran=1//`, `%3Cscript%3E`, `\u003cimg src=x onerror=window.ran=1\u003e`,
}

// Names of tables, plans and files stay text, wherever they are shown.
func TestHostileNames(t *testing.T) {
	b := browser.Start(t)
	prob := cluster(4, 2, hostile...)
	shards := make([][]problem.Shard, 4)
	for i := range hostile {
		shards[i%4] = append(shards[i%4], shard(prob, i, 0, 1))
	}
	plan := planOf(prob, shards)
	d := one(t, page.Input{Name: hostile[0], Plan: plan, Problem: prob, Result: judged(plan), Warnings: hostile, Missing: hostile})
	two := stored(t, "two.json")
	d.Plans = append(d.Plans, d.Plans[0])
	d.Changes = two.Changes
	var facts []report.Fact
	for _, name := range hostile {
		facts = append(facts, report.Fact{Name: name, Text: name})
	}
	d.Changes.Headline, d.Changes.Facts = report.Headline{Title: hostile[0], Lines: facts}, facts
	for i := range d.Changes.Tables {
		d.Changes.Tables[i].Name, d.Changes.Tables[i].What = hostile[i%len(hostile)], hostile[i%len(hostile)]
	}
	d.Replan, d.Sweep = stored(t, "replan.json").Replan, stored(t, "sweep.json").Sweep
	d.Replan.Verdict, d.Replan.Headline, d.Replan.Facts = replan.Verdict(hostile[0]), d.Changes.Headline, facts
	d.Sweep.Headline, d.Sweep.Facts = d.Changes.Headline, facts
	for i := range d.Replan.Curve {
		d.Replan.Curve[i].Label = hostile[i%len(hostile)]
	}
	d.Sweep.Name = hostile[1]
	for i := range d.Sweep.Cells {
		d.Sweep.Cells[i].Device = hostile[i%len(hostile)]
	}
	d.Title, d.Tool = hostile[2], hostile[3]
	p := b.Open(t, onDisk(t, d), browser.View{Height: 1600, Offline: true})
	for _, tile := range []string{".tile", ".section-tables .link", ".card-name"} {
		p.Click(tile)
	}
	p.Fill(".search input", "<img")
	p.Want(`document.querySelector("datalist option").value.includes("onerror")`)
	p.Want(`window.ran === undefined`)
	p.Want(`document.querySelectorAll(".ns img, .ns script, [onerror], [onload]").length === 0`)
	p.Want(fmt.Sprintf(`document.querySelector("h1").textContent === %q && document.title.includes("window.ran")`, hostile[2]))
	p.Want(fmt.Sprintf(`[...document.querySelectorAll(".warnings li")].some(e => e.textContent === %q)`, hostile[0]))
	p.Axe()
	alone(t, p)
}

// A plan of 10,000 tables on 1,024 devices opens, and answers.
func TestLargePlanInABrowser(t *testing.T) {
	b := browser.Start(t)
	pl, prob := large(10_000, 1024)
	address := onDisk(t, one(t, page.Input{Name: "plan.json", Plan: pl, Problem: prob, Result: judged(pl)}))
	start := time.Now()
	p := b.Open(t, address, browser.View{})
	p.Want(`document.querySelectorAll(".tile").length > 32`)
	t.Logf("opens in %v; the page itself measured %s ms until it was interactive", time.Since(start).Round(time.Millisecond),
		p.Text(`performance.getEntriesByType("navigation")[0].domInteractive.toFixed(0) + " to " + performance.getEntriesByType("navigation")[0].loadEventEnd.toFixed(0)`))
	start = time.Now()
	p.Fill(".search input", "table_09999")
	p.Press("\r")
	p.Want(selection + ` === "table_09999"`)
	t.Logf("a table is found and selected in %v", time.Since(start).Round(time.Millisecond))
	p.Fill(".search input", "1023")
	p.Press("\r")
	p.Want(selection + `.includes("Device 1023")`)
	p.Want(`[...document.querySelectorAll(".card-title")].some(e => e.textContent.startsWith("Device 1023"))`)
	fits(t, p)
}

// The pictures in testdata/golden are how the page looks.
func TestPictures(t *testing.T) {
	b := browser.Start(t)
	for _, c := range []struct {
		name, document string
		view           browser.View
	}{
		{"plan-390", "golden/dlrm.json", browser.View{Width: 390}},
		{"plan-900", "golden/dlrm.json", browser.View{Width: 900}},
		{"plan-1440", "golden/dlrm.json", browser.View{Width: 1440}},
		{"plan-1440-dark", "golden/dlrm.json", browser.View{Width: 1440, Dark: true}},
		{"two-900", "two.json", browser.View{Width: 900}},
		{"forms-1440", "forms.json", browser.View{Width: 1440}},
		{"sweep-900", "sweep.json", browser.View{Width: 900}},
		{"replan-900", "replan.json", browser.View{Width: 900}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := b.Open(t, onDisk(t, stored(t, c.document)), c.view)
			p.Golden(c.name, 1600, *must.Update)
		})
	}
}

// Another document in the same root, as the live page draws it, keeps what the reader chose
// where the other document has it, and closing a panel gives the focus back.
func TestRenderAgain(t *testing.T) {
	p := browser.Start(t).Open(t, onDisk(t, stored(t, "forms.json")), browser.View{})
	p.Click(".tile")
	p.Want(`document.querySelector(".rail .panel") !== null`)
	const again = `(() => { const d = JSON.parse(document.getElementById("document").textContent); %s
		neuroshard.render(d, document.getElementById("page")); return 0; })()`
	p.Value(fmt.Sprintf(again, `d.title = "again";`), new(int))
	p.Want(`document.querySelector("h1").textContent === "again" && document.querySelector(".rail .panel") !== null && document.querySelectorAll("main").length === 1`)
	p.Focus(".card-name")
	p.Press(kb.Enter)
	p.Want(`document.querySelectorAll(".rail .panel").length === 2`)
	p.Focus(".rail .panel:last-child .close")
	p.Press(kb.Enter)
	p.Want(`document.querySelectorAll(".rail .panel").length === 1 && document.activeElement.matches(".card-name")`)
	p.Value(fmt.Sprintf(again, `d.plans[0].tables.name = d.plans[0].tables.name.map(n => "other " + n);`), new(int))
	p.Want(`document.querySelector(".rail").hidden`)
	p.Want(`(() => { try { neuroshard.render({format: "other"}, document.body); } catch (e) { return e.message.includes("format"); } })()`)
}

// TestReadmePicture compares the picture of the README with the page of the plan that it shows.
// To make the picture again:
//
//	RUN=TestReadmePicture .ci/browser -update
func TestReadmePicture(t *testing.T) {
	const path, workload = "../../docs/report.png", "workload:mlperf-dlrm-dcnv2"
	folder := t.TempDir()
	program := filepath.Join(folder, "neuroshard")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/neuroshard").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, args := range [][]string{
		{"plan", workload, "-o", "plan.json"},
		{"show", "plan.json", "--tables", workload, "-o", "plan.html"},
	} {
		command := exec.Command(program, args...)
		command.Dir = folder
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
	}
	p := browser.Start(t).Open(t, "file://"+filepath.Join(folder, "plan.html"), browser.View{Width: 1200, Still: true})
	// The tiles of a card add up to the device's busy time, with copies on all devices, too.
	p.Want(`(() => {
		const d = JSON.parse(document.getElementById("document").textContent).plans[0].devices;
		const busy = d.forward_ms.map((v, i) => v + d.forward_comm_ms[i] + d.backward_comm_ms[i] + d.backward_ms[i]);
		const shown = [...document.querySelectorAll(".card-value")].map(e => parseFloat(e.textContent));
		return shown.length === busy.length && busy.every((v, i) => Math.abs(shown[i] - v) < 0.006);
	})()`)
	got := p.Picture(1330)
	if *must.Update {
		var b bytes.Buffer
		must.Do(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, got))
		if b.Len() > 200_000 {
			t.Errorf("the picture has %d bytes, want at most 200,000", b.Len())
		}
		must.Do(t, os.WriteFile(path, b.Bytes(), 0o666))
		return
	}
	f := must.Get(os.Open(path))(t)
	defer f.Close()
	want := must.Get(png.Decode(f))(t)
	if d := browser.Compare(got, want); !d.Same() {
		t.Errorf("%s: %v: make it again", path, d)
	}
}
