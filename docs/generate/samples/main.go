// Command samples trains cost models from fewer samples than the shipped one, and compares the
// plans of their searches, for docs/METHODS.md:
//
//	go run ./docs/generate/samples -shares 30,10,3,1 -count 20
//
// Each model has the first samples of the shipped model's draw and, as in the learning curve of
// docs/MODELS.md, up to ten times the passes over them. The tasks are those of bench tasks. The
// simulated device judges the plans.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/lab"
	"github.com/neuroshard/neuroshard/lab/bench"
	"github.com/neuroshard/neuroshard/lab/train"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
)

func main() {
	shares := flag.String("shares", "30,10,3,1", "per cent of the shipped model's samples, by commas")
	count := flag.Int("count", 20, "tasks of each setting")
	profile := flag.String("profile", "a100-80", "device profile")
	workers := flag.Int("workers", 1, "goroutines")
	flag.Parse()
	if err := run(os.Stdout, *shares, *profile, *count, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "samples: error:", err)
		os.Exit(1)
	}
}

// whole names the shipped model in the table.
const whole = "100"

func run(w io.Writer, shares, profile string, count, workers int) error {
	hw, err := hardware.ByName(profile)
	if err != nil {
		return err
	}
	var of []float64
	for text := range strings.SplitSeq(shares, ",") {
		share, err := strconv.ParseFloat(text, 64)
		if err != nil || !(share >= least && share < 100) {
			return fmt.Errorf("-shares: %q is not a share from %v to below 100 per cent", text, least)
		}
		of = append(of, share)
	}
	tasks, err := bench.PaperTasks(hw, count, 1)
	if err != nil {
		return err
	}
	shipped, err := pretrained.File(profile)
	if err != nil {
		return err
	}
	cards := map[search.Method]modelfile.Card{}
	var records []bench.Record
	plans := func(name string, file *modelfile.Model) error {
		found, err := planned(tasks, search.Method(name), file, workers)
		records, cards[search.Method(name)] = append(records, found...), file.Manifest.Card
		fmt.Fprintf(os.Stderr, "samples: %s %% planned\n", name)
		return err
	}
	if err := plans(whole, shipped); err != nil {
		return err
	}
	for _, share := range of {
		file, err := fewer(hw, share, workers)
		if err != nil {
			return err
		}
		if err := plans(strconv.FormatFloat(share, 'g', -1, 64), file); err != nil {
			return err
		}
	}
	return print(w, bench.Summarise(records, whole), cards)
}

// least is the smallest share whose all-to-alls are enough for each split.
const least = 100 * float64(lab.MinSamples) / lab.DefaultCommSamples

// fewer trains a model from a share of the samples, in per cent.
func fewer(hw hardware.Profile, share float64, workers int) (*modelfile.Model, error) {
	opt := lab.Options{Seed: 1}
	opt.Samples, opt.CommSamples = int(share*lab.DefaultSamples/100), int(share*lab.DefaultCommSamples/100)
	opt.Train.Workers, opt.Train.Epochs = workers, int(train.DefaultEpochs*min(10, 100/share))
	file, _, err := lab.Simulate(context.Background(), hw, opt)
	return file, err
}

// planned plans the tasks with a model, and returns the records under its name.
func planned(tasks []bench.Task, name search.Method, file *modelfile.Model, workers int) ([]bench.Record, error) {
	model, err := cost.Load(file)
	if err != nil {
		return nil, err
	}
	records, err := bench.Run(context.Background(), tasks, bench.Options{
		Prices: neuroshard.Trained(model, 0), Workers: workers, Seed: 1,
		Contenders: []bench.Contender{{Name: name, Search: search.Options{Method: search.NeuroShard}}},
	})
	return records, err
}

// print prints a row for each model, in the order of the summary.
func print(w io.Writer, summary []bench.Summary, cards map[search.Method]modelfile.Card) error {
	var names []search.Method
	var settings []string
	ratios := map[search.Method][]string{}
	for i := range summary {
		s := &summary[i]
		if len(ratios[s.Method]) == 0 {
			names = append(names, s.Method)
		}
		if s.Method == whole {
			settings = append(settings, s.Setting)
		}
		ratio := "none"
		if s.Against != nil {
			r := s.Against.Ratio
			ratio = fmt.Sprintf("%.3f (%.3f-%.3f)", r.Mean, r.Low, r.High)
		}
		ratios[s.Method] = append(ratios[s.Method], ratio)
	}
	fmt.Fprintf(w, "| samples, %% | groups | all-to-alls | passes | errors, %% | %s |\n", strings.Join(settings, " | "))
	fmt.Fprintf(w, "|--:|--:|--:|--:|--:|%s\n", strings.Repeat("--:|", len(settings)))
	for _, name := range names {
		c := cards[name]
		if _, err := fmt.Fprintf(w, "| %s | %d | %d | %d | %.2f | %s |\n", name, c.ComputeSamples, c.CommSamples, c.Epochs, c.Compute.Mean, strings.Join(ratios[name], " | ")); err != nil {
			return err
		}
	}
	return nil
}
