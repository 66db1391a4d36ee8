// Package parquetfile reads the metadata of Parquet files and checks every length in it.
//
// Parquet libraries trust lengths: a file of a few bytes may make them ask for
// gigabytes. The functions here read the same bytes first, in this order:
//
//	Footer     the bytes of a file's metadata
//	Parse      metadata as a tree; Skip checks it without building one
//	ReadPage   the header of a page
//	CheckZstd  a page's Zstandard data, before it is decompressed
//
// A file that passes these checks takes memory in proportion to its size.
package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Magic begins and ends a Parquet file.
const Magic = "PAR1"

// Footer returns the metadata of a file of the given size, at most most bytes.
func Footer(r io.ReaderAt, size, most int64) ([]byte, error) {
	const frame = 2*len(Magic) + 4
	if size < int64(frame) {
		return nil, fmt.Errorf("%d bytes are not a Parquet file: it ends early", size)
	}
	var head [4]byte
	var tail [8]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return nil, err
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil {
		return nil, err
	}
	if string(head[:]) != Magic || string(tail[4:]) != Magic {
		return nil, errors.New("it does not begin and end as a Parquet file: it is cut short")
	}
	length := int64(binary.LittleEndian.Uint32(tail[:]))
	switch {
	case length > size-int64(frame):
		return nil, fmt.Errorf("a footer of %d bytes in a file of %d: it is damaged", length, size)
	case length > most:
		return nil, fmt.Errorf("a footer of %d bytes, more than %d: write the file with larger row groups", length, most)
	}
	data := make([]byte, length)
	_, err := r.ReadAt(data, size-8-length)
	return data, err
}

// The kinds of pages.
const (
	DataPage       = 0
	DictionaryPage = 2
	DataPageV2     = 3
)

// Page is the header of a page, as stated: sizes and counts may be negative or
// larger than the file.
type Page struct {
	// Type is DataPage, DictionaryPage, DataPageV2 or another number.
	Type int64
	// Unpacked and Packed are the bytes of the page after and before decompression.
	Unpacked, Packed int64
	// Values is the number of values, -1 if the header does not state it.
	Values int64
	// Levels is the bytes of levels that precede the compressed data of a DataPageV2,
	// and are counted in Unpacked and Packed; 0 for other pages.
	Levels int64
	// Compressed is false for a page whose header says that it is not compressed.
	Compressed bool
	// Head holds the fields that only pages of this kind have.
	Head Value
}

// The fields of a page's header, as parquet.thrift numbers them.
const (
	pageType, pageUnpacked, pagePacked                 = 1, 2, 3
	headValues, headV2Definitions, headV2Repetitions   = 1, 5, 6
	headV2Compressed                                   = 7
	headOfDataPage, headOfDictionary, headOfDataPageV2 = 5, 7, 8
)

// maxHeaderValues bounds the fields of a page's header.
const maxHeaderValues = 1 << 8

// ReadPage reads the header of a page from the beginning of data, and returns it
// with its length. The error wraps ErrEnd if data ends too early.
func ReadPage(data []byte) (Page, int, error) {
	head, n, err := Parse(data, maxHeaderValues)
	if err != nil {
		return Page{}, 0, err
	}
	p := Page{
		Type:     head.Integer(pageType, -1),
		Unpacked: head.Integer(pageUnpacked, -1), Packed: head.Integer(pagePacked, -1),
		Compressed: true,
	}
	for kind, id := range map[int64]int16{DataPage: headOfDataPage, DictionaryPage: headOfDictionary, DataPageV2: headOfDataPageV2} {
		switch {
		case kind == p.Type:
			p.Head = head.Field(id)
		case head.Has(id):
			return Page{}, 0, fmt.Errorf("a page of kind %d with the header of kind %d: it is damaged", p.Type, kind)
		}
	}
	p.Values = p.Head.Integer(headValues, -1)
	if p.Type == DataPageV2 {
		definitions, repetitions := p.Head.Integer(headV2Definitions, 0), p.Head.Integer(headV2Repetitions, 0)
		if definitions < 0 || repetitions < 0 {
			return Page{}, 0, errors.New("levels of a negative length: it is damaged")
		}
		p.Levels = definitions + repetitions // each is an int32
		p.Compressed = p.Head.Integer(headV2Compressed, 1) != 0
	}
	return p, n, nil
}
