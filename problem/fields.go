package problem

import (
	"fmt"
	"math"
	"strconv"
)

// fields.go lists the fields that a table and a feature have in all formats. Files of tables are read and
// written, the digest of a problem is made, and the schema and the document of the formats are written
// from these lists: whoever adds a field adds it to its struct and to one list.

// Field is a value of a T that files state.
type Field[T any] struct {
	Key string
	// About says what the value is, in hints, schemas and documents.
	About string
	// In is the key of the object that has the field in JSON; empty: that of the T itself.
	In string
	// Column is the column of CSV files; empty: that of the key.
	Column string
	// ForAll says that a file may state the value once, for all T that do not state it.
	ForAll bool
	Limits
	// At returns a pointer to the value.
	At func(*T) any
}

// Limits are those of a number: from Least to Most, without Least if Above and without Most if Below. The
// zero value limits nothing.
type Limits struct {
	Least, Most  float64
	Above, Below bool
}

// Wrong says how v is outside of the limits; "" if it is not.
func (l Limits) Wrong(v float64) string {
	number := func(v float64) string {
		if v == math.Trunc(v) && math.Abs(v) < 1e15 {
			return strconv.FormatFloat(v, 'f', 0, 64)
		}
		return fmt.Sprint(v)
	}
	inside := v >= l.Least && v <= l.Most && !(l.Above && v == l.Least) && !(l.Below && v == l.Most)
	switch {
	case inside || l == Limits{}:
		return ""
	case l.Below:
		return fmt.Sprintf("%s is not above %s and below %s", number(v), number(l.Least), number(l.Most))
	case l.Above:
		return fmt.Sprintf("%s is not above %s and at most %s", number(v), number(l.Least), number(l.Most))
	}
	return fmt.Sprintf("%s is not between %s and %s", number(v), number(l.Least), number(l.Most))
}

// number returns the value of the field if it is a number.
func (f *Field[T]) number(of *T) (float64, bool) {
	switch v := f.At(of).(type) {
	case *int:
		return float64(*v), true
	case *int64:
		return float64(*v), true
	case *float64:
		return *v, true
	}
	return 0, false
}

// TableFields lists the fields of a table but for its features. It must not be modified.
func TableFields() []Field[Table] { return tableFields }

// FeatureFields lists the fields of a feature. It must not be modified.
func FeatureFields() []Field[Feature] { return featureFields }

// Keys of objects in a table.
const (
	InAccess      = "access"
	InConstraints = "constraints"
)

var tableFields = []Field[Table]{
	{Key: "name", About: "name is unique among the tables", At: func(t *Table) any { return &t.Name }},
	{Key: "module", About: "module is the path of the module that holds the table, such as sparse.ebc: leave it out if none is known", At: func(t *Table) any { return &t.Module }},
	{Key: "rows", About: "rows is the table's hash size", Limits: Limits{Least: 1, Most: MaxRows}, At: func(t *Table) any { return &t.Rows }},
	{Key: "dim", About: "dim is the table's number of columns", Limits: Limits{Least: ColumnGranule, Most: MaxDim}, At: func(t *Table) any { return &t.Dim }},
	{Key: "pooling", About: "pooling says how a bag's rows become one vector, or, with none, that each lookup gives one: the mean number of lookups per sample is pooling_factor", ForAll: true, At: func(t *Table) any { return &t.Pooling }},
	{Key: "weighted", About: "weighted is true if lookups carry a weight", ForAll: true, At: func(t *Table) any { return &t.Weighted }},
	{Key: "prefetch", About: "prefetch is true if the engine prefetches the rows of a cached table (TorchRec's prefetch_pipeline)", ForAll: true, At: func(t *Table) any { return &t.Prefetch }},
	{Key: "index_dedup", About: "index_dedup is true if each device sends an index of its samples once, with pooling none (TorchRec's use_index_dedup)", ForAll: true, At: func(t *Table) any { return &t.IndexDedup }},
	{Key: "kernel_settings", About: "kernel_settings names settings of the engine's kernels: tables of different ones are never in one operator", At: func(t *Table) any { return &t.KernelSettings }},
	{Key: "precision", About: "precision is the number format of the weights; the default is fp32", ForAll: true, At: func(t *Table) any { return &t.Precision }},
	{Key: "output_precision", About: "output_precision is the number format of the table's vectors, for accounting torchrec; the default is that of the weights", At: func(t *Table) any { return &t.OutputPrecision }},
	{Key: "optimizer", About: "optimizer is that of the rows; the default is sgd, with a warning", ForAll: true, At: func(t *Table) any { return &t.Optimizer }},

	{Key: "reuse", About: "reuse holds the shares of distinct rows that are used 1, 2, 3-4, 5-8, ..., 16385-32768 and more than 32768 times in a batch; they add up to 1", In: InAccess, Limits: Limits{Most: 1}, At: func(t *Table) any { return &t.Access.Reuse }},
	{Key: "batch", Column: "reuse_batch", About: "state the number of samples that the histogram was counted on", In: InAccess, Limits: Limits{Least: 1, Most: MaxBatch}, At: func(t *Table) any { return &t.Access.Batch }},
	{Key: "unique_rows", About: "unique_rows is the number of distinct rows in the batch of the histogram", In: InAccess, Limits: Limits{Most: MaxRows}, At: func(t *Table) any { return &t.Access.UniqueRows }},
	{Key: "zipf", About: "zipf is the exponent a: the i-th most used row is drawn with a probability proportional to i^-a; published tables lie between 0.5 and 2", In: InAccess, ForAll: true, Limits: Limits{Most: 10, Above: true}, At: func(t *Table) any { return &t.Access.Exponent }},
	{Key: "index_law", About: "index_law says how the indices of a bag come about: each drawn by itself, or as the fixed rows of one one-hot id; the default is independent", In: InAccess, ForAll: true, At: func(t *Table) any { return &t.Access.Law }},

	{Key: "devices", About: "devices are those allowed, numbered from 0", In: InConstraints, ForAll: true, At: func(t *Table) any { return &t.Constraint.Devices }},
	{Key: "group", About: "tables of one group are placed, whole, on one device: leave it out for a table in no group", In: InConstraints, At: func(t *Table) any { return &t.Constraint.Colocation }},
	{Key: "no_split", About: "no_split forbids splitting the table", In: InConstraints, ForAll: true, At: func(t *Table) any { return &t.Constraint.NoSplit }},
	{Key: "min_width", About: "min_width is the narrowest column slice allowed", In: InConstraints, ForAll: true, Limits: Limits{Most: MaxDim}, At: func(t *Table) any { return &t.Constraint.MinWidth }},
	{Key: "one_host", About: "one_host keeps all slices of a column_wise table on devices of one host", In: InConstraints, ForAll: true, At: func(t *Table) any { return &t.Constraint.OneHost }},
	{Key: "sharding_types", About: "sharding_types are those that the table may have; column_wise allows table_wise, too, and grid allows table_row_wise", In: InConstraints, ForAll: true, At: func(t *Table) any { return &t.Constraint.ShardingTypes }},
	{Key: "tiers", About: "tiers are the memories that the table may lie in", In: InConstraints, ForAll: true, At: func(t *Table) any { return &t.Constraint.Tiers }},
	{Key: "cache_share", About: "cache_share is the share of the table's rows that HBM caches", In: InConstraints, ForAll: true, Limits: Limits{Most: 1, Above: true, Below: true}, At: func(t *Table) any { return &t.Constraint.CacheShare }},
}

var featureFields = []Field[Feature]{
	{Key: "name", About: "name is that of the feature", At: func(f *Feature) any { return &f.Name }},
	{Key: "pooling_factor", About: "pooling_factor is the mean number of lookups per sample", ForAll: true, Limits: Limits{Most: MaxPoolingFactor}, At: func(f *Feature) any { return &f.PoolingFactor }},
	{Key: "length_cv", About: "length_cv is the standard deviation of the lengths of a feature's bags over their mean", ForAll: true, Limits: Limits{Most: MaxLengthCV}, At: func(f *Feature) any { return &f.LengthCV }},
	{Key: "bags", About: "bags is the mean number of bags per sample: leave it out for one", Limits: Limits{Most: MaxBags, Above: true}, At: func(f *Feature) any { return &f.Bags }},
}
