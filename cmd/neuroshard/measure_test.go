package main

import (
	"bufio"
	"encoding/json"
	"os"

	"github.com/neuroshard/neuroshard/lab/protocol"
)

// countingWorker is a worker for scripts, whose times are fixed: a group takes 1 ms for each of its
// slices, and an all-to-all 0.25 ms after the last device. So the plan with the fewest
// slices on its fullest device is the fastest, whatever the cost model says. With the argument
// "full" it has no memory for groups of more than one slice, with "alone" no all-to-alls. With
// "gpu" it states that it has none, and what FBGEMM has on a GPU.
func countingWorker() {
	mode := ""
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	out, lines := bufio.NewWriter(os.Stdout), protocol.NewReader(os.Stdin)
	say := func(r protocol.Response) {
		if protocol.Write(out, r) != nil || out.Flush() != nil {
			os.Exit(1) // nobody listens any more
		}
	}
	for {
		line, err := lines.Line()
		if err != nil {
			return
		}
		var q protocol.Request
		if err := json.Unmarshal(line, &q); err != nil {
			panic(err)
		}
		r := protocol.Response{Op: q.Op, ID: q.ID, N: 3, Source: "measured"}
		switch q.Op {
		case protocol.OpHello:
			r.V, r.Backend, r.Device, r.Kernel, r.Measured = protocol.Version, "fake", "a counter of slices", "fake 1", true
			r.Caps = []string{protocol.CapCompute, protocol.CapLengths, protocol.CapComm, "sgd", "fp32"}
			if mode == "gpu" {
				r.Caps = []string{protocol.CapCompute, protocol.CapLengths, "sgd", "adam", "fp32", "fp16"}
				r.Lacks = []string{"adam fp16"}
			}
		case protocol.OpTables:
			for _, t := range q.Tables {
				r.Tables = append(r.Tables, protocol.Table{T: t.T, UniqueRows: t.UniqueRows, Reuse: t.Reuse})
			}
		case protocol.OpCompute:
			if r.ForwardMS, r.BackwardMS = float64(len(q.Group))/2, float64(len(q.Group))/2; mode == "full" && len(q.Group) > 1 {
				r.Op, r.Code, r.Message = protocol.OpError, protocol.CodeMemory, "one slice is enough"
			}
		case protocol.OpComm:
			last := 0.
			for _, start := range q.StartMS {
				last = max(last, start)
			}
			for _, start := range q.StartMS {
				r.Forward, r.Backward = append(r.Forward, last-start+.25), append(r.Backward, .25)
			}
			if mode == "alone" || mode == "gpu" {
				r.Op, r.Code, r.Message = protocol.OpError, protocol.CodeUnsupported, "there is one device"
			}
		}
		say(r)
	}
}
