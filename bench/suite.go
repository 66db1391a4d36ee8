package bench

import (
	"fmt"

	"github.com/neuroshard/neuroshard/hardware"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/prototype"
	"github.com/neuroshard/neuroshard/unit"
	"github.com/neuroshard/neuroshard/workload"
)

// MaxTasks is the largest number of tasks of a setting that a command offers.
const MaxTasks = 100_000

// PaperTasks draws tasks as the NeuroShard paper does: perSetting for each of
// six settings of devices and largest dim, from one pool, on devices of the
// profile.
func PaperTasks(profile hardware.Profile, perSetting int, seed uint64) ([]Task, error) {
	pool := workload.Pool(seed)
	var tasks []Task
	for _, setting := range workload.PaperSettings() {
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

// FileTasks returns the tasks of a file in the prototype's form, drawn on the
// tables of a pool: on devices of the profile on one host, of which only fp32
// weights count as memory, as the prototype has it. Tasks are named setting/0,
// setting/1, ...
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

// WorkloadTasks returns published or drawn workloads on their default clusters,
// each a setting of its own.
func WorkloadTasks(names []string) ([]Task, error) {
	var tasks []Task
	for _, name := range names {
		w, err := workload.ByName(name)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, Task{w.Name, w.Name, w.Problem()})
	}
	return tasks, nil
}
