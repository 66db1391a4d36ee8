package problem

import (
	"fmt"
	"slices"
	"strings"
)

// Pipeline names how the training loop overlaps its steps, which decides how many batches of inputs a device
// holds at once. It is a kind, with options of TorchRec's that change the memory after a plus:
//
//	base          one batch after the other
//	sparse-dist   TorchRec's TrainPipelineSparseDist: the next batch is exchanged while this one is computed
//	prefetch      PrefetchTrainPipelineSparseDist: the rows of the next batch are also brought into the cache
//	semi-sync     TrainPipelineSemiSync: the lookups of the next batch are not behind the backward of this one
//
// such as "sparse-dist+clear_data_dist_inputs". Empty stands for DefaultPipeline. ParsePipeline makes one.
type Pipeline string

// The kinds of pipelines.
const (
	BasePipeline       Pipeline = "base"
	SparseDistPipeline Pipeline = "sparse-dist"
	PrefetchPipeline   Pipeline = "prefetch"
	SemiSyncPipeline   Pipeline = "semi-sync"
)

// The options of a SparseDistPipeline, as TorchRec names them.
const (
	enqueueAfterForward = "enqueue_batch_after_forward"
	freeFeaturesEarly   = "free_features_storage_early"
	clearInputs         = "clear_data_dist_inputs"
)

var pipelineOptions = []string{enqueueAfterForward, freeFeaturesEarly, clearInputs}

// PipelineOptions returns the options of a SparseDistPipeline. The slice is the caller's.
func PipelineOptions() []string { return slices.Clone(pipelineOptions) }

// Pipelines returns the names of all kinds of pipelines. The slice is the caller's.
func Pipelines() []string {
	return []string{string(BasePipeline), string(SparseDistPipeline), string(PrefetchPipeline), string(SemiSyncPipeline)}
}

// ParsePipeline reads a kind of pipeline and its options, in any order.
func ParsePipeline(s string) (Pipeline, error) {
	kind, rest, some := strings.Cut(s, "+")
	if _, err := parseEnum(Pipelines(), kind, "pipeline"); err != nil {
		return "", err
	}
	if !some {
		return Pipeline(kind), nil
	}
	if kind != string(SparseDistPipeline) {
		return "", fmt.Errorf("pipeline %q has no options: only %s has", kind, SparseDistPipeline)
	}
	stated := strings.Split(rest, "+")
	for _, o := range stated {
		if _, err := parseEnum(pipelineOptions, o, "option of pipeline "+kind); err != nil {
			return "", err
		}
	}
	var options []string
	for _, o := range pipelineOptions {
		if slices.Contains(stated, o) {
			options = append(options, o)
		}
	}
	return Pipeline(kind + "+" + strings.Join(options, "+")), nil
}

// Check returns an error for a pipeline that is neither empty nor what ParsePipeline returns.
func (p Pipeline) Check() error {
	if p == "" {
		return nil
	}
	read, err := ParsePipeline(string(p))
	if err == nil && read != p {
		err = fmt.Errorf("pipeline %q is written %s", p, read)
	}
	return err
}

// UnmarshalText reads what ParsePipeline reads.
func (p *Pipeline) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePipeline(string(text))
	return err
}

// Kind returns the pipeline without its options.
func (p Pipeline) Kind() Pipeline {
	kind, _, _ := strings.Cut(string(p), "+")
	return Pipeline(kind)
}

func (p Pipeline) has(option string) bool {
	return strings.Contains(string(p), "+"+option)
}

// DefaultPipeline is the pipeline of problems that state none: sparse-dist, which TorchRec's users run. HugeCTR has
// the base pipeline only.
func (p *Problem) DefaultPipeline() Pipeline {
	if p.Engine == HugeCTR {
		return BasePipeline
	}
	return SparseDistPipeline
}

// TrainPipeline returns the pipeline of the problem, or DefaultPipeline if it states none.
func (p *Problem) TrainPipeline() Pipeline {
	if p.Pipeline == "" {
		return p.DefaultPipeline()
	}
	return p.Pipeline
}
