//go:build browser

package browser_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/browser"
	"github.com/neuroshard/neuroshard/internal/must"
)

// serve serves one page, and answers 404 for all else.
func serve(t *testing.T, policy, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		if policy != "" {
			w.Header().Set("Content-Security-Policy", policy)
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, `<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>test</title><main><h1>Test</h1>`+body+`</main>`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestFaults opens pages with a fault each, and one without.
func TestFaults(t *testing.T) {
	b := browser.Start(t)
	for _, c := range []struct{ name, policy, body, want string }{
		{"none", "", `<p>text</p><script>console.log("said")</script>`, ""},
		{"exception", "", `<script>throw new Error("lost")</script>`, "lost"},
		{"rejection", "", `<script>Promise.reject(new Error("refused"))</script>`, "refused"},
		{"console", "", `<script>console.error("wrong", 3)</script>`, `"wrong" 3`},
		{"missing", "", `<img alt="" src="/missing.png">`, "404"},
		{"unreachable", "", `<img alt="" src="http://127.0.0.1:1/a.png">`, "127.0.0.1:1"},
		{"policy", "script-src 'none'", `<script>document.title = "ran"</script>`, "Content Security Policy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := b.Open(t, serve(t, c.policy, c.body), browser.View{})
			if c.want == "" {
				if got := p.Faults(); len(got) > 0 {
					t.Errorf("got %q, want no fault", got)
				}
				return
			}
			p.Value("new Promise(done => setTimeout(done, 50))", new(any))
			got := strings.Join(p.Faults(), "\n")
			if !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q in it", got, c.want)
			}
			p.Expect("")
			if got := p.Faults(); len(got) > 0 {
				t.Errorf("got %q, want them expected", got)
			}
		})
	}
}

// TestViews asks a page how somebody sees it.
func TestViews(t *testing.T) {
	b := browser.Start(t)
	address := serve(t, "", `<p id="p">no script</p><script>document.getElementById("p").textContent = "script"</script>`)
	const matches = `["(prefers-color-scheme: dark)", "(prefers-reduced-motion: reduce)", "print"].map(q => matchMedia(q).matches).join() + " " + innerWidth + " " + document.getElementById("p").textContent`
	for _, c := range []struct {
		view browser.View
		want string
	}{
		{browser.View{}, "false,false,false 1440 script"},
		{browser.View{Dark: true, Width: 390}, "true,false,false 390 script"},
		{browser.View{Still: true, Width: 900}, "false,true,false 900 script"},
		{browser.View{Paper: true}, "false,false,true 1440 script"},
		{browser.View{NoScript: true}, "false,false,false 1440 no script"},
	} {
		if got := b.Open(t, address, c.view).Text(matches); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.view, got, c.want)
		}
	}
	p := b.Open(t, "file://"+file(t, `<!doctype html><title>file</title><p>text<img alt="" src="`+address+`">`), browser.View{Offline: true})
	p.Expect("ERR_INTERNET_DISCONNECTED")
	if got := p.Text(`String(navigator.onLine)`); got != "false" || len(p.Requests()) != 2 {
		t.Errorf("offline: got %s and requests %q, want false and two", got, p.Requests())
	}
}

// TestHands clicks, types, chooses and prints.
func TestHands(t *testing.T) {
	b := browser.Start(t)
	p := b.Open(t, serve(t, "", `
		<button id="b" onclick="this.textContent = 'clicked'">Click</button>
		<label>Name <input id="i" value="old"></label>
		<label>Kind <select id="s" onchange="document.title = this.value"><option>a<option>b</select></label>`), browser.View{})
	p.Click("#b")
	p.Want(`document.getElementById("b").textContent === "clicked"`)
	p.Fill("#i", "new")
	p.Want(`document.getElementById("i").value === "new"`)
	p.Choose("#s", "b")
	p.Want(`document.title === "b"`)
	p.Focus("#b")
	p.Press("\t")
	p.Want(`document.activeElement.id === "i"`)
	if pdf := p.Print(); !strings.HasPrefix(string(pdf), "%PDF-") {
		t.Errorf("got %.20q, want a PDF", pdf)
	}
	if size := p.Picture(100).Bounds().Size(); size.X != 1440 || size.Y > 100 {
		t.Errorf("got a picture of %v, want 1440 x at most 100", size)
	}
	if got := p.Requests(); len(got) != 1 {
		t.Errorf("got requests %q, want the page alone", got)
	}
}

// TestViolations has axe-core find a button without a name.
func TestViolations(t *testing.T) {
	b := browser.Start(t)
	if got := b.Open(t, serve(t, "", `<button>Name</button>`), browser.View{}).Violations(); got != nil {
		t.Errorf("got %q, want none", got)
	}
	got := b.Open(t, serve(t, "script-src 'none'", `<button></button>`), browser.View{}).Violations()
	if len(got) != 1 || !strings.Contains(got[0], "button-name (critical)") {
		t.Errorf("got %q, want the button's name to be missing", got)
	}
}

// file writes a file and returns its path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
