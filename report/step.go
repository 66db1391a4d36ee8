package report

import (
	"fmt"
	"io"
	"math"
	"strconv"

	neuroshard "github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// step.go writes the whole training step of a plan.

// Step writes the whole training step of a plan: four lines, and the warnings.
func Step(w io.Writer, pl *plan.Plan, s *neuroshard.Step, warnings []string, opt Options) error {
	v := newView(w, pl, opt)
	v.title(Title(pl))
	wholeStep(v, s)
	v.printf("\n")
	v.end(warningsOf(pl, warnings))
	return v.err
}

// wholeStep writes the four lines of a step. Each time, throughput and price has its error
// bar.
func wholeStep(v *view, s *neuroshard.Step) {
	bar := errorBar(s.Times)
	v.printf("step            %v%s: embeddings %v (%s), dense %v, all-reduce %v%s, hidden %v; %s (SIMULATED; %s)\n",
		s.Step, bar, s.Embedding, percent(float64(s.Embedding), float64(s.Step)), s.Dense, s.AllReduce, synced(s), s.Hidden, limit(s.Bound), trust(s))
	v.printf("throughput      %s samples/s%s%s, needs %v of input\n", large(s.SamplesPerSecond), bar, epoch(s), unit.Bandwidth(s.InputBytesPerSecond))
	c := v.plan.Cluster
	if rate := s.Input.PricePerHour; rate > 0 {
		v.printf("price           %d x %s at $%s an hour (given): $%s per 1e9 samples%s\n", c.Devices*c.ReplicaCount(), name(c.Profile), money(rate), money(s.PricePerBillion), bar)
	} else {
		v.printf("price           not known: state what one of the %d x %s costs an hour, with --set price=PRICE\n", c.Devices*c.ReplicaCount(), name(c.Profile))
	}
	if s.Size == nil {
		v.printf("against size    not compared with the plan of baseline size\n")
		return
	}
	v.printf("against size    embeddings %s, step %s, throughput %s (SIMULATED)\n", change(float64(s.Embedding), float64(s.Size.Embedding)),
		change(float64(s.Step), float64(s.Size.Step)), change(s.SamplesPerSecond, s.Size.SamplesPerSecond))
}

// synced says what the all-reduce of the replicas takes of a step, if there is one.
func synced(s *neuroshard.Step) string {
	if s.Sync == 0 {
		return ""
	}
	return fmt.Sprintf(", sync of replicas %v", s.Sync)
}

// errorBar writes the error of a step behind a number. The measured step itself has none.
func errorBar(t step.Times) string {
	switch {
	case t.Measured:
		return " (measured)"
	case t.ErrorPercent > 0:
		return fmt.Sprintf(" ± %.0f %%", math.Ceil(t.ErrorPercent))
	}
	return " ± unknown"
}

// trust says what the error bar of a step rests on.
func trust(s *neuroshard.Step) string {
	stack := s.Input.Stack.Title()
	switch {
	case s.Unloaded:
		return fmt.Sprintf("%s; the measured step of %v is shorter than the loader allows: it was measured with another loader, or without one", stack, s.Input.Measured.Step)
	case s.Bound == step.BoundLoader:
		return stack + "; the time follows from the loader's bandwidth, and no measured step confirms it"
	case s.Scaled:
		return fmt.Sprintf("%s, calibrated by a measured step of %v, which is shorter than the predicted embeddings: all times are scaled to it", stack, s.Input.Measured.Step)
	case s.Calibrated:
		return fmt.Sprintf("%s, calibrated by a measured step of %v", stack, s.Input.Measured.Step)
	case s.Unseen:
		return fmt.Sprintf("%s, fitted to measured steps of other GPUs or fewer hosts: docs/RESULTS.md", stack)
	case s.ErrorPercent > 0:
		return fmt.Sprintf("%s, fitted to measured steps: docs/RESULTS.md", stack)
	}
	return fmt.Sprintf("%s, whose constants no measured step confirms: measure one step and add step", stack)
}

// limit says what takes most of a step.
func limit(b step.Bound) string {
	switch b {
	case step.BoundLoader:
		return "the loader allows no shorter step"
	case step.BoundHost:
		return "the host's launches allow no shorter step"
	case step.BoundAllReduce:
		return "most of it is the all-reduce"
	case step.BoundDense:
		return "most of it is the dense part"
	}
	return "most of it is " + string(b)
}

// epoch says how long an epoch takes, if the number of its samples is known.
func epoch(s *neuroshard.Step) string {
	if s.Input.Samples == 0 {
		return ""
	}
	return fmt.Sprintf(", %s min an epoch of %s samples", minutes(s.EpochMinutes), large(float64(s.Input.Samples)))
}

// minutes prints a time in minutes: 4.3, whole minutes if it is above ten, and two digits if
// it is below one.
func minutes(v float64) string {
	switch {
	case v >= 9.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 0.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// large prints a number with three digits and a prefix: 15.1 M. A number below a thousand has
// no prefix, and no zeros at its end.
func large(v float64) string {
	for _, p := range []struct {
		name string
		size float64
	}{{" P", 1e15}, {" T", 1e12}, {" G", 1e9}, {" M", 1e6}, {" k", 1e3}} {
		switch part := v / p.size; {
		case part >= 99.95:
			return strconv.FormatFloat(part, 'f', 0, 64) + p.name
		case part >= 9.995:
			return strconv.FormatFloat(part, 'f', 1, 64) + p.name
		case part >= 0.9995:
			return strconv.FormatFloat(part, 'f', 2, 64) + p.name
		}
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// money prints a price with two decimals, or with two digits if it is below a cent.
func money(v float64) string {
	if v < 0.01 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// change prints by how much a number is above or below another one.
func change(now, before float64) string {
	if !(before > 0) {
		return "-"
	}
	return fmt.Sprintf("%+.0f %%", 100*(now/before-1))
}

// reserve reports what is kept free of tables, if it was computed from the dense part.
func reserve(v *view, s *neuroshard.Step, p *problem.Problem) {
	if s == nil || p == nil || s.Input.Dense == nil {
		return
	}
	t, d := p.Topology, s.Input.Dense.Of(p)
	takes, _ := d.Memory(t.Devices, p.Batch)
	if takes != t.ReserveFixed {
		return
	}
	of := "each device"
	if len(t.DeviceMemories) > 0 {
		of = fmt.Sprintf("device %d", t.Smallest())
	}
	kept := t.Reserve(t.Smallest())
	v.printf("reserve    %v of %s: %v for the dense part (%s: weights, gradients, optimizer state), %v for the runtime (%s, assumed)\n",
		kept, of, takes, parallel(d), kept-takes, percent(t.KeptShare(), 1))
}

func parallel(d step.Dense) string {
	if d.Parallel == step.FSDP {
		return "FSDP"
	}
	return "DDP"
}

// stepJSON is a step as JSON. EpochMinutes is absent if the number of samples of an epoch is
// not known. Price is null if no price is given, and Error if the error of the step is not
// known; it is 0 for the measured step itself.
type stepJSON struct {
	Step                unit.Millis `json:"ms"`
	Embedding           unit.Millis `json:"embedding_ms"`
	Dense               unit.Millis `json:"dense_ms"`
	AllReduce           unit.Millis `json:"allreduce_ms"`
	Sync                unit.Millis `json:"sync_ms,omitempty"`
	Hidden              unit.Millis `json:"hidden_ms"`
	SamplesPerSecond    float64     `json:"samples_per_second"`
	InputBytesPerSecond float64     `json:"input_bytes_per_second"`
	EpochMinutes        float64     `json:"epoch_minutes,omitempty"`
	PricePerBillion     *float64    `json:"price_per_1e9_samples"`
	Bound               step.Bound  `json:"bound_by"`
	Calibrated          bool        `json:"calibrated"`
	Error               *float64    `json:"error_percent"`
}

func stepOf(t step.Times) stepJSON {
	s := stepJSON{
		Step: t.Step, Embedding: t.Embedding, Dense: t.Dense, AllReduce: t.AllReduce, Sync: t.Sync, Hidden: t.Hidden,
		SamplesPerSecond: t.SamplesPerSecond, InputBytesPerSecond: t.InputBytesPerSecond, EpochMinutes: t.EpochMinutes, Bound: t.Bound, Calibrated: t.Calibrated,
	}
	if t.PricePerBillion > 0 {
		s.PricePerBillion = &t.PricePerBillion
	}
	if t.ErrorPercent > 0 || t.Measured {
		s.Error = &t.ErrorPercent
	}
	return s
}

// StepObject is the whole training step of a plan: Terms are its parts before anything is hidden,
// Size is the step of the plan of baseline size, or nil, and Changes are the parts of the stack
// that differ from the preset's. No time of the embeddings is measured.
type StepObject struct {
	Step    stepJSON   `json:"step"`
	Terms   step.Terms `json:"terms"`
	Size    *stepJSON  `json:"size"`
	Stack   string     `json:"stack"`
	Changes []string   `json:"stack_changes"`
	Source  string     `json:"source"` // "simulated"
}

// StepJSON writes the whole training step of a plan as one object, with what had to be assumed.
func StepJSON(w io.Writer, s *neuroshard.Step, warnings []string) error {
	return writeObject(w, struct {
		*StepObject
		Warnings []string `json:"warnings"`
	}{NewStepObject(s), append([]string{}, warnings...)})
}

// NewStepObject returns the object of a step.
func NewStepObject(s *neuroshard.Step) *StepObject {
	o := &StepObject{Step: stepOf(s.Times), Terms: s.Terms, Stack: s.Input.Stack.Name, Changes: append([]string{}, s.Input.Stack.Changes()...), Source: simulated}
	if s.Size != nil {
		other := stepOf(*s.Size)
		o.Size = &other
	}
	return o
}
