package collect_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

func ExampleRun() {
	parent, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(parent) }()
	folder := filepath.Join(parent, "samples")

	groups, err := design.CPU().Compute(1, 20, 50)
	if err != nil {
		log.Fatal(err)
	}
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		log.Fatal(err)
	}
	backend := collect.NewSimulated(profile)
	defer backend.Close()
	design := dataset.Dataset{Compute: groups}

	// If the process is killed, at most the sample in progress is lost: the same call
	// continues.
	set, err := collect.Run(context.Background(), design, backend, folder, collect.Options{Tool: "example"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(set.Compute.Samples), "samples,", set.Compute.Provenance.Source)

	_, err = collect.Run(context.Background(), design, backend, folder, collect.Options{Tool: "example"})
	fmt.Println("again:", errors.Is(err, collect.ErrFinished))
	// Output:
	// 50 samples, simulated
	// again: true
}

func ExampleStartWorker() {
	ctx := context.Background()
	worker, err := collect.StartWorker(ctx, collect.WorkerOptions{
		Command: []string{"neuroshard", "worker"}, Stderr: os.Stderr,
		Warmup: 1, Repeats: 3, Name: "my-machine",
		OnLog: func(message string) { fmt.Fprintln(os.Stderr, message) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close()
	groups, err := design.CPU().Compute(1, 20, 50)
	if err != nil {
		log.Fatal(err)
	}
	timing, err := worker.Compute(ctx, groups.Tables, &groups.Samples[0])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(timing.Forward, timing.Backward)
}
