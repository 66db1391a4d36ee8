package verify_test

import (
	"errors"
	"testing"

	"github.com/neuroshard/neuroshard/lab/verify"
	"github.com/neuroshard/neuroshard/plan"
)

func TestMeasurable(t *testing.T) {
	pl := &plan.Plan{}
	for i, kind := range []plan.ShardingType{plan.RowWise, plan.DataParallel, plan.RowWise, plan.RowWise, plan.RowWise, plan.ColumnWise, plan.TableWise} {
		pl.Tables = append(pl.Tables, plan.Table{Name: string(rune('a' + i)), ShardingType: kind, Shards: []plan.Shard{{Tier: plan.HBM}}})
	}
	pl.Tables[6].Shards[0].Tier = plan.Host
	err := verify.Measurable(pl)
	var none *verify.Unmeasurable
	if !errors.As(err, &none) {
		t.Fatalf("got %v, want an *Unmeasurable", err)
	}
	const want = `only table_wise and column_wise tables in hbm can be measured, and the plan has 4 row_wise ("a", "c", "d" and 1 more), 1 data_parallel ("b"), 1 in host memory ("g")`
	if err.Error() != want {
		t.Errorf("got %s, want %s", err, want)
	}
	pl.Tables = pl.Tables[5:]
	pl.Tables[1].Shards[0].Tier = plan.HBM
	if err := verify.Measurable(pl); err != nil {
		t.Errorf("tables of columns in hbm: got %v, want no error", err)
	}
}
