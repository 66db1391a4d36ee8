package prototype

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strings"

	"github.com/neuroshard/neuroshard/internal/torchfile"
)

// A PyTorch checkpoint is a zip file of one folder. data.pkl is a pickle that
// describes tensors; data/0, data/1, ... hold the tensors' numbers, little-endian.
//
//	NAME/data.pkl --> torchfile: dicts, lists and tensors; no code is run
//	NAME/data/K   <-- a tensor is a part of storage K, of a stated size

// The bounds of a checkpoint.
const (
	maxPickleBytes = torchfile.MaxBytes
	maxEntries     = 4096
)

// readCheckpoint reads a net from a checkpoint: a dict with "state_dict", the
// standardisation ("feature_means" and "feature_stds") and, in a comm net, "ndevices".
func readCheckpoint(name string, data []byte) (*content, error) {
	c, err := contentOf(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

func contentOf(data []byte) (*content, error) {
	archive, err := openArchive(data)
	if err != nil {
		return nil, err
	}
	program, err := archive.read("data.pkl", maxPickleBytes)
	if err != nil {
		return nil, err
	}
	u := torchfile.Unpickler{
		In:       bufio.NewReader(bytes.NewReader(program)),
		Content:  "checkpoint of this net",
		Types:    map[torchfile.Global]int64{"torch FloatStorage": 4},
		TypeHint: "the tensors of a net are float32",
	}
	value, err := u.Load()
	if err != nil {
		return nil, fmt.Errorf("data.pkl: %w", err)
	}
	return archive.content(value)
}

// content takes what a net needs from a checkpoint's value.
func (a *archive) content(value any) (*content, error) {
	top, ok := value.(*torchfile.Dict)
	if !ok {
		return nil, errors.New("the checkpoint does not hold a dict")
	}
	c := &content{tensors: map[string]tensor{}}
	for i := 0; i+1 < len(top.Items); i += 2 {
		key, value := top.Items[i], top.Items[i+1]
		var err error
		switch key {
		case "state_dict":
			err = a.state(c, value)
		case "feature_means":
			c.means, err = a.tensor("feature_means", value)
		case "feature_stds":
			c.stds, err = a.tensor("feature_stds", value)
		case "ndevices":
			devices, ok := value.(int64)
			if !ok {
				err = errors.New("ndevices is not an integer")
			}
			c.devices = int(devices)
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// state reads the tensors of a net's layers.
func (a *archive) state(c *content, value any) error {
	state, ok := value.(*torchfile.Dict)
	if !ok {
		return errors.New("state_dict is not a dict")
	}
	for i := 0; i+1 < len(state.Items); i += 2 {
		name, isText := state.Items[i].(string)
		if _, isTensor := state.Items[i+1].(*torchfile.Tensor); !isText || !isTensor {
			return errors.New("state_dict holds a value that is not a tensor with a name")
		}
		t, err := a.tensor(name, state.Items[i+1])
		if err != nil {
			return err
		}
		c.tensors[name] = t
	}
	return nil
}

// tensor returns the numbers of a tensor.
func (a *archive) tensor(name string, value any) (tensor, error) {
	view, ok := value.(*torchfile.Tensor)
	if !ok {
		return tensor{}, fmt.Errorf("%s is not a tensor", name)
	}
	data, err := a.numbers(view.Storage)
	if err != nil {
		return tensor{}, err
	}
	shape := make([]int, len(view.Shape))
	for i, n := range view.Shape {
		shape[i] = int(n)
	}
	first, end := view.First, view.First+view.Count
	return tensor{shape, data[first:end:end]}, nil
}

// short shortens a text from a file, so that an error can quote it.
func short(s string) string {
	if len(s) > 300 {
		return s[:300] + "..."
	}
	return s
}

// archive is the zip file of a checkpoint.
type archive struct {
	// files holds the files by their names inside the checkpoint's folder.
	files map[string]*zip.File
	// loaded holds the numbers of storages by key. left is the number of numbers that
	// may still be loaded.
	loaded map[string][]float32
	left   int64
}

func openArchive(data []byte) (*archive, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	if len(z.File) > maxEntries {
		return nil, fmt.Errorf("%d files inside: a checkpoint of this net has at most %d", len(z.File), maxEntries)
	}
	a := &archive{files: map[string]*zip.File{}, loaded: map[string][]float32{}, left: maxElements}
	folder := ""
	for _, f := range z.File {
		if dir, name := path.Split(f.Name); name == "data.pkl" {
			if folder != "" {
				return nil, errors.New("two files data.pkl inside")
			}
			folder = dir
		}
	}
	if folder == "" {
		return nil, errors.New("no NAME/data.pkl inside: is it a file written by torch.save?")
	}
	for _, f := range z.File {
		if name, ok := strings.CutPrefix(f.Name, folder); ok {
			if a.files[name] != nil {
				return nil, fmt.Errorf("file %q occurs twice inside", f.Name)
			}
			a.files[name] = f
		}
	}
	if a.files["byteorder"] != nil {
		if order, err := a.read("byteorder", 16); err != nil || string(order) != "little" {
			return nil, errors.New("its numbers are not little-endian")
		}
	}
	return a, nil
}

// read returns the bytes of a file. It fails if the file has more than most bytes.
func (a *archive) read(name string, most int) ([]byte, error) {
	f := a.files[name]
	if f == nil {
		return nil, fmt.Errorf("no file %q inside", name)
	}
	if f.UncompressedSize64 > uint64(most) {
		return nil, fmt.Errorf("%s: %d bytes, want at most %d", name, f.UncompressedSize64, most)
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > most {
		return nil, fmt.Errorf("%s: more than %d bytes", name, most)
	}
	return data, nil
}

// numbers returns the numbers of a storage.
func (a *archive) numbers(s *torchfile.Storage) ([]float32, error) {
	if data, ok := a.loaded[s.Key]; ok {
		return data, nil
	}
	if s.Count > a.left {
		return nil, fmt.Errorf("more than %d numbers: not one of the prototype's nets", maxElements)
	}
	size := int(4 * s.Count)
	raw, err := a.read("data/"+s.Key, size)
	if err != nil {
		return nil, err
	}
	if len(raw) != size {
		return nil, fmt.Errorf("storage %q: %d bytes, want %d", short(s.Key), len(raw), size)
	}
	a.left -= s.Count
	data := make([]float32, s.Count)
	for i := range data {
		data[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	a.loaded[s.Key] = data
	return data, nil
}
