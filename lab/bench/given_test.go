package bench

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// Plans come from a plan file, from our results and from the prototype's.
func TestReadGiven(t *testing.T) {
	tasks := suite(t, "d4_m64", 4, 2)
	opt := Options{Prices: nets(t, ".pt"), Methods: []search.Method{search.Size}, Workers: 1}
	made, err := neuroshard.Plan(context.Background(), &tasks[1].Problem, neuroshard.Options{Search: search.Options{Method: search.Size}})
	if err != nil {
		t.Fatal(err)
	}
	records, err := Run(context.Background(), tasks, opt)
	if err != nil {
		t.Fatal(err)
	}
	var planFile bytes.Buffer
	if err := made.Plan.Write(&planFile); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ours.json")
	if err := WriteResults(path, records, opt); err != nil {
		t.Fatal(err)
	}
	results, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(open(t, "results", "d4_m64_random.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	prototypes, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text, task string
		method           search.Method
		most             int
	}{
		{"a/theirs.json", planFile.String(), "d4_m64/1", "theirs", 1},
		{"ours.json", string(results), "d4_m64/0", search.Size, 2},
		{"d4_m64_random.json", string(prototypes), "d4_m64/0", search.Random, 100},
		{"elsewhere.json", string(prototypes), "d4_m64/0", search.Random, 100},
	} {
		given, err := ReadGiven(c.name, strings.NewReader(c.text), tasks)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if len(given) == 0 || len(given) > c.most || given[0].Task != c.task || given[0].Method != c.method {
			t.Errorf("%s: got %d plans, want 1 to %d, the first of %s by %s", c.name, len(given), c.most, c.task, c.method)
		}
	}
	_, err = ReadGiven("theirs.json", strings.NewReader(planFile.String()), tasks[:1])
	if err == nil || !strings.Contains(err.Error(), `theirs.json: it is not a plan for task "d4_m64/0"`) {
		t.Errorf("a plan for another task: got error %v", err)
	}
}

func TestReadGivenRefuses(t *testing.T) {
	tasks, err := WorkloadTasks([]string{"criteo-kaggle"}, []string{DefaultCluster})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "file.json"},
		{"no results", "{}", "file.json"},
		{"a broken plan", `{"format": "neuroshard-plan", "version": 1}`, `key "predicted" is missing`},
		{"a broken plan whose format comes later", `{"x": {}, "format": "neuroshard-plan"}`, "plan file"},
		{"a line of text", "408 16\n", "file.json"},
	} {
		_, err := ReadGiven("file.json", strings.NewReader(c.text), tasks)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", c.name, err, c.want)
		}
	}
}

func TestSettingOf(t *testing.T) {
	for path, want := range map[string]string{"d4_m16.txt": "d4_m16", "a/b/tasks.json": "tasks", "plain": "plain", "a.b.c": "a.b"} {
		if got := SettingOf(path); got != want {
			t.Errorf("SettingOf(%q): got %q, want %q", path, got, want)
		}
	}
}

func TestReadTasks(t *testing.T) {
	bins := ""
	for i := range 17 {
		bins += fmt.Sprintf(`, "bin_%d": %v`, i, map[bool]int{true: 1}[i == 0])
	}
	poolText := `[{"row": 1000, "pooling_factor": 2` + bins + `}]`
	profile := hardware.Profiles()[0]
	pool, err := ReadPool(prototype.File{Name: "tables.json", Reader: strings.NewReader(poolText)})
	if err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(poolText))
	_ = z.Close()
	again, err := ReadPool(prototype.File{Name: "tables.json.gz", Reader: &zipped})
	if err != nil || len(again) != len(pool) {
		t.Fatalf("gzipped: got %d tables and error %v, want %d", len(again), err, len(pool))
	}
	for _, c := range []struct {
		name    string
		files   map[string]string
		opt     FileOptions
		devices int
		memory  unit.Bytes
		err     string
	}{
		{"defaults", map[string]string{"s.txt": "0 16\n"}, FileOptions{}, 4, 4 * unit.GiB, ""},
		{"stated", map[string]string{"s.txt": "0 16\n"}, FileOptions{Devices: 2, Memory: unit.GiB}, 2, unit.GiB, ""},
		{"a table that is not in the pool", map[string]string{"s.txt": "9 16\n"}, FileOptions{}, 0, 0, "s.txt: task 0: "},
		{"two files of one setting", map[string]string{"a/s.txt": "0 16\n", "b/s.txt": "0 16\n"}, FileOptions{}, 0, 0, `both the setting "s"`},
		{"not tasks", map[string]string{"s.txt": "x\n"}, FileOptions{}, 0, 0, "s.txt:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var files []prototype.File
			for name, text := range c.files {
				files = append(files, prototype.File{Name: name, Reader: strings.NewReader(text)})
			}
			c.opt.Profile = profile
			tasks, err := ReadTasks(files, pool, c.opt)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil || len(tasks) != 1 {
				t.Fatalf("got %d tasks and error %v, want one", len(tasks), err)
			}
			top := tasks[0].Problem.Topology
			if tasks[0].Name != "s/0" || top.Devices != c.devices || top.Memory != c.memory {
				t.Errorf("got %s on %d devices of %v, want s/0 on %d of %v", tasks[0].Name, top.Devices, top.Memory, c.devices, c.memory)
			}
		})
	}
}
