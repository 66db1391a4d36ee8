package workload

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// Drawn workloads have names, too, so that they can be planned like published
// ones. Any may end in @SEED; without, the seed is DefaultSeed.
//
//	dlrm-datasets             the pool of 856 tables, all of PoolDim columns
//	dlrm-datasets-1000x128    1,000 tables drawn from it, for 128 devices (Scale)
//	paper-d4_m64-3            task 3 of a setting of the NeuroShard paper (Draw)

// DrawnNames are the patterns of the names of drawn workloads: TABLES, DEVICES,
// NUMBER and SEED are whole numbers, SETTING is one of PaperSettings, and what
// stands in brackets may be left out.
func DrawnNames() []string {
	return []string{"dlrm-datasets[-TABLESxDEVICES][@SEED]", "paper-SETTING-NUMBER[@SEED]"}
}

// DefaultSeed is the seed of a drawn workload whose name states none.
const DefaultSeed = 1

var drawnNames = regexp.MustCompile(`^(?:dlrm-datasets(?:-([0-9]+)x([0-9]+))?|paper-(d[0-9]+_m[0-9]+)-([0-9]+))(?:@([0-9]+))?$`)

// Drawn returns an example of each kind of drawn workload.
func Drawn() []Workload {
	var all []Workload
	for _, name := range []string{"dlrm-datasets", "dlrm-datasets-1000x128", "paper-d4_m64-0", "paper-d8_m128-0"} {
		w, err := ByName(name)
		if err != nil {
			panic("workload: " + err.Error())
		}
		all = append(all, w)
	}
	return all
}

// drawn returns the drawn workload of that name; false where the name is of
// another kind.
func drawn(name string) (w Workload, ok bool, err error) {
	match := drawnNames.FindStringSubmatch(name)
	if match == nil {
		return Workload{}, false, nil
	}
	seed := uint64(DefaultSeed)
	if match[5] != "" {
		if seed, err = strconv.ParseUint(match[5], 10, 64); err != nil {
			return Workload{}, true, fmt.Errorf("workload %q: seed %q is too large", name, match[5])
		}
	}
	p, err := drawnProblem(match, seed)
	if err != nil {
		return Workload{}, true, fmt.Errorf("workload %q: %w", name, err)
	}
	w = Workload{
		Name: name, Source: fmt.Sprintf("drawn with seed %d to match the statistics of facebookresearch/dlrm_datasets", seed),
		Batch: p.Batch, IndexDistribution: "a reuse histogram for each table", Cluster: p.Topology, Accounting: p.Accounting,
		drawn: p.Tables,
	}
	w.Stated = w.Totals()
	return w, true, nil
}

func drawnProblem(match []string, seed uint64) (problem.Problem, error) {
	switch {
	case match[3] != "":
		return paperProblem(match[3], match[4], seed)
	case match[1] != "":
		tables, err := strconv.Atoi(match[1])
		if err != nil || tables < 1 || tables > problem.MaxTables {
			return problem.Problem{}, fmt.Errorf("%s tables: draw 1 to %d", match[1], problem.MaxTables)
		}
		devices, err := strconv.Atoi(match[2])
		if err != nil || devices < 1 || devices > hardware.MaxDevices {
			return problem.Problem{}, fmt.Errorf("%s devices: plan for 1 to %d", match[2], hardware.MaxDevices)
		}
		return Scale(tables, devices, seed)
	}
	profile, err := hardware.ByName(scaleProfile)
	if err != nil {
		return problem.Problem{}, err
	}
	pool := Pool(seed)
	return problem.Problem{
		Tables: pool, Batch: batchOf(pool),
		Topology: hardware.Topology{Profile: profile, Devices: 2 * devicesPerHost, DevicesPerHost: devicesPerHost},
	}, nil
}

func paperProblem(setting, index string, seed uint64) (problem.Problem, error) {
	i, err := strconv.Atoi(index)
	if err != nil {
		return problem.Problem{}, fmt.Errorf("task number %s is too large", index)
	}
	profile, err := hardware.ByName(scaleProfile)
	if err != nil {
		return problem.Problem{}, err
	}
	for _, spec := range PaperSettings() {
		if spec.Name == setting {
			task, err := Draw(Pool(seed), spec, seed, i)
			return task.Problem(profile), err
		}
	}
	return problem.Problem{}, fmt.Errorf("setting %q is unknown: the settings are d4_ and d8_ with m16, m64 and m128", setting)
}
