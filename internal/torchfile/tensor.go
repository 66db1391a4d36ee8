package torchfile

import (
	"errors"
	"fmt"
	"strings"
)

// tensor.go makes tensors from their descriptions in a pickle.

// Storage is the numbers that tensors are views of.
type Storage struct {
	Key string
	// Size is the bytes of each number; Count is how many numbers there are.
	Size, Count int64
}

// Tensor is a view of a storage: row after row without gaps.
type Tensor struct {
	Storage *Storage
	// First is the tensor's first number in the storage, and Count how many it has.
	First, Count int64
	Shape        []int64
}

// MaxStorage is more bytes than any storage has. The sum of a few such numbers fits
// an int64.
const MaxStorage = 1 << 50

// storage answers a persistent id: ("storage", class, key, place, count). Before
// PyTorch 1.6 a sixth value followed: None, or the description of a view.
func (u *Unpickler) storage(id any) error {
	t, _ := id.(Tuple)
	if len(t) != 5 && len(t) != 6 || t[0] != any("storage") {
		return errors.New("a persistent id that is not a storage")
	}
	class, ok1 := t[1].(Global)
	key, ok2 := t[2].(string)
	count, ok3 := t[4].(int64)
	if !ok1 || !ok2 || !ok3 || count < 0 {
		return errors.New("a storage without class, key or size")
	}
	if len(t) == 6 && t[5] != nil {
		return fmt.Errorf("storage %q is a view of another one, as PyTorch wrote them before 0.4: save clones of the tensors", clip(key))
	}
	size := u.Types[class]
	if size == 0 {
		return fmt.Errorf("a tensor in a %s: %s", strings.Replace(string(class), " ", ".", 1), u.TypeHint)
	}
	if count > MaxStorage/size {
		return fmt.Errorf("storage %q: %d numbers are more than a file can hold", clip(key), count)
	}
	s := u.Storages[key]
	if s == nil {
		s = &Storage{key, size, count}
		if u.Storages == nil {
			u.Storages = map[string]*Storage{}
		}
		u.Storages[key] = s
	}
	if *s != (Storage{key, size, count}) {
		return fmt.Errorf("storage %q has two types or sizes", clip(key))
	}
	u.push(s)
	return nil
}

// reduce handles a call: it makes a tensor, or an ordered dict, which holds the hooks
// of a tensor or the state of a net.
func (u *Unpickler) reduce() error {
	call, err := u.popN(2)
	if err != nil {
		return err
	}
	args, ok := call[1].(Tuple)
	if !ok {
		return errors.New("a call without arguments: it is damaged")
	}
	switch call[0] {
	case any(orderedDict):
		u.push(&Dict{})
		return nil
	case any(rebuildTensor):
	default:
		return errors.New("it calls a value that is not a known function: refused, nothing was run")
	}
	t, err := tensorOf(args)
	if err == nil {
		u.push(t)
	}
	return err
}

// build handles the attributes of an ordered dict, which are not kept.
func (u *Unpickler) build() error {
	if _, err := u.pop(); err != nil {
		return err
	}
	if len(u.stack) == 0 {
		return errEmpty
	}
	if _, ok := u.stack[len(u.stack)-1].(*Dict); !ok {
		return errors.New("attributes for a value that is not a dict: refused, nothing was run")
	}
	return nil
}

// tensorOf makes a tensor of (storage, first, shape, strides, requires_grad,
// hooks[, metadata]).
func tensorOf(args Tuple) (*Tensor, error) {
	if len(args) != 6 && len(args) != 7 {
		return nil, fmt.Errorf("a tensor of %d arguments, want 6 or 7", len(args))
	}
	s, ok1 := args[0].(*Storage)
	first, ok2 := args[1].(int64)
	shape, ok3 := integers(args[2])
	strides, ok4 := integers(args[3])
	if !ok1 || !ok2 || !ok3 || !ok4 || len(shape) != len(strides) {
		return nil, errors.New("a tensor without storage, shape or strides")
	}
	count, err := rowByRow(shape, strides)
	if err != nil {
		return nil, err
	}
	if first < 0 || first > s.Count || count > s.Count-first {
		return nil, fmt.Errorf("a tensor of %d numbers from %d on in a storage of %d", count, first, s.Count)
	}
	return &Tensor{s, first, count, shape}, nil
}

// rowByRow returns the number of elements of a tensor with that shape. The strides must
// be those of a tensor that is stored row after row.
func rowByRow(shape, strides []int64) (int64, error) {
	count := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		n := shape[i]
		// A dimension of one may have any stride.
		if n > 1 && strides[i] != count && count != 0 {
			return 0, fmt.Errorf("a tensor of shape %v with strides %v, which is not stored row by row: save it after .contiguous()", shape, strides)
		}
		if n < 0 || n > MaxStorage || (count > 0 && n > MaxStorage/count) {
			return 0, fmt.Errorf("a tensor of shape %v", shape)
		}
		count *= n
	}
	return count, nil
}

// integers returns the values of a tuple of at most four integers.
func integers(v any) ([]int64, bool) {
	t, ok := v.(Tuple)
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

// clip cuts a text of the file to a length that an error can quote.
func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}
