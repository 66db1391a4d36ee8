package problem_test

import (
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
)

func TestParsePipeline(t *testing.T) {
	for _, test := range []struct{ text, want, wrong string }{
		{text: "base"},
		{text: "semi-sync"},
		{text: "prefetch"},
		{text: "sparse-dist"},
		{text: "sparse-dist+clear_data_dist_inputs"},
		{"sparse-dist+clear_data_dist_inputs+enqueue_batch_after_forward+clear_data_dist_inputs", "sparse-dist+enqueue_batch_after_forward+clear_data_dist_inputs", ""},
		{"", "", `pipeline "" is unknown: choose one of base, sparse-dist, prefetch, semi-sync`},
		{"Base", "", `pipeline "Base" is unknown`},
		{"sparse-dist+", "", `option of pipeline sparse-dist "" is unknown`},
		{"sparse-dist+clear", "", `option of pipeline sparse-dist "clear" is unknown: choose one of enqueue_batch_after_forward, free_features_storage_early, clear_data_dist_inputs`},
		{"prefetch+clear_data_dist_inputs", "", `pipeline "prefetch" has no options: only sparse-dist has`},
	} {
		want := problem.Pipeline(test.want)
		if want == "" && test.wrong == "" {
			want = problem.Pipeline(test.text)
		}
		var got problem.Pipeline
		err := got.UnmarshalText([]byte(test.text))
		if (err == nil) != (test.wrong == "") || err != nil && !strings.HasPrefix(err.Error(), test.wrong) {
			t.Errorf("%q: got error %v, want %q", test.text, err, test.wrong)
		}
		if got != want || got.Check() != nil {
			t.Errorf("%q: got %q, want %q", test.text, got, want)
		}
		if stated := problem.Pipeline(test.text); (stated.Check() == nil) != (stated == want) {
			t.Errorf("%q: got %v, want an error unless it is %q", test.text, stated.Check(), want)
		}
	}
}

// TestPipelineOfProblem wants the pipeline of an engine, and an error for one that it does not have.
func TestPipelineOfProblem(t *testing.T) {
	for _, test := range []struct {
		engine       problem.Engine
		stated, want problem.Pipeline
		wrong        string
	}{
		{"", "", problem.SparseDistPipeline, ""},
		{problem.TorchRec, "", problem.SparseDistPipeline, ""},
		{problem.TorchRec, problem.SemiSyncPipeline, problem.SemiSyncPipeline, ""},
		{problem.HugeCTR, "", problem.BasePipeline, ""},
		{problem.HugeCTR, problem.BasePipeline, problem.BasePipeline, ""},
		{problem.HugeCTR, problem.PrefetchPipeline, problem.PrefetchPipeline, "pipeline: hugectr has no pipeline but base, and the cluster states prefetch"},
		{"", "staged", "staged", `pipeline "staged" is unknown`},
	} {
		p := problem.Problem{Engine: test.engine, Pipeline: test.stated}
		if got := p.TrainPipeline(); got != test.want {
			t.Errorf("%q, %q: got %q, want %q", test.engine, test.stated, got, test.want)
		}
		faults := p.Validate().Error()
		if got := strings.Contains(faults, "pipeline"); got != (test.wrong != "") || !strings.Contains(faults, test.wrong) {
			t.Errorf("%q, %q: got faults %q, want %q", test.engine, test.stated, faults, test.wrong)
		}
	}
}
