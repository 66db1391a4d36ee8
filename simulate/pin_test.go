package simulate

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"runtime"
	"testing"

	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// TestCostsOfColumnSlicesStay pins every bit of the costs of placements of column slices
// in HBM whose exchanges are in fp32. A change of one needs a new ModelVersion.
func TestCostsOfColumnSlicesStay(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("other processors may fuse a multiplication with an addition")
	}
	for _, test := range []struct {
		profile                  string
		tables, devices, perHost int
		input                    bool
		want                     string
	}{
		{"a100-80", 60, 1, 0, false, "8234a49aeb098019"},
		{"a100-80", 60, 8, 0, true, "984ed0332ffcd0b8"},
		{"v100-32", 200, 16, 4, false, "97434189a923987f"},
		{"h100-80", 200, 13, 8, true, "5974663d36b89027"},
		{"rtx2080ti", 30, 3, 0, false, "66377959e608ed6b"},
	} {
		p := mixed(test.tables, hardware.Topology{Profile: profile(t, test.profile), Devices: test.devices, DevicesPerHost: test.perHost})
		pricer := NewPricer(p)
		input := unit.Millis(0)
		cost, err := pricer.Price(dealt(p))
		if err != nil {
			t.Fatal(err)
		}
		if test.input {
			if input, err = pricer.Input(dealt(p)); err != nil {
				t.Fatal(err)
			}
		}
		total := unit.Millis(0)
		for _, d := range cost.Devices {
			total = max(total, d.Forward+d.Backward+d.ForwardComm+d.BackwardComm+input)
		}
		digest := fnv.New64a()
		write := func(times ...unit.Millis) {
			for _, x := range times {
				_ = binary.Write(digest, binary.LittleEndian, math.Float64bits(float64(x)))
			}
		}
		write(total)
		for _, d := range cost.Devices {
			write(d.Forward, d.Backward, d.ForwardComm, d.BackwardComm, input)
		}
		if got := fmt.Sprintf("%x", digest.Sum64()); got != test.want {
			t.Errorf("%d tables on %d x %s: got %s, want %s", test.tables, test.devices, test.profile, got, test.want)
		}
	}
}
