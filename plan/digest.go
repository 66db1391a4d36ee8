package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// digestForm names the canonical form. A change of the form, such as a new
// field of a problem, changes the name, and with it every digest.
const digestForm = "neuroshard problem 1"

// Digest returns the SHA-256, in hex, of a canonical form of p: every field of
// its tables, features, access statistics, constraints, topology, batch and
// accounting, in order. Equal problems have equal digests on every machine, and
// a change of any field, or of the tables' order, changes the digest. A zero value
// and the default that it stands for have different digests, except for the lanes of a warp.
func Digest(p *problem.Problem) string {
	d := digester{}
	d.text(digestForm)
	d.int(int64(len(p.Tables)))
	for i := range p.Tables {
		d.table(&p.Tables[i])
	}
	d.topology(p)
	d.int(int64(p.Batch))
	d.accounting(p.Accounting)
	d.modules(p)
	d.further(p)
	sum := sha256.Sum256(d.form)
	return hex.EncodeToString(sum[:])
}

// usualLanes is the number of lanes of a warp that a profile has if it states none.
const usualLanes = 32

// digester collects the canonical form: numbers in 8 bytes, little endian, and
// texts and lists after their length, so that no two problems share a form.
type digester struct{ form []byte }

func (d *digester) int(v int64)     { d.form = binary.LittleEndian.AppendUint64(d.form, uint64(v)) }
func (d *digester) float(v float64) { d.int(int64(math.Float64bits(v))) }

func (d *digester) text(s string) {
	d.int(int64(len(s)))
	d.form = append(d.form, s...)
}

func (d *digester) bool(b bool) {
	if b {
		d.int(1)
	} else {
		d.int(0)
	}
}

func (d *digester) table(t *problem.Table) {
	d.text(t.Name)
	d.int(t.Rows)
	d.int(int64(t.Dim))
	d.int(int64(len(t.Features)))
	for _, f := range t.Features {
		d.text(f.Name)
		d.float(f.PoolingFactor)
	}
	d.bool(t.Weighted)
	d.int(int64(t.Access.Kind))
	for _, share := range t.Access.Reuse {
		d.float(share)
	}
	d.int(int64(t.Access.Batch))
	d.float(t.Access.UniqueRows)
	d.float(t.Access.Exponent)
	d.int(int64(t.Precision))
	d.int(int64(t.Optimizer))
	c := &t.Constraint
	d.int(int64(len(c.Devices)))
	for _, device := range c.Devices {
		d.int(int64(device))
	}
	d.text(c.Colocation)
	d.bool(c.NoSplit)
	d.int(int64(c.MinWidth))
}

// accounting adds the number of an accounting. All releases of TorchRec have one number; the name of
// the release follows, except that of the first that problems had.
func (d *digester) accounting(a problem.Accounting) {
	r, ok := a.TorchRec()
	if !ok {
		d.int(int64(a))
		return
	}
	d.int(2)
	if r.Name != problem.UnstatedTorchRec {
		d.text(r.Name)
	}
}

// modules adds the modules of all tables if one table states its module. They come at
// the end, so that a problem without modules keeps the digest that it had before
// problems could state modules.
func (d *digester) modules(p *problem.Problem) {
	stated := func(t problem.Table) bool { return t.Module != "" }
	if !slices.ContainsFunc(p.Tables, stated) {
		return
	}
	d.text("modules")
	for i := range p.Tables {
		d.text(p.Tables[i].Module)
	}
}

// links adds the links between devices that a topology states.
func (d *digester) links(t *hardware.Topology) {
	if b := t.NetworkBandwidth; b != 0 {
		d.text("network bandwidth")
		d.float(float64(b))
	}
	if n := t.NVLinkDomain; n != 0 {
		d.text("nvlink domain")
		d.int(int64(n))
	}
	if m := t.Multipliers; m != (hardware.Multipliers{}) {
		d.text("multipliers")
		d.float(m.Backward)
		d.float(m.WeightedBackward)
	}
	if b := t.Bandwidths; b != (hardware.Bandwidths{}) {
		d.text("bandwidths")
		for _, v := range []unit.Bandwidth{b.Links, b.HBM, b.HostLink} {
			d.float(float64(v))
		}
	}
}

// memories adds the memories of devices or hosts that differ.
func (d *digester) memories(name string, list []unit.Bytes) {
	if len(list) == 0 {
		return
	}
	d.text(name)
	d.int(int64(len(list)))
	for _, m := range list {
		d.int(int64(m))
	}
}

// fixed adds the fixed loads of a topology that states them.
func (d *digester) fixed(loads []hardware.FixedLoad) {
	if len(loads) == 0 {
		return
	}
	d.text("fixed")
	d.int(int64(len(loads)))
	for i := range loads {
		l := &loads[i]
		d.text(l.Name)
		d.int(int64(len(l.Devices)))
		for _, device := range l.Devices {
			d.int(int64(device))
		}
		d.int(int64(l.Bytes))
		d.float(float64(l.Time))
	}
}

// replicas adds the sharding groups of a topology that states them.
func (d *digester) replicas(t *hardware.Topology) {
	stated := []int{t.Replicas, t.ReplicasPerHost, t.ReplicasPerDomain, t.SyncEvery}
	if !t.InterHostAllReduce && !slices.ContainsFunc(stated, func(n int) bool { return n != 0 }) {
		return
	}
	d.text("replicas")
	for _, n := range stated {
		d.int(int64(n))
	}
	d.bool(t.InterHostAllReduce)
}

// hierarchy adds the hierarchical exchange of a problem that states one.
func (d *digester) hierarchy(h problem.Hierarchy) {
	if !h.On() {
		return
	}
	d.text("hierarchy")
	for _, v := range []float64{h.Sent, h.Inside, h.Between, float64(h.Latency)} {
		d.float(v)
	}
}

// further adds the fields that problems did not have at first. Each that is stated
// follows its name; a problem that does not state it keeps its digest.
func (d *digester) further(p *problem.Problem) {
	if p.Topology.HostMemory != 0 {
		d.text("host memory")
		d.int(int64(p.Topology.HostMemory))
	}
	d.memories("device memories", p.Topology.DeviceMemories)
	d.memories("host memories", p.Topology.HostMemories)
	d.fixed(p.Topology.Fixed)
	if p.CommPrecision != problem.FP32 {
		d.text("comm precision")
		d.int(int64(p.CommPrecision))
	}
	if p.Engine != "" {
		d.text("engine")
		d.text(string(p.Engine))
	}
	if p.LaneRule != problem.LanesByWidest {
		d.text("lane rule")
		d.int(int64(p.LaneRule))
	}
	if lanes := p.Topology.Profile.WarpLanes; lanes != 0 && lanes != usualLanes {
		d.text("warp lanes")
		d.int(int64(lanes))
	}
	d.links(&p.Topology)
	d.replicas(&p.Topology)
	d.hierarchy(p.Hierarchy)
	for i := range p.Tables {
		for j, f := range p.Tables[i].Features {
			d.ofFeature("length cv", i, j, f.LengthCV)
			d.ofFeature("bags", i, j, f.Bags)
		}
		if law := p.Tables[i].Access.Law; law != 0 {
			d.text("index law")
			d.int(int64(i))
			d.int(int64(law))
		}
		if pooling := p.Tables[i].Pooling; pooling != problem.SumPooling {
			d.text("pooling")
			d.int(int64(i))
			d.int(int64(pooling))
		}
		if p.Tables[i].Prefetch {
			d.text("prefetch")
			d.int(int64(i))
		}
		if list := p.Tables[i].Constraint.ShardingTypes; len(list) > 0 {
			d.text("sharding types")
			d.int(int64(i))
			d.int(int64(len(list)))
			for _, k := range list {
				d.text(string(k))
			}
		}
		if p.Tables[i].Constraint.OneHost {
			d.text("one host")
			d.int(int64(i))
		}
		d.kernels(i, &p.Tables[i])
	}
}

// kernels adds the deduplication, the number format of the vectors and the kernel settings of table i,
// and the memory tiers and the cache share that its constraint states.
func (d *digester) kernels(i int, t *problem.Table) {
	c := &t.Constraint
	if t.IndexDedup {
		d.text("index dedup")
		d.int(int64(i))
	}
	if t.OutputPrecision != 0 {
		d.text("output precision")
		d.int(int64(i))
		d.int(int64(t.OutputPrecision))
	}
	if t.KernelSettings != "" {
		d.text("kernel settings")
		d.int(int64(i))
		d.text(t.KernelSettings)
	}
	if len(c.Tiers) > 0 {
		d.text("tiers")
		d.int(int64(i))
		d.int(int64(len(c.Tiers)))
		for _, tier := range c.Tiers {
			d.text(string(tier))
		}
	}
	if c.CacheShare != 0 {
		d.text("cache share")
		d.int(int64(i))
		d.float(c.CacheShare)
	}
}

// ofFeature adds a number of a table's feature unless it is 0.
func (d *digester) ofFeature(name string, table, feature int, value float64) {
	if value != 0 {
		d.text(name)
		d.int(int64(table))
		d.int(int64(feature))
		d.float(value)
	}
}

func (d *digester) topology(p *problem.Problem) {
	t := &p.Topology
	f := &t.Profile
	d.text(f.Name)
	d.int(int64(f.Memory))
	d.float(f.HBMGBps)
	d.float(f.HBMEfficiency)
	d.int(int64(f.L2))
	d.float(f.L2GBps)
	d.int(int64(f.SMs))
	d.float(f.ClockGHz)
	d.int(int64(f.Granule))
	d.float(f.AllToAllLatencyUS)
	d.float(f.IntraGBps)
	d.float(f.NICGBps)
	d.int(int64(t.Devices))
	d.int(int64(t.DevicesPerHost))
	d.int(int64(t.Memory))
	d.float(t.KeptShare())
	d.int(int64(t.ReserveFixed))
}
