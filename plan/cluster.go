package plan

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// cluster.go lists the fields of a cluster: what files may state of them, and what tells that a plan was
// made for another cluster.

// clusterField is a field of a Cluster.
type clusterField struct {
	key string
	// what is said of the field where a plan and a problem differ in it, and zero what 0 stands for.
	what, zero string
	// most is the largest whole number.
	most  int64
	value func(c *Cluster) any
}

const (
	usual      = "TorchRec's default"
	maxDevices = hardware.MaxDevices
)

var clusterFields = []clusterField{
	{"profile", "device profile", "", 0, func(c *Cluster) any { return c.Profile }},
	{"devices", "devices:", "", maxDevices, func(c *Cluster) any { return c.Devices }},
	{"devices_per_host", "devices per host:", "", maxDevices, func(c *Cluster) any { return c.DevicesPerHost }},
	{"batch", "batch", "", problem.MaxBatch, func(c *Cluster) any { return c.Batch }},
	{"device_memory_bytes", "memory per device:", "none", maxBytes, func(c *Cluster) any { return c.DeviceMemory }},
	{"reserve_bytes", "reserve per device:", "none", maxBytes, func(c *Cluster) any { return c.Reserve }},
	{"weights_only", "weights-only accounting:", "", 0, func(c *Cluster) any { return c.WeightsOnly }},
	{"torchrec_bytes", "TorchRec's count of bytes:", "no", 0, func(c *Cluster) any { r, _ := c.Accounting().TorchRec(); return r.Name }},
	{"host_memory_bytes", "memory per host:", "none", maxBytes, func(c *Cluster) any { return c.HostMemory }},
	{"device_memories_bytes", "memories of devices:", "equal ones", 0, func(c *Cluster) any { return c.DeviceMemories }},
	{"reserve_share", "a reserve share of devices that differ:", "", 0, func(c *Cluster) any { return c.ReserveShare }},
	{"host_memories_bytes", "memories of hosts:", "equal ones", 0, func(c *Cluster) any { return c.HostMemories }},
	{"fixed", "fixed loads:", "none", 0, func(c *Cluster) any { return c.Fixed }},
	{"comm_precision", "exchanges in", "", int64(problem.BF16), func(c *Cluster) any { return c.CommPrecision }},
	{"lanes", "lane rule", "", int64(problem.LanesByTable), func(c *Cluster) any { return c.LaneRule }},
	{"network_bytes_per_second", "a network bandwidth per device:", "the profile's", 0, func(c *Cluster) any { return c.NetworkBandwidth }},
	{"link_bytes_per_second", "a bandwidth inside hosts:", usual, 0, func(c *Cluster) any { return c.LinkBandwidth }},
	{"hbm_bytes_per_second", "a bandwidth of device memory:", usual, 0, func(c *Cluster) any { return c.HBMBandwidth }},
	{"host_link_bytes_per_second", "a bandwidth to host memory:", usual, 0, func(c *Cluster) any { return c.HostLinkBandwidth }},
	{"backward_multiplier", "a multiplier of the backward:", usual, 0, func(c *Cluster) any { return c.BackwardMultiplier }},
	{"weighted_backward_multiplier", "a multiplier of the backward of weighted lookups:", usual, 0, func(c *Cluster) any { return c.WeightedBackwardMultiplier }},
	{"nvlink_domain", "devices of an NVLink domain:", "those of one host", maxDevices, func(c *Cluster) any { return c.NVLinkDomain }},
	{"replicas", "sharding groups:", "1", maxDevices, func(c *Cluster) any { return c.Replicas }},
	{"replicas_per_host", "replicas on a host:", "1", maxDevices, func(c *Cluster) any { return c.ReplicasPerHost }},
	{"replicas_per_domain", "replicas in an NVLink domain:", "1", maxDevices, func(c *Cluster) any { return c.ReplicasPerDomain }},
	{"inter_host_allreduce", "an all-reduce between hosts:", "", 0, func(c *Cluster) any { return c.InterHostAllReduce }},
	{"sync_every", "steps between all-reduces:", "1", hardware.MaxSyncEvery, func(c *Cluster) any { return c.SyncEvery }},
}

// shown prints the value of the field.
func (f *clusterField) shown(c *Cluster) string {
	value := f.value(c)
	if of := reflect.ValueOf(value); f.zero != "" && (of.IsZero() || of.Kind() == reflect.Slice && of.Len() == 0) {
		return f.zero
	}
	switch v := value.(type) {
	case unit.Bytes:
		return exactly(v)
	case []unit.Bytes:
		sizes := make([]string, len(v))
		for i, m := range v {
			sizes[i] = exactly(m)
		}
		return words.List(sizes, len(sizes))
	case []hardware.FixedLoad:
		text, _ := json.Marshal(v) // numbers, texts and lists always encode
		return string(text)
	}
	return fmt.Sprint(value)
}

// check returns what a file cannot hold of the field.
func (f *clusterField) check(c *Cluster) error {
	switch v := f.value(c).(type) {
	case string:
		return checkText(f.key, v)
	case int:
		return checkInt(f.key, int64(v), f.most)
	case unit.Bytes:
		return checkInt(f.key, int64(v), f.most)
	case problem.Precision:
		return checkInt(f.key, int64(v), f.most)
	case problem.LaneRule:
		return checkInt(f.key, int64(v), f.most)
	case unit.Bandwidth:
		return checkAt(f.key, checkNetwork(v))
	case float64:
		if !(v >= 0 && v <= hardware.MaxMultiplier) {
			return fmt.Errorf("%s: %v is not above 0 and at most %d", f.key, v, hardware.MaxMultiplier)
		}
	}
	return nil
}

// Check returns the first thing about c that a file cannot hold.
func (c *Cluster) Check() error {
	for i := range clusterFields {
		if err := clusterFields[i].check(c); err != nil {
			return err
		}
	}
	return first(checkMemories(c), checkAt("fixed", hardware.CheckFixed(c.Fixed, c.Devices)), checkAccounting(c), checkKnown(c.Engine))
}
