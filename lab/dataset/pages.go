package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/neuroshard/neuroshard/internal/parquetfile"
	"github.com/parquet-go/parquet-go"
)

// pages.go decodes the pages of Parquet columns: data pages of both versions,
// plain or by dictionary, compressed by Zstandard or not.

// budget is what may still be decoded of a file.
type budget struct{ values, bytes int }

func (b *budget) take(values, bytes int) error {
	if values > b.values || bytes > b.bytes {
		return errors.New("the columns hold more values or bytes than a file of this size may")
	}
	b.values -= values
	b.bytes -= bytes
	return nil
}

const (
	codecNone = 0
	codecZstd = 6

	encodingPlain           = 0
	encodingPlainDictionary = 2
	encodingRLE             = 3
	encodingRLEDictionary   = 8

	dataEncoding, dataDefinitions, dataRepetitions = 2, 3, 4

	v2Encoding, v2Definitions, v2Repetitions = 4, 5, 6
)

var errPageEnd = errors.New("a page ends too early")

// read reads column number index of the file, which is to have that many rows.
func (c *column) read(data []byte, foot parquetfile.Value, index, rows int, left *budget) error {
	for _, group := range foot.Items(footGroups) {
		chunks := group.Items(groupColumns)
		if index >= len(chunks) {
			return errors.New("a row group lacks it")
		}
		if err := c.chunk(data, chunks[index].Field(chunkMeta), group.Integer(groupRows, -1), left); err != nil {
			return err
		}
	}
	if n := c.rows(); n != rows {
		return fmt.Errorf("%d rows, and the file states %d", n, rows)
	}
	return nil
}

// length returns the number of values read so far.
func (c *column) length() int { return len(c.numbers) + len(c.floats) + len(c.texts) }

func (c *column) rows() int {
	if c.list {
		return len(c.ends)
	}
	return c.length()
}

// chunk reads the column's part of a row group of that many rows.
func (c *column) chunk(data []byte, meta parquetfile.Value, rows int64, left *budget) error {
	size, start := meta.Integer(metaCompressed, -1), meta.Integer(metaData, -1)
	if dictionary := meta.Integer(metaDictionary, 0); dictionary > 0 {
		start = min(start, dictionary)
	}
	if start < 0 || size < 0 || start > int64(len(data)) || size > int64(len(data))-start {
		return fmt.Errorf("its %d bytes from %d are not all in the file", size, start)
	}
	r := chunkReader{column: c, data: data[start : start+size], codec: meta.Integer(metaCodec, -1), left: left}
	if r.codec != codecNone && r.codec != codecZstd {
		return fmt.Errorf("compression %d is unknown: want Zstandard (%d) or none (%d)", r.codec, codecZstd, codecNone)
	}
	before := c.rows()
	for len(r.data) > 0 {
		if err := r.page(); err != nil {
			return err
		}
	}
	if n := c.rows() - before; int64(n) != rows {
		return fmt.Errorf("%d rows, and their group states %d", n, rows)
	}
	if want := meta.Integer(metaValues, -1); int64(r.entries) != want {
		return fmt.Errorf("%d values, and %d are stated", r.entries, want)
	}
	return nil
}

// chunkReader reads the pages of one column chunk.
type chunkReader struct {
	column *column
	data   []byte // what is left of the chunk
	codec  int64
	left   *budget
	// dictionary is the values of the dictionary page.
	dictionary *column
	// entries counts the values, an empty list being one.
	entries int
}

// page reads the next page.
func (r *chunkReader) page() error {
	page, n, err := parquetfile.ReadPage(r.data[:min(len(r.data), 64<<10)])
	if err != nil {
		return err
	}
	r.data = r.data[n:]
	if page.Packed < 0 || page.Packed > int64(len(r.data)) || page.Unpacked < 0 || page.Unpacked > math.MaxInt32 {
		return fmt.Errorf("a page of %d bytes, %d decompressed, where %d are left", page.Packed, page.Unpacked, len(r.data))
	}
	body := r.data[:page.Packed]
	r.data = r.data[page.Packed:]
	switch page.Type {
	case parquetfile.DataPage:
		return r.dataPage(page, body)
	case parquetfile.DataPageV2:
		return r.dataPageV2(page, body)
	case parquetfile.DictionaryPage:
		return r.dictionaryPage(page, body)
	default:
		return fmt.Errorf("a page of the unknown kind %d", page.Type)
	}
}

// unpack decompresses a page's data to exactly size bytes.
func (r *chunkReader) unpack(data []byte, size int, compressed bool) ([]byte, error) {
	if err := r.left.take(0, size); err != nil {
		return nil, err
	}
	if compressed && r.codec == codecZstd {
		if err := parquetfile.CheckZstd(data, size); err != nil {
			return nil, err
		}
		var err error
		if data, err = parquet.Zstd.Decode(make([]byte, 0, size), data); err != nil {
			return nil, err
		}
	}
	if len(data) != size {
		return nil, fmt.Errorf("a page of %d bytes, and its header states %d", len(data), size)
	}
	return data, nil
}

// count returns the number of values that a page's header states, taken off the
// budget.
func (r *chunkReader) count(page parquetfile.Page) (int, error) {
	n := page.Values
	if n < 0 || n > maxValues {
		return 0, fmt.Errorf("a page of %d values: want 0 to %d", n, maxValues)
	}
	return int(n), r.left.take(int(n), 0)
}

func (r *chunkReader) dictionaryPage(page parquetfile.Page, body []byte) error {
	head, size := page.Head, int(page.Unpacked)
	n, err := r.count(page)
	if err != nil {
		return err
	}
	if r.dictionary != nil || r.entries > 0 {
		return errors.New("a dictionary that does not come first")
	}
	if e := head.Integer(dataEncoding, -1); e != encodingPlain && e != encodingPlainDictionary {
		return fmt.Errorf("a dictionary of the unknown encoding %d", e)
	}
	if body, err = r.unpack(body, size, true); err != nil {
		return err
	}
	r.dictionary = &column{physical: r.column.physical}
	return r.dictionary.plain(body, n)
}

func (r *chunkReader) dataPage(page parquetfile.Page, body []byte) error {
	head, size := page.Head, int(page.Unpacked)
	n, err := r.count(page)
	if err != nil {
		return err
	}
	if body, err = r.unpack(body, size, true); err != nil {
		return err
	}
	var levels [2][]byte
	if r.column.list {
		for i, encoding := range []int16{dataRepetitions, dataDefinitions} {
			if e := head.Integer(encoding, -1); e != encodingRLE {
				return fmt.Errorf("levels of the unknown encoding %d", e)
			}
			if len(body) < 4 {
				return errPageEnd
			}
			length := binary.LittleEndian.Uint32(body)
			if body = body[4:]; uint64(length) > uint64(len(body)) {
				return errPageEnd
			}
			levels[i], body = body[:length], body[length:]
		}
	}
	return r.values(n, levels, head.Integer(dataEncoding, -1), body)
}

func (r *chunkReader) dataPageV2(page parquetfile.Page, body []byte) error {
	head, size := page.Head, int(page.Unpacked)
	n, err := r.count(page)
	if err != nil {
		return err
	}
	// The levels come first and are never compressed; size counts them.
	var levels [2][]byte
	for i, length := range []int16{v2Repetitions, v2Definitions} {
		bytes := head.Integer(length, 0)
		if bytes < 0 || bytes > int64(len(body)) || bytes > int64(size) {
			return errPageEnd
		}
		levels[i], body = body[:bytes], body[bytes:]
		size -= int(bytes)
	}
	if body, err = r.unpack(body, size, page.Compressed); err != nil {
		return err
	}
	return r.values(n, levels, head.Integer(v2Encoding, -1), body)
}

// values reads the n entries of a data page: where lists begin, then values.
func (r *chunkReader) values(n int, levels [2][]byte, encoding int64, body []byte) error {
	r.entries += n
	c := r.column
	if c.list {
		var err error
		if n, err = c.lists(n, levels); err != nil {
			return err
		}
	}
	switch encoding {
	case encodingPlain:
		return c.plain(body, n)
	case encodingPlainDictionary, encodingRLEDictionary:
		return c.indexed(body, n, r.dictionary)
	case encodingRLE:
		if c.physical == physicalBool {
			if len(body) < 4 {
				return errPageEnd
			}
			bits, err := hybrid(body[4:], 1, n)
			for _, bit := range bits {
				c.numbers = append(c.numbers, int64(bit))
			}
			return err
		}
	}
	return fmt.Errorf("values of the unknown encoding %d", encoding)
}

// lists reads where the lists of n entries end, and returns how many values they
// hold.
func (c *column) lists(n int, levels [2][]byte) (int, error) {
	repetitions, err := hybrid(levels[0], 1, n)
	if err != nil {
		return 0, err
	}
	definitions, err := hybrid(levels[1], 1, n)
	if err != nil {
		return 0, err
	}
	end := c.length()
	values := 0
	for i, defined := range definitions {
		switch {
		case repetitions[i] == 0:
			c.ends = append(c.ends, end+values)
		case defined == 0 || len(c.ends) == 0 || i > 0 && definitions[i-1] == 0:
			return 0, errors.New("a list goes on that has no beginning")
		}
		values += int(defined)
		c.ends[len(c.ends)-1] = end + values
	}
	return values, nil
}

// plain reads n values that fill the data.
func (c *column) plain(data []byte, n int) error {
	width := map[int64]int{physicalInt32: 4, physicalInt64: 8, physicalDouble: 8}[c.physical]
	switch c.physical {
	case physicalBool:
		if len(data) != (n+7)/8 {
			return errPageEnd
		}
		for i := range n {
			c.numbers = append(c.numbers, int64(data[i/8]>>(i%8)&1))
		}
		return nil
	case physicalBytes:
		for range n {
			if len(data) < 4 {
				return errPageEnd
			}
			length := binary.LittleEndian.Uint32(data)
			if data = data[4:]; uint64(length) > uint64(len(data)) {
				return errPageEnd
			}
			if !utf8.Valid(data[:length]) {
				return errors.New("a text is not UTF-8")
			}
			c.texts, data = append(c.texts, string(data[:length])), data[length:]
		}
		if len(data) > 0 {
			return fmt.Errorf("%d bytes follow the last value of a page", len(data))
		}
		return nil
	}
	if len(data) != n*width {
		return fmt.Errorf("%d bytes for %d values of %d", len(data), n, width)
	}
	for i := range n {
		switch c.physical {
		case physicalInt32:
			c.numbers = append(c.numbers, int64(int32(binary.LittleEndian.Uint32(data[4*i:]))))
		case physicalInt64:
			c.numbers = append(c.numbers, int64(binary.LittleEndian.Uint64(data[8*i:])))
		case physicalDouble:
			c.floats = append(c.floats, math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:])))
		}
	}
	return nil
}

// indexed reads n values by their numbers in the dictionary.
func (c *column) indexed(data []byte, n int, dictionary *column) error {
	if dictionary == nil {
		return errors.New("there is no dictionary")
	}
	if n == 0 {
		return nil
	}
	if len(data) == 0 || data[0] > 32 {
		return errPageEnd
	}
	numbers, err := hybrid(data[1:], uint(data[0]), n)
	if err != nil {
		return err
	}
	for _, k := range numbers {
		if uint64(k) >= uint64(dictionary.length()) {
			return fmt.Errorf("number %d of a dictionary of %d", k, dictionary.length())
		}
		switch c.physical {
		case physicalBytes:
			c.texts = append(c.texts, dictionary.texts[k])
		case physicalDouble:
			c.floats = append(c.floats, dictionary.floats[k])
		default:
			c.numbers = append(c.numbers, dictionary.numbers[k])
		}
	}
	return nil
}

// hybrid reads n numbers of width bits, 0 to 32, in Parquet's mixture of runs of
// one number and of packed groups of eight.
func hybrid(data []byte, width uint, n int) ([]uint32, error) {
	list := make([]uint32, 0, n)
	for len(list) < n {
		head, used := binary.Uvarint(data)
		if used <= 0 {
			return nil, errPageEnd
		}
		data = data[used:]
		left := uint64(n - len(list))
		if count := head >> 1; head&1 == 0 {
			bytes := int(width+7) / 8
			if len(data) < bytes {
				return nil, errPageEnd
			}
			value := uint32(0)
			for i := range bytes {
				value |= uint32(data[i]) << (8 * i)
			}
			if data = data[bytes:]; width < 32 && value>>width != 0 {
				return nil, fmt.Errorf("a run of %d, which has more than %d bits", value, width)
			}
			for range min(left, count) {
				list = append(list, value)
			}
		} else {
			if bytes := uint64(len(data)); width > 0 && count > bytes/uint64(width) {
				return nil, errPageEnd
			}
			for i := range min(left, 8*min(count, left)) {
				value, at := uint32(0), i*uint64(width)
				for bit := range uint64(width) {
					value |= uint32(data[(at+bit)/8]>>((at+bit)%8)&1) << bit
				}
				list = append(list, value)
			}
			if width > 0 {
				data = data[count*uint64(width):]
			}
		}
	}
	return list, nil
}
