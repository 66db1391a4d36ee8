package prototype

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
)

// readAll reads a whole file of at most MaxFileBytes, and decompresses it if it is gzipped.
func readAll(name string, r io.Reader) ([]byte, error) {
	data, err := readLimited(name, r)
	if err != nil || !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, err
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return readLimited(name, z)
}

func readLimited(name string, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(MaxFileBytes)+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > int(MaxFileBytes) {
		return nil, fmt.Errorf("%s: larger than %v: is it one of the prototype's files?", name, MaxFileBytes)
	}
	return data, nil
}

// decode reads JSON, and names the file in its error.
func decode(name string, data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// isObject reports whether a text begins as a JSON object does.
func isObject(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
}
