package plan

import (
	"strings"
	"testing"
)

// A plan file without a part of a plan, or without a device, is refused: its readers count on them.
func TestReadWantsEveryPart(t *testing.T) {
	parts := [][2]string{
		{"format", `"neuroshard-plan"`},
		{"version", "1"},
		{"predicted", `{"cost_ms": 1, "source": ""}`},
		{"cluster", `{"profile": "a100-80", "devices": 1, "devices_per_host": 1, "batch": 1, "device_memory_bytes": 1}`},
		{"devices", `[{"device": 0}]`},
		{"tables", "[]"},
		{"provenance", "{}"},
	}
	without := func(key, instead string) error {
		var fields []string
		for _, p := range parts {
			if p[0] == key {
				p[1] = instead
			}
			if p[1] != "" {
				fields = append(fields, `"`+p[0]+`": `+p[1])
			}
		}
		_, err := Read(strings.NewReader("{" + strings.Join(fields, ", ") + "}"))
		return err
	}
	if err := without("", ""); err != nil {
		t.Fatalf("got %v, want no error of a plan of no tables", err)
	}
	for _, p := range parts {
		for _, instead := range []string{"", "null"} {
			if err := without(p[0], instead); err == nil || !strings.Contains(err.Error(), `"`+p[0]+`"`) {
				t.Errorf("got error %v with %q for %s", err, instead, p[0])
			}
		}
	}
	for _, c := range []struct{ key, instead, want string }{
		{"cluster", `{"devices_per_host": 1}`, "0 devices"},
		{"cluster", `{"devices": 1, "devices_per_host": 1}`, "no profile"},
		{"devices", "[]", "it lists 0 devices, and its cluster has 1"},
		{"devices", "[null]", "null is not an object"},
		{"tables", `[{"kind": "table_wise", "shards": []}]`, "no name"},
		{"cluster", `{"fixed": [` + strings.Repeat("{},", 5000) + `{}]}`, "more than 4096 elements"},
	} {
		if err := without(c.key, c.instead); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.50s: got error %v, want %q in it", c.key, c.instead, err, c.want)
		}
	}
}
