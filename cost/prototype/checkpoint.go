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

	"github.com/neuroshard/neuroshard/internal/torchfile"
)

// A PyTorch checkpoint is a zip file of one folder. data.pkl is a pickle that
// describes tensors; data/0, data/1, ... hold the tensors' numbers, little-endian.
//
//	NAME/data.pkl --> torchfile: dicts, lists and tensors; no code is run
//	NAME/data/K   <-- a tensor is a part of storage K, of a stated size

// readCheckpoint reads a net from a checkpoint: a dict with "state_dict", the
// standardisation ("feature_means" and "feature_stds") and, in a comm net, "ndevices".
func readCheckpoint(data []byte) (*content, error) {
	archive, err := openArchive(data)
	if err != nil {
		return nil, err
	}
	program, err := archive.read("data.pkl", torchfile.MaxBytes)
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
	top, ok := value.(*torchfile.Dict)
	if !ok {
		return nil, errors.New("the checkpoint does not hold a dict")
	}
	c := &content{tensors: map[string]tensor{}}
	for i := 0; i+1 < len(top.Items) && err == nil; i += 2 {
		switch value := top.Items[i+1]; top.Items[i] {
		case "state_dict":
			err = archive.state(c, value)
		case "feature_means":
			c.means, err = archive.tensor("feature_means", value)
		case "feature_stds":
			c.stds, err = archive.tensor("feature_stds", value)
		case "ndevices":
			devices, _ := value.(int64)
			c.devices = int(devices)
		}
	}
	return c, err
}

// archive is the zip file of a checkpoint.
type archive struct {
	files  *zip.Reader
	folder string
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
	for _, f := range z.File {
		if folder, name := path.Split(f.Name); name == "data.pkl" {
			return &archive{files: z, folder: folder, loaded: map[string][]float32{}, left: maxElements}, nil
		}
	}
	return nil, errors.New("no NAME/data.pkl inside: is it a file written by torch.save?")
}

// read returns the bytes of a file. It fails if the file has more than most bytes.
func (a *archive) read(name string, most int) ([]byte, error) {
	f, err := a.files.Open(a.folder + name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > most {
		return nil, fmt.Errorf("%s: more than %d bytes", name, most)
	}
	return data, nil
}

// state reads the tensors of a net's layers.
func (a *archive) state(c *content, value any) error {
	state, ok := value.(*torchfile.Dict)
	if !ok {
		return errors.New("state_dict is not a dict")
	}
	for i := 0; i+1 < len(state.Items); i += 2 {
		name, _ := state.Items[i].(string)
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
		return tensor{}, fmt.Errorf("%q is not a tensor", name)
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

// numbers returns the numbers of a storage.
func (a *archive) numbers(s *torchfile.Storage) ([]float32, error) {
	if data, ok := a.loaded[s.Key]; ok {
		return data, nil
	}
	if a.left -= s.Count; a.left < 0 {
		return nil, fmt.Errorf("more than %d numbers: not one of the prototype's nets", maxElements)
	}
	size := int(4 * s.Count)
	raw, err := a.read("data/"+s.Key, size)
	if err != nil {
		return nil, err
	}
	if len(raw) != size {
		return nil, fmt.Errorf("storage %.100q: %d bytes, want %d", s.Key, len(raw), size)
	}
	data := make([]float32, s.Count)
	for i := range data {
		data[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	a.loaded[s.Key] = data
	return data, nil
}
