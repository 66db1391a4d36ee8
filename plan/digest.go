package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
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

// further adds the fields that problems did not have at first. Each that is stated
// follows its name; a problem that does not state it keeps its digest.
func (d *digester) further(p *problem.Problem) {
	t := &p.Topology
	d.value("host memory", &t.HostMemory)
	d.value("device memories", &t.DeviceMemories)
	d.value("host memories", &t.HostMemories)
	d.value("fixed", &t.Fixed)
	d.value("comm precision", &p.CommPrecision)
	d.value("engine", &p.Engine)
	d.value("lane rule", &p.LaneRule)
	if lanes := p.Topology.Profile.WarpLanes; lanes != 0 && lanes != usualLanes {
		d.text("warp lanes")
		d.int(int64(lanes))
	}
	d.value("host link", &t.Profile.HostGBps)
	d.value("full host", &t.Profile.PerHost)
	d.value("profile's nvlink domain", &t.Profile.NVLinkDomain)
	d.value("network bandwidth", &t.NetworkBandwidth)
	d.value("nvlink domain", &t.NVLinkDomain)
	d.value("multipliers", &t.Multipliers)
	d.value("bandwidths", &t.Bandwidths)
	d.replicas(t)
	d.value("hierarchy", &p.Hierarchy)
	for _, f := range problem.ClusterFields()[clusterInForm:] {
		d.value(f.Key, f.At(p))
	}
	features, tables := problem.FeatureFields()[inForm:], furtherFields()
	for i := range p.Tables {
		t := &p.Tables[i]
		for j := range t.Features {
			for k := range features {
				d.value(features[k].Key, features[k].At(&t.Features[j]), i, j)
			}
		}
		for _, f := range tables {
			if f.Key != "index_dedup" || !t.ChooseDedup { // else the plan decides it
				d.value(f.Key, f.At(t), i)
			}
		}
	}
}

// inForm is the number of fields of a feature that have places in the first form, and clusterInForm that
// of the fields of a cluster that have places of their own.
const (
	inForm        = 2
	clusterInForm = 24
)

// placed are the fields of tables that have places of their own in the form, and named those that then
// followed their names, in order. Fields that are in neither list follow in the order of their list.
var (
	placed = []string{"name", "module", "rows", "dim", "weighted", "precision", "optimizer", "reuse", "batch", "unique_rows", "zipf", "devices", "group", "no_split", "min_width"}
	named  = []string{"index_law", "pooling", "prefetch", "sharding_types", "one_host", "index_dedup", "output_precision", "kernel_settings", "tiers", "cache_share"}
)

// furtherFields returns the fields of tables that follow their names in the form, in order.
func furtherFields() []problem.Field[problem.Table] {
	all := slices.DeleteFunc(slices.Clone(problem.TableFields()), func(f problem.Field[problem.Table]) bool { return slices.Contains(placed, f.Key) })
	place := func(f problem.Field[problem.Table]) int {
		if i := slices.Index(named, f.Key); i >= 0 {
			return i
		}
		return len(named)
	}
	slices.SortStableFunc(all, func(a, b problem.Field[problem.Table]) int { return cmp.Compare(place(a), place(b)) })
	return all
}

// value adds the value that at points to, unless it is zero or an empty list, after its name and the
// numbers of what has it. A true value adds no more.
func (d *digester) value(key string, at any, of ...int) {
	v := reflect.ValueOf(at).Elem()
	if v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
		return
	}
	d.text(strings.ReplaceAll(key, "_", " "))
	for _, i := range of {
		d.int(int64(i))
	}
	if v.Kind() != reflect.Bool {
		d.reflected(v)
	}
}

func (d *digester) reflected(v reflect.Value) {
	switch v.Kind() {
	case reflect.Uint8:
		d.int(int64(v.Uint()))
	case reflect.Int, reflect.Int64:
		d.int(v.Int())
	case reflect.Float64:
		d.float(v.Float())
	case reflect.String:
		d.text(v.String())
	case reflect.Slice:
		d.int(int64(v.Len()))
		for i := range v.Len() {
			d.reflected(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			d.reflected(v.Field(i))
		}
	default:
		panic("plan: no form of a digest has a " + v.Type().String())
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
