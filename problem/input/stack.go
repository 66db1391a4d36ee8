package input

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/step"
)

// stack.go reads a training system: the name of a preset, or its parts.

// The keys of a stack, and what its key overlap may list.
var (
	stackKeys    = []string{"preset", "forward", "backward", "exchange", "overlap", "launch", "sharp"}
	overlapWords = []string{"input", "forward", "backward", "sort", "optimizer", "stale"}
	launchWords  = []string{"eager", "graph"}
)

const stackPart = "a stack"

// StackPreset returns the stack that the flag --stack names.
func StackPreset(name string) (step.Stack, error) {
	s, err := step.StackByName(clip(name))
	if err != nil {
		err = flagError("--stack: "+err.Error(), preset(name, step.StackNames()))
	}
	return s, err
}

// Stack reads a training system from YAML or JSON: an object with the keys preset, which is
// required, and forward, backward, exchange, overlap, launch and sharp, which replace parts
// of the preset. docs/FORMATS.md draws the file. A stack with other parts than its preset has
// constants that no measured step confirms; sharp alone does not change them.
//
// The error is nil or an *Errors with all that cannot be understood.
func Stack(name string, r io.Reader) (step.Stack, error) {
	s := &stackReader{values: values{&report{file: name}}}
	if root := s.root(name, stackPart, r); root != nil {
		s.stack(root)
	}
	return s.Stack, s.err()
}

// stackReader is a stack being read.
type stackReader struct {
	values
	step.Stack
}

// stack reads the name of a preset, or an object.
func (s *stackReader) stack(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		s.preset(n)
		return
	}
	base := presetOf(n)
	if base != nil {
		s.preset(base)
	} else if n.Kind == yaml.MappingNode {
		s.add(n.Line, "preset is missing in a stack", "name the preset that comes nearest: "+strings.Join(step.StackNames(), ", "))
	}
	for key, value := range s.fields(n, stackPart, stackKeys) {
		switch key {
		case "preset":
			continue
		case "forward":
			s.Forward = s.precision(value, key)
		case "backward":
			s.Backward = s.precision(value, key)
		case "exchange":
			s.Exchange = oneOf(s.values, value, key, step.Exchanges(), s.Exchange)
		case "overlap":
			s.overlap(value)
		case "launch":
			s.launch(value)
		case "sharp":
			s.sharp(value)
		}
	}
	if slices.ContainsFunc(s.Changes(), func(part string) bool { return part != "sharp" }) {
		s.Known, s.Error = false, step.UnknownError()
	}
}

// preset reads the name of a preset.
func (s *stackReader) preset(n *yaml.Node) {
	name, ok := s.text(n, "stack", stringHint)
	if !ok {
		return
	}
	of, err := step.StackByName(clip(name))
	if err != nil {
		s.add(n.Line, err.Error(), preset(name, step.StackNames()))
	}
	s.Stack = of
}

func (s *stackReader) precision(n *yaml.Node, key string) *problem.Precision {
	text, ok := s.text(n, key, stringHint)
	if !ok {
		return nil
	}
	p, err := problem.ParsePrecision(text)
	if err != nil {
		s.add(n.Line, fmt.Sprintf("%s %s is unknown", key, quote(text)), s.suggest(text, problem.Precisions()))
	}
	return &p
}

// overlap reads the list of what runs beside other work.
func (s *stackReader) overlap(n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		s.add(n.Line, fmt.Sprintf("overlap: %s where a list belongs", yamlType(n)), "list some of "+strings.Join(overlapWords, ", ")+"; [] is none")
		return
	}
	s.Overlaps = step.Overlaps{}
	for _, one := range n.Content {
		switch oneOf(s.values, one, "overlap", overlapWords, "") {
		case "input":
			s.Overlaps.Input = true
		case "forward":
			s.Overlaps.Forward = true
		case "backward":
			s.Overlaps.Backward = true
		case "sort":
			s.Overlaps.Sort = true
		case "optimizer":
			s.Overlaps.Optimizer = true
		case "stale":
			s.Overlaps.Stale = true
		}
	}
}

func (s *stackReader) launch(n *yaml.Node) {
	word := oneOf(s.values, n, "launch", launchWords, "")
	switch slices.Index(launchWords, word) {
	case 0:
		// The presets of PyTorch state what the launches of a step take.
		if eager, err := step.StackByName("torchrec-base"); err == nil {
			s.Launch, s.Constants.Launches = eager.Launch, max(s.Constants.Launches, eager.Constants.Launches)
		}
	case 1:
		s.Launch, s.Constants.Launches = simulate.Graph, 0
	}
}

func (s *stackReader) sharp(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		s.add(n.Line, fmt.Sprintf("sharp: %s where true or false belongs", yamlType(n)), "")
		return
	}
	_ = n.Decode(&s.SHARP) // a !!bool decodes
}
