package problem_test

import (
	"testing"

	"github.com/neuroshard/neuroshard/problem"
)

// The gradients of data_parallel tables have an all-reduce in each step, so the replicas' all-reduce
// has nothing of them.
func TestSyncBytes(t *testing.T) {
	p := &problem.Problem{Tables: []problem.Table{{Rows: 10, Dim: 4}}}
	s := p.Whole(0)
	if all, weights, host := p.SyncBytes(s); all != 160 || weights != 160 || host != 0 {
		t.Errorf("table_wise: got %d, %d and %d bytes, want 160, 160 and 0", all, weights, host)
	}
	s.ShardingType = problem.DataParallel
	if all, weights, host := p.SyncBytes(s); all != 0 || weights != 0 || host != 0 {
		t.Errorf("data_parallel: got %d, %d and %d bytes, want none", all, weights, host)
	}
}
