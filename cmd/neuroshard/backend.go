package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// measure.go has what the commands share that take times: which meter, and how.

// The meters that --backend names.
const (
	backendCPU       = "cpu"
	backendWorker    = "worker"
	backendSimulated = "simulated"
)

// backendFlags choose a meter.
type backendFlags struct {
	set *pflag.FlagSet

	meter, worker, profile  string
	threads, warmup, repeat int
	flush                   size
	warm, fastest           bool
	deadline                time.Duration
	seed                    uint64

	// pools are the files with the tables' lookups, where they are those of a trace.
	pools []string
	trace string
}

func (m *backendFlags) register(cmd *cobra.Command) {
	m.set = cmd.Flags()
	f := cmd.Flags()
	f.StringVar(&m.meter, "backend", "", "what takes the times: cpu, worker or simulated")
	f.StringVar(&m.worker, "worker", "", "`command` of the worker, with its arguments (docs/PROTOCOL.md)")
	f.StringVar(&m.profile, "profile", "", "`name` of the device: a hardware profile, or a new one for a device that has none (default: cpu)")
	f.IntVar(&m.threads, "threads", 0, "threads of one device of the CPU meter (default: all cores)")
	f.IntVar(&m.warmup, "warmup", 1, "runs of a sample before it is timed")
	f.IntVar(&m.repeat, "repeats", 3, "timed runs of a sample; its time is their median")
	f.Var(&m.flush, "flush", "what is written before each run to flush the caches (default: four times the last cache, at most 256MiB on a CPU)")
	f.BoolVar(&m.warm, "warm", false, "do not flush the caches")
	f.BoolVar(&m.fastest, "fastest", false, "take the fastest of several passes or runs instead of their median: for machines that do other work, too")
	f.DurationVar(&m.deadline, "deadline", time.Minute, "time after which a sample's worker is taken for hung")
	complete(cmd, "backend", func() []string { return []string{backendCPU, backendWorker, backendSimulated} })
	complete(cmd, "profile", hardware.Names)
}

// check reports flags that do not go together.
func (m *backendFlags) check(command string) error {
	usage := func(hint, format string, args ...any) error {
		return usagef(hint, command+": "+format, args...)
	}
	switch m.meter {
	case "":
		return usage("take this machine's CPU with --backend cpu, a GPU with --backend worker", "--backend is missing")
	case backendCPU, backendWorker, backendSimulated:
	default:
		return usage("choose cpu, worker or simulated", "--backend: %q is unknown", m.meter)
	}
	if (m.meter == backendWorker) != (m.worker != "") {
		return usage(`for example: --backend worker --worker "python3 -m neuroshard_worker"`, "--backend worker and --worker go together")
	}
	if m.meter == backendSimulated && !hardware.Known(m.profile) {
		return usage("choose one of "+strings.Join(hardware.Names(), ", "), "--profile: the simulated device needs a known profile, and %q is none", m.profile)
	}
	if m.meter == backendCPU && hardware.Known(m.profile) {
		return usage("choose another name, or leave it out", "--profile: %q is a GPU's, and the times would be this CPU's", m.profile)
	}
	if m.warm && m.set.Changed("flush") {
		return usage("leave one of them out", "--warm and --flush do not go together")
	}
	if m.repeat < 1 || m.warmup < 0 || m.threads < 0 || m.deadline <= 0 {
		return usage("", "--repeats %d, --warmup %d, --threads %d, --deadline %v: there must be one repeat at least, and none may be negative", m.repeat, m.warmup, m.threads, m.deadline)
	}
	return nil
}

// command returns what starts the worker.
func (m *backendFlags) command() ([]string, error) {
	if m.meter == backendWorker {
		words := strings.Fields(m.worker)
		if len(words) == 0 {
			return nil, usagef("", "--worker: the command is empty")
		}
		return words, nil
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := []string{program, "worker"}
	if m.threads > 0 {
		command = append(command, "--threads", strconv.Itoa(m.threads))
	}
	return command, nil
}

// start starts the meter. Where a model is to be made of the times, the worker
// has to tell the hardware profile of a device that has no built-in one.
func (m *backendFlags) start(ctx context.Context, forModel bool, logs io.Writer) (collect.Backend, error) {
	if m.meter == backendSimulated {
		profile, err := hardware.ByName(m.profile)
		if err != nil {
			return nil, err
		}
		return collect.NewSimulated(profile), nil
	}
	command, err := m.command()
	if err != nil {
		return nil, err
	}
	opt := collect.WorkerOptions{
		Command: command, Stderr: logs, Warmup: m.warmup, Repeats: m.repeat, Seed: m.seed,
		FlushBytes: unit.Bytes(m.flush), Warm: m.warm, Deadline: m.deadline, Name: m.profile, NameOnly: !forModel,
		Pools: m.pools, Lookups: m.trace,
		OnLog: func(message string) { fmt.Fprintln(logs, "neuroshard: warning:", message) },
	}
	if hardware.Known(m.profile) {
		if opt.Profile, err = hardware.ByName(m.profile); err != nil {
			return nil, err
		}
	} else if opt.Name == "" {
		opt.Name = "cpu"
	}
	meter, err := collect.StartWorker(ctx, opt)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return meter, bad(err, "what the worker wrote is above; ours for GPUs is installed with: pip install ./python; for your own see docs/PROTOCOL.md")
}

// mostRuns bounds --runs.
const mostRuns = 10_000

// measuringHint says what helps where a plan could not be run.
func measuringHint(err error) string {
	refused, _ := errors.AsType[*protocol.Error](err)
	switch {
	case refused == nil:
		return "the worker failed: what it wrote is above"
	case refused.Code == protocol.CodeMemory:
		return "the meter has less memory than the plan's devices: plan with --memory"
	case refused.Code == protocol.CodeDrift:
		return "the machine is too busy: measure when it is idle"
	case refused.Code == protocol.CodeUnsupported:
		return "this meter cannot run such a plan: take another worker"
	}
	return "the worker failed: what it wrote is above"
}

// shardFlag is a flag's value of the form i/n.
type shardFlag collect.Shard

func (s *shardFlag) Set(text string) error {
	first, second, ok := strings.Cut(text, "/")
	index, err1 := strconv.Atoi(first)
	count, err2 := strconv.Atoi(second)
	if !ok || err1 != nil || err2 != nil || index < 1 || index > count {
		return fmt.Errorf("shard %q is not of the form 2/8, from 1/8 to 8/8", text)
	}
	*s = shardFlag{Index: index, Count: count}
	return nil
}

func (s *shardFlag) String() string {
	if s.Count == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.Index, s.Count)
}

func (s *shardFlag) Type() string { return "i/n" }

// intList is a flag's value of whole numbers, separated by commas.
type intList []int

func (l *intList) Set(text string) error {
	var values []int
	for word := range strings.SplitSeq(text, ",") {
		v, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			return fmt.Errorf("%q is not a whole number", word)
		}
		values = append(values, v)
	}
	slices.Sort(values)
	*l = slices.Compact(values)
	return nil
}

func (l *intList) String() string {
	words := make([]string, len(*l))
	for i, v := range *l {
		words[i] = strconv.Itoa(v)
	}
	return strings.Join(words, ",")
}

func (l *intList) Type() string { return "list" }
