package simulate

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"testing"
)

// TestVectors compares stored cases with their expected values, which the second implementation computed.
func TestVectors(t *testing.T) {
	type times struct {
		Compute []struct {
			ID       int
			Forward  float64 `json:"forward_ms"`
			Backward float64 `json:"backward_ms"`
		}
		Comm []struct {
			ID       int
			Forward  []float64 `json:"forward_ms"`
			Backward []float64 `json:"backward_ms"`
		}
	}
	text, err := os.ReadFile("testdata/simulated_device_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := RunCases(bytes.NewReader(text), &out); err != nil {
		t.Fatal(err)
	}
	var got, want times
	for text, into := range map[*times][]byte{&got: out.Bytes(), &want: text} {
		if err := json.Unmarshal(into, text); err != nil {
			t.Fatal(err)
		}
	}
	if len(got.Compute) != len(want.Compute) || len(got.Comm) != len(want.Comm) {
		t.Fatalf("got %d and %d results, want %d and %d", len(got.Compute), len(got.Comm), len(want.Compute), len(want.Comm))
	}
	for i, w := range want.Compute {
		difference(t, "forward", w.ID, got.Compute[i].Forward, w.Forward)
		difference(t, "backward", w.ID, got.Compute[i].Backward, w.Backward)
	}
	for i, w := range want.Comm {
		for r := range w.Forward {
			difference(t, "forward comm", w.ID, got.Comm[i].Forward[r], w.Forward[r])
			difference(t, "backward comm", w.ID, got.Comm[i].Backward[r], w.Backward[r])
		}
	}
}

// difference fails the test if two times differ by more than 1e-9 of the second.
func difference(t *testing.T, what string, id int, got, want float64) {
	if got == want {
		return
	}
	if off := math.Abs(got-want) / math.Max(math.Abs(want), 1e-300); !(off <= 1e-9) {
		t.Errorf("%s of case %d: got %v ms, want %v ms", what, id, got, want)
	}
}
