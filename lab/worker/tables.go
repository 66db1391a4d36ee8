package worker

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"sync"
	"sync/atomic"

	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/lab/worker/engine"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// table is a table that groups may name, with the lookups of one batch.
type table struct {
	rows  int64
	batch int
	bags  lookups.Bags
}

// tables holds the tables since the last init, with their lookups. The zero value,
// before the first init, accepts no tables.
type tables struct {
	// batch and seed are those of init: the batch of a table that states none, and the
	// seed of made-up lookups.
	batch int
	seed  uint64
	// known holds the tables by number. bytes is the size of their lookups, and most
	// the largest size allowed.
	known       map[int]*table
	bytes, most unit.Bytes
}

// newTables returns a set without tables, to be filled after init.
func newTables(batch int, seed uint64, most unit.Bytes) tables {
	return tables{batch: batch, seed: seed, known: make(map[int]*table), most: most}
}

// add makes up or reads the lookups of the tables of a request, all or none. They replace tables
// with the same numbers.
func (k *tables) add(q *protocol.Request) (protocol.Response, error) {
	none := protocol.Response{}
	if k.batch == 0 {
		return none, bad("tables before init")
	}
	held := k.bytes
	for _, t := range q.Tables {
		if old := k.known[t.T]; old != nil {
			held -= bagBytes(old.bags)
		}
	}
	made := make(map[int]*table)
	var answers []protocol.Table
	for _, t := range q.Tables {
		if made[t.T] != nil {
			return none, bad("table %d: twice in one request", t.T)
		}
		t.Features, t.Batch = cmp.Or(t.Features, 1), cmp.Or(t.Batch, k.batch)
		if err := checkTable(&t); err != nil {
			return none, err
		}
		bags, realised, err := k.lookups(&t, k.most-held)
		if err != nil {
			return none, err
		}
		if held += bagBytes(bags); held > k.most {
			return none, k.full(t.T, bagBytes(bags))
		}
		made[t.T] = &table{rows: t.Rows, batch: t.Batch, bags: bags}
		answers = append(answers, protocol.Table{T: t.T, UniqueRows: float64(realised.Unique), Reuse: realised.Reuse, LengthCV: lookups.LengthCV(bags.Offsets)})
	}
	maps.Copy(k.known, made)
	k.bytes = held
	return protocol.Response{Tables: answers}, nil
}

// full returns the error of a table whose lookups need more memory than is left.
func (k *tables) full(t int, need unit.Bytes) error {
	return outOfMemory("table %d: its lookups need %d bytes, the others hold %d of %d: send init, which forgets all tables, and fewer of them",
		t, int64(need), int64(k.bytes), int64(k.most))
}

func bagBytes(b lookups.Bags) unit.Bytes { return unit.Bytes(8 * (len(b.Indices) + len(b.Offsets))) }

func checkTable(t *protocol.Table) error {
	if t.T < 0 {
		return bad("table %d: its number is negative", t.T)
	}
	what := func(field string) string { return fmt.Sprintf("table %d: %s", t.T, field) }
	if err := cmp.Or(
		between(what("rows"), t.Rows, 1, engine.MaxRows),
		between(what("features"), t.Features, 1, problem.MaxFeatures),
		between(what("batch"), t.Batch, 1, problem.MaxBatch),
	); err != nil || t.LookupFile != "" {
		return err
	}
	return cmp.Or(
		between(what("pooling_factor"), t.PoolingFactor, 0, problem.MaxPoolingFactor),
		between(what("rows_per_id"), t.RowsPerID, 0, problem.MaxPoolingFactor),
		between(what("length_cv"), t.LengthCV, 0, problem.MaxLengthCV),
	)
}

// lookups reads or makes up a table's lookups, of at most the given size. Those that are made up
// depend only on the table, its number and the seed.
func (k *tables) lookups(t *protocol.Table, most unit.Bytes) (bags lookups.Bags, realised lookups.Realised, err error) {
	if t.LookupFile != "" {
		bags, err = readLookups(t, most)
		return bags, lookups.Count(bags.Indices), err
	}
	n := float64(t.Batch) * float64(t.Features)
	if need := 8 * (n*t.PoolingFactor + n + 2); need > float64(most) {
		return bags, realised, k.full(t.T, unit.Bytes(need))
	}
	bags, realised, err = lookups.Synthesise(lookups.SpecOf(t, k.seed))
	if err != nil {
		err = bad("table %d: %v", t.T, err)
	}
	return bags, realised, err
}

// readLookups reads a table's lookups, of its batch and features, from a lookup file.
func readLookups(t *protocol.Table, most unit.Bytes) (lookups.Bags, error) {
	// A lookup file takes as much memory as it does on disk, once more where it is cut.
	if info, err := os.Stat(t.LookupFile); err == nil && unit.Bytes(info.Size()) > most {
		return lookups.Bags{}, outOfMemory("table %d: its lookup file of %d bytes is above the %d that are left: send init, which forgets all tables, and fewer of them",
			t.T, info.Size(), int64(most))
	}
	bags, err := lookups.ReadFile(t.LookupFile)
	if err == nil && bags.Len() != t.Batch*t.Features {
		bags, err = bags.Cut(t.Features, t.Batch)
	}
	if err == nil {
		err = bags.Check(t.Rows)
	}
	if err != nil {
		return bags, bad("table %d: %v", t.T, err)
	}
	return bags, nil
}

// each calls do for every i below n on a number of threads.
func each(threads, n int, do func(i int)) {
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(threads, n) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wait.Wait()
}
