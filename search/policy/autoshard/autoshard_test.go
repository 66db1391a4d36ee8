package autoshard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search/policy"
)

// A Policy is what method autoshard asks for devices.
func ExampleNewPolicy() {
	net := New()
	net.Init(1)
	p := NewPolicy(net, Scaling{})
	task := tables(4, 2)
	order, choose := p.Begin(task, whole(task), nil)
	var devices []int32
	for _, piece := range order {
		devices = append(devices, choose(piece, []int32{1})) // only device 1 has room
	}
	fmt.Println(p.Method(), devices)
	// Output: autoshard [1 1 1 1]
}

// tables returns a problem of n unequal tables.
func tables(n, devices int) *problem.Problem {
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		panic(err)
	}
	p := &problem.Problem{Topology: hardware.Topology{Profile: profile, Devices: devices}, Batch: 4096}
	for i := range n {
		p.Tables = append(p.Tables, problem.Table{
			Name: fmt.Sprint(i), Rows: int64(1000 << (i % 8)), Dim: 16 << (i % 3), Precision: problem.FP32,
			Features: []problem.Feature{{Name: fmt.Sprint(i), PoolingFactor: float64(1 + i%5)}},
		})
	}
	return p
}

// whole lists the whole tables of a problem as pieces of one table each, but the last two
// as one piece.
func whole(p *problem.Problem) [][]problem.Shard {
	var pieces [][]problem.Shard
	for i := range p.Tables {
		pieces = append(pieces, []problem.Shard{p.Whole(i)})
	}
	n := len(pieces)
	if n < 5 {
		return pieces
	}
	return append(pieces[:n-2], []problem.Shard{pieces[n-2][0], pieces[n-1][0]})
}

// roll runs a rollout in which random devices have room.
func roll(p *Policy, task *problem.Problem, random *rand.Rand) []int32 {
	order, choose := p.Begin(task, whole(task), random)
	limits := rand.New(rand.NewPCG(1, 2))
	var devices []int32
	for i, piece := range order {
		if i%7 == 3 {
			continue // no device has room
		}
		var room []int32
		for d := range task.Topology.Devices {
			if limits.IntN(2) == 0 {
				room = append(room, int32(d))
			}
		}
		if len(room) == 0 {
			room = []int32{0}
		}
		device := choose(piece, room)
		if !slices.Contains(room, device) {
			panic(fmt.Sprintf("got device %d, want one of %v", device, room))
		}
		devices = append(devices, device)
	}
	return devices
}

func TestRollout(t *testing.T) {
	r := record(t)
	p := NewPolicy(prototypeNet(t), Scaling{[standardised]float64(r.Means), [standardised]float64(r.Deviations)})
	task := tables(30, 5)
	order, _ := p.Begin(task, whole(task), nil)
	sorted := slices.Sorted(slices.Values(order))
	for i, piece := range sorted {
		if piece != int32(i) || len(sorted) != 29 {
			t.Fatalf("got order %v, want a permutation of 29 pieces", order)
		}
	}
	if first, again := roll(p, task, nil), roll(p, task, nil); !slices.Equal(first, again) {
		t.Errorf("got %v, then %v of a greedy rollout", first, again)
	}
	source := func(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
	first, again, other := roll(p, task, source(1)), roll(p, task, source(1)), roll(p, task, source(2))
	if !slices.Equal(first, again) || slices.Equal(first, other) {
		t.Errorf("got %v and %v for one seed, %v for another", first, again, other)
	}
}

func TestFolder(t *testing.T) {
	net := New()
	net.Init(7)
	scaling := NewScaling([]policy.Vector{{4, 100, 2}, {8, 300, 2}})
	if want := (Scaling{Mean: [3]float64{6, 200, 2}, Deviation: [3]float64{2, 100, 0}}); scaling != want {
		t.Fatalf("got constants %v, want %v", scaling, want)
	}
	// The mean of equal dims is rounded; their deviation is 0 all the same.
	equal := make([]policy.Vector, 49)
	for i := range equal {
		equal[i] = policy.Vector{16, float64(i), 0.1}
	}
	if scaling := NewScaling(equal); scaling.Deviation[0] != 0 || scaling.Deviation[1] == 0 || scaling.Deviation[2] != 0 {
		t.Errorf("got deviations %v of equal dims and pooling factors, want 0 for both", scaling.Deviation)
	}
	folder := NewPolicy(net, scaling).Folder()
	got, err := FromFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	if got.scaling != scaling {
		t.Errorf("got constants %v, want %v", got.scaling, scaling)
	}
	for i, p := range got.net.Nets().Tensors() {
		if !slices.Equal(p.Data, net.Nets().Tensors()[i].Data) {
			t.Errorf("%s changed", p.Name)
		}
	}

	folder.Tensors[0].Name = "table.9.weight"
	folder.Tensors[3].Shape = []int{1}
	folder.Manifest.Mean = nil
	_, err = FromFolder(folder)
	for _, want := range []string{"0 means and 3 deviations", `"table.0.weight"`, `"table.2.bias"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestFramesAppend(t *testing.T) {
	one := Frames{Steps: 1, Sequences: 1, Devices: 2, Share: []float32{.5}, Load: make([]float32, 4), Reset: []bool{true}}
	one.Current.Add(3, 4)
	one.Held.Add(0)
	one.Held.Add(0, 5)
	var all Frames
	all.Append(&one)
	all.Append(&one)
	if all.Len() != 2 || !slices.Equal(all.Held.Offsets, []int32{0, 1, 3, 4, 6}) || !slices.Equal(all.Held.Rows, []int32{0, 0, 5, 0, 0, 5}) || !slices.Equal(all.Current.Rows, []int32{3, 4, 3, 4}) {
		t.Errorf("got %+v", all)
	}
	if all.Clear(); all.Len() != 0 || all.Held.Len() != 0 {
		t.Errorf("got %d frames after Clear", all.Len())
	}
}
