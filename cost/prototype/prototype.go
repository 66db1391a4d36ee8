// Package prototype reads the files of the published NeuroShard prototype, and
// evaluates the prototype's nets as the prototype does. These results are the
// baseline that this project must match before it may claim to be better.
//
// The steps, in order:
//
//	Load                    three nets, from checkpoints (.pt) or their JSON form, as Models
//	ReadTasks, Task.Problem tables drawn from a pool, as a problem.Problem
//	Models.NewEstimates     that problem under the nets: slices embedded once
//	Estimates.NewScorer     the estimate of a placement that changes, for a search
//	Estimates.Price         the estimate of a placement, device by device
//	ReadResults             saved plans and their costs, to compare with
//
// reference_test.go evaluates the nets in float64 without tricks: it defines what the
// fast path in scorer.go must return.
// Package input reads the pool of tables itself, table_configs.json.
//
// The nets know only what the prototype measured: tables of fp32 weights that one
// feature reads, a batch of 65,536, and one number of devices. Their costs are
// milliseconds on the machine of the prototype.
package prototype

import (
	"fmt"
	"io"

	"github.com/neuroshard/neuroshard/unit"
)

// Batch is the global batch of the prototype's costs and histograms.
const Batch = 65536

// MaxFileBytes is the size above which a file is refused, before and after
// decompression.
const MaxFileBytes = 64 * unit.MiB

// File is an open file. Errors quote its name.
type File struct {
	Name   string
	Reader io.Reader
}

// Models are the three nets of the prototype. They must not be modified.
type Models struct {
	Compute  *ComputeNet
	Forward  *CommNet
	Backward *CommNet

	// packed is set by Load. All Estimates share it.
	packed *packedModels
}

// Load reads the compute net and both comm nets, each from a checkpoint or in
// JSON form, and checks that they belong together.
func Load(compute, forward, backward File) (*Models, error) {
	m := &Models{}
	var err error
	if m.Compute, err = ReadComputeNet(compute.Name, compute.Reader); err != nil {
		return nil, err
	}
	if m.Forward, err = ReadCommNet(forward.Name, forward.Reader); err != nil {
		return nil, err
	}
	if m.Backward, err = ReadCommNet(backward.Name, backward.Reader); err != nil {
		return nil, err
	}
	switch {
	case !m.Forward.Sleeps:
		return nil, fmt.Errorf("%s: a backward net (its inputs are only dim sums) where the forward net belongs", forward.Name)
	case m.Backward.Sleeps:
		return nil, fmt.Errorf("%s: a forward net (its inputs are dim sums and start times) where the backward net belongs", backward.Name)
	case m.Forward.Devices != m.Backward.Devices:
		return nil, fmt.Errorf("%s is for %d devices, %s for %d: choose two nets for the same number of devices", forward.Name, m.Forward.Devices, backward.Name, m.Backward.Devices)
	}
	m.packed = pack(m)
	return m, nil
}

// Devices returns the number of devices that the nets are for.
func (m *Models) Devices() int { return m.Backward.Devices }
