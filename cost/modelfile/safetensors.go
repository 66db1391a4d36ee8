package modelfile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
)

// A safetensors file is
//
//	8 bytes   n, little-endian
//	n bytes   JSON: {"name": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, ...}
//	rest      the tensors' bytes, little-endian, without gaps
//
// This package writes and reads dtype F32 only.

type header struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets []int  `json:"data_offsets"`
}

const metadataKey = "__metadata__"

// encode returns the tensors as a safetensors file. The header is padded with
// spaces to a multiple of eight bytes.
func encode(tensors []Tensor) ([]byte, error) {
	headers := map[string]header{}
	at := 0
	for _, t := range tensors {
		size, err := elements(t.Shape)
		if err != nil || size != len(t.Data) {
			return nil, fmt.Errorf("tensor %q: %d values do not fill shape %v", t.Name, len(t.Data), t.Shape)
		}
		if _, ok := headers[t.Name]; ok || t.Name == metadataKey {
			return nil, fmt.Errorf("tensor name %q is used twice or reserved", t.Name)
		}
		if !finite(t.Data) {
			return nil, fmt.Errorf("tensor %q: a value is not finite", t.Name)
		}
		headers[t.Name] = header{"F32", append([]int{}, t.Shape...), []int{at, at + 4*size}}
		at += 4 * size
	}
	if at > maxFileBytes {
		return nil, fmt.Errorf("the tensors take %d bytes: more than the %d of a model file", at, maxFileBytes)
	}
	text, err := json.Marshal(headers)
	if err != nil {
		return nil, err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	out = append(out, text...)
	for _, t := range tensors {
		for _, v := range t.Data {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
	}
	return out, nil
}

// decode reads a safetensors file. Tensors come in the order of their data, those
// without elements before others at the same place and by name.
func decode(file []byte) ([]Tensor, error) {
	if len(file) < 8 {
		return nil, fmt.Errorf("safetensors: %d bytes are too few for a header", len(file))
	}
	length := binary.LittleEndian.Uint64(file)
	if length > uint64(len(file)-8) {
		return nil, fmt.Errorf("safetensors: a header of %d bytes in a file of %d", length, len(file))
	}
	raw := map[string]json.RawMessage{}
	if err := json.Unmarshal(file[8:8+length], &raw); err != nil {
		return nil, fmt.Errorf("safetensors header: %w", err)
	}
	delete(raw, metadataKey)
	data := file[8+length:]
	entries, err := readEntries(raw)
	if err != nil {
		return nil, err
	}
	tensors := make([]Tensor, 0, len(entries))
	at := 0
	for _, e := range entries {
		size, err := elements(e.Shape)
		if err != nil {
			return nil, fmt.Errorf("safetensors tensor %q: %w", e.name, err)
		}
		if e.DType != "F32" {
			return nil, fmt.Errorf("safetensors tensor %q: dtype %q is not F32", e.name, e.DType)
		}
		if e.Offsets[0] != at || e.Offsets[1] != at+4*size || e.Offsets[1] > len(data) {
			return nil, fmt.Errorf("safetensors tensor %q: offsets %v do not fit shape %v at byte %d of %d", e.name, e.Offsets, e.Shape, at, len(data))
		}
		t := Tensor{Name: e.name, Shape: e.Shape, Data: make([]float32, size)}
		for i := range t.Data {
			t.Data[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[at+4*i:]))
		}
		if !finite(t.Data) {
			return nil, fmt.Errorf("safetensors tensor %q: a value is not finite", e.name)
		}
		at = e.Offsets[1]
		tensors = append(tensors, t)
	}
	if at != len(data) {
		return nil, fmt.Errorf("safetensors: %d bytes follow the last tensor", len(data)-at)
	}
	return tensors, nil
}

// entry is the header of one tensor, and its name.
type entry struct {
	name string
	header
}

// readEntries returns the tensors' headers in the order of their data.
func readEntries(raw map[string]json.RawMessage) ([]entry, error) {
	entries := make([]entry, 0, len(raw))
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		text, e := raw[name], entry{name: name}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&e.header); err != nil {
			return nil, fmt.Errorf("safetensors tensor %q: %w", name, err)
		}
		if len(e.Offsets) != 2 {
			return nil, fmt.Errorf("safetensors tensor %q: %d data offsets, want 2", name, len(e.Offsets))
		}
		entries = append(entries, e)
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return slices.Compare(a.Offsets, b.Offsets) })
	return entries, nil
}

// elements returns the number of elements of a shape.
func elements(shape []int) (int, error) {
	n := 1
	for _, d := range shape {
		if d < 0 || d > maxFileBytes || n*d > maxFileBytes {
			return 0, fmt.Errorf("shape %v is not possible in a file of %d bytes", shape, maxFileBytes)
		}
		n *= d
	}
	return n, nil
}
