package step

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// dense.go describes the dense part of a model and counts what does not depend on the
// device: layers, FLOP, parameters, activations and memory.
//
//	dense features -> bottom MLP --+
//	                               +--> interaction --> top MLP --> one number
//	pooled vectors of the tables --+

// Format is the number format in which the dense part multiplies.
type Format string

// The formats. FP16 and BF16 keep activations and gradients in two bytes a number, TF32 and
// FP32 in four.
const (
	FP16 Format = "fp16"
	BF16 Format = "bf16"
	TF32 Format = "tf32"
	FP32 Format = "fp32"
)

// Formats returns the names of all formats. The slice is the caller's.
func Formats() []Format { return []Format{FP16, BF16, TF32, FP32} }

// Bytes returns the size of an activation or gradient: 2 or 4.
func (f Format) Bytes() float64 {
	if f == FP16 || f == BF16 {
		return 2
	}
	return 4
}

// Parallel is how the devices hold the dense part.
type Parallel string

// The ways. With DDP, each device holds all of it and gradients are summed; with FSDP, each
// device holds an equal part and gathers layer after layer.
const (
	DDP  Parallel = "ddp"
	FSDP Parallel = "fsdp"
)

// Interaction is how the pooled vectors and the bottom MLP's output are combined.
type Interaction string

// The interactions.
const (
	// Dot takes the dot products of all pairs of vectors, and joins the bottom's output.
	// All vectors have the width of the bottom's output.
	Dot Interaction = "dot"
	// Cat joins all vectors, after an average over each Stride columns of the tables.
	Cat Interaction = "cat"
	// DCN joins all vectors and applies CrossLayers cross layers of DCNv2, each a product
	// of two matrices of inner width Inner.
	DCN Interaction = "dcn"
	// Given states FLOP and parameters of all that follows the bottom MLP, in place of
	// layers.
	Given Interaction = "given"
)

// Interactions returns the names of all interactions. The slice is the caller's.
func Interactions() []Interaction { return []Interaction{Dot, Cat, DCN, Given} }

// Dense is the dense part of a model. It must not change while it is in use.
type Dense struct {
	// Name is the preset's name, or empty. Source says where a preset's layers are stated.
	Name, Source string
	// Vectors and Columns are the number of the pooled vectors of a sample, and the sum of
	// their widths. In presets they say which tables the dense part belongs to. 0 takes the
	// problem's (Of).
	Vectors, Columns int
	// Bottom has the widths of the bottom MLP, from the dense features on: {13, 512, 256,
	// 128}. A single width is dense features without a bottom MLP; none is no dense features.
	Bottom []int
	// Interaction is one of Interactions.
	Interaction Interaction
	// CrossLayers and Inner are for DCN; an Inner of 0 is one full matrix a layer. For Given,
	// CrossLayers is the number of equal square layers that GivenFLOPs is divided among; 0
	// means 1.
	CrossLayers, Inner int
	// Stride is for Cat; 0 means 1.
	Stride int
	// GivenFLOPs is the FLOP of a sample's forward, and GivenParameters the number of
	// parameters, for Given.
	GivenFLOPs, GivenParameters float64
	// Top has the widths of the top MLP's layers, without its input: {1024, 1024, 512, 256,
	// 1}. It is empty for Given.
	Top []int
	// Precision is one of Formats.
	Precision Format
	// ActivationBytes is the bytes of all activations of a sample; 0 counts them from the
	// layers.
	ActivationBytes float64
	// Parallel is DDP or FSDP; empty means DDP.
	Parallel Parallel
	// OptimizerBytes is the bytes of optimizer state of a parameter: 0 for SGD, 4 for
	// Adagrad, 8 for Adam.
	OptimizerBytes float64
}

// Layer is a product of a sample's activations with a matrix of In times Out weights.
type Layer struct {
	In, Out int
	// Biases is the number of the layer's biases.
	Biases int
	// Bottom says that the layer is of the bottom MLP.
	Bottom bool
}

// The limits of a dense part, far above published models.
const (
	maxWidth  = 1 << 20
	maxLayers = 1 << 10
	maxFLOPs  = 1e15
)

// Of returns the dense part with the Vectors and Columns of the problem's tables where it
// states none.
func (d Dense) Of(p *problem.Problem) Dense {
	vectors, columns := pooled(p)
	if d.Vectors == 0 {
		d.Vectors = vectors
	}
	if d.Columns == 0 {
		d.Columns = columns
	}
	return d
}

// pooled returns the number and the widths of a sample's vectors.
func pooled(p *problem.Problem) (vectors, columns int) {
	for i := range p.Tables {
		t := &p.Tables[i]
		vectors += int(math.Round(t.Bags()))
		columns += problem.Columns(t.Dim, t.Bags())
	}
	return vectors, columns
}

// InvalidDense is the error of a dense part whose fields are out of range, do not fit
// together or do not fit the tables. Each of Faults is a line that names the field.
type InvalidDense struct{ Faults []string }

// Error returns all faults, one on each line.
func (e *InvalidDense) Error() string { return "dense part: " + strings.Join(e.Faults, "\n") }

// Check returns nil or an *InvalidDense with every fault: widths out of range, layers that
// do not fit together, another number of vectors or columns than the problem's tables have.
func (d Dense) Check(p *problem.Problem) error {
	faults := d.ranges()
	vectors, columns := pooled(p)
	if d.Vectors != 0 && d.Vectors != vectors {
		faults = append(faults, fmt.Sprintf("%s takes %d pooled vectors, and the tables have %d features: choose the tables that it belongs to, or state its layers", d.title(), d.Vectors, vectors))
	} else if d.Columns != 0 && d.Columns != columns {
		faults = append(faults, fmt.Sprintf("%s takes %d pooled columns, and the features of the tables have %d: choose the tables that it belongs to, or state its layers", d.title(), d.Columns, columns))
	}
	if d.Interaction == Dot {
		faults = append(faults, d.dotFaults(p)...)
	}
	if len(faults) > 0 {
		return &InvalidDense{faults}
	}
	return nil
}

func (d *Dense) title() string {
	if d.Name == "" {
		return "the dense part"
	}
	return d.Name
}

// dotFaults returns the faults of a dot interaction: vectors of other widths than the
// bottom's output.
func (d *Dense) dotFaults(p *problem.Problem) (faults []string) {
	width := d.bottomWidth()
	for i := range p.Tables {
		t := &p.Tables[i]
		if width > 0 && t.Dim != width {
			faults = append(faults, fmt.Sprintf("interaction dot: table %q has dim %d, and the bottom MLP ends with %d: dot needs equal widths; end the bottom with %d, or choose cat or dcn", t.Name, t.Dim, width, t.Dim))
			break
		}
	}
	return faults
}

// ranges returns the faults that no table is needed for.
func (d *Dense) ranges() (faults []string) {
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for _, list := range []struct {
		name   string
		widths []int
	}{{"bottom", d.Bottom}, {"top", d.Top}} {
		if len(list.widths) > maxLayers {
			add("%s: %d layers are above %d", list.name, len(list.widths), maxLayers)
		}
		for _, w := range list.widths {
			if w < 1 || w > maxWidth {
				add("%s: width %d is not between 1 and %d", list.name, w, maxWidth)
			}
		}
	}
	if !slices.Contains(Formats(), d.Precision) {
		add("precision %q is unknown: choose one of %s", d.Precision, listed(Formats()))
	}
	if d.Parallel != "" && d.Parallel != DDP && d.Parallel != FSDP {
		add("parallel %q is unknown: choose ddp or fsdp", d.Parallel)
	}
	for _, v := range []struct {
		name        string
		value, most float64
	}{
		{"activation bytes", d.ActivationBytes, maxFLOPs},
		{"optimizer bytes", d.OptimizerBytes, 64},
	} {
		if !(v.value >= 0 && v.value <= v.most) {
			add("%s: %v is not between 0 and %g", v.name, v.value, v.most)
		}
	}
	return append(faults, d.interactionFaults()...)
}

// interactionFaults returns the faults of the interaction's own fields.
func (d *Dense) interactionFaults() (faults []string) {
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	between := func(name string, value, least, most int) {
		if value < least || value > most {
			add("interaction %s: %s %d is not between %d and %d", d.Interaction, name, value, least, most)
		}
	}
	switch d.Interaction {
	case Dot:
		if len(d.Bottom) == 0 {
			add("interaction dot: the bottom MLP is missing: state the widths of its layers")
		}
	case Cat:
		between("stride", d.Stride, 0, maxWidth)
	case DCN:
		between("layers", d.CrossLayers, 1, maxLayers)
		between("rank", d.Inner, 0, maxWidth)
	case Given:
		between("layers", d.CrossLayers, 0, maxLayers)
		if !(d.GivenFLOPs > 0 && d.GivenFLOPs <= maxFLOPs) {
			add("interaction: %v FLOP a sample is not above 0 and at most %g", d.GivenFLOPs, maxFLOPs)
		}
		if !(d.GivenParameters >= 0 && d.GivenParameters <= maxFLOPs) {
			add("interaction: %v parameters is not between 0 and %g", d.GivenParameters, maxFLOPs)
		}
		if len(d.Top) > 0 {
			add("top: %d layers beside an interaction of given FLOP, which states all that follows the bottom MLP: leave top out", len(d.Top))
		}
	default:
		add("interaction %q is unknown: choose one of %s", d.Interaction, listed(Interactions()))
	}
	if d.Interaction != Given && len(d.Top) == 0 {
		add("top: no layers: state the widths of the top MLP")
	}
	return faults
}

func listed[T ~string](words []T) string {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = string(w)
	}
	return strings.Join(names, ", ")
}

// bottomWidth returns the width of the bottom MLP's output; 0 without dense features.
func (d *Dense) bottomWidth() int {
	if len(d.Bottom) == 0 {
		return 0
	}
	return d.Bottom[len(d.Bottom)-1]
}

// joined returns the width of the vectors and the bottom's output side by side.
func (d *Dense) joined() int { return d.Columns + d.bottomWidth() }

// interactionWidth returns the width of what the top MLP gets.
func (d *Dense) interactionWidth() int {
	switch d.Interaction {
	case Dot:
		n := d.Vectors + 1
		return n*(n-1)/2 + d.bottomWidth()
	case Cat:
		stride := max(1, d.Stride)
		return (d.Columns+stride-1)/stride + d.bottomWidth()
	}
	return d.joined()
}

// Layers returns the products of matrices of one sample's forward, from the bottom to the
// top. Vectors and Columns must be known (Of).
func (d Dense) Layers() []Layer {
	var layers []Layer
	for i := 1; i < len(d.Bottom); i++ {
		layers = append(layers, Layer{In: d.Bottom[i-1], Out: d.Bottom[i], Biases: d.Bottom[i], Bottom: true})
	}
	switch d.Interaction {
	case DCN:
		n := d.joined()
		for range d.CrossLayers {
			if d.Inner == 0 {
				layers = append(layers, Layer{In: n, Out: n, Biases: n})
				continue
			}
			layers = append(layers, Layer{In: n, Out: d.Inner}, Layer{In: d.Inner, Out: n, Biases: n})
		}
	case Given:
		count := max(1, d.CrossLayers)
		side := int(math.Round(math.Sqrt(d.GivenFLOPs / 2 / float64(count))))
		for range count {
			layers = append(layers, Layer{In: side, Out: side})
		}
	}
	in := d.interactionWidth()
	for _, out := range d.Top {
		layers = append(layers, Layer{In: in, Out: out, Biases: out})
		in = out
	}
	return layers
}

// Parameters returns the number of weights and biases.
func (d Dense) Parameters() float64 {
	sum := 0.0
	for _, l := range d.Layers() {
		if d.Interaction != Given || l.Bottom {
			sum += float64(l.In)*float64(l.Out) + float64(l.Biases)
		}
	}
	return sum + d.GivenParameters
}

// FLOPs returns the FLOP of the forward of one sample: two for each multiply-add. A step
// takes three times that.
func (d Dense) FLOPs() float64 {
	sum := d.dotFLOPs()
	for _, l := range d.Layers() {
		if d.Interaction != Given || l.Bottom {
			sum += 2 * float64(l.In) * float64(l.Out)
		}
	}
	if d.Interaction == Given {
		sum += d.GivenFLOPs
	}
	return sum
}

// dotFLOPs returns the FLOP of a dot interaction: n^2 d multiply-adds of n vectors of width
// d, as kernels compute the whole square.
func (d *Dense) dotFLOPs() float64 {
	if d.Interaction != Dot {
		return 0
	}
	n := float64(d.Vectors + 1)
	return 2 * n * n * float64(d.bottomWidth())
}

// Activations returns the bytes of all activations of a sample, or of those of the bottom
// MLP: the inputs, and the output of each layer and of the interaction, each once.
func (d Dense) Activations() (all, bottom float64) {
	size := d.Precision.Bytes()
	if len(d.Bottom) > 0 {
		bottom = float64(d.Bottom[0]) * size
	}
	all = float64(d.Columns) * size
	if d.Interaction != DCN && d.Interaction != Given {
		all += float64(d.interactionWidth()) * size
	} else {
		all += float64(d.bottomWidth()) * size
	}
	for _, l := range d.Layers() {
		if out := float64(l.Out) * size; l.Bottom {
			bottom += out
		} else {
			all += out
		}
	}
	all += bottom
	if d.ActivationBytes > 0 {
		return d.ActivationBytes, min(bottom, d.ActivationBytes)
	}
	return all, bottom
}

// Memory returns the bytes of a device that the dense part takes: what it holds in the whole step, weights and
// gradients in fp32 and optimizer state, and the activations of the device's samples. With FSDP each
// device holds its part of weights, gradients and state, and gathers the widest layer.
func (d Dense) Memory(devices, batch int) (held, activations unit.Bytes) {
	parameters, each := d.Parameters(), 8+d.OptimizerBytes
	bytes := parameters * each
	if d.Parallel == FSDP {
		widest := 0.0
		for _, l := range d.Layers() {
			widest = max(widest, float64(l.In)*float64(l.Out)+float64(l.Biases))
		}
		bytes = bytes/float64(max(1, devices)) + min(widest, parameters)*8
	}
	activation, _ := d.Activations()
	samples := math.Ceil(float64(batch) / float64(max(1, devices)))
	return unit.Bytes(math.Ceil(bytes)), unit.Bytes(math.Ceil(samples * activation))
}

// denseParts are the presets: what public sources state of the dense parts of models.
var denseParts = []Dense{
	{
		Name: "mlperf-dlrm-dcnv2", Source: "MLCommons training, recommendation_v2/torchrec_dlrm",
		Vectors: 26, Columns: 26 * 128, Bottom: []int{13, 512, 256, 128}, Interaction: DCN, CrossLayers: 3, Inner: 512,
		Top: []int{1024, 1024, 512, 256, 1}, Precision: FP16, OptimizerBytes: 4,
	},
	{
		// The source's formula of the FLOP of its 3 layers at the mean length of 2,672 positions, since kernels skip
		// padding; at the padded 4,096 it gives 315.7 GFLOP for both passes. Activations are 18,432 numbers a position in
		// bf16 [assumed]: 5,120 of each layer that its backward reads, and 3,072 before the layers.
		Name: "mlperf-dlrmv4", Source: "MLCommons training, recommendation_v4, modules/dlrm_hstu.py, at 2,672 positions",
		Vectors: 8000, Columns: 8000 * 512, Interaction: Given, CrossLayers: 1024, GivenFLOPs: 55.0e9, GivenParameters: 14.7e6,
		Precision: BF16, ActivationBytes: 2672 * 18432 * 2, OptimizerBytes: 8,
	},
	{
		Name: "mlperf-dlrm-v1", Source: "MLCommons training, recommendation/dlrm",
		Vectors: 26, Columns: 26 * 128, Bottom: []int{13, 512, 256, 128}, Interaction: Dot,
		Top: []int{1024, 1024, 512, 256, 1}, Precision: FP16,
	},
	{
		Name: "madmax-dlrm-a", Source: "MAD-Max (ISCA 2024), samhsia/MADMax: 20 layers of 3,994 x 3,994",
		Interaction: Given, CrossLayers: 20, GivenFLOPs: 638e6, GivenParameters: 319e6, Precision: TF32, OptimizerBytes: 8,
	},
	{
		Name: "hipc-dlrm-default", Source: "owensgroup/ml_perf_model, benchmark/dlrm_benchmark.sh",
		Vectors: 8, Columns: 8 * 64, Bottom: []int{512, 512, 64}, Interaction: Dot, Top: []int{1024, 1024, 1024, 1}, Precision: FP32,
	},
	{
		Name: "hipc-dlrm-mlperf", Source: "owensgroup/ml_perf_model, benchmark/dlrm_benchmark.sh",
		Vectors: 26, Columns: 26 * 128, Bottom: []int{13, 512, 256, 128}, Interaction: Dot, Top: []int{1024, 1024, 512, 256, 1}, Precision: FP32,
	},
	{
		Name: "hipc-dlrm-ddp", Source: "owensgroup/ml_perf_model, benchmark/dlrm_benchmark.sh",
		Vectors: 8, Columns: 8 * 128, Bottom: []int{128, 128, 128, 128}, Interaction: Dot, Top: []int{512, 512, 512, 256, 1}, Precision: FP32,
	},
	synthetic("tiny", 10, 0, 256, 128),
	synthetic("small", 10, 0, 512, 256, 128),
	synthetic("medium", 25, 7, 1024, 512, 256, 128),
	synthetic("large", 100, 8, 2048, 1024, 512, 256),
	synthetic("jumbo", 200, 20, 2048, 1024, 512, 256),
	synthetic("colossal", 500, 30, 4096, 2048, 1024, 512, 256),
}

// syntheticTables has the pooled vectors and columns of NVIDIA's synthetic models, counted
// from the tables of package workload (a test compares them).
var syntheticTables = map[string][2]int{
	"tiny": {58, 672}, "small": {116, 2512}, "medium": {337, 17280},
	"large": {669, 36608}, "jumbo": {1097, 118400}, "colossal": {2153, 336768},
}

// synthetic returns the dense part of one of NVIDIA's synthetic models: an average over
// each stride columns, the dense features beside them, and one MLP.
func synthetic(size string, features, stride int, widths ...int) Dense {
	tables := syntheticTables[size]
	return Dense{
		Name: "nvidia-synthetic-" + size, Source: "NVIDIA-Merlin/distributed-embeddings, examples/benchmarks/synthetic_models/config_v3.py",
		Vectors: tables[0], Columns: tables[1], Bottom: []int{features}, Interaction: Cat, Stride: stride,
		Top: append(slices.Clone(widths), 1), Precision: TF32, OptimizerBytes: 4,
	}
}

// DenseByName returns the preset of exactly that name. The error lists all names.
func DenseByName(name string) (Dense, error) {
	for i := range denseParts {
		if denseParts[i].Name == name {
			return denseParts[i], nil
		}
	}
	return Dense{}, fmt.Errorf("dense part %q is unknown: choose one of %s, or state its layers", name, strings.Join(DenseNames(), ", "))
}

// DenseNames returns the names of all presets. The slice is the caller's.
func DenseNames() []string {
	names := make([]string, len(denseParts))
	for i := range denseParts {
		names[i] = denseParts[i].Name
	}
	return names
}
