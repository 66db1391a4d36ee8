package prototype

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// The bounds of task files.
const (
	maxTasks      = 100_000
	maxTaskTables = 100_000
)

// Profile is the device profile of problems made from tasks: the device of the
// paper. The nets do not read it.
const Profile = "rtx2080ti"

// Task is a planning task: tables of a pool, by index, and their dims.
type Task struct {
	TableIDs []int `json:"table_ids"`
	Dims     []int `json:"dims"`
}

// TaskFile is the content of a file of tasks.
type TaskFile struct {
	// Only the JSON form states Setting, Devices and MemoryGiB; otherwise they are
	// empty or 0.
	Setting   string  `json:"setting"`
	Devices   int     `json:"ndevices"`
	MemoryGiB float64 `json:"max_mem_gb"`
	Tasks     []Task  `json:"tasks"`
}

// ReadTasks reads tasks in the JSON form, or as text with a task on each line:
// "id,id,... dim,dim,...". It fails at the first fault.
func ReadTasks(name string, r io.Reader) (*TaskFile, error) {
	data, err := readAll(name, r)
	if err != nil {
		return nil, err
	}
	file := &TaskFile{}
	if isObject(data) {
		err = decode(name, data, file)
	} else {
		file.Tasks, err = textTasks(name, string(data))
	}
	if err != nil {
		return nil, err
	}
	if len(file.Tasks) == 0 || len(file.Tasks) > maxTasks {
		return nil, fmt.Errorf("%s: %d tasks, want 1 to %d: write each task as a line \"id,id,... dim,dim,...\"", name, len(file.Tasks), maxTasks)
	}
	if file.Devices < 0 || file.Devices > hardware.MaxDevices || !(file.MemoryGiB >= 0 && file.MemoryGiB <= 1<<20) {
		return nil, fmt.Errorf("%s: ndevices: %d, or max_mem_gb: %v, is negative or too large", name, file.Devices, file.MemoryGiB)
	}
	for i, t := range file.Tasks {
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("%s: task %d: %w", name, i, err)
		}
	}
	return file, nil
}

func textTasks(name, text string) (tasks []Task, err error) {
	line := 0
	for text := range strings.Lines(text) {
		line++
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("%s:%d: got %d fields, want 2: table ids and dims, \"id,id,... dim,dim,...\"", name, line, len(fields))
		}
		var t Task
		for list, field := range map[*[]int]string{&t.TableIDs: fields[0], &t.Dims: fields[1]} {
			// A list of integers in brackets is JSON.
			if err := json.Unmarshal([]byte("["+field+"]"), list); err != nil {
				return nil, fmt.Errorf("%s:%d: %.100q is not a list of integers", name, line, field)
			}
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

func (t *Task) check() error {
	if len(t.TableIDs) != len(t.Dims) || len(t.Dims) == 0 || len(t.Dims) > maxTaskTables {
		return fmt.Errorf("%d table ids and %d dims: want the same number of both, 1 to %d", len(t.TableIDs), len(t.Dims), maxTaskTables)
	}
	for i, id := range t.TableIDs {
		if id < 0 || id >= problem.MaxTables {
			return fmt.Errorf("table id %d is not between 0 and %d", id, problem.MaxTables-1)
		}
		if d := t.Dims[i]; d < 1 || d > problem.MaxDim || d%problem.ColumnGranule != 0 {
			return fmt.Errorf("dim %d is not a multiple of %d up to %d", d, problem.ColumnGranule, problem.MaxDim)
		}
	}
	return nil
}

// Tables returns the task's tables, copied from the pool. The name of each table is
// its place in the task and the name of the pool's table. Tables fails if an id is
// outside the pool.
func (t Task) Tables(pool []problem.Table) ([]problem.Table, error) {
	tables := make([]problem.Table, len(t.TableIDs))
	for i, id := range t.TableIDs {
		if id >= len(pool) {
			return nil, fmt.Errorf("table id %d: the pool has %d tables", id, len(pool))
		}
		tables[i] = pool[id]
		tables[i].Name = fmt.Sprintf("%d:%s", i, pool[id].Name)
		tables[i].Dim = t.Dims[i]
	}
	return tables, nil
}

// Problem returns the task as the prototype plans it: on equal devices of one
// host, each with the given memory. Only weights count in the memory.
func (t Task) Problem(pool []problem.Table, devices int, memory unit.Bytes) (*problem.Problem, error) {
	tables, err := t.Tables(pool)
	if err != nil {
		return nil, err
	}
	profile, err := hardware.ByName(Profile)
	if err != nil {
		return nil, err
	}
	p := &problem.Problem{
		Tables:     tables,
		Topology:   hardware.Topology{Profile: profile, Devices: devices, Memory: memory, ReserveShare: hardware.NoReserve},
		Batch:      Batch,
		Accounting: problem.CountWeights,
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return p, nil
}
