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
		Short: "Compare the searches with themselves, with one option changed or without memory",
		Long: `Compare the published search with itself, each time with one option changed, over the tasks of
bench tasks: N candidates for splitting, K sets of splits that survive a step, L steps, and M
limits on dim sums. K=1 is a search without a beam, M=1 one without a grid. Compare it and the
default method also with themselves without memory: the published search then tries divisions of
tables again that it tried before, and both estimate each group of slices again. Their plans are
the same, and their times are longer. --methods chooses among the two.`,
		Example: `  neuroshard bench ablation --count 20 --workers 1 --reference neuroshard`,
	}
	var f benchFlags
	f.contend = func(opt *bench.Options) error {
		for _, m := range opt.Methods {
			if !slices.ContainsFunc(bench.Ablations(), func(c bench.Contender) bool { return c.Search.Method == m }) {
				return usagef("choose neuroshard, paper or both", "%s: method %q has no options to change", f.name, m)
			}
		}
		for _, c := range bench.Ablations() {
			if slices.Contains(opt.Methods, c.Search.Method) {
				opt.Contenders = append(opt.Contenders, c)
			}
		}
		return nil
	}
	benchDrawn(a, cmd, &f, "setting", paperTasks)
	f.methods = []string{string(search.NeuroShard), string(search.Paper)}
	cmd.Flags().Lookup("methods").Usage = "`methods` to change: neuroshard, paper or both (default: both)"
	return cmd
}
