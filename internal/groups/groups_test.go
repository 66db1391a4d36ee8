package groups

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func TestKeysDoNotDependOnTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOf(rapid.IntRange(0, 1000)).Draw(t, "items")
		sum := func(items []int) (k Key) {
			for _, i := range items {
				k = k.Plus(KeyOf(i))
			}
			return k
		}
		k := sum(items)
		if got := sum(rapid.Permutation(items).Draw(t, "order")); got != k {
			t.Errorf("got %v in another order, want %v", got, k)
		}
		more := rapid.IntRange(0, 1000).Draw(t, "one more")
		with := k.Plus(KeyOf(more))
		if with == k || with.Minus(KeyOf(more)) != k {
			t.Errorf("got %v with item %d and %v again without, want another and %v", with, more, with.Minus(KeyOf(more)), k)
		}
	})
}

// TestKeysDiffer builds many small groups of items with neighbouring numbers:
// sums of poorly mixed numbers would coincide.
func TestKeysDiffer(t *testing.T) {
	known := map[Key][4]int{}
	for a := range 20 {
		for b := range a + 1 {
			for c := range b + 1 {
				for d := range c + 1 {
					k := KeyOf(a).Plus(KeyOf(b)).Plus(KeyOf(c)).Plus(KeyOf(d))
					if other, ok := known[k]; ok {
						t.Fatalf("items %v and %v share a key", [4]int{a, b, c, d}, other)
					}
					known[k] = [4]int{a, b, c, d}
				}
			}
		}
	}
}

// TestMemoIsAMap compares with a map, over more groups than the memo keeps.
func TestMemoIsAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var m Memo
	want := map[Key]float64{}
	answered := 0
	for range 3 * mostSlots {
		item := random.IntN(mostSlots)
		if random.IntN(2) == 0 {
			item = random.IntN(1000)
		}
		k := KeyOf(item)
		value, known := m.At(k)
		if known {
			answered++
			if *value != want[k] {
				t.Fatalf("item %d: got %v, want %v", item, *value, want[k])
			}
			continue
		}
		*value = random.Float64()
		want[k] = *value
	}
	if answered < mostSlots {
		t.Errorf("got %d of %d questions answered, want a third at least", answered, 3*mostSlots)
	}
	if len(m.slots) > mostSlots || m.count > mostSlots/4*3 {
		t.Errorf("got %d slots and %d groups, want at most %d slots, three quarters full", len(m.slots), m.count, mostSlots)
	}
}

// TestMemoRests asks for groups that never recur, then for one that always does.
func TestMemoRests(t *testing.T) {
	var m Memo
	for i := range window + 1 {
		v, known := m.At(KeyOf(i))
		if known {
			t.Fatalf("group %d is known before it was asked for", i)
		}
		*v = float64(i)
	}
	if m.idle == 0 {
		t.Fatal("nothing recurs, but the memo does not rest")
	}
	kept := m.count
	for i := range rest {
		if _, known := m.At(KeyOf(0)); known {
			t.Fatalf("question %d of the rest was looked up", i)
		}
	}
	if m.count != kept {
		t.Errorf("got %d groups after the rest, want the %d from before", m.count, kept)
	}
	if v, known := m.At(KeyOf(0)); !known || *v != 0 {
		t.Error("after the rest, the first group is forgotten")
	}
}

func BenchmarkMemo(b *testing.B) {
	for _, c := range []struct {
		name   string
		groups int
	}{{"few", 1 << 12}, {"many", 1 << 16}} {
		b.Run(c.name, func(b *testing.B) {
			var m Memo
			keys := make([]Key, c.groups)
			random := rand.New(rand.NewPCG(1, 2))
			for i := range keys {
				keys[i] = KeyOf(random.IntN(c.groups))
			}
			i := 0
			for b.Loop() {
				if v, known := m.At(keys[i]); !known {
					*v = 1
				}
				if i++; i == len(keys) {
					i = 0
				}
			}
		})
	}
}
