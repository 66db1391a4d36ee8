package input

import (
	"io"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/step"
)

// stack.go reads a training system: the name of a preset, or its parts.

const stackPart = "a stack"

// stackFields are the fields of a stack.
var (
	stackFields = numbered([]*field[step.Stack]{
		{key: "preset", hint: "preset is the stack whose parts the other keys replace; it is required", read: func(*reading, *node, string, *step.Stack) {}}, // read before
		at("forward", exchangePrecision, "forward is the number format of the exchange of vectors", func(s *step.Stack) **problem.Precision { return &s.Forward }),
		at("backward", exchangePrecision, "backward is the number format of the exchange of gradients", func(s *step.Stack) **problem.Precision { return &s.Backward }),
		at("exchange", among(step.Exchanges()), "exchange is how vectors and gradients travel", func(s *step.Stack) *step.Exchange { return &s.Exchange }),
		at("overlap", overlaps, "overlap is what runs beside other work: a list of some of "+strings.Join(overlapWords, ", ")+"; [] is none", func(s *step.Stack) *step.Overlaps { return &s.Overlaps }),
		{key: "launch", hint: "launch is eager if the host launches each kernel, and graph if it replays a graph", schema: schema{"enum": []string{"eager", "graph"}}, read: readLaunch},
		at("sharp", truth, "sharp is true if the switches between hosts add the dense gradients", func(s *step.Stack) *bool { return &s.SHARP }),
	})
	stackShape = shaped(stackPart, stackFields)

	overlapWords      = []string{"input", "forward", "backward", "sort", "optimizer", "stale"}
	exchangePrecision = kind[*problem.Precision]{func(r *report, n *node, hint string) (*problem.Precision, bool) {
		p, ok := precision.read(r, n, hint)
		return &p, ok
	}, nil, precision.schema}
	overlaps = kind[step.Overlaps]{func(r *report, n *node, hint string) (step.Overlaps, bool) {
		list, ok := listOf(among(overlapWords), true).read(r, n, hint)
		has := func(word string) bool { return slices.Contains(list, word) }
		return step.Overlaps{Input: has("input"), Forward: has("forward"), Backward: has("backward"), Sort: has("sort"), Optimizer: has("optimizer"), Stale: has("stale")}, ok
	}, nil, nil}
)

// Stack reads a training system from YAML or JSON: an object with the keys preset, which is
// required, and forward, backward, exchange, overlap, launch and sharp, which replace parts
// of the preset. docs/FORMATS.md draws the file. A stack with other parts than its preset has
// constants that no measured step confirms; sharp alone does not change them.
//
// The error is nil or an *Errors with all that cannot be understood.
func Stack(name string, from io.Reader) (s step.Stack, err error) {
	r := &report{file: name}
	if root := r.root(name, stackPart, from); root != nil {
		s = stackOf(r, root)
	}
	return s, r.err()
}

// stackOf reads the name of a preset, or an object.
func stackOf(r *report, n *node) (s step.Stack) {
	if n.kind == aString || n.kind == cell {
		return presetOf(r, n, "stack", step.StackByName, step.StackNames())
	}
	if base := n.get("preset"); base != nil {
		s = presetOf(r, base, "stack", step.StackByName, step.StackNames())
	} else if n.kind == anObject {
		r.add(n.line, "preset is missing in a stack", "name the preset that comes nearest: "+strings.Join(step.StackNames(), ", "))
	}
	stackShape.read(&reading{report: r}, n, &s)
	if slices.ContainsFunc(s.Changes(), func(part string) bool { return part != "sharp" }) {
		s.Known, s.Error = false, step.UnknownError()
	}
	return s
}

func readLaunch(r *reading, n *node, _ string, s *step.Stack) {
	switch word, _ := among([]string{"eager", "graph"}).read(r.report, n, ""); word {
	case "eager":
		// The presets of PyTorch state what the launches of a step take.
		if eager, err := step.StackByName("torchrec-base"); err == nil {
			s.Launch, s.Constants.Launches = eager.Launch, max(s.Constants.Launches, eager.Constants.Launches)
		}
	case "graph":
		s.Launch, s.Constants.Launches = simulate.Graph, 0
	}
}
