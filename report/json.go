package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	neuroshard "github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/unit"
)

type (
	baselineJSON struct {
		Valid     bool         `json:"valid"`
		Cost      *unit.Millis `json:"cost_ms"`
		Simulated *unit.Millis `json:"simulated_cost_ms"`
		Reason    string       `json:"reason,omitempty"`
		Wall      unit.Millis  `json:"wall_ms,omitempty"`
		// ShardingTypes is nil if all tables are whole or in slices of columns in HBM.
		ShardingTypes map[plan.ShardingType]int `json:"sharding_types,omitempty"`
	}
	lanesJSON struct {
		Widest unit.Millis `json:"widest_ms"`
		Own    unit.Millis `json:"own_ms"`
	}
	deviceJSON struct {
		Device       int            `json:"device"`
		Shards       int            `json:"shards"`
		DimSum       int            `json:"dim_sum"`
		Memory       problem.Memory `json:"memory"`
		Used         unit.Bytes     `json:"used_bytes"`
		Budget       unit.Bytes     `json:"budget_bytes"`
		HostBudget   unit.Bytes     `json:"host_budget_bytes,omitempty"`
		Forward      unit.Millis    `json:"forward_ms"`
		ForwardComm  unit.Millis    `json:"forward_comm_ms"`
		BackwardComm unit.Millis    `json:"backward_comm_ms"`
		Backward     unit.Millis    `json:"backward_ms"`
		// ForwardHidden and BackwardHidden are not in Total.
		ForwardHidden  unit.Millis `json:"forward_hidden_ms,omitempty"`
		BackwardHidden unit.Millis `json:"backward_hidden_ms,omitempty"`
		Total          unit.Millis `json:"total_ms"`
		// Simulated is nil if only a plan is known.
		Simulated *unit.Millis `json:"simulated_total_ms"`
	}
)

// JSON writes a finished result as one object, each device on a line:
//
//	valid              true
//	cost_ms            the predicted cost
//	simulated_cost_ms  the plan's cost on the simulated device, null if the
//	                   model was trained on measured samples
//	lanes              the plan's cost on the simulated device under each lane rule, null
//	                   as simulated_cost_ms: widest_ms, if the widest table of an operator
//	                   sets the lanes of a bag, and own_ms, if each table sets its own
//	lower_bound_ms     what no plan costs less than on the simulated device, null
//	                   if there is no such bound
//	optimality_gap     the share by which simulated_cost_ms is above it, or null
//	optimal_as_predicted  true if all placements with undivided operators were tried
//	source             what the model was trained on: "simulated" or "measured";
//	                   "closed_form" if TorchRec's formulas estimated the cost
//	wall_ms            the time that planning took, as given
//	status             "complete", "budget", "time" or "interrupted"
//	baselines          by name: valid, cost_ms, simulated_cost_ms (null if there is no plan);
//	                   those of other planners also have reason (why the plan is not valid, or
//	                   why there is none), wall_ms (the time that the planner took, if it is
//	                   known) and sharding_types (with the key of the same name below)
//	free_slices        as a baseline: the plan without the rules of the plan's engine;
//	                   only if that plan was asked for
//	measured           the finalists among which a measurement chose the plan: source
//	                   ("measured" or "simulated"), profile, device, kernel and backend of the
//	                   times; rounds; kept, the number of the finalist that is the plan, and
//	                   why; and of each finalist method, seed, risk_penalty, predicted_cost_ms,
//	                   measured_cost_ms, range_ms, runs_ms (the cost of each round),
//	                   difference_percent and p_value against the first, faster, and refused
//	                   (why it was not run); only if finalists were measured
//	step               the whole training step of the plan, as StepJSON has it; only if it
//	                   was asked for
//	from               verdict, old_cost_ms, and a point of the curve of ReplanJSON; only if
//	                   the plan was made from an old plan
//	sharding_types     the number of tables of each sharding type; only if some
//	                   table is not table_wise or column_wise in HBM
//	replicas_tried     for each number of sharding groups that was tried: replicas, devices of
//	                   a group, valid, and the ms of a step with the replicas' all-reduce;
//	                   only if the number was chosen
//	replicas_untried   for each number of sharding groups that divides the devices and was not
//	                   tried: replicas, and the reason; only if there is one
//	sync               the all-reduce of the replicas: replicas, bytes, simulated_ms, every,
//	                   and cost_with_sync_ms, the predicted cost with the share of a step;
//	                   only if there are several sharding groups
//	tiers              the number of tables with parts in each memory, hbm, host and
//	                   host_cached; only if some part is not in hbm
//	devices            shards, bytes and times of each
//	warnings           the plan's, and that of Result.Warnings
//	plan               the plan as in its file
func JSON(w io.Writer, r *neuroshard.Result, from *replan.Outcome, wall unit.Millis) error {
	baselines := map[string]baselineJSON{}
	for i := range r.Baselines {
		baselines[string(r.Baselines[i].Method)] = jsonOf(r, &r.Baselines[i])
	}
	var simulated, least *unit.Millis
	var lanes *lanesJSON
	if r.Judged() {
		simulated, lanes = &r.Simulated.Cost, &lanesJSON{r.Lanes.Widest, r.Lanes.Own}
	}
	var gap *float64
	if share, ok := r.Gap(); ok {
		gap, least = &share, &r.Bound.Total
	}
	fields := []field{
		{"valid", true},
		{"cost_ms", r.Predicted.Cost},
		{"simulated_cost_ms", simulated},
		{"lanes", lanes},
		{"lower_bound_ms", least},
		{"optimality_gap", gap},
		{"optimal_as_predicted", r.Optimal},
		{"source", r.Plan.Provenance.ModelSource},
		{"wall_ms", wall},
		{"status", r.Status},
		{"baselines", baselines},
	}
	if r.FreeSlices != nil {
		fields = append(fields, field{"free_slices", jsonOf(r, r.FreeSlices)})
	}
	if r.Measured != nil {
		fields = append(fields, field{"measured", measuredOf(r.Measured)})
	}
	if r.Tried != nil {
		fields = append(fields, field{"replicas_tried", triedOf(r.Tried)})
	}
	if r.Untried != nil {
		fields = append(fields, field{"replicas_untried", untriedOf(r.Untried)})
	}
	if r.Step != nil {
		fields = append(fields, field{"step", stepOf(r.Step.Times)})
	}
	if from != nil {
		fields = append(fields, field{"from", transferOf(from)})
	}
	return object(w, r.Plan, func(i int) *unit.Millis {
		if !r.Judged() {
			return nil
		}
		total := r.Simulated.Devices[i].Total()
		return &total
	}, fields, r.Warnings())
}

// replicationJSON is a number of sharding groups that was tried.
type replicationJSON struct {
	Replicas int  `json:"replicas"`
	Devices  int  `json:"devices"`
	Valid    bool `json:"valid"`
	// Step is nil if no plan fits.
	Step *unit.Millis `json:"ms"`
}

func triedOf(tried []neuroshard.Replication) []replicationJSON {
	all := make([]replicationJSON, len(tried))
	for i := range tried {
		g := &tried[i]
		if all[i] = (replicationJSON{g.Replicas, g.Devices, g.Fits, nil}); g.Fits {
			all[i].Step = &g.Step
		}
	}
	return all
}

// untriedJSON is a number of sharding groups that was not tried.
type untriedJSON struct {
	Replicas int    `json:"replicas"`
	Reason   string `json:"reason"`
}

func untriedOf(untried []neuroshard.Untried) []untriedJSON {
	all := make([]untriedJSON, len(untried))
	for i, u := range untried {
		all[i] = untriedJSON(u)
	}
	return all
}

// syncJSON is the all-reduce of the replicas.
type syncJSON struct {
	Replicas int         `json:"replicas"`
	Bytes    unit.Bytes  `json:"bytes"`
	Time     unit.Millis `json:"simulated_ms"`
	Every    int         `json:"every"`
	// Total is the predicted cost with the share of the all-reduce that falls on a step.
	Total unit.Millis `json:"cost_with_sync_ms"`
}

func syncOf(pl *plan.Plan) syncJSON {
	return syncJSON{pl.Cluster.ReplicaCount(), pl.Sync.Bytes, pl.Sync.Time, max(1, pl.Cluster.SyncEvery), pl.Predicted + pl.SyncCost()}
}

// jsonOf returns a plan that is compared with the result's.
func jsonOf(r *neuroshard.Result, b *neuroshard.Baseline) baselineJSON {
	one := baselineJSON{Valid: b.Valid, Reason: b.Reason, Wall: b.Wall}
	if b.Plan != nil && !b.Plan.Plain() {
		one.ShardingTypes = b.Plan.ShardingTypes()
	}
	if b.Valid || b.Predicted > 0 {
		one.Cost = &b.Predicted
		if r.Judged() {
			one.Simulated = &b.Simulated
		}
	}
	return one
}

// PlanJSON writes a plan as an object of the same form, without the fields that only a
// Result has.
//
// cost_ms is null if no model estimated the cost of the plan. The devices' times are then
// 0, and mean nothing.
func PlanJSON(w io.Writer, pl *plan.Plan) error {
	cost := &pl.Predicted
	if !pl.Priced() {
		cost = nil
	}
	return object(w, pl, func(int) *unit.Millis { return nil }, []field{
		{"cost_ms", cost},
		{"source", pl.Provenance.ModelSource},
		{"status", pl.Provenance.Status},
	}, pl.Provenance.Warnings)
}

type field struct {
	key   string
	value any
}

// object writes the fields, then the fields that both forms have.
func object(w io.Writer, pl *plan.Plan, simulated func(i int) *unit.Millis, fields []field, warnings []string) error {
	var b bytes.Buffer
	b.WriteString("{")
	if !pl.Plain() {
		fields = append(slices.Clip(fields), field{"sharding_types", pl.ShardingTypes()})
	}
	if hosted, _ := pl.Hosted(); hosted > 0 {
		fields = append(slices.Clip(fields), field{"tiers", pl.Tiers()})
	}
	if pl.Cluster.ReplicaCount() > 1 {
		fields = append(slices.Clip(fields), field{"sync", syncOf(pl)})
	}
	for _, f := range fields {
		text, err := marshal(f.value)
		if err != nil {
			return fmt.Errorf("%s: %w", f.key, err)
		}
		fmt.Fprintf(&b, "\n  %q: %s,", f.key, text)
	}
	t := pl.Cluster.Topology()
	b.WriteString("\n  \"devices\": [")
	for i := range pl.Devices {
		d := &pl.Devices[i]
		text, err := marshal(deviceJSON{
			i, d.Shards, d.DimSum, d.Memory, used(d), t.Usable(i), t.HostBudget(i),
			d.Forward, d.ForwardComm, d.BackwardComm, d.Backward, d.ForwardHidden, d.BackwardHidden, d.Total(), simulated(i),
		})
		if err != nil {
			return fmt.Errorf("device %d: %w", i, err)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\n    %s", text)
	}
	if warnings == nil {
		warnings = []string{}
	}
	text, err := marshal(warnings)
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n  ],\n  \"warnings\": %s,\n  \"plan\": ", text)
	var file bytes.Buffer
	if err := pl.Write(&file); err != nil {
		return err
	}
	// No JSON string holds a line end, so each line end belongs to the layout.
	b.Write(bytes.ReplaceAll(bytes.TrimSpace(file.Bytes()), []byte("\n"), []byte("\n  ")))
	b.WriteString("\n}\n")
	_, err = w.Write(b.Bytes())
	return err
}

// marshal writes a value on one line, with <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
