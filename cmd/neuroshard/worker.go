package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/lab/worker"
	"github.com/neuroshard/neuroshard/unit"
)

// newWorkerCommand is the process that collect and verify start for the backend cpu. The
// command is hidden, because nobody types its input. It is a worker like any other
// (docs/MEASURING.md).
func newWorkerCommand(a *app) *cobra.Command {
	var (
		clock   string
		threads int
		memory  size
	)
	cmd := &cobra.Command{
		Use:    "worker",
		Short:  "Run kernels on this machine's CPU, as the messages on standard input say",
		Hidden: true,
		Args:   exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if clock != wallClock && clock != processorClock {
				return usagef("choose wall or processor", "worker: clock: %q is unknown", clock)
			}
			return longLine(worker.Serve(cmd.Context(), a.stdin, a.stdout, worker.Options{
				ProcessorTime: clock == processorClock,
				Threads:       threads, Memory: unit.Bytes(memory),
			}))
		},
	}
	f := cmd.Flags()
	f.IntVar(&threads, "backend-threads", 0, "threads of one device (default: all cores)")
	f.StringVar(&clock, "clock", wallClock, "clock of the times: wall or processor")
	f.Var(&memory, "memory", "memory for a group's weights and state (default: half of the machine's)")
	return cmd
}

// longLine marks the error of a message that is too long as one of the input.
func longLine(err error) error {
	if errors.Is(err, protocol.ErrLong) {
		return bad(fmt.Errorf("worker: standard input: %w", err), "write each message on a line of its own: docs/MEASURING.md")
	}
	return err
}
