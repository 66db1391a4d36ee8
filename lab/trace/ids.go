package trace

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/neuroshard/neuroshard/problem"
)

// ids.go turns the ids of a log into rows of a table. Ids that are rows are taken as they
// are. Other ids, such as hashes of 64 bits, are taken modulo the number of rows, as
// TorchRec and DLRM take them.

// IDs is the form of the ids in a log.
type IDs string

// The forms of ids.
const (
	// Decimal ids are whole numbers of at most 64 bits, with or without a sign.
	Decimal IDs = "decimal"
	// Hex ids are hexadecimal numbers of at most 64 bits, such as 68fd1e64.
	Hex IDs = "hex"
	// Text ids are any texts. The number of a text is its FNV-1a hash of 64 bits.
	Text IDs = "text"
)

// FormsOfIDs returns the forms of ids. The slice is the caller's.
func FormsOfIDs() []string { return []string{string(Decimal), string(Hex), string(Text)} }

// check returns an error for options that do not go together.
func (o *Options) check() error {
	switch {
	case o.Batch < 0:
		return fmt.Errorf("a batch of %d samples: want at least 1, or 0 for all samples", o.Batch)
	case o.HashSize < 0 || o.HashSize > problem.MaxRows:
		return fmt.Errorf("a hash size of %d: want from 1 to %d", o.HashSize, int64(problem.MaxRows))
	case o.IDs != "" && o.IDs != Decimal && o.IDs != Hex && o.IDs != Text:
		return fmt.Errorf("ids in the form %q: want one of %q", o.IDs, FormsOfIDs())
	case o.IDs == Text && o.HashSize == 0:
		return fmt.Errorf("ids in the form %q need the number of rows that they are hashed to: state the hash size (--hash-size)", o.IDs)
	}
	return nil
}

// modulus returns the number of rows that the ids of a table are taken modulo, or 0 if ids
// are rows.
func (o *Options) modulus(table []byte) int64 {
	if o.HashSize == 0 {
		return 0
	}
	if rows := o.Rows[string(table)]; rows > 0 {
		return rows
	}
	return o.HashSize
}

// index returns the row of the id in a text.
func (o *Options) index(table, text []byte) (int64, error) {
	text = bytes.TrimSpace(text)
	switch o.IDs {
	case Text:
		h := fnv.New64a()
		h.Write(text) // never fails
		return o.unsigned(table, h.Sum64())
	case Hex:
		digits := bytes.TrimPrefix(bytes.TrimPrefix(text, []byte("0x")), []byte("0X"))
		id, err := strconv.ParseUint(string(digits), 16, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a hexadecimal number of at most 64 bits", quotable(string(text)))
		}
		return o.unsigned(table, id)
	}
	id, err := whole(text)
	if err == nil {
		return o.signed(table, id), nil
	}
	large, errLarge := strconv.ParseUint(string(text), 10, 64)
	if errLarge == nil {
		return o.unsigned(table, large)
	}
	if _, hex := strconv.ParseUint(string(text), 16, 64); hex == nil {
		err = fmt.Errorf("%w; if ids are hexadecimal, say so (--set ids=hex)", err)
	}
	return 0, err
}

// signed returns the row of an id with a sign. Its remainder is not negative.
func (o *Options) signed(table []byte, id int64) int64 {
	rows := o.modulus(table)
	if rows == 0 {
		return id
	}
	if id %= rows; id < 0 {
		id += rows
	}
	return id
}

// unsigned returns the row of an id without a sign.
func (o *Options) unsigned(table []byte, id uint64) (int64, error) {
	rows := o.modulus(table)
	if rows > 0 {
		return int64(id % uint64(rows)), nil
	}
	if id >= problem.MaxRows {
		return 0, fmt.Errorf("%d is above the largest row, %d: %s", id, int64(problem.MaxRows-1), hashed)
	}
	return int64(id), nil
}

// hashed is the advice for ids that cannot be rows.
const hashed = "if ids are hashes, state the number of rows that they are taken modulo (--hash-size)"
