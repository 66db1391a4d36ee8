//go:build browser

package service_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/browser"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/service"
)

// liveAt starts a service on a free port of the loopback, and returns the address of its page.
func liveAt(t *testing.T, opt service.Options) (*server, string) {
	t.Helper()
	s := start(t, opt)
	on := httptest.NewServer(s.Handler)
	t.Cleanup(on.Close)
	return s, on.URL + "/"
}

// wideTables are tables that take a search some time to place, as the text of a file.
func wideTables(n int) string {
	var b strings.Builder
	b.WriteString("name,rows,dim,pooling_factor\n")
	for i := range n {
		fmt.Fprintf(&b, "t%03d,%d,%d,%d\n", i, 20_000*(1+i*i%37), 32<<(i%3), 1+i*7%50)
	}
	return b.String()
}

// paste writes tables into the form, as pasting does.
func paste(t *testing.T, p *browser.Page, tables string) {
	t.Helper()
	p.Click(`.own-tables`)
	text := must.Get(json.Marshal(tables))(t)
	p.Want(`document.querySelector("textarea[name=tables]").checkVisibility()`)
	p.Value(fmt.Sprintf(`(() => { const e = document.querySelector("textarea[name=tables]"); e.value = %s; e.dispatchEvent(new Event("input", {bubbles: true})) })()`, text), new(any))
}

// named is the quick plan of a model with a name.
func named(s *server, name string) string {
	s.Helper()
	text := must.Get(json.Marshal(name))(s)
	return s.object(200, "POST", "/v1/plan", strings.Replace(quickBody, `"problem": {`, `"problem": {"name": `+string(text)+`, `, 1))["id"].(string)
}

// A job shows its progress, and is canceled by the keyboard.
func TestLiveCancel(t *testing.T) {
	b := browser.Start(t)
	_, address := liveAt(t, service.Options{Limits: patient})
	begin := func() *browser.Page {
		p := b.Open(t, address+"#/new", browser.View{})
		p.Want(`document.querySelector("input[name=devices]") !== null`)
		// The search must outlast the way to the button.
		paste(t, p, wideTables(4000))
		p.Fill("input[name=devices]", "256")
		p.Choose("select[name=device]", "a100-80")
		p.Click("button[type=submit]")
		p.Want(`document.querySelector(".progress button") !== null && document.querySelector("progress").getAttribute("aria-label") !== null`)
		return p
	}
	p := begin()
	p.Focus(".progress button")
	p.Press("\r")
	p.Want(`location.hash.startsWith("#/plans/") || document.querySelector("[role=alert]") !== null`)
	p = b.Open(t, address+"#/jobs", browser.View{})
	p.Want(`document.querySelectorAll("tbody tr").length >= 1 && document.querySelector("tbody").textContent.includes("cancel")`)
	p.Axe()
	begin().Axe() // after the cancel, because it takes long
}

// Names stay text in every view.
func TestLiveHostileNames(t *testing.T) {
	b := browser.Start(t)
	s, address := liveAt(t, service.Options{})
	names := []string{`<img src=x onerror=window.ran=1>`, `"><script>window.ran=1</script>`, `javascript:window.ran=1`, `../../v1/jobs`, `a?b#c%2Fd&e`}
	for _, name := range names {
		named(s, name)
	}
	p := b.Open(t, address, browser.View{})
	p.Want(fmt.Sprintf(`document.querySelectorAll(".models th a").length === %d`, len(names)))
	for i := range names {
		p.Value(`location.hash = "#/"`, new(any))
		p.Want(fmt.Sprintf(`document.querySelectorAll(".models th a").length === %d`, len(names)))
		name := p.Text(fmt.Sprintf(`document.querySelectorAll(".models th a")[%d].textContent`, i))
		p.Value(fmt.Sprintf(`document.querySelectorAll(".models th a")[%d].click()`, i), new(any))
		p.Want(fmt.Sprintf(`document.querySelector("h1").textContent === %q && document.querySelectorAll("tbody tr").length === 1`, name))
	}
	p.Click("tbody a")
	p.Want(`document.querySelectorAll(".tile").length > 0`)
	p.Want(`window.ran === undefined && document.querySelectorAll("#page img").length === 0`)
}

// The views at three widths, light and dark: nothing wider than the window, no violation, and
// the golden pictures.
func TestLivePictures(t *testing.T) {
	b := browser.Start(t)
	s, address := liveAt(t, service.Options{})
	id := named(s, "ranking")
	for _, c := range []struct{ name, hash string }{{"new", "#/new"}, {"plan", "#/plans/" + id}} {
		for _, width := range []int{390, 900, 1440} {
			for _, dark := range []bool{false, true} {
				p := b.Open(t, address+c.hash, browser.View{Width: width, Dark: dark, Still: true})
				p.Want(`document.querySelector("input[name=devices]") !== null`)
				p.Want(`document.fonts.ready.then(() => true)`)
				if wide := p.Text(`String(Math.max(0, document.documentElement.scrollWidth - innerWidth))`); wide != "0" {
					t.Errorf("%s at %d: the page is %s px wider than the window", c.name, width, wide)
				}
				p.Axe()
				if !dark {
					p.Golden(fmt.Sprintf("live-%s-%d", c.name, width), 1000, *must.Update)
				}
			}
		}
	}
}
