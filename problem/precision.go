package problem

import (
	"fmt"
	"slices"
	"strings"
)

// Precision is the number format of a table's weights.
type Precision uint8

// The precisions.
const (
	FP32 Precision = iota
	FP16
	BF16
)

var precisionNames = []string{"fp32", "fp16", "bf16"}

// String returns the precision's name as used in files.
func (p Precision) String() string { return enumName(precisionNames, uint8(p), "Precision") }

// MarshalText writes the precision's name.
func (p Precision) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads a name that MarshalText writes.
func (p *Precision) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePrecision(string(text))
	return err
}

// Bytes returns the size of one weight.
func (p Precision) Bytes() int64 {
	if p == FP32 {
		return 4
	}
	return 2
}

// Precisions returns the names of all precisions. The slice is the caller's.
func Precisions() []string { return slices.Clone(precisionNames) }

// ParsePrecision reads a precision's name.
func ParsePrecision(s string) (Precision, error) {
	i, err := parseEnum(precisionNames, s, "precision")
	return Precision(i), err
}

// OutputPrecision is the number format of a table's vectors, TorchRec's output_dtype. The zero value
// is that of the table's weights.
type OutputPrecision uint8

// OutputIn returns the number format p of vectors, whatever that of the weights.
func OutputIn(p Precision) OutputPrecision { return OutputPrecision(p) + 1 }

// Of returns the number format of the vectors of a table with weights of the given precision.
func (o OutputPrecision) Of(weights Precision) Precision {
	if o == 0 {
		return weights
	}
	return Precision(o - 1)
}

// Optimizer names the rule by which the fused backward updates a table's rows.
type Optimizer uint8

// The optimizers, from the one with the least state to the one with the most.
const (
	SGD Optimizer = iota
	RowwiseAdagrad
	Adagrad
	Adam
)

var optimizerNames = []string{"sgd", "rowwise_adagrad", "adagrad", "adam"}

// String returns the optimizer's name as used in files.
func (o Optimizer) String() string { return enumName(optimizerNames, uint8(o), "Optimizer") }

// MarshalText writes the optimizer's name.
func (o Optimizer) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads a name that MarshalText writes.
func (o *Optimizer) UnmarshalText(text []byte) (err error) {
	*o, err = ParseOptimizer(string(text))
	return err
}

// StateBytes returns the bytes of optimizer state of a shard of the given shape. SGD has
// no state, RowwiseAdagrad one number for each row of each slice, Adagrad one number for
// each weight, and Adam two. A number of state takes 4 bytes, whatever the precision of
// the weights.
func (o Optimizer) StateBytes(rows int64, dim int) int64 {
	switch o {
	case RowwiseAdagrad:
		return 4 * rows
	case Adagrad:
		return 4 * rows * int64(dim)
	case Adam:
		return 8 * rows * int64(dim)
	}
	return 0
}

// Optimizers returns the names of all optimizers. The slice is the caller's.
func Optimizers() []string { return slices.Clone(optimizerNames) }

// NoOptimizer is what a warning says of tables that state no optimizer. Reports print it in their
// first lines, because the memory of the plan depends on it.
const NoOptimizer = "no optimizer: sgd, which keeps no state, is assumed"

// ParseOptimizer reads an optimizer's name.
func ParseOptimizer(s string) (Optimizer, error) {
	i, err := parseEnum(optimizerNames, s, "optimizer")
	return Optimizer(i), err
}

// Pooling is how the rows of a bag become one pooled vector. Sum and mean do not change the time
// of a lookup; engines may keep tables of different poolings in different operators.
type Pooling uint8

// The poolings.
const (
	// SumPooling adds the rows up.
	SumPooling Pooling = iota
	// MeanPooling divides the sum by the number of rows.
	MeanPooling
	// PoolingNone keeps the rows apart: each lookup gives a vector of its own, as sequence
	// embeddings need (TorchRec's EmbeddingCollection).
	PoolingNone
)

var poolingNames = []string{"sum", "mean", "none"}

// String returns the pooling's name as used in files.
func (p Pooling) String() string { return enumName(poolingNames, uint8(p), "Pooling") }

// MarshalText writes the pooling's name.
func (p Pooling) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads a name that MarshalText writes.
func (p *Pooling) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePooling(string(text))
	return err
}

// Poolings returns the names of all poolings. The slice is the caller's.
func Poolings() []string { return slices.Clone(poolingNames) }

// ParsePooling reads a pooling's name.
func ParsePooling(s string) (Pooling, error) {
	i, err := parseEnum(poolingNames, s, "pooling")
	return Pooling(i), err
}

func enumName(names []string, i uint8, typeName string) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", typeName, i)
}

func parseEnum(names []string, s, what string) (uint8, error) {
	for i, name := range names {
		if name == s {
			return uint8(i), nil
		}
	}
	return 0, fmt.Errorf("%s %q is unknown: choose one of %s", what, s, strings.Join(names, ", "))
}
