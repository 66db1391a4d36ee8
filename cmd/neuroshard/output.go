package main

import (
	"bytes"
	"encoding/json"
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

// standardOutput is the path that stands for standard output.
const standardOutput = "-"

// toStandardOutput reports whether an output goes to standard output: "-" does, and so does
// no path.
func toStandardOutput(path string) bool { return path == "" || path == standardOutput }

// bothToStandardOutput is the error of --json with --output -.
func bothToStandardOutput() error {
	return faulty("--json and --output - both go to standard output", "name a file for the plan, or leave --json out")
}

// checkOutput refuses, before the work, an output file that could not be written after it,
// or that is one of the inputs of the command (see overwrites).
func (a *app) checkOutput(path string, inputs ...string) error {
	if toStandardOutput(path) {
		return nil
	}
	const hint = "--output names the file to write"
	folder := filepath.Dir(path)
	switch info, err := os.Stat(folder); {
	case err != nil:
		return usagef("make the folder first, or name another one", "--output: there is no folder %s", folder)
	case !info.IsDir():
		return usagef(hint, "--output: %s is not a folder", folder)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return usagef(hint, "--output: %s is a folder", path)
	}
	return a.overwrites(path, inputs...)
}

// overwrites refuses an output that is one of the inputs, or a file in a folder that is an
// input: the command would destroy what it reads. Inputs that are no files are passed over.
func (a *app) overwrites(output string, inputs ...string) error {
	written, err := os.Stat(output)
	if err != nil {
		return nil // it does not exist: nothing is lost
	}
	for _, input := range inputs {
		read, err := a.stat(input)
		if err != nil {
			continue
		}
		inside := false
		if folder, err := os.Stat(filepath.Dir(output)); err == nil && read.IsDir() && !written.IsDir() {
			inside = os.SameFile(folder, read)
		}
		if inside || os.SameFile(written, read) {
			return usagef("name another output", "--output: %s is an input of this command, which would overwrite it", output)
		}
	}
	return nil
}

// stat describes an input: a file, a folder, or "-" for standard input.
func (a *app) stat(input string) (os.FileInfo, error) {
	if stdin, ok := a.stdin.(*os.File); ok && input == "-" {
		return stdin.Stat()
	}
	return os.Stat(input)
}
