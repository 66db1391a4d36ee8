package design

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// domain.go draws samples within bounds that the caller chooses. A group that takes
// too much memory or time to measure is drawn again: a few times as a whole, with
// the same number of shards. If it is still too heavy, its heaviest shards are left
// out.
//
//	a sample is   a tenth of the time a shard of an earlier group, alone
//	              else 5 % a tiny group of narrow shards: the launch cost
//	              else a group, its number of shards uniform or log-uniform

// Domain holds the bounds of the draws; the zero value of a field takes the
// default.
type Domain struct {
	// Batches are the global batches of the draws, with equal probability (default:
	// Batches).
	Batches []int
	// MinShards and MaxShards bound the number of shards of a group, and MaxDim their
	// columns (default: 1, 60 and 256).
	MinShards, MaxShards int
	MaxDim               int
	// Plain limits the draws to those of the NeuroShard paper, which the files of its
	// prototype can express: dims are powers of two, and one feature reads each random
	// table.
	Plain bool
	// MinRows, MaxRows and MaxPoolingFactor bound the random tables (default: 10,
	// 1e10 and 400).
	MinRows, MaxRows int64
	MaxPoolingFactor float64
	// Optimizers and Precisions are drawn with equal probability (default: all four,
	// and fp32 and fp16). WeightedShare is the share of weighted groups, in [0, 1].
	Optimizers    []problem.Optimizer
	Precisions    []problem.Precision
	WeightedShare float64
	// MaxBytes bounds the weights and optimizer state of a group (GroupBytes), like
	// the memory of a device in the NeuroShard paper. 0 means no bound.
	MaxBytes unit.Bytes
	// MaxLookupBytes bounds the bytes that a group looks up (LookupBytes), and thereby
	// the time to measure a sample. 0 means no bound.
	MaxLookupBytes float64
	// Devices are the numbers of devices of an all-to-all, drawn with equal
	// probability; the devices are on one host (default: 2, 4 and 8). MaxDimSum bounds
	// the columns of a device; 0 means no bound.
	Devices   []int
	MaxDimSum int
	// StartSpread is the most time in ms between the first and the last device that is
	// ready for an all-to-all (default: 19). It should be near the difference of the
	// devices' computing times in plans: if a device sends before the last one is
	// ready, the exchange takes less time after the last one is ready.
	StartSpread float64
	// Tables, if not empty, replace the random tables. Their dims, precisions and
	// optimizers are not used: the draws have their own.
	Tables []problem.Table
}

// Paper returns the domain of the NeuroShard paper's samples (section 3 of its
// method): 1 to 15 tables, dims of powers of two to 128, a batch of 65,536, fp32
// and SGD.
func Paper() Domain {
	return Domain{
		Plain:     true,
		Batches:   []int{65536},
		MinShards: 1, MaxShards: 15, MaxDim: 128,
		MaxRows:    40e6,
		Optimizers: []problem.Optimizer{problem.SGD},
		Precisions: []problem.Precision{problem.FP32},
		Devices:    []int{4, 8},
	}
}

// CPU returns the domain for a machine of a few cores, on which a step of the
// largest group takes about 40 ms: batches of 512 to 4,096, tables of up to 2
// million rows and groups of up to 40 shards, fp32, trained with SGD or row-wise
// Adagrad, on 2 to 8 devices.
func CPU() Domain {
	return Domain{
		Batches:   []int{512, 1024, 2048, 4096},
		MinShards: 1, MaxShards: 40, MaxDim: 128,
		MinRows: 1e3, MaxRows: 2e6, MaxPoolingFactor: 40,
		Optimizers:     []problem.Optimizer{problem.SGD, problem.RowwiseAdagrad},
		Precisions:     []problem.Precision{problem.FP32},
		MaxBytes:       2 * unit.GiB,
		MaxLookupBytes: 80e6,
		Devices:        []int{2, 3, 4, 8}, MaxDimSum: 2048, StartSpread: 3,
	}
}

// maxStartSpread is the longest time that workers wait, in ms.
const maxStartSpread = 1000

// WithDefaults returns the domain with defaults in place of zero values.
func (d Domain) WithDefaults() Domain {
	d.MinShards, d.MinRows = cmp.Or(d.MinShards, 1), cmp.Or(d.MinRows, 10)
	d.MaxShards, d.MaxRows = cmp.Or(d.MaxShards, max(MaxShards, d.MinShards)), cmp.Or(d.MaxRows, max(1e10, d.MinRows))
	d.MaxDim, d.StartSpread = cmp.Or(d.MaxDim, MaxDim), cmp.Or(d.StartSpread, startSpread)
	d.MaxPoolingFactor = cmp.Or(d.MaxPoolingFactor, MaxPoolingFactor)
	if len(d.Batches) == 0 {
		d.Batches = Batches()
	}
	if len(d.Optimizers) == 0 {
		d.Optimizers = []problem.Optimizer{problem.SGD, problem.RowwiseAdagrad, problem.Adagrad, problem.Adam}
	}
	if len(d.Precisions) == 0 {
		d.Precisions = []problem.Precision{problem.FP32, problem.FP16}
	}
	if len(d.Devices) == 0 {
		d.Devices = []int{2, 4, 8}
	}
	return d
}

// minTables is the least number of tables that gives each split at least one.
const minTables = 10

// Problems lists the faults of the domain; an empty list means that it is valid.
// The memory of a valid domain may still be too small for its tables; the draw of
// the tables then fails.
func (d Domain) Problems() []string {
	d = d.WithDefaults()
	var all []string
	check := func(what string, v, low, high float64) {
		if !(v >= low && v <= high) {
			text := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
			all = append(all, fmt.Sprintf("%s: %s is not between %s and %s", what, text(v), text(low), text(high)))
		}
	}
	for _, b := range d.Batches {
		check("batches", float64(b), 1, problem.MaxBatch)
	}
	check("min shards", float64(d.MinShards), 1, float64(d.MaxShards))
	check("max dim", float64(d.MaxDim), problem.ColumnGranule, problem.MaxDim)
	if d.MaxDim%problem.ColumnGranule != 0 {
		all = append(all, fmt.Sprintf("max dim: %d is not a multiple of %d", d.MaxDim, problem.ColumnGranule))
	}
	check("min rows", float64(d.MinRows), 1, float64(d.MaxRows))
	check("max rows", float64(d.MaxRows), 1, problem.MaxRows)
	check("max pooling factor", d.MaxPoolingFactor, minPoolingFactor, problem.MaxPoolingFactor)
	for _, o := range d.Optimizers {
		check("optimizers", float64(o), 0, float64(problem.Adam))
	}
	for _, p := range d.Precisions {
		check("precisions", float64(p), 0, float64(problem.BF16))
	}
	check("weighted share", d.WeightedShare, 0, 1)
	check("max bytes", float64(d.MaxBytes), 0, 1e18)
	check("max lookup bytes", d.MaxLookupBytes, 0, 1e18)
	for _, n := range d.Devices {
		check("devices", float64(n), 2, MaxDevices)
	}
	check("start spread", d.StartSpread, 0, maxStartSpread)
	if d.MaxDimSum != 0 {
		check("max dim sum", float64(d.MaxDimSum), problem.ColumnGranule, math.MaxInt32)
	}
	return append(all, d.tableProblems()...)
}

// tableProblems lists the faults of the given tables.
func (d Domain) tableProblems() []string {
	if len(d.Tables) == 0 {
		return nil
	}
	var all []string
	if len(d.Tables) < minTables {
		all = append(all, fewTables(len(d.Tables)))
	}
	// The constraints on devices are not checked here.
	p := problem.Problem{Tables: slices.Clone(d.Tables), Topology: hardware.Topology{Profile: hardware.Profiles()[0], Devices: 1}, Batch: 1}
	for i := range p.Tables {
		p.Tables[i].Constraint = problem.Constraint{}
	}
	var invalid *problem.Invalid
	if errors.As(p.Validate(), &invalid) {
		for _, f := range invalid.Faults {
			all = append(all, f.String())
		}
	}
	return all
}

func fewTables(n int) string {
	return fmt.Sprintf("tables: %d are too few: training, validation and test need %d for one of their own each", n, minTables)
}

// GroupBytes returns the weights and optimizer state of a group, whose members
// index tables.
func GroupBytes(tables []problem.Table, g *dataset.Group) unit.Bytes {
	sum := unit.Bytes(0)
	for _, m := range g.Members {
		sum += unit.Bytes(bytesOf(&tables[m.Table], g.Operation, int64(m.Dim)))
	}
	return sum
}

func bytesOf(t *problem.Table, op problem.Operation, dim int64) float64 {
	return float64(t.Rows)*float64(dim*op.Precision.Bytes()) + float64(op.Optimizer.StateBytes(t.Rows, int(dim)))
}

// cacheLine is the least number of bytes that a lookup transfers.
const cacheLine = 64

// LookupBytes returns the bytes that one step of a group looks up: for each lookup
// a row in fp32, the precision of gradients, but at least 64 bytes, a cache line.
// The time of a step grows with this number.
func LookupBytes(tables []problem.Table, g *dataset.Group) float64 {
	sum := 0.0
	for _, m := range g.Members {
		sum += lookupBytesOf(&tables[m.Table], g.Operation, int(m.Dim))
	}
	return sum
}

func lookupBytesOf(t *problem.Table, op problem.Operation, dim int) float64 {
	return float64(op.Batch) * t.PoolingFactor() * float64(max(4*dim, cacheLine))
}

// Allows reports whether a group is within MaxBytes and MaxLookupBytes. The members
// of the group index tables.
func (d Domain) Allows(tables []problem.Table, g *dataset.Group) bool {
	return d.excess(float64(GroupBytes(tables, g)), LookupBytes(tables, g)) <= 1
}

// excess returns the factor by which a group exceeds its bounds; a group with at
// most 1 is allowed.
func (d *Domain) excess(bytes, lookupBytes float64) float64 {
	worst := 0.0
	if d.MaxBytes > 0 {
		worst = bytes / float64(d.MaxBytes)
	}
	if d.MaxLookupBytes > 0 {
		worst = max(worst, lookupBytes/d.MaxLookupBytes)
	}
	return worst
}

// weight returns the excess of a group with this shard only.
func (d *Domain) weight(t *problem.Table, op problem.Operation, dim int) float64 {
	return d.excess(bytesOf(t, op, int64(dim)), lookupBytesOf(t, op, dim))
}

// lightest returns the operation of the domain with the least weight.
func (d *Domain) lightest() problem.Operation {
	precision := slices.MinFunc(d.Precisions, func(a, b problem.Precision) int { return cmp.Compare(a.Bytes(), b.Bytes()) })
	return problem.Operation{Batch: slices.Min(d.Batches), Optimizer: slices.Min(d.Optimizers), Precision: precision}
}

// Compute returns a dataset of groups without times. The groups are drawn over
// random tables, tables of them, or over the domain's own tables in an order drawn
// with the seed; then tables is not used. A tenth of the tables each is kept for
// validation and test, with the groups drawn over them. With fewer samples, the
// samples are the first ones of a larger draw. Compute fails if the domain has
// problems, if there are fewer than 10 tables, and if the bounds allow no group.
func (d Domain) Compute(seed uint64, tables, samples int) (*dataset.Compute, error) {
	if len(d.Tables) == 0 && tables < minTables {
		return nil, errors.New(fewTables(tables))
	}
	if samples < 0 {
		return nil, fmt.Errorf("samples: %d is negative", samples)
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	d = d.WithDefaults()
	draw := rand.New(rand.NewPCG(seed, 3))
	set := &dataset.Compute{Provenance: dataset.Provenance{Seed: seed}}
	if len(d.Tables) > 0 {
		// Files often list tables by size or by purpose; the splits must not depend on
		// that order.
		for _, i := range draw.Perm(len(d.Tables)) {
			set.Tables = append(set.Tables, d.Tables[i])
		}
	} else {
		var err error
		if set.Tables, err = d.tables(draw, tables); err != nil {
			return nil, err
		}
	}
	var drawers [3]*drawer
	for split := range drawers {
		drawer, err := newDrawer(d, draw, set.Tables, dataset.Split(split))
		if err != nil {
			return nil, err
		}
		drawers[split] = drawer
	}
	set.Samples = make([]dataset.Group, samples)
	for i := range set.Samples {
		set.Samples[i] = drawers[SplitOf(i)].sample()
		set.Samples[i].ID = i
	}
	return set, nil
}

func (d Domain) check() error {
	if faults := d.Problems(); len(faults) > 0 {
		return fmt.Errorf("the domain is not valid:\n%s", strings.Join(faults, "\n"))
	}
	return nil
}

// tables draws random tables. The narrowest slice of each is within MaxBytes.
func (d *Domain) tables(draw *rand.Rand, count int) ([]problem.Table, error) {
	most := d.MaxRows
	if d.MaxBytes > 0 {
		row := bytesOf(&problem.Table{Rows: 1}, d.lightest(), problem.ColumnGranule)
		most = min(most, int64(float64(d.MaxBytes)/row/float64(d.MinShards)))
		if most < d.MinRows {
			return nil, fmt.Errorf("max bytes: %v cannot hold %s of %d columns and %d rows: raise max bytes or lower min rows",
				d.MaxBytes, words.Plural(d.MinShards, "shard"), problem.ColumnGranule, d.MinRows)
		}
	}
	low, high := math.Log(float64(d.MinRows)), math.Log(float64(most))
	all := make([]problem.Table, count)
	for i := range all {
		rows := int64(math.Exp(low + draw.Float64()*(high-low)))
		rows = min(most, max(d.MinRows, rows))
		pooling := d.pooling(draw)
		features := featureCount(draw)
		if d.Plain {
			features = 1
		}
		all[i] = newTable(fmt.Sprintf("t%d", i), rows, d.MaxDim, features, pooling)
		all[i].Access = distribution(draw, rows, pooling, func() int { return d.Batches[draw.IntN(len(d.Batches))] })
	}
	return all, nil
}

// poolingTries is the most draws of a pooling factor until it is within the bounds.
const poolingTries = 100

// pooling draws a pooling factor: 1 for a quarter of the tables, otherwise
// log-normal, within the bounds of the domain.
func (d *Domain) pooling(draw *rand.Rand) float64 {
	if draw.Float64() < .25 {
		return min(1, d.MaxPoolingFactor)
	}
	for range poolingTries {
		if l := logNormal(draw); l >= minPoolingFactor && l <= d.MaxPoolingFactor {
			return l
		}
	}
	return d.MaxPoolingFactor
}
