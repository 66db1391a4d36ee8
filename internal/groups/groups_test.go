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
	const slots = len(line{}) * mostLines
	var m Memo
	want := map[Key]float32{}
	answered, often := 0, 0
	for range 10 * slots {
		item := random.IntN(4 * slots)
		recurs := random.IntN(2) == 0
		if recurs {
			item = random.IntN(1000)
			often++
		}
		k := KeyOf(item)
		value, known := m.At(k)
		if known {
			if recurs {
				answered++
			}
			if *value != want[k] {
				t.Fatalf("item %d: got %v, want %v", item, *value, want[k])
			}
			continue
		}
		*value = random.Float32()
		want[k] = *value
	}
	if answered < often*9/10 {
		t.Errorf("got %d of %d questions for the same thousand groups answered, want nine of ten", answered, often)
	}
	if len(m.lines) != mostLines {
		t.Errorf("got %d lines, want %d", len(m.lines), mostLines)
	}
}

// TestMemoGrows asks for fewer and for more groups, and for each again.
func TestMemoGrows(t *testing.T) {
	for n := 1; n < window; n *= 2 {
		var m Memo
		for i := range n {
			v, _ := m.At(KeyOf(i))
			*v = float32(i)
		}
		known := 0
		for i := range n {
			v, ok := m.At(KeyOf(i))
			if ok {
				known++
				if *v != float32(i) {
					t.Fatalf("%d groups, group %d: got %v", n, i, *v)
				}
			}
			*v = float32(i)
		}
		if known < n*2/3 {
			t.Errorf("%d groups: got %d known, want two of three", n, known)
		}
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
		*v = float32(i)
	}
	if m.idle == 0 {
		t.Fatal("nothing recurs, but the memo does not rest")
	}
	kept := m.added
	for i := range rest {
		if _, known := m.At(KeyOf(0)); known {
			t.Fatalf("question %d of the rest was looked up", i)
		}
	}
	if m.added != kept {
		t.Errorf("got %d groups after the rest, want the %d from before", m.added, kept)
	}
	if v, known := m.At(KeyOf(window)); !known || *v != window {
		t.Error("after the rest, the last group is forgotten")
	}
}
