package bench

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/unit"
)

// MaxTasks is the largest number of tasks of a setting that a command offers.
const MaxTasks = 100_000

// PaperTasks draws tasks as the NeuroShard paper does: perSetting for each of
// six settings of devices and largest dim, from one pool, on devices of the
// profile.
func PaperTasks(profile hardware.Profile, perSetting int, seed uint64) ([]Task, error) {
	return drawTasks(workload.PaperSettings(), profile, perSetting, seed)
}

// drawTasks draws perSetting tasks of each setting from one pool.
func drawTasks(settings []workload.TaskSpec, profile hardware.Profile, perSetting int, seed uint64) ([]Task, error) {
	pool := workload.Pool(seed)
	var tasks []Task
	for _, setting := range settings {
		for i := range perSetting {
			drawn, err := workload.Draw(pool, setting, seed, i)
			if err != nil {
				return nil, err
			}
			tasks = append(tasks, Task{setting.Name, fmt.Sprintf("%s/%d", setting.Name, i), drawn.Problem(profile)})
		}
	}
	return tasks, nil
}

// TransferTasks draws tasks larger than those that policies are trained on: 50 tables on 4
// devices, 100 on 8 and 200 on 16, with dims up to 128 and 8 GiB a device, perSetting of each.
func TransferTasks(profile hardware.Profile, perSetting int, seed uint64) ([]Task, error) {
	var specs []workload.TaskSpec
	for _, devices := range []int{4, 8, 16} {
		tables := 50 * devices / 4
		specs = append(specs, workload.TaskSpec{
			Name: fmt.Sprintf("d%d_t%d", devices, tables), Devices: devices, Memory: 8 * unit.GiB,
			MinTables: tables, MaxTables: tables + 1, MaxDim: 128,
		})
	}
	return drawTasks(specs, profile, perSetting, seed)
}

// OwnTasks draws tasks for a device that a model was measured on: perSetting tasks for each of two
// settings, of 12 to 24 and of 25 to 40 tables, on the given number of devices of one host. Tables and
// optimizers are drawn as design.CPU draws its samples, within the domain that the model has seen, at
// its largest batch. A task of n devices looks up at most half of the bytes that n of the largest
// samples look up: if it would look up more, all pooling factors are smaller by one factor.
func OwnTasks(profile hardware.Profile, seen modelfile.Domain, devices, perSetting int, seed uint64) ([]Task, error) {
	domain := ownDomain(seen)
	var tasks []Task
	for setting, tables := range [][2]int{{12, 24}, {25, 40}} {
		name := fmt.Sprintf("d%d_t%d", devices, tables[1])
		for i := range perSetting {
			draw := rand.New(rand.NewPCG(seed, uint64(setting)<<32|uint64(i)))
			p, err := ownProblem(draw, profile, domain, devices, tables)
			if err != nil {
				return nil, fmt.Errorf("drawing task %s/%d: %w", name, i, err)
			}
			tasks = append(tasks, Task{name, fmt.Sprintf("%s/%d", name, i), *p})
		}
	}
	return tasks, nil
}

// ownDomain returns the intersection of design.CPU with the domain that a model has seen.
// A field without intersection takes the model's values.
func ownDomain(seen modelfile.Domain) design.Domain {
	domain := design.CPU()
	if !seen.Stated() {
		return domain
	}
	domain.MaxDim, domain.MaxRows = min(domain.MaxDim, seen.MaxDim), min(domain.MaxRows, seen.MaxRows)
	domain.MinRows = min(domain.MinRows, domain.MaxRows)
	domain.MaxPoolingFactor = min(domain.MaxPoolingFactor, seen.MaxPoolingFactor)
	largest := slices.Max(domain.Batches)
	domain.Batches = within(domain.Batches, []int{seen.MaxBatch}, func(b int) bool { return b >= seen.MinBatch && b <= seen.MaxBatch })
	if batch := slices.Max(domain.Batches); batch > largest {
		// The model was measured on a larger device.
		domain.MaxLookupBytes *= float64(batch) / float64(largest)
	}
	// Skip names that this build does not know.
	optimizers, precisions := named(seen.Optimizers, problem.ParseOptimizer), named(seen.Precisions, problem.ParsePrecision)
	domain.Optimizers = within(domain.Optimizers, optimizers, func(o problem.Optimizer) bool { return slices.Contains(optimizers, o) })
	domain.Precisions = within(domain.Precisions, precisions, func(p problem.Precision) bool { return slices.Contains(precisions, p) })
	return domain
}

// within returns the values that are allowed. If none is, it returns the values that were
// seen; if these are not known, it returns all values.
func within[T any](values, seen []T, allowed func(T) bool) []T {
	if len(seen) == 0 {
		return values
	}
	if common := slices.DeleteFunc(slices.Clone(values), func(v T) bool { return !allowed(v) }); len(common) > 0 {
		return common
	}
	return seen
}

func named[T any](names []string, parse func(string) (T, error)) []T {
	var all []T
	for _, name := range names {
		if v, err := parse(name); err == nil {
			all = append(all, v)
		}
	}
	return all
}

func ownProblem(draw *rand.Rand, profile hardware.Profile, domain design.Domain, devices int, tables [2]int) (*problem.Problem, error) {
	const fewest = 10 // fewest tables of a drawn set
	narrowest := min(16, domain.MaxDim)
	count := tables[0] + draw.IntN(tables[1]-tables[0]+1)
	// The domain limits lookups at the batch of the task.
	domain.Batches = []int{slices.Max(domain.Batches)}
	set, err := domain.Compute(draw.Uint64(), max(count, fewest), fewest)
	if err != nil {
		return nil, err
	}
	op := set.Samples[draw.IntN(len(set.Samples))].Operation
	p := &problem.Problem{
		Tables:   set.Tables[:count],
		Topology: hardware.Topology{Profile: profile, Devices: devices, Memory: domain.MaxBytes, ReserveShare: hardware.NoReserve},
		Batch:    slices.Max(domain.Batches),
	}
	looked := 0.0
	for i := range p.Tables {
		t := &p.Tables[i]
		t.Dim, t.Optimizer, t.Precision = narrowest<<draw.IntN(bits.Len(uint(domain.MaxDim/narrowest))), op.Optimizer, op.Precision
		looked += t.PoolingFactor() * float64(p.Batch) * float64(t.Dim) * problem.OutputBytes
	}
	if most := float64(devices) * domain.MaxLookupBytes / 2; looked > most {
		for i := range p.Tables {
			for k := range p.Tables[i].Features {
				p.Tables[i].Features[k].PoolingFactor *= most / looked
			}
		}
	}
	return p, p.Validate()
}

// ReadPool reads the tables that tasks of the published prototype are drawn over: its
// table_configs.json, gzipped or not. They have workload.PoolDim columns.
func ReadPool(file prototype.File) ([]problem.Table, error) {
	r, err := unzipped(file.Reader)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name, err)
	}
	pool, err := input.Tables(file.Name, r, input.Options{DefaultDim: workload.PoolDim})
	return pool.Tables, err
}

// unzipped returns the contents of a file that may be gzipped.
func unzipped(r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(r)
	if magic, _ := buffered.Peek(2); string(magic) != "\x1f\x8b" {
		return buffered, nil
	}
	return gzip.NewReader(buffered)
}

// The cluster of the prototype's tasks if neither options nor file state it.
const (
	defaultFileDevices = 4
	defaultFileMemory  = 4 * unit.GiB
)

// FileOptions describe the cluster of tasks that are read from files.
type FileOptions struct {
	// Profile is the profile of the devices, which are on one host.
	Profile hardware.Profile
	// Devices is the number of devices; 0 takes the file's number, or else 4.
	Devices int
	// Memory is the memory of a device for fp32 weights alone, as the prototype counts;
	// 0 takes the file's memory, or else 4 GiB.
	Memory unit.Bytes
}

// ReadTasks reads tasks in the published prototype's form, which are drawn over the
// tables of the pool. Each file is a setting, named after the file; two files of one
// name are an error. Tasks are named setting/0, setting/1, ...
func ReadTasks(files []prototype.File, pool []problem.Table, opt FileOptions) ([]Task, error) {
	var all []Task
	for i, f := range files {
		setting := SettingOf(f.Name)
		for _, other := range files[:i] {
			if SettingOf(other.Name) == setting {
				return nil, fmt.Errorf("%s and %s are both the setting %q: give one of them another name", other.Name, f.Name, setting)
			}
		}
		file, err := prototype.ReadTasks(f.Name, f.Reader)
		if err != nil {
			return nil, err
		}
		devices := cmp.Or(opt.Devices, file.Devices, defaultFileDevices)
		memory := cmp.Or(opt.Memory, unit.Bytes(file.MemoryGiB*float64(unit.GiB)), defaultFileMemory)
		tasks, err := FileTasks(setting, file, pool, opt.Profile, devices, memory)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		all = append(all, tasks...)
	}
	return all, nil
}

// FileTasks returns the tasks of a file in the prototype's form, drawn over the tables of a
// pool. The devices have the profile and are on one host. Only fp32 weights count as
// memory, as in the prototype. Tasks are named setting/0, setting/1, ...
func FileTasks(setting string, file *prototype.TaskFile, pool []problem.Table, profile hardware.Profile, devices int, memory unit.Bytes) ([]Task, error) {
	var tasks []Task
	for i := range file.Tasks {
		p, err := file.Tasks[i].Problem(pool, devices, memory)
		if err != nil {
			return nil, fmt.Errorf("task %d: %w", i, err)
		}
		p.Topology.Profile = profile
		tasks = append(tasks, Task{setting, fmt.Sprintf("%s/%d", setting, i), *p})
	}
	return tasks, nil
}
