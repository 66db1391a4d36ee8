package input

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/step"
)

// dense.go reads the dense part of a model: the name of a preset, or its layers.

const (
	densePart  = "a dense part"
	topHint    = "top is the widths of the layers of the top MLP, without its input, such as [1024, 512, 1]"
	stringHint = "write one of the known names"
)

// The fields of a dense part, and of its interaction.
var (
	widths      = listOf(anyWhole[int](), true)
	denseFields = numbered([]*field[step.Dense]{
		{key: "preset", hint: "preset is a model whose values the other keys replace", read: func(*reading, *node, string, *step.Dense) {}}, // read before
		at("bottom", widths, "bottom is the widths of the bottom MLP, from the dense features on, such as [13, 512, 128]", func(d *step.Dense) *[]int { return &d.Bottom }),
		{key: "interaction", hint: "interaction is how vectors are combined: dot, cat, {cat: {stride: 7}}, {dcn: {layers: 3, rank: 512}} or {flops: 638e6, parameters: 320e6, layers: 20}", read: readInteraction},
		at("top", widths, topHint, func(d *step.Dense) *[]int { return &d.Top }),
		at("precision", among(step.Formats()), "precision is the number format in which the dense part multiplies; fp32 if left out", func(d *step.Dense) *step.Format { return &d.Precision }),
		at("activations", activations, "activations is the size of all activations of a sample, such as 250kB; counted from the layers if left out", func(d *step.Dense) *float64 { return &d.ActivationBytes }),
		at("parallel", among([]step.Parallel{step.DDP, step.FSDP}), "parallel is how the devices hold the dense part; ddp if left out", func(d *step.Dense) *step.Parallel { return &d.Parallel }),
		at("optimizer", oneOf([]string{"sgd", "adagrad", "adam"}, optimizerBytes), "optimizer is that of the dense part; sgd if left out", func(d *step.Dense) *float64 { return &d.OptimizerBytes }),
	})
	denseShape = shaped(densePart, denseFields)

	interactionShape = shaped("an interaction", numbered([]*field[step.Dense]{
		group("dcn", shaped("a dcn interaction", numbered([]*field[step.Dense]{
			at("layers", anyWhole[int](), "layers is the number of cross layers", func(d *step.Dense) *int { return &d.CrossLayers }),
			at("rank", anyWhole[int](), "rank is the inner width of a cross layer", func(d *step.Dense) *int { return &d.Inner }),
		}))),
		group("cat", shaped("a cat interaction", []*field[step.Dense]{
			at("stride", anyWhole[int](), "stride is the number of columns that are averaged", func(d *step.Dense) *int { return &d.Stride }),
		})),
		at("flops", anyReal, "flops is the FLOP of a sample's forward, such as 638e6", func(d *step.Dense) *float64 { return &d.GivenFLOPs }),
		at("parameters", anyReal, "parameters is the number of weights and biases, such as 320e6", func(d *step.Dense) *float64 { return &d.GivenParameters }),
		at("layers", anyWhole[int](), "layers is the number of equal layers that the FLOP stand for", func(d *step.Dense) *int { return &d.CrossLayers }),
	}))

	activations = kind[float64]{func(r *report, n *node, hint string) (float64, bool) {
		b, ok := size.read(r, n, hint)
		return float64(b), ok
	}, nil, nil}
)

// optimizerBytes returns the bytes of state that an optimizer of a dense part keeps for a parameter.
func optimizerBytes(name string) (float64, error) {
	bytes, known := map[string]float64{"sgd": 0, "adagrad": 4, "adam": 8}[name]
	if !known {
		return 0, errors.New("unknown")
	}
	return bytes, nil
}

// DenseFile is the dense part of a model, as a file, a topology file or a flag states it.
type DenseFile struct {
	// Name is the file's name, as it appears in errors; empty for a preset that a flag names.
	Name string
	// Dense is what was read. Beside an error it must not be used.
	Dense step.Dense

	// lines has the lines of the keys; line is where the dense part begins.
	lines  map[string]int
	line   int
	faulty bool
}

// Dense reads the dense part of a model from YAML or JSON: an object with the keys preset,
// bottom, interaction, top, precision, activations, parallel and optimizer. The key preset
// names a model whose values the other keys replace. docs/FORMATS.md draws the file.
//
// The error is nil or an *Errors with all that cannot be understood. Whether the layers fit
// together, and fit the tables, is Parts.Problem's to report.
func Dense(name string, from io.Reader) (DenseFile, error) {
	r := &report{file: name}
	f := &DenseFile{}
	if root := r.root(name, densePart, from); root != nil {
		f = denseOf(r, root)
	}
	f.Name, f.faulty = name, r.count() > 0
	return *f, r.err()
}

// denseOf reads the name of a preset, or an object.
func denseOf(r *report, n *node) *DenseFile {
	f := &DenseFile{Dense: step.Dense{Precision: step.FP32}, line: n.line, lines: map[string]int{}}
	base := n.get("preset")
	named := n.kind == aString || n.kind == cell
	if named {
		base = n
	}
	if base != nil {
		f.Dense = presetOf(r, base, "preset", step.DenseByName, step.DenseNames())
	}
	if named || !denseShape.read(&reading{report: r, lines: f.lines}, n, &f.Dense) || base != nil {
		return f
	}
	if f.lines["interaction"] == 0 {
		r.add(n.line, "interaction is missing in a dense part", "write dot, cat, {dcn: {layers: 3, rank: 512}} or {flops: 638e6, parameters: 320e6}")
	}
	if f.lines["top"] == 0 && f.Dense.Interaction != step.Given {
		r.add(n.line, "top is missing in a dense part", topHint)
	}
	return f
}

// presetOf reads the name of a preset.
func presetOf[T any](r *report, n *node, key string, byName func(string) (T, error), known []string) (of T) {
	name, ok := r.text(&node{kind: n.kind, line: n.line, key: key, text: n.text}, stringHint)
	if !ok {
		return of
	}
	of, err := byName(clip(name))
	if err != nil {
		message := err.Error()
		if n.kind == cell {
			message = n.key + ": " + message
		}
		r.add(n.line, message, preset(name, known))
	}
	return of
}

// preset returns the hint for the name of a preset that is not known.
func preset(name string, known []string) string {
	if near := closest(strings.ReplaceAll(name, "_", "-"), known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "name a preset, or a file"
}

// readInteraction reads dot, dcn or cat, or an object.
func readInteraction(r *reading, n *node, _ string, of *step.Dense) {
	of.CrossLayers, of.Inner, of.Stride, of.GivenFLOPs, of.GivenParameters = 0, 0, 0, 0, 0
	if n.kind != anObject {
		if named, ok := among([]step.Interaction{step.Dot, step.Cat, step.DCN}).read(r.report, n, ""); ok {
			of.Interaction = named
		}
		return
	}
	of.Interaction = "" // of a preset
	interactionShape.read(&reading{report: r.report}, n, of)
	dcn, cat := n.get("dcn") != nil, n.get("cat") != nil
	given := n.get("flops") != nil || n.get("parameters") != nil || n.get("layers") != nil
	switch {
	case dcn && cat:
		r.add(n.line, "interaction: both dcn and cat", "state one interaction")
	case given && dcn, given && cat:
		r.add(n.line, "interaction: dcn or cat beside flops, parameters or layers of an interaction that is given", "state one interaction")
	case dcn:
		of.Interaction = step.DCN
	case cat:
		of.Interaction = step.Cat
	case given:
		of.Interaction = step.Given
		if n.get("flops") != nil && n.get("parameters") == nil {
			r.add(n.line, "interaction: flops without parameters", "state the number of weights and biases too, such as 320e6, or 0 for none")
		}
	}
}

// check returns nil, or an *Errors with what does not fit together in the dense part, and
// what does not fit the tables. Faults of the tables alone are not repeated.
func (f *DenseFile) check(p *problem.Problem, tablesFaulty bool) error {
	if f.faulty {
		return nil
	}
	d, of := f.Dense, p
	if tablesFaulty {
		d.Vectors, d.Columns, of = 0, 0, &problem.Problem{}
	}
	return f.errors(d.Check(of))
}

// errors gives the faults of a dense part their places.
func (f *DenseFile) errors(err error) error {
	var invalid *step.InvalidDense
	if !errors.As(err, &invalid) {
		return err
	}
	list := make([]Error, len(invalid.Faults))
	for i, fault := range invalid.Faults {
		list[i] = f.error(fault)
	}
	return &Errors{List: list}
}

// error returns an error of the dense part, whose message may begin with a key of it.
func (f *DenseFile) error(message string) Error {
	if f.Name == "" {
		return Error{Message: Flag("dense") + ": " + message}
	}
	key, _, _ := strings.Cut(message, ":")
	key, _, _ = strings.Cut(key, " ")
	return Error{File: f.Name, Line: cmp.Or(f.lines[key], f.line), Message: "dense: " + message}
}
