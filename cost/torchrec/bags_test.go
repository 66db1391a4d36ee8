package torchrec

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// same fails if the estimates of the first table of p in some sharding type are not those wanted:
// forward, both exchanges, backward, in ms.
func same(t *testing.T, p *problem.Problem, all map[problem.ShardingType][4]float64) {
	t.Helper()
	e := newEstimator(p, problem.NewestTorchRec())
	for shardingType, want := range all {
		x := e.shard(0, p.Tables[0].Dim, shardingType, "", 0)
		got := [4]float64{float64(x.Forward), float64(x.ForwardComm), float64(x.BackwardComm), float64(x.Backward)}
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-12*want[i] {
				t.Errorf("%s: got %v, want %v", shardingType, got, want)
				break
			}
		}
	}
}

// TestSequences: the estimates of a table of 1,000 x 64 whose lookups stay apart are those that
// EmbeddingEnumerator of TorchRec 1.6.1 gives an EmbeddingCollection with pooling_factors 20 and
// 3.5, 512 samples a rank, four ranks and two on a host.
func TestSequences(t *testing.T) {
	p := problem.Problem{
		Batch: 4 * 512, Topology: hardware.Topology{Devices: 4, DevicesPerHost: 2},
		Tables: []problem.Table{{Rows: 1000, Dim: 64, Pooling: problem.PoolingNone, Features: []problem.Feature{{PoolingFactor: 20}, {PoolingFactor: 3.5}}}},
	}
	same(t, &p, map[problem.ShardingType][4]float64{
		problem.DataParallel: {0.012992084890172102, 0, 0.019206384086821522, 0.025984169780344204},
		problem.TableWise:    {0.02988179524739583, 0.91796875, 0.91796875, 0.05976359049479166},
		problem.RowWise:      {0.006496042445086051, 0.2294921875, 0.23734340433824555, 0.012992084890172102},
	})
}

// TestBags: the same with an EmbeddingBagCollection, pooling_factors 20 and 3.5 and num_poolings 2
// and 0.5.
func TestBags(t *testing.T) {
	p := problem.Problem{
		Batch: 4 * 512, Topology: hardware.Topology{Devices: 4, DevicesPerHost: 2},
		Tables: []problem.Table{{Rows: 1000, Dim: 64, Features: []problem.Feature{{PoolingFactor: 40, Bags: 2}, {PoolingFactor: 1.75, Bags: 0.5}}}},
	}
	same(t, &p, map[problem.ShardingType][4]float64{
		problem.DataParallel: {0.012398829295350822, 0, 0.019206384086821522, 0.024797658590701644},
		problem.TableWise:    {0.02851730737930689, 0.09765625, 0.09765625, 0.05703461475861378},
		problem.RowWise:      {0.007220069434464709, 0.09765625, 0.10099719333542363, 0.014440138868929418},
		problem.TableRowWise: {0.01307926581987702, 0.050862630208333336, 0.05420357354375697, 0.02615853163975404},
	})
}
