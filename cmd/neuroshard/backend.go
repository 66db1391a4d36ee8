package main

import (
	"cmp"
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

	"github.com/neuroshard/neuroshard/internal/manual"
	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/lab/verify"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// backend.go holds what commands share that measure times: on which backend, and how.

// The measurement backends that --backend names.
const (
	backendCPU       = "cpu"
	backendWorker    = "worker"
	backendSimulated = "simulated"
)

// The clocks that clock names.
const (
	wallClock      = "wall"
	processorClock = "processor"
)

// noExchanges is the hint if the backend measures no all-to-alls.
const noExchanges = "use a backend that measures all-to-alls, or take them from the simulated device with --set comm=simulated"

// backendFlags choose a measurement backend.
type backendFlags struct {
	// set holds all flags of the command, and own those of the backend alone.
	set, own *pflag.FlagSet

	name, worker, profile   string
	clock, comm             string
	threads, warmup, repeat int
	flush                   size
	warm, fastest           bool
	deadline                time.Duration
	seed                    uint64

	// trace is the name of a trace, and lookupFiles are the files with its lookups, one for
	// each table of the design.
	lookupFiles []string
	trace       string

	// network is the network between hosts of the simulated backend; 0: the profile's.
	network unit.Bandwidth
	// ofPlan is true for a command whose other flags state the device: there is no --profile.
	// ofSamples is true for a command that writes samples: there is no comm.
	// inTurns is true for a command that runs plans in turns, and pairs their runs by fastest.
	ofPlan, ofSamples, inTurns bool
	// ofTasks is true for a command whose --gpu is the profile of its tasks.
	ofTasks bool
}

// gpu returns the name of the flag, or key, that names the backend's device.
func (b *backendFlags) gpu() string {
	if b.ofTasks {
		return "backend-gpu"
	}
	return "gpu"
}

func (b *backendFlags) register(cmd *cobra.Command) {
	b.set, b.own = cmd.Flags(), pflag.NewFlagSet("", pflag.ContinueOnError)
	f := b.own
	f.StringVar(&b.name, "backend", "", "what measures the times: cpu (this machine's processor), worker (a process of your own) or simulated")
	f.StringVar(&b.worker, "worker", "", "`command` of the worker, with its arguments; quotes and \\\\ as in a shell (docs/MEASURING.md)")
	if !b.ofPlan {
		f.StringVar(&b.profile, b.gpu(), "", "`name` of the device: a hardware profile, or a new one for a device that has none (default: cpu)")
	}
	f.IntVar(&b.threads, "backend-threads", 0, "threads of one device of the backend cpu (default: all cores)")
	f.StringVar(&b.clock, "clock", wallClock, "`clock` of the backend cpu: wall, or processor, which counts the time on a processor of one thread, so that other load on the machine counts less")
	if !b.ofSamples {
		f.StringVar(&b.comm, "comm", "", "simulated: take the all-to-alls from the simulated device, on a backend of a single GPU (default: measure them)")
	}
	f.IntVar(&b.warmup, "warmup", 1, "runs of a sample before it is timed")
	f.IntVar(&b.repeat, "repeats", 3, "timed runs of a sample; its time is their median")
	f.Var(&b.flush, "flush", "bytes written before each run to flush the caches (default: four times the last cache, at most 256MiB on a CPU)")
	f.BoolVar(&b.warm, "warm", false, "do not flush the caches")
	f.BoolVar(&b.fastest, "fastest", false, "take the fastest of several passes or runs instead of their median, on machines with other load")
	f.DurationVar(&b.deadline, "deadline", time.Minute, "time after which a worker that has not answered counts as hung")
	inSection := manual.Section(b.set, backendSection)
	b.set.AddFlagSet(b.own)
	inSection()
	complete(cmd, "clock", func() []string { return []string{wallClock, processorClock} })
	complete(cmd, "backend", backends)
	if !b.ofPlan {
		complete(cmd, b.gpu(), hardware.Names)
	}
}

// check reports flags that do not go together.
func (b *backendFlags) check(command string) error {
	var f faults
	f.add(b.name == "", "measure on this machine's CPU with "+b.says("backend", "cpu")+", on a GPU with "+b.says("backend", "worker"), "%s: %s is missing", command, b.key("backend"))
	f.add(b.name != "" && !slices.Contains(backends(), b.name), "choose cpu, worker or simulated", "%s: %s: %q is unknown", command, b.key("backend"), b.name)
	if err := f.err(); err != nil {
		return err
	}
	_, unnamed := hardware.ByName(b.profile)
	f.add((b.name == backendWorker) != (b.worker != ""), "for example: "+b.says("backend", "worker")+" "+b.says("worker", `"python3 -m neuroshard_worker"`), "%s: %s worker and %s go together", command, b.key("backend"), b.key("worker"))
	f.add(b.name == backendSimulated && !hardware.Known(b.profile), "describe them with: neuroshard list devices", "%s: %s: the simulated device needs a known profile: %v", command, keyOf(b.gpu()), cmp.Or(unnamed, errors.New("only TorchRec's formulas have this one")))
	f.add(b.name == backendCPU && unnamed == nil, "choose another name, or leave it out", "%s: %s: %q is a GPU, but the times would be those of this CPU", command, keyOf(b.gpu()), b.profile)
	f.add(b.warm && b.set.Changed("flush"), "leave one of them out", "%s: warm and flush do not go together", command)
	f.add(b.repeat < 1 || b.warmup < 0 || b.threads < 0 || b.deadline <= 0, "", "%s: repeats %d, warmup %d, backend_threads %d, deadline %v: there must be at least one repeat, and no value may be negative", command, b.repeat, b.warmup, b.threads, b.deadline)
	return f.err(b.checkKind(command))
}

// checkKind reports flags that do not fit the backend.
func (b *backendFlags) checkKind(command string) error {
	var f faults
	f.add(b.clock != wallClock && b.clock != processorClock, "choose wall or processor", "%s: clock: %q is unknown", command, b.clock)
	f.add(b.set.Changed("clock") && b.name != backendCPU, "leave clock out", "%s: clock: only the backend cpu has a choice of clocks", command)
	f.add(b.clock == processorClock && b.threads > 1, "leave backend_threads out, or take the wall clock", "%s: clock processor: the time of %d threads on processors is not the time that passes", command, b.threads)
	f.add(b.comm != "" && b.comm != backendSimulated, "leave it out to measure all-to-alls", "%s: comm: %q is unknown: it is simulated, or left out", command, b.comm)
	f.add(b.comm == backendSimulated && (b.name == backendCPU || b.profile != "" && !hardware.Known(b.profile)), "measure the all-to-alls: leave comm out",
		"%s: comm simulated: the simulated device has no all-to-alls of %q", command, cmp.Or(b.profile, backendCPU))
	f.add(b.name == backendWorker && b.set.Changed("backend-threads"), "leave backend_threads out, or give the worker a flag of its own", "%s: backend_threads: only the backend cpu has a choice of threads", command)
	if b.name != backendSimulated {
		return f.err()
	}
	// All simulated runs take the same time, but their number counts in pairs of runs, and in passes.
	used := []string{"--backend", "backend", "--gpu", "backend_gpu"}
	if b.inTurns || b.ofSamples {
		used = append(used, "fastest")
	}
	unused := slices.DeleteFunc(b.among(), func(flag string) bool { return slices.Contains(used, flag) })
	f.add(len(unused) > 0, "leave them out: it computes times, and runs nothing", "%s: the backend simulated does not use %s", command, strings.Join(unused, ", "))
	return f.err()
}

// key returns the flag of a name, or the key that plan has in its place.
func (b *backendFlags) key(name string) string {
	if b.ofPlan {
		return name
	}
	return "--" + name
}

// says returns the words of a command line that state one of these.
func (b *backendFlags) says(name, value string) string {
	if b.ofPlan {
		return "--set " + name + "=" + value
	}
	return "--" + name + " " + value
}

// backends returns the names of the backends.
func backends() []string { return []string{backendCPU, backendWorker, backendSimulated} }

// given returns the flags of the backend that are on the command line, as words of a command
// line.
func (b *backendFlags) given() []string {
	var all []string
	b.own.VisitAll(func(f *pflag.Flag) {
		switch value := word(f); {
		case !f.Changed:
		case strings.ContainsAny(value, " \t\n\r\"'\\"):
			all = append(all, stating(f.Name, "'"+strings.ReplaceAll(value, "'", `'\''`)+"'"))
		default:
			all = append(all, stating(f.Name, value))
		}
	})
	return all
}

// stating returns the words of a command line that state a flag or a key.
func stating(name, value string) string {
	if slices.Contains(plainFlags, name) {
		return "--" + name + " " + value
	}
	return "--set " + keyOf(name) + "=" + value
}

// word returns the value of a flag as a command line states it. A size is exact.
func word(flag *pflag.Flag) string {
	if s, ok := manual.ValueOf(flag).(*size); ok {
		return fmt.Sprintf("%dB", int64(*s))
	}
	return flag.Value.String()
}

// unused reports flags of the backend, and the named flags of the command, that are given
// without --backend.
func (b *backendFlags) unused(command string, others ...string) error {
	found := b.among(others...)
	if b.set.Changed("backend") || len(found) == 0 {
		return nil
	}
	return usagef("add --backend cpu, worker or simulated, or leave them out", "%s: without --backend nothing is measured with: %s", command, strings.Join(found, ", "))
}

// among returns the flags of the backend, and those of the named flags of the command, that are
// given.
func (b *backendFlags) among(others ...string) []string {
	var found []string
	b.own.VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Changed && b.ofPlan:
			found = append(found, strings.ReplaceAll(f.Name, "-", "_"))
		case f.Changed:
			found = append(found, keyOf(f.Name))
		}
	})
	for _, name := range others {
		if b.set.Changed(name) {
			found = append(found, keyOf(name))
		}
	}
	return found
}

// command returns the command that starts the worker.
func (b *backendFlags) command() ([]string, error) {
	if b.name == backendWorker {
		command, err := words.Split(b.worker)
		if err == nil && len(command) == 0 {
			err = errors.New("the command is empty")
		}
		if err != nil {
			return nil, usagef("for example: "+b.says("worker", `"python3 -m neuroshard_worker"`), "%s: %w", b.key("worker"), err)
		}
		return command, nil
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := []string{program, "lab", "worker"}
	if b.clock == processorClock {
		return append(command, "--set", "clock="+processorClock, "--set", "backend_threads=1"), nil
	}
	if b.threads > 0 {
		command = append(command, "--set", "backend_threads="+strconv.Itoa(b.threads))
	}
	return command, nil
}

// start starts the backend, which the caller closes. If forModel is true, a model is to
// be made of the times: then the worker must state the hardware profile of a device that
// has no built-in one.
func (b *backendFlags) start(ctx context.Context, forModel bool, logs io.Writer) (collect.Backend, error) {
	if b.name == backendSimulated {
		profile, err := hardware.ByName(b.profile)
		if err != nil {
			return nil, err
		}
		return collect.NewSimulated(hardware.Topology{Profile: profile, NetworkBandwidth: b.network}.Device()), nil
	}
	command, err := b.command()
	if err != nil {
		return nil, err
	}
	opt := collect.WorkerOptions{
		Command: command, Stderr: logs, Warmup: b.warmup, Repeats: b.repeat, Seed: b.seed,
		FlushBytes: unit.Bytes(b.flush), Warm: b.warm, Deadline: b.deadline, Name: b.profile, NameOnly: !forModel,
		LookupFiles: b.lookupFiles, Lookups: b.trace,
		OnLog: func(message string) { warn(logs, "%s", message) },
	}
	opt.Name = cmp.Or(opt.Name, "cpu")
	backend, err := collect.StartWorker(ctx, opt)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err == nil && b.comm != "" {
		profile, _ := hardware.ByName(b.profile) // check refuses unknown ones
		return collect.WithSimulatedComm(backend, hardware.Topology{Profile: profile, NetworkBandwidth: b.network}.Device()), nil
	}
	return backend, bad(err, "the output of the worker is above; install the worker for GPUs with: pip install './python[worker]'; to write your own see docs/MEASURING.md")
}

// run runs a plan on a started backend, for its cost. A backend without all-to-alls is an
// error. then is added to the hint if the backend fails.
func (b *backendFlags) run(ctx context.Context, backend collect.Backend, p *problem.Problem, shards [][]problem.Shard, predicted plan.Breakdown, runs int, then string) (*verify.Result, error) {
	result, err := verify.Plan(ctx, p, shards, predicted, backend, verify.Options{Repeats: runs, Fastest: b.fastest})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		return nil, bad(err, measuringHint(err)+then)
	case !result.CommMeasured:
		return nil, usagef(noExchanges, "plans cannot be compared on this backend, which does not measure all-to-alls: %s", result.CommMissing)
	}
	return result, nil
}

// mostRuns bounds runs.
const mostRuns = 10_000

// measuringHint returns the hint for a plan that could not be run.
func measuringHint(err error) string {
	refused, _ := errors.AsType[*protocol.Error](err)
	switch {
	case refused == nil:
		return "the worker failed: its output is above"
	case refused.Code == protocol.CodeMemory:
		return "the backend has less memory than the devices of the plan: plan with --memory"
	case refused.Code == protocol.CodeDrift:
		return "the machine is too busy: measure when it is idle"
	case refused.Code == protocol.CodeUnsupported:
		return "this backend cannot run such a plan: use another worker"
	}
	return "the worker failed: its output is above"
}
