//go:build browser

package browser

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// Environment variables that name what this package needs.
const (
	// ChromiumVariable names Chromium's program. If it is not set, the program is looked for by
	// its usual names.
	ChromiumVariable = "NEUROSHARD_CHROMIUM"
	// AxeVariable names the file axe.min.js of axe-core 4.
	AxeVariable = "NEUROSHARD_AXE"
)

// patience is the longest time that a test waits for a page. It is long, so that it only ends tests
// that would never end.
const patience = 2 * time.Minute

// Browser is a running Chromium.
type Browser struct {
	ctx context.Context
}

// Start starts Chromium with a profile of its own, and ends it with the test. A test without
// Chromium fails.
func Start(t testing.TB) *Browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program(t)),
		chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("font-render-hinting", "none"),
		chromedp.Flag("disable-lcd-text", true),
		chromedp.Flag("lang", "en-US"),
		chromedp.WSURLReadTimeout(patience),
	)
	if os.Geteuid() == 0 { // Chromium's sandbox refuses root
		options = append(options, chromedp.NoSandbox)
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, end := chromedp.NewContext(allocator, chromedp.WithErrorf(func(format string, args ...any) {
		if !strings.HasPrefix(format, "unhandled ") { // events of a newer Chromium, which no test needs
			t.Logf(format, args...)
		}
	}))
	t.Cleanup(end)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("Chromium does not start: %v", err)
	}
	return &Browser{ctx: ctx}
}

// program returns the path of Chromium.
func program(t testing.TB) string {
	t.Helper()
	if path := os.Getenv(ChromiumVariable); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatalf("there is no Chromium: install it, or name its program with %s", ChromiumVariable)
	return ""
}
