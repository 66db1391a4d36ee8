package lookups

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"github.com/neuroshard/neuroshard/internal/atomicfile"
)

// A lookup file holds the lookups of one batch in one table. All numbers are
// little-endian.
//
//	0   "nspool\r\n"
//	8   version, 4 bytes
//	12  CRC-32C of everything else in the file, 4 bytes
//	16  number of bags, 8 bytes
//	24  number of lookups, 8 bytes
//	32  offsets: bags+1 numbers of 8 bytes
//	..  indices: lookups numbers of 8 bytes

const (
	fileMagic   = "nspool\r\n" // a transfer in text mode would change it
	fileVersion = 1
	fileHeader  = 32
)

// WriteFile writes lookups to a file. The file is whole or does not exist, even if
// the process is killed. WriteFile refuses bags that Check refuses, and more than
// MaxBags bags or MaxLookups lookups.
func WriteFile(path string, b Bags) error {
	if err := b.Check(0); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if b.Len() > MaxBags || len(b.Indices) > MaxLookups {
		return fmt.Errorf("%s: %d bags of %d lookups are more than the %d of %d of a lookup file", path, b.Len(), len(b.Indices), MaxBags, MaxLookups)
	}
	return atomicfile.Write(path, func(w io.Writer) error { return writeFile(w, b) })
}

func writeFile(w io.Writer, b Bags) error {
	header := make([]byte, fileHeader)
	copy(header, fileMagic)
	binary.LittleEndian.PutUint32(header[8:], fileVersion)
	binary.LittleEndian.PutUint64(header[16:], uint64(b.Len()))
	binary.LittleEndian.PutUint64(header[24:], uint64(len(b.Indices)))
	sum := headerSum(header)
	_ = writeNumbers(sum, b)
	binary.LittleEndian.PutUint32(header[12:], sum.Sum32())
	_, err := w.Write(header)
	return errors.Join(err, writeNumbers(w, b))
}

// fileBlock is the number of numbers that are converted at once.
const fileBlock = 1 << 13

// writeNumbers writes the offsets and the indices.
func writeNumbers(w io.Writer, b Bags) error {
	for _, list := range [][]int64{b.Offsets, b.Indices} {
		for part := range slices.Chunk(list, fileBlock) {
			if err := binary.Write(w, binary.LittleEndian, part); err != nil {
				return err
			}
		}
	}
	return nil
}

// headerSum starts the checksum with the header, without the checksum itself.
func headerSum(header []byte) hash.Hash32 {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	sum.Write(header[:12])
	sum.Write(header[16:])
	return sum
}

// ReadFile reads lookups that WriteFile wrote. It takes at most the memory of the
// file's size, whatever the header says. It fails if the file is shorter or longer
// than its header says, damaged, or of another version.
func ReadFile(path string) (Bags, error) {
	f, err := os.Open(path)
	if err != nil {
		return Bags{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Bags{}, err
	}
	b, err := readFile(f, info.Size())
	if err != nil {
		return Bags{}, fmt.Errorf("lookup file %s: %w", path, err)
	}
	return b, nil
}

// readFile reads a lookup file of the given size in bytes.
func readFile(r io.Reader, size int64) (Bags, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	header := make([]byte, fileHeader)
	if _, err := io.ReadFull(in, header); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return Bags{}, fmt.Errorf("it is shorter than the %d bytes of a header", fileHeader)
		}
		return Bags{}, err
	}
	if string(header[:8]) != fileMagic {
		return Bags{}, fmt.Errorf("it starts with %q: it is not a lookup file, or a transfer in text mode changed it", header[:8])
	}
	if version := binary.LittleEndian.Uint32(header[8:]); version != fileVersion {
		return Bags{}, fmt.Errorf("it has version %d, but this program reads version %d", version, fileVersion)
	}
	bags, lookups := binary.LittleEndian.Uint64(header[16:]), binary.LittleEndian.Uint64(header[24:])
	if bags > MaxBags || lookups > MaxLookups {
		return Bags{}, fmt.Errorf("its header says %d bags of %d lookups, more than %d of %d", bags, lookups, MaxBags, MaxLookups)
	}
	if want := fileHeader + 8*int64(bags+1+lookups); size != want {
		return Bags{}, fmt.Errorf("it has %d bytes, but its header says %d: it is cut short or damaged", size, want)
	}
	b := Bags{Offsets: make([]int64, bags+1), Indices: make([]int64, lookups)}
	sum := headerSum(header)
	rest := io.TeeReader(in, sum)
	for _, list := range [][]int64{b.Offsets, b.Indices} {
		for part := range slices.Chunk(list, fileBlock) {
			if err := binary.Read(rest, binary.LittleEndian, part); err != nil {
				return Bags{}, fmt.Errorf("cut short: %w", err)
			}
		}
	}
	if got, want := sum.Sum32(), binary.LittleEndian.Uint32(header[12:]); got != want {
		return Bags{}, fmt.Errorf("its checksum is %#08x, but its header says %#08x: it is damaged", got, want)
	}
	if err := b.Check(0); err != nil {
		return Bags{}, err
	}
	return b, nil
}
