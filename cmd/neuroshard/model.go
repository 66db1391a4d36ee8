package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/cost"
)

// model.go holds what commands share that take a cost model.

// torchRecModel is the value of --model that stands for TorchRec's formulas.
const torchRecModel = "torchrec"

// riskPenaltyUsage is the help of --risk-penalty.
const riskPenaltyUsage = "standard `deviations` of an ensemble's nets that the search adds to the estimated cost"

// mostRiskPenalty bounds --risk-penalty: above it the deviation outweighs the estimate.
const mostRiskPenalty = 100

// checkRiskPenalty refuses a penalty that is out of range, or above 0 with a model that
// is no ensemble: only the nets of an ensemble tell how unsure the model is. The model
// is nil if it is one of those inside the binary, or none.
func checkRiskPenalty(penalty float64, model *cost.Model) error {
	switch {
	case !(penalty >= 0 && penalty <= mostRiskPenalty):
		return usagef("leave the flag out for none", "--risk-penalty: %v is not a number from 0 to %d", penalty, mostRiskPenalty)
	case penalty > 0 && (model == nil || model.Members() < 2):
		return usagef("train one with: neuroshard train DATASET --ensemble 4 -o FOLDER, and give it as --model", "--risk-penalty: the cost model is no ensemble")
	}
	return nil
}

// completeModel offers folders and TorchRec's formulas for --model.
func completeModel(cmd *cobra.Command) {
	err := cmd.RegisterFlagCompletionFunc("model", func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		if word != "" && strings.HasPrefix(torchRecModel, word) {
			return []string{torchRecModel}, cobra.ShellCompDirectiveDefault
		}
		return nil, cobra.ShellCompDirectiveFilterDirs
	})
	if err != nil {
		panic("neuroshard: " + err.Error())
	}
}
