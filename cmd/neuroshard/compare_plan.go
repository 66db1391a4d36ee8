package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/search"
)

// comparedPlans is the flag compare_plan: plans of other planners, for the report.
type comparedPlans struct {
	given []string
	// files are the files of read, in its order.
	files []string
	read  []neuroshard.Baseline
}

// comparedName matches the names that compare_plan accepts. A name is a word in a column of the
// report and a key in JSON.
var comparedName = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,39}$`)

const comparedHint = "for example: compare_plan torchrec=theirs.json"

// load reads the files. It reports what is wrong with all of them.
func (c *comparedPlans) load(a *app) error {
	var errs []error
	taken := search.Methods()
	for _, text := range c.given {
		name, path, ok := strings.Cut(text, "=")
		switch {
		case !ok || path == "":
			errs = append(errs, faulty(fmt.Sprintf("compare_plan: %q is not NAME=FILE", text), comparedHint))
			continue
		case !comparedName.MatchString(name):
			errs = append(errs, faulty(fmt.Sprintf("compare_plan: name %q must be 1 to 40 characters of a-z, 0-9, _, . and -, the first a letter or a digit", name), comparedHint))
		case slices.Contains(search.Methods(), search.Method(name)):
			errs = append(errs, faulty(fmt.Sprintf("compare_plan: name %q is the name of a method of neuroshard", name), "choose another name, such as that of the planner"))
		case slices.Contains(taken, search.Method(name)):
			errs = append(errs, faulty(fmt.Sprintf("compare_plan: two plans have the name %q", name), "give each plan a name of its own"))
		}
		taken = append(taken, search.Method(name))
		one, err := readCompared(a, path)
		if err != nil {
			errs = append(errs, asInput(err))
			continue
		}
		one.Method = search.Method(name)
		c.read, c.files = append(c.read, one), append(c.files, path)
	}
	return input.Join(errs...)
}

// check reports the plans that place other tables than the problem, or were made for another
// number of devices or of devices per host.
func (c *comparedPlans) check(p *problem.Problem) error {
	var errs []error
	for i := range c.read {
		var invalid *plan.Invalid
		if !errors.As(c.read[i].Check(p), &invalid) {
			continue
		}
		for _, v := range invalid.Violations {
			errs = append(errs, faulty(c.files[i]+": "+v.String(), "the plan must place the same tables on the same number of devices and of devices per host"))
		}
	}
	return input.Join(errs...)
}

// readCompared reads what another planner found, from a file.
func readCompared(a *app, path string) (neuroshard.Baseline, error) {
	const hint = "name a plan file, which plan -o and import -o write, or a file with the output of plan --json"
	if path == standardOutput {
		return neuroshard.Baseline{}, usagef("name a file", "compare_plan does not read standard input")
	}
	name, r, err := a.openOr(path, hint)
	if err != nil {
		return neuroshard.Baseline{}, err
	}
	defer r.Close()
	c, err := report.ReadCompared(r)
	if err != nil {
		return c, usagef(hint, "%s: %w", name, err)
	}
	return c, nil
}
