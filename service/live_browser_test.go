//go:build browser

package service_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/neuroshard/neuroshard/internal/browser"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/service"
)

// live starts a service that has a plan of the model "ranking". It returns the service's address and
// the id of the plan.
func live(t *testing.T, opt service.Options) (url, id string) {
	t.Helper()
	s := start(t, opt)
	web := httptest.NewServer(s.Handler)
	t.Cleanup(web.Close)
	body := `{"problem": {"workload": "paper-d4_m64-0", "name": "ranking"}, "options": {"max_evaluations": 2000, "baselines": false}}`
	w := s.ask("POST", "/v1/plan", body, "Authorization", "Bearer "+opt.Token)
	if w.Code != 200 {
		t.Fatalf("got status %d: %s", w.Code, w.Body)
	}
	var made struct{ ID string }
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &made))
	return web.URL, made.ID
}

// shows is whether the page shows a text.
func shows(text string) string { return fmt.Sprintf("document.body.innerText.includes(%q)", text) }

// focused is whether an element of a CSS selector has the focus.
func focused(selector string) string {
	return fmt.Sprintf("document.activeElement.matches(%q)", selector)
}

// Every view opens without a fault in the console, and everybody can use it.
func TestLiveViewsInABrowser(t *testing.T) {
	url, id := live(t, service.Options{})
	b := browser.Start(t)
	for _, view := range []struct {
		browser.View
		name string
	}{{browser.View{}, "light"}, {browser.View{Width: 820, Dark: true}, "dark"}, {browser.View{Width: 390}, "narrow"}} {
		for _, c := range []struct{ route, want string }{
			{"", ".models table"},
			{"new", "form button[type=submit]"},
			{"jobs", "h1"},
			{"models/ranking", "table"},
			{"plans/" + id, ".whatif"},
			{"plans/" + id + "/replan", "form"},
			{"plans/" + id + "/sweep", "form"},
			{"plans/" + id + "/with/" + id, ".ns h1"},
			{"nowhere", "[role=alert]"},
		} {
			t.Run(view.name+" "+c.route, func(t *testing.T) {
				p := b.Open(t, url+"/#/"+c.route, view.View)
				p.Want(fmt.Sprintf("document.querySelector(%q) && !document.querySelector('#page[aria-busy]')", c.want))
				p.Want("document.documentElement.scrollWidth <= innerWidth")
				p.Axe()
			})
		}
	}
}

// Faults stand beside the fields that they concern, and the first has the focus. Right tables become a
// plan of the model.
func TestLiveFormInABrowser(t *testing.T) {
	url, _ := live(t, service.Options{})
	p := browser.Start(t).Open(t, url+"/#/new", browser.View{})
	p.Expect("422")
	p.Want("document.querySelector('form.form')")
	p.Click("fieldset input[type=radio]:not(:checked)")
	p.Click("form button[type=submit]")
	p.Want(focused("textarea[aria-invalid]"))
	// Of several faults of a field the first stands beside it, with its hint, and the others in the box.
	p.Fill("textarea", "name,rows,dim,pooling_factor\nuser,1000000,62,1\nitem,0,64,20\n")
	p.Click("form button[type=submit]")
	p.Want("document.querySelector('textarea').closest('.form-field').querySelector('.error')?.textContent.includes('dim 62')")
	p.Want("document.querySelector('textarea').closest('.form-field').querySelector('.error .note')")
	p.Want("document.querySelector('.refusal')?.textContent.includes('rows: 0')")
	p.Fill("textarea", "name,rows,dim,pooling_factor\nuser,1000000,64,1\nitem,5000000,126,20\n")
	p.Click("form button[type=submit]")
	p.Want(shows(`table "item": dim 126 is not a multiple of 4`))
	p.Want("document.querySelector('input[name=devices][aria-invalid]')")
	p.Want("document.querySelector('select[name=device][aria-invalid]')")
	p.Fill("textarea", "name,rows,dim,pooling_factor\n<b>user</b>,1000000,64,1\nitem,5000000,128,20\n")
	p.Fill("input[name=devices]", "4")
	p.Choose("select[name=device]", "a100-80")
	p.Fill("input[name=name]", "<i>two</i> / x")
	p.Click("form button[type=submit]")
	p.Want("document.querySelector('.whatif')")
	p.Want(focused("h1"))
	p.Want(shows("<i>two</i> / x"))
	p.Want("!document.querySelector('#page b, #page i')")
	p.Value("location.hash = '#/'", new(any))
	p.Want("[...document.querySelectorAll('.models a')].some(a => a.textContent === '<i>two</i> / x')")
	p.Value("[...document.querySelectorAll('.models a')].find(a => a.textContent === '<i>two</i> / x').click()", new(any))
	p.Want("document.querySelectorAll('tbody tr').length === 1")
}

// What-if draws the plan of the changed cluster, says old and new cost and what moves, and stands in
// the address; the stored plan comes back.
func TestLiveWhatIfInABrowser(t *testing.T) {
	url, id := live(t, service.Options{})
	b := browser.Start(t)
	p := b.Open(t, url+"/#/plans/"+id, browser.View{})
	p.Expect("422")
	settled := "&& !document.querySelector('[aria-busy]')"
	p.Want("document.querySelector('.whatif')" + settled)
	summary := p.Text("document.querySelector('.summary').textContent")
	// While it plans, the old numbers are pale.
	p.Want("document.querySelector('.live-page .summary')")
	p.Choose(".whatif select[name=device]", "h100-80")
	p.Want("document.querySelector('.whatif .verdict')" + settled)
	p.Want("document.querySelector('.summary').textContent.includes('h100-80')")
	p.Want("location.hash.includes('device=h100-80')")
	p.Want("/[0-9.]+ ms.*[0-9.]+ ms/.test(document.querySelector('.whatif .verdict').textContent)")
	p.Want("document.querySelector('.outcome').textContent.includes('move')")
	p.Click(".whatif .step")
	p.Want("document.querySelector('.summary').textContent.includes('1 host x 2 h100-80')" + settled)
	// The address is the whole state: another window shows the same.
	again := b.Open(t, p.Text("location.href"), browser.View{})
	again.Want("document.querySelector('.whatif .verdict') && document.querySelector('.summary').textContent.includes('1 host x 2 h100-80')")
	p.Fill(".whatif input[name=devices]", "0")
	p.Want("document.querySelector('.whatif input[name=devices][aria-invalid]')")
	p.Click(".result > button")
	p.Want(fmt.Sprintf("document.querySelector('.summary').textContent === %q && !document.querySelector('.whatif .verdict')", summary))
	p.Want("!location.hash.includes('?')")
}

// A re-plan draws its curve, and a sweep its table; both are found again among the jobs.
func TestLiveJobsInABrowser(t *testing.T) {
	url, id := live(t, service.Options{})
	p := browser.Start(t).Open(t, url+"/#/plans/"+id+"/replan", browser.View{})
	p.Want("document.querySelector('form.form')")
	p.Fill("input[name=lost_devices]", "3")
	p.Click("form button[type=submit]")
	p.Want("document.querySelector('.ns main > div > details')")
	p.Want(shows("Pays back"))
	p.Value(fmt.Sprintf("location.hash = '#/plans/%s/sweep'", id), new(any))
	p.Want("document.querySelector('input[name=devices]')?.value.includes(',')")
	p.Fill("input[name=devices]", "4, 8")
	p.Click("form button[type=submit]")
	p.Want("document.querySelector('.ns main > div > details')")
	p.Want("document.querySelectorAll('#page tbody tr').length >= 2")
	p.Value("location.hash = '#/jobs'", new(any))
	p.Want("[...document.querySelectorAll('tbody th')].some(e => e.textContent === 'sweep')")
	p.Click("tbody a")
	p.Want("/^#\\/jobs\\/[0-9a-f]{32}$/.test(location.hash) && document.querySelector('.ns h1')")
}

// A service with a token asks for it once; only the tab keeps it.
func TestLiveTokenInABrowser(t *testing.T) {
	const token = "a-token-of-thirty-characters-x"
	url, _ := live(t, service.Options{Token: token})
	p := browser.Start(t).Open(t, url+"/", browser.View{})
	p.Expect("401")
	p.Want("document.querySelectorAll('dialog[open]').length === 1")
	p.Want(focused("dialog input"))
	p.Axe()
	p.Fill("dialog input", "another")
	p.Press("\r")
	p.Want(shows("did not accept the token"))
	p.Fill("dialog input", token)
	p.Press("\r")
	p.Want("document.querySelector('.models a')?.textContent === 'ranking'")
	p.Want("!document.querySelector('dialog')")
	p.Want(fmt.Sprintf("!location.href.includes(%q) && !JSON.stringify(localStorage).includes(%q)", token, token))
}
