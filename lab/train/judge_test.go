package train

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

func TestInterval(t *testing.T) {
	bounds := []int{1, 5, 15, 200}
	for v, want := range map[int]string{
		1: "1-5", 2: "1-5", 5: "1-5", 6: "6-15", 15: "6-15", 16: "16-200", 200: "16-200", 201: "201-", 9999: "201-",
	} {
		if got := strings.ReplaceAll(interval(v, bounds...), " ", ""); got != want {
			t.Errorf("interval(%d): got %q, want %q", v, got, want)
		}
	}
	// A first interval of one number.
	for v, want := range map[int]string{1: "1-1", 2: "2-2", 3: "3-4", 4: "3-4", 5: "5-"} {
		if got := strings.ReplaceAll(interval(v, 1, 1, 2, 4), " ", ""); got != want {
			t.Errorf("interval(%d) of 1, 1, 2, 4: got %q, want %q", v, got, want)
		}
	}
	// As text they sort like numbers.
	last := ""
	for v := 1; v < 300; v++ {
		name := interval(v, bounds...)
		if name < last {
			t.Errorf("interval(%d): %q sorts before %q", v, name, last)
		}
		last = name
	}
}

func TestSummarise(t *testing.T) {
	count := func(n int, value func(i int) float64) []float64 {
		all := make([]float64, n)
		for i := range all {
			all[i] = value(i)
		}
		return all
	}
	for _, c := range []struct {
		name    string
		percent []float64
		want    modelfile.Errors
	}{
		{"none", nil, modelfile.Errors{}},
		{"one", []float64{3}, modelfile.Errors{Samples: 1, Mean: 3, P95: 3}},
		{"two", []float64{5, 1}, modelfile.Errors{Samples: 2, Mean: 3, P95: 5}},
		{"equal", count(40, func(int) float64 { return 2 }), modelfile.Errors{Samples: 40, Mean: 2, P95: 2}},
		// 4 % of the samples are outliers, and then 6 %.
		{"few outliers", count(100, func(i int) float64 { return float64(i/96) * 50 }), modelfile.Errors{Samples: 100, Mean: 2, P95: 0}},
		{"more outliers", count(100, func(i int) float64 { return float64(i/94) * 50 }), modelfile.Errors{Samples: 100, Mean: 3, P95: 50}},
		// The least value that 95 % of the values do not exceed.
		{"rising", count(1000, func(i int) float64 { return float64(i) }), modelfile.Errors{Samples: 1000, Mean: 499.5, P95: 950}},
	} {
		shuffled := slices.Clone(c.percent)
		rand.New(rand.NewPCG(1, 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		before := slices.Clone(shuffled)
		got := summarise(shuffled)
		if got.Samples != c.want.Samples || math.Abs(got.Mean-c.want.Mean) > 1e-9 || got.P95 != c.want.P95 {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
		if !slices.Equal(before, shuffled) {
			t.Errorf("%s: the caller's errors were reordered", c.name)
		}
	}
}

func TestPartsOf(t *testing.T) {
	group := func(dims ...int32) *dataset.Group {
		g := &dataset.Group{Operation: problem.Operation{Batch: 8192, Optimizer: problem.Adagrad, Precision: problem.FP16}}
		for _, d := range dims {
			g.Members = append(g.Members, dataset.Member{Dim: d})
		}
		return g
	}
	for _, c := range []struct {
		dims        []int32
		cv          float64
		want, lanes string
	}{
		{[]int32{12, 12}, 0, "equal", "8"},
		{[]int32{64}, .5, "equal", "16"},
		{[]int32{4, 32, 8}, 0, "powers of two to 32", "8"},
		{[]int32{4, 128}, 0, "powers of two", "full"},
		{[]int32{4, 2048, 12}, 3, "any multiples of 4", "wide"},
	} {
		tables := []problem.Table{{Features: []problem.Feature{{PoolingFactor: 1, LengthCV: c.cv}}}}
		bags := "of equal lengths"
		if c.cv > 0 {
			bags = "of unequal lengths"
		}
		got := map[string]string{}
		for _, p := range partsOf(&hardware.Profile{}, tables, group(c.dims...)) {
			got[p[0]] = strings.ReplaceAll(p[1], " ", "")
		}
		want := map[string]string{
			"shards": "1-5", "dims": strings.ReplaceAll(c.want, " ", ""), "batch": "8192-32767",
			"optimizer": "adagrad", "precision": "fp16", "weighted": "false",
			"lanes": c.lanes, "bags": strings.ReplaceAll(bags, " ", ""),
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("dims %v: got %v, want %v", c.dims, got, want)
		}
	}
}
