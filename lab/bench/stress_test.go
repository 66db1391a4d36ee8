package bench

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/problem"
)

func TestStressTasks(t *testing.T) {
	const perFamily = 8
	hw := profile(t, "a100-80")
	tasks, err := StressTasks(hw, perFamily, 5)
	if err != nil {
		t.Fatal(err)
	}
	if want := perFamily * len(stressFamilies); len(tasks) != want {
		t.Fatalf("got %d tasks, want %d", len(tasks), want)
	}
	if _, err := index(tasks); err != nil {
		t.Errorf("names: %v", err)
	}
	for _, task := range tasks {
		p := &task.Problem
		total, room := 0.0, float64(p.ShardBudget(0))*float64(p.Topology.Devices)
		for i := range p.Tables {
			total += float64(p.ShardMemory(p.Whole(i)).Tables())
		}
		// Slices of a packed table repeat bytes that it takes once when whole.
		if total > .991*room || total < .5*room {
			t.Errorf("%s: the tables take %.1f %% of the memory, want at most 99 and not much less", task.Name, 100*total/room)
		}
	}
	fewer, err := StressTasks(hw, 2, 5)
	if err != nil {
		t.Fatal(err)
	}
	for number := range stressFamilies {
		if many, few := tasks[number*perFamily:][:2], fewer[2*number:][:2]; !reflect.DeepEqual(many, few) {
			t.Errorf("the first two tasks of a family depend on how many there are (-of %d +of 2):\n%s", perFamily, cmp.Diff(many, few))
		}
	}
	other, err := StressTasks(hw, 2, 6)
	if err != nil {
		t.Fatal(err)
	}
	if reflect.DeepEqual(fewer, other) {
		t.Error("got the same tasks from seeds 5 and 6")
	}
}

func TestStressFamilies(t *testing.T) {
	tasks, err := StressTasks(profile(t, "a100-80"), 30, 1)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, task := range tasks {
		p, setting := &task.Problem, task.Setting
		n := len(p.Tables)
		if setting == "fewer" && n >= p.Topology.Devices {
			t.Errorf("%s: got %d tables on %d devices, want fewer", task.Name, n, p.Topology.Devices)
		}
		if setting == "equal" && n%p.Topology.Devices == 0 {
			t.Errorf("%s: got %d tables on %d devices, want a remainder", task.Name, n, p.Topology.Devices)
		}
		for i := range p.Tables {
			c := p.Tables[i].Constraint
			if setting == "packed-whole" && !c.NoSplit {
				t.Errorf("%s: table %d may be split, want it whole", task.Name, i)
			}
			for what, is := range map[string]bool{
				"larger than a device": p.ShardMemory(p.Whole(i)).Tables() > p.ShardBudget(0),
				"in a group":           c.Colocation != "",
				"bound to devices":     len(c.Devices) > 0,
				"wide slices":          c.MinWidth > problem.ColumnGranule,
			} {
				if is {
					count[setting+", "+what]++
				}
			}
		}
	}
	for _, want := range []string{
		"huge, larger than a device", "huge, wide slices", "fewer, larger than a device", "dust, larger than a device",
		"bound, in a group", "bound, bound to devices", "packed-cut, larger than a device", "packed-cut, wide slices",
		"packed-bound, in a group", "packed-bound, bound to devices",
	} {
		if count[want] == 0 {
			t.Errorf("got no tables that are %s, want some", want)
		}
	}
}
