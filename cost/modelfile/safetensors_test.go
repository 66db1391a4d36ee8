package modelfile

import (
	"bytes"
	"encoding/binary"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
)

// file returns a safetensors file of that header and those values.
func file(header string, values ...float32) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	out = append(out, header...)
	for _, v := range values {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}

// The bytes of a file, one by one: the format is not ours to change.
func TestEncode(t *testing.T) {
	got := must.Get(encode([]Tensor{{"b", []int{1, 2}, []float32{1, -2}}, {"a", nil, []float32{0.5}}}))(t)
	header := `{"a":{"dtype":"F32","shape":[],"data_offsets":[8,12]},"b":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}`
	for len(header)%8 != 0 {
		header += " "
	}
	want := append([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}, header...)
	want = append(want, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0, 0x3f)
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// A file as huggingface/safetensors writes it: metadata, spaces, another order.
func TestDecode(t *testing.T) {
	got := must.Get(decode(file(`{"__metadata__": {"format":"pt"}, "z": {"dtype":"F32", "shape":[2], "data_offsets":[4,12]}, "empty": {"dtype":"F32","shape":[0,7],"data_offsets":[4,4]},
		"y": {"data_offsets":[0,4], "shape":[1,1], "dtype":"F32"} }   `, 1, 2, 3)))(t)
	want := []Tensor{{"y", []int{1, 1}, []float32{1}}, {"empty", []int{0, 7}, nil}, {"z", []int{2}, []float32{2, 3}}}
	if len(got) != len(want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for i := range want {
		if !sameTensor(got[i], want[i]) {
			t.Errorf("got tensor %+v, want %+v", got[i], want[i])
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	const one = `"dtype":"F32","shape":[1],"data_offsets":[0,4]`
	long := binary.LittleEndian.AppendUint64(nil, math.MaxUint64)
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"nothing", nil, "0 bytes are too few for a header"},
		{"half a length", make([]byte, 7), "7 bytes are too few for a header"},
		{"a header beyond the file", append(binary.LittleEndian.AppendUint64(nil, 3), '{', '}'), "a header of 3 bytes in a file of 10"},
		{"a header beyond memory", append(long, '{', '}'), "a header of 18446744073709551615 bytes in a file of 10"},
		{"no header", file(""), "safetensors header: "},
		{"no JSON", file("{]"), "safetensors header: "},
		{"two headers", file("{}{}"), "safetensors header: "},
		{"a list", file("[]"), "safetensors header: "},
		{"an entry that is no object", file(`{"a":3}`), `tensor "a": `},
		{"an unknown field", file(`{"a":{`+one+`,"stride":1}}`, 1), `unknown field "stride"`},
		{"another dtype", file(`{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}`, 1), `dtype "F16" is not F32`},
		{"no dtype", file(`{"a":{"shape":[1],"data_offsets":[0,4]}}`, 1), `dtype "" is not F32`},
		{"no offsets", file(`{"a":{"dtype":"F32","shape":[0]}}`), `0 data offsets, want 2`},
		{"three offsets", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}`, 1), `3 data offsets, want 2`},
		{"a null entry", file(`{"a":null}`), "0 data offsets"},
		{"overlap", file(`{"a":{`+one+`},"b":{`+one+`}}`, 1), `tensor "b": offsets [0 4] do not fit shape [1] at byte 4 of 4`},
		{"partial overlap", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`, 1, 2, 3), `tensor "b": offsets [4 12] do not fit`},
		{"a gap", file(`{"a":{`+one+`},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`, 1, 2, 3), `tensor "b": offsets [8 12] do not fit`},
		{"not from the start", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 1, 2), `tensor "a": offsets [4 8] do not fit`},
		{"data after the end", file(`{"a":{`+one+`}}`, 1, 2), "4 bytes follow the last tensor"},
		{"data and no tensor", file(`{}`, 1), "4 bytes follow the last tensor"},
		{"too little data", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 1), "do not fit shape [2] at byte 0 of 4"},
		{"offsets of another size", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 1), "do not fit shape [2]"},
		{"a begin that does not matter", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[1,4]}}`, 1), "offsets [1 4] do not fit shape [1]"},
		{"offsets backwards", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, 1), "offsets [4 0] do not fit"},
		{"negative offsets", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, 1), "offsets [-4 0] do not fit"},
		{"a negative shape", file(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 1), "shape [-1] is not possible"},
		{"negatives that multiply to one", file(`{"a":{"dtype":"F32","shape":[-1,-1],"data_offsets":[0,4]}}`, 1), "shape [-1 -1] is not possible"},
		{"a huge shape", file(`{"a":{"dtype":"F32","shape":[9223372036854775807],"data_offsets":[0,4]}}`, 1), "is not possible"},
		{"a shape that overflows to one", file(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`), "is not possible"},
		{"a shape beyond int", file(`{"a":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4]}}`, 1), `tensor "a": `},
		{"large dims within a limit each", file(`{"a":{"dtype":"F32","shape":[67108864,67108864,67108864],"data_offsets":[0,4]}}`, 1), "is not possible"},
		{"the largest shape, no data", file(`{"a":{"dtype":"F32","shape":[67108864],"data_offsets":[0,268435456]}}`), "do not fit shape"},
		{"not a number", file(`{"a":{`+one+`}}`, nan), `tensor "a": a value is not finite`},
		{"infinite", file(`{"a":{`+one+`}}`, inf), `tensor "a": a value is not finite`},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := decode(c.file)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q in it", c.name, err, c.want)
		}
		if got != nil {
			t.Errorf("%s: got tensors %+v beside the error", c.name, got)
		}
		// A few hundred bytes of file may not claim memory.
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
			t.Errorf("%s: got %d bytes allocated, want little for a file of %d", c.name, used, len(c.file))
		}
	}
}

func FuzzDecode(f *testing.F) {
	good := must.Get(encode(sample().Tensors))(f)
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(file(`{}`))
	f.Add(file(`null`))
	f.Add(file(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`))
	f.Add(file(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 1))
	f.Add(file(`{"\u00e9":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"__metadata__":{}}`, -0.5))
	f.Fuzz(func(t *testing.T, data []byte) {
		tensors, err := decode(data)
		if err != nil {
			return
		}
		total := 0
		for _, tensor := range tensors {
			total += 4 * len(tensor.Data)
			if size, err := elements(tensor.Shape); err != nil || size != len(tensor.Data) || !finite(tensor.Data) {
				t.Fatalf("tensor %q: got %d values for shape %v", tensor.Name, len(tensor.Data), tensor.Shape)
			}
		}
		if total > len(data) {
			t.Fatalf("got %d bytes of tensors from a file of %d", total, len(data))
		}
		again := must.Get(encode(tensors))(t)
		back, err := decode(again)
		if err != nil || len(back) != len(tensors) {
			t.Fatalf("got %d tensors, %v, after writing %d", len(back), err, len(tensors))
		}
		for i := range back {
			if !sameTensor(back[i], tensors[i]) {
				t.Fatalf("got tensor %+v after writing %+v", back[i], tensors[i])
			}
		}
	})
}
