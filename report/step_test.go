package report_test

import (
	"bytes"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/step"
)

// wholeSteps are the reports of whole steps: one where all is known, one where little is, and those
// that a measured step or a loader decides.
func wholeSteps() []goldenCase {
	r, _ := result(4, 7)
	write := func(change func(*neuroshard.Step)) func(b *bytes.Buffer) error {
		return func(b *bytes.Buffer) error {
			s := wholeStep()
			change(s)
			return report.Step(b, r.Plan, s, []string{"a doubt"}, report.Options{})
		}
	}
	little := func(s *neuroshard.Step) {
		s.ErrorPercent, s.PricePerBillion, s.Input.PricePerHour, s.Size, s.Bound = 0, 0, 0, nil, step.BoundDense
	}
	return []goldenCase{
		{"step", write(func(s *neuroshard.Step) { s.Input.Samples, s.EpochMinutes = 4195197692, 4.296 })},
		{"step_little", write(little)},
		{"step_unseen", write(func(s *neuroshard.Step) { s.Unseen = true })},
		{"step_calibrated", write(func(s *neuroshard.Step) {
			s.Calibrated, s.Scaled, s.Input.Measured.Step, s.Input.Samples, s.EpochMinutes = true, true, 4.1, 999_950, .0012
		})},
		{"step_loader", write(func(s *neuroshard.Step) {
			s.Bound, s.SamplesPerSecond, s.PricePerBillion, s.Input.Samples, s.EpochMinutes = step.BoundLoader, 1234, .001234, 1e15, 1102.3
		})},
		{"step_json", func(b *bytes.Buffer) error { return report.StepJSON(b, wholeStep(), []string{"a doubt"}) }},
		{"step_little_json", func(b *bytes.Buffer) error {
			s := wholeStep()
			little(s)
			return report.StepJSON(b, s, nil)
		}},
	}
}

// wholeStep returns a made-up step, and that of the baseline size.
func wholeStep() *neuroshard.Step {
	size := step.Times{Step: 6, Embedding: 4, SamplesPerSecond: 10e6}
	stack, err := step.StackByName("hugectr")
	if err != nil {
		panic(err)
	}
	return &neuroshard.Step{
		Times: step.Times{
			Step: 4, Embedding: 2, Dense: 1.5, AllReduce: 0.5, Hidden: 0.1, SamplesPerSecond: 15.12e6, InputBytesPerSecond: 13.4e9,
			PricePerBillion: 0.4336, Bound: step.BoundLookups, ErrorPercent: 9.2,
		},
		Input: step.Input{Stack: stack, PricePerHour: 2.95},
		Size:  &size,
	}
}
