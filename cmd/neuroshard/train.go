package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/hardware"
	"github.com/neuroshard/neuroshard/pretrain"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/train"
)

func newTrainCommand(a *app) *cobra.Command {
	var (
		profile, out string
		curve        bool
		asJSON       bool
		opt          pretrain.Options
	)
	cmd := &cobra.Command{
		Use:   "train --simulate PROFILE -o FOLDER",
		Short: "Train a cost model",
		Long: `train draws groups of table slices and all-to-alls, has the simulated device of
a hardware profile time them, and trains a cost model on the times. It prints
the model's errors on tables that it was not trained on and writes a folder
with the model: weights (model.safetensors) and manifest (manifest.json).

The models inside this binary were made so, with the default samples and seed:
the same command on the same build gives the same bytes.`,
		Example: `  neuroshard train --simulate a100-80 -o model
  neuroshard train --simulate a100-80 --samples 5000 --epochs 20 -o quick
  neuroshard train --simulate a100-80 --learning-curve`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if profile == "" {
				return usagef("samples come from the simulated device: --simulate a100-80", "train: --simulate is missing")
			}
			hw, err := hardware.ByName(profile)
			if err != nil {
				return bad(err, "list the profiles with: neuroshard devices")
			}
			if out == "" && !curve {
				return usagef("name the folder of the model: -o model", "train: --output is missing")
			}
			if opt.Samples < pretrain.MinSamples || opt.CommSamples < pretrain.MinSamples || opt.Train.Epochs < 1 {
				return usagef("", "train: --samples %d, --comm-samples %d, --epochs %d: there must be at least %d samples of each kind and one epoch",
					opt.Samples, opt.CommSamples, opt.Train.Epochs, pretrain.MinSamples)
			}
			bar := a.newMeter()
			defer bar.clear()
			opt.OnPhase = bar.phase
			opt.Train.OnProgress = func(p train.Progress) {
				bar.at(p.Epoch, p.Epochs, fmt.Sprintf("%s net, validation error %.2f %%", p.Phase, 100*p.Error))
			}
			if curve {
				points, err := pretrain.LearningCurve(cmd.Context(), hw, pretrain.CurveSizes(), opt)
				if err != nil {
					return err
				}
				bar.clear()
				if asJSON {
					return json.NewEncoder(a.stdout).Encode(points)
				}
				return report.LearningCurve(a.stdout, points, a.reportOptions())
			}
			model, accuracy, err := pretrain.Simulate(cmd.Context(), hw, opt)
			if err != nil {
				return err
			}
			bar.clear()
			if err := model.Write(out); err != nil {
				return bad(err, "choose a folder that can be written")
			}
			if asJSON {
				return json.NewEncoder(a.stdout).Encode(struct {
					Model  string        `json:"model"`
					Source string        `json:"source"`
					Folder string        `json:"folder"`
					Report *train.Report `json:"report"`
				}{model.Manifest.ID, model.Manifest.Source, out, accuracy})
			}
			if err := report.Accuracy(a.stdout, model.Manifest, accuracy, a.reportOptions()); err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "\nwrote %s%c\n", filepath.Clean(out), os.PathSeparator)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&profile, "simulate", "", "hardware `profile` whose simulated device times the samples")
	flags.StringVarP(&out, "output", "o", "", "`folder` to write the model to")
	flags.IntVar(&opt.Samples, "samples", pretrain.DefaultSamples, "groups of fused lookups to draw")
	flags.IntVar(&opt.CommSamples, "comm-samples", pretrain.DefaultCommSamples, "all-to-alls to draw")
	flags.Uint64Var(&opt.Seed, "seed", 1, "seed of the draws and of the training")
	flags.IntVar(&opt.Train.Epochs, "epochs", train.DefaultEpochs, "passes over the training groups")
	flags.IntVar(&opt.Train.Workers, "workers", 0, "goroutines; the result does not depend on it (default: all processors)")
	flags.BoolVar(&curve, "learning-curve", false, "train on 2k, 10k, 30k and 100k samples and print the errors; writes no model")
	flags.BoolVar(&asJSON, "json", false, "print the errors as JSON")
	complete(cmd, "simulate", hardware.Names)
	return cmd
}
