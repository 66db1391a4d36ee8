package prototype

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/nlpodyssey/gopickle/pickle"
	"github.com/nlpodyssey/gopickle/types"
)

// A PyTorch checkpoint is a zip file of one folder: data.pkl, a pickle that
// names tensors, and data/0, data/1, ..., their numbers, little-endian.
//
//	NAME/data.pkl --> scan: known opcodes only, all lengths inside the file
//	              --> gopickle: rebuilds dicts, lists and tensors
//	NAME/data/K   <-- a tensor asks for storage K, of a stated size
//
// A pickle is a program for a small stack machine, and Python's runs whatever
// it names. Here nothing is run: the only globals are the three below, which
// build an ordered dict, a tensor and name its kind of number. The scan comes
// first, so that the unpickler never sees an opcode, a length or a global that
// torch.save does not write for such a file.

// The bounds of a checkpoint.
const (
	maxPickleBytes = 1 << 20
	maxOpcodes     = 100_000
	maxMarks       = 64
	maxEntries     = 4096
	maxRank        = 4
)

// The globals that a checkpoint may name.
const (
	orderedDict   = "collections OrderedDict"
	rebuildTensor = "torch._utils _rebuild_tensor_v2"
	floatStorage  = "torch FloatStorage"
)

// readCheckpoint reads a net from a checkpoint: a dict of the "state_dict", the
// standardisation and, in a comm net, "ndevices".
func readCheckpoint(name string, data []byte) (*content, error) {
	value, err := unpickle(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c, err := stateOf(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// stateOf takes what a net needs from a checkpoint's value.
func stateOf(value any) (*content, error) {
	top, ok := value.(*types.Dict)
	if !ok {
		return nil, errors.New("the checkpoint holds no dict")
	}
	c := &content{tensors: map[string]tensor{}}
	for _, e := range *top {
		switch e.Key {
		case "state_dict":
			state, ok := e.Value.(*types.OrderedDict)
			if !ok {
				return nil, errors.New("state_dict is no ordered dict")
			}
			for at := state.List.Front(); at != nil; at = at.Next() {
				entry, ok := at.Value.(*types.OrderedDictEntry)
				if !ok {
					return nil, errors.New("state_dict is damaged")
				}
				name, isText := entry.Key.(string)
				t, isTensor := entry.Value.(*tensor)
				if !isText || !isTensor {
					return nil, errors.New("state_dict holds something that is no tensor with a name")
				}
				c.tensors[name] = *t
			}
		case "feature_means", "feature_stds":
			t, ok := e.Value.(*tensor)
			if !ok {
				return nil, fmt.Errorf("%v is no tensor", e.Key)
			}
			if e.Key == "feature_means" {
				c.means = *t
			} else {
				c.stds = *t
			}
		case "ndevices":
			if c.devices, ok = e.Value.(int); !ok {
				return nil, errors.New("ndevices is no integer")
			}
		}
	}
	return c, nil
}

// unpickle rebuilds the value of a checkpoint. It returns an error, and never
// panics, whatever the bytes.
func unpickle(data []byte) (value any, err error) {
	defer func() {
		// gopickle indexes without checks in places, such as a dict's odd items.
		if p := recover(); p != nil {
			value, err = nil, fmt.Errorf("data.pkl is damaged: %v", p)
		}
	}()
	archive, err := openArchive(data)
	if err != nil {
		return nil, err
	}
	program, err := archive.read("data.pkl", maxPickleBytes)
	if err != nil {
		return nil, err
	}
	if err := scanPickle(program); err != nil {
		return nil, fmt.Errorf("data.pkl: %w", err)
	}
	u := pickle.NewUnpickler(bytes.NewReader(program))
	u.FindClass = func(module, name string) (any, error) {
		switch module + " " + name {
		case rebuildTensor:
			return rebuilder{}, nil
		case floatStorage:
			return floats{}, nil
		}
		return nil, fmt.Errorf("names %q, which no checkpoint needs", module+"."+name)
	}
	u.PersistentLoad = archive.storage
	value, err = u.Load()
	if err != nil {
		return nil, fmt.Errorf("data.pkl: %s", short(err.Error()))
	}
	return value, nil
}

// short cuts a message that quotes a whole file.
func short(s string) string {
	if len(s) > 300 {
		return s[:300] + "..."
	}
	return s
}

// archive is the zip file of a checkpoint, by the names inside its folder.
type archive struct {
	files map[string]*zip.File
	// loaded are the storages by name; left is how many numbers may still come.
	loaded map[string]*storage
	left   int
}

// storage is a list of numbers that tensors are views of.
type storage struct{ data []float32 }

// floats is the kind of a storage's numbers.
type floats struct{}

func openArchive(data []byte) (*archive, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	if len(z.File) > maxEntries {
		return nil, fmt.Errorf("%d files inside: a checkpoint of this net has at most %d", len(z.File), maxEntries)
	}
	a := &archive{files: map[string]*zip.File{}, loaded: map[string]*storage{}, left: maxElements}
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

// read returns a file's bytes, at most most of them.
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

// storage answers a persistent id: ("storage", kind, name, place, size).
func (a *archive) storage(id any) (any, error) {
	t, ok := id.(*types.Tuple)
	if !ok || t.Len() != 5 || t.Get(0) != any("storage") {
		return nil, errors.New("a persistent id that is no storage")
	}
	_, isFloats := t.Get(1).(floats)
	key, isText := t.Get(2).(string)
	size, isInt := t.Get(4).(int)
	if !isFloats || !isText || !isInt || size < 0 {
		return nil, errors.New("a storage without name, size or float32 numbers")
	}
	if s := a.loaded[key]; s != nil {
		if len(s.data) != size {
			return nil, fmt.Errorf("storage %q: two sizes, %d and %d", key, len(s.data), size)
		}
		return s, nil
	}
	if size > a.left {
		return nil, fmt.Errorf("more than %d numbers: not one of the prototype's nets", maxElements)
	}
	raw, err := a.read("data/"+key, 4*size)
	if err != nil {
		return nil, err
	}
	if len(raw) != 4*size {
		return nil, fmt.Errorf("storage %q: %d bytes, want %d", key, len(raw), 4*size)
	}
	a.left -= size
	s := &storage{data: make([]float32, size)}
	for i := range s.data {
		s.data[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	a.loaded[key] = s
	return s, nil
}

// rebuilder stands for torch._utils._rebuild_tensor_v2.
type rebuilder struct{}

// Call makes a tensor of (storage, offset, shape, strides, requires_grad,
// hooks).
func (rebuilder) Call(args ...any) (any, error) {
	if len(args) != 6 {
		return nil, fmt.Errorf("a tensor of %d arguments, want 6", len(args))
	}
	s, isStorage := args[0].(*storage)
	offset, isInt := args[1].(int)
	shape, err1 := integers(args[2])
	strides, err2 := integers(args[3])
	if !isStorage || !isInt || err1 != nil || err2 != nil || len(shape) != len(strides) {
		return nil, errors.New("a tensor without storage, shape or strides")
	}
	size := 1
	for i, n := range slices.Backward(shape) {
		// The prototype's tensors are whole; a dimension of one has any stride.
		if n > 1 && strides[i] != size {
			return nil, fmt.Errorf("a tensor of shape %v with strides %v, which is not stored row by row", shape, strides)
		}
		if n < 0 || n > maxElements || size*n > maxElements {
			return nil, fmt.Errorf("a tensor of shape %v: more than %d numbers", shape, maxElements)
		}
		size *= n
	}
	if offset < 0 || offset > len(s.data) || size > len(s.data)-offset {
		return nil, fmt.Errorf("a tensor of %d numbers from %d on in a storage of %d", size, offset, len(s.data))
	}
	return &tensor{shape, s.data[offset : offset+size : offset+size]}, nil
}

func integers(v any) ([]int, error) {
	t, ok := v.(*types.Tuple)
	if !ok || t.Len() > maxRank {
		return nil, errors.New("no tuple of few integers")
	}
	list := make([]int, t.Len())
	for i := range list {
		if list[i], ok = t.Get(i).(int); !ok {
			return nil, errors.New("no integer")
		}
	}
	return list, nil
}

// argument is what follows an opcode: a number of bytes, or one of the below.
type argument int8

const (
	unknown  argument = iota - 3
	twoLines          // GLOBAL: a module and a name
	counted           // a length of four bytes, and as many bytes
)

// opcodes are those that torch.save writes for dicts of tensors, lists and
// numbers with pickle protocol 2 (Python's pickletools lists them all).
var opcodes = func() (known [256]argument) {
	for i := range known {
		known[i] = unknown
	}
	for _, op := range []byte("(.)]}NQRabestu\x85\x86\x87\x88\x89") { // no argument
		known[op] = 0
	}
	known[0x80] = 1                                             // PROTO
	known['K'], known['M'], known['J'], known['G'] = 1, 2, 4, 8 // numbers
	known['h'], known['j'], known['q'], known['r'] = 1, 4, 1, 4 // memo
	known['X'], known['c'] = counted, twoLines                  // text, GLOBAL
	return known
}()

// scanPickle checks a pickle before anything is rebuilt from it.
func scanPickle(program []byte) error {
	at, marks := 0, 0
	for count := 0; ; count++ {
		if at >= len(program) {
			return errors.New("it ends early")
		}
		if count > maxOpcodes {
			return fmt.Errorf("more than %d opcodes", maxOpcodes)
		}
		op, start := program[at], at
		at++
		rest := program[at:]
		size := int(opcodes[op])
		switch opcodes[op] {
		case unknown:
			return fmt.Errorf("byte %d: opcode %#02x, which no checkpoint needs", start, op)
		case counted:
			if len(rest) < 4 {
				return errors.New("it ends early")
			}
			length := binary.LittleEndian.Uint32(rest)
			if uint64(length) > uint64(len(rest)-4) {
				return fmt.Errorf("byte %d: a text of %d bytes, which is behind its end", start, length)
			}
			size = 4 + int(length)
		case twoLines:
			module, tail, ok1 := bytes.Cut(rest, []byte{'\n'})
			name, _, ok2 := bytes.Cut(tail, []byte{'\n'})
			if !ok1 || !ok2 {
				return errors.New("it ends early")
			}
			switch global := string(module) + " " + string(name); global {
			case orderedDict, rebuildTensor, floatStorage:
			default:
				return fmt.Errorf("byte %d: it names %q, which no checkpoint of this net needs: refused, nothing was run", start, short(global))
			}
			size = len(module) + len(name) + 2
		}
		if size > len(rest) {
			return errors.New("it ends early")
		}
		at += size
		switch op {
		case '(':
			if marks++; marks > maxMarks {
				return fmt.Errorf("nested deeper than %d", maxMarks)
			}
		case 't', 'u', 'e':
			marks--
		case '.':
			return nil
		}
	}
}
