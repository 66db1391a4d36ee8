package workload

import (
	"reflect"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
)

func TestDrawnByName(t *testing.T) {
	pool := must.Get(ByName("workload:dlrm-datasets@7"))(t)
	if got, want := pool.Tables(), Pool(7); !reflect.DeepEqual(got, want) {
		t.Error("dlrm-datasets@7 is not Pool(7)")
	}
	scale := must.Get(ByName("dlrm-datasets-50x16@3"))(t)
	want := must.Get(Scale(50, 16, 3))(t)
	if got := scale.Problem(); !reflect.DeepEqual(got, want) {
		t.Errorf("dlrm-datasets-50x16@3: got %d tables on %d devices, want those of Scale", len(got.Tables), got.Topology.Devices)
	}
	task := must.Get(ByName("paper-d8_m64-5"))(t)
	p := task.Problem()
	if p.Topology.Devices != 8 || p.Accounting != problem.CountWeights || len(p.Tables) < 20 || len(p.Tables) >= 120 {
		t.Errorf("paper-d8_m64-5: got %d tables on %d devices, accounting %v", len(p.Tables), p.Topology.Devices, p.Accounting)
	}
	for _, w := range Drawn() {
		p := w.Problem()
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", w.Name, err)
		}
	}
}

func TestDrawnRefuses(t *testing.T) {
	for name, want := range map[string]string{
		"dlrm-datasets-0x8":                     "0 tables",
		"dlrm-datasets-10x0":                    "0 devices",
		"dlrm-datasets-99999999999999999999x8":  "tables: draw 1 to",
		"dlrm-datasets@99999999999999999999999": "too large",
		"paper-d4_m32-0":                        `setting "d4_m32" is unknown`,
		"paper-d4_m64-99999999999999999999":     "too large",
		"dlrm-datasets-":                        "is unknown",
	} {
		if _, err := ByName(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", name, err, want)
		}
	}
}
