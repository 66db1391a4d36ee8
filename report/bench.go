package report

import (
	"fmt"
	"io"

	"github.com/neuroshard/neuroshard/lab/bench"
)

// Comparison writes the summaries of a comparison, setting by setting.
func Comparison(w io.Writer, all []bench.Summary, opt Options) error {
	p := &printer{w: w, opt: opt}
	for i, s := range all {
		if i > 0 && all[i-1].Setting == s.Setting {
			continue
		}
		tasks := fmt.Sprintf("%d tasks", s.Tasks)
		if s.Tasks == 1 {
			tasks = "1 task"
		}
		p.section("%s: %s, %s", OneLine(s.Setting), tasks, judged(s.Setting, all))
		var rows [][]string
		for _, m := range all {
			if m.Setting == s.Setting {
				rows = append(rows, comparisonRow(m))
			}
		}
		p.grid([]string{"<method", "solved", "mean ms", "?median ms", fmt.Sprintf("mean ms of %d", s.Common), ratioTo(s.Setting, all), "?95 %", "?bias %", "?wall ms", "?p95"}, rows)
	}
	return p.err
}

// judged says whether the costs of a setting are predicted, SIMULATED or measured.
func judged(setting string, all []bench.Summary) string {
	costs := "none solved"
	for _, s := range all {
		switch {
		case s.Setting != setting || s.Solved == 0:
		case s.Judge == bench.Measured:
			return "costs measured"
		case s.Judge == bench.Simulated:
			return "costs SIMULATED"
		default:
			costs = "costs predicted"
		}
	}
	return costs
}

// ratioTo is the title of the ratios of a setting: over the tasks that all methods solved.
func ratioTo(setting string, all []bench.Summary) string {
	for _, s := range all {
		if s.Setting == setting && s.Against != nil {
			return "ratio to " + OneLine(string(s.Against.Reference))
		}
	}
	return "ratio"
}

// intervalOf returns a mean, and its interval of 95 %.
func intervalOf(i *bench.Interval) (value, interval string) {
	if i == nil {
		return "-", "-"
	}
	return fmt.Sprintf("%.4f", i.Mean), fmt.Sprintf("%.4f-%.4f", i.Low, i.High)
}

// Curves writes the costs of plans against budgets of time, setting by setting.
func Curves(w io.Writer, all []bench.Curve, opt Options) error {
	p := &printer{w: w, opt: opt}
	for i, c := range all {
		if i == 0 || all[i-1].Setting != c.Setting {
			judge := c.Judge
			if judge == bench.Simulated {
				judge = "SIMULATED"
			}
			p.section("%s: cost as a ratio to the least cost found, costs %s", OneLine(c.Setting), judge)
			var rows [][]string
			for _, other := range all {
				if other.Setting == c.Setting {
					rows = append(rows, curveRows(other)...)
				}
			}
			p.grid([]string{"<method", "budget ms", "solved", "ratio", "95 %", "wall ms", "processor ms"}, rows)
		}
	}
	return p.err
}

func curveRows(c bench.Curve) (rows [][]string) {
	for _, x := range c.Points {
		ratio, interval := intervalOf(x.Ratio)
		budget, processor := "-", "-"
		if x.CPUMS > 0 {
			processor = hundredths(x.CPUMS)
		}
		if x.BudgetMS > 0 {
			budget = fmt.Sprintf("%g", x.BudgetMS)
		}
		rows = append(rows, []string{OneLine(string(c.Contender)), budget, fmt.Sprintf("%d/%d", x.Solved, x.Tasks), ratio, interval, hundredths(x.WallMS), processor})
	}
	return rows
}

// Trained writes what the training of policies took.
func Trained(w io.Writer, all []bench.Trained, opt Options) error {
	if len(all) == 0 {
		return nil
	}
	p := &printer{w: w, opt: opt}
	p.section("Training of the policies")
	var rows [][]string
	for _, t := range all {
		rows = append(rows, []string{OneLine(string(t.Name)), OneLine(string(t.Method)), OneLine(t.Policy), fmt.Sprintf("%.4f", t.CPUHours)})
	}
	p.grid([]string{"<name", "<method", "<policy", "CPU hours"}, rows)
	return p.err
}

func comparisonRow(s bench.Summary) []string {
	number := func(v float64, digits int) string {
		if v == 0 {
			return "-"
		}
		return fmt.Sprintf("%.*f", digits, v)
	}
	bias := "-"
	if s.Judge != bench.Predicted {
		bias = unsigned(fmt.Sprintf("%+.2f", s.BiasPercent))
	}
	ratio, interval := intervalOf(nil)
	if s.Against != nil {
		ratio, interval = intervalOf(&s.Against.Ratio)
	}
	return []string{
		OneLine(string(s.Method)), fmt.Sprintf("%d/%d", s.Solved, s.Tasks),
		number(s.MeanMS, 3), number(s.MedianMS, 3), number(s.CommonMS, 3), ratio, interval,
		bias, number(s.WallMedianMS, 2), number(s.WallP95MS, 2),
	}
}
