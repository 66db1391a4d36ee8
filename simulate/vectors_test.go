package simulate

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"testing"
)

// TestVectors compares every published case with its expected value.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/simulated_device_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	type times struct {
		Compute []struct {
			ID                int
			Forward, Backward float64
		}
		Comm []struct {
			ID                int
			Forward, Backward []float64
		}
	}
	read := func(text []byte) (v times) {
		text = bytes.ReplaceAll(text, []byte(`"forward_ms"`), []byte(`"forward"`))
		text = bytes.ReplaceAll(text, []byte(`"backward_ms"`), []byte(`"backward"`))
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	var out bytes.Buffer
	if err := RunCases(bytes.NewReader(text), &out); err != nil {
		t.Fatal(err)
	}
	got, want := read(out.Bytes()), read(text)
	if len(got.Compute) != len(want.Compute) || len(want.Compute) != 140 || len(got.Comm) != len(want.Comm) || len(want.Comm) != 40 {
		t.Fatalf("got %d compute and %d comm results, want 140 and 40", len(got.Compute), len(got.Comm))
	}
	worst := 0.0
	same := func(what string, id int, got, want float64) {
		worst = math.Max(worst, difference(t, what, id, got, want))
	}
	for i, w := range want.Compute {
		g := got.Compute[i]
		if g.ID != w.ID {
			t.Fatalf("compute result %d: got id %d, want %d", i, g.ID, w.ID)
		}
		same("forward", w.ID, g.Forward, w.Forward)
		same("backward", w.ID, g.Backward, w.Backward)
	}
	for i, w := range want.Comm {
		g := got.Comm[i]
		if g.ID != w.ID || len(g.Forward) != len(w.Forward) || len(g.Backward) != len(w.Backward) {
			t.Fatalf("comm result %d: got id %d of %d ranks, want %d of %d", i, g.ID, len(g.Forward), w.ID, len(w.Forward))
		}
		for r := range w.Forward {
			same("forward comm", w.ID, g.Forward[r], w.Forward[r])
			same("backward comm", w.ID, g.Backward[r], w.Backward[r])
		}
	}
	t.Logf("worst relative difference %.1e", worst)
}

// difference returns the relative difference of two times, which must be at most 1e-9.
func difference(t *testing.T, what string, id int, got, want float64) float64 {
	off := math.Abs(got-want) / math.Max(math.Abs(want), 1e-300)
	if got == want {
		off = 0
	}
	if !(off <= 1e-9) {
		t.Errorf("%s of case %d: got %v ms, want %v ms", what, id, got, want)
	}
	return off
}
