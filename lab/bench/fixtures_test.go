package bench

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

func profile(t testing.TB, name string) hardware.Profile {
	t.Helper()
	p, err := hardware.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// open opens a file of the prototype's reference run.
func open(t testing.TB, path ...string) *os.File {
	t.Helper()
	f, err := os.Open(filepath.Join(append([]string{"../../cost/prototype/testdata"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// nets returns the prices of the prototype's nets.
func nets(t testing.TB) neuroshard.Prices {
	t.Helper()
	file := func(name string) prototype.File {
		return prototype.File{Name: name, Reader: open(t, "models", name+".pt")}
	}
	m, err := prototype.Load(file("compute"), file("comm_4_fw"), file("comm_4_bw"))
	if err != nil {
		t.Fatal(err)
	}
	return neuroshard.Prototype(m)
}

// suite returns the first tasks of one of the reference's settings.
func suite(t testing.TB, setting string, devices, count int) []Task {
	t.Helper()
	z, err := gzip.NewReader(open(t, "table_configs.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	pool, err := input.Tables("table_configs.json", z, input.Options{DefaultDim: workload.PoolDim})
	if err != nil {
		t.Fatal(err)
	}
	file, err := prototype.ReadTasks(setting, open(t, "tasks", setting+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	file.Tasks = file.Tasks[:count]
	tasks, err := FileTasks(setting, file, pool.Tables, profile(t, "a100-80"), devices, 4*unit.GiB)
	if err != nil {
		t.Fatal(err)
	}
	return tasks
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
