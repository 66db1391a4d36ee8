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
		{"cluster", `{"devices": 1, "devices_per_host": 1}`},
		{"devices", "[]"},
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
	if err := without("cluster", `{"devices_per_host": 1}`); err == nil || !strings.Contains(err.Error(), "0 devices") {
		t.Errorf("got error %v of a cluster without devices", err)
	}
}
