package modelfile

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
)

func sample() *Model {
	return &Model{
		Manifest: Manifest{
			Profile: "a100-80", Source: "simulated", Backend: "a meter", Command: "make it",
			Compute: ComputeSpec{FeatureVersion: "v", Features: []string{"x", "y"}, Scalars: []string{"s"}, Hidden: 3, Embed: 2, Head: 1, LaunchForwardMS: 0.003, LaunchBackwardMS: 1. / 3},
			Comm:    CommSpec{AlphaMS: 0.1, IntraGBps: 230, BaseMS: 0.2, HopMS: 0.3, NICGBps: 23.5, CopyGBps: 1000, Hidden: 4},
			Card:    Card{Seed: 1, ComputeSamples: 2, CommSamples: 3, Epochs: 4, Compute: Errors{5, 0.6, 0.7}, Large: Errors{8, 0.9, 1}, Comm: Errors{11, 1.2, 1.3}},
		},
		Tensors: []Tensor{
			{Name: "w", Shape: []int{2, 3}, Data: []float32{1, -2, 3.5, 0, float32(math.Copysign(0, -1)), math.SmallestNonzeroFloat32}},
			{Name: "b", Shape: []int{2}, Data: []float32{math.MaxFloat32, -1e-20}},
		},
	}
}

// write writes the model into a new folder and returns the two files.
func write(t *testing.T, m *Model) (folder string, files fstest.MapFS) {
	t.Helper()
	root := t.TempDir()
	folder = filepath.Join(root, "deep", "m")
	must.Do(t, m.Write(folder))
	files = fstest.MapFS{}
	for _, name := range []string{WeightsName, ManifestName} {
		data := must.Get(os.ReadFile(filepath.Join(folder, name)))(t)
		files["m/"+name] = &fstest.MapFile{Data: data}
	}
	return folder, files
}

// sameModel compares bit by bit: -0 is not 0.
func sameModel(a, b *Model) bool {
	if !reflect.DeepEqual(a.Manifest, b.Manifest) || len(a.Tensors) != len(b.Tensors) {
		return false
	}
	for i := range a.Tensors {
		if !sameTensor(a.Tensors[i], b.Tensors[i]) {
			return false
		}
	}
	return true
}

func sameTensor(a, b Tensor) bool {
	if a.Name != b.Name || len(a.Shape) != len(b.Shape) || len(a.Data) != len(b.Data) {
		return false
	}
	for i := range a.Shape {
		if a.Shape[i] != b.Shape[i] {
			return false
		}
	}
	for i := range a.Data {
		if math.Float32bits(a.Data[i]) != math.Float32bits(b.Data[i]) {
			return false
		}
	}
	return true
}

func TestWriteAndRead(t *testing.T) {
	m := sample()
	folder, files := write(t, m)
	got := must.Get(Read(os.DirFS(filepath.Dir(folder)), "m"))(t)
	if !sameModel(got, m) {
		t.Errorf("got %+v, want %+v", got, m)
	}
	if data, err := got.Tensor("b", 2); err != nil || data[0] != math.MaxFloat32 {
		t.Errorf("got %v and %v, want the values of b", data, err)
	}
	_, shape := got.Tensor("b", 1, 2)
	_, missing := got.Tensor("c", 2)
	if shape == nil || missing == nil || !strings.Contains(shape.Error(), "has shape [2], want [1 2]") {
		t.Errorf("got %v and %v, want errors of another shape and of no tensor", shape, missing)
	}
	if got.Manifest.Domain.Stated() {
		t.Error("no domain: got it stated")
	}
	if got.Manifest.Format != Format || got.Manifest.Version != Version || !strings.HasPrefix(got.Manifest.ID, "a100-80-") {
		t.Errorf("got format %q version %d id %q, want %q, %d and an id of the profile", got.Manifest.Format, got.Manifest.Version, got.Manifest.ID, Format, Version)
	}
	if here, err := Read(os.DirFS(folder), "."); err != nil || !sameModel(here, m) {
		t.Errorf("the folder itself: got %+v and error %v, want %+v", here, err, m)
	}
	// The same model gives the same bytes, also after reading.
	_, again := write(t, got)
	for name := range files {
		if !bytes.Equal(files[name].Data, again[name].Data) {
			t.Errorf("%s: got other bytes the second time", name)
		}
	}
	checkFolder(t, folder)
}

// checkFolder reports anything in the folder beside the two files.
func checkFolder(t *testing.T, folder string) {
	t.Helper()
	entries := must.Get(os.ReadDir(folder))(t)
	for _, e := range entries {
		if e.Name() != WeightsName && e.Name() != ManifestName {
			t.Errorf("%s is left behind", e.Name())
		}
	}
}

func drawTensors(t *rapid.T) []Tensor {
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-zA-Z0-9_.é<&"\\ -]{0,12}`), 0, 5, rapid.ID[string]).Draw(t, "names")
	tensors := make([]Tensor, len(names))
	for i, name := range names {
		shape := rapid.SliceOfN(rapid.IntRange(1, 4), 0, 4).Draw(t, "shape")
		size := 1
		for _, d := range shape {
			size *= d
		}
		tensors[i] = Tensor{name, shape, rapid.SliceOfN(rapid.Float32(), size, size).Draw(t, "data")}
	}
	return tensors
}

func TestReadsWhatItWrites(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		m := &Model{Tensors: drawTensors(t)}
		m.Manifest.Profile = rapid.String().Draw(t, "profile")
		m.Manifest.Compute.LaunchForwardMS = rapid.Float64().Draw(t, "launch")
		m.Manifest.Card.Seed = rapid.Uint64().Draw(t, "seed")
		must.Do(t, m.Write(filepath.Join(root, "m")))
		got := must.Get(Read(os.DirFS(root), "m"))(t)
		if !sameModel(got, m) {
			t.Fatalf("got %+v, want %+v", got, m)
		}
	})
}

// Whatever changes, the id changes.
func TestSealTellsModelsApart(t *testing.T) {
	seen := map[string]string{}
	check := func(what string, m *Model) {
		t.Helper()
		if err := m.Seal(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		// Without the profile, which the id starts with.
		id := m.Manifest.ID[strings.LastIndexByte(m.Manifest.ID, '-')+1:]
		if other, ok := seen[id]; ok {
			t.Errorf("%s: got the id %q of %s, want another", what, id, other)
		}
		seen[id] = what
	}
	check("the model", sample())
	for i := range sample().Tensors {
		for k := range sample().Tensors[i].Data {
			m := sample()
			data := m.Tensors[i].Data
			data[k] = math.Float32frombits(math.Float32bits(data[k]) ^ 1)
			check("a bit of "+m.Tensors[i].Name, m)
		}
	}
	m := sample()
	m.Tensors[0].Shape = []int{3, 2}
	check("a shape", m)
	m = sample()
	m.Tensors[1].Name = "c"
	check("a tensor's name", m)
	m = sample()
	m.Tensors[0], m.Tensors[1] = m.Tensors[1], m.Tensors[0]
	check("the order", m)
	m = sample()
	m.Tensors = m.Tensors[:1]
	check("a tensor less", m)
	for what, change := range map[string]func(*Manifest){
		"the profile":      func(m *Manifest) { m.Profile += "x" },
		"a fact":           func(m *Manifest) { m.Device.SMs = 2 },
		"the measurement":  func(m *Manifest) { m.Measured.Fastest = true },
		"a launch":         func(m *Manifest) { m.Compute.LaunchForwardMS = math.Nextafter(m.Compute.LaunchForwardMS, 1) },
		"the members":      func(m *Manifest) { m.Compute.Members = 2 },
		"the domain":       func(m *Manifest) { m.Domain.Optimizers = []string{"sgd"} },
		"an overlap":       func(m *Manifest) { m.Comm.OverlapRate = .5 },
		"an error of card": func(m *Manifest) { m.Card.Repeated.Mean = 1 },
	} {
		m := sample()
		change(&m.Manifest)
		check(what, m)
	}
	// Seal sets these three itself.
	m = sample()
	m.Manifest.Format, m.Manifest.Version, m.Manifest.ID = "x", 99, "y"
	want := sample()
	must.Do(t, errors.Join(m.Seal(), want.Seal()))
	if m.Manifest.ID != want.Manifest.ID {
		t.Errorf("got id %q, want %q: format, version and id are not the caller's", m.Manifest.ID, want.Manifest.ID)
	}
}

// A flipped byte is noticed, or changes nothing: spaces between the tokens of
// JSON, and the case of its keys, carry nothing. In the weights themselves every
// bit counts.
func TestReadNoticesAnyFlippedByte(t *testing.T) {
	m := sample()
	_, files := write(t, m)
	weights := files["m/"+WeightsName].Data
	body := len(weights) - 4*8 // eight values
	for name, file := range files {
		good := file.Data
		unnoticed := 0
		for i := range good {
			for _, mask := range []byte{0x01, 0x10, 0x20, 0x80, 0xff} {
				bad := bytes.Clone(good)
				bad[i] ^= mask
				files[name] = &fstest.MapFile{Data: bad}
				got, err := Read(files, "m")
				if err != nil {
					continue
				}
				unnoticed++
				if !sameModel(got, m) || strings.HasSuffix(name, WeightsName) && i >= body {
					t.Fatalf("%s: byte %d flipped by %#x: got no error", name, i, mask)
				}
			}
		}
		if unnoticed > len(good)/2 {
			t.Errorf("%s: %d flips of %d bytes went unnoticed, want few", name, unnoticed, len(good))
		}
		files[name] = file
	}
}

func TestReadNoticesTruncation(t *testing.T) {
	_, files := write(t, sample())
	for name, file := range files {
		for n := range len(file.Data) - 1 { // the last byte of the manifest is a new line
			files[name] = &fstest.MapFile{Data: file.Data[:n]}
			if _, err := Read(files, "m"); err == nil && !bytes.HasPrefix([]byte("\n"), file.Data[n:]) {
				t.Fatalf("%s: the first %d of %d bytes: got no error", name, n, len(file.Data))
			}
		}
		files[name] = &fstest.MapFile{Data: append(bytes.Clone(file.Data), "{}"...)}
		if _, err := Read(files, "m"); err == nil {
			t.Errorf("%s: two bytes more: got no error", name)
		}
		files[name] = file
	}
}

func TestReadRefuses(t *testing.T) {
	edit := func(old, new string) func(fstest.MapFS) {
		return func(files fstest.MapFS) {
			data := string(files["m/"+ManifestName].Data)
			if strings.Count(data, old) != 1 {
				panic("the manifest does not hold " + old + " once")
			}
			files["m/"+ManifestName] = &fstest.MapFile{Data: []byte(strings.Replace(data, old, new, 1))}
		}
	}
	other := sample()
	other.Tensors[0].Data[0]++
	_, others := write(t, other)
	for _, c := range []struct {
		name   string
		change func(fstest.MapFS)
		want   string
	}{
		{"another format", edit(`"neuroshard-model"`, `"onnx"`), `format "onnx" version 1: this build reads "neuroshard-model" version 1`},
		{"a later version", edit(`"version": 1`, `"version": 2`), `version 2: this build reads`},
		{"an unknown key", edit(`"profile"`, `"colour": "red", "profile"`), `unknown field "colour"`},
		{"an unknown key inside", edit(`"hop_ms"`, `"hops": 3, "hop_ms"`), `unknown field "hops"`},
		{"a wrong type", edit(`"epochs": 4`, `"epochs": "four"`), "epochs"},
		{"an edited card", edit(`"mean_percent": 0.6`, `"mean_percent": 0.1`), "does not match its contents"},
		{"an edited id", edit(`"id": "a100-80-`, `"id": "a100-80-0`), "does not match its contents"},
		{"the weights of another model", func(files fstest.MapFS) { files["m/"+WeightsName] = others["m/"+WeightsName] }, "does not match its contents"},
		{"no JSON", func(files fstest.MapFS) { files["m/"+ManifestName] = &fstest.MapFile{Data: []byte("model")} }, "m/manifest.json: "},
		{"an empty manifest", func(files fstest.MapFS) { files["m/"+ManifestName] = &fstest.MapFile{} }, "m/manifest.json: EOF"},
		{"no manifest", func(files fstest.MapFS) { delete(files, "m/"+ManifestName) }, "m/manifest.json: file does not exist"},
		{"no weights", func(files fstest.MapFS) { delete(files, "m/"+WeightsName) }, "m/model.safetensors: file does not exist"},
	} {
		_, files := write(t, sample())
		c.change(files)
		m, err := Read(files, "m")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q in it", c.name, err, c.want)
		}
		if m != nil {
			t.Errorf("%s: got a model beside the error", c.name)
		}
	}
}

// A file without end is given up at the limit.
func TestReadRefusesHugeFiles(t *testing.T) {
	_, err := Read(endless{}, "m")
	if err == nil || !strings.Contains(err.Error(), "larger than 67108864 bytes") {
		t.Errorf("got %v, want it to say that the file is too large", err)
	}
}

type endless struct{}

func (endless) Open(string) (fs.File, error) { return endless{}, nil }
func (endless) Close() error                 { return nil }
func (endless) Stat() (fs.FileInfo, error)   { return nil, errors.ErrUnsupported }
func (endless) Read(p []byte) (int, error)   { return len(p), nil }

// What cannot be written leaves the old model as it was, and nothing beside it.
func TestWriteRefuses(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, c := range []struct {
		name   string
		change func(*Model)
		want   string
	}{
		{"a weight that is not a number", func(m *Model) { m.Tensors[0].Data[1] = nan }, `tensor "w": a value is not finite`},
		{"an infinite weight", func(m *Model) { m.Tensors[1].Data[0] = inf }, `tensor "b": a value is not finite`},
		{"too few values", func(m *Model) { m.Tensors[0].Data = m.Tensors[0].Data[:5] }, `tensor "w": 5 values do not fill shape [2 3]`},
		{"a negative shape", func(m *Model) { m.Tensors[0].Shape = []int{-2, -3} }, `tensor "w": 6 values do not fill shape [-2 -3]`},
		{"a name used twice", func(m *Model) { m.Tensors[1].Name = "w" }, `tensor name "w" is used twice or reserved`},
		{"a reserved name", func(m *Model) { m.Tensors[1].Name = "__metadata__" }, `tensor name "__metadata__" is used twice or reserved`},
		{"a constant that is not a number", func(m *Model) { m.Manifest.Comm.AlphaMS = math.NaN() }, "manifest: "},
		{"more than a file holds", func(m *Model) {
			m.Tensors[0] = Tensor{"w", []int{maxFileBytes/4 + 1}, make([]float32, maxFileBytes/4+1)}
		}, "more than the 67108864 of a model file"},
	} {
		folder, _ := write(t, sample())
		m := sample()
		c.change(m)
		if err := m.Write(folder); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q in it", c.name, err, c.want)
		}
		got, err := Read(os.DirFS(filepath.Dir(folder)), "m")
		want := sample()
		must.Do(t, want.Seal())
		if err != nil || !sameModel(got, want) {
			t.Errorf("%s: got %+v, %v, want the old model", c.name, got, err)
		}
		checkFolder(t, folder)
	}
}

// A write that the file system breaks off leaves the old model or one that Read
// refuses, and no temporary file.
func TestWriteFails(t *testing.T) {
	for _, blocked := range []string{WeightsName, ManifestName} {
		folder, _ := write(t, sample())
		// A folder in the file's place cannot be replaced, not even by root.
		must.Do(t, os.Remove(filepath.Join(folder, blocked)))
		must.Do(t, os.MkdirAll(filepath.Join(folder, blocked, "in the way"), 0o777))
		m := sample()
		m.Tensors[0].Data[0] = 9
		if err := m.Write(folder); err == nil {
			t.Errorf("%s blocked: got no error", blocked)
		}
		if _, err := Read(os.DirFS(filepath.Dir(folder)), "m"); err == nil {
			t.Errorf("%s blocked: Read got no error, want the half-written model refused", blocked)
		}
		checkFolder(t, folder)
	}
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, []byte("mine"), 0o644))
	if err := sample().Write(file); err == nil {
		t.Error("a file in the folder's place: got no error")
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "mine" {
		t.Errorf("got %q, %v, want the file as it was", data, err)
	}
}
