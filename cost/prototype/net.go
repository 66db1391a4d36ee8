package prototype

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/internal/words"
)

// Features is the number of features of a table: the keys of a table in table_configs.json and its
// dim, in the order of their names as strings.
const Features = 20

// The bounds of a net. They are far above the prototype's nets, which have layers
// of 128 and are for at most 8 devices.
const (
	maxWidth   = 4096
	maxLayers  = 16
	maxDevices = 1024
	// maxElements is the most numbers in one file.
	maxElements = 4 << 20
	// maxMean is the largest absolute mean of an input, and minStd the smallest standard
	// deviation. maxReach is the largest output of a stack of layers for inputs between -1 and 1.
	// With these bounds no input of a valid problem overflows a float32.
	maxMean  = 1e9
	minStd   = 1e-7
	maxReach = 1e9
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
	n, err := c.computeNet()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}

func (c *content) computeNet() (*ComputeNet, error) {
	n := &ComputeNet{}
	var err error
	if n.Scaling, err = c.scaling(Features); err != nil {
		return nil, err
	}
	if n.Table, err = c.layers("t_hidden", Features); err != nil {
		return nil, err
	}
	head, err := c.layers("c_hidden", n.Table[len(n.Table)-1].Out)
	if err != nil {
		return nil, err
	}
	if len(head) != 2 || head[1].Out != 1 {
		return nil, fmt.Errorf("the head c_hidden has %d layers: the head of a compute net has 2, the last with one output", len(head))
	}
	n.Head = [2]Layer(head)
	return n, c.leftOver()
}

// ReadCommNet reads a comm net, forward or backward, from a checkpoint or its
// JSON form.
func ReadCommNet(name string, r io.Reader) (*CommNet, error) {
	c, err := readContent(name, r)
	if err != nil {
		return nil, err
	}
	n, err := c.commNet()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}

func (c *content) commNet() (*CommNet, error) {
	inputs := len(c.means.data)
	n := &CommNet{Devices: c.devices, Sleeps: inputs == 2*c.devices}
	if n.Devices < 1 || n.Devices > maxDevices {
		return nil, fmt.Errorf("ndevices: %d is not between 1 and %d: is it a comm net?", n.Devices, maxDevices)
	}
	if inputs != n.Devices && !n.Sleeps {
		return nil, fmt.Errorf("%d inputs for %d devices: a comm net has one or two for each device", inputs, n.Devices)
	}
	var err error
	if n.Scaling, err = c.scaling(inputs); err != nil {
		return nil, err
	}
	if n.Layers, err = c.layers("hidden", inputs); err != nil {
		return nil, err
	}
	if out := n.Layers[len(n.Layers)-1].Out; out != n.Devices {
		return nil, fmt.Errorf("%d outputs for %d devices: a comm net has one for each device", out, n.Devices)
	}
	return n, c.leftOver()
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
	devices     int // 0 in a compute net
}

func readContent(name string, r io.Reader) (*content, error) {
	data, err := readAll(name, r)
	if err != nil {
		return nil, err
	}
	var c *content
	switch {
	case bytes.HasPrefix(data, []byte("PK\x03\x04")):
		c, err = readCheckpoint(data)
	case isObject(data):
		c, err = readJSONNet(data)
	default:
		err = errors.New("neither a PyTorch checkpoint (a zip file, as torch.save writes since 1.6) nor a net in JSON form")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// scaling returns the standardisation of the given number of inputs.
func (c *content) scaling(inputs int) (Scaling, error) {
	if !slices.Equal(c.means.shape, []int{inputs}) || !slices.Equal(c.stds.shape, []int{inputs}) {
		return Scaling{}, fmt.Errorf("feature_means and feature_stds: shapes %v and %v, want %v: is it a comm net in the place of a compute net, or the reverse?", c.means.shape, c.stds.shape, []int{inputs})
	}
	for i, mean := range c.means.data {
		if std := c.stds.data[i]; !(math.Abs(float64(mean)) <= maxMean) || !(std >= minStd && std <= math.MaxFloat32) {
			return Scaling{}, fmt.Errorf("input %d: a mean of %v is above %v, or a standard deviation of %v below %v", i, mean, maxMean, std, minStd)
		}
	}
	return Scaling{c.means.data, c.stds.data}, nil
}

// layers returns the layers prefix.0, prefix.1 and so on, at least one, and removes their tensors
// from the content. The first layer has the given number of inputs.
func (c *content) layers(prefix string, in int) (layers []Layer, err error) {
	for i := range maxLayers {
		weightName, biasName := fmt.Sprintf("%s.%d.weight", prefix, i), fmt.Sprintf("%s.%d.bias", prefix, i)
		weight, ok := c.tensors[weightName]
		bias := c.tensors[biasName]
		if !ok {
			break
		}
		delete(c.tensors, weightName)
		delete(c.tensors, biasName)
		if len(weight.shape) != 2 || weight.shape[1] != in || weight.shape[0] < 1 || weight.shape[0] > maxWidth {
			return nil, fmt.Errorf("%s: shape %v, want [1..%d, %d]", weightName, weight.shape, maxWidth, in)
		}
		out := weight.shape[0]
		if !slices.Equal(bias.shape, []int{out}) {
			return nil, fmt.Errorf("%s: shape %v, want %v", biasName, bias.shape, []int{out})
		}
		layers = append(layers, Layer{Out: out, In: in, Weight: weight.data, Bias: bias.data})
		in = out
	}
	if len(layers) == 0 {
		return nil, fmt.Errorf("%s.0.weight is missing: is it a comm net in the place of a compute net, or the reverse?", prefix)
	}
	if r := reach(layers); !(r <= maxReach) {
		return nil, fmt.Errorf("layers %s: inputs of 1 may become %.3g, beyond %v: not a trained net", prefix, r, maxReach)
	}
	return layers, nil
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

// leftOver fails if a tensor is part of no layer: the file is then of another net.
func (c *content) leftOver() error {
	if len(c.tensors) > 0 {
		names := slices.Sorted(maps.Keys(c.tensors))
		return fmt.Errorf("tensors of no known layer: %s", words.List(names, 5))
	}
	return nil
}

func readJSONNet(data []byte) (*content, error) {
	type layer struct {
		Name   string    `json:"name"`
		Out    int       `json:"out"`
		In     int       `json:"in"`
		Weight []float32 `json:"weight"`
		Bias   []float32 `json:"bias"`
	}
	var n struct {
		Devices  int       `json:"ndevices"`
		Means    []float32 `json:"feature_means"`
		Stds     []float32 `json:"feature_stds"`
		TableMLP []layer   `json:"table_mlp"`
		PredMLP  []layer   `json:"pred_mlp"`
		MLP      []layer   `json:"mlp"`
	}
	if err := json.Unmarshal(data, &n); err != nil {
		return nil, err
	}
	c := &content{
		tensors: map[string]tensor{}, devices: n.Devices,
		means: tensor{[]int{len(n.Means)}, n.Means}, stds: tensor{[]int{len(n.Stds)}, n.Stds},
	}
	for _, l := range slices.Concat(n.TableMLP, n.PredMLP, n.MLP) {
		if l.In < 1 || l.In > maxWidth || l.Out < 1 || l.Out > maxWidth || len(l.Weight) != l.In*l.Out || len(l.Bias) != l.Out {
			return nil, fmt.Errorf("layer %q: %d weights and %d biases do not fit %d inputs and %d outputs", l.Name, len(l.Weight), len(l.Bias), l.In, l.Out)
		}
		c.tensors[l.Name+".weight"] = tensor{[]int{l.Out, l.In}, l.Weight}
		c.tensors[l.Name+".bias"] = tensor{[]int{l.Out}, l.Bias}
	}
	return c, nil
}
