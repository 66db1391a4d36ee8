// Package browser opens pages in a headless Chromium, for tests. Only tests
// behind the build tag "browser" import the package, so no program has it; all
// but the comparison of pictures is behind that tag as well, so that the plain
// build does not compile the driver (github.com/chromedp/chromedp).
//
//	chromium.go   finds Chromium, starts it with a fresh profile, and ends it
//	page.go       opens an address as somebody would see it: width, dark or light,
//	              paper, less motion, without a network or without scripts
//	faults.go     what a page must not do: exceptions, errors in the console, failed
//	              requests, violations of its Content-Security-Policy
//	checks.go     asks axe-core whether everybody can use the page, and compares what
//	              is seen with a picture that was looked at
//	picture.go    how far two pictures are apart, whatever the font
//
// A test starts with Start, and calls Browser.Open. A page with a fault fails
// its test at the end, unless the test expects the fault (Page.Expect).
package browser
