package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/internal/atomicfile"
)

// output.go writes results to standard output or to files, and checks where they may go.

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

// checkOutputs refuses --json with --output -, and flags that change a report if the plan takes its
// place.
func checkOutputs(output string, json bool, ofReport map[string]bool) error {
	var f faults
	f.add(output == standardOutput && json, "name a file for the plan, or leave --json out", "--json and --output - both go to standard output")
	for _, name := range slices.Sorted(maps.Keys(ofReport)) {
		f.add(output == standardOutput && ofReport[name], "name a file for the plan, or leave --"+name+" out", "--%s: --output - prints the plan in place of the report", name)
	}
	return f.err()
}

// checkTrained refuses, before a training, a folder that holds something else than an earlier
// result of the format, which is "neuroshard-model" or "neuroshard-policy": the training would
// write between files of others, or over them. It warns of a result that it will replace.
func checkTrained(stderr io.Writer, folder, format string) error {
	files, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(files) == 0 {
		return nil
	}
	if err != nil {
		return bad(err, "name a folder that can be written")
	}
	var earlier struct{ Format, ID string }
	manifest, err := os.ReadFile(filepath.Join(folder, modelfile.ManifestName))
	if err != nil || json.Unmarshal(manifest, &earlier) != nil || earlier.Format != format {
		what := strings.TrimPrefix(format, "neuroshard-")
		return faulty(fmt.Sprintf("--output: %s holds other files, and no %s that a training wrote", folder, what), "name a new or empty folder, or one with a "+what+" to replace")
	}
	warn(stderr, "%s in %s will be replaced", earlier.ID, folder)
	return nil
}
