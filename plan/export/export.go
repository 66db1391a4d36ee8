// Package export writes a plan in the form of an engine that runs it, and reads plans in
// an engine's form. docs/PLAN.md draws the forms.
//
//	TorchRec      writes a ShardingPlan as JSON, with fields to check it (torchrec.go)
//	HugeCTR       writes a shard matrix and strategy, as JSON or Python (hugectr.go)
//	ReadTorchRec  reads a file of TorchRec or a serialized ShardingPlan (read.go) and
//	              finds its ranks, hosts and tables (interpret.go); File.Place turns
//	              them into a plan (place.go)
//	ReadHugeCTR   reads a shard matrix and strategy; File.Place turns it into a plan, with
//	              the shapes of the problem's tables (matrix.go)
//
// An engine's rules are checked before anything is written. If the engine could not run
// the plan, an *input.Errors names all tables and shards at fault.
package export

import (
	"fmt"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/unit"
)

// Options say how to export. The zero value works for plans whose tables all state
// their module.
type Options struct {
	// Module is the path of the module that holds the tables without a module of their
	// own; an empty path is the model itself. If Module is nil, such tables are an error.
	Module *string
	// Accelerator is the device type in TorchRec's placements: CUDA, the default, or CPU.
	Accelerator string
	// Python says to write HugeCTR's form as Python instead of JSON.
	Python bool
	// OnWarning, if set, is called with a sentence for each part that the file states
	// in another way than the plan. The file contains the sentences, too.
	OnWarning func(message string)
}

// The accelerators.
const (
	CUDA = "cuda"
	CPU  = "cpu"
)

// exporter is one export of a plan.
type exporter struct {
	faults
	plan *plan.Plan
	opt  Options
	// notes say what the engine does in another way than the plan.
	notes []string
}

// note notes what the engine does with some of the tables, if there are any: format is for their number,
// the number of all tables, and their names.
func (e *exporter) note(tables []string, format string) {
	if len(tables) > 0 {
		e.notes = append(e.notes, fmt.Sprintf(format, len(tables), len(e.plan.Tables), names(tables)))
	}
}

// faults collects the faults of a plan.
type faults struct{ list []input.Error }

// add adds a fault of a table; shard is its position, or -1.
func (f *faults) add(table string, shard int, hint, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if shard >= 0 {
		message = fmt.Sprintf("shard %d: %s", shard, message)
	}
	f.list = append(f.list, input.Error{Table: table, Message: message, Hint: hint})
}

func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	return &input.Errors{List: f.list}
}

// proven adds the faults that matter to every engine: parts of tables that are missing or
// placed twice, and ranks that do not exist.
func (e *exporter) proven() {
	const hint = "neuroshard check says what else is wrong with the plan"
	pl := e.plan
	if pl.Cluster.Devices < 1 {
		e.add("", -1, "", "the plan is for %d devices", pl.Cluster.Devices)
		return
	}
	for _, v := range pl.CheckTables() {
		e.add(v.Table, v.Shard, hint, "%s", v.Message)
	}
	seen := map[string]bool{}
	total := 0
	for i := range pl.Tables {
		total += entries(&pl.Tables[i], pl.Cluster)
		name := pl.Tables[i].Name
		if seen[name] {
			e.add(name, -1, hint, "it is there twice")
		}
		seen[name] = true
	}
	if total > mostEntries {
		e.add("", -1, "", "the tables would be listed %d times in all, for they lie on many devices: more than %d are not written", total, mostEntries)
	}
}

// broken adds the violations of what an engine runs, and returns the tables at fault.
func (f *faults) broken(found []plan.Violation, engine problem.Engine) map[string]bool {
	broken := map[string]bool{}
	for _, v := range found {
		f.add(v.Table, v.Shard, fmt.Sprintf("plan with --engine %s", engine), "%s", v.Message)
		broken[v.Table] = true
	}
	return broken
}

// mostEntries is the largest number of shards that an export lists, with the entries for
// empty and replicated shards. Without such entries, a plan has less than half of it.
const mostEntries = 1 << 22

// entries returns the largest number of shards that an engine's form lists for a table.
func entries(t *plan.Table, c plan.Cluster) int {
	switch t.ShardingType.Span() {
	case problem.AllDevices:
		return c.Devices
	case problem.OneHost:
		slices := 0
		for _, s := range t.Shards {
			if s.Rows.Start == 0 {
				slices++
			}
		}
		return slices * min(c.Devices, max(1, c.DevicesPerHost))
	}
	return len(t.Shards)
}

// mostNames is the largest number of names that a message lists.
const mostNames = 5

// names lists a few of the names, quoted.
func names(all []string) string {
	quoted := make([]string, 0, mostNames)
	for _, name := range all[:min(mostNames, len(all))] {
		quoted = append(quoted, quote(name))
	}
	return words.List(quoted, mostNames) + words.More(" ", len(all)-len(quoted))
}

// quote quotes a name from a file, cut to what fits a message.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return fmt.Sprintf("%q", s)
}

// provenance says how the exported plan was made. Cost is nil if nothing predicted the plan's times.
type provenance struct {
	plan.Provenance
	Source string       `json:"source"`
	Cost   *unit.Millis `json:"cost_ms,omitempty"`
}

// provenance returns how the plan was made, with the notes, which it passes on.
func (e *exporter) provenance() provenance {
	out := provenance{Provenance: e.plan.Provenance, Source: e.plan.Provenance.ModelSource}
	out.Warnings = append([]string{}, out.Warnings...)
	if e.plan.Priced() {
		out.Cost = &e.plan.Predicted
	}
	marked := slices.ContainsFunc(out.Warnings, func(w string) bool { return strings.Contains(w, "SIMULATED") })
	if out.Source == plan.Simulated && !marked {
		out.Warnings = append(out.Warnings, plan.SimulatedNote)
	}
	out.Warnings = append(out.Warnings, e.notes...)
	if e.opt.OnWarning != nil {
		for _, note := range e.notes {
			e.opt.OnWarning(note)
		}
	}
	return out
}
