package prototype

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/internal/torchfile"
)

// archiveOf returns a checkpoint's zip file with the given pickle, and a
// storage "0" of four numbers.
func archiveOf(program string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, data := range map[string]string{"net/data.pkl": program, "net/data/0": strings.Repeat("\x00\x00\x80?", 4), "net/version": "3\n"} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err == nil {
			_, err = io.WriteString(w, data)
		}
		if err != nil {
			panic(err)
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// text, tensorOf and friends write pickles.
func text(s string) string {
	return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
}

func storageOf(key string, size byte) string {
	return "(" + text("storage") + "ctorch\nFloatStorage\n" + text(key) + text("cpu") + "K" + string(size) + "tQ"
}

func tensorOf(storage, offset, shape, strides string) string {
	return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + offset + shape + strides + "\x89NtR"
}

func TestCheckpointRefuses(t *testing.T) {
	good := tensorOf(storageOf("0", 4), "K\x00", "K\x02K\x02\x86", "K\x02K\x01\x86")
	for _, c := range []struct{ name, program, want string }{
		{"a command", "cos\nsystem\n(" + text("id") + "tR.", `"os.system"`},
		{"a storage of another kind", strings.Replace(storageOf("0", 4), "Float", "Double", 1) + ".", "a tensor in a torch.DoubleStorage: the tensors of a net are float32"},
		{"no dict", "N.", "not hold a dict"},
		{"a storage that is not there", "}" + text("feature_means") + tensorOf(storageOf("9", 4), "K\x00", "K\x04\x85", "K\x01\x85") + "s.", `data/9`},
		{"a storage that is too short", "}" + text("feature_means") + tensorOf(storageOf("0", 5), "K\x00", "K\x04\x85", "K\x01\x85") + "s.", "16 bytes, want 20"},
		{"a huge storage", "}" + text("feature_means") + "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") + "J\xff\xff\xff\x7ftQ" + "K\x00K\x04\x85K\x01\x85\x89NtRs.", "more than"},
		{"a state of numbers", "}" + text("state_dict") + "ccollections\nOrderedDict\n)R(" + text("a") + "K\x01us.", `"a" is not a tensor`},
		{"no state", "}" + text("state_dict") + "Ns.", "state_dict is not a dict"},
		{"no tensors", "}.", "feature_means"},
	} {
		_, err := ReadComputeNet("net.pt", bytes.NewReader(archiveOf(c.program)))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "net.pt: ") {
			t.Errorf("%s: got error %v, want one of net.pt with %q", c.name, err, c.want)
		}
	}
	c, err := readCheckpoint(archiveOf("}" + text("feature_means") + good + "s."))
	if err != nil || len(c.means.data) != 4 || c.means.data[3] != 1 || len(c.means.shape) != 2 {
		t.Errorf("a good tensor: got %v, error %v; want four ones of shape [2 2]", c, err)
	}
}

func TestArchiveRefuses(t *testing.T) {
	write := func(files ...string) []byte {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for _, name := range files {
			must.Get(z.Create(name))(t)
		}
		must.Do(t, z.Close())
		return b.Bytes()
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "neither a PyTorch checkpoint"},
		{"the old format", []byte("\x80\x02\x8a\x0a"), "neither a PyTorch checkpoint"},
		{"no archive", []byte("PK\x03\x04 and no more"), "zip"},
		{"no pickle", write("net/version"), "no NAME/data.pkl"},
	} {
		if _, err := ReadCommNet("x.pt", bytes.NewReader(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", c.name, err, c.want)
		}
	}
	bomb := archiveOf(strings.Repeat("N", torchfile.MaxBytes) + ".")
	if _, err := ReadCommNet("x.pt", bytes.NewReader(bomb)); err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("a large pickle: got error %v, want one of its size", err)
	}
}

// onesNet is a comm net of one device and one layer.
const onesNet = `{"dtype": "float32", "ndevices": 1, "feature_names": ["dim_0"], "feature_means": [1],
"feature_stds": [2], "mlp": [
{"name": "hidden.0", "out": 1, "in": 1, "weight": [3], "bias": [4]}]}`

func TestJSONNet(t *testing.T) {
	n := must.Get(ReadCommNet("net.json", strings.NewReader(onesNet)))(t)
	if got := n.Predict([]float64{5}, nil); len(got) != 1 || got[0] != 10 {
		t.Errorf("got %v, want [10]: (5-1)/2 * 3 + 4", got)
	}
	for _, c := range []struct{ old, new, want string }{
		{`"ndevices": 1`, `"ndevices": 0`, "ndevices: 0 is not between 1 and 1024"},
		{`"ndevices": 1`, `"ndevices": 3`, "1 inputs for 3 devices"},
		{`"feature_means": [1]`, `"feature_means": [1, 2, 3]`, "3 inputs for 1 devices"},
		{`"feature_stds": [2]`, `"feature_stds": [0]`, "standard deviation of 0 below"},
		{`"feature_stds": [2]`, `"feature_stds": [1, 2]`, "shapes [1] and [2], want [1]"},
		{`[3]`, `[3, 3]`, "net.json: layer \"hidden.0\": 2 weights"},
		{`[3]`, `[1e9]`, "not a trained net"},
		{`[3]`, `[3`, "net.json: invalid"},
		{`hidden.0`, `hidden.1`, "hidden.0.weight is missing"},
		{`[4]}]}`, `[4]}, {"name": "x", "out": 1, "in": 1, "weight": [3], "bias": [4]}]}`, "no known layer: x.bias, x.weight"},
	} {
		_, err := ReadCommNet("net.json", strings.NewReader(strings.Replace(onesNet, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %s: got error %v, want one with %q", c.new, c.old, err, c.want)
		}
	}
	if _, err := ReadComputeNet("net.json", strings.NewReader(onesNet)); err == nil || !strings.Contains(err.Error(), "comm net in the place of a compute net") {
		t.Errorf("a comm net as compute net: got error %v, want one that says so", err)
	}
}

func TestLoadRefusesMixedNets(t *testing.T) {
	open := func(name string) File {
		data := must.Get(os.ReadFile(filepath.Join("testdata", "models", name)))(t)
		return File{name, bytes.NewReader(data)}
	}
	for _, c := range []struct {
		files [3]File
		want  []string
	}{
		{[3]File{open("compute.pt"), open("comm_4_bw.pt"), open("comm_4_fw.pt")}, []string{"comm_4_bw.pt: a backward net"}},
		{[3]File{open("comm_4_fw.pt"), open("compute.pt"), open("comm_4_bw.pt")}, []string{"comm_4_fw.pt: "}},
		{[3]File{open("compute.pt"), open("comm_4_fw.pt"), {"one.json", strings.NewReader(onesNet)}}, []string{"comm_4_fw.pt is for 4 devices, one.json for 1"}},
	} {
		_, err := Load(c.files[0], c.files[1], c.files[2])
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %s, %s: got error %v, want one with %q", c.files[0].Name, c.files[1].Name, c.files[2].Name, err, want)
			}
		}
	}
}

func TestTextFiles(t *testing.T) {
	tasks := func(s string) error { _, err := ReadTasks("f", strings.NewReader(s)); return err }
	results := func(s string) error { _, err := ReadResults("f", strings.NewReader(s)); return err }
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("1 4")); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		read  func(string) error
		input string
		want  []string // none: no error
	}{
		{tasks, "1,2 4,8\n\n3 16\n", nil},
		{tasks, packed.String(), nil},
		{tasks, packed.String()[:20], []string{"f: "}},
		{tasks, "", []string{"f: 0 tasks"}},
		{tasks, "1,2 4,8\n1,2 4\n1 x\n1\n-1 4\n1 6\n", []string{`f:3: "x" is not a list of integers`}},
		{tasks, "1,2 4,8\n1,2 4\n", []string{"f: task 1: 2 table ids and 1 dims"}},
		{tasks, "1\n", []string{"f:1: got 1 fields"}},
		{tasks, "-1 4\n", []string{"f: task 0: table id -1"}},
		{tasks, "1 6\n", []string{"f: task 0: dim 6"}},
		{tasks, `{"tasks": [{"table_ids": [1], "dims": [4]}]}`, nil},
		{tasks, "{\"tasks\": [\n{\"table_ids\": [1], \"dims\": [4]},\n{\"table_ids\": [1], \"dims\": []}]}", []string{"f: task 1: 1 table ids and 0 dims"}},
		{tasks, "{\"tasks\": 3}", []string{"f: json"}},
		{tasks, `{"ndevices": -1, "tasks": [{"table_ids": [1], "dims": [4]}]}`, []string{"f: ndevices: -1"}},
		{results, `[{"task": 1, "shards": [[0]]}]`, nil},
		{results, `[]`, []string{"f: 0 results"}},
		{results, `{}`, []string{"f: json"}},
		{results, `[{"task": 1}, {"task": -1}]`, []string{"f: result 1: task -1"}},
	} {
		err := c.read(c.input)
		if (err == nil) != (c.want == nil) {
			t.Errorf("%q: got error %v, want %q", c.input, err, c.want)
		}
		for _, want := range c.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got error %q, want it to hold %q", c.input, err, want)
			}
		}
	}
}

// seeds returns the real checkpoints, cut and changed.
func seeds(f *testing.F) {
	random := rand.New(rand.NewPCG(9, 9))
	for _, name := range []string{"compute.pt", "comm_4_bw.pt"} {
		data := must.Get(os.ReadFile(filepath.Join("testdata", "models", name)))(f)
		f.Add(data)
		f.Add(data[:len(data)/2])
		f.Add(data[len(data)/2:])
		for range 6 {
			changed := bytes.Clone(data)
			for range 3 {
				changed[random.IntN(1500)] ^= 1 << random.IntN(8)
			}
			f.Add(changed)
		}
	}
	f.Add(archiveOf("}" + text("feature_means") + tensorOf(storageOf("0", 4), "K\x00", "K\x04\x85", "K\x01\x85") + "s."))
	f.Add(archiveOf("cos\nsystem\n(" + text("id") + "tR."))
	f.Add([]byte(onesNet))
}

// What is read, from whatever bytes, predicts finite numbers.
func FuzzReadCheckpoint(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if n, err := ReadComputeNet("f", bytes.NewReader(data)); err == nil {
			finite(t, n.Predict([]Vector{{}, {19: 1e12}}))
		}
		if n, err := ReadCommNet("f", bytes.NewReader(data)); err == nil {
			dims, starts := make([]float64, n.Devices), []float64(nil)
			if n.Sleeps {
				starts = make([]float64, n.Devices)
			}
			finite(t, n.Predict(dims, starts)...)
		}
	})
}

func FuzzReadTasks(f *testing.F) {
	f.Add([]byte("1,2 4,8\n3 16\n"))
	f.Add([]byte("{\"setting\": \"s\", \"ndevices\": 4, \"tasks\": [\n{\"table_ids\": [1], \"dims\": [4]}]}"))
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := ReadTasks("f", bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, task := range file.Tasks {
			if len(task.Dims) == 0 || len(task.Dims) != len(task.TableIDs) {
				t.Errorf("got %d ids and %d dims, want equal numbers", len(task.TableIDs), len(task.Dims))
			}
		}
	})
}

func finite(t *testing.T, values ...float64) {
	t.Helper()
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("got %v, want a finite number", v)
		}
	}
}
