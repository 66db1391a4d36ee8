//go:build ruler

package ruler

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/unit"
)

// record is the file of the costs known.
type record struct {
	Set     int               `json:"set"`
	Classes map[string]*known `json:"classes"`
}

// known is what is known of a class: Last is the last result recorded, and the other fields are about its problems, by number.
type known struct {
	Last result `json:"last"`
	// Costs are the cheapest costs known, in ms; 0 where no plan is known.
	Costs []float64 `json:"costs_ms"`
	// Proven lists the problems with a plan that some search proved to be the cheapest.
	Proven []int `json:"proven"`
}

// result is what the ruler shows of a class. Solved, Proven, Evaluations, Moved and Seconds are sums over all searches.
type result struct {
	Problems int `json:"problems"`
	Seeds    int `json:"seeds"`
	// Mean, P95 and Worst say how far costs are above the costs known, in percent.
	Mean  float64 `json:"mean_percent"`
	P95   float64 `json:"p95_percent"`
	Worst float64 `json:"worst_percent"`
	// WorstProblem is the number of the problem that is worst.
	WorstProblem int        `json:"worst_problem"`
	Solved       int        `json:"solved"`
	Proven       int        `json:"proven"`
	Evaluations  int64      `json:"evaluations"`
	Moved        unit.Bytes `json:"moved_bytes"`
	Seconds      float64    `json:"processor_seconds"`
	// lost says which problems are not solved or proven, although that is known of them.
	lost []string
}

// The most that a class may be further above the costs known than in its last result, in points of a percent. The plans of two
// seeds differ, so an unchanged search is a little above the cheapest known plans, too.
const mostMean, mostP95, mostWorst = .1, 1, 2

// readRecord reads the record of a set. A file that does not exist is an empty record.
func readRecord(t *testing.T, set int, file string) *record {
	t.Helper()
	r := &record{Set: set, Classes: map[string]*known{}}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r
	}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err == nil && r.Set != set {
		err = fmt.Errorf("%s has the costs of set %d, and set %d is measured: name another file with -record", file, r.Set, set)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *record) write(t *testing.T, file string) {
	t.Helper()
	text, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = os.WriteFile(file, append(text, '\n'), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// class returns what is known of a class of count problems.
func (r *record) class(name string, count int) *known {
	k := r.Classes[name]
	if k == nil {
		k = &known{}
		r.Classes[name] = k
	}
	for len(k.Costs) < count {
		k.Costs = append(k.Costs, 0)
	}
	return k
}

// learn takes over what a search found for problem i, if it is cheaper than the known plan.
func (k *known) learn(i int, f found) {
	if !f.solved {
		return
	}
	if k.Costs[i] == 0 || f.cost < k.Costs[i] {
		k.Costs[i] = f.cost
	}
	if f.proven && !slices.Contains(k.Proven, i) {
		k.Proven = append(k.Proven, i)
	}
	slices.Sort(k.Proven)
}

// judge returns the result of searches, by problem.
func (k *known) judge(all [][]found) result {
	r := result{Problems: len(all)}
	var above []float64
	for i, searches := range all {
		r.Seeds = len(searches)
		for seed, f := range searches {
			r.Evaluations, r.Moved, r.Seconds = r.Evaluations+f.evaluations, r.Moved+f.moved, r.Seconds+f.seconds
			if f.proven {
				r.Proven++
			} else if slices.Contains(k.Proven, i) {
				r.lost = append(r.lost, fmt.Sprintf("problem %d with seed %d is not proven", i, seed))
			}
			if !f.solved {
				if k.Costs[i] > 0 {
					r.lost = append(r.lost, fmt.Sprintf("problem %d with seed %d is not solved", i, seed))
				}
				continue
			}
			r.Solved++
			if k.Costs[i] > 0 {
				of := 100 * (f.cost/k.Costs[i] - 1)
				if above = append(above, of); of > r.Worst {
					r.Worst, r.WorstProblem = of, i
				}
			}
		}
	}
	if n := len(above); n > 0 {
		slices.Sort(above)
		r.P95 = above[int(math.Ceil(.95*float64(n)))-1]
		for _, a := range above {
			r.Mean += a / float64(n)
		}
	}
	return r
}

// alike reports whether the result is of the same problems and seeds as the last one. Costs of others have another mean.
func (k *known) alike(r result) bool { return r.Problems == k.Last.Problems && r.Seeds == k.Last.Seeds }

// broken says which rules the result of the class breaks; empty if none. More solved and proven are no fault. Costs are only judged
// if the results are alike.
func (k *known) broken(r result) string {
	var all []string
	for _, of := range []struct {
		what            string
		got, last, more float64
	}{{"in the mean", r.Mean, k.Last.Mean, mostMean}, {"at the 95th percentile", r.P95, k.Last.P95, mostP95}, {"at worst", r.Worst, k.Last.Worst, mostWorst}} {
		if k.alike(r) && of.got > of.last+of.more {
			all = append(all, fmt.Sprintf("got costs %.2f %% above those known %s, want at most %.2f %%", of.got, of.what, of.last+of.more))
		}
	}
	solved, proven := 0, 0
	for i := range r.Problems {
		if k.Costs[i] > 0 {
			solved += r.Seeds
		}
		if slices.Contains(k.Proven, i) {
			proven += r.Seeds
		}
	}
	if r.Solved < solved || r.Proven < proven {
		all = append(all, fmt.Sprintf("got %d solved and %d proven, want %d and %d: %s", r.Solved, r.Proven, solved, proven, strings.Join(r.lost, ", ")))
	}
	return strings.Join(all, "; ")
}

// row returns the result as a row of a table: class, problems, seeds, mean %, 95th percentile, worst, solved, proven,
// evaluations, moved bytes and processor seconds.
func (r result) row(class string) string {
	moved := ""
	if r.Moved > 0 {
		moved = r.Moved.String()
	}
	worst := fmt.Sprintf("%.2f", r.Worst)
	if r.Worst > 0 {
		worst += fmt.Sprintf(" (%d)", r.WorstProblem)
	}
	return fmt.Sprintf("| %s | %d | %d | %.2f | %.2f | %s | %d | %d | %d | %s | %.1f |\n", class, r.Problems, r.Seeds,
		r.Mean, r.P95, worst, r.Solved, r.Proven, r.Evaluations, moved, r.Seconds)
}

// total adds up results. Its mean is over all problems, its 95th percentile is not known, and its worst is the worst of all.
func total(all []result) string {
	var sum result
	n := 0.0
	for _, r := range all {
		of := float64(r.Problems * r.Seeds)
		sum.Mean, n = sum.Mean+r.Mean*of, n+of
		sum.Problems, sum.Solved, sum.Proven = sum.Problems+r.Problems, sum.Solved+r.Solved, sum.Proven+r.Proven
		sum.Evaluations, sum.Seconds, sum.Worst = sum.Evaluations+r.Evaluations, sum.Seconds+r.Seconds, max(sum.Worst, r.Worst)
	}
	return fmt.Sprintf("| all | %d | | %.2f | | %.2f | %d | %d | %d | | %.1f |\n", sum.Problems, sum.Mean/max(1, n), sum.Worst, sum.Solved, sum.Proven, sum.Evaluations, sum.Seconds)
}
