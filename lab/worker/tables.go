package worker

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/neuroshard/neuroshard/lab/lookups"
	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/lab/worker/engine"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/unit"
)

// table is a table that groups may name, with the lookups of one batch.
type table struct {
	rows     int64
	batch    int
	features int
	bags     lookups.Bags
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

// add makes up or reads the lookups of the tables, on a number of threads. It adds
// all tables of the request or none.
func (k *tables) add(ctx context.Context, threads int, q *protocol.Request) (protocol.Response, error) {
	none := protocol.Response{}
	asked, held, err := k.asked(q)
	if err != nil {
		return none, err
	}
	made := make([]*table, len(asked))
	answers := make([]protocol.Table, len(asked))
	err = each(ctx, threads, len(asked), func(i int) error {
		if asked[i].LookupFile != "" {
			return nil // one at a time, below: how large they are shows only then
		}
		var err error
		made[i], answers[i], err = makeUp(&asked[i], k.seed)
		return err
	})
	if err != nil {
		return none, err
	}
	for i, t := range asked {
		if t.LookupFile == "" {
			continue
		}
		if made[i], answers[i], err = readLookups(&t, k.most-held); err != nil {
			return none, err
		}
		if held += bagBytes(made[i].bags); held > k.most {
			return none, k.full(t.T, bagBytes(made[i].bags))
		}
	}
	for i, t := range asked {
		if old := k.known[t.T]; old != nil {
			k.bytes -= bagBytes(old.bags)
		}
		k.known[t.T] = made[i]
		k.bytes += bagBytes(made[i].bags)
	}
	return protocol.Response{Tables: answers}, nil
}

// asked returns the tables of a request with their defaults, and the size of all
// lookups including those that the request wants made up from statistics. The
// tables of the request replace tables with the same numbers.
func (k *tables) asked(q *protocol.Request) (asked []protocol.Table, held unit.Bytes, err error) {
	if k.batch == 0 {
		return nil, 0, bad("tables before init")
	}
	seen := make(map[int]bool)
	held = k.bytes
	for _, t := range q.Tables {
		if seen[t.T] {
			return nil, 0, bad("table %d: twice in one request", t.T)
		}
		seen[t.T] = true
		if t.Features == 0 {
			t.Features = 1
		}
		if t.Batch == 0 {
			t.Batch = k.batch
		}
		if err := checkTable(&t); err != nil {
			return nil, 0, err
		}
		asked = append(asked, t)
		if old := k.known[t.T]; old != nil {
			held -= bagBytes(old.bags)
		}
		if t.LookupFile == "" {
			bags := float64(t.Batch) * float64(t.Features)
			need := unit.Bytes(8 * (bags*t.PoolingFactor + bags + 2))
			// The sum stops when it no longer fits, so that it does not overflow.
			if held += need; held > k.most {
				return nil, 0, k.full(t.T, need)
			}
		}
	}
	return asked, held, nil
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

// makeUp synthesises a table's lookups. They depend only on the table, its number
// and the seed.
func makeUp(t *protocol.Table, seed uint64) (*table, protocol.Table, error) {
	made := &table{rows: t.Rows, batch: t.Batch, features: t.Features}
	counts := access.Counts{Lookups: t.PoolingFactor * float64(t.Batch), Unique: t.UniqueRows, Reuse: t.Reuse}
	if t.UniqueRows == 0 {
		counts = access.Distribution{Kind: access.Histogram, Reuse: t.Reuse, Batch: t.Batch}.At(t.Rows, t.PoolingFactor, t.Batch)
	}
	counts.RowsPerID = t.RowsPerID
	bags, realised, err := lookups.Synthesise(lookups.Spec{
		Rows: t.Rows, Batch: t.Batch, Features: t.Features, Counts: counts, LengthCV: t.LengthCV, Seed: mix(seed ^ mix(uint64(t.T))),
	})
	if err != nil {
		return nil, protocol.Table{}, bad("table %d: %v", t.T, err)
	}
	made.bags = bags
	return made, answerOf(t, bags, realised), nil
}

func answerOf(t *protocol.Table, b lookups.Bags, r lookups.Realised) protocol.Table {
	return protocol.Table{T: t.T, UniqueRows: float64(r.Unique), Reuse: r.Reuse, LengthCV: lookups.LengthCV(b.Offsets)}
}

// readLookups reads a table's lookups, of its batch and features, from a lookup file.
func readLookups(t *protocol.Table, most unit.Bytes) (*table, protocol.Table, error) {
	none := protocol.Table{}
	// A lookup file takes as much memory as it does on disk, once more where it is cut.
	if info, err := os.Stat(t.LookupFile); err == nil && unit.Bytes(info.Size()) > most {
		return nil, none, outOfMemory("table %d: its lookup file of %d bytes is above the %d that are left: send init, which forgets all tables, and fewer of them",
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
		return nil, none, bad("table %d: %v", t.T, err)
	}
	return &table{rows: t.Rows, batch: t.Batch, features: t.Features, bags: bags}, answerOf(t, bags, lookups.Count(bags.Indices)), nil
}

// mix is the finaliser of SplitMix64: neighbouring numbers become unrelated ones.
func mix(v uint64) uint64 {
	v += 0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

// each calls do for every i below n on a number of threads. It returns the first
// error by i, or that of the context.
func each(ctx context.Context, threads, n int, do func(i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(threads, n) {
		wait.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || ctx.Err() != nil {
					return
				}
				errs[i] = do(i)
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
