package collect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		content = append(append(content, line...), '\n')
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
