package workload

import (
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// The tolerances that a pool is promised to keep.
const (
	relativeTolerance = 0.10
	classTolerance    = 0.01
)

func TestPoolMatchesPublishedLocality(t *testing.T) { poolsMatchPublishedLocality(t, 20) }

func poolsMatchPublishedLocality(t *testing.T, seeds uint64) {
	for seed := range seeds {
		checkLocality(t, seed)
	}
}

func TestPoolMatchesPublishedLocalityForAnySeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkLocality(t, rapid.Uint64().Draw(t, "seed")) })
}

type reporter interface {
	Errorf(format string, args ...any)
}

func checkLocality(t reporter, seed uint64) {
	want := PublishedLocality()
	got := totals(Pool(seed))
	if got.Tables != want.Tables {
		t.Errorf("seed %d: got %d tables, want %d", seed, got.Tables, want.Tables)
	}
	within := func(what string, got, want float64) {
		if !(math.Abs(got/want-1) <= relativeTolerance) {
			t.Errorf("seed %d: got %s %v, want %v within 10 %%", seed, what, got, want)
		}
	}
	within("mean pooling factor", got.MeanPoolingFactor(), want.MeanPoolingFactor())
	within("unique share", got.UniqueShare(), want.UniqueShare())
	for j := range access.Classes {
		if !(math.Abs(got.RowShare[j]-want.RowShare[j]) <= classTolerance) {
			t.Errorf("seed %d, class %d: got row share %v, want %v", seed, j, got.RowShare[j], want.RowShare[j])
		}
		if !(math.Abs(got.IndexShare[j]-want.IndexShare[j]) <= classTolerance) {
			t.Errorf("seed %d, class %d: got index share %v, want %v", seed, j, got.IndexShare[j], want.IndexShare[j])
		}
	}
}

// totals sums up a pool table by table: no cap on
// the distinct rows, index shares out of all lookups.
func totals(pool []problem.Table) Locality {
	l := Locality{Tables: len(pool), Batch: 65536}
	for _, t := range pool {
		lookups := 65536 * t.Features[0].PoolingFactor
		unique := lookups / meanUse(t)
		l.Indices += lookups
		l.UniqueRows += unique
		for j, p := range t.Access.Reuse {
			l.RowShare[j] += unique * p
			l.IndexShare[j] += unique * p * access.ClassMean(j)
		}
	}
	for j := range l.RowShare {
		l.RowShare[j] /= l.UniqueRows
		l.IndexShare[j] /= l.Indices
	}
	return l
}

func meanUse(t problem.Table) float64 {
	mean := 0.0
	for j, p := range t.Access.Reuse {
		mean += p * access.ClassMean(j)
	}
	return mean
}

func TestPoolTablesAreSound(t *testing.T) {
	for seed := range uint64(20) {
		pool := Pool(seed)
		p := problem.Problem{Tables: pool, Batch: 65536, Topology: oneDevice(t)}
		if err := p.Validate(); err != nil {
			t.Fatalf("seed %d: got an invalid problem, want a valid one: %v", seed, err)
		}
		hot, cold, heavy, small, large := 0, 0, 0, 0, 0
		for _, table := range pool {
			lookups := 65536 * table.PoolingFactor()
			if unique := lookups / meanUse(table); unique > float64(table.Rows) {
				t.Errorf("seed %d, table %s: got %v distinct rows of %d, want no more than there are", seed, table.Name, unique, table.Rows)
			}
			if table.Rows < minRows || table.Rows > 3e7 {
				t.Errorf("seed %d, table %s: got %d rows, want 1e3 to 3e7", seed, table.Name, table.Rows)
			}
			if f := table.PoolingFactor(); f < minPooling || f > maxPooling {
				t.Errorf("seed %d, table %s: got pooling factor %v, want %v to %v", seed, table.Name, f, minPooling, maxPooling)
			}
			if table.Dim != PoolDim || table.Optimizer != problem.SGD || table.Precision != problem.FP32 {
				t.Errorf("seed %d, table %s: got dim %d, %v, %v, want %d, sgd, fp32", seed, table.Name, table.Dim, table.Optimizer, table.Precision, PoolDim)
			}
			sum := 0.0
			for j, share := range table.Access.Reuse {
				sum += share
				if least := math.Exp2(float64(j - 1)); share > 0 && j > 1 && least > lookups {
					t.Errorf("seed %d, table %s: got rows used more than %v times in %v lookups, want none", seed, table.Name, least, lookups)
				}
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Errorf("seed %d, table %s: got shares that add up to %v, want 1", seed, table.Name, sum)
			}
			count(&hot, meanUse(table) > 100)
			count(&cold, meanUse(table) < 2)
			count(&heavy, table.PoolingFactor() > 100)
			count(&small, table.Rows < 20_000)
			count(&large, table.Rows > 5_000_000)
		}
		for what, n := range map[string]int{"hot": hot, "cold": cold, "heavy": heavy, "small": small, "large": large} {
			if n < 4 || n > 300 {
				t.Errorf("seed %d: got %d %s tables, want 4 to 300: the pool should be mixed", seed, n, what)
			}
		}
	}
}

func count(n *int, holds bool) {
	if holds {
		*n++
	}
}

func oneDevice(t *testing.T) hardware.Topology {
	t.Helper()
	profile := must.Get(hardware.ByName("a100-80"))(t)
	return hardware.Topology{Profile: profile, Devices: 1}
}

func TestPoolIsAFunctionOfItsSeed(t *testing.T) {
	if a, b := Pool(7), Pool(7); !reflect.DeepEqual(a, b) {
		t.Error("got two different pools from one seed, want one")
	}
	if a, b := Pool(7), Pool(8); reflect.DeepEqual(a, b) {
		t.Error("got the same pool from seeds 7 and 8, want two")
	}
}

func TestTargetIsConsistent(t *testing.T) {
	l := PublishedLocality()
	aim := newTarget(l)
	rows, indices, mean := 0.0, 0.0, 0.0
	for j := range access.Classes {
		rows += aim.rowShare[j]
		indices += aim.indexShare[j]
		mean += aim.rowShare[j] * access.ClassMean(j)
		if aim.rowShare[j] <= 0 {
			t.Errorf("class %d: got row share %v, want more than 0", j, aim.rowShare[j])
		}
	}
	for what, difference := range map[string]float64{"row shares": rows - 1, "index shares": indices - 1, "mean use": mean/aim.meanUse - 1} {
		if math.Abs(difference) > 1e-9 {
			t.Errorf("%s: got a sum off by %v, want none", what, difference)
		}
	}
}

func BenchmarkPool(b *testing.B) {
	for b.Loop() {
		Pool(1)
	}
}
