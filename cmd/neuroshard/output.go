package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/neuroshard/neuroshard/internal/atomicfile"
)

// output.go writes results to standard output or to files.

// writeJSON writes a value as indented JSON to a file.
func writeJSON(path string, v any) error {
	var b bytes.Buffer
	if err := indented(&b, v); err != nil {
		return err
	}
	return writeFile(path, b.Bytes())
}

func indented(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// writeFile writes a file, whole or not at all.
func writeFile(path string, data []byte) error {
	return bad(atomicfile.Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}), "choose a file that can be written")
}

// writableFile refuses, before the work, an output that could not be written after it;
// "" is standard output.
func writableFile(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(filepath.Dir(path))
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder", filepath.Dir(path))
	}
	if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder", path)
	}
	return bad(err, "--output names the file to write")
}
