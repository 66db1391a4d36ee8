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
	exitMoves        = 6
)

const exitCodes = `The exit codes of all commands:

  0  done; diff: the plans place all tables alike; validate: the plan is valid;
     watch: the job was steady
  1  the answer is no: plan and replan found that nothing fits, sweep that no cell
     does, validate found violations, diff found differences, watch found a drift
     or a slow device
  2  the command line, a file or its contents are wrong, or a file cannot be
     read or written
  3  interrupted (Ctrl-C, SIGTERM or SIGHUP): the best plan found until then was
     written, marked as interrupted
  4  an error of neuroshard itself
  5  interrupted before there was anything to write: nothing was written
  6  replan --detailed-exitcode: the plan moves something
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
		f.add(values[name] < least, "leave the flag out for the default", "--%s: %d is below %d", name, values[name], least)
	}
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

// sameThing holds the flag that a word of other commands or of other programs stands for: the
// device profile of a cluster is --device, that of a backend --profile.
var sameThing = map[string]string{
	"device":           "profile",
	"profile":          "device",
	"gpu":              "device",
	"gpus":             "devices",
	"num-gpus":         "devices",
	"world-size":       "devices",
	"gpus-per-host":    "devices-per-host",
	"gpus-per-node":    "devices-per-host",
	"devices-per-node": "devices-per-host",
	"local-world-size": "devices-per-host",
}

// hostWords are flags of other programs for the number of hosts.
var hostWords = []string{"hosts", "nodes", "num-hosts", "num-nodes", "nnodes"}

// flagError is the error of a flag that cobra does not accept.
func flagError(cmd *cobra.Command, err error) error {
	message, hint := err.Error(), "see the flags with: "+cmd.CommandPath()+" --help"
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		message = strings.TrimSuffix(message, invalid.Unwrap().Error()) + wrongValue(invalid)
	}
	if near := meantFlag(cmd, err); near != "" {
		hint = "did you mean: " + near + "?"
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && slices.Contains(hostWords, unknown.GetSpecifiedName()) && cmd.Flags().Lookup("devices-per-host") != nil {
		hint = "state the devices of all hosts with --devices, and those of one host with --devices-per-host: two hosts of 8 are --devices 16 --devices-per-host 8"
	}
	return usagef(hint, "%s", message)
}

// meantFlag returns the flag that was probably meant by an unknown one, with its command if
// another command has it, or "".
func meantFlag(cmd *cobra.Command, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return ""
	}
	name := unknown.GetSpecifiedName()
	if letters := unknown.GetSpecifiedShortnames(); letters != "" {
		// -devices is read as a group of letters.
		if name, _, _ = strings.Cut(letters, "="); len(name) == 1 {
			return ""
		}
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if other := sameThing[name]; slices.Contains(names, other) {
		return "--" + other
	}
	if near := words.Closest(name, names); near != "" {
		return "--" + near
	}
	if root := cmd.Root(); root.Flags().Lookup(name) != nil {
		return root.Name() + " --" + name
	}
	return ""
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
			errs = append(errs, faulty("--"+f.Name+": the value is empty", "leave the flag out, or give it a value"))
		case f.Value.Type() != "string":
		case value == "" && f.Name == "output" && what != "folder":
			errs = append(errs, faulty("--output: the name is empty", "name a file, or write - for standard output"))
		case value == "" && f.Name != "module": // a module may have an empty path
			errs = append(errs, faulty("--"+f.Name+": the value is empty", "leave the flag out, or give it a value"))
		case value == standardOutput && what == "folder":
			errs = append(errs, faulty("--"+f.Name+": a folder is neither standard input nor standard output", "name a folder"))
		}
	})
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
			fmt.Fprintln(a.stderr, "neuroshard: error:", line)
		}
		// One hint serves all errors in a row that it answers.
		if c.hint != "" && (i+1 == len(complaints) || complaints[i+1].hint != c.hint) {
			fmt.Fprintln(a.stderr, "neuroshard: hint:", c.hint)
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
