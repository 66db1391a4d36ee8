package report

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	neuroshard "github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/unit"
)

type (
	// resultJSON is a finished result. What is null is not known; docs/PLAN.md describes the keys.
	resultJSON struct {
		Valid bool        `json:"valid"`
		Cost  unit.Millis `json:"cost_ms"`
		// Simulated, Lanes, Bound and Gap are of the simulated device.
		Simulated *unit.Millis            `json:"simulated_cost_ms"`
		Lanes     *lanesJSON              `json:"lanes"`
		Bound     *unit.Millis            `json:"lower_bound_ms"`
		Gap       *float64                `json:"optimality_gap"`
		Optimal   bool                    `json:"optimal_as_predicted"`
		Source    string                  `json:"source"`
		Wall      unit.Millis             `json:"wall_ms"`
		Status    string                  `json:"status"`
		Baselines map[string]baselineJSON `json:"baselines"`
		// FreeSlices is the plan without the rules of the plan's engine.
		FreeSlices *baselineJSON     `json:"free_slices,omitempty"`
		Measured   *measuredJSON     `json:"measured,omitempty"`
		Tried      []replicationJSON `json:"replicas_tried,omitempty"`
		Untried    []untriedJSON     `json:"replicas_untried,omitempty"`
		Step       *stepJSON         `json:"step,omitempty"`
		From       *transferJSON     `json:"from,omitempty"`
		planObject
	}
	// planJSON is a plan alone, without the keys that only a result has.
	planJSON struct {
		Cost   *unit.Millis `json:"cost_ms"`
		Source string       `json:"source"`
		Status string       `json:"status"`
		planObject
	}
	// planObject is what the objects of results, plans and re-plans end with. The counts are nil
	// if all tables are whole or cut by columns, in HBM.
	planObject struct {
		Summary       *Summary                  `json:"summary"`
		ShardingTypes map[plan.ShardingType]int `json:"sharding_types,omitempty"`
		Tiers         map[plan.Tier]int         `json:"tiers,omitempty"`
		Sync          *syncJSON                 `json:"sync,omitempty"`
		Devices       []deviceJSON              `json:"devices"`
		Warnings      []string                  `json:"warnings"`
		Plan          json.RawMessage           `json:"plan"`
	}
	// baselineJSON is a plan that is compared with the result's. Reason and Wall are those of
	// another planner.
	baselineJSON struct {
		Valid         bool                      `json:"valid"`
		Cost          *unit.Millis              `json:"cost_ms"`
		Simulated     *unit.Millis              `json:"simulated_cost_ms"`
		Reason        string                    `json:"reason,omitempty"`
		Wall          unit.Millis               `json:"wall_ms,omitempty"`
		ShardingTypes map[plan.ShardingType]int `json:"sharding_types,omitempty"`
	}
	lanesJSON struct {
		Widest unit.Millis `json:"widest_ms"`
		Own    unit.Millis `json:"own_ms"`
	}
	// deviceJSON is a device as plan files have it, and what tables use and may use of it.
	deviceJSON struct {
		plan.NumberedDevice
		Used       unit.Bytes   `json:"used_bytes"`
		Budget     unit.Bytes   `json:"budget_bytes"`
		HostBudget unit.Bytes   `json:"host_budget_bytes,omitempty"`
		Simulated  *unit.Millis `json:"simulated_total_ms"`
	}
	// replicationJSON is a number of sharding groups that was tried; Step is nil if no plan fits.
	replicationJSON struct {
		Replicas int          `json:"replicas"`
		Devices  int          `json:"devices"`
		Valid    bool         `json:"valid"`
		Step     *unit.Millis `json:"ms"`
	}
	untriedJSON struct {
		Replicas int    `json:"replicas"`
		Reason   string `json:"reason"`
	}
	// syncJSON is the all-reduce of the replicas; Total is the predicted cost with the share of it
	// that falls on a step.
	syncJSON struct {
		Replicas int         `json:"replicas"`
		Bytes    unit.Bytes  `json:"bytes"`
		Time     unit.Millis `json:"simulated_ms"`
		Every    int         `json:"every"`
		Total    unit.Millis `json:"cost_with_sync_ms"`
	}
)

// JSON writes a finished result as one object, a key on each line. of is the plan's problem, or
// nil; from is the re-plan that made the plan, or nil; wall is the time that planning took.
func JSON(w io.Writer, r *neuroshard.Result, of *problem.Problem, from *replan.Outcome, wall unit.Millis) error {
	o := resultJSON{
		Valid: true, Cost: r.Predicted.Cost, Optimal: r.Optimal, Source: r.Plan.Provenance.ModelSource, Wall: wall, Status: string(r.Status),
		Baselines: map[string]baselineJSON{},
	}
	if r.Judged() {
		o.Simulated, o.Lanes = &r.Simulated.Cost, &lanesJSON{r.Lanes.Widest, r.Lanes.Own}
	}
	if gap, ok := r.Gap(); ok {
		o.Gap, o.Bound = &gap, &r.Bound.Total
	}
	for i := range r.Baselines {
		o.Baselines[string(r.Baselines[i].Method)] = jsonOf(r, &r.Baselines[i])
	}
	if r.FreeSlices != nil {
		free := jsonOf(r, r.FreeSlices)
		o.FreeSlices = &free
	}
	if r.Measured != nil {
		o.Measured = measuredOf(r.Measured)
	}
	for i := range r.Tried {
		g := &r.Tried[i]
		one := replicationJSON{g.Replicas, g.Devices, g.Fits, nil}
		if g.Fits {
			one.Step = &g.Step
		}
		o.Tried = append(o.Tried, one)
	}
	for _, u := range r.Untried {
		o.Untried = append(o.Untried, untriedJSON(u))
	}
	if r.Step != nil {
		step := stepOf(r.Step.Times)
		o.Step = &step
	}
	if from != nil {
		o.From = transferOf(from)
	}
	var err error
	if o.planObject, err = objectOfResult(r, of); err != nil {
		return err
	}
	return writeObject(w, o)
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

// PlanJSON writes a plan as an object of the same form. cost_ms is null if no model estimated the
// cost of the plan; the devices' times are then 0, and mean nothing.
func PlanJSON(w io.Writer, pl *plan.Plan) error {
	o := planJSON{Cost: &pl.Predicted, Source: pl.Provenance.ModelSource, Status: pl.Provenance.Status}
	if !pl.Priced() {
		o.Cost = nil
	}
	var err error
	if o.planObject, err = objectOfPlan(pl, nil, nil); err != nil {
		return err
	}
	return writeObject(w, o)
}

// objectOfResult returns the end of the object of a result.
func objectOfResult(r *neuroshard.Result, of *problem.Problem) (planObject, error) {
	o, err := objectOfPlan(r.Plan, r, of)
	for i := range o.Devices {
		if r.Judged() {
			total := r.Simulated.Devices[i].Total()
			o.Devices[i].Simulated = &total
		}
	}
	return o, err
}

// objectOfPlan returns the end of the object of a plan. r, which judges the plan, and its problem
// may be nil.
func objectOfPlan(pl *plan.Plan, r *neuroshard.Result, of *problem.Problem) (planObject, error) {
	warnings := pl.Provenance.Warnings
	if r != nil {
		warnings = r.Warnings()
	}
	o := planObject{Summary: Summarize(pl, r, of), Devices: make([]deviceJSON, len(pl.Devices)), Warnings: append([]string{}, warnings...)}
	if !pl.Plain() {
		o.ShardingTypes = pl.ShardingTypes()
	}
	if hosted, _ := pl.Hosted(); hosted > 0 {
		o.Tiers = pl.Tiers()
	}
	if n := pl.Cluster.ReplicaCount(); n > 1 {
		o.Sync = &syncJSON{n, pl.Sync.Bytes, pl.Sync.Time, max(1, pl.Cluster.SyncEvery), pl.Predicted + pl.SyncCost()}
	}
	t := pl.Cluster.Topology()
	for i := range pl.Devices {
		o.Devices[i] = deviceJSON{pl.Numbered(i), used(&pl.Devices[i]), t.Usable(i), t.HostBudget(i), nil}
	}
	var file bytes.Buffer
	err := pl.Write(&file)
	o.Plan = file.Bytes()
	return o, err
}

// writeObject writes an object with a key on each line. The devices and the parts of a plan have
// lines of their own.
func writeObject(w io.Writer, v any) error {
	var b, all bytes.Buffer
	encoder := json.NewEncoder(&all)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	if err := layOut(&b, jsontext.NewDecoder(&all), "\n"); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

// layOut writes an object, or a list, with an element on each line.
func layOut(b *bytes.Buffer, in *jsontext.Decoder, line string) error {
	begin, err := in.ReadToken()
	if err != nil {
		return err
	}
	b.WriteString(begin.String())
	for comma := ""; in.PeekKind() != '}' && in.PeekKind() != ']'; comma = "," {
		b.WriteString(comma + line + "  ")
		key := ""
		if begin.Kind() == '{' {
			name, err := in.ReadValue()
			if err != nil {
				return err
			}
			key = string(name)
			b.WriteString(key + ": ")
		}
		switch key {
		case `"summary"`, `"devices"`, `"plan"`, `"tables"`:
			if kind := in.PeekKind(); kind == '{' || kind == '[' {
				if err := layOut(b, in, line+"  "); err != nil {
					return err
				}
				continue
			}
		}
		value, err := in.ReadValue()
		if err != nil {
			return err
		}
		b.Write(value)
	}
	end, err := in.ReadToken()
	b.WriteString(line + end.String())
	return err
}
