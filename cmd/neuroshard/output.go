package main

import (
	"bytes"
	"encoding/json"
	"io"

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

// standardOutput is the path that stands for standard output.
const standardOutput = "-"

// toStandardOutput reports whether an output goes to standard output: its path is "-" or
// empty.
func toStandardOutput(path string) bool { return path == "" || path == standardOutput }

// bothToStandardOutput is the error of --json with --output -.
func bothToStandardOutput() error {
	return faulty("--json and --output - both go to standard output", "name a file for the plan, or leave --json out")
}
