package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/problem"
)

// model.go holds what commands share that take a cost model.

// formulasOf returns the prices of the release of TorchRec that a value of --model names, such as
// torchrec or torchrec-1.6; nil if the value is no such name.
func formulasOf(model string) neuroshard.Prices {
	r, ok := problem.ParseTorchRec(model)
	if !ok {
		return nil
	}
	return neuroshard.TorchRecOf(r)
}

// unknownRelease returns an error for a value of --model that could be a release of TorchRec, and
// is neither one nor a folder.
func unknownRelease(model string) error {
	if _, err := os.Stat(model); err == nil || !strings.HasPrefix(model, string(problem.TorchRec)+"-") {
		return nil
	}
	return faulty(fmt.Sprintf("--model: there is no folder %q, and no such release of TorchRec is known", model), "choose one of "+strings.Join(problem.TorchRecNames(), ", "))
}

// modelUsage is the help of --model.
const modelUsage = "`folder` of the cost model, as lab train writes it, or torchrec or torchrec-1.6 for the formulas of TorchRec's planner"

// deviceFlag registers --device, whose file stands in the place of a model.
func (a *app) deviceFlag(cmd *cobra.Command, model *string) {
	cmd.Flags().Var(&deviceFile{model, &a.described}, "device", "describe the devices in this YAML `file`: like, a known profile whose cost model is used, name, and what differs")
	cmd.MarkFlagsMutuallyExclusive("model", "device")
}

// deviceFile is the value of --device, which is also that of --model.
type deviceFile struct{ model, device *string }

// Set takes the path of a file, and never the name of TorchRec's formulas.
func (d *deviceFile) Set(path string) error {
	if info, err := os.Stat(path); err != nil {
		return errors.New("there is no such file")
	} else if info.IsDir() {
		return errors.New("it is a folder")
	}
	if formulasOf(path) != nil {
		path = "." + string(filepath.Separator) + path
	}
	*d.model, *d.device = path, path
	return nil
}

// String returns the default.
func (d *deviceFile) String() string { return "" }

// Type returns the kind of value.
func (d *deviceFile) Type() string { return "file" }

// riskPenaltyUsage is the help of risk_penalty.
const riskPenaltyUsage = "standard `deviations` of an ensemble's nets that the search adds to the estimated cost"

// mostRiskPenalty bounds risk_penalty: above it the deviation outweighs the estimate.
const mostRiskPenalty = 100

// checkRiskPenalty refuses a penalty that is out of range, or above 0 with a model that
// is no ensemble: only the nets of an ensemble tell how unsure the model is. The model
// is nil if it is one of those inside the binary, or none.
func checkRiskPenalty(penalty float64, model *cost.Model) error {
	switch {
	case !(penalty >= 0 && penalty <= mostRiskPenalty):
		return usagef("leave the flag out for none", "risk_penalty: %v is not a number from 0 to %d", penalty, mostRiskPenalty)
	case penalty > 0 && (model == nil || model.Members() < 2):
		return usagef("train one with: neuroshard lab train DATASET --ensemble 4 -o FOLDER, and give it as --model", "risk_penalty: the cost model is no ensemble")
	}
	return nil
}

// completeModel offers folders and TorchRec's formulas for --model.
func completeModel(cmd *cobra.Command) {
	completeBy(cmd, "model", func(word string) ([]string, cobra.ShellCompDirective) {
		if word != "" && strings.HasPrefix(string(problem.TorchRec), word[:min(len(word), len(problem.TorchRec))]) {
			return problem.TorchRecNames(), cobra.ShellCompDirectiveDefault
		}
		return nil, cobra.ShellCompDirectiveFilterDirs
	})
}
