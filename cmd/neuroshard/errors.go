package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/neuroshard/neuroshard/internal/manual"
	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/search"
)

// The exit codes of every command, in the words of exitCodes.
const (
	exitOK           = 0
	exitNo           = 1
	exitBad          = 2
	exitInterrupted  = 3
	exitInternal     = 4
	exitNothingFound = 5
	exitVerdict      = 6
)

const exitCodes = `The exit codes of all commands:

  0  done, whatever the verdict
  1  there is no result: plan and replan found that nothing fits, sweep that no cell
     does; check found violations; serve check that the server is not ready
  2  the command line, a file or its contents are wrong, or a file cannot be
     read or written
  3  interrupted (Ctrl-C, SIGTERM or SIGHUP): the best plan found until then was
     written, marked as interrupted
  4  an error of neuroshard itself
  5  interrupted before there was anything to write: nothing was written
  6  with --exit-code: diff found differences, replan moves something, watch found a
     drift or a slow device
`

// newExitCodesTopic is shown by: neuroshard help exit-codes.
func newExitCodesTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "The exit codes of all commands", Long: strings.TrimSuffix(exitCodes, "\n")}
}

// exitError is an error with the exit code that it leads to.
type exitError struct {
	code int
	// err is printed; nil if the command has printed everything.
	err  error
	hint string
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usagef returns the error of a wrong command line or input.
func usagef(hint, format string, args ...any) error {
	return &exitError{exitBad, fmt.Errorf(format, args...), hint}
}

// bad marks an error as one of the command line, an input or an output. An error that is
// marked stays as it is.
func bad(err error, hint string) error {
	if err == nil {
		return nil
	}
	if marked := (*exitError)(nil); errors.As(err, &marked) {
		return err
	}
	return &exitError{exitBad, err, hint}
}

// faults are all that is wrong with a command line.
type faults []error

// add notes a fault, if there is one.
func (f *faults) add(wrong bool, hint, format string, args ...any) {
	if wrong {
		*f = append(*f, faulty(fmt.Sprintf(format, args...), hint))
	}
}

// below notes the flags whose values are below the least.
func (f *faults) below(least int, values map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		f.add(values[name] < least, "leave it out for the default", "%s: %d is below %d", keyOf(name), values[name], least)
	}
}

// keyOf returns the flag of a name, or the key of --set.
func keyOf(name string) string {
	if slices.Contains(plainFlags, name) {
		return "--" + name
	}
	return strings.ReplaceAll(name, "-", "_")
}

// err returns all faults, and further errors, as one error; nil if there are none.
func (f faults) err(more ...error) error { return input.Join(append(f, more...)...) }

// exactArgs requires these positional arguments.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		hint := "usage: " + cmd.UseLine()
		switch {
		case len(args) < len(names):
			return usagef(hint, "%s: %s is missing", cmd.Name(), names[len(args)])
		case len(args) > len(names):
			return usagef(hint, "%s: one argument too many: %q", cmd.Name(), args[len(names)])
		}
		return nil
	}
}

// renamed holds what old words are now: of commands, and of flags, the first of those that the command
// has. Another flag that became a key is found by its name.
var renamed = map[string]string{
	"validate": "check", "export": "convert PLAN --to ENGINE", "import": "convert FILE --from ENGINE",
	"report": "show PLAN -o plan.html", "step": "show PLAN --tables TABLES --set dense=NAME",
	"devices": "list devices", "workloads": "list workloads",
	"collect": "lab collect", "dataset": "lab dataset", "profile": "lab profile", "simulate": "lab simulate",
	"train": "lab train", "train-policy": "lab train-policy", "verify": "lab verify", "bench": "lab bench", "worker": "lab worker",

	"--devices": "--gpus|--set task_devices=N|--set comm_devices=LIST", "--device": "--gpu", "--profile": "--set backend_gpu=NAME|--gpu", "--for": "--engine", "--sharding-types": "--types",
	"--topology": "--cluster", "--all-devices": "--full", "--all": "--full", "--detailed-exitcode": "--exit-code", "--lost-devices": "--lost-gpus",
	"--workers": "--set threads=N", "--threads": "--set backend_threads=N", "--price": "--set move_price=MS",
	"--steps": "--set beam_steps=N", "--beam": "--set beam_width=N", "--candidates": "--set beam_candidates=N", "--grid": "--set beam_grid=N",
	"--samples": "--set rollouts=N", "--no-baselines": "--set baselines=false", "--no-certificate": "--set certificate=false",

	"--tables": "--set task_tables=N|--all-tables",

	"--num-gpus": "--gpus", "--world-size": "--gpus", "--nodes": "--hosts", "--num-nodes": "--hosts", "--num-hosts": "--hosts", "--nnodes": "--hosts",
	"--gpus-per-host": "--set devices_per_host=N", "--gpus-per-node": "--set devices_per_host=N", "--local-world-size": "--set devices_per_host=N",
}

// flagError is the error of a flag that cobra does not accept.
func flagError(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return wrongFlag(cmd, invalid)
	}
	message, hint := err.Error(), "see the flags with: "+cmd.CommandPath()+" --help"
	if words := cmd.Flags().Args(); cmd == cmd.Root() && len(words) > 0 {
		// A word that is no command, and its flags.
		return rootArgs(cmd, words)
	}
	name := ""
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name = unknown.GetSpecifiedName()
		if letters := unknown.GetSpecifiedShortnames(); letters != "" {
			// -devices is read as a group of letters.
			name, _, _ = strings.Cut(letters, "=")
		}
	}
	if len(name) < 2 {
		return usagef(hint, "%s", message)
	}
	word := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if now := nowCalled(cmd, word); now != "" {
		if word == "device" && cmd.Flags().Lookup("model") != nil {
			hint = "name a profile with --gpu, or the file of a device with --model"
		}
		return usagef(hint, "--%s is now %s", word, now)
	}
	if (word == "replan" || word == "sweep") && cmd.Name() == "show" {
		return usagef("type: neuroshard show FILE", "show takes the output of %s as its file, without --%s", word, word)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := words.Closest(word, names); near != "" {
		hint = "did you mean: --" + near + "?"
		if manual.IsKey(cmd.Flags().Lookup(near)) {
			hint = "did you mean: --set " + near + "=VALUE?"
		}
	} else if root := cmd.Root(); root.Flags().Lookup(word) != nil {
		hint = "did you mean: " + root.Name() + " --" + word + "?"
	}
	return usagef(hint, "%s", message)
}

// nowCalled returns what an old flag of a command is now; "" if it is none.
func nowCalled(cmd *cobra.Command, word string) string {
	for now := range strings.SplitSeq(renamed["--"+word], "|") {
		flag, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(now, "--set "), "--"), "=")
		if flag != "" && cmd.Flags().Lookup(flag) != nil {
			return now
		}
	}
	if key := cmd.Flags().Lookup(strings.ReplaceAll(word, "-", "_")); key != nil && manual.IsKey(key) {
		if key.NoOptDefVal != "" {
			return "--set " + key.Name
		}
		return "--set " + key.Name + "=VALUE"
	}
	return ""
}

// wrongFlag is the error of a value that a flag, or a key, does not take.
func wrongFlag(cmd *cobra.Command, e *pflag.InvalidValueError) error {
	if of, ok := errors.AsType[*manual.KeyError](e.Unwrap()); ok {
		if now := nowCalled(cmd, strings.ReplaceAll(of.Unknown, "_", "-")); now != "" {
			return usagef("it is now: "+now, "%s", of.Message)
		}
		return usagef(strings.ReplaceAll(of.Hint, "--help-all", cmd.CommandPath()+" --help-all"), "%s", of.Message)
	}
	flag := e.GetFlag()
	if manual.IsKey(flag) {
		word := strings.ReplaceAll(flag.Name, "_", "-")
		return usagef("see the flags with: "+cmd.CommandPath()+" --help", "--%s is now %s", word, nowCalled(cmd, word))
	}
	var of *pflag.InvalidValueError
	if errors.As(e.Unwrap(), &of) { // of a key, behind --set
		return usagef("see the keys with: "+cmd.CommandPath()+" --help-all", "%s: %q: %s", of.GetFlag().Name, of.GetValue(), wrongValue(of))
	}
	message := strings.TrimSuffix(e.Error(), e.Unwrap().Error()) + wrongValue(e)
	return usagef("see the flags with: "+cmd.CommandPath()+" --help", "%s", message)
}

// wrongValue says what is wrong with a flag's value, without the words of Go's parsers.
func wrongValue(e *pflag.InvalidValueError) string {
	number, isNumber := errors.AsType[*strconv.NumError](e)
	switch kind := e.GetFlag().Value.Type(); {
	case kind == "duration":
		return "it is not a time: write a number and its unit, such as 30s or 5m"
	case kind == "bool":
		return "it is neither true nor false"
	case !isNumber:
		return e.Unwrap().Error()
	case kind == "intSlice" && errors.Is(number, strconv.ErrRange):
		return fmt.Sprintf("the number %s is out of range", number.Num)
	case kind == "intSlice":
		return fmt.Sprintf("%q is not a whole number", number.Num)
	case errors.Is(number, strconv.ErrRange):
		return "the number is out of range"
	case kind == "uint64" && strings.HasPrefix(e.GetValue(), "-"):
		return "it is below 0"
	}
	return "it is not a number"
}

// checkTogether refuses flags that cobra's groups keep apart, in plain words.
func checkTogether(cmd *cobra.Command) error {
	err := cmd.ValidateFlagGroups()
	if err == nil {
		return nil
	}
	// "if any flags in the group [a b c] are set none of the others can be; [a b] were all set"
	_, set, _ := strings.Cut(err.Error(), "; [")
	set, _, apart := strings.Cut(set, "] were all set")
	if !apart {
		return bad(err, "see the flags with: "+cmd.CommandPath()+" --help")
	}
	names := strings.Join(strings.Fields(set), " and --")
	return usagef("leave one of them out", "%s: --%s do not go together", cmd.Name(), names)
}

// checkValues refuses flags with an empty value, which a script passes if its variable is not
// set, and a folder on standard input or output.
func checkValues(cmd *cobra.Command) error {
	var errs []error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		what, _ := pflag.UnquoteUsage(f)
		value := f.Value.String()
		switch {
		case f.Value.Type() == "stringSlice" && value == "[]":
			errs = append(errs, faulty(keyOf(f.Name)+": the value is empty", "leave the flag out, or give it a value"))
		case f.Value.Type() != "string":
		case value == "" && f.Name == "output" && what != "folder":
			errs = append(errs, faulty("--output: the name is empty", "name a file, or write - for standard output"))
		case value == "" && f.Name != "module": // a module may have an empty path
			errs = append(errs, faulty(keyOf(f.Name)+": the value is empty", "leave the flag out, or give it a value"))
		case value == standardOutput && what == "folder":
			errs = append(errs, faulty(keyOf(f.Name)+": a folder is neither standard input nor standard output", "name a folder"))
		}
	})
	for _, twice := range manual.Restated(cmd) {
		errs = append(errs, faulty(twice.Message, twice.Hint))
	}
	return input.Join(errs...)
}

// exit prints the error, if any, with its hints and returns the exit code.
func (a *app) exit(err error) int {
	if err == nil {
		return exitOK
	}
	if bug, ok := errors.AsType[*panicked](err); ok {
		fmt.Fprintf(a.stderr, "%s\n", bug.stack)
	}
	complaints, code := a.explain(err)
	for i, c := range complaints {
		for line := range strings.SplitSeq(c.message, "\n") {
			fmt.Fprintln(a.stderr, "neuroshard: error:", report.OneLine(line))
		}
		// One hint serves all errors in a row that it answers.
		if c.hint != "" && (i+1 == len(complaints) || complaints[i+1].hint != c.hint) {
			fmt.Fprintln(a.stderr, "neuroshard: hint:", report.OneLine(c.hint))
		}
	}
	return code
}

// complaint is one error as the user reads it.
type complaint struct{ message, hint string }

// most is the number of errors that are printed.
const most = 50

func (a *app) explain(err error) ([]complaint, int) {
	var (
		marked  *exitError
		inputs  *input.Errors
		invalid *problem.Invalid
		path    *fs.PathError
		bug     *panicked
	)
	switch {
	case errors.As(err, &marked) && marked.err == nil:
		return nil, marked.code
	case errors.As(err, &inputs):
		return explainInputs(inputs), exitBad
	case errors.As(err, &invalid):
		var all []complaint
		for _, f := range invalid.Faults {
			all = append(all, complaint{f.String(), f.Hint})
		}
		return all, exitBad
	case marked != nil:
		return []complaint{{plain(err), marked.hint}}, marked.code
	case report.Remedy(err) != "":
		return []complaint{{err.Error(), report.Remedy(err)}}, exitNo
	case errors.As(err, &path):
		return []complaint{{plain(err), ""}}, exitBad
	case errors.Is(err, search.ErrOutOfTime):
		return []complaint{{err.Error() + ": nothing was written", "give the search more time: --budget"}}, exitNothingFound
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return []complaint{{"interrupted before there was a result: nothing was written", ""}}, exitNothingFound
	case !a.running && !errors.As(err, &bug):
		return []complaint{{err.Error(), "see all commands and flags with: neuroshard --help"}}, exitBad
	}
	return []complaint{{err.Error(), "this should not happen: please report it, with the command line"}}, exitInternal
}

// plain returns the message of an error without the words of Go's system calls: the file and
// what is wrong with it, not "open file: ...".
func plain(err error) string {
	message := err.Error()
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		message = strings.Replace(message, path.Error(), path.Path+": "+path.Err.Error(), 1)
	}
	if program, ok := errors.AsType[*exec.Error](err); ok {
		message = strings.Replace(message, program.Error(), fmt.Sprintf("the program %q cannot be started: %v", program.Name, program.Err), 1)
	}
	return message
}

// explainInputs returns a complaint for each different error of inputs.
func explainInputs(e *input.Errors) []complaint {
	var all []complaint
	more := len(e.List) + e.More
	different := e.Alike()
	for _, one := range different[:min(len(different), most)] {
		more -= one.Count
		all = append(all, complaint{one.String(), one.Hint})
	}
	if more > 0 {
		all = append(all, complaint{words.More("", more) + " errors: correct these first", ""})
	}
	return all
}
