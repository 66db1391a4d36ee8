package input

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// dense.go reads the dense part of a model: the name of a preset, or its layers.

// The keys of a dense part, and of its interaction.
var (
	denseKeys       = []string{"preset", "bottom", "interaction", "top", "precision", "activations", "parallel", "optimizer"}
	interactionKeys = []string{"dcn", "cat", "flops", "parameters", "layers"}
	dcnKeys         = []string{"layers", "rank"}
	catKeys         = []string{"stride"}
)

const (
	densePart     = "a dense part"
	widthsHint    = "write the widths of the layers, such as [1024, 512, 1]"
	optimizerHint = "sgd keeps 0 bytes a parameter, adagrad 4 and adam 8"
	stringHint    = "write one of the known names"
)

// optimizerBytes are the optimizers of a dense part, with the bytes of state that each keeps
// for a parameter.
var optimizerBytes = map[string]float64{"sgd": 0, "adagrad": 4, "adam": 8}

// DenseFile is the dense part of a model, as a file, a topology file or a flag states it.
type DenseFile struct {
	// Name is what errors name: a file, or "--dense".
	Name string
	// Dense is what was read. Beside an error it must not be used.
	Dense step.Dense

	// lines has the lines of the keys; line is where the dense part begins.
	lines  map[string]int
	line   int
	faulty bool
}

// DensePreset returns the dense part that the flag --dense names.
func DensePreset(name string) (DenseFile, error) {
	d, err := step.DenseByName(clip(name))
	f := DenseFile{Name: denseFlag, Dense: d, faulty: err != nil}
	if err != nil {
		err = flagError(denseFlag+": "+err.Error(), preset(name, step.DenseNames()))
	}
	return f, err
}

// denseFlag is the name of a DenseFile that comes from a flag.
const denseFlag = "--dense"

// Dense reads the dense part of a model from YAML or JSON: an object with the keys preset,
// bottom, interaction, top, precision, activations, parallel and optimizer. The key preset
// names a model whose values the other keys replace. docs/FORMATS.md draws the file.
//
// The error is nil or an *Errors with all that cannot be understood. Whether the layers fit
// together, and fit the tables, is Parts.Problem's to report.
func Dense(name string, r io.Reader) (DenseFile, error) {
	d := &denseReader{values: values{&report{file: name}}, DenseFile: DenseFile{Name: name}}
	if root := d.root(name, densePart, r); root != nil {
		d.dense(root)
	}
	d.faulty = d.count() > 0
	return d.DenseFile, d.err()
}

// denseReader is a dense part being read.
type denseReader struct {
	values
	DenseFile
}

// dense reads the name of a preset, or an object.
func (d *denseReader) dense(n *yaml.Node) {
	d.line, d.lines = n.Line, map[string]int{}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		d.preset(n)
		return
	}
	d.Dense = step.Dense{Precision: step.FP32}
	if base := presetOf(n); base != nil {
		d.preset(base)
	}
	for key, value := range d.fields(n, densePart, denseKeys) {
		d.lines[key] = value.Line
		switch key {
		case "bottom":
			d.Dense.Bottom = d.widths(value, key)
		case "interaction":
			d.interaction(value)
		case "top":
			d.Dense.Top = d.widths(value, key)
		case "precision":
			d.Dense.Precision = oneOf(d.values, value, key, step.Formats(), d.Dense.Precision)
		case "activations":
			d.activations(value)
		case "parallel":
			d.Dense.Parallel = oneOf(d.values, value, key, []step.Parallel{step.DDP, step.FSDP}, step.DDP)
		case "optimizer":
			d.optimizer(value)
		}
	}
	if n.Kind == yaml.MappingNode {
		d.complete(n)
	}
}

// complete reports an interaction or a top MLP that neither the keys nor a preset state.
func (d *denseReader) complete(n *yaml.Node) {
	if presetOf(n) != nil {
		return
	}
	if d.lines["interaction"] == 0 {
		d.add(n.Line, "interaction is missing in a dense part", "write dot, cat, {dcn: {layers: 3, rank: 512}} or {flops: 638e6, parameters: 320e6}")
	}
	if d.lines["top"] == 0 && d.Dense.Interaction != step.Given {
		d.add(n.Line, "top is missing in a dense part", widthsHint)
	}
}

// preset reads the name of a preset.
func (d *denseReader) preset(n *yaml.Node) {
	name, ok := d.text(n, "preset", stringHint)
	if !ok {
		return
	}
	of, err := step.DenseByName(clip(name))
	if err != nil {
		d.add(n.Line, err.Error(), preset(name, step.DenseNames()))
	}
	d.Dense = of
}

// widths reads a list of widths.
func (d *denseReader) widths(n *yaml.Node, key string) []int {
	if n.Kind != yaml.SequenceNode {
		d.add(n.Line, fmt.Sprintf("%s: %s where a list belongs", key, yamlType(n)), widthsHint)
		return nil
	}
	widths := make([]int, 0, len(n.Content))
	for _, one := range n.Content {
		if w, ok := d.whole(one, key, widthsHint); ok {
			widths = append(widths, w)
		}
	}
	return widths
}

// interaction reads dot, dcn or cat, or an object.
func (d *denseReader) interaction(n *yaml.Node) {
	of := &d.Dense
	of.CrossLayers, of.Inner, of.Stride, of.GivenFLOPs, of.GivenParameters = 0, 0, 0, 0, 0
	if n.Kind == yaml.ScalarNode {
		of.Interaction = oneOf(d.values, n, "interaction", []step.Interaction{step.Dot, step.Cat, step.DCN}, of.Interaction)
		return
	}
	of.Interaction = "" // of a preset
	stated := map[string]bool{}
	for key, value := range d.fields(n, "an interaction", interactionKeys) {
		stated[key] = true
		switch key {
		case "dcn":
			of.Interaction = step.DCN
			for key, value := range d.fields(value, "a dcn interaction", dcnKeys) {
				if key == "layers" {
					of.CrossLayers, _ = d.whole(value, key, "layers is the number of cross layers")
				} else {
					of.Inner, _ = d.whole(value, key, "rank is the inner width of a cross layer")
				}
			}
		case "cat":
			of.Interaction = step.Cat
			for key, value := range d.fields(value, "a cat interaction", catKeys) {
				of.Stride, _ = d.whole(value, key, "stride is the number of columns that are averaged")
			}
		case "flops":
			of.GivenFLOPs, _ = d.real(value, key, "flops is the FLOP of a sample's forward, such as 638e6")
		case "parameters":
			of.GivenParameters, _ = d.real(value, key, "parameters is the number of weights and biases, such as 320e6")
		case "layers":
			of.CrossLayers, _ = d.whole(value, key, "layers is the number of equal layers that the FLOP stand for")
		}
	}
	d.oneInteraction(n.Line, stated)
}

// oneInteraction reports keys of an interaction that do not go together.
func (d *denseReader) oneInteraction(line int, stated map[string]bool) {
	of := &d.Dense
	given := stated["flops"] || stated["parameters"] || stated["layers"]
	switch {
	case stated["dcn"] && stated["cat"]:
		d.add(line, "interaction: both dcn and cat", "state one interaction")
	case given && of.Interaction != "":
		d.add(line, fmt.Sprintf("interaction: %s beside flops, parameters or layers of an interaction that is given", of.Interaction), "state one interaction")
	case given:
		of.Interaction = step.Given
		if stated["flops"] && !stated["parameters"] {
			d.add(line, "interaction: flops without parameters", "state the number of weights and biases too, such as 320e6, or 0 for none")
		}
	}
}

func (d *denseReader) activations(n *yaml.Node) {
	const hint = "it is the size of all activations of one sample, such as 250kB"
	text, ok := d.text(n, "activations", hint)
	if !ok {
		return
	}
	size, err := unit.ParseSize(text)
	if err != nil {
		d.add(n.Line, "activations: "+what(err), hint)
	}
	d.Dense.ActivationBytes = float64(size)
}

func (d *denseReader) optimizer(n *yaml.Node) {
	text, ok := d.text(n, "optimizer", optimizerHint)
	if !ok {
		return
	}
	bytes, known := optimizerBytes[text]
	if !known {
		d.add(n.Line, fmt.Sprintf("optimizer %s is unknown", quote(text)), d.suggest(text, []string{"sgd", "adagrad", "adam"}))
	}
	d.Dense.OptimizerBytes = bytes
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
	if f.Name == denseFlag {
		return Error{Message: denseFlag + ": " + message}
	}
	key, _, _ := strings.Cut(message, ":")
	key, _, _ = strings.Cut(key, " ")
	return Error{File: f.Name, Line: cmp.Or(f.lines[key], f.line), Message: "dense: " + message}
}
