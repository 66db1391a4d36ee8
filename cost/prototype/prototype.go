// Package prototype reads what the published NeuroShard prototype wrote, and
// evaluates its nets of fixed size as it did: the baseline that this project
// must match before it may claim to be better.
//
// The steps, in order:
//
//	Load                    three nets, from checkpoints (.pt) or their JSON form, as Models
//	ReadTasks, Task.Problem tables drawn from a pool, as a problem.Problem
//	Models.NewPool          that problem under the nets: slices embedded once
//	Pool.NewScorer          the running price of a placement, for a search to ask
//	Pool.Price              the estimate of a placement, device by device
//	ReadResults             saved plans and their costs, to compare with
//
// reference_test.go evaluates the nets plainly in float64: it is the meaning of the
// fast path in scorer.go. trainer_test.go trains nets as the prototype does. The pool
// of tables itself, table_configs.json, is read by package input.
//
// The nets know what the prototype measured: tables of fp32 weights read by one
// feature, on a batch of 65,536, and one number of devices. Their costs are
// milliseconds of that machine.
package prototype

import (
	"fmt"
	"io"

	"github.com/neuroshard/neuroshard/unit"
)

// Batch is the global batch that the prototype's costs and histograms belong to.
const Batch = 65536

// MaxFileBytes is the size above which a file is refused, before and after
// decompression.
const MaxFileBytes = 64 * unit.MiB

// File is an open file: its name is for messages.
type File struct {
	Name   string
	Reader io.Reader
}

// Models are the three nets of the prototype. They must not be modified.
type Models struct {
	Compute  *ComputeNet
	Forward  *CommNet
	Backward *CommNet

	// packed is set by Load; pools share it.
	packed *packedModels
}

// Load reads the compute net and both comm nets, each a checkpoint or in JSON
// form, and checks that they belong together. All errors are reported at once.
func Load(compute, forward, backward File) (*Models, error) {
	m := &Models{}
	var found [3]error
	m.Compute, found[0] = ReadComputeNet(compute.Name, compute.Reader)
	m.Forward, found[1] = ReadCommNet(forward.Name, forward.Reader)
	m.Backward, found[2] = ReadCommNet(backward.Name, backward.Reader)
	if err := join(found[:]); err != nil {
		return nil, err
	}
	if !m.Forward.Sleeps {
		found[1] = fmt.Errorf("%s: a backward net (its inputs are dim sums alone), where the forward net belongs", forward.Name)
	}
	if m.Backward.Sleeps {
		found[2] = fmt.Errorf("%s: a forward net (its inputs are dim sums and start times), where the backward net belongs", backward.Name)
	}
	if m.Forward.Devices != m.Backward.Devices {
		found[0] = fmt.Errorf("%s is for %d devices, %s for %d: take two of one number", forward.Name, m.Forward.Devices, backward.Name, m.Backward.Devices)
	}
	if err := join(found[:]); err != nil {
		return nil, err
	}
	m.packed = pack(m)
	return m, nil
}

// Devices returns the number of devices that the nets are for.
func (m *Models) Devices() int { return m.Backward.Devices }
