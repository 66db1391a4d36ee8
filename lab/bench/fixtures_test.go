package bench

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// open opens a file of the prototype's reference run.
func open(t testing.TB, path ...string) *os.File {
	t.Helper()
	f := must.Get(os.Open(filepath.Join(append([]string{"../../cost/prototype/testdata"}, path...)...)))(t)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// nets returns the prices of the prototype's nets.
func nets(t testing.TB) neuroshard.Prices {
	t.Helper()
	file := func(name string) prototype.File {
		return prototype.File{Name: name, Reader: open(t, "models", name+".pt")}
	}
	m := must.Get(prototype.Load(file("compute"), file("comm_4_fw"), file("comm_4_bw")))(t)
	return neuroshard.Prototype(m)
}

// suite returns the first tasks of one of the reference's settings.
func suite(t testing.TB, setting string, devices, count int) []Task {
	t.Helper()
	z := must.Get(gzip.NewReader(open(t, "table_configs.json.gz")))(t)
	pool := must.Get(input.Tables("table_configs.json", z, input.Options{DefaultDim: workload.PoolDim}))(t)
	file := must.Get(prototype.ReadTasks(setting, open(t, "tasks", setting+".txt")))(t)
	file.Tasks = file.Tasks[:count]
	return must.Get(FileTasks(setting, file, pool.Tables, must.Get(hardware.ByName("a100-80"))(t), devices, 4*unit.GiB))(t)
}

// exceptTimes compares records but for how long they took.
var exceptTimes = cmpopts.IgnoreFields(Record{}, "WallMS")

// comparison is one to interrupt: 3 tasks with 3 methods, which fail on the second.
func comparison(t testing.TB) ([]Task, Options) {
	tasks := suite(t, "d4_m64", 4, 3)
	tasks[1].Problem.Topology.Memory = 1 << 20
	return tasks, Options{Methods: []search.Method{search.Random, search.Size, search.Dim}, Seed: 5, Workers: 1}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }
