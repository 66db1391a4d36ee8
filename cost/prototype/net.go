package prototype

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Features is the number of features of a table.
const Features = 20

// FeatureNames returns the names of the compute net's features, in the order of
// its inputs: the keys of a table in table_configs.json and its dim, sorted as
// strings.
func FeatureNames() []string {
	names := []string{"dim", "pooling_factor", "row"}
	for i := range 17 {
		names = append(names, fmt.Sprintf("bin_%d", i))
	}
	slices.Sort(names)
	return names
}

// The bounds of a net. They are far above the prototype's nets, which have layers
// of 128 and are for at most 8 devices.
const (
	maxWidth   = 4096
	maxLayers  = 16
	maxDevices = 1024
	// maxElements is the most numbers in one file.
	maxElements = 4 << 20
	// maxWeight is the largest absolute value of a number, and minStd the smallest
	// standard deviation of an input. maxReach is the largest output of a stack of
	// layers for inputs between -1 and 1. With these bounds no input of a valid
	// problem overflows a float32.
	maxWeight = 1e9
	minStd    = 1e-7
	maxReach  = 1e9
)

// Layer is one fully connected layer: y = Weight x + Bias.
type Layer struct {
	Out, In int
	// Weight is row-major, Out rows of In.
	Weight, Bias []float32
}

// Scaling standardises an input: (x - Means) / Stds, element by element.
type Scaling struct{ Means, Stds []float32 }

// ComputeNet predicts the time of the fused forward and backward of one device's
// tables. It evaluates the layers of Table on every table, with a ReLU after each
// layer, sums the results, and evaluates Head on the sum, with a ReLU between the
// two layers of Head.
type ComputeNet struct {
	Scaling
	Table []Layer
	Head  [2]Layer
}

// CommNet predicts the times of an all-to-all, one for each device. A ReLU follows
// every layer except the last.
type CommNet struct {
	Scaling
	Devices int
	// Sleeps is true for the net of the forward exchange, whose input is the dim sum
	// of each device and then the start time of each device, in ms. It is false for
	// the net of the backward exchange, whose input is only the dim sums.
	Sleeps bool
	Layers []Layer
}

// ReadComputeNet reads a compute net, from a checkpoint or its JSON form.
func ReadComputeNet(name string, r io.Reader) (*ComputeNet, error) {
	c, err := readContent(name, r)
	if err != nil {
		return nil, err
	}
	f := &faults{file: name}
	n := &ComputeNet{Scaling: c.scaling(f, Features)}
	n.Table = c.layers(f, "t_hidden", Features)
	if len(n.Table) > 0 {
		head := c.layers(f, "c_hidden", n.Table[len(n.Table)-1].Out)
		if len(head) == 2 && head[1].Out == 1 {
			n.Head = [2]Layer(head)
		} else if len(f.list) == 0 {
			f.add(0, "the head c_hidden has %d layers: the head of a compute net has 2, the last with one output", len(head))
		}
	}
	if c.names != nil && !slices.Equal(c.names, FeatureNames()) {
		f.add(0, "the features are %q: a compute net's are %q", c.names, FeatureNames())
	}
	c.leftOver(f)
	if err := f.err(); err != nil {
		return nil, err
	}
	return n, nil
}

// ReadCommNet reads a comm net, forward or backward, from a checkpoint or its
// JSON form.
func ReadCommNet(name string, r io.Reader) (*CommNet, error) {
	c, err := readContent(name, r)
	if err != nil {
		return nil, err
	}
	f := &faults{file: name}
	n := &CommNet{Devices: c.devices}
	switch inputs := len(c.means.data); {
	case n.Devices < 1 || n.Devices > maxDevices:
		f.add(0, "ndevices: %d is not between 1 and %d: is it a comm net?", n.Devices, maxDevices)
	case inputs == 2*n.Devices:
		n.Sleeps = true
	case inputs != n.Devices:
		f.add(0, "%d inputs for %d devices: a comm net has one or two for each device", inputs, n.Devices)
	}
	if len(f.list) == 0 {
		n.Scaling = c.scaling(f, len(c.means.data))
		n.Layers = c.layers(f, "hidden", len(c.means.data))
		if k := len(n.Layers); k > 0 && n.Layers[k-1].Out != n.Devices {
			f.add(0, "%d outputs for %d devices: a comm net has one for each device", n.Layers[k-1].Out, n.Devices)
		}
		if c.names != nil && !slices.Equal(c.names, commNames(n.Devices, n.Sleeps)) {
			f.add(0, "the features are %q: a comm net's are %q", c.names, commNames(n.Devices, n.Sleeps))
		}
		c.leftOver(f)
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return n, nil
}

func commNames(devices int, sleeps bool) []string {
	var names []string
	for d := range devices {
		names = append(names, fmt.Sprintf("dim_%d", d))
	}
	for d := range devices {
		if sleeps {
			names = append(names, fmt.Sprintf("sleep_%d", d))
		}
	}
	return names
}

// tensor is an array of numbers, row-major.
type tensor struct {
	shape []int
	data  []float32
}

// content is the content of a net's file, in either form.
type content struct {
	// tensors holds the tensors by name, such as "t_hidden.0.weight".
	tensors     map[string]tensor
	means, stds tensor
	// devices is 0 in a compute net; names is nil in a checkpoint.
	devices int
	names   []string
}

func readContent(name string, r io.Reader) (*content, error) {
	data, err := readAll(name, r)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(data, []byte("PK\x03\x04")) {
		return readCheckpoint(name, data)
	}
	if start := bytes.TrimLeft(data, " \t\r\n"); bytes.HasPrefix(start, []byte("{")) {
		return readJSONNet(name, data)
	}
	return nil, fmt.Errorf("%s: neither a PyTorch checkpoint (a zip file, as torch.save writes since 1.6) nor a net in JSON form", name)
}

// scaling returns the standardisation of the given number of inputs.
func (c *content) scaling(f *faults, inputs int) Scaling {
	for _, t := range []struct {
		name   string
		tensor tensor
	}{{"feature_means", c.means}, {"feature_stds", c.stds}} {
		if !slices.Equal(t.tensor.shape, []int{inputs}) {
			f.add(0, "%s: shape %v, want %v", t.name, t.tensor.shape, []int{inputs})
			continue
		}
		checkNumbers(f, t.name, t.tensor.data)
	}
	for i, v := range c.stds.data {
		if !(v >= minStd) {
			f.add(0, "feature_stds: number %d: %v is not above %v", i, v, minStd)
			break
		}
	}
	return Scaling{c.means.data, c.stds.data}
}

// layers returns the layers prefix.0, prefix.1 and so on, and removes their tensors
// from the content. The first layer has the given number of inputs.
func (c *content) layers(f *faults, prefix string, in int) []Layer {
	var layers []Layer
	for i := range maxLayers {
		weightName, biasName := fmt.Sprintf("%s.%d.weight", prefix, i), fmt.Sprintf("%s.%d.bias", prefix, i)
		weight, ok := c.tensors[weightName]
		bias, hasBias := c.tensors[biasName]
		if !ok && !hasBias {
			break
		}
		delete(c.tensors, weightName)
		delete(c.tensors, biasName)
		if len(weight.shape) != 2 || weight.shape[1] != in || weight.shape[0] < 1 || weight.shape[0] > maxWidth {
			f.add(0, "%s: shape %v, want [1..%d, %d]", weightName, weight.shape, maxWidth, in)
			return nil
		}
		out := weight.shape[0]
		if !slices.Equal(bias.shape, []int{out}) {
			f.add(0, "%s: shape %v, want %v", biasName, bias.shape, []int{out})
			return nil
		}
		checkNumbers(f, weightName, weight.data)
		checkNumbers(f, biasName, bias.data)
		layers = append(layers, Layer{Out: out, In: in, Weight: weight.data, Bias: bias.data})
		in = out
	}
	if len(layers) == 0 {
		f.add(0, "%s.0.weight is missing: is it a comm net in the place of a compute net, or the reverse?", prefix)
	} else if r := reach(layers); !(r <= maxReach) {
		f.add(0, "layers %s: inputs of 1 may become %.3g, beyond %v: not a trained net", prefix, r, maxReach)
	}
	return layers
}

// reach returns an upper bound on the absolute outputs of the layers for inputs
// between -1 and 1.
func reach(layers []Layer) float64 {
	largest := 1.0
	for _, l := range layers {
		next := 0.0
		for j := range l.Out {
			sum := math.Abs(float64(l.Bias[j]))
			for _, w := range l.Weight[j*l.In : (j+1)*l.In] {
				sum += math.Abs(float64(w)) * largest
			}
			next = math.Max(next, sum)
		}
		largest = math.Max(1, next)
	}
	return largest
}

func checkNumbers(f *faults, name string, values []float32) {
	for i, v := range values {
		if !(math.Abs(float64(v)) <= maxWeight) {
			f.add(0, "%s: number %d: %v is not a number of at most %v", name, i, v, maxWeight)
			return
		}
	}
}

// leftOver reports tensors that are part of no layer: the file is then of another
// net.
func (c *content) leftOver(f *faults) {
	var names []string
	for name := range c.tensors {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) > 0 {
		f.add(0, "tensors of no known layer: %s", strings.Join(names[:min(len(names), 5)], ", "))
	}
}

// jsonNet is the JSON form of a net.
type jsonNet struct {
	DType    string      `json:"dtype"`
	Devices  int         `json:"ndevices"`
	Names    []string    `json:"feature_names"`
	Means    []float32   `json:"feature_means"`
	Stds     []float32   `json:"feature_stds"`
	TableMLP []jsonLayer `json:"table_mlp"`
	PredMLP  []jsonLayer `json:"pred_mlp"`
	MLP      []jsonLayer `json:"mlp"`
}

type jsonLayer struct {
	Name   string    `json:"name"`
	Out    int       `json:"out"`
	In     int       `json:"in"`
	Weight []float32 `json:"weight"`
	Bias   []float32 `json:"bias"`
}

func readJSONNet(name string, data []byte) (*content, error) {
	f := &faults{file: name}
	var n jsonNet
	if !decode(f, data, 1, &n) {
		return nil, f.err()
	}
	if n.DType != "" && n.DType != "float32" {
		f.add(0, "dtype %q: only float32 is known", n.DType)
	}
	c := &content{
		tensors: map[string]tensor{},
		means:   tensor{[]int{len(n.Means)}, n.Means},
		stds:    tensor{[]int{len(n.Stds)}, n.Stds},
		devices: n.Devices,
		names:   n.Names,
	}
	total := 0
	for _, l := range slices.Concat(n.TableMLP, n.PredMLP, n.MLP) {
		line := 1 + bytes.Count(data[:max(0, bytes.Index(data, jsonName(l.Name)))], []byte{'\n'})
		total += len(l.Weight) + len(l.Bias)
		if _, ok := c.tensors[l.Name+".weight"]; ok {
			f.add(line, "layer %q occurs twice", l.Name)
		}
		if l.In < 1 || l.In > maxWidth || l.Out < 1 || l.Out > maxWidth || len(l.Weight) != l.In*l.Out || len(l.Bias) != l.Out {
			f.add(line, "layer %q: %d weights and %d biases do not fit %d inputs and %d outputs", l.Name, len(l.Weight), len(l.Bias), l.In, l.Out)
			continue
		}
		c.tensors[l.Name+".weight"] = tensor{[]int{l.Out, l.In}, l.Weight}
		c.tensors[l.Name+".bias"] = tensor{[]int{l.Out}, l.Bias}
	}
	if total > maxElements {
		f.add(0, "%d numbers: a net has at most %d", total, maxElements)
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// jsonName returns a layer's name as it is written in the file.
func jsonName(name string) []byte {
	quoted, _ := json.Marshal(name)
	return quoted
}
