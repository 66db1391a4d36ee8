package input

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
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
	var line bytes.Buffer
	encode := json.NewEncoder(&line)
	encode.SetEscapeHTML(false)
	if len(warnings) > 0 {
		if err := encode.Encode(warnings); err != nil {
			return err
		}
		fmt.Fprintf(out, "  \"warnings\": %s,\n", bytes.TrimSpace(line.Bytes()))
	}
	if len(file.Fixed) > 0 {
		loads := make([]jsonFixed, len(file.Fixed))
		for i := range loads {
			loads[i] = fixedOf(&file.Fixed[i])
		}
		line.Reset()
		if err := encode.Encode(loads); err != nil {
			return err
		}
		fmt.Fprintf(out, "  \"fixed\": %s,\n", bytes.TrimSpace(line.Bytes()))
	}
	fmt.Fprint(out, "  \"tables\": [")
	for i := range tables {
		line.Reset()
		if err := encode.Encode(tableOf(&tables[i])); err != nil {
			return fmt.Errorf("table %q: %w", tables[i].Name, err)
		}
		separator := ",\n    "
		if i == 0 {
			separator = "\n    "
		}
		out.WriteString(separator)
		out.Write(bytes.TrimSpace(line.Bytes()))
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

// The JSON objects of the format, in the order of their keys.
type (
	jsonTable struct {
		Name          string           `json:"name"`
		Module        string           `json:"module,omitempty"`
		Rows          int64            `json:"rows"`
		Dim           int              `json:"dim"`
		Features      []jsonFeature    `json:"features,omitempty"`
		PoolingFactor *float64         `json:"pooling_factor,omitempty"`
		LengthCV      float64          `json:"length_cv,omitempty"`
		Bags          float64          `json:"bags,omitempty"`
		Pooling       string           `json:"pooling,omitempty"`
		Weighted      bool             `json:"weighted,omitempty"`
		Prefetch      bool             `json:"prefetch,omitempty"`
		IndexDedup    bool             `json:"index_dedup,omitempty"`
		Settings      string           `json:"kernel_settings,omitempty"`
		Precision     string           `json:"precision"`
		Output        string           `json:"output_precision,omitempty"`
		Optimizer     string           `json:"optimizer"`
		Access        *jsonAccess      `json:"access,omitempty"`
		Constraints   *jsonConstraints `json:"constraints,omitempty"`
	}
	jsonFeature struct {
		Name          string  `json:"name,omitempty"`
		PoolingFactor float64 `json:"pooling_factor"`
		LengthCV      float64 `json:"length_cv,omitempty"`
		Bags          float64 `json:"bags,omitempty"`
	}
	jsonAccess struct {
		Reuse      []float64 `json:"reuse,omitempty"`
		Batch      int       `json:"batch,omitempty"`
		UniqueRows float64   `json:"unique_rows,omitempty"`
		Zipf       float64   `json:"zipf,omitempty"`
		Uniform    bool      `json:"uniform,omitempty"`
		IndexLaw   string    `json:"index_law,omitempty"`
	}
	jsonConstraints struct {
		Devices    []int  `json:"devices,omitempty"`
		Device     *int   `json:"device,omitempty"`
		Colocation string `json:"group,omitempty"`
		NoSplit    bool   `json:"no_split,omitempty"`
		MinWidth   int    `json:"min_width,omitempty"`
		OneHost    bool   `json:"one_host,omitempty"`

		ShardingTypes []problem.ShardingType `json:"sharding_types,omitempty"`
		Tiers         []problem.Tier         `json:"tiers,omitempty"`
		CacheShare    float64                `json:"cache_share,omitempty"`
	}
)

func tableOf(t *problem.Table) jsonTable {
	out := jsonTable{
		Name: t.Name, Module: t.Module, Rows: t.Rows, Dim: t.Dim, Weighted: t.Weighted, Prefetch: t.Prefetch, IndexDedup: t.IndexDedup, Settings: t.KernelSettings,
		Precision: t.Precision.String(), Optimizer: t.Optimizer.String(),
	}
	if o := t.OutputPrecision; o != 0 {
		out.Output = o.Of(t.Precision).String()
	}
	if t.Pooling != problem.SumPooling {
		out.Pooling = t.Pooling.String()
	}
	if len(t.Features) == 1 && t.Features[0].Name == t.Name {
		out.PoolingFactor, out.LengthCV, out.Bags = &t.Features[0].PoolingFactor, t.Features[0].LengthCV, t.Features[0].Bags
	} else {
		for _, f := range t.Features {
			out.Features = append(out.Features, jsonFeature(f))
		}
	}
	out.Access = accessOf(t)
	c := t.Constraint
	if len(c.Devices) > 0 || c.Colocation != "" || c.NoSplit || c.MinWidth > 0 || c.OneHost || len(c.ShardingTypes) > 0 || len(c.Tiers) > 0 || c.CacheShare > 0 {
		out.Constraints = &jsonConstraints{Devices: c.Devices, Colocation: c.Colocation, NoSplit: c.NoSplit, MinWidth: c.MinWidth, OneHost: c.OneHost, ShardingTypes: c.ShardingTypes, Tiers: c.Tiers, CacheShare: c.CacheShare}
		if len(c.Devices) == 1 {
			out.Constraints.Devices, out.Constraints.Device = nil, &c.Devices[0]
		}
	}
	return out
}

// accessOf returns what is stated of a table's accesses; nil if nothing is.
func accessOf(t *problem.Table) *jsonAccess {
	out, d := jsonAccess{}, &t.Access
	switch d.Kind {
	case access.Histogram:
		out.Reuse, out.Batch = d.Reuse[:], d.Batch
		out.UniqueRows = min(d.UniqueRows, float64(t.Rows), mostUnique(t)) // a table that was scaled may state more
	case access.Zipf:
		out.Zipf = d.Exponent
	case access.Uniform:
		out.Uniform = true
	}
	if d.Law != access.Independent {
		out.IndexLaw = d.Law.String()
	} else if d.Kind == access.Unstated {
		return nil
	}
	return &out
}
