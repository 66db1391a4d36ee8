package prototype

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// The bounds of task files.
const (
	maxTasks      = 100_000
	maxTaskTables = 100_000
	maxLine       = 4 << 20
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
	Setting   string
	Devices   int
	MemoryGiB float64
	Tasks     []Task
}

// ReadTasks reads tasks in the JSON form, or as text with a task on each line:
// "id,id,... dim,dim,...". All errors are reported together, with their lines.
func ReadTasks(name string, r io.Reader) (*TaskFile, error) {
	data, err := readAll(name, r)
	if err != nil {
		return nil, err
	}
	f := &faults{file: name}
	file := &TaskFile{}
	if start := bytes.TrimLeft(data, " \t\r\n"); bytes.HasPrefix(start, []byte("{")) {
		file.readJSON(f, data)
	} else {
		file.readText(f, data)
	}
	if len(file.Tasks) == 0 && len(f.list) == 0 {
		f.add(0, "no tasks: write each task as a line \"id,id,... dim,dim,...\"")
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return file, nil
}

func (file *TaskFile) readText(f *faults, data []byte) {
	for line, text := range lines(f, data) {
		fields := strings.Fields(text)
		if len(fields) != 2 {
			f.add(line, "got %d fields, want 2: table ids and dims, \"id,id,... dim,dim,...\"", len(fields))
			continue
		}
		ids, err1 := integerList(fields[0], maxTaskTables)
		dims, err2 := integerList(fields[1], maxTaskTables)
		if err := join([]error{err1, err2}); err != nil {
			f.add(line, "%w", err)
			continue
		}
		file.add(f, line, Task{ids, dims})
	}
}

func (file *TaskFile) readJSON(f *faults, data []byte) {
	var list struct {
		Setting string          `json:"setting"`
		Devices int             `json:"ndevices"`
		Memory  float64         `json:"max_mem_gb"`
		Tasks   json.RawMessage `json:"tasks"`
	}
	if !decode(f, data, 1, &list) {
		return
	}
	if list.Devices < 0 || list.Devices > hardware.MaxDevices {
		f.add(0, "ndevices: %d is not between 1 and %d", list.Devices, hardware.MaxDevices)
	}
	if !(list.Memory >= 0 && list.Memory <= 1<<20) {
		f.add(0, "max_mem_gb: %v is not between 0 and 2^20", list.Memory)
	}
	file.Setting, file.Devices, file.MemoryGiB = list.Setting, list.Devices, list.Memory
	first := 1
	if len(list.Tasks) > 0 {
		first = 1 + bytes.Count(data[:max(0, bytes.Index(data, list.Tasks))], []byte{'\n'})
	}
	for _, e := range elements(f, list.Tasks, first, maxTasks) {
		var t Task
		if decode(f, e.RawMessage, e.line, &t) {
			file.add(f, e.line, t)
		}
	}
}

func (file *TaskFile) add(f *faults, line int, t Task) {
	if len(file.Tasks) == maxTasks {
		f.add(line, "more than %d tasks", maxTasks)
		return
	}
	if len(t.TableIDs) != len(t.Dims) || len(t.Dims) == 0 || len(t.Dims) > maxTaskTables {
		f.add(line, "%d table ids and %d dims: want the same number of both, 1 to %d", len(t.TableIDs), len(t.Dims), maxTaskTables)
		return
	}
	for i, id := range t.TableIDs {
		if id < 0 || id >= problem.MaxTables {
			f.add(line, "table id %d is not between 0 and %d", id, problem.MaxTables-1)
			return
		}
		if d := t.Dims[i]; d < 1 || d > problem.MaxDim || d%problem.ColumnGranule != 0 {
			f.add(line, "dim %d is not a multiple of %d up to %d", d, problem.ColumnGranule, problem.MaxDim)
			return
		}
	}
	file.Tasks = append(file.Tasks, t)
}

// lines yields the non-blank lines of a text, numbered from 1.
func lines(f *faults, data []byte) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		s := bufio.NewScanner(bytes.NewReader(data))
		s.Buffer(nil, maxLine)
		line := 0
		for s.Scan() {
			line++
			if text := strings.TrimSpace(s.Text()); text != "" && !yield(line, text) {
				return
			}
		}
		if err := s.Err(); err != nil {
			f.add(line+1, "longer than %d bytes", maxLine)
		}
	}
}

// integerList reads a comma list of at most most integers.
func integerList(text string, most int) ([]int, error) {
	if n := strings.Count(text, ",") + 1; n > most {
		return nil, fmt.Errorf("%d numbers in a list: want at most %d", n, most)
	}
	var list []int
	for part := range strings.SplitSeq(text, ",") {
		v, err := strconv.Atoi(part)
		if err != nil {
			return nil, fmt.Errorf("%q is not an integer", short(part))
		}
		list = append(list, v)
	}
	return list, nil
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
