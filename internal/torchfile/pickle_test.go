package torchfile

import (
	"bufio"
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"
)

func unpickle(data string) (any, error) {
	u := &Unpickler{
		In:      bufio.NewReader(strings.NewReader(data)),
		Content: "file of three tensors",
		Types:   map[Global]int64{"torch LongStorage": 8}, TypeHint: "want int64",
	}
	return u.Load()
}

func TestBadPickles(t *testing.T) {
	const (
		store   = "(X\x07\x00\x00\x00storagectorch\nLongStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x0atQ"
		rebuild = "ctorch._utils\n_rebuild_tensor_v2\n("
	)
	for _, test := range []struct{ pickle, want string }{
		{"", "ends early"},
		{".", "more values than it holds"},
		{"\x80\x01.", "pickle protocol 1, want from 2 to 5"},
		{"\x80\x02cos\nsystem\nX\x04\x00\x00\x00ls -\x85R.", `byte 2 of the pickle: it names "os.system"`},
		{"X\x02\x00\x00\x00osX\x06\x00\x00\x00system\x93.", `it names "os.system"`},
		{"K\x01K\x02\x93.", "a name that is not a text"},
		{"K\x01\x81.", "opcode 0x81, which no file of three tensors needs: refused, nothing was run"},
		{"X\xff\xff\xff\x7f.", "a text of 2147483647 bytes"},
		{"c" + strings.Repeat("a", 5000) + "\n", "a name of more than 4096 bytes"},
		{"c\n", "ends early"},
		{strings.Repeat("N", 5000), "more values than tensors need"},
		{strings.Repeat("N0", 70000), "more than 65536 opcodes"},
		{strings.Repeat("\x8a\xff"+strings.Repeat("\x01", 255)+"0", 5000), "more than 1048576 bytes"},
		{"h\x05.", "it fetches value 5, which it has not stored"},
		{"q\x05.", "more values than it holds"},
		{"t.", "more values than it holds"},
		{"\x86.", "more values than it holds"},
		{"K\x01K\x02a.", "items for a value that is not a list or dict"},
		{"](K\x01u.", "items for a value that is not a list or dict"},
		{"}(K\x01u.", "items for a value that is not a list or dict"},
		{"K\x01Q.", "a persistent id that is not a storage"},
		{"K\x01)R.", "it calls a value that is not a known function"},
		{"NNb.", "attributes for a value that is not a dict"},
		{"b.", "more values than it holds"},
		{"}b.", "more values than it holds"},
		{"G1234567", "ends early"},
		{"ctorch\nLongStorage\n)R.", "it calls a value that is not a known function"},
		{"ctorch._utils\n_rebuild_tensor_v2\nNR.", "a call without arguments"},
		{rebuild + "tR.", "a tensor of 0 arguments"},
		{rebuild + "NNNNNNtR.", "a tensor without storage, shape or strides"},
		{rebuild + store + "K\x00K\x0b\x85K\x01\x85\x89NtR.", "a tensor of 11 numbers from 0 on in a storage of 10"},
		{rebuild + store + "K\x05K\x06\x85K\x01\x85\x89NtR.", "a tensor of 6 numbers from 5 on in a storage of 10"},
		{rebuild + store + "J\xff\xff\xff\xffK\x01\x85K\x01\x85\x89NtR.", "from -1 on"},
		{rebuild + store + "K\x00K\x05\x85K\x02\x85\x89NtR.", "shape [5] with strides [2]"},
		{rebuild + store + "K\x00K\x05\x85K\x00\x85\x89NtR.", "shape [5] with strides [0]"},
		{rebuild + store + "K\x00(K\x01K\x01K\x01K\x01K\x01tK\x00\x85\x89NtR.", "a tensor without storage, shape or strides"},
		{strings.Replace(store, "LongStorage", "FloatStorage", 1) + ".", "a tensor in a torch.FloatStorage"},
		{strings.Replace(store, "K\x0at", "J\xff\xff\xff\xfft", 1) + ".", "a storage without class, key or size"},
		{store + strings.Replace(store, "K\x0a", "K\x0b", 1) + ".", `storage "0" has two types or sizes`},
		{strings.Replace(store, "K\x0at", "K\x0aK\x01t", 1) + ".", "is a view of another one"},
	} {
		if _, err := unpickle(test.pickle); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.60q: got %v, want %q", test.pickle, err, test.want)
		}
	}
}

func TestValues(t *testing.T) {
	tensor := "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nLongStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x0atQK\x04K\x02K\x03\x86K\x03K\x01\x86\x89NtR."
	for _, test := range []struct {
		pickle string
		want   any
	}{
		{"N.", nil},
		{"\x88.", true},
		{"G?\xf8\x00\x00\x00\x00\x00\x00.", 1.5},
		{"K\x01\x88\x86.", Tuple{int64(1), true}},
		{"](K\x01NeK\x02a.", &List{[]any{int64(1), nil, int64(2)}}},
		{"}K\x01Ns.", &Dict{[]any{int64(1), nil}}},
		{"ccollections\nOrderedDict\n)R(K\x01Nu}b.", &Dict{[]any{int64(1), nil}}},
		{tensor, &Tensor{&Storage{"0", 8, 10}, 4, 6, []int64{2, 3}}},
	} {
		if got, err := unpickle(test.pickle); err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%q: got %#v and %v, want %#v", test.pickle, got, err, test.want)
		}
	}
}

// FuzzLoad reads any bytes: a value or an error, in bounded memory, and no byte
// behind the pickle.
func FuzzLoad(f *testing.F) {
	f.Add([]byte("\x80\x02](K\x01Ne.rest"))
	f.Add([]byte("ccollections\nOrderedDict\n)R(K\x01Nu}b."))
	f.Fuzz(func(t *testing.T, data []byte) {
		u := &Unpickler{In: bufio.NewReader(bytes.NewReader(data)), Types: map[Global]int64{"torch LongStorage": 8}}
		value, err := u.Load()
		if err != nil {
			return
		}
		rest, _ := io.ReadAll(u.In)
		end := len(data) - len(rest)
		if end == 0 || data[end-1] != '.' {
			t.Fatalf("%q: ended at byte %d, which is not behind a stop", data, end)
		}
		if view, ok := value.(*Tensor); ok && (view.First < 0 || view.Count < 0 || view.First+view.Count > view.Storage.Count) {
			t.Fatalf("%q: a tensor outside its storage: %+v", data, view)
		}
	})
}

func TestIntegers(t *testing.T) {
	for _, test := range []struct {
		pickle string
		want   any
	}{
		{"K\xff.", int64(255)},
		{"M\xff\xff.", int64(65535)},
		{"J\xff\xff\xff\xff.", int64(-1)},
		{"J\xff\xff\xff\x7f.", int64(1<<31 - 1)},
		{"\x8a\x00.", int64(0)},
		{"\x8a\x01\xff.", int64(-1)},
		{"\x8a\x02\xff\x00.", int64(255)},
		{"\x8a\x05\x00\x00\x00\x00\x01.", int64(1 << 32)},
		{"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80.", int64(-1 << 63)},
		{"\x8a\x09123456789.", Long("123456789")},
	} {
		if got, err := unpickle(test.pickle); err != nil || got != test.want {
			t.Errorf("%q: got %v and %v, want %v", test.pickle, got, err, test.want)
		}
	}
}
