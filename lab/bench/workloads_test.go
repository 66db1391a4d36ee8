package bench

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/workload"
)

// Each published workload is on two different clusters that hold its tables, the
// other as stated: no smaller one of half, once, twice, ... the devices would do.
func TestWorkloadTasks(t *testing.T) {
	tasks, err := WorkloadTasks(workload.Names(), []string{DefaultCluster, OtherCluster})
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 * len(workload.Names()); len(tasks) != want {
		t.Fatalf("got %d tasks, want %d", len(tasks), want)
	}
	if _, err := index(tasks); err != nil {
		t.Errorf("names: %v", err)
	}
	for i, name := range workload.Names() {
		own, other := &tasks[2*i], &tasks[2*i+1]
		w, err := workload.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if own.Setting != name || other.Setting != name || !own.Problem.Topology.Equal(w.Cluster) {
			t.Errorf("%s: got settings %q and %q and %+v, want the workload and its own cluster", name, own.Setting, other.Setting, own.Problem.Topology)
		}
		if err := other.Problem.Validate(); err != nil {
			t.Errorf("%s: %v", other.Name, err)
		}
		topology, half := &other.Problem.Topology, own.Problem.Topology.Devices/2
		if topology.Profile.Memory <= own.Problem.Topology.Profile.Memory || topology.PerHost() > devicesPerHost || topology.ReserveShare != own.Problem.Topology.ReserveShare {
			t.Errorf("%s: got %+v beside %+v, want larger devices, eight a host, with the same reserve", other.Name, *topology, own.Problem.Topology)
		}
		if got := fullness(&other.Problem); got > fullest || topology.Devices%half != 0 {
			t.Errorf("%s: the tables take %.2f of it, want at most %.2f on a multiple of %d devices", other.Name, got, fullest, half)
		}
		if topology.Devices > half {
			if topology.Devices /= 2; fullness(&other.Problem) <= fullest {
				t.Errorf("%s: half the devices would do", other.Name)
			}
		}
	}
}

// Other clusters, by name; each different one once. Drawn workloads have them, too.
func TestWorkloadClusters(t *testing.T) {
	tasks, err := WorkloadTasks([]string{"criteo-kaggle", "paper-d4_m64-0"}, []string{"16xh100-80", DefaultCluster, "4xmi300x", "8xv100-16", OtherCluster})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, task := range tasks {
		names = append(names, task.Name)
	}
	want := []string{
		"criteo-kaggle/16xh100-80", "criteo-kaggle/8xv100-16", "criteo-kaggle/4xmi300x", "criteo-kaggle/4xh200",
		"paper-d4_m64-0/16xh100-80", "paper-d4_m64-0/4xa100-80", "paper-d4_m64-0/4xmi300x", "paper-d4_m64-0/8xv100-16", "paper-d4_m64-0/2xh200",
	}
	if !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	if hosts := tasks[0].Problem.Topology.Hosts(); hosts != 2 {
		t.Errorf("16 devices: got %d hosts, want 2", hosts)
	}
	for _, c := range []struct{ name, cluster, want string }{
		{"none", DefaultCluster, `"none"`},
		{"criteo-kaggle", "", `cluster ""`},
		{"criteo-kaggle", "h200", `want "default"`},
		{"criteo-kaggle", "8", `want "default"`},
		{"criteo-kaggle", "8x", "is unknown"},
		{"criteo-kaggle", "-8xh200", "-8"},
		{"criteo-kaggle", "99999999999999999999xh200", `want "default"`},
		{"criteo-kaggle", "99999999xh200", "not between"},
		{"criteo-kaggle", "16xrtx2080ti", "network"},
	} {
		if _, err := WorkloadTasks([]string{c.name}, []string{c.cluster}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s on %q: got error %v, want one with %q", c.name, c.cluster, err, c.want)
		}
	}
}

func TestNoClustersAndNoTasks(t *testing.T) {
	if tasks, err := WorkloadTasks([]string{"criteo-kaggle"}, nil); err == nil || !strings.Contains(err.Error(), "no clusters are named") {
		t.Errorf("no clusters: got %d tasks and error %v", len(tasks), err)
	}
	w, err := workload.ByName("criteo-kaggle")
	if err != nil {
		t.Fatal(err)
	}
	p := w.Problem()
	if _, err := GivenPlan(nil, "given", plan.New(&p, make([][]problem.Shard, p.Topology.Devices))); err == nil || !strings.Contains(err.Error(), "no tasks") {
		t.Errorf("no tasks: got error %v", err)
	}
}

// Results go where a link leads, and the link stays.
func TestResultsThroughALink(t *testing.T) {
	folder := t.TempDir()
	target, link := filepath.Join(folder, "target"), filepath.Join(folder, "link")
	if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege on Windows; CI runs this on Linux")
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := replace(link, []byte("new")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(target)
	info, err2 := os.Lstat(link)
	if err != nil || err2 != nil || string(text) != "new" || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("got %q at the target and a link of type %v (%v, %v), want what was written, and a link", text, info.Mode().Type(), err, err2)
	}
}

// No name of a cluster is trouble, and what is taken is valid.
func TestAnyClusterName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.StringMatching(`-?[0-9]{0,6}x?[a-z0-9-]{0,9}`), rapid.StringMatching(`[0-9]{1,5}x(h200|a100-80|rtx2080ti)`), rapid.String()).Draw(t, "name")
		tasks, err := WorkloadTasks([]string{"criteo-kaggle"}, []string{name})
		if err != nil {
			return
		}
		if len(tasks) != 1 {
			t.Fatalf("got %d tasks, want 1", len(tasks))
		}
		if err := tasks[0].Problem.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}
