package page_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/report/page"
)

func TestLivePageLoadsAssets(t *testing.T) {
	var b bytes.Buffer
	if err := page.Live(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), `src="assets/page.js"`) {
		t.Errorf("got\n%s\nwant a script of the assets", b.String())
	}
	for _, name := range []string{"page.js", "page.css", "live.js", "live.css", "icon.svg"} {
		f, err := page.Assets().Open(name)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
}
