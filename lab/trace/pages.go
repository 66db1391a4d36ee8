package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// pages.go checks the sizes that a Parquet file states, before its library takes memory for
// them: a file of a few bytes may state gigabytes.

// The limits of a Parquet file. A footer takes about a hundred bytes for each column of each
// row group; writers make pages of about a megabyte.
const (
	maxFooterBytes = 16 << 20
	maxPageBytes   = 64 << 20
	maxPageValues  = 1 << 24
)

// checkFooter checks the length of a file's metadata, and of the lists in it.
func checkFooter(in io.ReaderAt, size int64) error {
	const frame = 12 // PAR1 at the start; a length and PAR1 at the end
	if size < frame {
		return fmt.Errorf("it is damaged or cut short: it has %d bytes", size)
	}
	var tail [4]byte
	if _, err := in.ReadAt(tail[:], size-8); err != nil {
		return cut(err)
	}
	length := int64(binary.LittleEndian.Uint32(tail[:]))
	if length > size-frame {
		return fmt.Errorf("it is damaged or cut short: a footer of %d bytes in a file of %d", length, size)
	}
	if length > maxFooterBytes {
		return fmt.Errorf("a footer of %d bytes, more than %d: write the file with larger row groups", length, maxFooterBytes)
	}
	footer := make([]byte, length)
	if _, err := in.ReadAt(footer, size-8-length); err != nil {
		return cut(err)
	}
	// No field of a footer has this number, so all of them are passed over, and nothing is kept.
	var none struct {
		None bool `thrift:"9999,optional"`
	}
	var protocol thrift.CompactProtocol
	if err := thrift.NewDecoder(protocol.NewReaderFromBytes(footer)).Decode(&none); err != nil {
		return fmt.Errorf("it is damaged or cut short: footer: %w", err)
	}
	return nil
}

// checkPages checks all pages of a column in a row group. levels are the column's highest
// repetition and definition levels.
func checkPages(in io.ReaderAt, size int64, meta *format.ColumnMetaData, levels [2]byte) error {
	switch meta.Codec {
	case format.Uncompressed, format.Snappy, format.Gzip, format.Zstd:
	default:
		return fmt.Errorf("compressed with %v: write it with snappy, gzip or zstd", meta.Codec)
	}
	at := meta.DataPageOffset
	if meta.DictionaryPageOffset != 0 {
		at = meta.DictionaryPageOffset
	}
	if at < 0 || meta.TotalCompressedSize < 0 || at > size || meta.TotalCompressedSize > size-at {
		return fmt.Errorf("%d bytes from %d on in a file of %d: it is damaged", meta.TotalCompressedSize, at, size)
	}
	for end := at + meta.TotalCompressedSize; at < end; {
		length, err := checkPage(io.NewSectionReader(in, at, end-at), meta.Codec, levels)
		if err != nil {
			return fmt.Errorf("page at byte %d: %w", at, err)
		}
		at += length
	}
	return nil
}

// checkPage checks the page at the start of the rest of a column. It returns the number of
// bytes of header and page.
func checkPage(rest *io.SectionReader, codec format.CompressionCodec, highest [2]byte) (int64, error) {
	page, length, err := pageHeader(rest)
	if err != nil {
		return 0, err
	}
	packed, unpacked := int64(page.CompressedPageSize), int64(page.UncompressedPageSize)
	values := max(page.DataPageHeader.V.NumValues, page.DictionaryPageHeader.V.NumValues, page.DataPageHeaderV2.V.NumValues)
	v2 := page.DataPageHeaderV2.V
	levels := int64(v2.DefinitionLevelsByteLength) + int64(v2.RepetitionLevelsByteLength)
	switch {
	case packed < 0 || packed > rest.Size()-length:
		return 0, fmt.Errorf("%d bytes, more than its column has", packed)
	case unpacked < 0 || max(packed, unpacked) > maxPageBytes:
		return 0, fmt.Errorf("%d bytes uncompressed, more than %d: write it with smaller pages", unpacked, maxPageBytes)
	case values > maxPageValues:
		return 0, fmt.Errorf("%d values, more than %d: write it with smaller row groups", values, maxPageValues)
	case min(v2.DefinitionLevelsByteLength, v2.RepetitionLevelsByteLength) < 0 || levels > min(packed, unpacked):
		return 0, fmt.Errorf("levels of %d bytes in a page of %d: it is damaged", levels, packed)
	}
	if v2.IsCompressed.Valid && !v2.IsCompressed.V {
		codec = format.Uncompressed
	}
	data, err := unpack(io.NewSectionReader(rest, length+levels, packed-levels), unpacked, codec)
	if err != nil {
		return 0, err
	}
	stated := make([]byte, levels)
	if _, err := rest.ReadAt(stated, length); err != nil && levels > 0 {
		return 0, cut(err)
	}
	return length + packed, checkRuns(&page, stated, data, int(values), highest)
}

// checkRuns checks the levels and the values of a data page. In a page of the second version the levels
// stand before the data.
func checkRuns(page *format.PageHeader, levels, data []byte, most int, highest [2]byte) error {
	r := runs{data: data, most: most}
	switch v2 := page.DataPageHeaderV2; {
	case page.DataPageHeader.Valid:
		r.levels(highest)
		r.values(page.DataPageHeader.V.Encoding)
	case v2.Valid:
		for i, n := range []int32{v2.V.RepetitionLevelsByteLength, v2.V.DefinitionLevelsByteLength} {
			(&runs{data: levels[:n], most: most}).packed(bits.Len8(highest[i]), &r.err)
			levels = levels[n:]
		}
		r.values(v2.V.Encoding)
	}
	return r.err
}

// pageHeader reads the header of a page. Statistics may make a header long, so a longer part
// of the rest is tried if a short one is not enough.
func pageHeader(rest *io.SectionReader) (page format.PageHeader, length int64, err error) {
	for _, most := range []int64{1 << 10, 1 << 18} {
		header := make([]byte, min(most, rest.Size()))
		if _, err := rest.ReadAt(header, 0); err != nil {
			return page, 0, cut(err)
		}
		var protocol thrift.CompactProtocol
		r := protocol.NewReaderFromBytes(header)
		page = format.PageHeader{}
		if err = thrift.NewDecoder(r).Decode(&page); err == nil {
			return page, int64(r.BytesRead()), nil
		}
	}
	return page, 0, fmt.Errorf("its header: %w", err)
}

// unpack returns the data of a page, which must not have more than the stated bytes.
func unpack(data *io.SectionReader, most int64, codec format.CompressionCodec) ([]byte, error) {
	var in io.Reader
	switch {
	case data.Size() == 0:
		return nil, nil
	case codec == format.Uncompressed:
		in = data
	case codec == format.Snappy:
		packed, err := io.ReadAll(data)
		if err != nil {
			return nil, cut(err)
		}
		if size, err := snappy.DecodedLen(packed); err != nil || int64(size) > most {
			return nil, errors.Join(fmt.Errorf("%d bytes, and its header states %d: it is damaged", size, most), err)
		}
		return snappy.Decode(nil, packed)
	case codec == format.Gzip:
		z, err := gzip.NewReader(data)
		if err != nil {
			return nil, cut(err)
		}
		in = z
	case codec == format.Zstd:
		z, err := zstd.NewReader(data, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxPageBytes))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		in = z
	}
	unpacked, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(unpacked)) > most {
		err = fmt.Errorf("more than the %d bytes that its header states: it is damaged", most)
	}
	return unpacked, cut(err)
}
