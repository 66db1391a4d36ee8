package dataset

import (
	"fmt"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/unit"
)

// rows.go has the rows of the Parquet files; those of repeats and anchors are Repeat and Anchor. docs/FORMATS.md describes the
// columns: a change here is one there, and a new Version.

// tableRow is a row of tables.parquet.
type tableRow struct {
	ID             int32     `parquet:"id"`
	Name           string    `parquet:"name,plain"`
	Rows           int64     `parquet:"rows"`
	Dim            int32     `parquet:"dim"`
	Features       []string  `parquet:"features,list" parquet-element:",plain"`
	PoolingFactors []float64 `parquet:"pooling_factors,list"`
	Weighted       bool      `parquet:"weighted"`
	Precision      string    `parquet:"precision,dict"`
	Optimizer      string    `parquet:"optimizer,dict"`
	Access         string    `parquet:"access,dict"`
	Reuse          []float64 `parquet:"reuse,list"`
	ReuseBatch     int32     `parquet:"reuse_batch"`
	UniqueRows     float64   `parquet:"unique_rows"`
	Zipf           float64   `parquet:"zipf"`
	Devices        []int32   `parquet:"constraint_devices,list"`
	Group          string    `parquet:"constraint_group,dict"`
	NoSplit        bool      `parquet:"constraint_no_split"`
	MinWidth       int32     `parquet:"constraint_min_width"`
	LengthCVs      []float64 `parquet:"length_cvs,list"`
}

// groupRow is a row of compute.parquet.
type groupRow struct {
	ID             int64   `parquet:"id"`
	Split          string  `parquet:"split,dict"`
	Batch          int32   `parquet:"batch"`
	Optimizer      string  `parquet:"optimizer,dict"`
	Precision      string  `parquet:"precision,dict"`
	Weighted       bool    `parquet:"weighted"`
	Tables         []int32 `parquet:"tables,list"`
	Dims           []int32 `parquet:"dims,list"`
	Forward        float64 `parquet:"forward_ms"`
	Backward       float64 `parquet:"backward_ms"`
	ForwardSpread  float64 `parquet:"forward_iqr_ms"`
	BackwardSpread float64 `parquet:"backward_iqr_ms"`
	Quarantined    bool    `parquet:"quarantined"`
	LaneRule       string  `parquet:"lane_rule,dict"`
}

// exchangeRow is a row of comm.parquet.
type exchangeRow struct {
	ID             int64     `parquet:"id"`
	Split          string    `parquet:"split,dict"`
	Devices        int32     `parquet:"devices"`
	DevicesPerHost int32     `parquet:"devices_per_host"`
	Batch          int32     `parquet:"batch"`
	DimSums        []int32   `parquet:"dim_sums,list"`
	Start          []float64 `parquet:"start_ms,list"`
	Forward        []float64 `parquet:"forward_ms,list"`
	Backward       []float64 `parquet:"backward_ms,list"`
	Spread         float64   `parquet:"backward_iqr_ms"`
	Quarantined    bool      `parquet:"quarantined"`
}

// each returns f of every element; nil for none.
func each[T, U any](list []T, f func(int, T) U) []U {
	if len(list) == 0 {
		return nil
	}
	out := make([]U, len(list))
	for i, v := range list {
		out[i] = f(i, v)
	}
	return out
}

// each1 is each for an f that wants no position.
func each1[T, U any](list []T, f func(T) U) []U {
	return each(list, func(_ int, v T) U { return f(v) })
}

func toTableRow(i int, t problem.Table) tableRow {
	r := tableRow{
		ID: int32(i), Name: t.Name, Rows: t.Rows, Dim: int32(t.Dim),
		Features:       each1(t.Features, func(f problem.Feature) string { return f.Name }),
		PoolingFactors: each1(t.Features, func(f problem.Feature) float64 { return f.PoolingFactor }),
		Weighted:       t.Weighted, Precision: t.Precision.String(), Optimizer: t.Optimizer.String(),
		Access: accessText(t.Access), ReuseBatch: int32(t.Access.Batch), UniqueRows: t.Access.UniqueRows, Zipf: t.Access.Exponent,
		Devices: each1(t.Constraint.Devices, func(d int) int32 { return int32(d) }),
		Group:   t.Constraint.Colocation, NoSplit: t.Constraint.NoSplit, MinWidth: int32(t.Constraint.MinWidth),
		LengthCVs: each1(t.Features, func(f problem.Feature) float64 { return f.LengthCV }),
	}
	if t.Access.Reuse != [access.Classes]float64{} {
		r.Reuse = append(r.Reuse, t.Access.Reuse[:]...)
	}
	return r
}

func fromTableRow(i int, r tableRow) (problem.Table, error) {
	t := problem.Table{
		Name: r.Name, Rows: r.Rows, Dim: int(r.Dim), Weighted: r.Weighted,
		Access: access.Distribution{Batch: int(r.ReuseBatch), UniqueRows: r.UniqueRows, Exponent: r.Zipf},
		Constraint: problem.Constraint{
			Devices: each1(r.Devices, func(d int32) int { return int(d) }), Colocation: r.Group, NoSplit: r.NoSplit, MinWidth: int(r.MinWidth),
		},
	}
	if int(r.ID) != i {
		return t, fmt.Errorf("id: %d is not the row's number", r.ID)
	}
	if n := len(r.Features); n != len(r.PoolingFactors) || n != len(r.LengthCVs) {
		return t, fmt.Errorf("%d features, %d pooling_factors and %d length_cvs", n, len(r.PoolingFactors), len(r.LengthCVs))
	}
	t.Features = each(r.Features, func(i int, name string) problem.Feature {
		return problem.Feature{Name: name, PoolingFactor: r.PoolingFactors[i], LengthCV: r.LengthCVs[i]}
	})
	if n := len(r.Reuse); n != 0 && n != access.Classes {
		return t, fmt.Errorf("reuse: %d shares, want %d or none", n, access.Classes)
	}
	copy(t.Access.Reuse[:], r.Reuse)
	var err error
	if t.Access.Kind, t.Access.Law, err = parseAccess(r.Access); err != nil {
		return t, err
	}
	if t.Precision, err = problem.ParsePrecision(r.Precision); err != nil {
		return t, err
	}
	t.Optimizer, err = problem.ParseOptimizer(r.Optimizer)
	return t, err
}

// accessText returns what is known of a table's accesses in a word: the kind of the
// distribution, and after a plus sign the index law if it is not the usual one. Programs
// that do not know the law refuse the word.
func accessText(d access.Distribution) string {
	if d.Law == access.Independent {
		return d.Kind.String()
	}
	return d.Kind.String() + "+" + d.Law.String()
}

func parseAccess(name string) (access.Kind, access.Law, error) {
	for _, k := range []access.Kind{access.Unstated, access.Histogram, access.Zipf, access.Uniform} {
		for _, law := range access.Laws() {
			if accessText(access.Distribution{Kind: k, Law: law}) == name {
				return k, law, nil
			}
		}
	}
	return 0, 0, fmt.Errorf("access %q is unknown", name)
}

func toGroupRow(_ int, g Group) groupRow {
	return groupRow{
		ID: int64(g.ID), Split: g.Split.String(), Batch: int32(g.Operation.Batch),
		Optimizer: g.Operation.Optimizer.String(), Precision: g.Operation.Precision.String(), Weighted: g.Operation.Weighted,
		Tables:  each1(g.Members, func(m Member) int32 { return m.Table }),
		Dims:    each1(g.Members, func(m Member) int32 { return m.Dim }),
		Forward: float64(g.Forward), Backward: float64(g.Backward),
		ForwardSpread: float64(g.ForwardSpread), BackwardSpread: float64(g.BackwardSpread), Quarantined: g.Quarantined,
		LaneRule: g.Operation.LaneRule.String(),
	}
}

func fromGroupRow(_ int, r groupRow) (Group, error) {
	g := Group{
		ID: int(r.ID), Operation: problem.Operation{Batch: int(r.Batch), Weighted: r.Weighted},
		Forward: unit.Millis(r.Forward), Backward: unit.Millis(r.Backward),
		ForwardSpread: unit.Millis(r.ForwardSpread), BackwardSpread: unit.Millis(r.BackwardSpread), Quarantined: r.Quarantined,
	}
	if len(r.Tables) != len(r.Dims) {
		return g, fmt.Errorf("%d tables and %d dims", len(r.Tables), len(r.Dims))
	}
	g.Members = each(r.Tables, func(i int, t int32) Member { return Member{Table: t, Dim: r.Dims[i]} })
	var err error
	if g.Split, err = ParseSplit(r.Split); err != nil {
		return g, err
	}
	if g.Operation.Precision, err = problem.ParsePrecision(r.Precision); err != nil {
		return g, err
	}
	if g.Operation.Optimizer, err = problem.ParseOptimizer(r.Optimizer); err != nil {
		return g, err
	}
	g.Operation.LaneRule, err = problem.ParseLaneRule(r.LaneRule)
	return g, err
}

func toExchangeRow(_ int, e Exchange) exchangeRow {
	number := func(m unit.Millis) float64 { return float64(m) }
	return exchangeRow{
		ID: int64(e.ID), Split: e.Split.String(), Devices: int32(e.Devices), DevicesPerHost: int32(e.DevicesPerHost), Batch: int32(e.Batch),
		DimSums: each1(e.DimSums, func(d int) int32 { return int32(d) }),
		Start:   each1(e.Start, number), Forward: each1(e.Forward, number), Backward: each1(e.Backward, number),
		Spread: float64(e.Spread), Quarantined: e.Quarantined,
	}
}

func fromExchangeRow(_ int, r exchangeRow) (Exchange, error) {
	millis := func(v float64) unit.Millis { return unit.Millis(v) }
	e := Exchange{
		ID: int(r.ID), Devices: int(r.Devices), DevicesPerHost: int(r.DevicesPerHost), Batch: int(r.Batch),
		DimSums: each1(r.DimSums, func(d int32) int { return int(d) }),
		Start:   each1(r.Start, millis), Forward: each1(r.Forward, millis), Backward: each1(r.Backward, millis),
		Spread: unit.Millis(r.Spread), Quarantined: r.Quarantined,
	}
	var err error
	e.Split, err = ParseSplit(r.Split)
	return e, err
}
