package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/internal/atomicfile"
	"github.com/neuroshard/neuroshard/lab"
	"github.com/neuroshard/neuroshard/lab/train"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/report"
)

// simulatedComm is the value of comm that stands for times of the simulated device.
const simulatedComm = "simulated"

type trainFlags struct {
	cmd                             *cobra.Command
	profile, comm, out, scatterPlot string
	curve, asJSON                   bool
	opt                             lab.Options
}

func newTrainCommand(a *app) *cobra.Command {
	f := &trainFlags{}
	cmd := &cobra.Command{
		Use:   "train DATASET -o FOLDER",
		Short: "Train a cost model",
		Long: `train fits a cost model to a dataset that neuroshard lab collect wrote, prints the
model's errors on tables that it was not trained on, and writes a folder with the
model: weights (model.safetensors) and manifest (manifest.json). Plan with it:
neuroshard plan TABLES --model FOLDER.

If the dataset has no all-to-alls, comm names another dataset that has some, or
"simulated" for times of the simulated device of the profile.

train --simulate PROFILE needs no dataset: it draws groups and all-to-alls and times
them on the simulated device. The models inside this binary were made in this way, with
the default samples and seed; the same command on the same build gives the same bytes.`,
		Example: `  neuroshard lab train samples -o model
  neuroshard lab train samples --ensemble 4 --set scatter=errors.svg -o model
  neuroshard lab train samples --learning-curve
  neuroshard lab train --simulate a100-80 -o model
  neuroshard lab train --simulate a100-80 --samples 5000 --set epochs=20 -o quick`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("usage: "+cmd.UseLine(), "train: one argument too many: %q", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return err
			}
			for _, output := range []string{f.out, f.scatterPlot} {
				if err := a.overwrites(output, append(slices.Clone(args), f.comm)...); err != nil {
					return err
				}
			}
			if f.out != "" && !f.curve {
				if err := checkTrained(a.stderr, f.out, modelfile.Format); err != nil {
					return err
				}
			}
			if len(args) == 1 {
				return trainDataset(cmd.Context(), a, f, args[0])
			}
			return trainSimulated(cmd.Context(), a, f)
		},
	}
	f.cmd = cmd
	flags := cmd.Flags()
	flags.StringVar(&f.profile, "simulate", "", "train on times of the simulated device of this `profile`")
	flags.StringVar(&f.comm, "comm", "", `dataset `+"`folder`"+` of the all-to-alls, or "simulated" (default: the DATASET's own)`)
	flags.StringVarP(&f.out, "output", "o", "", "`folder` to write the model to")
	flags.IntVar(&f.opt.Samples, "samples", lab.DefaultSamples, "groups of fused lookups to draw")
	flags.IntVar(&f.opt.CommSamples, "comm-samples", lab.DefaultCommSamples, "all-to-alls to draw")
	flags.Uint64Var(&f.opt.Seed, "seed", 1, "seed of the draws and of the training")
	flags.IntVar(&f.opt.Train.Epochs, "epochs", 0, fmt.Sprintf("passes over the training groups (default: %d; more for a small dataset of measured samples)", train.DefaultEpochs))
	flags.IntVar(&f.opt.Train.Ensemble, "ensemble", 1, "nets to train; the model predicts their mean")
	flags.IntVar(&f.opt.Train.Workers, "threads", 0, "goroutines; the result does not depend on it (default: all processors)")
	flags.StringVar(&f.scatterPlot, "scatter", "", "`file` to draw predicted against true times to, as SVG")
	flags.BoolVar(&f.curve, "learning-curve", false, "train on growing numbers of samples and print the errors; writes no model")
	flags.BoolVar(&f.asJSON, "json", false, "print the errors as JSON")
	complete(cmd, "simulate", hardware.Names)
	return cmd
}

// check reports flags that are missing, wrong or do not go together.
func (f *trainFlags) check(args []string) error {
	set, of := f.cmd.Flags(), len(args) == 1
	const fixed = "a dataset has a fixed number of samples"
	var all faults
	all.add(!of && f.profile == "", "give a dataset that collect wrote, or train on times of the simulated device: --simulate a100-80", "train: DATASET or --simulate is missing")
	all.add(of && f.profile != "", "leave one of them out", "train: a DATASET and --simulate do not go together")
	all.add(f.out == "" && !f.curve, "name the folder of the model: -o model", "train: --output is missing")
	all.add(!of && f.comm != "", "comm is for samples of a dataset", "train: comm and --simulate do not go together")
	all.below(1, map[string]int{"ensemble": f.opt.Train.Ensemble})
	if set.Changed("epochs") {
		all.below(1, map[string]int{"epochs": f.opt.Train.Epochs})
	}
	all.below(lab.MinSamples, map[string]int{"samples": f.opt.Samples, "comm-samples": f.opt.CommSamples})
	all.add(of && set.Changed("samples"), fixed, "train: --samples goes with --simulate")
	all.add(of && set.Changed("comm-samples") && f.comm != simulatedComm, fixed, "train: comm_samples goes with --simulate")
	info, err := os.Stat(f.out)
	all.add(err == nil && !info.IsDir(), "name a folder", "train: --output: %s is a file", f.out)
	return all.err(asInput(checkWritable(f.scatterPlot)))
}

// trainingProgress returns a function that shows the progress of a training on the bar.
func trainingProgress(bar *progressBar) func(train.Progress) {
	return func(p train.Progress) {
		bar.at(p.Epoch, p.Epochs, fmt.Sprintf("%s net, validation error %.2f %%", p.Phase, 100*p.Error))
	}
}

func trainSimulated(ctx context.Context, a *app, f *trainFlags) error {
	hw, err := hardware.ByName(f.profile)
	if err != nil {
		return bad(err, "list the profiles with: neuroshard list devices")
	}
	bar := a.newProgressBar()
	defer bar.clear()
	f.opt.OnPhase, f.opt.Train.OnProgress = bar.phase, trainingProgress(bar)
	if f.curve {
		points, err := lab.LearningCurve(ctx, hw, lab.CurveSizes(), f.opt)
		if err != nil {
			return err
		}
		bar.clear()
		return printCurve(a, f, points)
	}
	model, accuracy, err := lab.Simulate(ctx, hw, f.opt)
	if err != nil {
		return err
	}
	bar.clear()
	return writeTrained(a, f, model, accuracy)
}

func trainDataset(ctx context.Context, a *app, f *trainFlags, folder string) error {
	bar := a.newProgressBar()
	defer bar.clear()
	bar.phase("reading " + folder)
	set, err := a.readDataset(folder)
	if err != nil {
		return err
	}
	data := train.Data{Compute: set.Compute, Comm: set.Comm}
	if data.Compute == nil || len(data.Compute.Samples) == 0 {
		return usagef("collect some with: neuroshard lab collect --samples N", "%s: there are no groups of fused lookups", folder)
	}
	profile, err := train.ProfileOf(data.Compute.Provenance)
	if err != nil {
		return bad(fmt.Errorf("%s: %w", folder, err), "collect it again")
	}
	opt := f.opt.Train
	opt.Seed, opt.OnProgress = f.opt.Seed, trainingProgress(bar)
	switch f.comm {
	case "":
	case simulatedComm:
		if !hardware.Known(profile.Name) {
			return usagef("measure some with: neuroshard lab collect --set comm_samples=N", "train: comm simulated: the simulated device does not know the profile %q", profile.Name)
		}
		if data.Comm, err = lab.SimulateComm(ctx, profile, f.opt); err != nil {
			return err
		}
		opt.MixedSources = true
	default:
		other, err := a.readDataset(f.comm)
		if err != nil {
			return err
		}
		data.Comm, opt.MixedSources = other.Comm, true
	}
	if data.Comm == nil || len(data.Comm.Samples) == 0 {
		return usagef(`name another dataset with --set comm=FOLDER, or comm simulated for a known profile`, "%s: there are no all-to-alls", folder)
	}
	if f.curve {
		points, err := train.LearningCurve(ctx, data, profile, curveSizes(len(data.Compute.Samples)), opt)
		if err != nil {
			return bad(err, "")
		}
		bar.clear()
		return printCurve(a, f, points)
	}
	model, accuracy, err := train.Fit(ctx, data, profile, opt)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return bad(err, "")
	}
	model.Manifest.Command = f.command(folder)
	if err := model.Seal(); err != nil {
		return err
	}
	bar.clear()
	return writeTrained(a, f, model, accuracy)
}

// command returns the command line that makes the model again.
func (f *trainFlags) command(folder string) string {
	words := []string{"neuroshard lab train", filepath.Base(folder)}
	if f.comm != "" {
		words = append(words, "--set comm="+filepath.Base(f.comm))
	}
	if f.opt.Train.Ensemble > 1 {
		words = append(words, fmt.Sprintf("--ensemble %d", f.opt.Train.Ensemble))
	}
	if f.opt.Train.Epochs > 0 {
		words = append(words, fmt.Sprintf("--set epochs=%d", f.opt.Train.Epochs))
	}
	return strings.Join(append(words, fmt.Sprintf("--seed %d", f.opt.Seed)), " ")
}

// curveSizes returns the sample counts of a learning curve: all samples, half of them, a
// quarter and so on, down to some hundred.
func curveSizes(all int) []int {
	const least = 300
	sizes := []int{all}
	for n := all / 2; n >= least && len(sizes) < 6; n /= 2 {
		sizes = append([]int{n}, sizes...)
	}
	return sizes
}

func printCurve(a *app, f *trainFlags, points []train.CurvePoint) error {
	if f.asJSON {
		return bad(json.NewEncoder(a.stdout).Encode(points), "")
	}
	return bad(report.LearningCurve(a.stdout, points, a.reportOptions()), "")
}

// writeTrained writes a model and prints its errors.
func writeTrained(a *app, f *trainFlags, model *modelfile.Model, accuracy *train.Report) error {
	if f.scatterPlot != "" {
		err := atomicfile.Write(f.scatterPlot, func(w io.Writer) error {
			return train.Scatter(w, accuracy, "model "+model.Manifest.ID)
		})
		if err != nil {
			return bad(err, "choose a file that can be written")
		}
	}
	if err := model.Write(f.out); err != nil {
		return bad(err, "choose a folder that can be written")
	}
	if f.asJSON {
		return bad(json.NewEncoder(a.stdout).Encode(struct {
			Model  string        `json:"model"`
			Source string        `json:"source"`
			Folder string        `json:"folder"`
			Report *train.Report `json:"report"`
		}{model.Manifest.ID, model.Manifest.Source, f.out, accuracy}), "")
	}
	if err := report.Accuracy(a.stdout, model.Manifest, accuracy, a.reportOptions()); err != nil {
		return bad(err, "")
	}
	fmt.Fprintf(a.stdout, "\nwrote %s%c\n", filepath.Clean(f.out), os.PathSeparator)
	return nil
}
