package search

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// fillings are the shares of all devices' HBM that are filled with the hottest rows,
// one placement for each share.
var fillings = []float64{.96, .9, .8, .6}

const (
	// choicesPlaced is the number of placements that are made from each choice, one for each
	// share of HBM to fill.
	choicesPlaced = 2
	// spareRoom is the share of HBM that stays empty beside tables that HBM holds entirely,
	// because large slices leave gaps.
	spareRoom = .15
)

// hottestEvaluations is the most evaluations that the stage may use.
const hottestEvaluations = 4 * shapeEvaluations

// hottest is the stage that places the rows with the most lookups in HBM if HBM does
// not hold all rows. Each table begins in host memory with the smallest cache. Step by
// step, the table whose larger cache, or whose move into HBM, saves most time for each
// byte gets it. The idea is RecShard's (Sethi et al. 2022), here applied to the caches
// of whole tables.
type hottest struct{}

func (hottest) apply(r *run, s state) (state, error) {
	c, f := r.catalog, &r.forms
	whole := c.whole()
	all := int64(0)
	for _, k := range whole {
		all += c.pieces[k].bytes
	}
	room := float64(c.room())
	l := newLayout(c, r.scorer(), r.forms)
	if f.onSeveral() || l.hostBudget == 0 || c.budget <= 0 || !slices.Contains(f.barred, true) && s.best.division != nil && float64(all) <= fillings[0]*room {
		return s, nil
	}
	found := hotPlacements(r, l, whole, nil)
	if copies, rest := replicas(c, f, whole); len(copies) > 0 {
		found = append(found, hotPlacements(r, l, rest, copies)...)
	}
	for _, parts := range found {
		s.best = r.offerPlaced(s.best, parts)
	}
	return s, nil
}

// replicas returns replicas of the tables whose replicas on all devices together take
// fewer bytes than the whole table on one device, and the pieces of the other tables.
func replicas(c *catalog, f *forms, whole []int32) (copies []placed, rest []int32) {
	rest = slices.DeleteFunc(slices.Clone(whole), func(k int32) bool {
		replicated, ok := f.choice(c, k, func(form problem.Form) bool { return form.ShardingType == problem.DataParallel })
		if !ok {
			return false
		}
		copied := c.inForm(k, c.pieces[k].members[0].width, replicated)
		if c.pieces[copied].bytes*int64(len(c.all)) >= c.pieces[k].bytes {
			return false
		}
		c.register(&c.pieces[copied])
		copies = append(copies, placed{copied, 0})
		return true
	})
	return copies, rest
}

// hotPlacements returns placements of the given tables beside parts that lie on all devices.
func hotPlacements(r *run, l *layout, whole []int32, fixed []placed) (found [][]placed) {
	c := r.catalog
	l.scorer.Reset()
	shared := int64(0)
	for _, p := range fixed {
		shared += c.pieces[p.piece].bytes
	}
	options := make([][]int32, len(whole))
	for i, k := range whole {
		if options[i] = residences(c, l, k); len(options[i]) == 0 {
			return nil
		}
	}
	for _, choose := range choices {
		tried := len(found)
		for _, filling := range fillings {
			if len(found) == tried+choicesPlaced {
				break
			}
			hbm := float64(c.room()) - float64(shared)*float64(len(c.all))
			h := newChooser(c, options, int64(filling*hbm))
			choose(h, hbm)
			time := 0.0
			chosen := h.chosen()
			for _, k := range chosen {
				time += c.pieces[k].alone / float64(len(c.all))
			}
			if parts, ok := buildBeside(r, l, chosen, fixed, time, hottestEvaluations); ok {
				found = append(found, parts)
			}
		}
	}
	return found
}

// choices are the ways to choose where the rows of each table lie. The first way gives HBM
// to what saves most time for each byte. So most tables get a cache, and most devices run
// an operator for host memory beside that for HBM. The other ways first give tables all of
// HBM or nothing. Then some devices hold no rows in host memory, and need no such operator.
// hbm is the number of bytes of HBM.
var choices = []func(h *chooser, hbm float64){
	func(h *chooser, _ float64) { h.improve(false) },
	func(h *chooser, _ float64) { h.improve(true) },
	func(h *chooser, hbm float64) {
		h.improve(true)
		h.room -= int64(spareRoom * hbm)
		h.improve(false)
	},
}

// residences returns the pieces that an unsplit table may become, in HBM or in host
// memory with a cache, as far as its constraint allows them. In the list, bytes of HBM rise and times fall. A piece is left
// out if it does not fit a device even in its narrowest slices.
func residences(c *catalog, l *layout, k int32) (options []int32) {
	var pieces []int32
	m, single := c.pieces[k].members[0], len(c.pieces[k].members) == 1
	if !l.forms.barred[m.table] {
		pieces = append(pieces, k)
	}
	if single {
		for _, form := range l.forms.choices[m.table] {
			if form.Tier.OnHost() {
				pieces = append(pieces, c.inForm(k, m.width, form))
			}
		}
	}
	pieces = slices.DeleteFunc(pieces, func(k int32) bool {
		narrowest := k
		if single && c.problem.Tables[m.table].MinWidth() < m.width {
			narrowest = c.slice(k, c.least(m.table))
		}
		return c.pieces[narrowest].bytes > c.budget || c.pieces[narrowest].hostBytes > l.hostBudget
	})
	for _, k := range pieces {
		c.time(k)
	}
	slices.SortStableFunc(pieces, func(a, b int32) int { return cmp.Compare(c.pieces[a].bytes, c.pieces[b].bytes) })
	for _, k := range pieces {
		if n := len(options); n == 0 || c.pieces[k].alone < c.pieces[options[n-1]].alone {
			options = append(options, k)
		}
	}
	return options
}

// chooser chooses one option of each table, within the bytes of HBM that are left.
type chooser struct {
	c       *catalog
	options [][]int32
	// at is the option chosen of each table.
	at   []int
	room int64
}

// newChooser returns the choice of the first option of each table. room is the number of
// bytes for all tables.
func newChooser(c *catalog, options [][]int32, room int64) *chooser {
	h := &chooser{c: c, options: options, at: make([]int, len(options)), room: room}
	for i := range options {
		h.room -= h.piece(i, 0).bytes
	}
	return h
}

func (h *chooser) piece(table, option int) *piece { return &h.c.pieces[h.options[table][option]] }

// chosen returns the pieces chosen.
func (h *chooser) chosen() []int32 {
	pieces := make([]int32, len(h.options))
	for i, at := range h.at {
		pieces[i] = h.options[i][at]
	}
	return pieces
}

// improve takes the steps to other options that save most time for each additional byte,
// while there is room. If entirely is true, it takes only steps to the last option of a
// table.
func (h *chooser) improve(entirely bool) {
	var queue upgrades
	push := func(i int) {
		if _, worth := h.step(i, entirely); worth > 0 {
			heap.Push(&queue, upgrade{i, worth})
		}
	}
	for i := range h.options {
		push(i)
	}
	for len(queue) > 0 {
		best := heap.Pop(&queue).(upgrade)
		to, worth := h.step(best.table, entirely)
		if worth == best.worth && worth > 0 {
			h.room -= h.piece(best.table, to).bytes - h.piece(best.table, h.at[best.table]).bytes
			h.at[best.table] = to
		}
		push(best.table) // its next option within the room that is left now
	}
}

// step returns the best next option of a table that fits the room left, and the time that
// it saves for each byte.
func (h *chooser) step(table int, entirely bool) (to int, worth float64) {
	from, last := h.piece(table, h.at[table]), len(h.options[table])-1
	for j := h.at[table] + 1; j <= last; j++ {
		if entirely && j < last {
			continue
		}
		next := h.piece(table, j)
		more := next.bytes - from.bytes
		if more > h.room {
			break
		}
		if w := (from.alone - next.alone) / float64(max(1, more)); w > worth {
			to, worth = j, w
		}
	}
	return to, worth
}

// upgrade is the best next option of a table, with the time that it saves for each
// byte. upgrades is a heap of them, the largest saving first.
type upgrade struct {
	table int
	worth float64
}

type upgrades []upgrade

func (u upgrades) Len() int { return len(u) }
func (u upgrades) Less(i, j int) bool {
	return u[i].worth > u[j].worth || u[i].worth == u[j].worth && u[i].table < u[j].table
}
func (u upgrades) Swap(i, j int) { u[i], u[j] = u[j], u[i] }
func (u *upgrades) Push(x any)   { *u = append(*u, x.(upgrade)) }
func (u *upgrades) Pop() any {
	last := (*u)[len(*u)-1]
	*u = (*u)[:len(*u)-1]
	return last
}
