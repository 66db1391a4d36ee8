package watch_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/lab/watch"
)

const good = `{"step":7,"device":1,"forward_ms":1.5,"backward_ms":2,"wait_ms":0.25,"time":100.5}`

// TestFaults wants what is wrong with a line, and the line after it.
func TestFaults(t *testing.T) {
	with := func(old, now string) string { return strings.Replace(good, old, now, 1) }
	for _, c := range []struct{ line, want string }{
		{`nonsense}`, `line 2: it is not a JSON object: invalid character 'o' in literal null (expecting 'u')`},
		{`[1]`, `line 2: it is not a JSON object`},
		{`[]`, `line 2: it is not a JSON object`},
		{with(`"device":1`, `"device":1,"step":8`), `line 2: the key "step" is there twice`},
		{with(`"device":1`, `"device":1,"devic\u0065":0`), `line 2: the key "device" is there twice`},
		{`{"step":1`, `line 2: it is not a JSON object: it ends early`},
		{good + good, `line 2: it is not a JSON object: invalid character '{' after top-level value`},
		{with(`"step":7,`, ``), `line 2: the key "step" is missing`},
		{with(`"backward_ms":2,`, ``), `line 2: the key "backward_ms" is missing`},
		{with(`7`, `7.5`), `line 2: "step" is 7.5, which is not a whole number from 0 on`},
		{with(`7`, `-1`), `line 2: "step" is -1, which is not a whole number from 0 on`},
		{with(`7`, `1e300`), `line 2: "step" is 1e300, which is not a whole number from 0 on`},
		{with(`7`, `"7"`), `line 2: "step" is "7", which is not a finite number`},
		{with(`"device":1`, `"device":2`), `line 2: device 2: the plan has 2 devices, numbered from 0`},
		{with(`1.5`, `NaN`), `line 2: it is not a JSON object: invalid character 'N' at start of value`},
		{with(`1.5`, `-Infinity`), `line 2: it is not a JSON object: invalid character 'I' in number (expecting digit)`},
		{with(`1.5`, `1e999`), `line 2: "forward_ms" is 1e999, which is not a finite number`},
		{with(`0.25`, `-0.25`), `line 2: "wait_ms" is -0.25, which is below 0`},
		{with(`1.5`, `3600001`), `line 2: "forward_ms" is 3600001, which is more than an hour`},
		{with(`"time"`, `"start_bytes":-1,"time"`), `line 2: "start_bytes" is -1, which is not a whole number from 0 on`},
		{with(`"time"`, `"peak_bytes":1e300,"time"`), `line 2: "peak_bytes" is 1e300, which is not a whole number from 0 on`},
		{with(`"time"`, `"reserved_bytes":0.5,"time"`), `line 2: "reserved_bytes" is 0.5, which is not a whole number from 0 on`},
		{with(`"time"`, `"start_bytes":5,"time"`), `line 2: peak_bytes is not between start_bytes and reserved_bytes: state all three, or none`},
		{with(`"time"`, `"start_bytes":5,"peak_bytes":9,"reserved_bytes":8,"time"`), `line 2: peak_bytes is not between start_bytes and reserved_bytes: state all three, or none`},
		{`{"step":7,"device":1,"forward_ms":0,"backward_ms":0}`, `line 2: forward_ms and backward_ms are both 0`},
		{`{"x":"` + strings.Repeat("x", 1<<17) + `"}`, `line 2: the line is longer than 65536 bytes`},
	} {
		lines := watch.NewLines(strings.NewReader("\n"+c.line+"\r\n"+good), 2)
		_, err := lines.Next()
		fault := (*watch.Fault)(nil)
		if !errors.As(err, &fault) || err.Error() != c.want || fault.Cut {
			t.Errorf("%.100s:\ngot  %v\nwant %s", c.line, err, c.want)
			continue
		}
		if _, err := lines.Next(); err != nil {
			t.Errorf("%.100s: the line after it: %v", c.line, err)
		}
		if _, err := lines.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%.100s: got %v, want the end", c.line, err)
		}
	}
}

// FuzzLines wants every text to end, each fault to have its line, and each line that is
// accepted to be in range.
func FuzzLines(f *testing.F) {
	f.Add(good + "\n" + good)
	f.Add(`{"step":1,"device":0,"forward_ms":1,"backward_ms":0,"start_bytes":9007199254740992,"peak_bytes":9007199254740992,"reserved_bytes":9007199254740992}`)
	f.Add("{}\n\n{\"step\":1")
	f.Add(`{"step":1e2,"device":0,"forward_ms":1e-300,"backward_ms":0,"other":[{"a":null}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		lines := watch.NewLines(strings.NewReader(text), 3)
		before := 0
		for {
			l, err := lines.Next()
			fault := (*watch.Fault)(nil)
			switch {
			case errors.As(err, &fault):
				if fault.Line <= before || fault.Line > 1+strings.Count(text, "\n") || fault.Message == "" {
					t.Fatalf("got fault %+v after line %d", fault, before)
				}
				before = fault.Line
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				t.Fatal(err)
			case l.Step < 0 || l.Device < 0 || l.Device > 2 || !(l.Forward+l.Backward > 0) || l.Forward < 0 || l.Backward < 0 || l.Wait < 0 || l.Time < 0 || l.Start < 0 || l.Peak < l.Start || l.Reserved < l.Peak:
				t.Fatalf("got line %+v", l)
			default:
				before = lines.Line()
			}
		}
	})
}
