package input

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/step"
)

// Write writes a file of tables in the project's own JSON format, one table a line, so that
// Tables reads the same Tables, Batch, Samples, Warnings and Fixed back. A batch and samples of 0
// state none. Each warning is a line; at most 100 are written. Other fields are not written.
//
// The file must be valid: Write refuses what Tables and Check would not take
// back on any cluster, with an *Errors, and writes nothing then.
func Write(w io.Writer, file TableFile) error {
	if err := writable(&file); err != nil {
		return err
	}
	tables, warnings := file.Tables, file.Warnings[:min(len(file.Warnings), mostWarnings)]
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "{\n  \"format\": %q,\n  \"version\": %d,\n", TablesFormat, TablesVersion)
	if file.Batch > 0 {
		fmt.Fprintf(out, "  \"batch\": %d,\n", file.Batch)
	}
	if file.Samples > 0 {
		fmt.Fprintf(out, "  \"samples\": %d,\n", file.Samples)
	}
	if len(warnings) > 0 {
		fmt.Fprintf(out, "  \"warnings\": %s,\n", jsonOf(warnings))
	}
	if len(file.Fixed) > 0 {
		loads := make([]any, len(file.Fixed))
		for i := range loads {
			loads[i] = object(fixedFields, &file.Fixed[i])
		}
		fmt.Fprintf(out, "  \"fixed\": %s,\n", jsonOf(loads))
	}
	fmt.Fprint(out, "  \"tables\": [")
	for i := range tables {
		separator := ",\n    "
		if i == 0 {
			separator = "\n    "
		}
		out.WriteString(separator)
		t := table{Table: &tables[i]}
		if t.single() {
			t.only = t.Features[0]
		}
		out.Write(jsonOf(object(ownFields, &t)))
	}
	fmt.Fprint(out, "\n  ]\n}\n")
	return out.Flush()
}

// writable returns nil or an *Errors that says why the file cannot be
// written.
func writable(file *TableFile) error {
	r := &report{}
	tables := file.Tables
	if file.Batch < 0 {
		r.add(0, fmt.Sprintf("batch: %d is negative", file.Batch), batchHint)
	}
	if file.Samples < 0 || file.Samples > step.MaxSamples {
		r.add(0, fmt.Sprintf("samples: %d is not between 1 and %d", file.Samples, int64(step.MaxSamples)), samplesHint)
	}
	for _, text := range file.Warnings[:min(len(file.Warnings), mostWarnings)] {
		if !isWarning(text) {
			r.add(0, noWarning(text), "leave it out")
		}
	}
	p := &problem.Problem{
		Tables:   tables,
		Topology: hardware.Topology{Profile: hardware.Profiles()[0], Devices: hardware.MaxDevices, ReserveShare: hardware.NoReserve, HostMemory: hardware.MaxMemory, Fixed: timesOnly(file.Fixed)},
		Batch:    max(1, file.Batch),
	}
	for i := range tables {
		t := &tables[i]
		words := []string{t.Name, t.Module, t.Constraint.Colocation, t.KernelSettings}
		for _, f := range t.Features {
			words = append(words, f.Name)
		}
		for _, word := range words {
			if !utf8.ValidString(word) || len(word) > maxLiteral/6 {
				r.put(Error{Table: t.Name, Message: fmt.Sprintf("%s is not valid UTF-8 of at most %d bytes", quote(word), maxLiteral/6), Hint: "rename it"})
			}
		}
	}
	return Join(r.err(), Check(p))
}

// timesOnly returns fixed loads without bytes that are valid: whether these fit depends on the cluster.
func timesOnly(loads []hardware.FixedLoad) []hardware.FixedLoad {
	loads = slices.Clone(loads)
	for i := range loads {
		if l := &loads[i]; l.Bytes > 0 && l.Bytes <= hardware.MaxMemory {
			l.Bytes = 1
		}
	}
	return loads
}
