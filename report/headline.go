package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/lab/sweep"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/unit"
)

// headline.go says what came out of a comparison of two plans, of a re-plan and of a sweep.

// Headline is the verdict of a comparison: the answer, and at most four lines that tell by how much.
// Texts and pages begin with it.
type Headline struct {
	Title string `json:"title"`
	Lines []Fact `json:"lines"`
}

// add adds a line, unless its text is empty.
func (h *Headline) add(name, text string) {
	if text != "" {
		h.Lines = append(h.Lines, Fact{name, text})
	}
}

// headline writes a headline, what was written and what to do next.
func (p *printer) headline(h Headline) {
	p.title(h.Title)
	p.facts(h.Lines)
	p.facts(p.nextFacts())
}

// trusted says what a time of a plan comes from, with its error bar if that is known.
func trusted(pl *plan.Plan) string {
	by := estimatedBy(pl, false)
	if bar, of := modelError(pl.Provenance.ModelSource, nil); bar > 0 {
		by += fmt.Sprintf(" (± %.0f %%: %s)", math.Ceil(bar), of)
	}
	return by
}

// lessTime says how a time compares with another one, and states both of them.
func lessTime(now, before unit.Millis) (share, text string) {
	share = strings.Replace(compare(now, before), "MORE", "more", 1)
	switch apart := math.Abs(float64(now/before) - 1); {
	case share == "as long":
		return "as much time", fmt.Sprintf("%v, as long as before", now)
	case apart <= replan.TieBand:
		return "a tie", fmt.Sprintf("%v in place of %v: differences up to %g %% are ties", now, before, 100*replan.TieBand)
	}
	return share, fmt.Sprintf("%v in place of %v", now, before)
}

// DiffHeadline says which of two plans is faster, how many tables change, and how many bytes move.
func DiffHeadline(before, after *plan.Plan, c plan.Changes) Headline {
	h := Headline{Title: changedTables(c)}
	switch was, is := c.Cost.Before, c.Cost.After; {
	case was == nil || is == nil || !(*was > 0):
		h.add("time", fmt.Sprintf("%s -> %s", price(was), price(is)))
	default:
		share, text := lessTime(*is, *was)
		if before.Provenance.Model != after.Provenance.Model && before.Cluster.Profile == after.Cluster.Profile {
			text += ", by two cost models"
		}
		if before.Cluster.Batch != after.Cluster.Batch {
			share, text = "another batch", text+", for another batch"
		}
		if *is != *was {
			h.Title = share + "; " + h.Title
		}
		h.add("time", text+", "+trusted(after))
	}
	if !Same(c) {
		h.add("moves", moves(c))
	}
	return h
}

// changedTables says how many tables differ.
func changedTables(c plan.Changes) string {
	if Same(c) {
		return fmt.Sprintf("both plans place all %s alike", plural(c.Unchanged, "table"))
	}
	text := fmt.Sprintf("%s of %s change", count(int64(len(c.Tables))), plural(len(c.Tables)+c.Unchanged, "table"))
	if n := len(c.OnlyBefore); n > 0 {
		text += fmt.Sprintf(", %s removed", count(int64(n)))
	}
	if n := len(c.OnlyAfter); n > 0 {
		text += fmt.Sprintf(", %s added", count(int64(n)))
	}
	return text
}

// replanHeadline says whether to keep the old plan, what moves, and when that pays back.
func replanHeadline(r *replan.Outcome) Headline {
	point := r.Point()
	by := ", " + trusted(r.Result.Plan)
	if r.Verdict == replan.Keep {
		h := Headline{Title: "keep the old plan; " + whyKeep(r)}
		h.add("time", point.Cost.String()+by)
		return h
	}
	var h Headline
	if r.OldCost == nil {
		h.Title = "move, because the old plan cannot stay: " + OneLine(r.Unfit)
		h.add("time", point.Cost.String()+by)
	} else {
		share, text := lessTime(point.Cost, *r.OldCost)
		h.Title = "move: " + share
		h.add("time", text+by)
	}
	h.add("moves", moved(r))
	switch {
	case r.OldCost == nil:
	case point.PaysBack > 0:
		h.add("pays back", fmt.Sprintf("after %s (%s)", steps(point.PaysBack), long(float64(point.PaysBack)*float64(point.Cost)/1000)))
	case point.Transfer.Bytes == 0:
		h.add("pays back", "at once")
	}
	return h
}

// inOneLine is a headline without its time.
func (h Headline) inOneLine() string {
	text := h.Title
	for _, f := range h.Lines {
		if f.Name != "time" {
			text += "; " + f.Name + " " + f.Text
		}
	}
	return text
}

// SweepHeadline names the fastest and the cheapest cluster, and where more devices stop to pay.
func SweepHeadline(r *sweep.Results) Headline {
	var h Headline
	var best, knees []string
	for _, m := range []struct {
		mark, tie sweep.Mark
		value     func(p *sweep.Planned) string
	}{
		{sweep.Fastest, sweep.AsFast, func(p *sweep.Planned) string { return large(p.SamplesPerSecond) + " samples/s" }},
		{sweep.Cheapest, sweep.AsCheap, func(p *sweep.Planned) string { return "$" + money(p.PricePerBillion) + " per 1e9 samples" }},
	} {
		for _, i := range r.Order {
			if o := &r.Outcomes[i]; slices.Contains(r.Marks[i], m.mark) {
				best = append(best, fmt.Sprintf("%s is the %s", clusterText(r, o), m.mark))
				h.add(string(m.mark), fmt.Sprintf("%s (cell %d): %s%s%s", clusterText(r, o), o.Number, m.value(o.Plan), errorOf(o.Plan), ties(r, o, m.tie)))
			}
		}
	}
	for _, i := range r.Order {
		if slices.Contains(r.Marks[i], sweep.Knee) {
			knees = append(knees, clusterText(r, &r.Outcomes[i]))
		}
	}
	if len(knees) > 0 {
		h.add("knee", fmt.Sprintf("%s: twice as many devices give less than %g times the samples/s", words.List(knees, 3), sweep.KneeGain))
	}
	cells := plural(len(r.Outcomes), "cluster")
	switch len(best) {
	case 0:
		h.Title = fmt.Sprintf("none of %s holds the tables", cells)
	case 1, 2:
		h.Title = fmt.Sprintf("of %s, %s", cells, strings.Join(best, " and "))
	default: // several scales
		h.Title = cells + " compared"
	}
	return h
}

// clusterText names a cell by its devices, and by its values on the other axes that vary.
func clusterText(r *sweep.Results, o *sweep.Outcome) string {
	text := fmt.Sprintf("%d x %s", o.Devices, o.Device)
	for _, x := range r.Varying() {
		if x.Name != "device" && x.Name != "devices" {
			text += ", " + x.Name + " " + o.Value(x.Name)
		}
	}
	return text
}

// errorOf is the error bar of a plan's whole step. That of the embeddings alone is said once, of all
// times.
func errorOf(p *sweep.Planned) string {
	switch {
	case p.Measured:
		return " (measured)"
	case !p.Whole:
		return ""
	case p.ErrorPercent == 0:
		return " ± unknown"
	}
	return fmt.Sprintf(" ± %.2g %%", p.ErrorPercent)
}

// ties lists the cells that tie with a marked one.
func ties(r *sweep.Results, best *sweep.Outcome, tie sweep.Mark) string {
	var tied []int
	for i := range r.Outcomes {
		if r.Outcomes[i].Scale == best.Scale && slices.Contains(r.Marks[i], tie) {
			tied = append(tied, r.Outcomes[i].Number)
		}
	}
	if len(tied) == 0 {
		return ""
	}
	noun := "cell"
	if len(tied) > 1 {
		noun = "cells"
	}
	return fmt.Sprintf("; ties: %s %s", noun, numbers(tied))
}
