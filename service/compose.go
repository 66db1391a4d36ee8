package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/problem/workload"
	"github.com/neuroshard/neuroshard/step"
)

// composed is a problem that a request states, with the warnings of its parts.
type composed struct {
	problem  *problem.Problem
	step     *step.Input
	warnings []string
}

// composer composes problems.
type composer struct {
	prices *pricer
	limits *Limits
}

// compose composes the problem of a request, within the limits. old is the plan whose cluster takes
// the place of the problem's own; nil: there is none.
func (c *composer) compose(body *ProblemBody, old *plan.Plan) (*composed, error) {
	parts, faults, err := c.parts(body, old)
	if err != nil {
		return nil, err
	}
	p, warnings, err := parts.Problem()
	if err = joined(err, faults); err != nil {
		return nil, err
	}
	if old != nil && !parts.StatesAccounting() {
		p.Accounting = old.Cluster.Accounting()
	}
	if old != nil {
		p = old.Decided(p)
	}
	whole := &composed{p, parts.Step(), warnings}
	if in := whole.step; in != nil && in.Measured.Step > 0 && in.Measured.Shards == nil {
		whole.warnings = append(whole.warnings, fmt.Sprintf("the measured step of %v is taken to be one of the plan found here", in.Measured.Step))
	}
	return whole, c.limits.admit(p)
}

// parts reads the parts of the problem of a request. The error is of requests that cannot be
// composed at all; the faults are of overrides, and the parts hold all other errors.
func (c *composer) parts(body *ProblemBody, old *plan.Plan) (*input.Parts, []fault, error) {
	stated := 0
	for _, is := range []bool{len(body.Tables) > 0, body.TablesCSV != "", body.Workload != ""} {
		if is {
			stated++
		}
	}
	if stated != 1 {
		return nil, nil, refusal(fault{Location: "problem", Message: fmt.Sprintf("%d of tables, tables_csv and workload are stated", stated), Hint: "state one of them"})
	}
	overrides, faults := body.Overrides.overrides()
	parts := &input.Parts{Overrides: overrides, Own: c.prices.own()}
	if old != nil {
		cluster, own := input.ClusterOf(old, parts.Overrides)
		parts.Fallback = &cluster
		if parts.Own == nil {
			parts.Own = own
		}
	}
	switch {
	case body.Workload != "":
		if err := c.limits.drawn(body.Workload); err != nil {
			return nil, nil, err
		}
		parts.Tables, parts.Workload, parts.TablesErr = input.Workload(body.Workload, parts.Overrides)
		parts.Tables.Name = "problem.workload"
	case body.TablesCSV != "":
		parts.Tables, parts.TablesErr = c.tables("problem.tables_csv", strings.NewReader(body.TablesCSV), parts.Overrides.Options())
	default:
		parts.Tables, parts.TablesErr = c.tables("problem.tables", bytes.NewReader(body.Tables), parts.Overrides.Options())
	}
	if n := len(parts.Tables.Tables); n > c.limits.Tables {
		return nil, nil, overLimit(parts.Tables.Name, fmt.Sprintf("the tables are more than this server's limit of %d", c.limits.Tables), "start the server with a larger max_tables")
	}
	if len(body.Topology) > 0 {
		file, err := input.Topology("problem.topology", bytes.NewReader(body.Topology), parts.Own...)
		parts.Topology, parts.TopologyErr = &file, err
	}
	return parts, faults, nil
}

// tables reads the tables of a request, at most one more than the limit: a million tables, which the
// readers allow, take far more memory than the body that states them.
func (c *composer) tables(name string, from io.Reader, opt input.Options) (input.TableFile, error) {
	opt.MaxTables = min(c.limits.Tables+1, problem.MaxTables)
	return input.Tables(name, from, opt)
}

// admit refuses problems that are larger than the limits.
func (l *Limits) admit(p *problem.Problem) error {
	var faults []fault
	if n := len(p.Tables); n > l.Tables {
		faults = append(faults, fault{Location: "problem.tables", Message: fmt.Sprintf("%d tables are above this server's limit of %d", n, l.Tables), Hint: "start the server with a larger max_tables"})
	}
	if n := p.Topology.Devices; n > l.Devices {
		faults = append(faults, fault{Location: "problem.overrides.devices", Message: fmt.Sprintf("%d devices are above this server's limit of %d", n, l.Devices), Hint: "start the server with a larger max_devices"})
	}
	if faults == nil {
		return nil
	}
	r := refusal(faults...)
	r.Type = typeLimit
	return r
}

// holds refuses plans that are larger than the limits.
func (l *Limits) holds(pl *plan.Plan, location string) error {
	if len(pl.Tables) > l.Tables || pl.Cluster.Devices > l.Devices {
		return overLimit(location, fmt.Sprintf("%d tables on %d devices are above this server's limits of %d and %d", len(pl.Tables), pl.Cluster.Devices, l.Tables, l.Devices), "start the server with larger max_tables and max_devices")
	}
	return nil
}

// drawn refuses workloads that are drawn in a size above the limits, before they are drawn.
func (l *Limits) drawn(name string) error {
	size := drawnSize().FindStringSubmatch(strings.TrimPrefix(name, workload.Prefix))
	if size == nil {
		return nil
	}
	tables, err := strconv.Atoi(size[1])
	devices, err2 := strconv.Atoi(size[2])
	if err == nil && err2 == nil && tables <= l.Tables && devices <= l.Devices {
		return nil
	}
	return overLimit("problem.workload", fmt.Sprintf("%s tables on %s devices are above this server's limits of %d and %d", clip(size[1]), clip(size[2]), l.Tables, l.Devices), "start the server with larger max_tables and max_devices")
}

func drawnSize() *regexp.Regexp { return regexp.MustCompile(`-([0-9]+)x([0-9]+)(@|$)`) }

// mostName is the most bytes of a name.
const mostName = 200

// named returns the faults of the name, under which the store keeps plans.
func (b *ProblemBody) named() []fault {
	if len(b.Name) <= mostName && !strings.ContainsFunc(b.Name, unicode.IsControl) {
		return nil
	}
	return []fault{{Location: "problem.name", Message: fmt.Sprintf("the name has more than %d bytes, or a control character", mostName), Hint: "choose another name"}}
}

// canonical returns the problem of a request without its name, with the options of its search, in
// one form for the same fields.
func (b *ProblemBody) canonical(options *OptionsBody) ([]byte, error) {
	own := KeptProblem{ProblemBody: *b}
	own.Name = ""
	if options != nil {
		kept := *options
		kept.TimeLimit = 0 // a plan that it cut is not kept
		own.Options = &kept
	}
	text, err := json.Marshal(&own)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Compact(&out, text)
	return out.Bytes(), err
}
