package collect

import (
	"bytes"
	"context"
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
		if bytes.Count(line, []byte("\n")) != 1 {
			t.Errorf("%q is not one line", line)
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

func TestJournalForm(t *testing.T) {
	line, err := encode(record{Sample: &sampleRecord{partGroups, 5, times{[]unit.Millis{.5}, []unit.Millis{2}, 0, .25}}})
	want := `{"sum":"2d227bfa","sample":{"part":"groups","id":5,"fwd":[0.5],"bwd":[2],"bwd_iqr":0.25}}` + "\n"
	if err != nil || string(line) != want {
		t.Errorf("got %s, %v, want %s: a change of the form needs a new version", line, err, want)
	}
}

// Journals with records in an order that no run writes are refused.
func TestImpossibleJournals(t *testing.T) {
	design := drawn(t, 12, 3)
	folder := t.TempDir()
	stubborn := newMemory()
	stubborn.write = func(string, dataset.Dataset) error { return errFull }
	if _, err := stubborn.run(context.Background(), design, newScript(), folder, Options{RepeatShare: .2}); !errors.Is(err, errFull) {
		t.Fatal(err)
	}
	whole := journalOf(t, folder)
	one := times{[]unit.Millis{1}, []unit.Millis{1}, 0, 0}
	none := []int{}
	for name, c := range map[string]struct {
		record record
		want   string
	}{
		"sample twice":     {record{Sample: &sampleRecord{partGroups, 5, one}}, "twice"},
		"beyond":           {record{Sample: &sampleRecord{partGroups, 12, one}}, "not in this shard"},
		"part":             {record{Sample: &sampleRecord{"tables", 1, one}}, `"tables"`},
		"choice twice":     {record{Choice: &none}, "chosen twice"},
		"not chosen":       {record{Repeat: &repeatRecord{ID: 99, times: one}}, "was not chosen"},
		"anchor":           {record{Anchor: &anchorRecord{Part: partGroups, ID: 99, Tries: []times{one}}}, "two anchors"},
		"anchor's times":   {record{Anchor: &anchorRecord{Part: partGroups}}, "no times"},
		"again":            {record{Anchor: &anchorRecord{Part: partGroups, ID: groupAnchors(design.Compute)[0], Tries: []times{one}, Again: []int{5}}}, "was not measured"},
		"failure of done":  {record{Failure: &Failure{partGroups, 5, "oom", ""}}, "twice"},
		"exchange's times": {record{Sample: &sampleRecord{partExchanges, 7, one}}, "not in this shard"},
	} {
		line, err := encode(c.record)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, journalName), append(bytes.Clone(whole), line...), 0o666); err != nil {
			t.Fatal(err)
		}
		backend := newScript()
		_, err = newMemory().run(context.Background(), design, backend, folder, Options{RepeatShare: .2})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "line ") || backend.calls != 0 {
			t.Errorf("%s: got error %v, want %q in it", name, err, c.want)
		}
	}
}

// FuzzJournal reads any content as a journal. Reading must end with whole records,
// and applying them with an error or with a state that gives a dataset.
func FuzzJournal(f *testing.F) {
	design, err := draw(12, 3)
	if err != nil {
		f.Fatal(err)
	}
	folder := f.TempDir()
	stubborn := newMemory()
	stubborn.write = func(string, dataset.Dataset) error { return errFull }
	if _, err := stubborn.run(context.Background(), design, newScript(), folder, Options{AnchorEvery: 5, RepeatShare: .2}); !errors.Is(err, errFull) {
		f.Fatal(err)
	}
	whole := journalOf(f, folder)
	// The fuzzer gets lines without their checksums, because it would never find a
	// correct one.
	var bare []byte
	for line := range bytes.Lines(whole) {
		bare = append(append(bare, '{'), line[len(lineStart)+sumDigits+len(lineRest):]...)
	}
	f.Add(bare)
	f.Add([]byte(`{"header":{}}`))
	f.Add([]byte("{\"header\":{}}\n{\"anchor\":{\"part\":\"groups\",\"tries\":[{}]}}"))
	f.Add([]byte("{\"header\":{}}\n{\"sample\":{\"part\":\"groups\",\"id\":1,\"fwd\":[1],\"bwd\":[1]}}\n{\"anchor\":{\"part\":\"groups\",\"tries\":[{\"fwd\":[1],\"bwd\":[1]}],\"again\":[1,1]}}"))
	f.Fuzz(func(t *testing.T, bare []byte) {
		if _, _, err := parseJournal(bare); err == nil && len(bare) > 1<<16 {
			return
		}
		var content []byte
		for line := range bytes.Lines(bare) {
			line = bytes.TrimSuffix(line, []byte("\n"))
			if len(line) == 0 {
				continue
			}
			content = append(content, sealed(line)...)
		}
		records, size, err := parseJournal(content)
		if err != nil {
			return
		}
		if again, n, err := parseJournal(content[:size]); err != nil || n != size || len(again) != len(records) {
			t.Fatalf("the whole lines alone: got %d records, %v, want %d", len(again), err, len(records))
		}
		r := newRun(design, newScript(), Options{Shard: Shard{1, 1}, AnchorEvery: 5, RepeatShare: .2})
		for _, record := range records {
			if r.apply(record) != nil {
				return
			}
		}
		r.count()
		r.progress("")
		set := r.dataset()
		if set.Compute == nil && set.Comm == nil {
			return
		}
		set.Compute, set.Comm = nonNil(set, design)
		for _, p := range []*dataset.Provenance{&set.Compute.Provenance, &set.Comm.Provenance} {
			*p = newScript().provenance
		}
		if err := set.Validate(); err != nil && len(set.Compute.Tables) > 0 {
			t.Fatalf("an invalid dataset: %v", err)
		}
	})
}

func nonNil(set, design dataset.Dataset) (*dataset.Compute, *dataset.Comm) {
	if set.Compute == nil {
		set.Compute = &dataset.Compute{Tables: design.Compute.Tables}
	}
	if set.Comm == nil {
		set.Comm = &dataset.Comm{}
	}
	return set.Compute, set.Comm
}

// sealed returns the line of a payload, with its checksum.
func sealed(payload []byte) []byte {
	line := append([]byte(nil), lineStart...)
	line = append(line, sumOf(payload)...)
	line = append(line, lineRest...)
	return append(append(line, payload[1:]...), '\n')
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
		"damaged half": append(slices.Clone(half), bytes.ReplaceAll(whole[len(half):], []byte("fwd"), []byte("bwd"))...),
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
