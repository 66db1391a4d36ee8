package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/reinforce"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/policy"
	"github.com/neuroshard/neuroshard/unit"
)

type trainPolicyFlags struct {
	cmd            *cobra.Command
	device, output string
	memory         size
	asJSON         bool
	opt            reinforce.Options

	backend backendFlags
	runs    int
}

func newTrainPolicyCommand(a *app) *cobra.Command {
	f := &trainPolicyFlags{}
	cmd := &cobra.Command{
		Use:   "train-policy --set method=METHOD -o FOLDER",
		Short: "Train the policy that method dreamshard or autoshard places tables with",
		Long: `train-policy trains a policy on tasks drawn from half of a drawn set of tables,
measures its plans on the simulated device of the profile, prints the policy's card
with the costs of plans of other tables, and writes a folder with the policy: weights
(model.safetensors) and manifest (manifest.json). Plan with it:
neuroshard plan TABLES --set method=METHOD --set policy=FOLDER.

With --backend the plans are measured on that backend, one at a time, and the policy is
one of the backend's device.

The defaults are the published training tasks of DreamShard: 50 tables of 16 columns on
4 devices. The same command on the same build gives the same policy, unless a backend
measures: measured times differ from run to run.`,
		Example: `  neuroshard lab train-policy --set method=dreamshard --gpu a100-80 -o policy
  neuroshard lab train-policy --set method=dreamshard --gpu a100-80 --set max_dim=128 --seed 2 -o policy
  neuroshard lab train-policy --set method=dreamshard --set task_tables=8 --set task_devices=2 --backend cpu -o policy
  neuroshard plan workload:mlperf-dlrm-dcnv2 --set method=dreamshard --set policy=policy --set rollouts=100`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), a) },
	}
	f.cmd = cmd
	f.memory = size(reinforce.DefaultMemory)
	flags := cmd.Flags()
	flags.StringVar(&f.opt.Method, "method", "", "`method` to train for: "+strings.Join(learned(), " or "))
	flags.StringVar(&f.device, "gpu", defaultDevice, "device `profile` of the tasks; without --backend plans are measured on its simulated device")
	flags.StringVarP(&f.output, "output", "o", "", "`folder` to write the policy to")
	flags.Uint64Var(&f.opt.Tasks.Seed, "seed", 1, "seed of the tables, the tasks and the training")
	flags.IntVar(&f.opt.Tasks.Tables, "task-tables", reinforce.DefaultTables, "tables of a task")
	flags.IntVar(&f.opt.Tasks.Devices, "task-devices", reinforce.DefaultDevices, "devices of a task")
	flags.Var(&f.memory, "memory", "memory of a device for weights, such as 10GiB")
	flags.IntVar(&f.opt.Tasks.MaxDim, "max-dim", 0, fmt.Sprintf("draw dims from the powers of two 4 up to this `dim` (default: all dims are %d)", reinforce.DefaultDim))
	flags.IntVar(&f.opt.Count, "tasks", reinforce.DefaultTasks, "training tasks to draw")
	flags.IntVar(&f.opt.TestCount, "test-tasks", reinforce.DefaultTestTasks, "test tasks to draw, of other tables")
	flags.IntVar(&f.opt.Iterations, "iterations", reinforce.DefaultIterations, "rounds of the training of dreamshard; each measures 10 plans")
	flags.StringVar(&f.opt.Costs, "cost", reinforce.OwnCosts, "who predicts costs for dreamshard: `own`, its cost net, or ours, the cost model that ships for the profile")
	flags.StringVar(&f.opt.Reward, "reward", "", "what autoshard is rewarded by: `balance`, as published and by default, or cost")
	flags.IntVar(&f.opt.Decisions, "decisions", reinforce.DefaultDecisions, "tables to place in the training of autoshard")
	flags.IntVar(&f.opt.Workers, "threads", 0, "goroutines; the policy does not depend on it (default: all processors)")
	flags.BoolVar(&f.asJSON, "json", false, "print the policy's manifest as JSON")
	f.backend.ofTasks = true
	f.backend.register(cmd)
	flags.IntVar(&f.runs, "runs", 1, "runs of each plan on the backend; its times are their medians")
	complete(cmd, "gpu", hardware.Names)
	complete(cmd, "method", learned)
	complete(cmd, "reward", func() []string { return []string{reinforce.ByBalance, reinforce.ByCost} })
	complete(cmd, "cost", func() []string { return []string{reinforce.OwnCosts, reinforce.OurCosts} })
	return cmd
}

// learned returns the names of the methods that need a policy.
func learned() []string {
	var names []string
	for _, m := range search.Learned() {
		names = append(names, string(m))
	}
	return names
}

func (f *trainPolicyFlags) run(ctx context.Context, a *app) error {
	hw, err := hardware.ByName(f.device)
	if err := input.Join(f.check(), bad(err, "list the profiles with: neuroshard list devices")); err != nil {
		return err
	}
	if err := checkTrained(a.stderr, f.output, policy.Format); err != nil {
		return err
	}
	f.opt.Tasks.Profile, f.opt.Tasks.Memory = hw, unit.Bytes(f.memory)
	bar := a.newProgressBar()
	defer bar.clear()
	if f.backend.name != "" {
		bar.phase("starting the backend")
		backend, err := f.backend.start(ctx, false, a.stderr)
		if err != nil {
			return err
		}
		defer backend.Close()
		f.measure(ctx, backend)
	}
	f.opt.Progress = bar.at
	before := processorSeconds()
	trained, err := reinforce.Train(ctx, f.opt)
	bar.clear()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return bad(fmt.Errorf("train-policy: %w", err), "")
	}
	trained.Manifest.Command, trained.Manifest.CPUSeconds = f.command(), processorSeconds()-before
	if err := trained.Write(f.output); err != nil {
		return bad(err, "choose a folder that can be written")
	}
	if f.asJSON {
		return a.printJSON(trained.Manifest)
	}
	if err := report.Policy(a.stdout, trained.Manifest, a.reportOptions()); err != nil {
		return bad(err, "")
	}
	fmt.Fprintf(a.stdout, "\nwrote %s%c\n", filepath.Clean(f.output), os.PathSeparator)
	return nil
}

// measure has the training measure its plans on a started backend.
func (f *trainPolicyFlags) measure(ctx context.Context, backend collect.Backend) {
	by := backend.Provenance()
	f.opt.Source, f.opt.Profile, f.opt.Backend = string(by.Source), by.Profile, by.Backend
	f.opt.Measure = func(p *problem.Problem, shards [][]problem.Shard) (plan.Breakdown, error) {
		result, err := f.backend.run(ctx, backend, p, shards, plan.Breakdown{}, f.runs, "")
		if err != nil {
			return plan.Breakdown{}, err
		}
		devices := make([]plan.StepTimes, len(result.Devices))
		for d := range devices {
			devices[d] = result.Devices[d].Measured
		}
		return plan.NewBreakdown(devices), nil
	}
}

// checkBackend reports flags of the backend that are wrong, or that are given without one.
func (f *trainPolicyFlags) checkBackend() error {
	if f.backend.name == "" {
		return f.backend.unused("train-policy", "runs")
	}
	if f.backend.profile == "" && f.backend.name != backendCPU {
		f.backend.profile = f.device
	}
	if f.runs < 1 || f.runs > mostRuns {
		return usagef("leave the flag out for the default", "train-policy: runs %d is not between 1 and %d", f.runs, mostRuns)
	}
	if f.opt.Costs == reinforce.OurCosts {
		return usagef("measure plans of the finished policy: neuroshard lab bench tasks --set policy=FOLDER --backend "+f.backend.name, "train-policy: cost ours and --backend do not go together: a training with --cost ours measures no plan")
	}
	return f.backend.check("train-policy")
}

// check reports all flags that are missing or wrong.
func (f *trainPolicyFlags) check() error {
	bad := faults{asInput(f.checkBackend())}
	bad.add(f.opt.Method == "", chooseLearned(), "train-policy: method is missing")
	bad.add(f.opt.Method != "" && !search.Method(f.opt.Method).Learned(), chooseLearned(), "train-policy: method %q is not learned", f.opt.Method)
	bad.add(f.output == "", "name the folder of the policy: -o policy", "train-policy: --output is missing")
	info, err := os.Stat(f.output)
	bad.add(err == nil && !info.IsDir(), "name a folder", "train-policy: --output: %s is a file", f.output)
	bad.add(f.memory == 0, "leave the flag out for the default", "--memory: 0 leaves no room for tables")
	bad.below(2, map[string]int{"task-tables": f.opt.Tasks.Tables})
	bad.below(1, map[string]int{"task-devices": f.opt.Tasks.Devices, "tasks": f.opt.Count, "test-tasks": f.opt.TestCount, "iterations": f.opt.Iterations, "decisions": f.opt.Decisions})
	bad.below(0, map[string]int{"threads": f.opt.Workers, "max-dim": f.opt.Tasks.MaxDim})
	for _, own := range []struct{ name, method string }{
		{"iterations", policy.DreamShard}, {"cost", policy.DreamShard}, {"reward", policy.AutoShard}, {"decisions", policy.AutoShard},
	} {
		bad.add(slices.Contains(learned(), f.opt.Method) && f.opt.Method != own.method && f.cmd.Flags().Changed(own.name), "leave the flag out", "%s is for method %s", keyOf(own.name), own.method)
	}
	return bad.err()
}

// chooseLearned is the hint of a method that is not learned.
func chooseLearned() string {
	return "choose --set method=" + strings.Join(learned(), " or --set method=")
}

// command returns the command line that makes the policy again.
func (f *trainPolicyFlags) command() string {
	words := []string{"neuroshard lab train-policy", "--set method=" + f.opt.Method, "--gpu", f.device}
	for _, name := range []string{"seed", "task-tables", "task-devices", "memory", "max-dim", "tasks", "test-tasks", "iterations", "cost", "reward", "decisions", "runs"} {
		if flag := f.cmd.Flags().Lookup(name); flag.Changed {
			words = append(words, stating(name, word(flag)))
		}
	}
	words = append(words, f.backend.given()...)
	return strings.Join(words, " ")
}
