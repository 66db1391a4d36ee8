package simulate

import (
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// replicated returns a sharding group of a cluster of 16 devices, 4 on a host.
func replicated(t *testing.T, replicas int, interHost bool) hardware.Topology {
	t.Helper()
	whole := hardware.Topology{Profile: a100(t), Devices: 16, DevicesPerHost: 4, HostMemory: unit.TiB, InterHostAllReduce: interHost}
	g, wrong := whole.Replicated(replicas)
	if wrong != "" {
		t.Fatal(wrong)
	}
	return g
}

// The all-reduce of the replicas takes the bytes of the fullest device, weights and optimizer
// states, at the bandwidth of the links that join the replicas. Replicated tables are not in it.
func TestSync(t *testing.T) {
	features := []problem.Feature{{Name: "f", PoolingFactor: 10}}
	p := problem.Problem{Batch: 1024, Tables: []problem.Table{
		{Name: "a", Rows: 1_000_000, Dim: 64, Features: features, Optimizer: problem.RowwiseAdagrad},
		{Name: "b", Rows: 1000, Dim: 64, Features: features, Optimizer: problem.SGD, Precision: problem.FP16},
		{Name: "c", Rows: 1000, Dim: 64, Features: features, Optimizer: problem.SGD},
	}}
	whole := func(i int) problem.Shard {
		return problem.Shard{Table: i, Rows: problem.Range{End: p.Tables[i].Rows}, Columns: problem.Range{End: 64}}
	}
	replica := whole(2)
	replica.ShardingType = problem.DataParallel
	hosted := whole(0)
	hosted.Tier = problem.Host
	const a, b = 1_000_000*64*4 + 1_000_000*4, 1000 * 64 * 2
	device := NewDevice(a100(t))
	intra := device.profile.IntraGBps * 1e6
	fixed := device.profile.AllToAllLatencyUS / 1e3
	network := func(replicas int) float64 {
		return (networkFixedUS + networkStepUS*math.Log2(float64(replicas))) / 1e3
	}
	nic := func(domains int) float64 { return hardware.NetworkShare(domains) * device.profile.NICGBps * 1e6 }
	for _, c := range []struct {
		what      string
		replicas  int
		interHost bool
		held      []problem.Shard
		bytes     unit.Bytes
		time      float64
	}{
		{"two formats and a state: three collectives", 2, false, []problem.Shard{whole(0), whole(1), replica}, a + b, 3*fixed + 2*0.5*(a+b)/intra},
		{"no state: one collective", 4, false, []problem.Shard{whole(1)}, b, fixed + 2*0.75*b/intra},
		{"neighbours on two hosts", 8, false, []problem.Shard{whole(1)}, b, fixed + network(8) + 2*0.75*b/intra + 2*0.5*b/4/nic(2)},
		{"one replica a host", 4, true, []problem.Shard{whole(1)}, b, network(4) + 2*0.75*b/nic(4)},
		{"a format of replicated tables only", 4, false, []problem.Shard{whole(1), replica}, b, fixed + 2*0.75*b/intra},
		{"replicated tables alone", 2, false, []problem.Shard{replica}, 0, 0},
		{"host memory", 2, false, []problem.Shard{hosted}, a, 2*fixed + a/device.hostLink},
		{"one group", 1, false, []problem.Shard{whole(0)}, 0, 0},
	} {
		q := p
		q.Topology = replicated(t, c.replicas, c.interHost)
		shards := make([][]problem.Shard, q.Topology.Devices)
		shards[len(shards)-1] = c.held
		if len(shards) > 1 {
			shards[0] = []problem.Shard{replica}
		}
		got, err := SyncOf(&q, shards)
		if err != nil || got.Bytes != c.bytes || math.Abs(float64(got.Time)-c.time) > 1e-9*c.time {
			t.Errorf("%s: got %d bytes in %v ms and %v, want %d in %v ms", c.what, int64(got.Bytes), float64(got.Time), err, int64(c.bytes), c.time)
		}
	}
	// The slowest device counts, wherever it is.
	q := p
	q.Topology = replicated(t, 8, false)
	got, err := SyncOf(&q, [][]problem.Shard{{whole(1), whole(1)}, {whole(1), whole(2)}})
	const most unit.Bytes = b + 1000*64*4
	if want := 2*(fixed+network(8)) + 2*0.75*float64(most)/intra + 2*0.5*float64(most)/4/nic(2); err != nil || got.Bytes != most || math.Abs(float64(got.Time)-want) > 1e-9*want {
		t.Errorf("the slowest device: got %d bytes in %v ms and %v, want %d in %v ms", int64(got.Bytes), float64(got.Time), err, int64(most), want)
	}
	many := []problem.Shard{whole(0), whole(1), whole(2)}
	for _, shards := range [][][]problem.Shard{{many, {whole(1)}}, {{whole(1)}, many}} {
		got, err := SyncOf(&q, shards)
		if alone, e := SyncOf(&q, [][]problem.Shard{many}); err != nil || e != nil || got != alone {
			t.Errorf("got %+v and %v, want %+v of the slowest device alone, in any order", got, err, alone)
		}
	}
	// An NVLink domain of two hosts: four neighbours are on two hosts, and take no network.
	wide := hardware.Topology{Profile: a100(t), Devices: 16, DevicesPerHost: 2, NVLinkDomain: 8}
	linked, wrong := wide.Replicated(4)
	if q.Topology = linked; wrong != "" {
		t.Fatal(wrong)
	}
	got, err = SyncOf(&q, [][]problem.Shard{{whole(1)}})
	if want := fixed + 2*0.75*b/intra; err != nil || math.Abs(float64(got.Time)-want) > 1e-9*want {
		t.Errorf("a domain of two hosts: got %v ms and %v, want %v ms", float64(got.Time), err, want)
	}
	q.Topology = replicated(t, 4, true)
	q.Topology.Profile.NICGBps = 0
	if _, err := SyncOf(&q, make([][]problem.Shard, 4)); err == nil {
		t.Error("got no error of a device without a network, want one")
	}
}

// The gradients of replicated tables have an all-reduce over all devices of all groups, in each
// step: the time is that of the same all-reduce in the whole cluster.
func TestReplicatedTablesOverAllGroups(t *testing.T) {
	device := NewDevice(a100(t))
	for _, interHost := range []bool{false, true} {
		for _, replicas := range []int{2, 4, 8} {
			g := replicated(t, replicas, interHost)
			one := must.Get(device.Network(Cluster{Devices: g.Devices, PerHost: g.PerHost(), Batch: 64, Replicas: g.Replicas, ReplicasPerDomain: g.ReplicasPerDomain}))(t)
			all := must.Get(device.Network(Cluster{Devices: 16, PerHost: 4, Batch: 64}))(t)
			inside, between := one.AllReduce(1e6)
			wantInside, wantBetween := all.AllReduce(1e6)
			if inside != wantInside || between != wantBetween {
				t.Errorf("%d groups, between hosts %v: got %+v and %+v, want %+v and %+v", replicas, interHost, inside, between, wantInside, wantBetween)
			}
		}
	}
}
