package step

import (
	"fmt"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// stack.go describes training systems: what they exchange, what they overlap, and the
// constants of their steps.

// Exchange is how the pooled vectors and their gradients travel.
type Exchange string

// The exchanges.
const (
	// Flat is TorchRec's: an all-to-all of whole vectors, and the collectives of the other
	// sharding types, as package simulate estimates them.
	Flat Exchange = "flat"
	// Uniform is HugeCTR's all-to-all over all devices: a device sends a vector for each
	// sample and each shard that it holds, also for a block of rows, and the receiver adds
	// the vectors of a table.
	Uniform Exchange = "uniform"
	// Hierarchical is HugeCTR's exchange in two steps: partial sums are reduced inside each
	// host, and then one vector for each sample, table and host travels between the devices
	// of the same place in each host.
	Hierarchical Exchange = "hierarchical"
)

// Exchanges returns the names of all exchanges. The slice is the caller's.
func Exchanges() []Exchange { return []Exchange{Flat, Uniform, Hierarchical} }

// Overlaps says which work of a step runs beside other work.
type Overlaps struct {
	// Input hides the copies to the devices and the exchange of indices beside the step
	// before.
	Input bool `json:"input"`
	// Forward runs the forward exchange beside the bottom MLP and the lookups of replicas,
	// Backward the backward exchange beside the backward of both.
	Forward  bool `json:"forward"`
	Backward bool `json:"backward"`
	// Sort hides the preparation and the sort of indices, and the fixed times of lookups,
	// beside the dense part.
	Sort bool `json:"sort"`
	// Optimizer runs the update of the dense part beside the next step's lookups.
	Optimizer bool `json:"optimizer"`
	// Stale lets embeddings be one step old: the exchanges run beside the whole dense part.
	Stale bool `json:"stale"`
}

// Constants are what a stack's steps depend on beside sizes and data-sheet figures. Shares
// are above 0 and at most 1 unless stated.
type Constants struct {
	// Lookups is a factor on the simulated device's times of lookups.
	Lookups float64
	// GEMM is the share of the best product's rate (Rates.Best) that a step's products reach.
	GEMM float64
	// Stream is the share of the peak memory bandwidth that activations and weights reach.
	Stream float64
	// Passes is how often a step reads or writes each activation: 10 to 12 if operators
	// are not fused, 5 to 6 if they are.
	Passes float64
	// Fixed is the time of a step that no size explains.
	Fixed unit.Millis
	// Inside and Between are factors on the bandwidths inside hosts and between hosts that
	// exchanges of the simulated device reach; they may be above 1. Under the flat exchange,
	// they hold for the dense part's all-reduce alone.
	Inside, Between float64
	// Sent is the share of the vectors that travel under HugeCTR's exchanges: below 1 if
	// devices keep copies of often used rows. The flat exchange sends all.
	Sent float64
	// Exposed is the share of the dense part's all-reduce that nothing hides.
	Exposed float64
	// Latency is the fixed time of a collective between hosts.
	Latency unit.Millis
	// Launches is the time that the host needs for a step's launches: no step is shorter.
	// It is 0 if the step is replayed as a graph.
	Launches unit.Millis
}

// ErrorBar is the error of a stack's step times, in percent: the worst error of a table of
// docs/RESULTS.md, rounded up to a multiple of 10. 0 means that it is not known.
type ErrorBar struct {
	// OneHost and Hosts are for clusters of one host and of several hosts, of the GPUs whose steps
	// were measured there: OneHostGPUs and HostsGPUs, the chips' names.
	OneHost, Hosts         float64
	OneHostGPUs, HostsGPUs []string
	// UnseenOneHost and UnseenHosts are for other GPUs.
	UnseenOneHost, UnseenHosts float64
	// Calibrated is for calibrated steps on the same number of hosts as the measured step, and
	// Carried for those on another number.
	Calibrated, Carried float64
}

// Stack is a training system.
type Stack struct {
	// Name is the preset's name, or empty. Some parts may differ from the preset's (Changes).
	Name string
	// Forward and Backward are the number formats of the exchanges of pooled vectors and of
	// gradients. nil takes the problem's CommPrecision.
	Forward, Backward *problem.Precision
	// Exchange is one of Exchanges.
	Exchange Exchange
	// IndexBytes is the size of an index, and LengthBytes that of a bag's length in the
	// input, 0 if the input has none.
	IndexBytes, LengthBytes int
	// Overlaps says what runs beside what.
	Overlaps Overlaps
	// Launch says whether the host launches each kernel or replays a graph.
	Launch simulate.LaunchMode
	// HugeCTR says that lookups run the kernels of HugeCTR's embedding collection, not
	// FBGEMM's.
	HugeCTR bool
	// SHARP halves the all-reduce between hosts: the switches add.
	SHARP bool
	// Constants are the constants of the times.
	Constants Constants
	// Known says that the constants were fitted to measured steps of this stack. The steps
	// of other stacks are unknown without a measured one.
	Known bool
	// Error is the error bar.
	Error ErrorBar
}

// half returns a pointer to FP16.
func half() *problem.Precision { p := problem.FP16; return &p }

// eager are the constants of PyTorch without graphs and without fused activations. Fixed and
// Launches are the medians of three GPUs that are fitted to the steps of HiPC 2022
// (docs/RESULTS.md); the others are published.
var eager = Constants{
	Lookups: 1, GEMM: 0.69, Stream: 0.8, Passes: 11, Fixed: 2.85, Inside: 1, Between: 1, Sent: 1,
	Exposed: 0.5, Launches: 4.9,
}

// fitted are HugeCTR's constants. Fixed is fitted to MLPerf's systems of one host
// (docs/RESULTS.md); the others are within the ranges that sources publish, and
// were set by hand.
var fitted = Constants{
	Lookups: 1, GEMM: 0.77, Stream: 0.8, Passes: 6.5, Fixed: 0.485, Inside: 1, Between: 1, Sent: 1,
	Exposed: 0.5, Latency: 0.06,
}

// stacks are the presets.
var stacks = []Stack{
	torchrec("torchrec-base", Overlaps{}),
	torchrec("torchrec-sparse", Overlaps{Input: true}),
	torchrec("torchrec-fused", Overlaps{Input: true, Optimizer: true}),
	torchrec("torchrec-semisync", Overlaps{Input: true, Optimizer: true, Stale: true}),
	hugectr("hugectr", Uniform),
	hugectr("hugectr-hierarchical", Hierarchical),
	hybrid(),
}

func torchrec(name string, overlaps Overlaps) Stack {
	return Stack{
		Name: name, Exchange: Flat, IndexBytes: problem.IndexBytes, LengthBytes: 4,
		Overlaps: overlaps, Launch: simulate.Eager, Constants: eager, Error: UnknownError(),
	}
}

func hugectr(name string, exchange Exchange) Stack {
	return Stack{
		Name: name, Forward: half(), Backward: half(), Exchange: exchange, IndexBytes: 4,
		Overlaps: Overlaps{Input: true, Forward: true, Backward: true, Sort: true},
		Launch:   simulate.Graph, HugeCTR: true, SHARP: exchange == Hierarchical, Constants: fitted, Known: true,
		Error: ErrorBar{
			OneHost: 10, OneHostGPUs: []string{"a100", "h100", "h200"}, Hosts: 20, HostsGPUs: []string{"h100"},
			UnseenOneHost: 20, UnseenHosts: 40, Calibrated: 10, Carried: 10,
		},
	}
}

// hybrid is HugeCTR's hybrid embedding for models with one lookup a table: often used rows
// are on every device, and a step's fixed time is shorter. Fixed is fitted to MLPerf's systems
// of v1.1, Sent is set by hand. Its own kernels are assumed to take the time of FBGEMM's.
func hybrid() Stack {
	s := hugectr("hugectr-hybrid", Hierarchical)
	s.HugeCTR = false
	s.Constants.Fixed, s.Constants.Sent = 0.105, 0.2
	gpus := []string{"a100", "h100"}
	s.Error = UnknownError()
	s.Error.OneHost, s.Error.OneHostGPUs, s.Error.Hosts, s.Error.HostsGPUs = 20, gpus, 40, gpus
	s.Error.UnseenOneHost, s.Error.UnseenHosts = 20, 40
	return s
}

// UnknownError returns the error bar of a stack whose constants no measured step confirms: its
// steps are known only if they are calibrated. The bar is the worst error of other training
// systems, each calibrated by a step on another number of devices.
func UnknownError() ErrorBar { return ErrorBar{Calibrated: 60, Carried: 60} }

// Check returns an error that names each field of the stack that is out of range.
func (s *Stack) Check() error {
	var faults []string
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if !slices.Contains(Exchanges(), s.Exchange) {
		add("exchange %q is unknown: choose one of %s", s.Exchange, listed(Exchanges()))
	}
	if s.IndexBytes != 4 && s.IndexBytes != 8 {
		add("index bytes: %d is not 4 or 8", s.IndexBytes)
	}
	if s.LengthBytes < 0 || s.LengthBytes > 8 {
		add("length bytes: %d is not between 0 and 8", s.LengthBytes)
	}
	c := &s.Constants
	share := func(most float64) problem.Limits { return problem.Limits{Most: most, Above: true} }
	for _, v := range []struct {
		name  string
		value float64
		problem.Limits
	}{
		{"lookups", c.Lookups, share(100)},
		{"GEMM efficiency", c.GEMM, share(1)},
		{"stream share", c.Stream, share(1)},
		{"share of the vectors that travel", c.Sent, share(1)},
		{"factor of the links inside hosts", c.Inside, share(10)},
		{"factor of the links between hosts", c.Between, share(10)},
		{"passes", c.Passes, problem.Limits{Most: 100}},
		{"fixed ms", float64(c.Fixed), problem.Limits{Most: 1e6}},
		{"exposed share", c.Exposed, problem.Limits{Most: 1}},
		{"latency ms", float64(c.Latency), problem.Limits{Most: 1e3}},
		{"launches ms", float64(c.Launches), problem.Limits{Most: 1e6}},
	} {
		if wrong := v.Wrong(v.value); wrong != "" {
			add("%s: %s", v.name, wrong)
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("stack: %s", strings.Join(faults, "\n"))
	}
	return nil
}

// StackByName returns the preset of exactly that name. The error lists all names.
func StackByName(name string) (Stack, error) {
	for i := range stacks {
		if stacks[i].Name == name {
			return stacks[i], nil
		}
	}
	return Stack{}, fmt.Errorf("stack %q is unknown: choose one of %s", name, strings.Join(StackNames(), ", "))
}

// Changes returns the parts that differ from those of the preset that the stack is named for, by
// their keys in a stack file; "constants" stands for all others. It is empty for a preset, and
// for a stack whose name is that of no preset. The slice is the caller's.
func (s *Stack) Changes() (changed []string) {
	preset, err := StackByName(s.Name)
	if err != nil {
		return nil
	}
	same := func(a, b *problem.Precision) bool { return a == b || a != nil && b != nil && *a == *b }
	constants, launches := s.Constants, s.Constants.Launches == preset.Constants.Launches
	constants.Launches = preset.Constants.Launches
	for _, part := range []struct {
		key  string
		same bool
	}{
		{"forward", same(s.Forward, preset.Forward)},
		{"backward", same(s.Backward, preset.Backward)},
		{"exchange", s.Exchange == preset.Exchange},
		{"overlap", s.Overlaps == preset.Overlaps},
		{"launch", s.Launch == preset.Launch && launches},
		{"sharp", s.SHARP == preset.SHARP},
		{"constants", constants == preset.Constants && s.IndexBytes == preset.IndexBytes && s.LengthBytes == preset.LengthBytes},
	} {
		if !part.same {
			changed = append(changed, part.key)
		}
	}
	return changed
}

// Title returns the name of the stack, with the parts that differ from those of the preset.
func (s *Stack) Title() string {
	changed := s.Changes()
	if len(changed) == 0 {
		return s.Name
	}
	return s.Name + " changed in " + strings.Join(changed, ", ")
}

// StackNames returns the names of all presets. The slice is the caller's.
func StackNames() []string {
	names := make([]string, len(stacks))
	for i := range stacks {
		names[i] = stacks[i].Name
	}
	return names
}

// Hierarchy returns the stack's exchange of vectors as a problem states it: zero if it is not
// hierarchical.
func (s *Stack) Hierarchy() problem.Hierarchy {
	if s.Exchange != Hierarchical {
		return problem.Hierarchy{}
	}
	c := &s.Constants
	return problem.Hierarchy{Sent: c.Sent, Inside: c.Inside, Between: c.Between, Latency: c.Latency}
}

// precisions returns the number formats of the exchanges forward and backward.
func (s *Stack) precisions(p *problem.Problem) (forward, backward problem.Precision) {
	forward, backward = p.CommPrecision, p.CommPrecision
	if s.Forward != nil {
		forward = *s.Forward
	}
	if s.Backward != nil {
		backward = *s.Backward
	}
	return forward, backward
}
