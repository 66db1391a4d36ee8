package cost

import (
	"context"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/cost/feature"
	"github.com/neuroshard/neuroshard/internal/groups"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
)

// embeddings are the tables of a problem, described to a model, and the embedding of
// every slice asked for so far. Operators of one class read the embeddings of one
// problem: that of the whole tables, of blocks of their rows, or of their replicas. Slices of
// columns may also be blocks of rows on devices that a plan chose, which run in the same operators.
type embeddings struct {
	model *Model
	// whole is the problem of the whole tables: it says which slices fuse.
	whole *problem.Problem
	batch int // of the tables
	// operations holds the Operation of each set of tables whose whole slices fuse. parts is 2
	// if the engine keeps slices of columns apart from whole tables, otherwise 1.
	operations []problem.Operation
	parts      int
	// widths are the widths of cached slices that the engine keeps apart from other widths, in
	// equal slices, rising. others numbers the operators of further widths, as these are asked
	// for: only plans that break the engine's rules have such slices.
	widths []int
	others map[problem.OperatorKey]int
	// highest holds the highest lane class that operators of each operation can have, and
	// lowest is the lowest one of all operations. classes is the number of lane classes from
	// the lowest to the highest of all.
	highest []feature.Lanes
	lowest  feature.Lanes
	classes int
	tables  []describedTable
	// blocks holds the tables' blocks of rows that are slices of this class (problem.Form.Blocks),
	// as they are asked for.
	blocks map[blockKey]describedTable
	// contents numbers the contents of tables and blocks, and described has what a batch does to
	// each.
	contents  map[tableContent]int
	described []feature.Table
	// quantum is the size, in ms, of one unit of the integers that embeddings
	// are rounded to.
	quantum float64
	// items are what operators read, itemsInBlock in each block, and vectors what the items add to
	// the sums of operators.
	items   [][]item
	count   int
	vectors vectorList
	index   map[sliceKey]int32
	shared  map[contentKey]int32 // items of equal content share their vectors
	work    workspace
	// rates holds each operator's part of the scalars; operatorOf numbers the operators.
	// none is an embedding of zeros.
	rates []feature.Rates
	none  []int32
}

type describedTable struct {
	// content is equal for tables that differ in name and constraints only.
	content, operation int32
	bags               float64
}

// item is a slice of a table: what operators add to a device.
type item struct {
	// key is equal for items of equal content.
	key    groups.Key
	dimSum int
	// vector is the number of the vector for the lane class lanes. Those of the higher classes
	// that the slice's operator can have follow. There are none below, because an operator is never
	// narrower than its widest slice.
	vector   int32
	operator int32 // as operatorOf says
	// blocks is the number of blocks of rows that the slice is one of, on devices that a plan
	// chose; 0 for a slice with all rows.
	blocks int32
	lanes  feature.Lanes
	// unread says that nothing is looked up: the slice adds only its columns.
	unread bool
}

// itemsInBlock is the number of items, and vectorsInBlock that of vectors, that have their memory
// together: a list that grows block by block never moves.
const itemsInBlock, vectorsInBlock = 512, 128

// vectorList holds what slices add to the sums of their operators, for one lane class each: the folded
// embedding, and a part of the scalars.
type vectorList struct {
	units int // the length of an embedding
	heads [][]int32
	parts [][]feature.Part
	count int
}

// add adds an empty vector, and returns its embedding and its part.
func (v *vectorList) add() (head []int32, part *feature.Part) {
	if v.count%vectorsInBlock == 0 {
		v.heads, v.parts = append(v.heads, make([]int32, vectorsInBlock*v.units)), append(v.parts, make([]feature.Part, vectorsInBlock))
	}
	v.count++
	return v.head(v.count - 1), v.part(v.count - 1)
}

func (v *vectorList) head(i int) []int32 {
	from := i % vectorsInBlock * v.units
	return v.heads[i/vectorsInBlock][from : from+v.units : from+v.units]
}

func (v *vectorList) part(i int) *feature.Part { return &v.parts[i/vectorsInBlock][i%vectorsInBlock] }

// vectorFor returns the number of an item's vector for a lane class, not below the item's own.
func (it *item) vectorFor(lanes feature.Lanes) int { return int(it.vector) + int(lanes-it.lanes) }

// at returns the item of a number.
func (e *embeddings) at(i int) *item { return &e.items[i/itemsInBlock][i%itemsInBlock] }

type sliceKey struct {
	table, width, blocks int32
	number               problem.Operator
	// prefetched says that the slice is a cached one whose table has Prefetch.
	prefetched bool
}

// blockKey is a table that is cut by rows for a number of devices.
type blockKey struct{ table, blocks int }

type contentKey struct{ content, width int32 }

// tableContent holds the values that the times of a table depend on.
type tableContent struct {
	rows                           int64
	bags, lists, lookups, lengthCV float64
	pooling                        problem.Pooling
	access                         access.Distribution
	operation                      problem.Operation
}

// newEmbeddings describes the problem's tables to the model. whole is the problem itself, or
// the one that has the whole tables. Of a problem of parts of tables, only the descriptions are kept.
// If ctx ends first, newEmbeddings returns the error of ctx.
func newEmbeddings(ctx context.Context, m *Model, p, whole *problem.Problem) (*embeddings, error) {
	e := &embeddings{
		model: m, whole: whole, batch: p.Batch, index: map[sliceKey]int32{}, shared: map[contentKey]int32{},
		none: make([]int32, m.compute.head), vectors: vectorList{units: m.compute.head}, contents: map[tableContent]int{}, blocks: map[blockKey]describedTable{},
		others: map[problem.OperatorKey]int{},
	}
	operations, widest := map[problem.OperatorKey]int{}, map[problem.Operation]int{}
	rules := p.Engine.Rules()
	if e.parts = 1; rules.WholeApart {
		e.parts = 2
	}
	if rules.PrefetchedApart {
		e.widths = prefetchedWidths(whole)
	}
	for i := range p.Tables {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t := &p.Tables[i]
		op := p.Operation(i)
		key := whole.OperatorKey(i, t.Dim, problem.Form{})
		key.Operation = op
		at, ok := operations[key]
		if !ok {
			at = len(e.operations)
			operations[key] = at
			e.operations = append(e.operations, op)
			e.rates = append(e.rates, feature.NewRates(&m.hardware, op))
		}
		widest[op] = max(widest[op], t.Dim)
		e.tables = append(e.tables, e.describe(t, at))
	}
	e.boundLanes(widest)
	e.quantum = e.chooseQuantum(ctx)
	if p != whole {
		e.contents = nil // all tables are described
	}
	return e, ctx.Err()
}

// prefetchedWidths returns the widths that equal slices of tables with Prefetch can have,
// rising.
func prefetchedWidths(p *problem.Problem) []int {
	var widths []int
	for i := range p.Tables {
		if p.Tables[i].Prefetch {
			widths = append(widths, p.Tables[i].EqualWidths()...)
		}
	}
	slices.Sort(widths)
	return slices.Compact(widths)
}

// describe returns the table as its operation's operators read it. The table is one of the
// problem's, or a block of one.
func (e *embeddings) describe(t *problem.Table, operation int) describedTable {
	content := tableContent{t.Rows, t.Bags(), t.Lists(), t.PoolingFactor(), t.LengthCV(), t.Pooling, t.Access, e.operations[operation]}
	c, ok := e.contents[content]
	if !ok {
		c = len(e.described)
		e.contents[content] = c
		e.described = append(e.described, feature.Describe(t, t.Counts(e.batch)))
	}
	return describedTable{int32(c), int32(operation), t.Bags()}
}

// slice returns the table of a slice: the problem's, or the block of it if the slice is one of a
// number of blocks. Only slices of whole tables are.
func (e *embeddings) slice(table, blocks int) *describedTable {
	if blocks == 0 {
		return &e.tables[table]
	}
	key := blockKey{table, blocks}
	block, ok := e.blocks[key]
	if !ok {
		t := problem.BlockOf(e.whole, table, blocks)
		block = e.describe(&t, int(e.tables[table].operation))
		e.blocks[key] = block
	}
	return &block
}

// boundLanes finds the lane classes that operators can have, where widest holds the columns
// of the widest table of each operation. Equal tables of two operators share embeddings, so
// both operators have the same classes.
func (e *embeddings) boundLanes(widest map[problem.Operation]int) {
	hw := &e.model.hardware
	highest := feature.Lanes8
	for i, op := range e.operations {
		e.highest = append(e.highest, feature.LanesOf(hw, op, widest[op]))
		if lowest := feature.LanesOf(hw, op, problem.ColumnGranule); i == 0 || lowest < e.lowest {
			e.lowest = lowest
		}
		highest = max(highest, e.highest[i])
	}
	e.classes = int(highest-e.lowest) + 1
}

// headroom is the factor by which a single device's sum may exceed the summed embedding
// of the whole problem without overflow: slices repeat a table's lookups, at most 64
// times (256 columns in slices of four).
const headroom = 64

// chooseQuantum returns the power of two at which the integers of all tables on one
// device just fit 31 bits. If ctx ends, the result is of no use.
func (e *embeddings) chooseQuantum(ctx context.Context) float64 {
	largest := map[int32]float64{}
	total := 0.0
	for i := 0; i < len(e.tables) && ctx.Err() == nil; i++ {
		t := &e.tables[i]
		size, ok := largest[t.content]
		if !ok {
			// A narrow table can be faster in a wide operator than in a full one.
			highest := e.highest[t.operation]
			for l := min(highest, feature.LanesFull); l <= highest; l++ {
				embedded := e.model.embed(e.operations[t.operation], &e.described[t.content], e.whole.Tables[i].Dim, l, &e.work)
				for _, v := range embedded.head {
					size = math.Max(size, math.Abs(v))
				}
			}
			largest[t.content] = size
		}
		total += size
	}
	if total == 0 {
		return 1
	}
	return math.Exp2(math.Ceil(math.Log2(total * headroom / (1 << 31))))
}

// keyOf returns the key of a slice's operator. The operations of blocks and replicas are not
// those of the whole table.
func (e *embeddings) keyOf(table, width int, form problem.Form) problem.OperatorKey {
	key := e.whole.OperatorKey(table, width, form)
	key.Operation = e.operations[e.tables[table].operation]
	return key
}

// operatorOf returns which of a device's operators of the class looks up slices with the key,
// of table t. Slices of one key have one operator, and no others do. All operators of one
// number come before those of the next number, so that times add up in the same order
// whatever was registered first.
func (e *embeddings) operatorOf(t *describedTable, key *problem.OperatorKey) int32 {
	part := int(key.Operator) * (len(e.widths) + 1)
	if key.Width > 0 {
		at, ok := slices.BinarySearch(e.widths, key.Width)
		if !ok {
			return int32(e.otherPart(key)*len(e.operations) + int(t.operation))
		}
		part += at + 1
	}
	if part *= e.parts; key.Cut {
		part++
	}
	return int32(part*len(e.operations) + int(t.operation))
}

// otherPart returns the part of an operator of a width that is not in widths: such parts come
// after all others.
func (e *embeddings) otherPart(key *problem.OperatorKey) int {
	at, ok := e.others[*key]
	if !ok {
		at = problem.Operators*(len(e.widths)+1)*e.parts + len(e.others)
		e.others[*key] = at
	}
	return at
}

// item returns the number that stands for a slice of the table, width columns wide, in the
// operator and of the number of blocks that the form states. Of the tiers, the form states only
// HostCached.
func (e *embeddings) item(table, width int, form problem.Form) int {
	key := sliceKey{int32(table), int32(width), int32(form.Blocks), form.Operator, form.Tier == problem.HostCached && e.whole.Tables[table].Prefetch}
	if i, ok := e.index[key]; ok {
		return int(i)
	}
	t := e.slice(table, form.Blocks)
	fused := e.keyOf(table, width, problem.Form{Tier: form.Tier, Operator: form.Operator})
	op := fused.Operation
	added := item{operator: e.operatorOf(t, &fused), lanes: feature.LanesOf(&e.model.hardware, op, width), dimSum: problem.Columns(width, t.bags), blocks: int32(form.Blocks)}
	for int(added.operator) >= len(e.rates) { // a number or a width more, of whole slices or of cut ones
		e.rates = append(e.rates, e.rates[:len(e.operations)]...)
	}
	content := contentKey{t.content, int32(width)}
	if twin, ok := e.shared[content]; ok {
		alike := e.at(int(twin))
		added.key, added.vector, added.unread = alike.key, alike.vector, alike.unread
	} else {
		added.vector = int32(e.vectors.count)
		described := &e.described[t.content]
		for l := added.lanes; l <= e.highest[t.operation]; l++ {
			embedded := e.model.embed(op, described, width, l, &e.work)
			head, part := e.vectors.add()
			e.quantise(head, embedded.head)
			*part = described.Part(embedded.scale)
		}
		added.unread = e.vectors.part(int(added.vector)).Empty()
		added.key = groups.KeyOf(e.count)
		e.shared[content] = int32(e.count)
	}
	e.index[key] = int32(e.count)
	if e.count%itemsInBlock == 0 {
		e.items = append(e.items, make([]item, itemsInBlock))
	}
	*e.at(e.count) = added
	e.count++
	return e.count - 1
}

// quantise sets the integers of an embedding.
func (e *embeddings) quantise(integers []int32, head []float64) {
	for i, v := range head {
		integers[i] = int32(math.Round(math.Max(-1<<30, math.Min(1<<30, v/e.quantum))))
	}
}
