//go:build browser

package browser

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
)

// faults collects what goes wrong on a page.
type faults struct {
	lock     sync.Mutex
	list     []string
	expected []string
	requests []string
	// address has the address of each request that is under way.
	address map[network.RequestID]string
}

// event takes one event of a page.
func (f *faults) event(e any) {
	switch e := e.(type) {
	case *runtime.EventExceptionThrown:
		f.add("exception: " + e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeAssert || e.Type == runtime.APITypeWarning {
			f.add(fmt.Sprintf("console.%s: %s", e.Type, spoken(e.Args)))
		}
	case *log.EventEntryAdded: // refusals by the Content-Security-Policy among them
		if e.Entry.Level == log.LevelError || e.Entry.Source == log.SourceSecurity {
			f.add(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *network.EventRequestWillBeSent:
		f.request(e.RequestID, e.Request.URL)
	case *network.EventLoadingFailed:
		if !e.Canceled || e.BlockedReason != "" {
			f.add(fmt.Sprintf("request failed: %s: %s %s", f.of(e.RequestID), e.ErrorText, e.BlockedReason))
		}
	}
}

// spoken returns what was given to a function of the console.
func spoken(args []*runtime.RemoteObject) string {
	var words []string
	for _, a := range args {
		if word := string(a.Value); word != "" {
			words = append(words, word)
		} else {
			words = append(words, a.Description)
		}
	}
	return strings.Join(words, " ")
}

func (f *faults) add(fault string) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.list = append(f.list, fault)
}

func (f *faults) request(id network.RequestID, address string) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.address == nil {
		f.address = map[network.RequestID]string{}
	}
	f.address[id] = address
	f.requests = append(f.requests, address)
}

// of returns the address of a request.
func (f *faults) of(id network.RequestID) string {
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.address[id]
}

func (f *faults) expect(text string) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.expected = append(f.expected, text)
}

// unexpected returns the faults without those that a test expects.
func (f *faults) unexpected() []string {
	f.lock.Lock()
	defer f.lock.Unlock()
	return slices.DeleteFunc(slices.Clone(f.list), func(fault string) bool {
		return slices.ContainsFunc(f.expected, func(text string) bool { return strings.Contains(fault, text) })
	})
}

func (f *faults) requested() []string {
	f.lock.Lock()
	defer f.lock.Unlock()
	return slices.Clone(f.requests)
}
