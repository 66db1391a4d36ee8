package bench

import (
	"fmt"
	"time"

	"github.com/neuroshard/neuroshard/search"
)

// Contender is what a comparison plans with: a method with its options.
type Contender struct {
	// Name stands for the contender in records: as Record.Method. It is not empty, and no
	// other contender or method of the comparison has it.
	Name search.Method
	// Search are the options of the search. Run sets Seed, Workers and Brief.
	Search search.Options
	// Finalists, if above 0, has that number of finalists run by Options.Choose, and the fastest
	// is the plan.
	Finalists int
	// Policy is the id of Search.Policy, and Training the time of one processor that its training
	// took; empty without a policy.
	Policy   string
	Training time.Duration
}

// OfMeasured is the name of the contender that plans by the default method and has finalists run.
const OfMeasured search.Method = "neuroshard measured"

// Measuring returns that contender, with a number of finalists.
func Measuring(finalists int) Contender {
	return Contender{Name: OfMeasured, Search: search.Options{Method: search.Default}, Finalists: finalists}
}

// identity tells the contender from others of the same name.
func (c *Contender) identity() string {
	o := &c.Search
	return fmt.Sprintf("%q %q policy %q scratch %v finalists %d budget %v samples %d candidates %d beam %d steps %d grid %d evaluations %d",
		c.Name, o.Method, c.Policy, o.FromScratch, c.Finalists, o.Budget, o.Samples, o.Candidates, o.Beam, o.Steps, o.Grid, o.MaxEvaluations)
}

// Trained is a policy that was compared.
type Trained struct {
	Name   search.Method `json:"name"`
	Method search.Method `json:"method"`
	Policy string        `json:"policy"`
	// CPUHours is the time of one processor that the training took.
	CPUHours float64 `json:"cpu_hours"`
}

// policiesOf returns the policies of the contenders, in their order.
func policiesOf(contenders []Contender) []Trained {
	var all []Trained
	for _, c := range contenders {
		if c.Policy != "" {
			all = append(all, Trained{c.Name, c.Search.Method, c.Policy, c.Training.Hours()})
		}
	}
	return all
}

// contenders returns the methods and the contenders, without budgets.
func (o *Options) contenders() []Contender {
	var all []Contender
	for _, m := range o.Methods {
		all = append(all, Contender{Name: m, Search: search.Options{Method: m}})
	}
	return append(all, o.Contenders...)
}

// all returns what is compared, with each budget. Two of one name are an error.
func (o *Options) all() ([]Contender, error) {
	all := o.contenders()
	if o.Budgets != nil {
		all = Anytime(all, o.Budgets)
	}
	seen := map[search.Method]bool{}
	for _, c := range all {
		if seen[c.Name] || c.Name == "" {
			return nil, fmt.Errorf("contender %q: the name is empty or taken: give each contender a name of its own", c.Name)
		}
		seen[c.Name] = true
	}
	return all, nil
}

// Annealing is simulated annealing from a simple placement: what the default method makes without
// its other stages (search.Options.FromScratch).
func Annealing() Contender {
	return Contender{Name: "annealing", Search: search.Options{FromScratch: true}}
}
