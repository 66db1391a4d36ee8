package main

import (
	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

func newBenchStressCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "stress",
		Short:   "Compare methods over tasks whose tables nearly fill the memory",
		Long:    `Compare methods over tasks whose tables fill 80 to 99 % of the memory: --count tasks for each of ten families.`,
		Example: `  neuroshard bench stress --count 100`,
	}
	benchDrawn(a, cmd, new(benchFlags), "family", func(hw hardware.Profile, _ *cost.Model, count int, seed uint64) ([]bench.Task, error) {
		return bench.StressTasks(hw, count, seed)
	})
	return cmd
}
