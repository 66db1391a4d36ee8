package dataset

import (
	"bytes"
	"fmt"

	"github.com/parquet-go/parquet-go"
)

// encodeRows returns the Parquet file of the rows, with the key-value metadata.
// The same rows give the same bytes.
func encodeRows[T any](rows []T, metadata map[string]string) ([]byte, error) {
	var out bytes.Buffer
	options := []parquet.WriterOption{
		parquet.Compression(&parquet.Zstd),
		// The library would state the version it was built with, and so change the
		// bytes.
		parquet.CreatedBy("neuroshard", "1", "dataset"),
	}
	for key, value := range metadata {
		options = append(options, parquet.KeyValueMetadata(key, value))
	}
	w := parquet.NewGenericWriter[T](&out, options...)
	if _, err := w.Write(rows); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

// decodeRows returns the rows of a file that encodeRows wrote, and its key-value
// metadata. The caller has compared the file's digest with the manifest's: a file that
// passes was written by this program, so its rows are as large as it says.
func decodeRows[T any](data []byte, rows int) (list []T, metadata map[string]string, err error) {
	// The library panics on some files that are not as it writes them.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decoding Parquet: %v", p)
		}
	}()
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, nil, err
	}
	if n := f.NumRows(); n != int64(rows) {
		return nil, nil, fmt.Errorf("%d rows, and the manifest states %d", n, rows)
	}
	if want := parquet.SchemaOf(new(T)); !parquet.EqualNodes(f.Schema(), want) {
		return nil, nil, fmt.Errorf("its columns are not those of this program: want %v", want)
	}
	r := parquet.NewGenericReader[T](f)
	defer r.Close()
	list = make([]T, rows)
	if n, err := r.Read(list); n != rows {
		return nil, nil, fmt.Errorf("%d of %d rows can be read: %w", n, rows, err)
	}
	return list, metadataOf(f), nil
}

// metadataOf returns the key-value metadata of a file.
func metadataOf(f *parquet.File) map[string]string {
	metadata := map[string]string{}
	for _, pair := range f.Metadata().KeyValueMetadata {
		metadata[pair.Key] = pair.Value
	}
	return metadata
}
