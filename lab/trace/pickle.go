package trace

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// pickle.go reads what torch.save writes of tuples, lists, dicts and tensors.
//
// A pickle is a program for a small stack machine, and Python's runs whatever
// function the program names. This one runs nothing: it knows the opcodes
// below, of the protocols 2 to 5, and the few names that describe a tensor; at
// anything else it stops. Lengths are checked before memory is taken, and
// values are shared rather than copied, so that a pickle of few bytes stays
// small in memory.

// The bounds of a pickle. One of three tensors has some 300 bytes, 100 opcodes
// and 30 memos.
const (
	maxPickleBytes = 1 << 20
	maxOpcodes     = 1 << 16
	maxStack       = 1 << 12
	maxMemos       = 1 << 14
	maxText        = 1 << 12
)

// The values of a pickle are nil, bool, int64, string and these.
type (
	tuple []any
	list  struct{ items []any }
	// dict is keys and values in turn.
	dict struct{ items []any }
	// long is an integer that does not fit an int64, its bytes from the lowest on.
	long string
	// global is the name of a class or function, such as "torch LongStorage".
	global string
	// mark is where a tuple, or a list's or dict's items, begin on the stack.
	mark struct{}
)

// storage is the numbers that a tensor is a view of.
type storage struct {
	key string
	// size is the bytes of each number, 4 or 8, and count how many there are.
	size, count int64
}

// tensor is a view of a storage, row after row without gaps.
type tensor struct {
	storage *storage
	// first is its first number in the storage, and count how many it has.
	first, count int64
	shape        []int64
}

const (
	rebuildTensor = global("torch._utils _rebuild_tensor_v2")
	orderedDict   = global("collections OrderedDict")
)

// unpickler reads pickles from a stream.
type unpickler struct {
	in    *bufio.Reader
	read  int
	stack []any
	memo  map[uint32]any
	// storages is those of all pickles of the stream.
	storages map[string]*storage
}

// load reads one pickle, up to and with its last opcode, and returns its value.
func (u *unpickler) load() (any, error) {
	u.read, u.stack, u.memo = 0, u.stack[:0], map[uint32]any{}
	for range maxOpcodes {
		at := u.read
		op, err := u.take(1)
		if err != nil {
			return nil, err
		}
		if op[0] == '.' {
			return u.pop()
		}
		if err := u.run(op[0]); err != nil {
			return nil, fmt.Errorf("byte %d of the pickle: %w", at, err)
		}
		if len(u.stack) > maxStack || len(u.memo) > maxMemos {
			return nil, errors.New("a pickle of more values than three tensors need")
		}
	}
	return nil, fmt.Errorf("a pickle of more than %d opcodes", maxOpcodes)
}

// take returns the next bytes, to be used before the next call.
func (u *unpickler) take(size int) ([]byte, error) {
	if u.read += size; u.read > maxPickleBytes {
		return nil, fmt.Errorf("a pickle of more than %d bytes", maxPickleBytes)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(u.in, data); err != nil {
		return nil, cut(err)
	}
	return data, nil
}

// number returns the next bytes as an unsigned number.
func (u *unpickler) number(size int) (uint64, error) {
	data, err := u.take(size)
	if err != nil {
		return 0, err
	}
	var all [8]byte
	copy(all[:], data)
	return binary.LittleEndian.Uint64(all[:]), nil
}

// text reads a text after its length of so many bytes.
func (u *unpickler) text(size int) error {
	length, err := u.number(size)
	if err != nil {
		return err
	}
	if length > maxText {
		return fmt.Errorf("a text of %d bytes, more than %d", length, maxText)
	}
	data, err := u.take(int(length))
	if err != nil {
		return err
	}
	u.push(string(data))
	return nil
}

// line reads up to the end of a line.
func (u *unpickler) line() (string, error) {
	var text strings.Builder
	for {
		c, err := u.take(1)
		if err != nil {
			return "", err
		}
		if c[0] == '\n' {
			return text.String(), nil
		}
		if text.WriteByte(c[0]); text.Len() > maxText {
			return "", fmt.Errorf("a name of more than %d bytes", maxText)
		}
	}
}

func (u *unpickler) push(v any) { u.stack = append(u.stack, v) }

var errEmpty = errors.New("it uses more values than there are: it is damaged")

func (u *unpickler) pop() (any, error) {
	if len(u.stack) == 0 {
		return nil, errEmpty
	}
	v := u.stack[len(u.stack)-1]
	u.stack = u.stack[:len(u.stack)-1]
	return v, nil
}

// popN returns a copy of the last n values.
func (u *unpickler) popN(n int) (tuple, error) {
	if len(u.stack) < n {
		return nil, errEmpty
	}
	values := append(tuple(nil), u.stack[len(u.stack)-n:]...)
	u.stack = u.stack[:len(u.stack)-n]
	return values, nil
}

// popMark returns the values since the last mark.
func (u *unpickler) popMark() (tuple, error) {
	for i := len(u.stack) - 1; i >= 0; i-- {
		if _, ok := u.stack[i].(mark); ok {
			values, err := u.popN(len(u.stack) - i - 1)
			u.stack = u.stack[:i]
			return values, err
		}
	}
	return nil, errEmpty
}

// run does one opcode.
func (u *unpickler) run(op byte) error {
	switch op {
	case 0x80: // PROTO
		version, err := u.number(1)
		if err == nil && (version < 2 || version > 5) {
			err = fmt.Errorf("pickle protocol %d, want from 2 to 5", version)
		}
		return err
	case 0x95: // FRAME
		_, err := u.take(8)
		return err
	case '(':
		u.push(mark{})
	case ')':
		u.push(tuple{})
	case ']':
		u.push(&list{})
	case '}':
		u.push(&dict{})
	case 'N':
		u.push(nil)
	case 0x88, 0x89: // NEWTRUE, NEWFALSE
		u.push(op == 0x88)
	case 'K', 'M', 'J', 0x8a:
		return u.integer(op)
	case 'X': // BINUNICODE
		return u.text(4)
	case 0x8c: // SHORT_BINUNICODE
		return u.text(1)
	case 't', 0x85, 0x86, 0x87, 'a', 's', 'e', 'u', '0':
		return u.collect(op)
	case 'q', 'r', 0x94, 'h', 'j':
		return u.remember(op)
	case 'c', 0x93:
		return u.name(op)
	case 'Q': // BINPERSID
		id, err := u.pop()
		if err != nil {
			return err
		}
		return u.storage(id)
	case 'R': // REDUCE
		return u.reduce()
	default:
		return fmt.Errorf("opcode %#02x, which no file of three tensors needs: refused, nothing was run", op)
	}
	return nil
}

// integer reads BININT1, BININT2, BININT and LONG1.
func (u *unpickler) integer(op byte) error {
	size := map[byte]int{'K': 1, 'M': 2, 'J': 4}[op]
	if op != 0x8a {
		n, err := u.number(size)
		if op == 'J' {
			u.push(int64(int32(n)))
		} else {
			u.push(int64(n))
		}
		return err
	}
	length, err := u.number(1)
	if err != nil {
		return err
	}
	data, err := u.take(int(length))
	if err != nil {
		return err
	}
	if len(data) > 8 {
		u.push(long(data))
		return nil
	}
	var all [8]byte
	copy(all[:], data)
	shift := 8 * (8 - len(data))
	u.push(int64(binary.LittleEndian.Uint64(all[:])) << shift >> shift)
	return nil
}

// collect makes tuples and fills lists and dicts.
func (u *unpickler) collect(op byte) error {
	var values tuple
	var err error
	switch op {
	case '0': // POP
		_, err = u.pop()
		return err
	case 0x85, 0x86, 0x87: // TUPLE1 to TUPLE3
		values, err = u.popN(int(op) - 0x84)
	case 'a': // APPEND
		values, err = u.popN(1)
	case 's': // SETITEM
		values, err = u.popN(2)
	default: // TUPLE, APPENDS, SETITEMS
		values, err = u.popMark()
	}
	if err != nil {
		return err
	}
	switch op {
	case 't', 0x85, 0x86, 0x87:
		u.push(values)
		return nil
	}
	if len(u.stack) == 0 {
		return errEmpty
	}
	switch to := u.stack[len(u.stack)-1].(type) {
	case *list:
		if op == 'a' || op == 'e' {
			to.items = append(to.items, values...)
			return nil
		}
	case *dict:
		if (op == 's' || op == 'u') && len(values)%2 == 0 {
			to.items = append(to.items, values...)
			return nil
		}
	}
	return errors.New("items for what is no list or dict: it is damaged")
}

// remember stores the last value under a number, or fetches one.
func (u *unpickler) remember(op byte) error {
	var at uint64
	var err error
	switch op {
	case 'q', 'h': // BINPUT, BINGET
		at, err = u.number(1)
	case 'r', 'j': // LONG_BINPUT, LONG_BINGET
		at, err = u.number(4)
	default: // MEMOIZE
		at = uint64(len(u.memo))
	}
	if err != nil {
		return err
	}
	if op == 'h' || op == 'j' {
		v, ok := u.memo[uint32(at)]
		if !ok {
			return fmt.Errorf("it fetches value %d, which it has not stored: it is damaged", at)
		}
		u.push(v)
		return nil
	}
	if len(u.stack) == 0 {
		return errEmpty
	}
	u.memo[uint32(at)] = u.stack[len(u.stack)-1]
	return nil
}

// name reads GLOBAL and STACK_GLOBAL.
func (u *unpickler) name(op byte) error {
	var module, name string
	if op == 'c' {
		var err error
		if module, err = u.line(); err != nil {
			return err
		}
		if name, err = u.line(); err != nil {
			return err
		}
	} else {
		pair, err := u.popN(2)
		if err != nil {
			return err
		}
		var ok1, ok2 bool
		module, ok1 = pair[0].(string)
		name, ok2 = pair[1].(string)
		if !ok1 || !ok2 {
			return errors.New("a name that is no text: it is damaged")
		}
	}
	g := global(module + " " + name)
	if g != rebuildTensor && g != orderedDict && !(module == "torch" && strings.HasSuffix(name, "Storage")) {
		return fmt.Errorf("it names %q, which no file of three tensors needs: refused, nothing was run", quotable(module+"."+name))
	}
	u.push(g)
	return nil
}

// storage answers a persistent id: ("storage", class, key, place, count), with
// a description of a view or None at the end of the old format's.
func (u *unpickler) storage(id any) error {
	t, _ := id.(tuple)
	if len(t) != 5 && len(t) != 6 || t[0] != any("storage") {
		return errors.New("a persistent id that is no storage")
	}
	class, ok1 := t[1].(global)
	key, ok2 := t[2].(string)
	count, ok3 := t[4].(int64)
	if !ok1 || !ok2 || !ok3 || count < 0 {
		return errors.New("a storage without class, key or size")
	}
	if len(t) == 6 && t[5] != nil {
		return fmt.Errorf("storage %q is a view of another one, as PyTorch wrote them before 0.4: save clones of the tensors", quotable(key))
	}
	size := map[global]int64{"torch IntStorage": 4, "torch LongStorage": 8}[class]
	if size == 0 {
		return fmt.Errorf("a tensor in a %s: indices, offsets and lengths are int32 or int64 tensors", strings.Replace(string(class), " ", ".", 1))
	}
	if count > maxBytes/size {
		return fmt.Errorf("storage %q: %d numbers are more than a file can hold", quotable(key), count)
	}
	s := u.storages[key]
	if s == nil {
		s = &storage{key, size, count}
		u.storages[key] = s
	}
	if *s != (storage{key, size, count}) {
		return fmt.Errorf("storage %q is of two types or sizes", quotable(key))
	}
	u.push(s)
	return nil
}

// maxBytes is more than any file holds, and keeps sums of a few inside an int64.
const maxBytes = 1 << 50

// reduce makes a tensor of (storage, first, shape, strides, requires_grad,
// hooks[, metadata]), or an ordered dict, which is a tensor's hooks.
func (u *unpickler) reduce() error {
	call, err := u.popN(2)
	if err != nil {
		return err
	}
	args, ok := call[1].(tuple)
	if !ok {
		return errors.New("a call without arguments: it is damaged")
	}
	switch call[0] {
	case any(orderedDict):
		u.push(&dict{})
		return nil
	case any(rebuildTensor):
	default:
		return errors.New("it calls what is no function: refused, nothing was run")
	}
	if len(args) != 6 && len(args) != 7 {
		return fmt.Errorf("a tensor of %d arguments, want 6 or 7", len(args))
	}
	s, ok1 := args[0].(*storage)
	first, ok2 := args[1].(int64)
	shape, ok3 := integers(args[2])
	strides, ok4 := integers(args[3])
	if !ok1 || !ok2 || !ok3 || !ok4 || len(shape) != len(strides) {
		return errors.New("a tensor without storage, shape or strides")
	}
	count := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		n := shape[i]
		// A dimension of one may have any stride.
		if n > 1 && strides[i] != count && count != 0 {
			return fmt.Errorf("a tensor of shape %v with strides %v, which is not stored row by row: save it after .contiguous()", shape, strides)
		}
		if n < 0 || n > maxBytes || (count > 0 && n > maxBytes/count) {
			return fmt.Errorf("a tensor of shape %v", shape)
		}
		count *= n
	}
	if first < 0 || first > s.count || count > s.count-first {
		return fmt.Errorf("a tensor of %d numbers from %d on in a storage of %d", count, first, s.count)
	}
	u.push(&tensor{s, first, count, shape})
	return nil
}

func integers(v any) ([]int64, bool) {
	t, ok := v.(tuple)
	if !ok || len(t) > 4 {
		return nil, false
	}
	out := make([]int64, len(t))
	for i := range t {
		if out[i], ok = t[i].(int64); !ok {
			return nil, false
		}
	}
	return out, true
}

// quotable cuts a text of the file to a length that an error can quote.
func quotable(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}
