// Command neuroshard plans how the embedding tables of a recommendation model
// are split and placed over devices. docs/COMMANDS.md lists its commands, flags
// and exit codes.
//
// One file holds one command: its flags, one call of the library, its output.
package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/neuroshard/neuroshard"
)

func main() {
	if info, ok := debug.ReadBuildInfo(); ok {
		neuroshard.Version = versionOf(neuroshard.Version, info)
	}
	ending := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		ending = append(ending, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ending...)
	// The first signal asks the search for its best plan so far, or ends a command
	// that waits for input. The second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Stdin, os.Stdout, os.Stderr, os.Args[1:], system()))
}

// environment is what commands ask the process for.
type environment struct {
	// getenv returns the value of an environment variable, "" if it is not set.
	getenv func(name string) string
	// terminal returns the width of the terminal that a stream goes to, in
	// columns, and false if the stream does not go to a terminal.
	terminal func(stream any) (width int, ok bool)
	now      func() time.Time
}

// system is the environment of a real process.
func system() environment {
	return environment{getenv: os.Getenv, now: time.Now, terminal: func(stream any) (int, bool) {
		file, ok := stream.(*os.File)
		if !ok || !term.IsTerminal(int(file.Fd())) {
			return 0, false
		}
		width, _, err := term.GetSize(int(file.Fd()))
		if err != nil || width <= 0 {
			width = plainWidth
		}
		return width, true
	}}
}

// run runs the command line and returns its exit code. Results go to stdout,
// errors, hints and progress to stderr.
func run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, args []string, env environment) int {
	out := &output{to: stdout}
	a := &app{stdin: stdin, stdout: out, stderr: stderr, env: env}
	root := newRootCommand(a)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	checkHelp(root)
	err := oldCommand(root, args) // before its flags, which are unknown, too
	if err == nil {
		err = a.reads.execute(ctx, root.ExecuteContext)
	}
	if err == nil && out.err != nil {
		err = bad(out.err, "")
	}
	return a.exit(err)
}

// output is stdout. It keeps the first error of writing, so that a command whose result
// was not written fails.
type output struct {
	to  io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.to.Write(b)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

func newRootCommand(a *app) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "neuroshard",
		Short: "Plan how embedding tables are split and placed over devices",
		Long: `neuroshard plans how the embedding tables of a recommendation model are split
and placed over devices, so that the slowest device is as fast as it can be.

  neuroshard plan workload:mlperf-dlrm-dcnv2
  neuroshard plan tables.json --hosts 2 --gpu a100-80 -o plan.json
  neuroshard show plan.json`,
		Args: rootArgs,
		// cobra's own --version goes through text/template, whose reflection would keep every
		// method of every type in the binary (docs/RESULTS.md).
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return printVersion(a.stdout)
			}
			return cmd.Help()
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.running = true
			return cmp.Or(checkTogether(cmd), checkValues(cmd))
		},
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	root.SetFlagErrorFunc(flagError)
	root.Flags().BoolVar(&version, "version", false, "print the version, the commit and the cost models inside")
	lab := &cobra.Command{
		Use:   "lab COMMAND",
		Short: "Measure kernels, train cost models, and judge planners",
		Args:  rootArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	lab.AddCommand(
		newCollectCommand(a),
		newDatasetCommand(a),
		newProfileCommand(a),
		newSimulateCommand(a),
		newTrainCommand(a),
		newTrainPolicyCommand(a),
		newVerifyCommand(a),
		newBenchCommand(a),
		newWorkerCommand(a),
	)
	root.AddCommand(
		newPlanCommand(a),
		newShowCommand(a),
		newDiffCommand(a),
		newCompareCommand(a),
		newReplanCommand(a),
		newSweepCommand(a),
		newWatchCommand(a),
		newConvertCommand(a),
		newCheckCommand(a),
		newServeCommand(a),
		newListCommand(a),
		lab,
		newVersionCommand(a),
		newManualCommand(a),
		newConventionsTopic(),
		newExitCodesTopic(),
	)
	describe(root)
	return root
}

// checkHelp makes help refuse a word that is no command.
func checkHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, command := range root.Commands() {
		if command.Name() == "help" {
			command.Args = helpArgs
		}
	}
}

// helpArgs refuses help on a word that is no command.
func helpArgs(cmd *cobra.Command, args []string) error {
	topic, rest, err := cmd.Root().Find(args)
	if err == nil && topic == cmd.Root() {
		return rootArgs(topic, rest)
	}
	return err
}

// oldCommand refuses a command of old, whatever comes after it.
func oldCommand(root *cobra.Command, args []string) error {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") && renamed[args[0]] != "" {
		return rootArgs(root, args[:1])
	}
	return nil
}

// rootArgs refuses a word that is no command, with one that comes near.
func rootArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see all commands with: " + cmd.CommandPath() + " --help"
	if now := renamed[args[0]]; now != "" && cmd == cmd.Root() {
		return usagef("see: neuroshard "+now+" --help", "%s is now %s", args[0], now)
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean: " + cmd.CommandPath() + " " + near[0] + "?"
	}
	return usagef(hint, "command %q is unknown", args[0])
}
