package step_test

import (
	"slices"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/step"
)

// TestStackChanges changes one part of each preset at a time.
func TestStackChanges(t *testing.T) {
	format := problem.BF16
	for _, name := range step.StackNames() {
		for want, change := range map[string]func(*step.Stack){
			"":         func(*step.Stack) {},
			"forward":  func(s *step.Stack) { s.Forward = &format },
			"backward": func(s *step.Stack) { s.Backward = &format },
			"exchange": func(s *step.Stack) {
				s.Exchange = map[bool]step.Exchange{true: step.Uniform, false: step.Flat}[s.Exchange == step.Flat]
			},
			"overlap":   func(s *step.Stack) { s.Overlaps.Optimizer = !s.Overlaps.Optimizer },
			"launch":    func(s *step.Stack) { s.Launch = simulate.Eager + simulate.Graph - s.Launch },
			"sharp":     func(s *step.Stack) { s.SHARP = !s.SHARP },
			"constants": func(s *step.Stack) { s.Constants.Fixed++ },
		} {
			s := must.Get(step.StackByName(name))(t)
			change(&s)
			var changes []string
			title := name
			if want != "" {
				changes, title = []string{want}, name+" changed in "+want
			}
			if got := s.Changes(); !slices.Equal(got, changes) || s.Title() != title {
				t.Errorf("%s: got changes %v and title %q, want %v and %q", name, got, s.Title(), changes, title)
			}
		}
	}
	own := step.Stack{Name: "my own"}
	if got := own.Changes(); got != nil || own.Title() != "my own" {
		t.Errorf("got changes %v and title %q of a stack that is no preset, want none", got, own.Title())
	}
}
