package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/lab/watch"
	"github.com/neuroshard/neuroshard/report"
)

type watchFlags struct {
	once, json, exitCode bool
	window               int
	threshold            float64
	season               int
	// tables and features explain changes; model prices them.
	tables, features, model string
}

func newWatchCommand(a *app) *cobra.Command {
	f := &watchFlags{}
	cmd := &cobra.Command{
		Use:   "watch PLAN [FILE|-]",
		Short: "Tell from a job's live times whether its plan still fits: steady, drift, slow device",
		Long: `Watch the times of a training job that runs a plan, and say what changes: the load of
all devices drifts, or one device becomes slow. Nothing is ever moved.

FILE holds a line for each step of each device, in any order of devices; without FILE,
or with -, the lines come from standard input:

  {"step":123,"device":4,"forward_ms":1.2,"backward_ms":2.3,"wait_ms":0.4}

Without --once, a file is followed as it grows, until Ctrl-C. With --once the command
ends with the file. docs/OPERATION.md has the keys, the detectors and their false alarms.

The exit code is 0 whatever was found, 2 if the lines or the plan cannot be used, 3 after
Ctrl-C. With --exit-code it is 6 if the load drifted or a device was slow.`,
		Example: `  neuroshard watch plan.json times.jsonl --once
  tail -q -F times.*.jsonl | neuroshard watch plan.json -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return exactArgs("PLAN")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			source := standardOutput
			if len(args) == 2 {
				source = args[1]
			}
			return runWatch(cmd.Context(), a, f, args[0], source)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.once, "once", false, "end where the file ends, and do not wait for more")
	flags.BoolVar(&f.json, "json", false, "print each event as one JSON object on a line, and the end as the last one")
	flags.BoolVar(&f.exitCode, "exit-code", false, "end with exit code 6, not 0, if the load drifted or a device was slow")
	flags.IntVar(&f.window, "window", 0, "`steps` of a window, whose median counts (default: 100)")
	flags.Float64Var(&f.threshold, "threshold", 0, "standard deviations that the sum of deviations must reach for an alarm (default: 10)")
	flags.IntVar(&f.season, "season", 0, "`steps` after which the load repeats itself, such as those of a day; below 0 for none (default: a day, if the lines state times)")
	flags.StringVar(&f.tables, "tables", "", "what was planned: a `file` of tables, or workload:NAME; with --features")
	flags.StringVar(&f.features, "features", "", "the same tables with live features, a `file` as neuroshard lab profile writes it: says which changes they explain")
	flags.StringVar(&f.model, "model", "", "`folder` of the cost model that the plan was made with (default: the model that ships for the profile)")
	return cmd
}

// mostFaults is the number of faults of lines that are printed.
const mostFaults = 10

// tolerated is the share of lines that may be wrong, in lines for each fault; the first few
// faults are never too many while the watch goes on.
const (
	tolerated  = 100
	fewFaults  = 100
	linesAhead = 1024
)

func runWatch(ctx context.Context, a *app, f *watchFlags, planned, source string) error {
	pl, err := a.readPlan(planned)
	if err != nil {
		return err
	}
	if !pl.Priced() {
		return usagef("convert it with --tables, which estimates its cost", "%s: no model estimated the times of the plan: there is nothing to compare with", planned)
	}
	a.doubt(planned, pl)
	adviser, err := newAdviser(ctx, a, f, planned, pl)
	if err != nil {
		return err
	}
	predicted := watch.Predicted(pl)
	opt := watch.Options{Window: f.window, Threshold: f.threshold, Season: f.season, Counted: watch.CountedBy(pl)}
	if f.once {
		opt.Lag = max(1, rowsInMemory/len(predicted))
	}
	w, err := watch.New(predicted, opt)
	if err != nil {
		return usagef("", "watch: %w", err)
	}
	name, r, err := a.open(source)
	if err != nil {
		return err
	}
	defer r.Close()
	v := &vigil{a: a, f: f, name: name, watcher: w, adviser: adviser}
	if file, ok := r.(countedFile); ok && !f.once {
		r = &follower{countedFile: file, ctx: ctx, rewritten: v.rewritten}
	}
	return v.run(ctx, watch.NewLines(r, len(predicted)))
}

// rowsInMemory bounds the medians that are held for devices whose lines come later in a file.
const rowsInMemory = 1 << 22

// vigil is one run of the command.
type vigil struct {
	a       *app
	f       *watchFlags
	name    string
	watcher *watch.Watcher
	// adviser is nil if no live features are stated.
	adviser *adviser
	faults  int
	lines   int
}

// read is one line, or what was wrong with it.
type read struct {
	line watch.Line
	err  error
}

// run reads until the lines end or the context does. Reading a pipe may wait for ever, so it
// runs beside.
func (v *vigil) run(ctx context.Context, lines *watch.Lines) error {
	reads := make(chan read, linesAhead)
	go func() {
		defer close(reads)
		for {
			line, err := lines.Next()
			select {
			case reads <- read{line, err}:
			case <-ctx.Done():
				return
			}
			if fault := (*watch.Fault)(nil); err != nil && !errors.As(err, &fault) {
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return v.end(ctx, lines, &exitError{code: exitInterrupted})
		case got, open := <-reads:
			if !open {
				return v.end(ctx, lines, &exitError{code: exitInterrupted})
			}
			if errors.Is(got.err, io.EOF) {
				return v.end(ctx, lines, ctx.Err())
			}
			if err := v.take(ctx, got); err != nil {
				return err
			}
		}
	}
}

// take looks at one line.
func (v *vigil) take(ctx context.Context, got read) error {
	v.lines++
	if got.err == nil {
		return v.print(ctx, v.watcher.Add(got.line))
	}
	fault, ok := errors.AsType[*watch.Fault](got.err)
	if !ok {
		return bad(fmt.Errorf("%s: %w", v.name, got.err), "")
	}
	if fault.Cut {
		warn(v.a.stderr, "%s: line %d is not complete, and was passed over: its writer is still writing, or was stopped", v.name, fault.Line)
		return nil
	}
	if v.faults++; v.faults <= mostFaults {
		warn(v.a.stderr, "%s: %v: the line is passed over", v.name, fault)
	}
	if v.faults > fewFaults && v.faults*tolerated > v.lines {
		return v.wrong()
	}
	return nil
}

// rewritten says that the followed file became shorter.
func (v *vigil) rewritten() {
	warn(v.a.stderr, "%s: the file became shorter: it is read again from its start", v.name)
}

// wrong is the error of too many wrong lines.
func (v *vigil) wrong() error {
	return usagef(`a line is such as {"step":123,"device":4,"forward_ms":1.2,"backward_ms":2.3,"wait_ms":0.4}`,
		"%s: %d of %s are wrong: this is not the file of a watch of this plan", v.name, v.faults, words.Plural(v.lines, "line"))
}

// print prints events. While a watch goes on, it adds what the live features explain of each
// change; with --once that comes at the end.
func (v *vigil) print(ctx context.Context, events []watch.Event) error {
	changed := false
	for _, e := range events {
		changed = changed || e.Topic == watch.TopicDrift || e.Topic == watch.TopicSlow
		if err := report.WatchEvent(v.a.stdout, e, v.f.json); err != nil {
			return bad(err, "")
		}
	}
	if !changed || v.f.once || v.adviser == nil {
		return nil
	}
	s := v.watcher.Summary()
	advice, err := v.adviser.advise(ctx, &s)
	if err != nil {
		warn(v.a.stderr, "the live features cannot be used now: %v", err) // they may be written at this moment
		return nil
	}
	return bad(report.WatchExplained(v.a.stdout, advice, v.f.json), "")
}

// end prints what was found. interrupted is not nil after Ctrl-C.
func (v *vigil) end(ctx context.Context, lines *watch.Lines, interrupted error) error {
	if err := v.print(ctx, v.watcher.End()); err != nil {
		return err
	}
	if more := words.More("", v.faults-mostFaults); more != "" {
		warn(v.a.stderr, "%s: %s wrong lines were passed over", v.name, more)
	}
	if keys := lines.Unknown(); len(keys) > 0 {
		warn(v.a.stderr, "%s: these keys of lines are not used: %s", v.name, words.Quoted(keys, 5))
	}
	s := v.watcher.Summary()
	switch {
	case interrupted == nil && s.Tally.Lines == 0 && v.faults == 0:
		return usagef("the hook of the training job writes the lines: docs/OPERATION.md", "%s: there is no line", v.name)
	case interrupted == nil && v.faults*tolerated > v.lines:
		return v.wrong()
	}
	end := report.Watched{Summary: s, Faults: v.faults}
	if v.adviser != nil && s.Outcome != watch.Steady {
		advice, err := v.adviser.advise(ctx, &end.Summary)
		if err != nil {
			return err
		}
		end.Advice = advice
	}
	if err := report.WatchEnd(v.a.stdout, end, v.a.reportOptions(), v.f.json); err != nil {
		return bad(err, "")
	}
	switch {
	case interrupted != nil:
		return &exitError{code: exitInterrupted}
	case v.f.exitCode && s.Outcome != watch.Steady:
		return &exitError{code: exitVerdict}
	}
	return nil
}

// follower reads a file that grows: at its end it waits for more, until the context ends.
type follower struct {
	countedFile
	ctx       context.Context
	rewritten func()
	offset    int64
}

// growth is how long the follower waits before it looks at the file again.
const growth = 200 * time.Millisecond

func (f *follower) Read(b []byte) (int, error) {
	for {
		n, err := f.countedFile.Read(b)
		f.offset += int64(n)
		if n > 0 || err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		info, err := f.Stat()
		switch {
		case err != nil:
			return 0, err
		case !info.Mode().IsRegular():
			return 0, io.EOF // a pipe whose writers have closed it
		case info.Size() < f.offset:
			f.rewritten()
			f.offset = 0
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return 0, err
			}
			continue
		}
		wait := time.NewTimer(growth)
		select {
		case <-f.ctx.Done():
			wait.Stop()
			return 0, io.EOF
		case <-wait.C:
		}
	}
}

var _ io.ReadCloser = (*follower)(nil)
