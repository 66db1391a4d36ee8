// Package modelfile reads and writes one trained cost model: a folder with the
// weights in model.safetensors and everything else in manifest.json.
//
//	model.safetensors   float32 tensors, little-endian, as huggingface/safetensors
//	manifest.json       format and version, id, what the model reads and predicts,
//	                    its constants, and its card: samples, source, errors
//
// A Model is plain data. Package cost gives it meaning; package train makes it.
package modelfile

import (
	"fmt"
	"io/fs"
	"math"
	"reflect"

	"github.com/neuroshard/neuroshard/problem/hardware"
)

// The names of the files of a model folder.
const (
	WeightsName  = "model.safetensors"
	ManifestName = "manifest.json"
)

// Format and Version identify the manifest this package writes.
const (
	Format  = "neuroshard-model"
	Version = 1
)

// Model is one trained cost model.
type Model struct {
	Manifest Manifest
	// Tensors are the weights, in the order they are written.
	Tensors []Tensor
}

// Tensor is a named array of float32, row-major.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32
}

// Manifest is everything of a model that is not a weight.
type Manifest struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// ID is derived from the weights and the manifest (Model.Seal).
	ID string `json:"id"`
	// Profile is the hardware profile the model predicts for.
	Profile string `json:"profile"`
	// Device is the facts of the profile where it is not one of package hardware's:
	// then its name is Profile. The features of the model are computed from it.
	Device hardware.Profile `json:"device,omitzero"`
	// Source is "simulated" or "measured"; Backend what took the times. Where the
	// all-to-alls came about in another way, CommSource and CommBackend say so;
	// else they are empty.
	Source      string `json:"source"`
	Backend     string `json:"meter"`
	CommSource  string `json:"comm_source,omitempty"`
	CommBackend string `json:"comm_meter,omitempty"`
	// Measured and CommMeasured state how the fused lookups and the all-to-alls were
	// measured. They are zero where nothing was.
	Measured     Measurement `json:"measured,omitzero"`
	CommMeasured Measurement `json:"comm_measured,omitzero"`
	// Command makes the model again.
	Command string      `json:"command"`
	Compute ComputeSpec `json:"compute"`
	Comm    CommSpec    `json:"comm"`
	// Domain is what the samples cover: beyond it the model extrapolates. A model
	// may state none.
	Domain Domain `json:"domain,omitzero"`
	Card   Card   `json:"card"`
}

// Measurement is what a user of a measured model should know of the measuring.
// A field that the meter did not state is empty.
type Measurement struct {
	// Device is what the device calls itself, Kernel the code that ran and Clocks
	// what is known of the device's clocks.
	Device string `json:"device,omitempty"`
	Kernel string `json:"kernel,omitempty"`
	Clocks string `json:"clocks,omitempty"`
	// Threads is the number of CPU threads of one device; 0 for a GPU.
	Threads int `json:"threads,omitempty"`
	// Cache says what was done to the caches before each repeat.
	Cache string `json:"cache,omitempty"`
	// Lookups names the trace that the lookups are from; empty where they were made
	// up from statistics.
	Lookups string `json:"lookups,omitempty"`
	// A sample's time is the median of Repeats runs, after Warmup others; where
	// everything was measured in several Passes, the median over these, or the
	// Fastest.
	Warmup  int  `json:"warmup,omitempty"`
	Repeats int  `json:"repeats,omitempty"`
	Passes  int  `json:"passes,omitempty"`
	Fastest bool `json:"fastest,omitempty"`
	// Tool is the version of the program that drove the measuring, Design the digest
	// of what was drawn to be measured, and Seed the seed of the draws.
	Tool   string `json:"tool,omitempty"`
	Design string `json:"design,omitempty"`
	Seed   uint64 `json:"seed,omitempty"`
}

// Domain is the ranges of a model's training samples. Fields that a manifest
// leaves out are not known, and not limits.
type Domain struct {
	MinBatch int `json:"min_batch"`
	MaxBatch int `json:"max_batch"`
	MinDim   int `json:"min_dim,omitempty"`
	MaxDim   int `json:"max_dim"`
	// MaxPoolingFactor is a table's, over all its features.
	MaxPoolingFactor float64 `json:"max_pooling_factor"`
	MaxRows          int64   `json:"max_rows"`
	MaxShards        int     `json:"max_shards"`
	// JudgedShards is the largest group that the card's errors are over.
	JudgedShards int `json:"judged_shards"`
	MinDevices   int `json:"min_devices,omitempty"`
	MaxDevices   int `json:"max_devices"`
	// Optimizers and Precisions are those of the samples, by name, in the order of
	// package problem. Unweighted says that no sample has weighted lookups.
	Optimizers []string `json:"optimizers,omitempty"`
	Precisions []string `json:"precisions,omitempty"`
	Unweighted bool     `json:"unweighted,omitempty"`
	// OneBag says that every table of the samples has one pooled vector for each feature: none
	// has several bags, and none is a sequence.
	OneBag bool `json:"one_bag,omitempty"`
}

// Stated reports whether the domain is one: a model may state none.
func (d Domain) Stated() bool { return !reflect.ValueOf(d).IsZero() }

// ComputeSpec describes the net of the fused lookups, or the nets of an
// ensemble, which are alike in shape.
type ComputeSpec struct {
	// FeatureVersion, Features and Scalars name the inputs (package feature).
	FeatureVersion string   `json:"feature_version"`
	Features       []string `json:"features"`
	Scalars        []string `json:"scalars"`
	Hidden         int      `json:"hidden"`
	Embed          int      `json:"embed"`
	Head           int      `json:"head"`
	// LaunchForwardMS and LaunchBackwardMS are the fixed costs of an operation.
	LaunchForwardMS  float64 `json:"launch_forward_ms"`
	LaunchBackwardMS float64 `json:"launch_backward_ms"`
	// Members is the number of nets of an ensemble, whose mean is the prediction;
	// the all-to-alls then have the same number of residual nets. 0 is a single net.
	Members int `json:"members,omitempty"`
}

// CommSpec describes the all-to-all: a closed form's fitted constants and the
// width of the net that corrects its logarithm.
type CommSpec struct {
	// AlphaMS is the latency inside a host, IntraGBps the bandwidth there.
	AlphaMS   float64 `json:"alpha_ms"`
	IntraGBps float64 `json:"intra_gbps"`
	// BaseMS and HopMS are the latency between hosts, constant and per doubling of
	// the devices; NICGBps the bandwidth there. All 0 for a profile of one host.
	BaseMS  float64 `json:"base_ms"`
	HopMS   float64 `json:"hop_ms"`
	NICGBps float64 `json:"nic_gbps"`
	// CopyGBps is the bandwidth of packing and unpacking.
	CopyGBps float64 `json:"copy_gbps"`
	// OverlapRest and OverlapRate say what devices that are ready early have done of
	// a forward exchange before the last one is ready (cost.Overlapped). 0 where an
	// exchange begins when all are ready, as NCCL's does.
	OverlapRest float64 `json:"overlap_rest,omitempty"`
	OverlapRate float64 `json:"overlap_rate,omitempty"`
	// Hidden is the width of the residual net's hidden layers.
	Hidden int `json:"hidden"`
}

// Card states what the model was made from, and its errors.
// Errors are on held-out tables, in percent.
type Card struct {
	Seed           uint64 `json:"seed"`
	ComputeSamples int    `json:"compute_samples"`
	CommSamples    int    `json:"comm_samples"`
	// LeftOut is the number of further samples, of both kinds, that were neither
	// trained nor judged on: the meter drifted, or an exchange was over before its
	// last device was ready.
	LeftOut int `json:"left_out,omitempty"`
	Epochs  int `json:"epochs"`
	// Compute is over the whole domain, Large over groups of 100 to 200 shards,
	// which no model is trained on.
	Compute Errors `json:"compute"`
	Large   Errors `json:"large_groups"`
	// Comm is the time of the collectives without the wait, which is exact.
	Comm Errors `json:"comm"`
	// What follows is stated of measured samples only. KendallTau is of the
	// predicted against the measured order of the held-out groups. Repeated is how
	// far a second measurement of a sample lies from the first: the meter's own
	// noise, which no model can be below by much.
	KendallTau float64 `json:"kendall_tau,omitempty"`
	Repeated   Errors  `json:"repeated,omitzero"`
}

// Errors summarises relative errors, in percent.
type Errors struct {
	Samples int     `json:"samples"`
	Mean    float64 `json:"mean_percent"`
	P95     float64 `json:"p95_percent"`
}

// maxFileBytes bounds both files of a model: the shipped ones are far below a
// MiB.
const maxFileBytes = 64 << 20

// Seal sets the manifest's format, version and id. Two models have the same id
// if and only if their weights and manifests are the same.
func (m *Model) Seal() error {
	m.Manifest.Format, m.Manifest.Version, m.Manifest.ID = Format, Version, ""
	digest, err := Digest(m.Manifest, m.Tensors)
	if err != nil {
		return err
	}
	m.Manifest.ID = m.Manifest.Profile + "-" + digest
	return nil
}

// Tensor returns the tensor of that name and shape, or an error that says what
// is there instead.
func (m *Model) Tensor(name string, shape ...int) ([]float32, error) {
	data, err := Find(m.Tensors, name, shape...)
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", m.Manifest.ID, err)
	}
	return data, nil
}

// Read reads a model folder from a file system. It checks that the id matches
// the contents, so that a damaged model is never used.
func Read(files fs.FS, folder string) (*Model, error) {
	m := &Model{}
	var err error
	if m.Tensors, err = ReadFolder(files, folder, &m.Manifest); err != nil {
		return nil, err
	}
	if m.Manifest.Format != Format || m.Manifest.Version != Version {
		return nil, fmt.Errorf("%s/%s: format %q version %d: this build reads %q version %d",
			folder, ManifestName, m.Manifest.Format, m.Manifest.Version, Format, Version)
	}
	id := m.Manifest.ID
	if err := m.Seal(); err != nil {
		return nil, err
	}
	if m.Manifest.ID != id {
		return nil, fmt.Errorf("%s: the model's id %q does not match its contents (%q): the files are damaged or were edited", folder, id, m.Manifest.ID)
	}
	return m, nil
}

// Write seals the model and writes it to a folder, as WriteFolder does.
func (m *Model) Write(folder string) error {
	if err := m.Seal(); err != nil {
		return err
	}
	return WriteFolder(folder, m.Manifest, m.Tensors)
}

// finite reports whether all values are finite.
func finite(values []float32) bool {
	for _, v := range values {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return false
		}
	}
	return true
}
