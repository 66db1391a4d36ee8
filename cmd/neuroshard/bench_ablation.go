package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/search"
)

func newBenchAblationCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ablation",
		Short: "Compare the published search with itself, with one option changed",
		Long: `Compare the published search with itself, each time with one option changed, over the tasks of
bench tasks: N candidates for splitting, K sets of splits that survive a step, L steps, and M
limits on dim sums. K=1 is a search without a beam, M=1 one without a grid. --methods may leave
out the default method, which is compared with them.`,
		Example: `  neuroshard bench ablation --count 20 --workers 1 --reference neuroshard`,
	}
	var f benchFlags
	f.contend = func(opt *bench.Options) error {
		for _, m := range opt.Methods {
			if m != search.NeuroShard && m != search.Paper {
				return usagef("choose neuroshard, paper or both", "%s: method %q has no options to change", f.name, m)
			}
		}
		if slices.Contains(opt.Methods, search.Paper) {
			opt.Contenders = bench.Ablations()
		}
		return nil
	}
	benchDrawn(a, cmd, &f, "setting", paperTasks)
	f.methods = []string{string(search.NeuroShard), string(search.Paper)}
	cmd.Flags().Lookup("methods").Usage = "`methods` to compare: neuroshard, paper or both (default: both)"
	return cmd
}
