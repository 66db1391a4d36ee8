package input

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// messages returns the messages of an *Errors.
func messages(t *testing.T, err error) []string {
	t.Helper()
	var list *Errors
	if err != nil && !errors.As(err, &list) {
		t.Fatalf("got %v (%T), want *Errors", err, err)
	}
	var all []string
	if list != nil {
		for _, e := range list.List {
			all = append(all, e.Message)
		}
	}
	return all
}

// A field of a row and what a good and a wrong value of it look like in CSV and
// JSON. Faults holds what messages about it contain.
var fields = []struct{ name, goodCSV, wrongCSV, goodJSON, wrongJSON, fault string }{
	{"rows", "10", "-1", "10", "-1", "rows: -1"},
	{"dim", "64", "127", "64", "127", "dim 127"},
	{"pooling_factor", "2", "-3", "2", "-3", "pooling_factor: -3"},
	{"length_cv", "0.5", "-2", "0.5", "-2", "length_cv: -2"},
	{"precision", "fp16", "fp8", `"fp16"`, `"fp8"`, `precision: "fp8"`},
	{"pooling", "mean", "max", `"mean"`, `"max"`, `pooling: "max"`},
	{"prefetch", "true", "perhaps", "true", "1", "prefetch"},
	{"optimizer", "adam", "sdg", `"adam"`, `"sdg"`, `optimizer: "sdg"`},
	{"zipf", "1.05", "99", "1.05", "99", "zipf: 99"},
	{"devices", "3", "9", "[3]", "[9]", "allowed device 9"},
	{"no_split", "false", "maybe", "false", `"maybe"`, "no_split"},
	{"min_width", "8", "7", "8", "7", "min_width: 7"},
}

// row writes a file of one table, of a field each what value says.
func row(format Format, value func(i int) string) string {
	var keys, values []string
	var constraints []string
	zipf := ""
	for i, f := range fields {
		keys, values = append(keys, f.name), append(values, value(i))
		pair := fmt.Sprintf("%q: %s", f.name, value(i))
		switch f.name {
		case "zipf":
			zipf = pair
		case "devices", "no_split", "min_width":
			constraints = append(constraints, pair)
		}
	}
	if format == CSV {
		return "name," + strings.Join(keys, ",") + "\na," + strings.Join(values, ",") + "\n"
	}
	plain := ""
	for i, f := range fields[:8] {
		plain += fmt.Sprintf("%q: %s, ", f.name, values[i])
	}
	return inTables(fmt.Sprintf(`{"name": "a", %s"access": {%s}, "constraints": {%s}}`, plain, zipf, strings.Join(constraints, ", ")))
}

// TestOneUnreadFieldHidesNothing spoils each field of a row in turn so that it
// cannot be read: it must be reported, once, and change nothing of what is said
// of the others, be they right or wrong.
func TestOneUnreadFieldHidesNothing(t *testing.T) {
	for _, format := range []Format{CSV, JSON} {
		good := func(i int) string { return map[Format]string{CSV: fields[i].goodCSV, JSON: fields[i].goodJSON}[format] }
		wrong := func(i int) string {
			return map[Format]string{CSV: fields[i].wrongCSV, JSON: fields[i].wrongJSON}[format]
		}
		unread := map[Format]string{CSV: "x;y z", JSON: `{"x": 1}`}[format]
		for spoiled := range fields {
			for _, others := range []func(i int) string{good, wrong} {
				content := row(format, func(i int) string {
					if i == spoiled {
						return unread
					}
					return others(i)
				})
				name := map[Format]string{CSV: "a.csv", JSON: "a.json"}[format]
				_, err := readAndCheck(t, name, content)
				got := messages(t, err)
				about := func(i int) bool {
					return slices.ContainsFunc(got, func(m string) bool { return strings.Contains(m, fields[i].fault) })
				}
				want := 1
				for i, f := range fields {
					if isWrong := others(i) == wrong(i) && i != spoiled; isWrong {
						want++
						if !about(i) {
							t.Errorf("%s, %s unread: nothing is said of %s in %q", format, fields[spoiled].name, f.name, got)
						}
					}
				}
				if fields[spoiled].name == "devices" && format == CSV {
					want++ // "x" and "y z" are two
				}
				if len(got) != want {
					t.Errorf("%s, %s unread: got %d errors, want %d: %q\n%s", format, fields[spoiled].name, len(got), want, got, content)
				}
			}
		}
	}
}

// TestUnreadTablesKeepNamesAndGroups wants duplicate names found among rows with
// errors, and no contradiction in a group of which a member's devices are not
// known.
func TestUnreadTablesKeepNamesAndGroups(t *testing.T) {
	_, err := readAndCheck(t, "a.csv", "name,rows,dim,devices,group\na,1,4,0,g\na,x,4,y;1,g\n")
	want := []string{
		`rows: "x" is not a number`, `devices: "y" is not a number`,
		"the name is used twice, at a.csv:2 and a.csv:3",
	}
	if diff := cmp.Diff(want, messages(t, err)); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

// TestOneUnreadKeyHidesNothing does the same with the keys of a topology.
func TestOneUnreadKeyHidesNothing(t *testing.T) {
	type line struct{ key, good, wrong, fault string }
	lines := []line{
		{"devices", "8", "0", "devices: 0"},
		{"devices_per_host", "4", "-1", "devices per host: -1"},
		{"device", "a100-80", "a100", `device profile "a100"`},
		{"memory", "40GiB", "9999TiB", "memory: "},
		{"reserve_share", "0.1", "2", "reserve share: 2"},
		{"reserve_fixed", "1GiB", "9999TiB", "reserve fixed: "},
		{"batch", "5", "0", "batch: 0"},
	}
	for spoiled, s := range lines {
		for _, others := range []func(line) string{func(l line) string { return l.good }, func(l line) string { return l.wrong }} {
			content, want := "", []string{s.key + ": a list where"}
			for i, l := range lines {
				switch value := others(l); {
				case i == spoiled:
					content += l.key + ": [1]\n"
				default:
					content += l.key + ": " + value + "\n"
					if value == l.wrong {
						want = append(want, l.fault)
					}
				}
			}
			got := messages(t, badTopologyErrors(t, "c.yaml", content))
			for _, w := range want {
				if !slices.ContainsFunc(got, func(m string) bool { return strings.HasPrefix(m, w) }) {
					t.Errorf("%s unread: no error begins with %q in %q", s.key, w, got)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%s unread: got %d errors, want %d: %q", s.key, len(got), len(want), got)
			}
		}
	}
}

// TestUnreadDevicesMakeNoPinWrong wants no complaint about pins where the number
// of devices is itself what is wrong.
func TestUnreadDevicesMakeNoPinWrong(t *testing.T) {
	for content, want := range map[string]string{
		"devices: abc\ndevice: a100-80\n": `devices: the string "abc" where a whole number belongs`,
		"devices: 0\ndevice: a100-80\n":   "devices: 0 is not between 1 and 65536",
	} {
		c, err := Topology("c.yaml", strings.NewReader(content))
		p := &problem.Problem{
			Tables: []problem.Table{
				{Name: "a", Rows: 1, Dim: 4, Features: make([]problem.Feature, 1), Constraint: problem.Constraint{Devices: []int{7}}},
				{Name: "b", Rows: 1, Dim: 4, Features: make([]problem.Feature, 1), Constraint: problem.Constraint{Devices: []int{hardware.MaxDevices}}},
			},
			Topology: c.Topology, Batch: 1,
		}
		got := messages(t, Join(err, Check(p, c)))
		all := []string{want, "allowed device 65536 does not exist: a cluster has at most 65536 devices"}
		slices.Sort(all)
		slices.Sort(got)
		if diff := cmp.Diff(all, got); diff != "" {
			t.Errorf("%q: errors (-want +got):\n%s", content, diff)
		}
	}
}

func TestUnusedDefaultDimIsAWarning(t *testing.T) {
	const warning = "dim 32 is not used: every table states its dim"
	sgd := problem.SGD
	for _, c := range []struct {
		content string
		want    []string
	}{
		{"name,rows,dim,pooling_factor,zipf\na,1,4,1,1\n", []string{warning}},
		{inTable(`"pooling_factor": 1, "access": {"uniform": true}`), []string{warning}},
		{"[" + prototypeTableOf(1, `20, "dim": 16`) + "]", []string{warning}},
		{"[" + prototypeTableOf(1, `20, "dim": 16`) + "," + prototypeTableOf(1, "20") + "]", nil},
	} {
		f, err := Tables("", strings.NewReader(c.content), Options{DefaultDim: 32, Optimizer: &sgd})
		if err != nil {
			t.Errorf("%s: got error %v", c.content, err)
		}
		if diff := cmp.Diff(c.want, f.Warnings); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", c.content, diff)
		}
	}
	f, err := Tables("", strings.NewReader("["+prototypeTableOf(1, "0")+"]"), Options{DefaultDim: -1})
	if err != nil || len(f.Tables) != 1 || f.Tables[0].Dim != problem.ColumnGranule {
		t.Errorf("dim -1, which the caller reports: got %v and %d tables, want no error and one table of dim %d", err, len(f.Tables), problem.ColumnGranule)
	}
}
