package replan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// reshard.go holds what a running TorchRec job can move: what neuroshard_torchrec.reshard does.
// docs/TORCHREC.md gives the reasons.
//
//	the same devices, tables, sizes, precisions and optimizers
//	data_parallel    stays data_parallel, and no other table becomes it
//	rowwise_adagrad  the table is cut into columns at the same places: its state is one number for
//	                 each row of a slice
//	adam             the table stays: its state is not moved
//
// All other changes go by a checkpoint and a restart.

// Reshard says how a running TorchRec job gets from the old plan to the new one.
type Reshard struct {
	// Restart says why the job must stop, and start again from a checkpoint; empty if
	// neuroshard_torchrec.reshard moves all parts while the job runs.
	Restart string `json:"restart,omitempty"`
	// Stay names the tables that the plan leaves where they are because reshard cannot move them as
	// the search would have.
	Stay []string `json:"stay,omitempty"`
	// Live is the bytes that reshard moves between devices, and Checkpoint those that all devices
	// read from the checkpoint: one of them is 0.
	Live       unit.Bytes `json:"live_bytes"`
	Checkpoint unit.Bytes `json:"checkpoint_bytes"`
	// Crowded are the devices that do not have the memory to hold their old and their new shards
	// at the same time, as reshard does.
	Crowded []int `json:"crowded_devices,omitempty"`
}

// reshardRule says how a table may change in a running job.
type reshardRule struct {
	// stays says that nothing of the table may change; columns, that its slices keep their columns.
	stays, columns, replicated bool
	was                        *plan.Table
}

// resharder keeps plans to what a running job can move.
type resharder struct {
	Reshard
	// rules are those of the problem's tables; nil if the job must restart anyway.
	rules []reshardRule
}

// newResharder returns what a running job can move from the old plan to plans of p.
func newResharder(p *problem.Problem, a *adapted) *resharder {
	r := &resharder{}
	c := &a.changes
	switch {
	case c.describe() != "":
		r.Restart = c.describe()
	case len(c.Converted) > 0:
		r.Restart = fmt.Sprintf("%s of another precision or optimizer", words.Plural(len(c.Converted), "table"))
	case c.Profile || c.otherDevices():
		r.Restart = "the cluster has other devices"
	}
	if r.Restart != "" {
		return r
	}
	r.rules = make([]reshardRule, len(p.Tables))
	for i := range p.Tables {
		t := &p.Tables[i]
		was := a.before.Table(t.Name)
		r.rules[i] = reshardRule{
			stays: t.Optimizer == problem.Adam, columns: t.Optimizer == problem.RowwiseAdagrad,
			replicated: was.ShardingType == plan.DataParallel, was: was,
		}
	}
	return r
}

// narrow returns the problem with constraints that keep the search to what a running job can
// move, as far as constraints can say that.
func (r *resharder) narrow(p *problem.Problem) *problem.Problem {
	if r.rules == nil {
		return p
	}
	narrowed := *p
	narrowed.Tables = slices.Clone(p.Tables)
	for i := range narrowed.Tables {
		c, rule := &narrowed.Tables[i].Constraint, &r.rules[i]
		if types := rule.types(&narrowed.Tables[i]); len(types) > 0 {
			c.ShardingTypes = types
		}
		if width := rule.width(); rule.columns && c.Colocation == "" && !c.NoSplit {
			c.MinWidth = max(c.MinWidth, width)
		}
	}
	return &narrowed
}

// Unmovable is the error of a re-plan under TorchRec if a running job cannot move some tables to
// any of the sharding types allowed.
type Unmovable struct{ Message, Hint string }

func (e *Unmovable) Error() string { return e.Message }

// explain returns *Unmovable in place of a *search.NoShardingType if the types allowed leave out the old
// ones of tables, and err otherwise.
func (r *resharder) explain(err error, p *problem.Problem, types []problem.ShardingType) error {
	none := (*search.NoShardingType)(nil)
	if r == nil || r.rules == nil || !errors.As(err, &none) {
		return err
	}
	var tables, old []string
	for i := range p.Tables {
		name, was := p.Tables[i].Name, r.rules[i].was.ShardingType
		if !slices.Contains(none.Tables, name) || problem.Permitted(types, was) {
			continue
		}
		if tables = append(tables, name); !slices.Contains(old, string(was)) {
			old = append(old, string(was))
		}
	}
	if len(tables) == 0 {
		return err
	}
	was := words.List(old, len(old))
	return &Unmovable{
		fmt.Sprintf("a running TorchRec job cannot move %s to any of the allowed sharding types (in the old plan: %s)", words.Quoted(tables, 5), was),
		fmt.Sprintf("allow %s as well, or plan anew and restart the job from a checkpoint", was),
	}
}

// types returns the sharding types that the table may have.
func (rule *reshardRule) types(table *problem.Table) []problem.ShardingType {
	var types []problem.ShardingType
	for _, t := range problem.ShardingTypes() {
		cut := t.ByColumns() == rule.was.ShardingType.ByColumns()
		if table.Permits(t) && (t == plan.DataParallel) == rule.replicated && (cut || !rule.columns) && (t == rule.was.ShardingType || !rule.stays) {
			types = append(types, t)
		}
	}
	return types
}

// width returns the width of the narrowest slice.
func (rule *reshardRule) width() int {
	width := rule.was.Dim
	for _, s := range rule.was.Shards {
		width = min(width, int(s.Columns.Len()))
	}
	return width
}

// allows reports whether a running job can move the table to where the plan has it.
func (rule *reshardRule) allows(now *plan.Table) bool {
	if rule.stays {
		return now.ShardingType == rule.was.ShardingType && slices.Equal(now.Shards, rule.was.Shards)
	}
	if (now.ShardingType == plan.DataParallel) != rule.replicated {
		return false
	}
	return !rule.columns || slices.Equal(columnsOf(now), columnsOf(rule.was))
}

// columnsOf returns the columns of a table's slices.
func columnsOf(t *plan.Table) []problem.Range {
	var all []problem.Range
	for _, s := range t.Shards { // sorted by columns
		if n := len(all); n == 0 || all[n-1] != s.Columns {
			all = append(all, s.Columns)
		}
	}
	return all
}

// keep returns the placement with the old shards of all tables that a running job cannot move as
// the placement has them, and the names of these tables. If that is not a valid plan, it returns
// the placement as it is.
func (r *resharder) keep(p *problem.Problem, held, shards [][]problem.Shard) (kept [][]problem.Shard, stay []string) {
	if r.rules == nil {
		return shards, nil
	}
	stays := map[int]bool{}
	placed := plan.New(p, shards)
	for i := range placed.Tables {
		if !r.rules[i].allows(&placed.Tables[i]) {
			stays[i] = true
			stay = append(stay, p.Tables[i].Name)
		}
	}
	if len(stays) == 0 {
		return shards, nil
	}
	kept = make([][]problem.Shard, len(shards))
	for d := range shards {
		for _, s := range shards[d] {
			if !stays[s.Table] {
				kept[d] = append(kept[d], s)
			}
		}
		for _, s := range held[d] {
			if stays[s.Table] {
				kept[d] = append(kept[d], s)
			}
		}
		slices.SortStableFunc(kept[d], byTable)
	}
	if misplaced(plan.New(p, kept), p) != "" {
		return shards, nil
	}
	return kept, stay
}

// outcome returns how a job gets from the old plan to the one after.
func (r *resharder) outcome(p *problem.Problem, a *adapted, after *plan.Plan, point *Point) *Reshard {
	out, t := r.Reshard, point.Transfer
	out.Stay = point.stay
	var not []string
	for i := range r.rules {
		if !r.rules[i].allows(&after.Tables[i]) {
			not = append(not, after.Tables[i].Name)
		}
	}
	if len(not) > 0 {
		out.Restart = fmt.Sprintf("reshard cannot move %s as the plan has %s", words.Quoted(not, 3), words.Plural(len(not), "table"))
	}
	if out.Restart != "" {
		out.Checkpoint = t.Total
		return &out
	}
	out.Live = t.Bytes
	if t.Bytes > 0 {
		out.Crowded = crowded(p, a.held, after, t)
	}
	return &out
}

// crowded returns the devices that cannot hold their old and new shards together. Reshard makes
// all tables of a module anew in which a table moves.
func crowded(p *problem.Problem, held [][]problem.Shard, after *plan.Plan, t *plan.Transfer) []int {
	moved := map[string]bool{}
	for _, one := range t.Tables {
		if one.Bytes > 0 {
			moved[after.Table(one.Name).Module] = true
		}
	}
	var devices []int
	for d := range held {
		need := after.Devices[d].Memory.Total()
		for _, s := range held[d] {
			if m := p.ShardMemory(s)[problem.ForwardExchange]; moved[p.Tables[s.Table].Module] {
				need += m.Weights + m.Optimizer
			}
		}
		if need > p.Topology.DeviceMemory(d) {
			devices = append(devices, d)
		}
	}
	return devices
}
