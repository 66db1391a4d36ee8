package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/neuroshard/neuroshard/problem"
)

// published are TorchRec's default planner's costs by its own estimator, and its times,
// as they were taken on one core of an AMD EPYC (Zen 3).
var published = []struct {
	file          string
	cost, seconds float64
}{
	{"dlrm_8x80_none", 4.173, .97},
	{"dlrm_8x40_adagrad", 5.029, .74},
	{"syn_100t_8g", .845, .7},
	{"syn_100t_32g", 4.301, .72},
	{"syn_100t_128g", 4.859, 124},
}

// answer is what is read of the planner's answer.
type answer struct {
	Valid bool    `json:"valid"`
	Cost  float64 `json:"cost_ms"`
	Plan  struct {
		Tables []struct {
			Kind problem.ShardingType `json:"kind"`
		} `json:"tables"`
	} `json:"plan"`
}

// scenarios prints, for each scenario, the cost of the plan by TorchRec's estimator and
// the time of the whole process, beside those of TorchRec's planner.
func scenarios(ctx context.Context, p *program) error {
	here, err := torchrecHere(p.engines)
	if err != nil {
		return err
	}
	p.head("scenario", ">TorchRec, ms", ">here, ms", ">neuroshard, ms", ">saved %", ">TorchRec, s", ">here, s", ">neuroshard, s", ">CPU, s", ">of TorchRec's time", ">of that here", "tables by sharding type")
	for _, s := range published {
		path := filepath.Join(p.folder, s.file+".json")
		name, err := scenarioName(path)
		if err != nil {
			return err
		}
		a, took, err := timed(ctx, p.binary, p.runs, path)
		if err != nil {
			return err
		}
		count := map[problem.ShardingType]int{}
		for _, t := range a.Plan.Tables {
			count[t.Kind]++
		}
		ownCost, ownTime, ownShare, least := "-", "-", "-", s.cost
		if own, ok := here[name]; ok {
			ownCost, ownTime, ownShare = fmt.Sprintf("%.3f", own.cost), fmt.Sprintf("%.2f", own.seconds), share(took.wall/own.seconds)
			least = min(least, own.cost)
		}
		p.row(s.file, fmt.Sprintf("%.3f", s.cost), ownCost, fmt.Sprintf("%.3f", a.Cost), fmt.Sprintf("%.1f", 100*(1-a.Cost/least)),
			fmt.Sprint(s.seconds), ownTime, fmt.Sprintf("%.3f", took.wall), fmt.Sprintf("%.3f", took.cpu), share(took.wall/s.seconds), ownShare, inWords(count))
	}
	return nil
}

// share prints a share as one over a number.
func share(x float64) string { return fmt.Sprintf("1/%.1f", 1/x) }

// scenarioName reads what a scenario calls itself.
func scenarioName(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var s struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return s.Name, nil
}

// taken is the time of a process, and of its processors, in s.
type taken struct{ wall, cpu float64 }

// timed plans a scenario by TorchRec's formulas in a number of runs of the binary, and
// returns the answer and the medians of the times of the process.
func timed(ctx context.Context, binary string, runs int, path string) (a answer, took taken, err error) {
	var wall, cpu []float64
	for range runs {
		cmd := exec.CommandContext(ctx, binary, "plan", path, "--device", "a100-80", "--model", "torchrec", "--no-baselines", "--json")
		cmd.Stderr = os.Stderr
		start := time.Now()
		out, err := cmd.Output()
		wall = append(wall, time.Since(start).Seconds())
		if err != nil {
			return a, took, fmt.Errorf("%s: %w", path, err)
		}
		cpu = append(cpu, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
		a = answer{}
		if err := json.Unmarshal(out, &a); err != nil {
			return a, took, fmt.Errorf("%s: %w", path, err)
		}
		if !a.Valid {
			return a, took, fmt.Errorf("%s: the plan is not valid", path)
		}
	}
	return a, taken{median(wall), median(cpu)}, nil
}

// torchrec is what TorchRec's planner made of a scenario.
type torchrec struct{ cost, seconds float64 }

// torchrecHere reads what TorchRec's default planner made of each scenario on the
// machine of docs/ENGINES.md from the file engines: the cheapest of its plans, by
// name. Without the file there are none.
func torchrecHere(engines string) (map[string]torchrec, error) {
	text, err := os.ReadFile(engines)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	var file struct {
		Scenarios []struct {
			Name  string `json:"name"`
			Plans []struct {
				Planner  string    `json:"planner"`
				Seconds  []float64 `json:"plan_s"`
				Estimate struct {
					Max float64 `json:"max_ms"`
				} `json:"estimate"`
			} `json:"plans"`
		} `json:"scenarios"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", engines, err)
	}
	found := map[string]torchrec{}
	for _, s := range file.Scenarios {
		for _, one := range s.Plans {
			if one.Planner != "TorchRec, default" || len(one.Seconds) == 0 {
				continue
			}
			if old, ok := found[s.Name]; !ok || one.Estimate.Max < old.cost {
				found[s.Name] = torchrec{one.Estimate.Max, median(one.Seconds)}
			}
		}
	}
	return found, nil
}

// median returns the middle of some numbers, or the mean of the middle two.
func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
