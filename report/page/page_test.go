package page_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard"
	_ "github.com/neuroshard/neuroshard/internal/fixedseed"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/report/page"
	"github.com/neuroshard/neuroshard/unit"
)

// one returns the document of one plan.
func one(tb testing.TB, in page.Input) *page.Document {
	tb.Helper()
	d := must.Get(page.New(in))(tb)
	return &page.Document{Tool: "1.2.3", Title: in.Name, Plans: []page.Plan{d}}
}

func TestDocuments(t *testing.T) {
	wholly := func(make func() (*plan.Plan, *problem.Problem)) page.Input {
		pl, p := make()
		return explained(page.Input{Name: "plan.json", Plan: pl, Problem: p, Result: judged(pl), Warnings: []string{"a doubt", "no batch is stated"}})
	}
	alone, _ := plain()
	before, p := plain()
	after, _ := plain()
	moved := after.ByDevice()
	moved[0], moved[1] = append(moved[0], moved[1][0]), moved[1][1:]
	after = planOf(p, moved)
	formulas, _ := plain()
	formulas.Provenance.Model, formulas.Provenance.ModelSource = "torchrec-1.6.1", plan.ClosedForm
	two := one(t, page.Input{Name: "before.json", Plan: before})
	two.Plans = append(two.Plans, one(t, page.Input{Name: "after.json", Plan: after}).Plans...)
	two.Changes = page.Compare(before, after)
	beside := wholly(plain)
	beside.Result.Baselines = append(beside.Result.Baselines,
		neuroshard.Baseline{Method: "torchrec", Valid: true, Predicted: 6, Simulated: 6.5, Wall: 1300},
		neuroshard.Baseline{Method: "hugectr", Reason: "device 0: it is full", Predicted: 4, Simulated: 4.5},
		neuroshard.Baseline{Method: "mine", Reason: "no plan <b>fits</b>", Wall: 20})
	cases := []struct {
		name     string
		document *page.Document
	}{
		{"compared", one(t, beside)},
		{"plan", one(t, page.Input{Name: "plan.json", Plan: alone, Missing: []string{"without the tables"}})},
		{"plain", one(t, wholly(plain))},
		{"forms", one(t, wholly(forms))},
		{"chosen", one(t, wholly(chosen))},
		{"vectors", one(t, wholly(vectors))},
		{"hidden", one(t, wholly(hidden))},
		{"uneven", one(t, wholly(uneven))},
		{"unpriced", one(t, page.Input{Name: "plan.json", Plan: unpriced()})},
		{"formulas", one(t, page.Input{Name: "plan.json", Plan: formulas, Problem: p})},
		{"two", two},
		{"replan", &page.Document{Tool: "1.2.3", Plans: []page.Plan{}, Replan: replanned(t)}},
		{"sweep", &page.Document{Tool: "1.2.3", Plans: []page.Plan{}, Sweep: page.NewSweep(swept())}},
	}
	var names []string
	for _, c := range cases {
		names = append(names, c.name+".json")
		t.Run(c.name, func(t *testing.T) {
			text := must.Get(json.MarshalIndent(c.document, "", " "))(t)
			must.Match(t, filepath.Join("testdata", c.name+".json"), append(text, '\n'))
			checkPage(t, c.document)
		})
	}
	files := must.Get(os.ReadDir("testdata"))(t)
	for _, f := range files {
		if !f.IsDir() && !slices.Contains(names, f.Name()) {
			t.Errorf("testdata/%s belongs to no case", f.Name())
		}
	}
}

// elements are those that a page may have.
var elements = strings.Fields("html head meta title style body div main h1 h2 h3 section p dl dt dd span ul li table thead tbody tr th td noscript script svg rect text title line")

// checkPage wants of the document's page: the policy allows exactly the scripts and the style of
// the page, and what checkText wants.
func checkPage(tb testing.TB, d *page.Document) {
	tb.Helper()
	text, scripts := written(tb, d)
	policy, hashes := checkText(tb, d, text)
	z := html.NewTokenizer(bytes.NewReader(scripts))
	for z.Next() != html.ErrorToken {
		if token := z.Token(); token.Type == html.StartTagToken && token.Data == "script" {
			hashes = append(hashes, hash(raw(z)))
		}
	}
	if len(hashes) != 3 {
		tb.Fatalf("got %d scripts and styles, want 3", len(hashes))
	}
	for _, h := range hashes {
		if !strings.Contains(policy, h) {
			tb.Errorf("got policy %s, want %s in it", policy, h)
		}
	}
	if strings.Count(policy, "sha256") != len(hashes) || !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
		tb.Errorf("got policy %s, want nothing more than the hashes in it", policy)
	}
}

// written returns the page up to the first script that runs, and the rest, which does not depend
// on the document.
func written(tb testing.TB, d *page.Document) (text, scripts []byte) {
	tb.Helper()
	var b bytes.Buffer
	must.Do(tb, page.Write(&b, d))
	at := bytes.Index(b.Bytes(), []byte("<script>"))
	if at < 0 {
		tb.Fatal("the page has no script")
	}
	return b.Bytes()[:at], b.Bytes()[at:]
}

// checkText wants of a page up to its scripts: the embedded data is the document, and no text of
// the document became markup. It returns the policy and the hashes of styles.
func checkText(tb testing.TB, d *page.Document, text []byte) (policy string, hashes []string) {
	tb.Helper()
	var data []string
	z := html.NewTokenizer(bytes.NewReader(text))
	for z.Next() != html.ErrorToken {
		token := z.Token()
		if token.Type != html.StartTagToken && token.Type != html.SelfClosingTagToken {
			continue
		}
		if !slices.Contains(elements, token.Data) {
			tb.Fatalf("got an element %s, want none", token.Data)
		}
		for _, a := range token.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "href" {
				tb.Fatalf("got an attribute %s of %s, want none", a.Key, token.Data)
			}
		}
		switch attributes := token.Attr; {
		case token.Data == "meta" && len(attributes) == 2 && attributes[0].Val == "Content-Security-Policy":
			policy = attributes[1].Val
		case token.Data == "script":
			data = append(data, raw(z))
		case token.Data == "style":
			hashes = append(hashes, hash(raw(z)))
		}
	}
	if len(data) != 1 {
		tb.Fatalf("got %d elements of data, want 1", len(data))
	}
	checkData(tb, d, data[0])
	return policy, hashes
}

// checkData wants that the data of a page is the document.
func checkData(tb testing.TB, d *page.Document, data string) {
	tb.Helper()
	want := must.Get(json.Marshal(d))(tb)
	var again page.Document
	decoder := json.NewDecoder(strings.NewReader(data))
	decoder.DisallowUnknownFields()
	must.Do(tb, decoder.Decode(&again))
	got := must.Get(json.Marshal(&again))(tb)
	if !bytes.Equal(got, want) {
		tb.Errorf("the data of the page is another document:\n%s", cmp.Diff(string(want), string(got)))
	}
}

// hash returns the source by which a policy allows an element with the text.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// raw returns the text of an element that was just opened.
func raw(z *html.Tokenizer) string {
	if z.Next() != html.TextToken {
		return ""
	}
	return string(z.Raw())
}

func TestLivePageLoadsAssets(t *testing.T) {
	var b bytes.Buffer
	must.Do(t, page.Live(&b))
	z := html.NewTokenizer(&b)
	loaded := 0
	for z.Next() != html.ErrorToken {
		for _, a := range z.Token().Attr {
			name, ok := strings.CutPrefix(a.Val, "assets/")
			if !ok {
				continue
			}
			if text, err := fs.ReadFile(page.Assets(), name); err != nil || len(text) == 0 {
				t.Errorf("%s: got %d bytes and error %v", name, len(text), err)
			}
			loaded++
		}
	}
	if loaded < 5 {
		t.Errorf("got %d assets, want 3 scripts and 2 styles", loaded)
	}
}

// A shard on a device that the plan does not have cannot be drawn.
func TestNewRefuses(t *testing.T) {
	pl, _ := plain()
	pl.Tables[1].Shards[0].Device = 2
	const want = `table "wide", shard 0: the plan has no device 2`
	if _, err := page.New(page.Input{Plan: pl}); err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
	if _, err := page.New(page.Input{}); err == nil {
		t.Errorf("got no error without a plan")
	}
}

// A large plan has a page in a few megabytes, and equal plans have equal bytes.
func TestLargePlan(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short")
	}
	pl, p := large(10_000, 1024)
	var pages [2]bytes.Buffer
	for i := range pages {
		d := one(t, page.Input{Name: "plan.json", Plan: pl, Problem: p})
		if got, want := d.Plans[0].Shards.Count, 10_000+3330; got != want {
			t.Fatalf("got %d shards, want %d: a table on all devices is listed once", got, want)
		}
		must.Do(t, page.Write(&pages[i], d))
	}
	if !bytes.Equal(pages[0].Bytes(), pages[1].Bytes()) {
		t.Errorf("got other bytes for the same plan")
	}
	if got := pages[0].Len(); got > 4<<20 {
		t.Errorf("got %d bytes, want at most 4 MiB", got)
	}
}

// The times of the shards of a device add up to its busy time.
func TestTimesAddUp(t *testing.T) {
	pl, p := forms()
	d := one(t, page.Input{Plan: pl, Problem: p}).Plans[0]
	n := d.Devices.Count
	sums, replicas := make([]float64, n), 0.0
	for i, device := range d.Shards.Device {
		if device < 0 {
			replicas += float64(n) * float64(d.Shards.Time[i])
		} else {
			sums[device] += float64(d.Shards.Time[i])
		}
	}
	total, busy := replicas, 0.0
	for i := range n {
		total += sums[i]
		busy += float64(d.Devices.Forward[i] + d.Devices.ForwardComm[i] + d.Devices.BackwardComm[i] + d.Devices.Backward[i])
	}
	if total < 0.9999*busy || total > 1.0001*busy {
		t.Errorf("got %v ms of shards, want the busy time of all devices, %v ms", total, busy)
	}
}

// FuzzPlan wants a page of every plan file that can be read, unless a shard lies on a device that
// the plan does not have.
func FuzzPlan(f *testing.F) {
	for _, make := range []func() (*plan.Plan, *problem.Problem){plain, forms, chosen, vectors, hidden} {
		pl, _ := make()
		var b bytes.Buffer
		must.Do(f, pl.Write(&b))
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		pl, err := plan.Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		d, err := page.New(page.Input{Name: "\u2028</script>", Plan: pl})
		if err != nil {
			if !strings.Contains(err.Error(), "the plan has no device") {
				t.Fatal(err)
			}
			return
		}
		document := &page.Document{Title: "<!--", Plans: []page.Plan{d}, Changes: page.Compare(pl, pl)}
		text, _ := written(t, document)
		checkText(t, document, text)
	})
}

// Whatever a plan file says, its page holds it as data.
func TestEveryPlanHasPage(t *testing.T) {
	texts := rapid.OneOf(rapid.SampledFrom([]string{
		"</script><script>alert(1)</script>", "<!--", "]]>", "\u2028\u2029", `"><img src=x onerror=alert(1)>`, "{{.Title}}", "${1}", "javascript:alert(1)", "a\x01b", "=1+1",
	}), rapid.String())
	rapid.Check(t, func(r *rapid.T) {
		pl, _ := rapid.SampledFrom([]func() (*plan.Plan, *problem.Problem){plain, forms, chosen, hidden}).Draw(r, "plan")()
		pl.Provenance.Method, pl.Provenance.Model = texts.Draw(r, "method"), texts.Draw(r, "model")
		pl.Provenance.ModelSource = rapid.SampledFrom([]string{plan.Simulated, plan.Measured, plan.Published, plan.ClosedForm, plan.Custom, plan.Unpriced}).Draw(r, "source")
		pl.Provenance.Warnings = rapid.SliceOfN(texts, 0, 3).Draw(r, "warnings")
		pl.Cluster.Profile = texts.Draw(r, "profile")
		for i := range pl.Tables {
			placed := &pl.Tables[i]
			placed.Name, placed.Module = texts.Draw(r, "name"), texts.Draw(r, "module")
			placed.ShardingType = rapid.SampledFrom(problem.ShardingTypes()).Draw(r, "sharding type")
			for k := range placed.Shards {
				placed.Shards[k].Device = rapid.IntRange(-1, len(pl.Devices)).Draw(r, "device")
			}
		}
		for i := range pl.Devices {
			pl.Devices[i].Forward = unit.Millis(rapid.Float64Range(0, 1e9).Draw(r, "forward"))
			pl.Devices[i].Memory.Weights = unit.Bytes(rapid.Int64Range(0, 1<<40).Draw(r, "weights"))
		}
		var file bytes.Buffer
		if pl.Write(&file) != nil {
			r.Skip("no plan file says this")
		}
		pl, err := plan.Read(&file)
		if err != nil {
			r.Skip("no plan file says this")
		}
		d, err := page.New(page.Input{Name: texts.Draw(r, "file"), Plan: pl, Missing: []string{texts.Draw(r, "missing")}})
		if err != nil {
			if !strings.Contains(err.Error(), "the plan has no device") {
				r.Fatal(err)
			}
			return
		}
		document := &page.Document{Title: texts.Draw(r, "title"), Plans: []page.Plan{d}}
		var b bytes.Buffer
		must.Do(r, page.Write(&b, document))
		text, _, _ := bytes.Cut(b.Bytes(), []byte("<script>"))
		checkText(t, document, text)
	})
}
