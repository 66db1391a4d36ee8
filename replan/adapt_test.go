package replan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// handMade returns a problem of tables of the given sizes on devices of a100-80.
func handMade(t *testing.T, devices, perHost int, tables ...problem.Table) *problem.Problem {
	t.Helper()
	profile := must.Get(hardware.ByName("a100-80"))(t)
	p := &problem.Problem{Tables: tables, Topology: hardware.Topology{Profile: profile, Devices: devices, DevicesPerHost: perHost}, Batch: 1024}
	must.Do(t, p.Validate())
	return p
}

func table(name string, rows int64, dim int) problem.Table {
	return problem.Table{
		Name: name, Rows: rows, Dim: dim, Features: []problem.Feature{{Name: name, PoolingFactor: 2}},
		Access: access.Distribution{Kind: access.Zipf, Exponent: 1.05},
	}
}

// placed returns a plan of p from the text of its shards: "a@0 b[0:32]@1 c@*", with columns in
// brackets and * for all devices.
func placedAs(t *testing.T, p *problem.Problem, text string) *plan.Plan {
	t.Helper()
	shards := make([][]problem.Shard, p.Topology.Devices)
	for _, word := range strings.Fields(text) {
		what, where, _ := strings.Cut(word, "@")
		name, columns, cut := strings.Cut(strings.TrimSuffix(what, "]"), "[")
		i := slices.IndexFunc(p.Tables, func(t problem.Table) bool { return t.Name == name })
		s := p.Whole(i)
		if cut {
			must.Get(fmt.Sscanf(columns, "%d:%d", &s.Columns.Start, &s.Columns.End))(t)
		}
		if where == "*" {
			s.ShardingType = problem.DataParallel
			for d := range shards {
				shards[d] = append(shards[d], s)
			}
			continue
		}
		if where == "rows" {
			s.ShardingType = problem.RowWise
			size := p.Tables[i].BlockRows(len(shards))
			for d := range shards {
				s.Rows = problem.Range{Start: int64(d) * size, End: min(p.Tables[i].Rows, int64(d+1)*size)}
				shards[d] = append(shards[d], s)
			}
			continue
		}
		d := 0
		must.Get(fmt.Sscan(where, &d))(t)
		shards[d] = append(shards[d], s)
	}
	pl := plan.New(p, shards)
	if text := misplaced(pl, p); text != "" {
		t.Fatalf("the hand-made plan is not valid: %s", text)
	}
	return pl
}

// written is the reverse of placedAs, with rows for those that are not all of a table's.
func written(p *problem.Problem, held [][]problem.Shard) string {
	var words []string
	for d, shards := range held {
		for _, s := range shards {
			t := &p.Tables[s.Table]
			word := t.Name
			if s.Columns.Len() < int64(t.Dim) {
				word += fmt.Sprintf("[%d:%d]", s.Columns.Start, s.Columns.End)
			}
			if s.Rows.Len() < t.Rows {
				word += fmt.Sprintf("(%d:%d)", s.Rows.Start, s.Rows.End)
			}
			if s.ShardingType == problem.DataParallel {
				word += "!"
			}
			words = append(words, fmt.Sprintf("%s@%d", word, d))
		}
	}
	return strings.Join(words, " ")
}

// TestAdapt states old plans in the terms of new problems.
func TestAdapt(t *testing.T) {
	a, b, c := table("a", 1000, 64), table("b", 2000, 64), table("c", 400, 32)
	wide, long := table("b", 2000, 96), table("b", 3000, 64)
	short := table("b", 1000, 32)
	old := []problem.Table{a, b, c}
	for _, test := range []struct {
		name                 string
		devices, perHost     int
		text                 string
		now                  []problem.Table
		nowDevices, nowHost  int
		lost                 []int
		held                 string
		before               string
		added, removed, size []string
	}{
		{
			name: "the same", devices: 4, perHost: 2, text: "a@0 b[0:32]@1 b[32:64]@3 c@2", now: old, nowDevices: 4, nowHost: 2,
			held: "a@0 b[0:32]@1 c@2 b[32:64]@3",
		},
		{
			name: "other tables", devices: 4, perHost: 2, text: "a@0 b[0:32]@1 b[32:64]@3 c@2", now: []problem.Table{table("d", 10, 4), b, a}, nowDevices: 4, nowHost: 2,
			held: "a@0 b[0:32]@1 b[32:64]@3", added: []string{"d"}, removed: []string{"c"},
		},
		{
			name: "wider", devices: 2, perHost: 2, text: "a@0 b[0:32]@1 b[32:64]@0 c@1", now: []problem.Table{a, wide, c}, nowDevices: 2, nowHost: 2,
			held: "a@0 b[32:96]@0 b[0:32]@1 c@1", size: []string{"b"},
		},
		{
			name: "longer", devices: 2, perHost: 2, text: "a@0 b[0:32]@1 b[32:64]@0 c@1", now: []problem.Table{a, long, c}, nowDevices: 2, nowHost: 2,
			held: "a@0 b[32:64]@0 b[0:32]@1 c@1", size: []string{"b"},
		},
		{
			name: "narrower: a slice is gone", devices: 2, perHost: 2, text: "a@0 b[0:32]@1 b[32:64]@0 c@1", now: []problem.Table{a, short, c}, nowDevices: 2, nowHost: 2,
			held: "a@0 b@1 c@1", size: []string{"b"},
		},
		{
			name: "blocks of rows of a longer table", devices: 2, perHost: 2, text: "a@0 b@rows c@1", now: []problem.Table{a, long, c}, nowDevices: 2, nowHost: 2,
			held: "a@0 b(0:1500)@0 b(1500:3000)@1 c@1", size: []string{"b"},
		},
		{
			name: "more devices", devices: 2, perHost: 2, text: "a@0 b@1 c@*", now: old, nowDevices: 4, nowHost: 2,
			held: "a@0 c!@0 b@1 c!@1",
		},
		{
			name: "fewer devices", devices: 4, perHost: 2, text: "a@0 b[0:32]@1 b[32:64]@3 c@2", now: old, nowDevices: 2, nowHost: 2,
			held: "a@0 b[0:32]@1", before: "a@0 b[0:32]@1 c@2 b[32:64]@3",
		},
		{
			name: "a device is lost", devices: 4, perHost: 2, text: "a@0 b[0:32]@1 b[32:64]@3 c@2", now: old, nowDevices: 3, nowHost: 2, lost: []int{1},
			held: "c@0 b[32:64]@1 a@2",
		},
		{
			name: "a host is lost", devices: 4, perHost: 2, text: "a@0 b[0:32]@1 b[32:64]@3 c@2", now: old, nowDevices: 2, nowHost: 2, lost: []int{1, 0},
			held: "c@0 b[32:64]@1",
		},
		{
			name: "a device is replaced", devices: 4, perHost: 2, text: "a@0 b@3 c@*", now: old, nowDevices: 4, nowHost: 2, lost: []int{3},
			held: "a@0 c!@0 c!@1 c!@2", before: "a@0 c!@0 c!@1 c!@2",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			then := handMade(t, test.devices, test.perHost, old...)
			was := placedAs(t, then, test.text)
			bytes := fmt.Sprintf("%+v", was)
			p := handMade(t, test.nowDevices, test.nowHost, test.now...)
			got := must.Get(adapt(p, was, test.lost))(t)
			if held := written(p, got.held); held != test.held {
				t.Errorf("got %q, want %q", held, test.held)
			}
			if ch := got.changes; !slices.Equal(ch.Added, test.added) || !slices.Equal(ch.Removed, test.removed) || !slices.Equal(ch.Resized, test.size) {
				t.Errorf("got changes %+v, want %v added, %v removed, %v resized", ch, test.added, test.removed, test.size)
			}
			if test.before != "" {
				if before := written(then, got.before.ByDevice()); before != test.before {
					t.Errorf("got before %q, want %q", before, test.before)
				}
			}
			if fmt.Sprintf("%+v", was) != bytes {
				t.Errorf("the old plan has changed")
			}
		})
	}
}

// Another profile means other devices: nothing stays on them.
func TestAdaptToOtherDevices(t *testing.T) {
	then := handMade(t, 2, 2, table("a", 1000, 64), table("b", 2000, 64))
	p := *then
	var err error
	if p.Topology.Profile, err = hardware.ByName("h100-80"); err != nil {
		t.Fatal(err)
	}
	got := must.Get(adapt(&p, placedAs(t, then, "a@0 b@*"), nil))(t)
	if held := written(&p, got.held); held != "" || !got.changes.Profile || len(got.before.Tables[1].Shards) > 0 {
		t.Errorf("got %q held, %+v, want nothing on the new devices", held, got.changes)
	}
}

// TestAdaptRefuses gives old plans that no re-plan can start from.
func TestAdaptRefuses(t *testing.T) {
	a, b := table("a", 1000, 64), table("b", 2000, 64)
	then := handMade(t, 8, 4, a, b)
	was := placedAs(t, then, "a@0 b@1")
	twice := *was
	twice.Tables = append(slices.Clone(was.Tables), was.Tables[0])
	broken := *was
	broken.Tables = slices.Clone(was.Tables)
	broken.Tables[1].Shards = nil
	unlisted := *was
	unlisted.Devices = nil
	for _, test := range []struct {
		name             string
		old              *plan.Plan
		tables           []problem.Table
		devices, perHost int
		lost             []int
		want             string
	}{
		{"no table in common", was, []problem.Table{table("c", 10, 4)}, 8, 4, nil, `the old plan has no table of the problem, such as "c"`},
		{"tables of the same names", was, []problem.Table{table("a", 10, 4), table("b", 10, 4)}, 8, 4, nil, "the old plan is one of other tables: it has 2 tables of the same name with other rows and another dim"},
		{"listed twice", &twice, []problem.Table{a, b}, 8, 4, nil, `the old plan lists table "a" twice`},
		{"no placement", &broken, []problem.Table{a, b}, 8, 4, nil, `the old plan is not a placement: table "b"`},
		{"no devices listed", &unlisted, []problem.Table{a, b}, 8, 4, nil, "the old plan lists 0 devices, and its cluster has 8"},
		{"no such device", was, []problem.Table{a, b}, 8, 4, []int{8, -1}, "lost device -1: the old plan has devices 0 to 7"},
		{"all are lost", was, []problem.Table{a, b}, 8, 4, []int{0, 1, 2, 3, 4, 5, 6, 7}, "all 8 devices of the old plan are lost"},
		{"other devices than are left", was, []problem.Table{a, b}, 5, 4, []int{2}, "the lost devices leave 7 of 8 devices in each sharding group, 4 a host, and the problem states 5, 4 a host"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := adapt(handMade(t, test.devices, test.perHost, test.tables...), test.old, test.lost)
			var other *OtherPlan
			if !errors.As(err, &other) || !strings.HasPrefix(err.Error(), test.want) || other.Hint == "" {
				t.Errorf("got %v, want %q and a hint", err, test.want)
			}
		})
	}
}

// TestRemaining takes devices from clusters.
func TestRemaining(t *testing.T) {
	for _, test := range []struct {
		devices, perHost int
		lost             []int
		left, leftHost   int
		wrong            string
	}{
		{8, 4, nil, 8, 4, ""},
		{8, 4, []int{5}, 7, 4, ""},
		{8, 4, []int{0, 4}, 6, 3, ""},
		{8, 4, []int{0, 1, 2, 3}, 4, 4, ""},
		{10, 4, []int{0, 1}, 8, 4, "the lost devices leave 4 devices on some hosts, and 2 of 3 hosts have fewer: "},
		{10, 4, []int{8, 9}, 8, 4, ""},
		{12, 4, []int{0, 4}, 10, 4, "the lost devices leave 4 devices on some hosts, and 2 of 3 hosts have fewer: "},
		{3, 3, []int{1}, 2, 2, ""},
		{3, 3, []int{0, 1, 2}, 0, 0, "all 3 devices of the old plan are lost"},
	} {
		got, err := Remaining(plan.Cluster{Devices: test.devices, DevicesPerHost: test.perHost}, test.lost)
		switch {
		case test.wrong != "":
			if err == nil || !strings.HasPrefix(err.Error(), test.wrong) {
				t.Errorf("%d devices, %d a host, without %v: got %v, want %q", test.devices, test.perHost, test.lost, err, test.wrong)
			}
		case err != nil || got.Devices != test.left || got.DevicesPerHost != test.leftHost:
			t.Errorf("%d devices, %d a host, without %v: got %d, %d a host (%v), want %d, %d", test.devices, test.perHost, test.lost, got.Devices, got.DevicesPerHost, err, test.left, test.leftHost)
		}
	}
}

// Devices and hosts that are left keep their memories, and those of the hosts with losses come last, as
// the devices do. If the rest is equal, the cluster states one memory.
func TestRemainingKeepsMemories(t *testing.T) {
	const g = unit.GiB
	c := plan.Cluster{Devices: 6, DevicesPerHost: 2}.WithMemories(hardware.Topology{
		Devices: 6, DevicesPerHost: 2, ReserveShare: .25, ReserveFixed: g,
		DeviceMemories: []unit.Bytes{80 * g, 40 * g, 40 * g, 40 * g, 24 * g, 40 * g}, HostMemories: []unit.Bytes{100 * g, 100 * g, 200 * g},
	})
	if c.DeviceMemory != 80*g || c.Reserve != 21*g || c.ReserveShare != .25 || c.HostMemory != 200*g {
		t.Fatalf("got %+v, want the memory and the reserve of the largest", c)
	}
	for _, test := range []struct {
		lost            []int
		devices, hosts  []unit.Bytes
		memory, reserve unit.Bytes
	}{
		{[]int{1}, []unit.Bytes{40 * g, 40 * g, 24 * g, 40 * g, 80 * g}, []unit.Bytes{100 * g, 200 * g, 100 * g}, 80 * g, 21 * g},
		{[]int{0, 1}, []unit.Bytes{40 * g, 40 * g, 24 * g, 40 * g}, []unit.Bytes{100 * g, 200 * g}, 40 * g, 11 * g},
		{[]int{0, 2, 4}, nil, []unit.Bytes{100 * g, 100 * g, 200 * g}, 40 * g, 11 * g},
		{[]int{0, 1, 4, 5}, nil, nil, 40 * g, 11 * g},
	} {
		left, err := Remaining(c, test.lost)
		if err != nil {
			t.Errorf("without %v: %v", test.lost, err)
			continue
		}
		if !slices.Equal(left.DeviceMemories, test.devices) || !slices.Equal(left.HostMemories, test.hosts) || left.DeviceMemory != test.memory || left.Reserve != test.reserve {
			t.Errorf("without %v: got memories %v and %v, %v with %v reserved, want %v and %v, %v with %v", test.lost,
				left.DeviceMemories, left.HostMemories, left.DeviceMemory, left.Reserve, test.devices, test.hosts, test.memory, test.reserve)
		}
	}
}
