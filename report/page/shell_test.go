package page_test

import (
	"bytes"
	"io/fs"
	"regexp"
	"testing"

	"github.com/neuroshard/neuroshard/report/page"
)

// TestLiveLoadsAssets wants every file that the live page loads to be among the assets, and every
// script and style of the assets to be loaded.
func TestLiveLoadsAssets(t *testing.T) {
	var b bytes.Buffer
	if err := page.Live(&b); err != nil {
		t.Fatal(err)
	}
	loaded := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?:src|href)="assets/([^"]+)"`).FindAllStringSubmatch(b.String(), -1) {
		loaded[match[1]] = true
		if _, err := fs.Stat(page.Assets(), match[1]); err != nil {
			t.Errorf("the page loads assets/%s: %v", match[1], err)
		}
	}
	for _, name := range []string{"echarts.min.js", "page.js", "live.js", "page.css", "live.css", "icon.svg"} {
		if !loaded[name] {
			t.Errorf("the page does not load assets/%s", name)
		}
	}
}
