//go:build browser

package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// View is how somebody sees a page. The zero View is a light window of 1440 x 900 pixels.
type View struct {
	// Width and Height are the window's, in CSS pixels (default 1440 x 900).
	Width, Height int
	// Dark prefers dark colours, Still prefers less motion, and Paper lays out for print.
	Dark, Still, Paper bool
	// Offline has no network, and NoScript runs no script of the page.
	Offline, NoScript bool
}

// Page is an open page. It closes with its test.
type Page struct {
	t      testing.TB
	ctx    context.Context
	faults faults
	height int
}

// Open opens an address, such as file:///tmp/plan.html, and waits until it is loaded.
func (b *Browser) Open(t testing.TB, address string, v View) *Page {
	t.Helper()
	if v.Width == 0 {
		v.Width = 1440
	}
	if v.Height == 0 {
		v.Height = 900
	}
	ctx, end := chromedp.NewContext(b.ctx)
	t.Cleanup(end)
	p := &Page{t: t, ctx: ctx, height: v.Height}
	chromedp.ListenTarget(ctx, p.faults.event)
	t.Cleanup(func() {
		for _, fault := range p.faults.unexpected() {
			t.Errorf("%s: %s", address, fault)
		}
	})
	p.run("open "+address, append(v.actions(), network.Enable(), log.Enable(), runtime.Enable(), chromedp.Navigate(address))...)
	return p
}

// actions are what makes Chromium show pages as the view says.
func (v View) actions() []chromedp.Action {
	preference := func(on bool, name, yes, no string) *emulation.MediaFeature {
		if on {
			return &emulation.MediaFeature{Name: name, Value: yes}
		}
		return &emulation.MediaFeature{Name: name, Value: no}
	}
	media := emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
		preference(v.Dark, "prefers-color-scheme", "dark", "light"),
		preference(v.Still, "prefers-reduced-motion", "reduce", "no-preference"),
	})
	if v.Paper {
		media = media.WithMedia("print")
	}
	actions := []chromedp.Action{
		chromedp.EmulateViewport(int64(v.Width), int64(v.Height)),
		emulation.SetTimezoneOverride("Etc/UTC"),
		emulation.SetLocaleOverride().WithLocale("en-US"),
		media,
		emulation.SetScriptExecutionDisabled(v.NoScript),
	}
	if v.Offline {
		none := []*network.Conditions{{DownloadThroughput: -1, UploadThroughput: -1}} // of all addresses
		actions = append(actions, network.Enable(), network.OverrideNetworkState(true, 0, -1, -1), chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := network.EmulateNetworkConditionsByRule(true, none).Do(ctx)
			return err
		}))
	}
	return actions
}

// run does what chromedp calls actions, and ends the test if one fails.
func (p *Page) run(what string, actions ...chromedp.Action) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	// The first run of a context creates the tab, which must outlive the timeout.
	if err := chromedp.Run(p.ctx); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
	// Chromium draws only the tab in front.
	if err := chromedp.Run(ctx, append([]chromedp.Action{cdppage.BringToFront()}, actions...)...); err != nil {
		p.t.Fatalf("%s: %v; faults of the page: %q", what, err, p.faults.unexpected())
	}
}

// Value evaluates a JavaScript expression, waits for its promise if it is one, and decodes its
// JSON into value.
func (p *Page) Value(expression string, value any) {
	p.t.Helper()
	var text string
	p.run(expression, chromedp.Evaluate("Promise.resolve("+expression+").then(v => JSON.stringify(v === undefined ? null : v))", &text,
		func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	if err := json.Unmarshal([]byte(text), value); err != nil {
		p.t.Fatalf("%s: got %q: %v", expression, text, err)
	}
}

// Text evaluates a JavaScript expression that is a string.
func (p *Page) Text(expression string) string {
	p.t.Helper()
	var s string
	p.Value(expression, &s)
	return s
}

// Is evaluates a JavaScript expression, or what it promises, as a condition.
func (p *Page) Is(condition string) bool {
	p.t.Helper()
	var is bool
	p.Value("Promise.resolve("+condition+").then(v => !!v)", &is)
	return is
}

// Want fails the test if a condition in JavaScript does not become true; it waits for it, and gives up
// after patience.
func (p *Page) Want(condition string) {
	p.t.Helper()
	for end := time.Now().Add(patience); !p.Is(condition); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Errorf("got no %s", condition)
			return
		}
	}
}

// Click scrolls to the first visible element of a CSS selector and clicks in its middle with the
// mouse.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.run("click "+selector, chromedp.Click(selector, chromedp.ByQuery, chromedp.NodeVisible))
}

// Focus gives the keyboard to an element.
func (p *Page) Focus(selector string) {
	p.t.Helper()
	p.run("focus "+selector, chromedp.Focus(selector, chromedp.ByQuery))
}

// Press types keys where the focus is: text, or keys of package kb of chromedp.
func (p *Page) Press(keys string) {
	p.t.Helper()
	p.run("press "+keys, chromedp.KeyEvent(keys))
}

// Fill writes text into a field, in place of what it holds, as typing does.
func (p *Page) Fill(selector, text string) {
	p.t.Helper()
	p.Focus(selector)
	p.run("select "+selector, chromedp.Evaluate("document.activeElement.select && document.activeElement.select()", nil))
	if text == "" {
		p.Press("\b")
		return
	}
	p.Press(text)
}

// Choose selects an option of a select element by its value, and tells the page.
func (p *Page) Choose(selector, value string) {
	p.t.Helper()
	p.Value(fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.value = %q; e.dispatchEvent(new Event("input", {bubbles: true})); e.dispatchEvent(new Event("change", {bubbles: true})); return e.value === %q })()`, selector, value, value), new(bool))
}

// Print returns the page as a PDF file.
func (p *Page) Print() []byte {
	p.t.Helper()
	var pdf []byte
	p.run("print", chromedp.ActionFunc(func(ctx context.Context) error {
		var err error
		pdf, _, err = cdppage.PrintToPDF().WithPrintBackground(true).Do(ctx)
		return err
	}))
	return pdf
}

// Picture returns what the page shows from its top, at most height CSS pixels of it.
func (p *Page) Picture(height int) image.Image {
	p.t.Helper()
	var width, whole float64
	p.Value("document.documentElement.clientWidth", &width)
	p.Value("Math.ceil(document.documentElement.getBoundingClientRect().height)", &whole)
	var b []byte
	p.run("screenshot", chromedp.ActionFunc(func(ctx context.Context) error {
		var err error
		b, err = cdppage.CaptureScreenshot().WithCaptureBeyondViewport(true).
			WithClip(&cdppage.Viewport{Width: width, Height: min(whole, float64(height)), Scale: 1}).Do(ctx)
		return err
	}))
	picture, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		p.t.Fatal(err)
	}
	return picture
}

// Requests returns the addresses that the page asked for, in their order.
func (p *Page) Requests() []string { return p.faults.requested() }

// Expect lets the page have faults that contain a text.
func (p *Page) Expect(text string) { p.faults.expect(text) }

// Faults returns the faults so far that the test does not expect.
func (p *Page) Faults() []string { return p.faults.unexpected() }
