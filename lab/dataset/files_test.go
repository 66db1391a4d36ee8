package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// contents returns all files of a folder by name.
func contents(t testing.TB, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		data := must.Get(os.ReadFile(filepath.Join(folder, e.Name())))(t)
		all[e.Name()] = string(data)
	}
	return all
}

func names(files map[string]string) string {
	var all []string
	for _, name := range append(fileNames(), ManifestName) {
		if _, ok := files[name]; ok {
			all = append(all, name)
		}
	}
	for name := range files {
		if name != ManifestName && !strings.Contains(strings.Join(fileNames(), " "), name) {
			all = append(all, name+"?")
		}
	}
	return strings.Join(all, " ")
}

func TestRoundTrip(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		folder := filepath.Join(base, fmt.Sprint(n))
		defer func() { need(os.RemoveAll(folder)) }()
		d := drawDataset(t)
		if err := Write(folder, d); err != nil {
			t.Fatalf("write: %v", err)
		}
		got, err := Read(folder)
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		if diff := cmp.Diff(d, got); diff != "" {
			t.Fatalf("read back (-want +got):\n%s", diff)
		}
		if m, err := ReadManifest(folder); err != nil || d.Compute != nil && m.Compute.Samples != len(d.Compute.Samples) {
			t.Fatalf("manifest %+v, error %v", m, err)
		}
	})
}

func TestInvalidIsNotWritten(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Dataset)
		want   string
	}{
		{"nothing", func(d *Dataset) { *d = Dataset{} }, "the dataset is empty"},
		{"length cv", func(d *Dataset) { d.Compute.Tables[2].Features[0].LengthCV = -1 }, "length_cv"},
		{"source", func(d *Dataset) { d.Compute.Provenance.Source = "guessed" }, `fused lookups: source "guessed" is unknown`},
		{"profile", func(d *Dataset) { d.Comm.Provenance.Profile = "h200"; d.Comm.Provenance.Hardware = hardware.Profile{} }, `of profile "cpu" and the all-to-alls of "h200"`},
		{"no profile", func(d *Dataset) { d.Compute.Provenance.Profile = "" }, "fused lookups: profile is missing"},
		{"hardware", func(d *Dataset) { d.Compute.Provenance.Hardware.SMs = 0 }, "fused lookups: hardware: sms: 0 is not at least 1"},
		{"table", func(d *Dataset) { d.Compute.Tables[2].Dim = 6 }, `table "ad": dim 6 is not a multiple of 4`},
		{"table's name", func(d *Dataset) { d.Compute.Tables[2].Name = "user" }, `table "user": the name is used twice`},
		{"id twice", func(d *Dataset) { d.Compute.Samples[1].ID = 0 }, "fused lookups: sample 0: the id is used twice"},
		{"negative id", func(d *Dataset) { d.Comm.Samples[1].ID = -7 }, "all-to-alls: sample -7: the id is not between"},
		{"split", func(d *Dataset) { d.Compute.Samples[1].Split = 3 }, "sample 1: unknown split 3"},
		{"batch", func(d *Dataset) { d.Compute.Samples[1].Operation.Batch = 0 }, "sample 1: batch 0 is not between"},
		{"members", func(d *Dataset) { d.Compute.Samples[1].Members = nil }, "sample 1: it has no members"},
		{"dim", func(d *Dataset) { d.Compute.Samples[1].Members[0].Dim = 6 }, "sample 1: dim 6 is not a multiple of 4"},
		{"member", func(d *Dataset) { d.Compute.Samples[1].Members[0].Table = 4 }, "sample 1: table 4: there are 4"},
		{"splits", func(d *Dataset) { d.Compute.Samples[2].Members[0].Table = 0 }, `sample 4: table 0 is in samples of the splits "train" and "test"`},
		{"forward", func(d *Dataset) { d.Compute.Samples[0].Forward = 0 }, "sample 0: 0 ms is no time"},
		{"backward", func(d *Dataset) { d.Compute.Samples[0].Backward = unit.Millis(math.NaN()) }, "sample 0: NaN ms is no time"},
		{"spread", func(d *Dataset) { d.Compute.Samples[0].ForwardSpread = -1 }, "sample 0: -1 ms is no time"},
		{"repeat", func(d *Dataset) { d.Compute.Repeats[0].ID = 2 }, "repeat of sample 2: there is no such sample"},
		{"repeat's time", func(d *Dataset) { d.Compute.Repeats[0].Forward = -1 }, "repeat of sample 0: -1 ms"},
		{"anchor", func(d *Dataset) { d.Compute.Anchors[1].After = -1 }, "anchor 1, after -1 samples"},
		{"devices", func(d *Dataset) { d.Comm.Samples[0].Devices = 3 }, "sample 0: 2 dim sums, 2 starts, 2 forward times and 2 backward times for 3 devices"},
		{"starts", func(d *Dataset) { d.Comm.Samples[0].Start = nil }, "0 starts"},
		{"dim sum", func(d *Dataset) { d.Comm.Samples[0].DimSums[1] = -1 }, "sample 0: dim sum -1 is not"},
		{"precision", func(d *Dataset) { d.Comm.Samples[0].Precision = problem.BF16 }, "sample 0: its numbers travel in bf16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "d")
			d := clone(sample())
			d.Compute.Tables[2].Features = append([]problem.Feature(nil), d.Compute.Tables[2].Features...)
			c.change(&d)
			err := Write(folder, d)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
			if files := contents(t, folder); files != nil {
				t.Errorf("files were left: %v", names(files))
			}
		})
	}
}

// Files are cut off at every length and flipped in every byte.
func TestDamage(t *testing.T) {
	folder := t.TempDir()
	want := sample()
	must.Do(t, Write(folder, want))
	for name, data := range contents(t, folder) {
		path := filepath.Join(folder, name)
		check := func(what string, data []byte) {
			must.Do(t, os.WriteFile(path, data, 0o644))
			got, err := Read(folder)
			// A flip in the manifest may be of a name's case, which JSON forgives.
			if err == nil && (name != ManifestName || !reflect.DeepEqual(got, want)) {
				t.Errorf("%s, %s: got no error", name, what)
			}
		}
		step := 1 + len(data)/25
		for n := 0; n < len(data); n += step {
			if name != ManifestName || n < len(data)-1 { // without its last newline, all of it is there
				check(fmt.Sprintf("cut to %d of %d bytes", n, len(data)), []byte(data[:n]))
			}
			flipped := []byte(data)
			flipped[n] ^= 1 << (n % 8)
			check(fmt.Sprintf("bit flipped in byte %d", n), flipped)
		}
		check("a byte more", append([]byte(data), 0))
		must.Do(t, os.WriteFile(path, []byte(data), 0o644))
	}
	if _, err := Read(folder); err != nil {
		t.Errorf("all mended: got error %v", err)
	}
}

// Damage that the digest was adapted to gives errors, or other values that
// Validate judges, and never a panic.
func TestDamageBehindDigest(t *testing.T) {
	folder := t.TempDir()
	must.Do(t, Write(folder, sample()))
	m := must.Get(ReadManifest(folder))(t)
	files := contents(t, folder)
	refused, tried := 0, 0
	for _, file := range m.Files {
		for at := 0; at < len(files[file.Name]); at += 17 {
			data := []byte(files[file.Name])
			data[at] ^= []byte{1, 0x10, 0x80, 0xff}[at%4]
			d := clone(sample())
			if tried++; m.decode(&d, file, data) != nil {
				refused++
			}
		}
	}
	if refused < tried/4 {
		t.Errorf("got %d errors of %d, want a quarter at least", refused, tried)
	}
}

func TestReadErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(folder string)
		want   string
	}{
		{"no manifest", func(f string) { need(os.Remove(filepath.Join(f, ManifestName))) }, "it has no dataset.json, which is written last"},
		{"lost file", func(f string) { need(os.Remove(filepath.Join(f, CommName))) }, "comm.parquet: "},
		{"folder for a file", func(f string) {
			need(os.Remove(filepath.Join(f, CommName)))
			need(os.Mkdir(filepath.Join(f, CommName), 0o777))
		}, "comm.parquet: "},
		{"other file", func(f string) {
			data, _ := os.ReadFile(filepath.Join(f, RepeatsName))
			put(filepath.Join(f, AnchorsName), string(data))
		}, "anchors.parquet: "},
		{"future", edit(`"version": 2`, `"version": 3`), `format "neuroshard-dataset" version 3: this program reads "neuroshard-dataset" of version 2`},
		{"format", edit(`neuroshard-dataset`, `neuroshard-plan`), `format "neuroshard-plan" version 2`},
		{"provenance", edit(`"meter": "worker, protocol 1"`, `"meter": "worker, protocol 2"`), "its metadata are not the manifest's"},
		{"no digest", edit(`"sha256": "`, `"sha256": "<`), "its digest is not the manifest's"},
		{"counts", edit(`"train": 1`, `"train": 2`), "not those that the manifest states"},
		{"rows", edit(`"rows": 4`, `"rows": 5`), `file "tables.parquet" of 5 rows, want "tables.parquet" of 4`},
		{"file list", edit(`"repeats": 2,`, `"repeats": 0,`), "it lists 5 files, and its samples need 4"},
		{"path", edit(`"name": "tables.parquet"`, `"name": "../tables.parquet"`), `file "../tables.parquet"`},
		{"size", edit(`"bytes": `, `"bytes": 9999999999`), "it is cut off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "d")
			must.Do(t, Write(folder, sample()))
			c.change(folder)
			if _, err := Read(folder); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: got %v, want an error that is fs.ErrNotExist", err)
	}
}

// edit replaces text of the manifest, once.
func edit(from, to string) func(string) {
	return func(folder string) {
		path := filepath.Join(folder, ManifestName)
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), from) {
			panic(fmt.Sprintf("%v: %q is not in %s", err, from, data))
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(data), from, to, 1)), 0o644); err != nil {
			panic(err)
		}
	}
}

func TestWriteLeavesOthersAlone(t *testing.T) {
	t.Run("interrupted", func(t *testing.T) {
		folder := t.TempDir()
		must.Do(t, Write(folder, sample()))
		need(os.Remove(filepath.Join(folder, ManifestName)))
		need(os.Remove(filepath.Join(folder, CommName)))
		if _, err := Read(folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got error %v, want one that is fs.ErrNotExist", err)
		}
		must.Do(t, Write(folder, sample()))
		if got, err := Read(folder); err != nil || !reflect.DeepEqual(got, sample()) {
			t.Errorf("written again: got error %v and %+v", err, got)
		}
	})
	t.Run("journal", func(t *testing.T) {
		folder := t.TempDir()
		put(filepath.Join(folder, "journal.jsonl"), "{}\n")
		put(filepath.Join(folder, "lock"), "")
		// What a killed Write leaves is cleared away.
		put(filepath.Join(folder, ".comm.parquet-01234567.part"), "PAR1")
		put(filepath.Join(folder, "mine.part"), "")
		must.Do(t, Write(folder, sample()))
		if got, want := len(contents(t, folder)), 6+3; got != want {
			t.Errorf("got %d files, want %d: %v", got, want, names(contents(t, folder)))
		}
		if contents(t, folder)["journal.jsonl"] != "{}\n" {
			t.Error("the journal was changed")
		}
	})
	t.Run("fewer files", func(t *testing.T) {
		folder := t.TempDir()
		must.Do(t, Write(folder, sample()))
		d := sample()
		d.Comm, d.Compute.Anchors = nil, nil
		must.Do(t, Write(folder, d))
		if got, want := names(contents(t, folder)), "tables.parquet compute.parquet repeats.parquet dataset.json"; got != want {
			t.Errorf("got files %q, want %q", got, want)
		}
	})
	for name, c := range map[string]struct {
		make func(folder string)
		want string
	}{
		"a file": {func(f string) { need(os.RemoveAll(f)); put(f, "x") }, "not a directory"},
		"a manifest of others": {
			func(f string) { put(filepath.Join(f, ManifestName), `{"format": "shop"}`) },
			`may be another program's, and is not overwritten`,
		},
		"a manifest of rubbish": {func(f string) { put(filepath.Join(f, ManifestName), `x`) }, "is not overwritten"},
		"a file of the name":    {func(f string) { put(filepath.Join(f, TablesName), "PAR1 of mine PAR1") }, `tables.parquet" is not a dataset's`},
		"a folder of the name":  {func(f string) { need(os.Mkdir(filepath.Join(f, CommName), 0o777)) }, `comm.parquet" is not a dataset's`},
		"a Parquet of others":   {func(f string) { foreign(filepath.Join(f, CommName)) }, `comm.parquet" is not a dataset's`},
		"a dataset of tomorrow": {func(f string) { need(Write(f, sample())); edit(`"version": 2`, `"version": 3`)(f) }, "version 3"},
		"a link through a file": {func(f string) { need(os.RemoveAll(f)); put(filepath.Dir(f)+"/x", ""); need(os.Symlink("x/y", f)) }, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "d")
			need(os.Mkdir(folder, 0o777))
			c.make(folder)
			before := listing(t, filepath.Dir(folder))
			if err := Write(folder, sample()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
			if diff := cmp.Diff(before, listing(t, filepath.Dir(folder))); diff != "" {
				t.Errorf("files changed: %s", diff)
			}
		})
	}
}

// need is for what a test needs to begin with.
func need(err error) {
	if err != nil {
		panic(err)
	}
}

func put(path, text string) { need(os.WriteFile(path, []byte(text), 0o644)) }

func foreign(path string) {
	if err := parquet.WriteFile(path, []struct{ A int }{{1}}); err != nil {
		panic(err)
	}
}

// listing returns everything below a folder, with the contents of files.
func listing(t *testing.T, folder string) (all []string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		line := fmt.Sprint(path, " ", e.Type())
		if e.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += " " + digest(data)
		}
		all = append(all, line)
		return nil
	}))
	return all
}
