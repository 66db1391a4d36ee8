package policy

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

func twoTables(t *testing.T) *problem.Problem {
	t.Helper()
	profile := must.Get(hardware.ByName("a100-80"))(t)
	reuse := [access.Classes]float64{0: .5, 3: .25, 16: .25}
	return &problem.Problem{
		Tables: []problem.Table{
			{Name: "a", Rows: 1000, Dim: 64, Precision: problem.FP32, Features: []problem.Feature{{Name: "f", PoolingFactor: 3}, {Name: "g", PoolingFactor: 2}}, Access: access.Distribution{Kind: access.Histogram, Reuse: reuse, Batch: 4096}},
			{Name: "b", Rows: 50, Dim: 8, Precision: problem.FP32, Features: []problem.Feature{{Name: "h", PoolingFactor: 1}}},
		},
		Topology: hardware.Topology{Profile: profile, Devices: 2},
		Batch:    4096,
	}
}

func slice(p *problem.Problem, table int, width int64) problem.Shard {
	s := p.Whole(table)
	s.Columns.End = width
	return s
}

func TestDescribe(t *testing.T) {
	p := twoTables(t)
	got := Describe(p, [][]problem.Shard{{slice(p, 0, 32)}, {slice(p, 0, 64), slice(p, 1, 8)}})
	if got.Pieces() != 2 || len(got.Vectors) != 3 || got.Offsets[1] != 1 || got.Offsets[2] != 3 {
		t.Fatalf("got %d pieces with offsets %v, want 2 of 1 and 2 slices", got.Pieces(), got.Offsets)
	}
	want := Vector{Dim: 32, Rows: 1000, Pooling: 5, Size: 32000, Bins: .5, Bins + 3: .25, Bins + 16: .25}
	if got.Vectors[0] != want {
		t.Errorf("got %v, want %v", got.Vectors[0], want)
	}
	want[Dim], want[Size] = 64, 64000
	if got.Vectors[1] != want {
		t.Errorf("got %v of the whole table, want %v", got.Vectors[1], want)
	}
	if got.Vectors[2] != VectorOf(&p.Tables[1], 8, 4096) || got.Vectors[2][Size] != 400 {
		t.Errorf("got %v of the second table, want its own features", got.Vectors[2])
	}
	if names := FeatureNames(); len(names) != Features || names[Bins] != "bin_0" || names[Features-1] != "bin_16" {
		t.Errorf("got names %v, want %d", names, Features)
	}
	// A histogram of another batch is counted again.
	p.Batch = 8192
	if other := Describe(p, [][]problem.Shard{{slice(p, 0, 64)}}).Vectors[0]; other[Bins] == .5 {
		t.Errorf("got the histogram of batch 4096, want one of batch 8192")
	}
}

func sample() *Folder {
	return &Folder{
		Manifest: Manifest{Method: DreamShard, Profile: "a100-80", Source: "simulated", CPUSeconds: 3, Card: Card{Seed: 1, Costs: "own", Reward: "cost", Losses: []Losses{{2, -1}}, Test: []Test{{"random", 4, 1.5, 0.9}}}},
		Tensors:  []modelfile.Tensor{{Name: "w", Shape: []int{2, 1}, Data: []float32{1, -2}}},
	}
}

func TestFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "p")
	f := sample()
	must.Do(t, f.Write(folder))
	got := must.Get(Read(os.DirFS(folder), "."))(t)
	if got.Manifest.ID != f.Manifest.ID || got.Manifest.Card.Losses[0] != f.Manifest.Card.Losses[0] || got.Tensors[0].Data[1] != -2 {
		t.Errorf("got %+v, want %+v", got, f)
	}
	// The time of a training is not the policy.
	again := sample()
	if again.Manifest.CPUSeconds = 9; again.Seal() != nil || again.Manifest.ID != f.Manifest.ID {
		t.Errorf("got id %s with other processor time, want %s", again.Manifest.ID, f.Manifest.ID)
	}
	if again.Manifest.Card.Seed = 2; again.Seal() != nil || again.Manifest.ID == f.Manifest.ID {
		t.Errorf("got the same id %s with another seed", f.Manifest.ID)
	}
	for _, c := range []struct{ name, file, old, new, want string }{
		{"an edited card", modelfile.ManifestName, `"seed": 1`, `"seed": 2`, "damaged or were edited"},
		{"an edited weight", modelfile.WeightsName, "\x00\x00\x80\x3f", "\x00\x00\x80\x3e", "damaged or were edited"},
		{"a cost model", modelfile.ManifestName, Format, modelfile.Format, `this build reads "neuroshard-policy" version 1`},
		{"another method", modelfile.ManifestName, `"dreamshard"`, `"alphashard"`, `method "alphashard" is neither`},
		{"other features", modelfile.ManifestName, `"bin_3"`, `"bin_x"`, "reads other features"},
		{"an unknown field", modelfile.ManifestName, `"seed"`, `"sead"`, "unknown field"},
		{"a weight that is not finite", modelfile.WeightsName, "\x00\x00\x80\x3f", "\x00\x00\x80\x7f", "not finite"},
	} {
		t.Run(c.name, func(t *testing.T) {
			must.Do(t, sample().Write(folder))
			path := filepath.Join(folder, c.file)
			data := must.Get(os.ReadFile(path))(t)
			changed := strings.Replace(string(data), c.old, c.new, 1)
			if changed == string(data) {
				t.Fatalf("%q is not in %s", c.old, c.file)
			}
			must.Do(t, os.WriteFile(path, []byte(changed), 0o666))
			if _, err := Read(os.DirFS(folder), "."); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q in it", err, c.want)
			}
		})
	}
}

// Devices are drawn by the softmax of the logits of those with room.
func TestChoose(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	counts := map[int32]int{}
	const draws = 20000
	logits, room := []float32{0, 9, 1.0986123, 0}, []int32{0, 2, 3}
	for range draws {
		counts[Choose(logits, room, random)]++
	}
	// e^1.0986123 is 3: the shares are 1, 3 and 1 fifths, with deviations of 0.0035 at most.
	for device, share := range map[int32]float64{0: .2, 1: 0, 2: .6, 3: .2} {
		if got := float64(counts[device]) / draws; math.Abs(got-share) > .02 {
			t.Errorf("device %d: got a share of %v, want %v", device, got, share)
		}
	}
	if got := Choose(logits, room, nil); got != 2 {
		t.Errorf("got device %d without random numbers, want 2", got)
	}
}
