package train_test

import (
	"testing"

	"github.com/neuroshard/neuroshard/internal/f32"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/lab/train"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// With the zero Options, a training run on simulated data gives the same bytes as
// when the shipped models were made, so that their commands can make them again. A
// change here changes all shipped models. Other builds round differently.
func TestZeroOptionsKeepTheirBytes(t *testing.T) {
	if !f32.Assembly() {
		t.Skip("this build or processor lacks the instructions that the shipped models were made with")
	}
	hw := must.Get(hardware.ByName("a100-80"))(t)
	if m, _ := fit(t, few(t, hw, 400), hw, train.Options{}); m.Manifest.ID != "a100-80-2c04ad5b43e1" {
		t.Errorf("exchanges in one host: got model %s, want a100-80-2c04ad5b43e1", m.Manifest.ID)
	}
	if m, _ := fit(t, simulated(t, hw, 60, 200), hw, train.Options{}); m.Manifest.ID != "a100-80-8d8f4420b78c" {
		t.Errorf("exchanges of all kinds: got model %s, want a100-80-8d8f4420b78c", m.Manifest.ID)
	}
}
