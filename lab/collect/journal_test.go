package collect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/unit"
)

func sampleRecords() []record {
	t := times{[]unit.Millis{.1}, []unit.Millis{1. / 3}, 0, .25}
	none := []int{}
	return []record{
		{Header: &header{Format: journalFormat, Version: journalVersion, Design: "d", Shard: "1/1", Compute: &dataset.Provenance{Source: dataset.Measured, Device: "a \"b\" \u00e9 <&>"}}},
		{Anchor: &anchorRecord{Part: partGroups, ID: 3, After: 7, Tries: []times{t, t}, Again: []int{1, 2}}},
		{Sample: &sampleRecord{partGroups, 5, t}},
		{Failure: &Failure{partExchanges, 2, "oom", "line\nbreak"}},
		{Choice: &none},
		{Repeat: &repeatRecord{ID: 3, times: t}},
		{Pass: 2},
	}
}

func TestRecordsRoundTrip(t *testing.T) {
	var content []byte
	want := sampleRecords()
	for _, r := range want {
		line, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		content = append(content, line...)
	}
	got, size, err := parseJournal(content)
	if err != nil || size != len(content) {
		t.Fatalf("got %d of %d bytes, error %v", size, len(content), err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(sampleRecord{}, repeatRecord{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A file that is not a journal, or that lost more than a stop can tear, is not
// changed.
func TestForeignJournals(t *testing.T) {
	design := drawn(t, 30, 0)
	folder := t.TempDir()
	stubborn := newMemory()
	stubborn.write = func(string, dataset.Dataset) error { return errFull }
	if _, err := stubborn.run(context.Background(), design, newScript(), folder, Options{}); !errors.Is(err, errFull) {
		t.Fatal(err)
	}
	whole := journalOf(t, folder)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	half := bytes.Join(lines[:len(lines)/2], nil)
	for name, content := range map[string][]byte{
		"notes":        []byte("my notes\nline 2\n"),
		"one line":     []byte("my notes"),
		"random":       {0xff, 0, 3, '\n', 7},
		"damaged half": append(slices.Clone(half), bytes.ReplaceAll(whole[len(half):], []byte(":"), []byte(";"))...),
		"no header":    whole[len(lines[0]):],
	} {
		path := filepath.Join(folder, journalName)
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
		backend := newScript()
		if _, err := newMemory().run(context.Background(), design, backend, folder, Options{}); err == nil || backend.calls != 0 || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got error %v and %d measurements, want one that names the file, and none", name, err, backend.calls)
		}
		if !bytes.Equal(journalOf(t, folder), content) {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

// A journal that no run wrote is refused before anything is measured, and the error names its
// line.
func TestDamagedJournals(t *testing.T) {
	design := drawn(t, 12, 6)
	opt := Options{AnchorEvery: 4, RepeatShare: .3}
	folder := t.TempDir()
	stubborn := newMemory()
	stubborn.write = func(string, dataset.Dataset) error { return errFull }
	if _, err := stubborn.run(context.Background(), design, newScript(), folder, opt); !errors.Is(err, errFull) {
		t.Fatal(err)
	}
	whole := bytes.SplitAfter(journalOf(t, folder), []byte("\n"))
	records, _, err := parseJournal(bytes.Join(whole, nil))
	if err != nil {
		t.Fatal(err)
	}
	group, exchange, devices := records[1].Anchor.ID, design.Comm.Samples[0].ID, design.Comm.Samples[0].Devices
	// The journals have the header, the first anchor and the line.
	sealed := func(text string) []byte {
		rest := []byte(strings.NewReplacer("GROUP", fmt.Sprint(group), "EXCHANGE", fmt.Sprint(exchange)).Replace(text)[1:] + "\n")
		return append([]byte(lineStart(rest)), rest...)
	}
	lists := strings.TrimSuffix(strings.Repeat("1,", devices+1), ",")
	cases := map[string][]byte{
		"null": []byte("null\n"), "nothing": []byte("{}\n"), "no checksum": []byte(`{"pass":2}` + "\n"),
		"a digit":      bytes.Replace(whole[2], []byte("."), []byte("1."), 1),
		"lost lines":   whole[6], // the second anchor
		"a line twice": slices.Concat(whole[2], whole[2]),
	}
	for _, text := range []string{
		`{"other":1}`, `{"pass":1000000000}`, `{"pass":2}`, `{"pass":-1}`, `{"pass":2,"choice":[]}`,
		`{"sample":{"part":"tables","id":GROUP,"fwd":[1],"bwd":[1]}}`,
		`{"sample":{"part":"groups","id":1000000000,"fwd":[1],"bwd":[1]}}`,
		`{"sample":{"part":"groups","id":-5,"fwd":[1],"bwd":[1]}}`,
		`{"sample":{"part":"groups","id":GROUP}}`,
		`{"sample":{"part":"groups","id":GROUP,"fwd":[1,2,3],"bwd":[1]}}`,
		`{"sample":{"part":"groups","id":GROUP,"fwd":[-1],"bwd":[1]}}`,
		`{"sample":{"part":"groups","id":GROUP,"fwd":[1],"bwd":[0]}}`,
		`{"sample":{"part":"groups","id":GROUP,"fwd":[1e308],"bwd":[1]}}`,
		`{"sample":{"part":"exchanges","id":EXCHANGE,"fwd":[` + lists + `],"bwd":[` + lists + `]}}`,
		`{"failure":{"part":"tables","id":GROUP,"code":"oom"}}`,
		`{"failure":{"part":"groups","id":1000000000,"code":"oom"}}`,
		`{"anchor":{"part":"tables","id":GROUP,"after":0,"tries":[{"fwd":[1],"bwd":[1]}]}}`,
		`{"anchor":{"part":"groups","id":-5,"after":0,"tries":[{"fwd":[1],"bwd":[1]}]}}`,
		`{"anchor":{"part":"groups","id":GROUP,"after":-1,"tries":[{"fwd":[1],"bwd":[1]}]}}`,
		`{"anchor":{"part":"groups","id":GROUP,"after":0,"tries":[]}}`,
		`{"anchor":{"part":"groups","id":GROUP,"after":0,"tries":[{"fwd":[],"bwd":[]}]}}`,
		`{"anchor":{"part":"groups","id":GROUP,"after":0,"tries":[{"fwd":[1],"bwd":[1]}],"again":[GROUP]}}`,
		`{"choice":[1000000000]}`, `{"repeat":{"id":-5,"fwd":[1],"bwd":[1]}}`, `{"repeat":{"id":-5,"failed":true}}`,
	} {
		cases[text] = sealed(text)
	}
	path := filepath.Join(folder, journalName)
	refused := func(name string, line int, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
		backend := newScript()
		ctx, cancel := context.WithTimeout(context.Background(), hanging)
		defer cancel()
		_, err := newMemory().run(ctx, design, backend, folder, opt)
		if want := fmt.Sprintf("line %d", line); err == nil || backend.calls != 0 || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "begin anew") {
			t.Errorf("%s: got error %v and %d measurements, want one of %s, and none", name, err, backend.calls, want)
		}
		if !bytes.Equal(journalOf(t, folder), content) {
			t.Errorf("%s: the file was changed", name)
		}
	}
	for name, line := range cases {
		at := 3
		if name == "a line twice" {
			at = 4
		}
		// A damaged line at the end would be a torn one.
		refused(name, at, slices.Concat(whole[0], whole[1], line, whole[2]))
	}
	for _, part := range []func(h *header){func(h *header) { h.Compute = nil }, func(h *header) { h.Comm = nil }} {
		h := *records[0].Header
		part(&h)
		line, err := encode(record{Header: &h})
		if err != nil {
			t.Fatal(err)
		}
		refused("header", 1, slices.Concat(line, whole[1], whole[2]))
	}
}
