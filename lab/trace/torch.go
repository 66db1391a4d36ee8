package trace

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/torchfile"
)

// torch.go reads files of torch.save as a stream, from start to end, because a gzip
// file cannot be read in another order. There are two formats.
//
// Since PyTorch 1.6 a file is a zip file of stored entries. Each entry begins with
// a local header whose sizes are 0, because the sizes follow the data. A reader
// must therefore know from another source where the data ends. data.pkl comes
// before the storages and ends with its own last opcode; it holds the sizes of the
// storages; and the few other entries are small enough to search for the end of
// their data.
//
//	NAME/data.pkl       a pickle of the tensors: which storage, which shape
//	NAME/byteorder      "little", since PyTorch 2.1
//	NAME/data/0, ...    the storages, each once
//	NAME/version        and what else comes: not read
//
// The older format is a sequence of pickles: a magic number, a version, facts about
// the system, the tensors, the list of storages. Then come the storages in the
// order of the list, each after its number of numbers.

// torchFile is the stream of a file of tensors, after its first pickles.
type torchFile struct {
	in *stream
	// value is the saved value.
	value    any
	storages map[string]*torchfile.Storage
	// folder is the prefix NAME/ in a zip file.
	folder string
	// keys holds the storages that still follow in a file of the older format.
	keys []string
	zip  bool
	// at is the storage that is being read, rest its remaining bytes, and entry its
	// entry in a zip file.
	at    *torchfile.Storage
	rest  *io.LimitedReader
	entry *entry
	sum   *summed
}

// unpickler returns a reader of the stream's pickles.
func (t *torchFile) unpickler() *torchfile.Unpickler { return newUnpickler(t.in.Reader, t.storages) }

func newUnpickler(in *bufio.Reader, storages map[string]*torchfile.Storage) *torchfile.Unpickler {
	return &torchfile.Unpickler{
		In:       in,
		Content:  "file of three tensors",
		Types:    map[torchfile.Global]int64{"torch IntStorage": 4, "torch LongStorage": 8},
		TypeHint: "indices, offsets and lengths are int32 or int64 tensors",
		Storages: storages,
	}
}

// openTorch reads the stream up to the first storage.
func openTorch(in *stream) (*torchFile, error) {
	start, err := in.Peek(4)
	if err != nil {
		return nil, cut(err)
	}
	t := &torchFile{in: in, storages: map[string]*torchfile.Storage{}, zip: string(start) == zipEntry}
	if t.zip {
		err = t.openZip()
	} else {
		err = t.openLegacy()
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// next returns the next storage, in the file's order, and a reader of its bytes.
// The caller need not read them all. next returns io.EOF after the last storage
// that the tensors refer to.
func (t *torchFile) next() (*torchfile.Storage, io.Reader, error) {
	if err := t.end(); err != nil {
		return nil, nil, err
	}
	if len(t.storages) == 0 {
		return nil, nil, io.EOF
	}
	find := t.nextLegacy
	if t.zip {
		find = t.nextZip
	}
	key, err := find()
	if err != nil {
		return nil, nil, err
	}
	t.at = t.storages[key]
	delete(t.storages, key)
	t.sum = &summed{in: t.in, zip: t.zip}
	t.rest = &io.LimitedReader{R: t.sum, N: t.at.Size * t.at.Count}
	return t.at, t.rest, nil
}

// end reads the rest of the storage that next returned and checks that it is
// complete.
func (t *torchFile) end() error {
	if t.at == nil {
		return nil
	}
	s := t.at
	t.at = nil
	if _, err := io.Copy(io.Discard, t.rest); err != nil {
		return fmt.Errorf("storage %q: %w", quotable(s.Key), cut(err))
	}
	if t.rest.N > 0 {
		return fmt.Errorf("storage %q: %w: %d bytes of %d are missing", quotable(s.Key), errCut, t.rest.N, s.Size*s.Count)
	}
	if t.zip {
		return t.finish(t.entry, s.Size*s.Count, &t.sum.sum)
	}
	return nil
}

func (t *torchFile) missing() error {
	keys := slices.Sorted(maps.Keys(t.storages))
	return fmt.Errorf("storage %q of a tensor is not in the file", quotable(keys[0]))
}

// nextLegacy reads up to the next storage of a file of the older format.
func (t *torchFile) nextLegacy() (string, error) {
	if len(t.keys) == 0 {
		return "", t.missing()
	}
	key := t.keys[0]
	t.keys = t.keys[1:]
	s := t.storages[key]
	if s == nil {
		return "", fmt.Errorf("storage %q belongs to no tensor, or is in the list twice", quotable(key))
	}
	var count [8]byte
	if _, err := io.ReadFull(t.in, count[:]); err != nil {
		return "", cut(err)
	}
	if got := binary.LittleEndian.Uint64(count[:]); got != uint64(s.Count) {
		return "", fmt.Errorf("storage %q: %d numbers, but its tensor says %d", quotable(key), got, s.Count)
	}
	return key, nil
}

// openLegacy reads the pickles before the storages of the older format.
func (t *torchFile) openLegacy() error {
	const (
		magic   = torchfile.Long("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19")
		version = int64(1001)
	)
	u := t.unpickler()
	var values [5]any
	for i := range values {
		var err error
		if values[i], err = u.Load(); err != nil {
			return err
		}
		if i == 0 && values[0] != any(magic) {
			return errors.New("torch.save did not write this pickle")
		}
	}
	if values[1] != any(version) {
		return fmt.Errorf("version %v of the format before PyTorch 1.6, want %d", values[1], version)
	}
	facts, _ := values[2].(*torchfile.Dict)
	little := false
	if facts != nil {
		for i := 0; i+1 < len(facts.Items); i += 2 {
			if facts.Items[i] == any("little_endian") {
				little = facts.Items[i+1] == any(true)
			}
		}
	}
	if !little {
		return errBigEndian
	}
	t.value = values[3]
	keys, ok := values[4].(*torchfile.List)
	if !ok {
		return errors.New("it has no list of storages")
	}
	for _, key := range keys.Items {
		name, ok := key.(string)
		if !ok {
			return errors.New("a storage has a key that is not a text")
		}
		t.keys = append(t.keys, name)
	}
	return nil
}

var errBigEndian = errors.New("its numbers are not little-endian: save it on another machine")

// The signatures of a zip file: of an entry, of the list of entries at its end, and
// of the sizes after the data of an entry.
const (
	zipEntry   = "PK\x03\x04"
	zipList    = "PK\x01\x02"
	zipSizes   = "PK\x07\x08"
	zipEnd     = "PK\x05\x06"
	zip64Extra = 1
)

// entry is the header of an entry of a zip file.
type entry struct {
	name string
	// size is the size of the data, or -1 if it follows the data.
	size int64
	sum  uint32
}

// maxBefore is the most entries up to the pickle. PyTorch writes the pickle first
// in all versions that were tried (1.8, 2.11); a version entry before it does no
// harm.
const maxBefore = 4

// openZip reads the file up to the end of the pickle.
func (t *torchFile) openZip() error {
	for range maxBefore {
		e, err := t.header()
		if err != nil {
			return err
		}
		if e == nil {
			break
		}
		var name string
		if t.folder, name = path.Split(e.name); name != "data.pkl" {
			if err := t.aside(e, name); err != nil {
				return err
			}
			continue
		}
		u := t.unpickler()
		if t.value, err = u.Load(); err != nil {
			return fmt.Errorf("%s: %w", quotable(e.name), err)
		}
		return t.finish(e, int64(u.Length()), nil)
	}
	return errors.New("a zip file that does not start with NAME/data.pkl: is it a file that torch.save wrote?")
}

// aside reads an entry that is neither the pickle nor a storage.
func (t *torchFile) aside(e *entry, name string) error {
	data, err := t.small(e)
	if err != nil {
		return fmt.Errorf("entry %q: %w", quotable(e.name), err)
	}
	if name == "byteorder" && string(data) != "little" {
		return errBigEndian
	}
	return nil
}

// header reads the header of the next entry, or returns nil at the list of
// entries.
func (t *torchFile) header() (*entry, error) {
	var h [30]byte
	if _, err := io.ReadFull(t.in, h[:4]); err != nil {
		return nil, cut(err)
	}
	switch string(h[:4]) {
	case zipEntry:
	case zipList, zipEnd:
		return nil, nil
	default:
		return nil, fmt.Errorf("%q where an entry of a zip file begins: it is damaged", h[:4])
	}
	if _, err := io.ReadFull(t.in, h[4:]); err != nil {
		return nil, cut(err)
	}
	names := make([]byte, int(binary.LittleEndian.Uint16(h[26:]))+int(binary.LittleEndian.Uint16(h[28:])))
	if _, err := io.ReadFull(t.in, names); err != nil {
		return nil, cut(err)
	}
	nameLength := binary.LittleEndian.Uint16(h[26:])
	e := &entry{name: string(names[:nameLength]), size: -1}
	flags, method := binary.LittleEndian.Uint16(h[6:]), binary.LittleEndian.Uint16(h[8:])
	if flags&1 != 0 || method != 0 {
		return nil, fmt.Errorf("entry %q is compressed or encrypted, but torch.save does neither", quotable(e.name))
	}
	if flags&8 == 0 {
		e.sum = binary.LittleEndian.Uint32(h[14:])
		size := binary.LittleEndian.Uint32(h[22:])
		e.size = int64(size)
		if size == math.MaxUint32 {
			var ok bool
			if e.size, ok = zip64Size(names[nameLength:]); !ok {
				return nil, fmt.Errorf("entry %q does not state its size", quotable(e.name))
			}
		}
	}
	return e, nil
}

// zip64Size finds the size of the data in an entry's extra fields.
func zip64Size(extra []byte) (int64, bool) {
	for len(extra) >= 4 {
		id, length := binary.LittleEndian.Uint16(extra), int(binary.LittleEndian.Uint16(extra[2:]))
		if extra = extra[4:]; length > len(extra) {
			return 0, false
		}
		if id == zip64Extra && length >= 8 {
			size := binary.LittleEndian.Uint64(extra)
			return int64(size), size <= torchfile.MaxStorage
		}
		extra = extra[length:]
	}
	return 0, false
}

// finish checks the size of an entry whose data has been read, and the checksum if
// it is known.
func (t *torchFile) finish(e *entry, size int64, sum *uint32) error {
	want := e.sum
	if e.size >= 0 {
		if e.size != size {
			return fmt.Errorf("entry %q has %d bytes, want %d", quotable(e.name), e.size, size)
		}
	} else {
		length, err := t.sizesLength(size)
		if err != nil {
			return fmt.Errorf("entry %q: %w", quotable(e.name), err)
		}
		d := make([]byte, length)
		if _, err := io.ReadFull(t.in, d); err != nil {
			return cut(err)
		}
		want = binary.LittleEndian.Uint32(d[4:])
	}
	if sum != nil && *sum != want {
		return fmt.Errorf("entry %q has the checksum %#08x, but its header says %#08x: it is damaged, or written after torch.serialization.set_crc32_options(False)",
			quotable(e.name), *sum, want)
	}
	return nil
}

// sizesLength returns the length of the sizes after the data of an entry, given the
// size of the data. The sizes have 8 or 4 bytes.
func (t *torchFile) sizesLength(size int64) (int, error) {
	d, err := t.in.Peek(28)
	if err != nil {
		return 0, cut(err)
	}
	if string(d[:4]) == zipSizes {
		long := binary.LittleEndian.Uint64(d[8:]) == uint64(size) && binary.LittleEndian.Uint64(d[16:]) == uint64(size)
		short := binary.LittleEndian.Uint32(d[8:]) == uint32(size) && binary.LittleEndian.Uint32(d[12:]) == uint32(size)
		// If the data is empty, both lengths are possible, and the next header decides.
		if long && (!short || string(d[24:26]) == "PK") {
			return 24, nil
		}
		if short {
			return 16, nil
		}
	}
	return 0, fmt.Errorf("its data does not end after %d bytes: it is damaged", size)
}

// nextZip reads up to the next storage of a zip file.
func (t *torchFile) nextZip() (string, error) {
	for {
		e, err := t.header()
		if err != nil {
			return "", err
		}
		if e == nil {
			return "", t.missing()
		}
		name, ok := strings.CutPrefix(e.name, t.folder)
		if !ok {
			return "", fmt.Errorf("entry %q, want all of them in %q", quotable(e.name), quotable(t.folder))
		}
		if key, ok := strings.CutPrefix(name, "data/"); ok {
			if t.storages[key] == nil {
				return "", fmt.Errorf("entry %q belongs to no tensor, or is the second one of its name", quotable(e.name))
			}
			t.entry = e
			return key, nil
		}
		if err := t.aside(e, name); err != nil {
			return "", err
		}
	}
}

// maxSmall is the largest size of an entry that is not a storage; those of PyTorch
// have at most 40 bytes.
const maxSmall = 1 << 12

// small reads a small entry.
func (t *torchFile) small(e *entry) ([]byte, error) {
	if e.size > maxSmall {
		return nil, fmt.Errorf("%d bytes, want at most %d beside the tensors", e.size, maxSmall)
	}
	if e.size >= 0 {
		data := make([]byte, e.size)
		if _, err := io.ReadFull(t.in, data); err != nil {
			return nil, cut(err)
		}
		sum := crc32.ChecksumIEEE(data)
		return data, t.finish(e, e.size, &sum)
	}
	ahead, err := t.in.Peek(maxSmall + 24)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, cut(err)
	}
	sum := uint32(0)
	for size := 0; size+16 <= len(ahead) && size <= maxSmall; size++ {
		d := ahead[size:]
		if string(d[:4]) == zipSizes && binary.LittleEndian.Uint32(d[4:]) == sum && binary.LittleEndian.Uint32(d[8:]) == uint32(size) {
			data := append([]byte(nil), ahead[:size]...)
			if _, err := t.in.Discard(size); err != nil {
				return nil, cut(err)
			}
			return data, t.finish(e, int64(size), &sum)
		}
		sum = crc32.Update(sum, crc32.IEEETable, d[:1])
	}
	return nil, fmt.Errorf("more than %d bytes, or damaged", maxSmall)
}

// summed adds the bytes read from a zip file to the checksum.
type summed struct {
	in  io.Reader
	zip bool
	sum uint32
}

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if s.zip {
		s.sum = crc32.Update(s.sum, crc32.IEEETable, p[:n])
	}
	return n, err
}
