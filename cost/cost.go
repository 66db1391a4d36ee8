// Package cost predicts what a placement costs: the time of each device's fused
// lookups and of the all-to-alls around them, from a trained model.
//
//	Load      a modelfile as a Model
//	Estimates one problem under one Model: tables described, slices embedded once
//	          (estimates.go, embeddings.go)
//	Scorer    the running cost of a placement in any form, for a search to ask
//	          (scorer.go)
//	Price     the cost of a whole placement, device by device (estimates.go)
//
// A Scorer sums the slices of each device by operator (operators.go), knows the extremes of
// all devices (devices.go), adds the times
// of the all-to-alls (comm.go) and of slices in other forms than columns in HBM
// (forms.go), both with the net's correction (correction.go), and the risk penalty of an
// ensemble (penalty.go). Exchanges that reduce inside hosts first take the place of all
// others (hierarchy.go). Model.Group predicts
// one group outside of a placement (group.go), and Model.Doubts says what lies outside
// the samples of the training (domain.go).
//
// The compute model is a pooled-set net (feature, nn): each shard's embedding is
// folded through the head's first layer once, to 64 numbers, and a device is
// the sum of its shards' numbers. Sums are kept in integers, so that they do
// not depend on the order of placing and removing is exact.
//
// What fits is not decided here: see packages problem and plan.
package cost

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/cost/feature"
	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/internal/f32"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// Model is a trained cost model, ready to predict. It may be used by several
// goroutines.
type Model struct {
	manifest modelfile.Manifest
	hardware hardware.Profile
	compute  computeNet
	comm     commModel
	// like is the profile that the model was trained for, if it was not this one (Like).
	like string
}

// Load turns a modelfile into a Model. It fails if the file was made for features other
// than those of this build, for a profile that is neither known nor stated in the file,
// or if a tensor is missing.
func Load(file *modelfile.Model) (*Model, error) {
	m := &Model{manifest: file.Manifest}
	var err error
	if m.hardware, err = profileOf(file.Manifest); err != nil {
		return nil, fmt.Errorf("model %q: %w", file.Manifest.ID, err)
	}
	if m.compute, err = loadCompute(file); err != nil {
		return nil, err
	}
	if m.comm, err = loadComm(file); err != nil {
		return nil, err
	}
	return m, nil
}

// profileOf returns the facts of the device that a model is for: those that the
// manifest states, or the known profile of that name.
func profileOf(manifest modelfile.Manifest) (hardware.Profile, error) {
	device := manifest.Device
	if device == (hardware.Profile{}) {
		return hardware.ByName(manifest.Profile)
	}
	if device.Name != manifest.Profile {
		return device, fmt.Errorf("it is for profile %q, but states the facts of %q", manifest.Profile, device.Name)
	}
	if problems := device.Problems(); len(problems) > 0 {
		return device, fmt.Errorf("device %q: %s", device.Name, strings.Join(problems, "; "))
	}
	// A plan for a known device must not mean another device by the same name.
	if known, err := hardware.ByName(device.Name); err == nil && known != device {
		return device, fmt.Errorf("device %q is a known profile, and other facts are stated of it: give the device a name of its own", device.Name)
	}
	return device, nil
}

// Manifest returns the manifest of the model's file.
func (m *Model) Manifest() modelfile.Manifest { return m.manifest }

// Hardware returns the facts of the device that the model predicts for: one of
// hardware.Profiles, or what the model's manifest states.
func (m *Model) Hardware() hardware.Profile { return m.hardware }

// Like returns the model for another device, which has no samples: features and closed forms have the
// numbers of the device, and the nets stay. Doubts says so. It fails if the device has warps of another size.
func (m *Model) Like(device hardware.Profile) (*Model, error) {
	if device.Warp() != m.hardware.Warp() {
		return nil, fmt.Errorf("device %q has warps of %d lanes, and model %q of %d", device.Name, device.Warp(), m.manifest.ID, m.hardware.Warp())
	}
	own := *m
	own.like, own.hardware = m.hardware.Name, device
	own.manifest.Profile, own.manifest.Device = device.Name, device
	// two files may give one name to unlike devices
	numbers := sha256.Sum256(fmt.Appendf(nil, "%s %+v", m.manifest.ID, device))
	own.manifest.ID = fmt.Sprintf("%s-like-%s-%x", device.Name, m.hardware.Name, numbers[:6])
	k := &own.comm.constants
	k.IntraGBps *= device.IntraGBps / m.hardware.IntraGBps
	k.CopyGBps *= device.HBMGBps / m.hardware.HBMGBps
	if m.hardware.NICGBps > 0 {
		k.NICGBps *= device.NICGBps / m.hardware.NICGBps
	}
	own.manifest.Comm = *k
	return &own, nil
}

// unlike returns the doubt about a device that no sample is of.
func (m *Model) unlike() []string {
	if m.like == "" {
		return nil
	}
	return []string{fmt.Sprintf("no sample of the cost model is of %s: it is that of %s with the stated numbers, take its times with care", m.hardware.Name, m.like)}
}

// Members returns the number of nets whose mean the model predicts: 1 unless the model
// is an ensemble.
func (m *Model) Members() int { return len(m.compute.members) }

// FitsProfile returns an error if the model is for another device than the topology's,
// or if the devices span NVLink domains (hosts, unless the topology says otherwise) and the
// model knows no network.
func (m *Model) FitsProfile(t hardware.Topology) error {
	if t.Profile.Name != m.hardware.Name {
		return fmt.Errorf("model %q predicts for %q, not for %q", m.manifest.ID, m.hardware.Name, t.Profile.Name)
	}
	if t.Whole().LinkDomains() > 1 && !(m.comm.constants.NICGBps > 0) {
		return fmt.Errorf("model %q knows no network between hosts", m.manifest.ID)
	}
	return nil
}

// Estimator names the model as the source of a plan's times.
func (m *Model) Estimator() plan.Estimator {
	card := m.manifest.Card
	by := plan.Estimator{Model: m.manifest.ID, ModelSource: m.manifest.Source, Error: max(card.Compute.P95, card.Comm.P95)}
	switch {
	case m.manifest.Source == plan.Simulated:
		by.Note = plan.SimulatedNote
	case m.manifest.CommSource == plan.Simulated:
		by.Note = "all-to-alls are predicted by a model trained on SIMULATED ones, not on measured ones"
	}
	return by
}

// Doubts returns sentences that say how a plan, its shards listed by device, lies
// outside the samples that the model was trained on or judged by: there the model
// extrapolates. The list is empty for a plan inside, and for a model that states no
// domain. A table of several bags or of sequences is a doubt for a model whose samples have no
// such tables. A network or an NVLink domain that the samples do not have is a doubt, too, and so is
// a hierarchical exchange if the samples are measured. A model of measured samples also doubts
// tables in forms for which no samples were measured. The first doubt is that of a model whose card states large errors.
func (m *Model) Doubts(p *problem.Problem, shards [][]problem.Shard) []string {
	doubts := slices.Concat(m.inexact(), m.unlike(), outside(m, p, shards), vectors(m, p), linked(m, p), inSteps(m, p))
	if m.manifest.Source != plan.Simulated {
		doubts = append(doubts, unmeasured(p, shards)...)
	}
	return doubts
}

// largeError is the mean error in percent, on tables that a model did not see, from which
// Doubts warns: differences between plans that planning looks for are as large.
const largeError = 10

// inexact returns the doubt about a model with large errors.
func (m *Model) inexact() []string {
	card := m.manifest.Card
	for _, part := range []struct {
		of     string
		errors modelfile.Errors
	}{{"lookups", card.Compute}, {"exchanges", card.Comm}} {
		if mean := part.errors.Mean; mean >= largeError {
			return []string{fmt.Sprintf("the model is not exact: its card states a mean error of %.0f %% for the times of %s, so a plan that is predicted to be less than that cheaper than another may be the more expensive one; train on more samples, or on less noisy ones", mean, part.of)}
		}
	}
	return nil
}

// computeNet is the pooled-set net of the fused lookups, or the mean of several nets.
// Nets of one shape, all without biases in their heads, form one net whose head is as
// wide as all heads together: a shard's embedding is folded through every member's
// first layer, and the last layers' weights are divided by the number of members.
type computeNet struct {
	members []memberNet
	// units is the width of a member's head, padded with units of zeros to a width that
	// the kernel accepts, and head the width of all heads together.
	units, head int
	// scalars is the part of the heads' first layers that reads the group's scalars, and
	// memberScalars the part of each member.
	scalars       f32.FoldedWeights
	memberScalars []f32.FoldedWeights
	// forward and backward are the rows of the heads' last layers, divided by the number
	// of members; both is the sum of the two rows.
	forward, backward, both []float32
	// launch is the fixed cost of an operation, in ms.
	launchForward, launchBackward float64
}

// memberNet is the part of one net that embeds a shard. Features are standardised
// inside the first layer's weights, so raw features are its input.
type memberNet struct {
	hidden, embed  int
	layer0, layer1 f32.Packed // in -> hidden -> embed, transposed for row vectors
	bias0, bias1   []float32
	// fold is the part of the head's first layer that reads the embedding,
	// [units][embed].
	fold []float32
}

// The names of the compute net's tensors. The first layer's standardisation is
// stored beside the weights: a feature f enters as (f - mean) / deviation.
const (
	TensorMean      = "compute.mean"
	TensorDeviation = "compute.deviation"
	TensorTable0W   = "compute.table_mlp.0.weight"
	TensorTable0B   = "compute.table_mlp.0.bias"
	TensorTable1W   = "compute.table_mlp.1.weight"
	TensorTable1B   = "compute.table_mlp.1.bias"
	TensorHead0W    = "compute.head.0.weight"
	TensorHead1W    = "compute.head.1.weight"
)

// MaxMembers is the largest number of members of an ensemble.
const MaxMembers = 64

// MemberPrefix returns the prefix of the names of a member's tensors in a model of that
// many members: empty for a model of one net.
func MemberPrefix(member, members int) string {
	if members <= 1 {
		return ""
	}
	return fmt.Sprintf("member.%d.", member)
}

func loadCompute(file *modelfile.Model) (computeNet, error) {
	spec := file.Manifest.Compute
	if err := checkCompute(spec); err != nil {
		return computeNet{}, fmt.Errorf("model %q: %w", file.Manifest.ID, err)
	}
	members := max(1, spec.Members)
	units := (spec.Head + f32.IntLanes - 1) / f32.IntLanes * f32.IntLanes
	n := computeNet{
		members: make([]memberNet, members), units: units, head: members * units,
		launchForward: spec.LaunchForwardMS, launchBackward: spec.LaunchBackwardMS,
	}
	n.forward, n.backward, n.both = make([]float32, n.head), make([]float32, n.head), make([]float32, n.head)
	for k := range n.scalars.Scalars {
		n.scalars.Scalars[k] = make([]float32, n.head)
	}
	n.memberScalars = make([]f32.FoldedWeights, members)
	for i := range n.members {
		if err := n.loadMember(file, i); err != nil {
			return computeNet{}, err
		}
		for k, weights := range n.scalars.Scalars {
			n.memberScalars[i].Scalars[k] = weights[i*units:][:units:units]
		}
	}
	return n, nil
}

// checkCompute refuses nets that read other features than this build computes, and
// sizes and constants outside of their ranges.
func checkCompute(spec modelfile.ComputeSpec) error {
	if spec.FeatureVersion != feature.Version || len(spec.Features) != feature.Width || len(spec.Scalars) != feature.ScalarCount {
		return fmt.Errorf("it reads features %q (%d and %d scalars): this build computes %q (%d and %d); train it again",
			spec.FeatureVersion, len(spec.Features), len(spec.Scalars), feature.Version, feature.Width, feature.ScalarCount)
	}
	const limit = 4096
	for _, width := range []int{spec.Hidden, spec.Embed, spec.Head} {
		if width < 1 || width > limit {
			return fmt.Errorf("layer widths %d, %d, %d are not between 1 and %d", spec.Hidden, spec.Embed, spec.Head, limit)
		}
	}
	if spec.Members < 0 || spec.Members > MaxMembers {
		return fmt.Errorf("an ensemble of %d is not one of 1 to %d", spec.Members, MaxMembers)
	}
	for _, v := range []float64{spec.LaunchForwardMS, spec.LaunchBackwardMS} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("a fixed cost of %v ms is negative or not finite", v)
		}
	}
	return nil
}

func (n *computeNet) loadMember(file *modelfile.Model, member int) error {
	spec := file.Manifest.Compute
	m := &n.members[member]
	m.hidden, m.embed = spec.Hidden, spec.Embed
	prefix := MemberPrefix(member, len(n.members))
	var failed error
	get := func(name string, shape ...int) []float32 {
		data, err := file.Tensor(prefix+name, shape...)
		if err != nil && failed == nil {
			failed = err
		}
		return data
	}
	in := feature.Width
	mean, deviation := get(TensorMean, in), get(TensorDeviation, in)
	w0, b0 := get(TensorTable0W, m.hidden, in), get(TensorTable0B, m.hidden)
	w1, b1 := get(TensorTable1W, m.embed, m.hidden), get(TensorTable1B, m.embed)
	head0 := get(TensorHead0W, spec.Head, m.embed+feature.ScalarCount)
	head1 := get(TensorHead1W, 2, spec.Head)
	if failed != nil {
		return failed
	}
	folded := make([]float32, len(w0))
	m.bias0 = make([]float32, m.hidden)
	for i := range m.hidden {
		bias := float64(b0[i])
		for j := range in {
			if !(deviation[j] > 0) {
				return fmt.Errorf("model %q: tensor %q has a value that is not positive", file.Manifest.ID, prefix+TensorDeviation)
			}
			w := float64(w0[i*in+j]) / float64(deviation[j])
			folded[i*in+j] = float32(w)
			bias -= w * float64(mean[j])
			if math.Abs(w) > math.MaxFloat32 || math.Abs(bias) > math.MaxFloat32 {
				return fmt.Errorf("model %q: tensor %q, feature %d: a deviation of %v is too small for its weights", file.Manifest.ID, prefix+TensorDeviation, j, deviation[j])
			}
		}
		m.bias0[i] = float32(bias)
	}
	m.layer0.Pack(true, in, m.hidden, folded, in)
	m.layer1.Pack(true, m.hidden, m.embed, w1, m.hidden)
	m.bias1 = b1
	m.fold = make([]float32, n.units*m.embed)
	share := 1 / float32(len(n.members))
	at := member * n.units
	for i := range spec.Head {
		row := head0[i*(m.embed+feature.ScalarCount):][:m.embed+feature.ScalarCount]
		copy(m.fold[i*m.embed:], row[:m.embed])
		for k := range n.scalars.Scalars {
			n.scalars.Scalars[k][at+i] = row[m.embed+k]
		}
		n.forward[at+i], n.backward[at+i] = share*head1[i], share*head1[spec.Head+i]
		n.both[at+i] = n.forward[at+i] + n.backward[at+i]
	}
	return nil
}

// embedding is a shard seen through the net for one lane class: its scale, and
// its contribution to the head's first layer.
type embedding struct {
	scale float64
	head  []float64
}

// embed computes the embedding of a column slice. Its contribution to the head is that of the
// workspace, which the next call overwrites.
func (m *Model) embed(op problem.Operation, t *feature.Table, dim int, lanes feature.Lanes, work *workspace) embedding {
	n := &m.compute
	work.grow(n)
	scale := feature.Vector(work.features, &m.hardware, op, *t, dim, lanes)
	e := embedding{scale: scale, head: work.head}
	if scale == 0 {
		clear(e.head)
		return e
	}
	for k := range n.members {
		n.members[k].run(work)
		fold, head := n.members[k].fold, e.head[k*n.units:][:n.units]
		for i := range head {
			head[i] = scale * float64(f32.Dot(fold[i*len(work.embed):][:len(work.embed)], work.embed))
		}
	}
	return e
}

// run takes the features of the workspace through the member's own layers.
func (m *memberNet) run(work *workspace) {
	copy(work.hidden, m.bias0)
	m.layer0.MulAdd(false, 1, work.features, feature.Width, work.hidden, m.hidden)
	f32.ReLU(work.hidden)
	copy(work.embed, m.bias1)
	m.layer1.MulAdd(false, 1, work.hidden, m.hidden, work.embed, m.embed)
	f32.ReLU(work.embed)
}

// workspace holds the vectors that computing one embedding needs.
type workspace struct {
	features, hidden, embed []float32
	head                    []float64
}

func (w *workspace) grow(n *computeNet) {
	if w.features == nil {
		w.features = make([]float32, feature.Width)
		w.hidden = make([]float32, n.members[0].hidden)
		w.embed = make([]float32, n.members[0].embed)
		w.head = make([]float64, n.head)
	}
}

// finite panics if a prediction is not a number. Weights are checked when they are
// read, and features are finite for every valid problem, so that only a bug leads here.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		panic("cost: prediction is not finite")
	}
	return v
}
