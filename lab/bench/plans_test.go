package bench

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/search"
)

func TestGivenPlan(t *testing.T) {
	tasks, err := WorkloadTasks([]string{"criteo-kaggle", "mlperf-dlrm-dcnv2"}, []string{DefaultCluster})
	if err != nil {
		t.Fatal(err)
	}
	made, err := neuroshard.Plan(context.Background(), &tasks[1].Problem, neuroshard.Options{Search: search.Options{Method: search.Size, Brief: true}})
	if err != nil {
		t.Fatal(err)
	}
	pl := made.Plan
	given, err := GivenPlan(tasks, "theirs", pl)
	if err != nil {
		t.Fatal(err)
	}
	records, err := Score(context.Background(), tasks, []Given{given}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r := records[0]; r.Task != tasks[1].Name || r.Method != "theirs" || *r.CostMS != float64(made.Predicted.Cost) {
		t.Errorf("got %s by %s of %v ms, want %v", r.Task, r.Method, *r.CostMS, made.Predicted.Cost)
	}
	for _, c := range []struct {
		name   string
		tasks  []Task
		change func(pl *plan.Plan)
		want   string
	}{
		{"another task", tasks[:1], func(*plan.Plan) {}, `it is not a plan for task "` + tasks[0].Name + `": `},
		{"another cluster", tasks, func(pl *plan.Plan) { pl.Cluster.Batch++ }, "it is a plan for none of the 2 tasks; for "},
		{"a device too many", tasks, func(pl *plan.Plan) { pl.Tables[0].Shards[0].Device = 1000 }, "there is no device 1000"},
		{"a kind that its shards are not", tasks, func(pl *plan.Plan) { pl.Tables[0].ShardingType = plan.RowWise }, "row_wise"},
	} {
		changed := *pl
		changed.Tables = slices.Clone(pl.Tables)
		for i := range changed.Tables {
			changed.Tables[i].Shards = slices.Clone(pl.Tables[i].Shards)
		}
		c.change(&changed)
		last := c.tasks
		if c.name == "a device too many" || c.name == "a kind that its shards are not" {
			last = tasks[1:]
		}
		if _, err := GivenPlan(last, "x", &changed); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
}
