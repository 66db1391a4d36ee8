package workload

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// TaskSpec says how tasks are drawn from a pool.
type TaskSpec struct {
	// Name is the setting's key in reports, such as "d4_m64".
	Name string
	// Devices share one host; each has Memory for fp32 weights.
	Devices int
	Memory  unit.Bytes
	// MinTables and MaxTables bound the number of tables: MinTables <= T < MaxTables.
	MinTables, MaxTables int
	// MaxDim bounds the dims, drawn from the powers of two 4, 8, ..., MaxDim.
	MaxDim int
}

// PaperSettings returns six of the settings of the NeuroShard paper (MLSys
// 2023): 10 to 59 tables on 4 devices and 20 to 119 on 8, 4 GiB each, with dims
// up to 16, 64 and 128. They are named d4_m16, d4_m64, ..., d8_m128.
func PaperSettings() []TaskSpec {
	var specs []TaskSpec
	for _, devices := range []int{4, 8} {
		for _, dim := range []int{16, 64, 128} {
			specs = append(specs, TaskSpec{
				Name:    fmt.Sprintf("d%d_m%d", devices, dim),
				Devices: devices, Memory: 4 * unit.GiB,
				MinTables: 10 * devices / 4, MaxTables: 60 * devices / 4,
				MaxDim: dim,
			})
		}
	}
	return specs
}

// Task is one sharding task of the paper's kind.
type Task struct {
	// Name is unique over settings and indices, but not over seeds: "d4_m64/17".
	Name   string
	Tables []problem.Table
	// Devices and Memory are those of the TaskSpec, Batch that of the pool.
	Devices int
	Memory  unit.Bytes
	Batch   int
}

// Margin is what a drawn task leaves free of its devices' memory together.
const Margin = unit.GiB

// maxDraws bounds how often Draw tries. Of 2,000 tasks of each of the paper's
// settings, over ten pools, none needed more than 17 tries.
const maxDraws = 100_000

// Draw draws task number index of a seed as the paper's prototype does: a
// number n of tables, uniform; n tables of the pool, with replacement, each with a
// dim, uniform. It draws tables and dims again until the fp32 weights leave Margin
// free. It also asks that the narrowest slice of each table fits a device.
// Tables are renamed to their name in the pool and their place in the task:
// "p017#3". The same pool, spec, seed and index give the same task.
//
// It returns an error for a spec that is wrong or that no draw meets.
func Draw(pool []problem.Table, spec TaskSpec, seed uint64, index int) (Task, error) {
	if err := spec.check(pool); err != nil {
		return Task{}, fmt.Errorf("drawing task %q: %w", spec.Name, err)
	}
	r := random(seed, taskStream, uint64(index), uint64(spec.Devices), uint64(spec.MaxDim))
	count := spec.MinTables + r.IntN(spec.MaxTables-spec.MinTables)
	room := float64(spec.Devices)*float64(spec.Memory) - float64(Margin)
	picks := make([]pick, count)
	for range maxDraws {
		if !draw(r, picks, pool, spec, room) {
			continue
		}
		return Task{
			Name:   fmt.Sprintf("%s/%d", spec.Name, index),
			Tables: tables(pool, picks), Devices: spec.Devices, Memory: spec.Memory,
			Batch: batchOf(pool),
		}, nil
	}
	return Task{}, fmt.Errorf("drawing task %q: none of %d draws of %d tables fits %d devices of %v: give them more memory, or draw fewer tables",
		spec.Name, maxDraws, count, spec.Devices, spec.Memory)
}

// Problem returns the problem of planning the task on one host of the given
// profile as the paper does it: fp32 weights alone count as memory and nothing
// is reserved.
func (t Task) Problem(profile hardware.Profile) problem.Problem {
	return problem.Problem{
		Tables:     t.Tables,
		Topology:   hardware.Topology{Profile: profile, Devices: t.Devices, Memory: t.Memory, ReserveShare: hardware.NoReserve},
		Batch:      t.Batch,
		Accounting: problem.CountWeights,
	}
}

// scaleProfile is the device of Scale's problems.
const scaleProfile = "a100-80"

// Scale returns a large problem to measure a planner with: tables drawn from a
// pool with replacement, dims uniform over the powers of two 4 to 128, on
// devices of 80 GiB, eight a host, all memory counted. Both counts must be
// within the limits of packages problem and hardware. Memory is no obstacle
// here, as it is rarely in benchmarks of speed: 1,000 tables on 128 devices fill
// some 6 % of it, 10,000 on 1,024 some 8 %.
func Scale(tableCount, devices int, seed uint64) (problem.Problem, error) {
	profile, err := hardware.ByName(scaleProfile)
	if err != nil {
		return problem.Problem{}, err
	}
	pool := Pool(seed)
	r := random(seed, scaleStream)
	picks := make([]pick, max(0, tableCount))
	for i := range picks {
		picks[i] = pickOne(r, pool, dimChoices(128))
	}
	p := problem.Problem{
		Tables: tables(pool, picks),
		Topology: hardware.Topology{
			Profile: profile, Devices: devices, DevicesPerHost: devicesPerHost,
		},
		Batch: batchOf(pool),
	}
	return p, p.Validate()
}

// pick is a table of a pool with a dim.
type pick struct{ table, dim int }

func pickOne(r *rand.Rand, pool []problem.Table, dims int) pick {
	return pick{r.IntN(len(pool)), problem.ColumnGranule << r.IntN(dims)}
}

// dimChoices returns how many of 4, 8, 16, ... are at most maxDim.
func dimChoices(maxDim int) int { return bits.Len(uint(maxDim / problem.ColumnGranule)) }

// draw fills picks and reports whether they fit.
func draw(r *rand.Rand, picks []pick, pool []problem.Table, spec TaskSpec, room float64) bool {
	total, slice := 0.0, 0.0
	for i := range picks {
		picks[i] = pickOne(r, pool, dimChoices(spec.MaxDim))
		column := float64(pool[picks[i].table].Rows * problem.FP32.Bytes())
		total += column * float64(picks[i].dim)
		slice = max(slice, column*problem.ColumnGranule)
	}
	return total <= room && slice <= float64(spec.Memory)
}

// tables returns the picked tables, renamed.
func tables(pool []problem.Table, picks []pick) []problem.Table {
	drawn := make([]problem.Table, len(picks))
	for i, pick := range picks {
		t := pool[pick.table]
		t.Name = fmt.Sprintf("%s#%d", t.Name, i)
		t.Dim = pick.dim
		features := make([]problem.Feature, len(t.Features))
		for j, f := range t.Features {
			features[j] = problem.Feature{Name: fmt.Sprintf("%s#%d", f.Name, i), PoolingFactor: f.PoolingFactor}
		}
		t.Features = features
		drawn[i] = t
	}
	return drawn
}

// batchOf returns the batch that the pool's first histogram was counted at,
// which is the published one for a pool without histograms.
func batchOf(pool []problem.Table) int {
	for i := range pool {
		if a := pool[i].Access; a.Kind == access.Histogram {
			return a.Batch
		}
	}
	return PublishedLocality().Batch
}

// check returns what is wrong with the spec, all faults at once.
func (s TaskSpec) check(pool []problem.Table) error {
	var faults []error
	add := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(pool) == 0 {
		add("the pool has no tables")
	}
	if s.Devices < 1 || s.Devices > hardware.MaxDevices {
		add("devices: %d is not between 1 and %d", s.Devices, hardware.MaxDevices)
	}
	if s.Memory < 1 || s.Memory > math.MaxInt64/hardware.MaxDevices {
		add("memory: %d bytes is not between 1 and %d", int64(s.Memory), int64(math.MaxInt64/hardware.MaxDevices))
	}
	if s.MinTables < 1 || s.MaxTables <= s.MinTables || s.MaxTables > problem.MaxTables {
		add("tables: [%d, %d) is not a range of counts between 1 and %d", s.MinTables, s.MaxTables, problem.MaxTables)
	}
	if s.MaxDim < problem.ColumnGranule || s.MaxDim > problem.MaxDim {
		add("max dim: %d is not between %d and %d", s.MaxDim, problem.ColumnGranule, problem.MaxDim)
	}
	return errors.Join(faults...)
}
