package prototype

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// BenchmarkCommPair evaluates both comm nets at 4 devices, on one of 256
// placements in turn, so that no input repeats soon.
func BenchmarkCommPair(b *testing.B) {
	var files [3]File
	for i, name := range []string{"compute.pt", "comm_4_fw.pt", "comm_4_bw.pt"} {
		f, err := os.Open("testdata/models/" + name)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		files[i] = File{name, f}
	}
	m, err := Load(files[0], files[1], files[2])
	if err != nil {
		b.Fatal(err)
	}
	profile, err := hardware.ByName(Profile)
	if err != nil {
		b.Fatal(err)
	}
	estimates, err := m.NewEstimates(&problem.Problem{
		Tables: []problem.Table{{
			Name: "t", Rows: 1000, Dim: 64, Features: []problem.Feature{{PoolingFactor: 10}},
			Access: access.Distribution{Kind: access.Histogram, Batch: Batch, Reuse: [access.Classes]float64{1}},
		}},
		Topology: hardware.Topology{Profile: profile, Devices: 4, Memory: 4 * unit.GiB}, Batch: Batch, Accounting: problem.CountWeights,
	})
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(8, 8))
	var states [256][4]deviceState
	for i := range states {
		for d := range states[i] {
			states[i][d] = deviceState{dimSum: 100 + 4*random.Int32N(50), shards: 5, compute: 5 + 5*random.Float64(), known: true}
		}
	}
	s := estimates.NewScorer()
	i := 0
	for b.Loop() {
		copy(s.devices, states[i%256][:])
		s.Cost()
		i++
	}
}
