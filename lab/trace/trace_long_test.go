//go:build long

package trace

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"github.com/neuroshard/neuroshard/internal/must"
)

// most is the most heap that the test below may use: a table has 0.3 million lookups.
const most = 150 << 20

// TestMemoryOfLog reads a log of about 130 MB, sorted by sample. Its memory must depend on the
// lookups of one table only.
func TestMemoryOfLog(t *testing.T) {
	const samples, tables, pooling = 65536, 40, 4
	path := write(t, "log.csv", nil)
	f := must.Get(os.Create(path))(t)
	out := bufio.NewWriter(f)
	fmt.Fprintln(out, "sample,table,index")
	random := rand.New(rand.NewPCG(1, 1))
	for i := range samples * tables * pooling {
		fmt.Fprintf(out, "%d,t%d,%d\n", i/tables/pooling, i/pooling%tables, random.IntN(1e6))
	}
	must.Do(t, errors.Join(out.Flush(), f.Close()))
	start := time.Now()
	peak := peakHeap(func() {
		must.Get(ReadTables(path, Options{TempDir: t.TempDir()}, TableOptions{Dim: 4, Keep: func(_ int, table Table) error {
			if got := len(table.Bags.Indices); table.Samples != samples || got != samples*pooling {
				t.Errorf("table %s: got %d samples and %d lookups", table.Name, table.Samples, got)
			}
			return nil
		}}))(t)
	})
	t.Logf("heap of at most %d MB, %.1f million lookups/s", peak>>20, samples*tables*pooling/1e6/time.Since(start).Seconds())
	if peak > most {
		t.Errorf("heap: got %d MB, want at most %d", peak>>20, most>>20)
	}
}

// peakHeap returns the largest heap while a function runs, read every millisecond:
// live objects, and garbage that is not yet collected.
func peakHeap(fn func()) uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	peak, done := uint64(0), make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			metrics.Read(sample)
			peak = max(peak, sample[0].Value.Uint64())
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	fn()
	close(done)
	watch.Wait()
	return peak
}
