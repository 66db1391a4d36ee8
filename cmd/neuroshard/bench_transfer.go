package main

import (
	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

func newBenchTransferCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "transfer",
		Short: "Compare methods over tasks larger than those that policies are trained on",
		Long: `Compare methods over tasks of 50 tables on 4 devices, 100 on 8 and 200 on 16: --count tasks
of each. train-policy trains on 50 tables and 4 devices by default. A policy that was
trained with another seed than --seed has not seen the tables.`,
		Example: `  neuroshard bench transfer --count 20`,
	}
	var f benchFlags
	benchDrawn(a, cmd, &f, "setting", func(hw hardware.Profile, _ *cost.Model, count int, seed uint64) ([]bench.Task, error) {
		return bench.TransferTasks(hw, count, seed)
	})
	return cmd
}
