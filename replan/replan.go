// Package replan plans again, from an old plan. It moves few bytes: some parts of tables must move,
// for example because a device is lost, and any more must pay.
//
//	old plan, problem -> adapt -> searches with budgets of moved bytes -> curve -> verdict
//	                                  0   1 %   5 %   20 %   any
//
// Each point of the curve is a search that starts from the old plan (search.From). Equal devices
// of a host, and equal hosts, take the old names with which the fewest bytes move
// (plan.Renaming), and the bytes are counted exactly (plan.NewTransfer).
package replan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// TieBand is the relative difference of two predicted costs below which Plan takes two plans
// of the same problem as equally good. Most errors of the shipped models on such differences are
// smaller, against the simulated device.
const TieBand = 0.01

// keepLabel is the label of the old plan as a point.
const keepLabel = "keep"

// budgets are the shares of the tables' bytes that the points of the curve may move beyond what
// must move.
var budgets = []float64{0, 0.01, 0.05, 0.20}

// wholeSearch is the largest number of tables times devices for which the last point of the curve
// is a whole search. Above it, that point is a search from the old plan, without a budget.
const wholeSearch = 10_000

// MovedBytes limits how many bytes of tables a re-plan moves between devices beyond those that
// must move: to Bytes or, if Share is above 0, to that share of the bytes of all tables.
type MovedBytes struct {
	Bytes unit.Bytes
	// Share is at most 1.
	Share float64
}

// Of returns the limit if all tables take total bytes.
func (m MovedBytes) Of(total unit.Bytes) unit.Bytes {
	if m.Share > 0 {
		return unit.Bytes(math.Floor(min(1, m.Share) * float64(total)))
	}
	return m.Bytes
}

// ParseMovedBytes reads a limit of moved bytes: a size with its unit (unit.ParseSize), or a share in
// percent, such as 5%.
func ParseMovedBytes(text string) (MovedBytes, error) {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		share, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(share >= 0 && share <= 100) {
			return MovedBytes{}, fmt.Errorf("%q is not a share between 0%% and 100%%", text)
		}
		return MovedBytes{Share: share / 100}, nil
	}
	size, err := unit.ParseSize(text)
	return MovedBytes{Bytes: size}, err
}

// Options are the options of Plan. The zero value chooses the plan that moves the fewest
// bytes among those whose predicted cost is within TieBand of the least.
type Options struct {
	// Options are those of a Planner. Plan sets Search.From itself, and takes no budget and no
	// method other than NeuroShard.
	neuroshard.Options
	// Most, if set, limits the moved bytes. It excludes Price.
	Most *MovedBytes
	// Price, if above 0, is the predicted cost, in ms, for which moving 10^9 bytes pays. Replan then
	// chooses the plan with the least sum of cost and price.
	Price float64
	// Lost are the devices of the old plan that are lost, by their numbers there. The problem's
	// cluster is Remaining, or has the old size if the lost devices are replaced.
	Lost []int
	// Horizon, if above 0, is the number of steps still to be trained: a move that takes longer to
	// pay back is not chosen.
	Horizon int64
}

// check reports options that contradict each other.
func (o *Options) check() error {
	var errs []error
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf("replan: "+format, args...))
		}
	}
	add(o.Most != nil && o.Price != 0, "both a limit of moved bytes and a price are set: set one of them")
	add(o.Most != nil && (o.Most.Bytes < 0 || !(o.Most.Share >= 0 && o.Most.Share <= 1)), "the limit of moved bytes is not at least 0, or not a share of at most 1")
	add(!(o.Price >= 0) || math.IsInf(o.Price, 1), "price %v is not a finite number of at least 0", o.Price)
	add(o.Horizon < 0, "horizon %d is negative", o.Horizon)
	add(o.Search.Method != "" && o.Search.Method != search.NeuroShard, "method %s does not start from an old plan: use method %s", o.Search.Method, search.NeuroShard)
	add(o.Search.Budget != 0, "a re-plan has no budget of time")
	return errors.Join(errs...)
}

// Verdict says what to do with a running job.
type Verdict string

// The verdicts.
const (
	// Keep: the old plan places the tables of the problem, and no other plan is better by more
	// than TieBand for the bytes that it may move.
	Keep Verdict = "keep"
	// Move: the plan differs from the old one.
	Move Verdict = "move"
)

// Point is one point of the curve of cost against moved bytes: a plan that moves few bytes.
type Point struct {
	// Label names the point: "keep", the old plan as it is; "0", what must move; "1 %", "5 %",
	// "20 %"; "budget" and "price" for those of the caller; "free", which may move all.
	Label string
	// Limit is the number of bytes that may move, those that must move included; -1 without one.
	Limit unit.Bytes
	// Whole says that a whole search found the point, not a search from the old plan.
	Whole bool
	// Cost is the predicted cost, and Simulated the one of the simulated device; 0 if that does
	// not judge.
	Cost, Simulated unit.Millis
	// Transfer is what moves from the old plan to the point's.
	Transfer *plan.Transfer
	// PaysBack is the number of steps after which the point has saved the time of its transfer,
	// compared with the first point; -1 if it never does, and 0 if it has nothing to pay back.
	PaysBack int64

	found search.Result
	// free says that a search without a limit found the point.
	free bool
	// stay are the tables that stay because a running job cannot move them.
	stay []string
}

// Seconds returns the time of the point's transfer, in ms: inside hosts, then between them.
func (p *Point) Seconds() unit.Millis { return p.Transfer.Inside + p.Transfer.Between }

// Outcome is the outcome of Plan.
type Outcome struct {
	Verdict Verdict
	// Result is the plan to run; with verdict Keep, the old plan, renewed for the problem.
	Result *neuroshard.Result
	// OldCost is the predicted cost of the old plan for the problem, nil if the old plan does not
	// place the problem's tables or does not fit any more; Unfit then says why.
	OldCost *unit.Millis
	Unfit   string
	// Curve are the points in the order of their limits, and Chosen the index of the plan's.
	Curve  []Point
	Chosen int
	// Changes are the differences between the old plan and the problem.
	Changes Changes
	// Before is the old plan with its devices numbered as in the new cluster.
	Before *plan.Plan
	// Reshard says what a running TorchRec job can move; nil unless the problem's engine is
	// TorchRec.
	Reshard *Reshard
	// Total is the bytes of all tables: as the old plan holds them, every copy counted, and once for
	// tables that it does not hold whole. Shares of bytes are shares of it.
	Total unit.Bytes
	// Judged says that the simulated device judged the points.
	Judged bool
}

// Point returns the chosen point.
func (r *Outcome) Point() *Point { return &r.Curve[r.Chosen] }

// Plan plans p again, from an old plan of other tables, another batch or another cluster. It
// fails as neuroshard.Plan does, with *OtherPlan if the old plan is not one that it can start from, with
// *Unmovable if a running job cannot move some tables to the sharding types allowed, and if opt
// contradicts itself. If ctx ends early, it chooses among the points found until then, and
// the result's status is search.Interrupted.
func Plan(ctx context.Context, p *problem.Problem, old *plan.Plan, opt Options) (*Outcome, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	if err := neuroshard.Check(p); err != nil {
		return nil, err
	}
	p = old.Decided(p)
	a, err := adapt(p, old, opt.Lost)
	if err != nil {
		return nil, err
	}
	r := &replanner{adapted: a, opt: &opt, of: p, problem: p}
	if p.Engine == problem.TorchRec {
		r.reshard = newResharder(p, a)
		r.problem = r.reshard.narrow(p)
	}
	// The old plan has its costs even if ctx has ended: it is then what is kept.
	if r.planner, err = neuroshard.NewPlanner(context.WithoutCancel(ctx), r.problem, opt.Options); err != nil {
		return nil, err
	}
	r.search = r.planner.Options().Search
	if err := r.points(ctx); err != nil {
		return nil, r.reshard.explain(err, p, r.search.ShardingTypes)
	}
	r.paybacks()
	return r.outcome(ctx, r.choose())
}

// replanner makes the points of a curve.
type replanner struct {
	*adapted
	planner *neuroshard.Planner
	opt     *Options
	// search are the options of the search from nothing.
	search search.Options
	// of is the problem as the caller states it, and problem what a running job can move of it.
	of, problem *problem.Problem
	// total is that of Outcome, and must what no point moves less than.
	total, must unit.Bytes
	// oldCost and unfit are those of Outcome.
	oldCost *unit.Millis
	unfit   string
	curve   []Point
	// reshard keeps the plans to what a running TorchRec job can move; nil for other engines.
	reshard *resharder
	// found are all plans found, as points without a label.
	found []Point
	// counted says that must is known.
	counted bool
	// interrupted says that the context ended before all points were there.
	interrupted bool
}

// points makes all points of the curve: first what must move, then without a limit, then the
// limits between, from the largest on. A plan that was found under a larger limit and keeps to a
// smaller one serves both, so that most small limits take no search.
func (r *replanner) points(ctx context.Context) error {
	if err := r.keep(); err != nil {
		return err
	}
	limits := r.limits()
	reached := make([]bool, len(limits))
	for k := range limits {
		i := (len(limits) - k) % len(limits) // the first one, then from the last one on
		err := r.reach(ctx, limits[i])
		r.interrupted = ctx.Err() != nil
		if err != nil && !r.interrupted {
			return err
		}
		reached[i] = err == nil
		if r.interrupted {
			break // the points found so far are the outcome
		}
	}
	for i, b := range limits {
		if reached[i] {
			r.join(b)
		}
	}
	if len(r.curve) == 0 {
		return ctx.Err()
	}
	return nil
}

// limit is one limit of the curve.
type limit struct {
	label, what string
	MovedBytes
	// free says that there is no limit, and price that moved bytes have a price instead.
	free  bool
	price float64
}

// limits returns the limits of the curve, in rising order. That of the caller comes where it
// belongs.
func (r *replanner) limits() []limit {
	if r.changes.Profile {
		return []limit{{label: "free", what: "all bytes", free: true}}
	}
	var all []limit
	for _, s := range budgets {
		label := "0"
		if s > 0 {
			label = fmt.Sprintf("%.0f %%", 100*s)
		}
		all = append(all, limit{label: label, what: label + " of the bytes", MovedBytes: MovedBytes{Share: s}})
	}
	if m := r.opt.Most; m != nil {
		own := limit{label: "budget", what: "the bytes of the budget", MovedBytes: *m}
		at := slices.IndexFunc(all, func(l limit) bool { return l.Of(r.total) >= own.Of(r.total) })
		switch {
		case at < 0:
			all = append(all, own)
		case all[at].Of(r.total) > own.Of(r.total):
			all = slices.Insert(all, at, own)
		}
	}
	if r.opt.Price > 0 {
		all = append(all, limit{label: "price", what: "what pays its price", free: true, price: r.opt.Price})
	}
	return append(all, limit{label: "free", what: "any bytes", free: true})
}

// keep adds the old plan as it is, if it is valid for the problem.
func (r *replanner) keep() error {
	pl := plan.New(r.problem, r.held)
	all, err := plan.NewTransfer(r.before, plan.New(r.problem, completed(r.problem, r.held)))
	if err != nil {
		return err
	}
	r.total = all.Total
	if r.unfit = r.unfits(pl); r.unfit != "" {
		return nil
	}
	point, err := r.price(search.Result{Shards: r.held, Status: search.Complete})
	if err != nil {
		return err
	}
	point.Label = keepLabel
	r.oldCost = &point.Cost
	r.curve = append(r.curve, point)
	return nil
}

// completed returns a placement with the tables that it lacks, or holds in part only, on device 0.
func completed(p *problem.Problem, shards [][]problem.Shard) [][]problem.Shard {
	cells := make([]int64, len(p.Tables))
	for _, held := range shards {
		for _, s := range held {
			cells[s.Table] += s.Rows.Len() * s.Columns.Len()
		}
	}
	partly := func(table int) bool { return cells[table] < p.Tables[table].Rows*int64(p.Tables[table].Dim) }
	all := make([][]problem.Shard, len(shards))
	for d, held := range shards {
		all[d] = slices.DeleteFunc(slices.Clone(held), func(s problem.Shard) bool { return partly(s.Table) })
	}
	for i := range p.Tables {
		if partly(i) {
			all[0] = append(all[0], p.Whole(i))
		}
	}
	return all
}

// unfits says why the old plan is not one of the problem; "" if it is.
func (r *replanner) unfits(pl *plan.Plan) string {
	if r.changes.Profile {
		return "the devices are others"
	}
	if n := len(r.changes.Added); n > 0 {
		return r.changes.describe()
	}
	if err := r.planner.Priceable(pl); err != nil {
		return err.Error()
	}
	types := r.search.ShardingTypes
	for i := range pl.Tables {
		if t := &pl.Tables[i]; !problem.Permitted(types, t.ShardingType) {
			return fmt.Sprintf("table %q is %s, which is not one of the sharding types", t.Name, t.ShardingType)
		}
	}
	why := misplaced(pl, r.problem)
	switch c := &r.changes; {
	case why != "" && len(c.Lost) > 0:
		return words.Plural(len(c.Lost), "device") + " lost"
	case why != "" && c.otherDevices():
		return "the cluster has other devices"
	}
	return why
}

// misplaced says why a plan without times is not valid for p; "" if it is.
func misplaced(pl *plan.Plan, p *problem.Problem) string {
	if invalid := (*plan.Invalid)(nil); errors.As(pl.Validate(p), &invalid) {
		for _, v := range invalid.Violations {
			if v.Rule != plan.RulePredicted {
				return v.String()
			}
		}
	}
	return ""
}

// reach finds plans for a limit.
func (r *replanner) reach(ctx context.Context, b limit) error {
	if r.served(b) {
		return nil
	}
	r.begin("the plan that moves " + b.what)
	for start := range r.starts() {
		if err := r.from(ctx, b, uint64(start)); err != nil && (start == 0 || ctx.Err() == nil) {
			return err
		}
		if !r.counted && !b.free {
			r.must, r.counted = r.found[len(r.found)-1].Transfer.Bytes, true
			return nil // what must move is no matter of luck
		}
	}
	if b.free && b.price == 0 && r.small() && ctx.Err() == nil {
		return r.whole(ctx)
	}
	return nil
}

// served reports whether the cheapest plan found for larger limits keeps to the limit.
func (r *replanner) served(b limit) bool {
	if b.free || !r.counted {
		return false
	}
	best := -1
	for i := range r.found {
		if !r.found[i].Whole && r.found[i].free && (best < 0 || r.found[i].Cost < r.found[best].Cost) {
			best = i
		}
	}
	return best >= 0 && r.found[best].Transfer.Bytes <= r.must+b.Of(r.total)
}

// small reports whether a whole search is among the plans for the last point.
func (r *replanner) small() bool {
	return len(r.problem.Tables)*r.problem.Topology.Devices <= wholeSearch
}

// mostStarts is the largest number of searches for a limit, each with a seed of its own.
const mostStarts = 8

// starts returns the number of searches for a limit: several for small problems, because searches
// from an old plan end in different local optima.
func (r *replanner) starts() int {
	return max(1, min(mostStarts, wholeSearch/(len(r.problem.Tables)*r.problem.Topology.Devices)))
}

// join appends the point of a limit: the cheapest plan found that keeps to the limit. Of equal
// costs it is the one that moves less.
func (r *replanner) join(b limit) {
	point := Point{Label: b.label, Limit: -1}
	if !b.free {
		point.Limit = r.must + b.Of(r.total)
	}
	sum := func(p *Point) float64 { return float64(p.Cost) + b.price*float64(p.Transfer.Bytes)/1e9 }
	for _, other := range append(slices.Clone(r.curve), r.found...) {
		if point.Limit >= 0 && other.Transfer.Bytes > point.Limit {
			continue
		}
		if point.Transfer == nil || sum(&other) < sum(&point) || sum(&other) == sum(&point) && other.Transfer.Bytes < point.Transfer.Bytes {
			other.Label, other.Limit = point.Label, point.Limit
			point = other
		}
	}
	r.curve = append(r.curve, point)
}

// retries is how many times a search with a smaller budget follows one that moves too much.
const retries = 3

// from finds a plan for a limit, from the old plan. The search counts nearly as Transfer does: if
// a plan moves more than the limit, the next search gets a budget that is smaller by the excess.
func (r *replanner) from(ctx context.Context, b limit, start uint64) error {
	most := b.Of(r.total)
	for range 1 + retries {
		opt := r.search
		opt.Seed += start
		opt.From = &search.From{Shards: r.held, Price: b.price / 1e9, Limited: !b.free, Most: most}
		found, err := r.planner.Search(ctx, opt)
		if err != nil {
			return err
		}
		point, err := r.point(found)
		if err != nil {
			return err
		}
		point.free = b.free && b.price == 0
		r.found = append(r.found, point)
		over := point.Transfer.Bytes - r.must - b.Of(r.total)
		if b.free || !r.counted || over <= 0 || most == 0 {
			return nil
		}
		most = max(0, most-over)
	}
	return nil
}

// whole finds the cheapest plan without looking at the old one.
func (r *replanner) whole(ctx context.Context) error {
	r.begin("the plan of a whole search")
	found, err := r.planner.Search(ctx, r.search)
	if err != nil {
		return err
	}
	point, err := r.point(found)
	point.Whole = true
	r.found = append(r.found, point)
	return err
}

// point returns the point of a placement, with the names of devices with which it moves the
// fewest bytes.
func (r *replanner) point(found search.Result) (Point, error) {
	after := plan.New(r.problem, found.Shards)
	found.Shards = after.Renamed(plan.Renaming(r.before, after, r.problem))
	var stay []string
	if r.reshard != nil {
		found.Shards, stay = r.reshard.keep(r.problem, r.held, found.Shards)
	}
	point, err := r.price(found)
	point.stay = stay
	return point, err
}

// price returns the point of a placement as it is.
func (r *replanner) price(found search.Result) (Point, error) {
	point := Point{found: found}
	var err error
	if point.Transfer, err = plan.NewTransfer(r.before, plan.New(r.problem, found.Shards)); err != nil {
		return point, err
	}
	predicted, simulated, err := r.planner.Costs(found.Shards)
	point.Cost, point.Simulated = predicted.Cost, simulated.Cost
	return point, err
}

// begin tells the caller which step begins.
func (r *replanner) begin(step string) {
	if r.opt.OnStep != nil {
		r.opt.OnStep(step)
	}
}

// paybacks sets the steps after which each point has paid back, compared with the first one:
// what the first one moves must move anyway.
func (r *replanner) paybacks() {
	base := &r.curve[0]
	for i := range r.curve {
		p := &r.curve[i]
		p.PaysBack = paysBack(p.Seconds()-base.Seconds(), base.Cost-p.Cost)
	}
}

// paysBack returns the number of steps that save at least the time, if each step saves gain: 0 if
// the time is not above 0, and -1 if the steps save nothing.
func paysBack(time, gain unit.Millis) int64 {
	switch {
	case time <= 0:
		return 0
	case gain <= 0 || float64(time/gain) > math.MaxInt64/2:
		return -1
	}
	return int64(math.Ceil(float64(time / gain)))
}

// choose returns the index of the point to take. Among the points that the options allow, it
// looks for the least cost, or the least sum of cost and price. Of all points within TieBand of
// that, it takes the one that moves the fewest bytes.
func (r *replanner) choose() int { return choose(r.curve, r.opt, r.must, r.total) }

func choose(curve []Point, opt *Options, must, total unit.Bytes) int {
	allowed := func(p *Point) bool {
		over := opt.Most != nil && p.Transfer.Bytes > must+opt.Most.Of(total)
		late := opt.Horizon > 0 && (p.PaysBack < 0 || p.PaysBack > opt.Horizon)
		return !over && !late
	}
	sum := func(p *Point) float64 { return float64(p.Cost) + opt.Price*float64(p.Transfer.Bytes)/1e9 }
	best := 0 // what must move is always allowed
	for i := range curve {
		if allowed(&curve[i]) && sum(&curve[i]) < sum(&curve[best]) {
			best = i
		}
	}
	// The band is one of costs, so a price does not widen it.
	least := sum(&curve[best])
	band := TieBand * float64(curve[best].Cost)
	chosen := best
	for i := range curve {
		p := &curve[i]
		if allowed(p) && sum(p) <= least+band && p.Transfer.Bytes < curve[chosen].Transfer.Bytes {
			chosen = i
		}
	}
	if first := &curve[0]; first.Label == keepLabel && first.Transfer.Bytes == curve[chosen].Transfer.Bytes && sum(first) <= least+band {
		return 0
	}
	return chosen
}

// outcome returns the chosen point as a plan, with the rest of the result.
func (r *replanner) outcome(ctx context.Context, chosen int) (*Outcome, error) {
	point := &r.curve[chosen]
	out := &Outcome{
		Verdict: Move, OldCost: r.oldCost, Unfit: r.unfit, Curve: r.curve, Chosen: chosen,
		Changes: r.changes, Before: r.before, Judged: r.planner.Judges(), Total: r.total,
	}
	if point.Label == keepLabel {
		out.Verdict = Keep
	}
	if r.interrupted {
		point.found.Status = search.Interrupted
	}
	found := point.found
	found.Cost = float64(point.Cost)
	var err error
	if out.Result, err = r.planner.Found(ctx, found); err != nil {
		return nil, err
	}
	out.Result.Plan.Provenance.Input = plan.Digest(r.of)
	if r.reshard != nil {
		out.Reshard = r.reshard.outcome(r.of, r.adapted, out.Result.Plan, point)
	}
	out.Result.Doubts = append(out.Doubts(), keptDedup(r.of)...)
	return out, nil
}

// keptDedup says that the old plan has decided the tables with ChooseDedup, if p has such tables.
func keptDedup(p *problem.Problem) []string {
	chosen, dedup := 0, 0
	for i := range p.Tables {
		if t := &p.Tables[i]; t.ChooseDedup {
			chosen++
			if t.IndexDedup {
				dedup++
			}
		}
	}
	if chosen == 0 {
		return nil
	}
	return []string{fmt.Sprintf("choose_dedup: the re-plan keeps the old plan's choice, to deduplicate the indices of %d of %s: neuroshard plan chooses again", dedup, words.Plural(chosen, "table"))}
}

// Doubts returns the doubts about the way from the old plan to the new one.
func (r *Outcome) Doubts() (all []string) {
	add := func(on bool, format string, args ...any) {
		if on {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	c, t := &r.Changes, r.Point().Transfer
	add(c.Profile, "the devices are of another profile: all %v of the tables are loaded from a checkpoint, and none moves", t.Total)
	add(!c.Profile && t.Lost > 0, "no device has %v of the tables any more: load that part from a checkpoint", t.Lost)
	add(len(c.Resized) > 0, "%s: rows and columns keep their numbers, and new ones are initialised; if ids are hashed to rows, most ids have other rows now", words.Plural(len(c.Resized), "resized table"))
	add(len(c.Converted) > 0, "%s of another precision or optimizer: weights are converted on the device that has them, and optimizer state that the old plan does not have is initialised", words.Plural(len(c.Converted), "table"))
	if r.Reshard != nil {
		add(len(r.Reshard.Crowded) > 0, "neuroshard_torchrec.reshard holds the old and the new shards at the same time, and the devices %s have no memory for both: move by a checkpoint", strings.Trim(fmt.Sprint(r.Reshard.Crowded), "[]"))
	}
	return all
}
