package design_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// The shipped models are made from these draws: other draws would make other
// models. Real numbers are compared to six digits, because compilers may round the
// last digits differently.
func TestDrawsOfShippedModelsStay(t *testing.T) {
	digest := sha256.New()
	set := design.Compute(1, 300, 400, 1, design.MaxShards)
	for _, table := range set.Tables {
		fmt.Fprintf(digest, "%s %.6g %d %d %.6g %v %.5g %d %.6g %.6g %v %.6g\n", table.Name, float64(table.Rows), table.Dim, len(table.Features),
			table.PoolingFactor(), table.Access.Kind, table.Access.Exponent, table.Access.Batch, table.Access.Reuse, table.LengthCV(), table.Pooling, table.Bags())
	}
	for _, g := range set.Samples {
		fmt.Fprintln(digest, uint8(g.Split), g.Operation, g.Members)
	}
	if got, want := fmt.Sprintf("%x", digest.Sum(nil)), "b8d1a34d603371b9a0fe14ac8ddb1459ce0378a95f5e3a3ab1f0582cc970dbf1"; got != want {
		t.Errorf("groups: got digest %s, want %s", got, want)
	}
	digest.Reset()
	for _, name := range []string{"rtx2080ti", "mi300x"} {
		profile := must.Get(hardware.ByName(name))(t)
		for _, e := range design.Comm(1, 300, profile).Samples {
			fmt.Fprintf(digest, "%d %d %d %d %d %.6f\n", e.Split, e.Devices, e.DevicesPerHost, e.Batch, e.DimSums, e.Start)
		}
	}
	if got, want := fmt.Sprintf("%x", digest.Sum(nil)), "f44faa1fca8ff43734f82a3cf8cea8b7595c407d0ba143bba412b4de90daa10a"; got != want {
		t.Errorf("exchanges: got digest %s, want %s", got, want)
	}
}
