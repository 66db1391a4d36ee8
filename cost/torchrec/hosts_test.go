package torchrec_test

import (
	"testing"

	"github.com/neuroshard/neuroshard/cost/torchrec"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// partial is a table of 1000 x 64 with one lookup a sample, 512 samples a device.
func partial(devices, perHost int) *problem.Problem {
	return &problem.Problem{
		Tables:   []problem.Table{{Name: "t", Rows: 1000, Dim: 64, Features: []problem.Feature{{PoolingFactor: 1}}}},
		Topology: hardware.Topology{Profile: hardware.Profiles()[4], Devices: devices, DevicesPerHost: perHost},
		Batch:    512 * devices,
	}
}

// TestPartialHostsByHand has seven devices, four on each host. TorchRec counts one full
// host, so blocks of rows on a host do not cross the network. Row-wise blocks do, because
// seven devices are more than a host has. Replicas are on 7/4 hosts.
func TestPartialHostsByHand(t *testing.T) {
	const (
		gib    = float64(1<<30) / 1000 // a millisecond at 1 GiB/s
		output = 512 * 64 * 4          // bytes of a device's pooled vectors
	)
	for _, test := range []struct {
		devices, perHost int
		shardingType     problem.ShardingType
		forward, back    float64
	}{
		{7, 4, problem.TableRowWise, output * 7 / (600 * gib), output*7/(600*gib) + output*7*2.455/(897*gib)},
		{8, 4, problem.TableRowWise, output*8/(600*gib) + output*2/(12.5*gib), output*8/(600*gib) + output*2/(12.5*gib) + output*8*2.455/(897*gib)},
		{3, 4, problem.TableRowWise, output * 3 / (600 * gib), output*3/(600*gib) + output*3*2.455/(897*gib)},
		{7, 4, problem.RowWise, output * 7 / (12.5 * gib), output*7/(12.5*gib) + output*7*2.455/(897*gib)},
		// 256,000 bytes of gradients, (2n - 1)/n of them with n = 7/4.
		{7, 4, problem.DataParallel, 0, 256_000*2.5/1.75/(12.5*4*gib) + 9.22*256_000/(897*gib/2)},
	} {
		p := partial(test.devices, test.perHost)
		s := p.Whole(0)
		s.ShardingType = test.shardingType
		got := torchrec.NewEstimates(p, problem.NewestTorchRec()).Estimate(s)
		if !near(got.ForwardComm, test.forward) || !near(got.BackwardComm, test.back) {
			t.Errorf("%s on %d devices, %d a host: got %v and %v ms, want %v and %v", test.shardingType, test.devices, test.perHost,
				float64(got.ForwardComm), float64(got.BackwardComm), test.forward, test.back)
		}
	}
}
