package search_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/neuroshard/neuroshard/search"
)

func BenchmarkRun(b *testing.B) {
	for _, size := range []struct{ tables, devices int }{{26, 8}, {40, 8}, {1000, 128}, {10000, 1024}} {
		for _, m := range []search.Method{search.NeuroShard, search.Paper} {
			if m == search.Paper && size.tables > 100 {
				continue
			}
			b.Run(fmt.Sprintf("%s/%dx%d", m, size.tables, size.devices), func(b *testing.B) {
				p := pool(3, size.tables, size.devices, 128)
				var r search.Result
				for b.Loop() {
					var err error
					if r, err = search.Run(context.Background(), p, factory(p), search.Options{Method: m}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(r.Cost*1e3, "cost-us")
				b.ReportMetric(float64(r.Stats.Evaluations), "evals")
				b.Log(r.Stats, r.Status)
			})
		}
	}
}

var _ = time.Now
