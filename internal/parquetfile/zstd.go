package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// zstd.go looks at the heads of Zstandard's one frame and of its blocks (RFC 8878,
// section 3.1.1).

const (
	zstdMagic = 0xFD2FB528
	// maxBlock is the most bytes that a compressed block makes.
	maxBlock = 128 << 10
	// maxWindow is the largest window that decoders have to support.
	maxWindow = 8 << 20
)

// zstdHead is the head of a frame.
type zstdHead struct {
	// length is the bytes of the head.
	length int
	// window is the bytes of the window; 0: the content is the window.
	window uint64
	// content is the bytes of the decompressed data, where stated is true.
	content  uint64
	stated   bool
	checksum bool
}

var (
	errNoZstd   = errors.New("compressed data: this is not Zstandard")
	errZstdHead = errors.New("compressed data: its head ends too early")
	errZstdEnd  = errors.New("compressed data: it ends too early")
)

// readZstdHead reads the head of a frame.
func readZstdHead(data []byte) (zstdHead, error) {
	if len(data) < 5 || binary.LittleEndian.Uint32(data) != zstdMagic {
		return zstdHead{}, errNoZstd
	}
	flags := data[4]
	h := zstdHead{length: 5, checksum: flags>>2&1 == 1}
	single := flags>>5&1 == 1
	if !single {
		if len(data) < 6 {
			return zstdHead{}, errNoZstd
		}
		exponent, mantissa := uint64(data[5]>>3), uint64(data[5]&7)
		h.window = uint64(1) << (10 + exponent)
		h.window += h.window / 8 * mantissa
		h.length++
	}
	h.length += []int{0, 1, 2, 4}[flags&3] // the number of a dictionary
	width := []int{0, 2, 4, 8}[flags>>6]
	if single && width == 0 {
		width = 1
	}
	if len(data) < h.length+width {
		return zstdHead{}, errZstdHead
	}
	if width > 0 {
		var content [8]byte
		copy(content[:], data[h.length:h.length+width])
		h.content, h.stated = binary.LittleEndian.Uint64(content[:]), true
		if width == 2 {
			h.content += 256
		}
		h.length += width
	}
	return h, nil
}

// ZstdSize returns the decompressed size that Zstandard data states in its first 18
// bytes; false if the data states none.
func ZstdSize(start []byte) (uint64, bool) {
	h, err := readZstdHead(start)
	return h.content, err == nil && h.stated
}

// CheckZstd refuses Zstandard data that could be more than size bytes when it is
// decompressed, or that asks for a window of more than 8 MiB.
func CheckZstd(data []byte, size int) error {
	if len(data) < 6 {
		return errNoZstd
	}
	h, err := readZstdHead(data)
	if err != nil {
		return err
	}
	if h.window > maxWindow {
		return errors.New("compressed data: its window is too large")
	}
	if h.stated && h.content != uint64(size) {
		return fmt.Errorf("compressed data: it holds %d bytes, and the page states %d", h.content, size)
	}
	rest, err := skipBlocks(data[h.length:], size)
	if err != nil {
		return err
	}
	if h.checksum {
		if len(rest) < 4 {
			return errZstdEnd
		}
		rest = rest[4:]
	}
	if len(rest) > 0 {
		return fmt.Errorf("compressed data: %d bytes follow it", len(rest))
	}
	return nil
}

// skipBlocks returns what follows the last block. The blocks must not make more
// than size bytes.
func skipBlocks(data []byte, size int) ([]byte, error) {
	for most, last := 0, false; !last; {
		if len(data) < 3 {
			return nil, errZstdEnd
		}
		head := int(data[0]) | int(data[1])<<8 | int(data[2])<<16
		data = data[3:]
		last = head&1 == 1
		stored, makes := head>>3, head>>3
		switch head >> 1 & 3 {
		case 1: // one byte again and again
			stored = 1
		case 2:
			makes = maxBlock
		case 3:
			return nil, errors.New("compressed data: a block has an unknown type")
		}
		if stored > len(data) {
			return nil, errZstdEnd
		}
		data = data[stored:]
		// The last block may make less than it could.
		if most += makes; most-maxBlock > size {
			return nil, errors.New("compressed data: it makes more than the page states")
		}
	}
	return data, nil
}
