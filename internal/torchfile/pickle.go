// Package torchfile reads the values that torch.save pickled without running code.
//
// A pickle is a program for a small stack machine, and Python's machine runs
// any function that the program names. The machine here runs no functions: it
// knows the opcodes of the protocols 2 to 5 that torch.save writes for tuples,
// lists, dicts, numbers and tensors, and the few names that describe a tensor. At
// any other opcode or name it stops.
//
//	Unpickler.Load    the next pickle of a stream -> its value
//	Tensor            a view of a Storage, which is not in the pickle
//
// Every length is checked before memory is taken, and values are shared rather
// than copied, so that a pickle of few bytes stays small in memory. The caller
// finds the numbers of a storage itself: see Unpickler.Storages.
package torchfile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// MaxBytes is the largest pickle that is read.
const MaxBytes = 1 << 20

// The other bounds of a pickle. A pickle of three tensors has some 300 bytes, 100
// opcodes and 30 memos.
const (
	maxOpcodes = 1 << 16
	maxStack   = 1 << 12
	maxMemos   = 1 << 14
	maxText    = 1 << 12
)

// The values of a pickle are nil, bool, int64, float64, string, *Tensor and the
// types below.
type (
	// Tuple is a tuple of values.
	Tuple []any
	// List is a list of values. A list may hold itself.
	List struct{ Items []any }
	// Dict is a dict or an OrderedDict, as keys and values in turn.
	Dict struct{ Items []any }
	// Long is an integer that does not fit an int64: its bytes, the lowest first, in
	// two's complement.
	Long string
	// Global is the name of a class or function: module, space, name, such as
	// "torch LongStorage".
	Global string
	// mark is where a tuple, or the items of a list or dict, begin on the stack.
	mark struct{}
)

const (
	rebuildTensor = Global("torch._utils _rebuild_tensor_v2")
	orderedDict   = Global("collections OrderedDict")
)

// Unpickler reads the pickles of one stream.
type Unpickler struct {
	// In is the stream. Load reads no byte after the end of a pickle.
	In *bufio.Reader
	// Content names what the caller reads, as in "no file of three tensors needs".
	Content string
	// Types are the bytes of a number by storage class, such as "torch LongStorage":
	// 8. A storage of another class is an error, to which TypeHint is added.
	Types    map[Global]int64
	TypeHint string
	// Storages are the storages that the pickles refer to, by key. Load adds to it;
	// nil is an empty map.
	Storages map[string]*Storage

	read  int
	stack []any
	memo  map[uint32]any
}

// Load reads one pickle, up to its last opcode, and returns its value. The error of
// a pickle that ends early says so; errors of the stream are wrapped.
func (u *Unpickler) Load() (any, error) {
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
			return nil, errors.New("a pickle of more values than tensors need")
		}
	}
	return nil, fmt.Errorf("a pickle of more than %d opcodes", maxOpcodes)
}

// Length returns the bytes of the pickle that the last Load read.
func (u *Unpickler) Length() int { return u.read }

// take returns the next bytes, to be used before the next call.
func (u *Unpickler) take(size int) ([]byte, error) {
	if u.read += size; u.read > MaxBytes {
		return nil, fmt.Errorf("a pickle of more than %d bytes", MaxBytes)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(u.In, data); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errEnd
		}
		return nil, err
	}
	return data, nil
}

// number returns the next bytes as an unsigned number.
func (u *Unpickler) number(size int) (uint64, error) {
	data, err := u.take(size)
	if err != nil {
		return 0, err
	}
	var all [8]byte
	copy(all[:], data)
	return binary.LittleEndian.Uint64(all[:]), nil
}

// text reads a text whose length takes the given number of bytes.
func (u *Unpickler) text(size int) error {
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
func (u *Unpickler) line() (string, error) {
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

func (u *Unpickler) push(v any) { u.stack = append(u.stack, v) }

var errEnd = errors.New("it ends early: it is cut short")

var errEmpty = errors.New("it uses more values than it holds: it is damaged")

func (u *Unpickler) pop() (any, error) {
	if len(u.stack) == 0 {
		return nil, errEmpty
	}
	v := u.stack[len(u.stack)-1]
	u.stack = u.stack[:len(u.stack)-1]
	return v, nil
}

// popN returns a copy of the last n values.
func (u *Unpickler) popN(n int) (Tuple, error) {
	if len(u.stack) < n {
		return nil, errEmpty
	}
	values := append(Tuple(nil), u.stack[len(u.stack)-n:]...)
	u.stack = u.stack[:len(u.stack)-n]
	return values, nil
}

// popMark returns the values since the last mark.
func (u *Unpickler) popMark() (Tuple, error) {
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
func (u *Unpickler) run(op byte) error {
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
	case '(', ')', ']', '}', 'N', 0x88, 0x89: // ..., NEWTRUE, NEWFALSE
		u.push(constant(op))
		return nil
	case 'G', 'K', 'M', 'J', 0x8a, 'X', 0x8c:
		return u.scalar(op)
	case 't', 0x85, 0x86, 0x87, 'a', 's', 'e', 'u', '0':
		return u.collect(op)
	case 'q', 'r', 0x94, 'h', 'j':
		return u.remember(op)
	case 'c', 0x93, 'Q', 'R', 'b':
		return u.describe(op)
	}
	return fmt.Errorf("opcode %#02x, which no %s needs: refused, nothing was run", op, u.Content)
}

// constant returns the value of an opcode that always has the same.
func constant(op byte) any {
	switch op {
	case '(':
		return mark{}
	case ')':
		return Tuple{}
	case ']':
		return &List{}
	case '}':
		return &Dict{}
	case 'N':
		return nil
	}
	return op == 0x88
}

// scalar reads a number or a text.
func (u *Unpickler) scalar(op byte) error {
	switch op {
	case 'G': // BINFLOAT, the highest byte first
		data, err := u.take(8)
		if err == nil {
			u.push(math.Float64frombits(binary.BigEndian.Uint64(data)))
		}
		return err
	case 'X': // BINUNICODE
		return u.text(4)
	case 0x8c: // SHORT_BINUNICODE
		return u.text(1)
	}
	return u.integer(op)
}

// describe does an opcode that names, finds or makes a tensor.
func (u *Unpickler) describe(op byte) error {
	switch op {
	case 'Q': // BINPERSID
		id, err := u.pop()
		if err != nil {
			return err
		}
		return u.storage(id)
	case 'R': // REDUCE
		return u.reduce()
	case 'b': // BUILD
		return u.build()
	}
	return u.name(op)
}

// integer reads BININT1, BININT2, BININT and LONG1.
func (u *Unpickler) integer(op byte) error {
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
		u.push(Long(data))
		return nil
	}
	var all [8]byte
	copy(all[:], data)
	shift := 8 * (8 - len(data))
	u.push(int64(binary.LittleEndian.Uint64(all[:])) << shift >> shift)
	return nil
}

// collect makes tuples and fills lists and dicts.
func (u *Unpickler) collect(op byte) error {
	var values Tuple
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
	return u.fill(op, values)
}

// fill adds items to the list or dict on the stack.
func (u *Unpickler) fill(op byte, values Tuple) error {
	if len(u.stack) == 0 {
		return errEmpty
	}
	switch to := u.stack[len(u.stack)-1].(type) {
	case *List:
		if op == 'a' || op == 'e' {
			to.Items = append(to.Items, values...)
			return nil
		}
	case *Dict:
		if (op == 's' || op == 'u') && len(values)%2 == 0 {
			to.Items = append(to.Items, values...)
			return nil
		}
	}
	return errors.New("items for a value that is not a list or dict: it is damaged")
}

// remember stores the last value under a number, or fetches one.
func (u *Unpickler) remember(op byte) error {
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
func (u *Unpickler) name(op byte) error {
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
			return errors.New("a name that is not a text: it is damaged")
		}
	}
	g := Global(module + " " + name)
	if g != rebuildTensor && g != orderedDict && !(module == "torch" && strings.HasSuffix(name, "Storage")) {
		return fmt.Errorf("it names %q, which no %s needs: refused, nothing was run", clip(module+"."+name), u.Content)
	}
	u.push(g)
	return nil
}
