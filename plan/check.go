package plan

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/neuroshard/neuroshard/internal/jsonfile"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// check.go checks that a file can hold a plan: Write refuses what Read refuses.

// field is a field of a struct that files state.
type field struct {
	key    string
	index  []int
	limits problem.Limits
}

// fieldsOf returns the fields of T. Whole numbers without limits of their own end at most.
func fieldsOf[T any](most float64, limits map[string]problem.Limits) (all []field) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || key == "-" {
			continue
		}
		own, limited := limits[statedAs(key)]
		switch {
		case limited:
		case f.Type == reflect.TypeFor[unit.Bytes]():
			own.Most = maxBytes
		case f.Type.Kind() == reflect.Int || f.Type.Kind() == reflect.Int64:
			own.Most = most
		}
		all = append(all, field{key, f.Index, own})
	}
	return all
}

// statedAs returns the key that a problem's field has, by that of the cluster's field of a plan.
func statedAs(key string) string {
	return strings.Replace(key, "_bytes_per_second", "_bandwidth", 1)
}

var (
	clusterFields    = fieldsOf[Cluster](hardware.MaxDevices, clusterLimits())
	deviceFields     = fieldsOf[Device](maxCount, map[string]problem.Limits{"phase": {Most: problem.Phases - 1}})
	memoryFields     = fieldsOf[problem.Memory](0, nil)
	syncFields       = fieldsOf[Sync](0, nil)
	provenanceFields = fieldsOf[Provenance](0, nil)
	tableFields      = fieldsOf[Table](0, map[string]problem.Limits{
		"rows": {Most: problem.MaxRows}, "dim": {Most: problem.MaxDim}, "operator": {Most: problem.Operators - 1},
		"vectors": {Most: problem.MaxFeatures * problem.MaxBags}, "precision": names(problem.Precisions()), "optimizer": names(problem.Optimizers()),
	})
)

// clusterLimits returns the limits of the fields of a cluster.
func clusterLimits() map[string]problem.Limits {
	limits := map[string]problem.Limits{"comm_precision": names(problem.Precisions()), "lanes": {Most: float64(problem.LanesByTable)}}
	for _, f := range problem.ClusterFields() {
		if f.Limits != (problem.Limits{}) {
			limits[f.Key] = f.Limits
		}
	}
	return limits
}

// names returns the limits of the number of a name.
func names(all []string) problem.Limits { return problem.Limits{Most: float64(len(all) - 1)} }

// checkFields returns the first field of a struct that a file cannot hold: a number that is negative, not
// finite or outside of its limits, unless it is 0, or a text that is not UTF-8.
func checkFields(fields []field, of any) error {
	v := reflect.ValueOf(of).Elem()
	for i := range fields {
		f := &fields[i]
		n := 0.0
		switch value := v.FieldByIndex(f.index); value.Kind() {
		case reflect.String:
			if !utf8.ValidString(value.String()) {
				return fmt.Errorf("%s: %s is not UTF-8", f.key, jsonfile.Brief(value.String()))
			}
		case reflect.Float64:
			n = value.Float()
		case reflect.Int, reflect.Int64:
			n = float64(value.Int())
		case reflect.Uint8:
			n = float64(value.Uint())
		}
		wrong := f.limits.Wrong(n)
		if wrong == "" && !(n >= 0 && n <= math.MaxFloat64) {
			wrong = fmt.Sprintf("%v is not a finite number of at least 0", n)
		}
		if n != 0 && wrong != "" {
			return fmt.Errorf("%s: %s", f.key, wrong)
		}
	}
	return nil
}

// check returns the first thing about pl that a file cannot hold.
func (pl *Plan) check() error {
	if !valid(pl.Predicted) {
		return fmt.Errorf("predicted cost_ms: %v is not a finite number of at least 0", float64(pl.Predicted))
	}
	if err := pl.Cluster.Check(); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	if err := checkFields(syncFields, &pl.Sync); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if len(pl.Devices) > hardware.MaxDevices {
		return fmt.Errorf("devices: %d are more than %d", len(pl.Devices), hardware.MaxDevices)
	}
	for i := range pl.Devices {
		d := &pl.Devices[i]
		err := first(checkFields(deviceFields, d), checkFields(memoryFields, &d.Memory))
		if err == nil && !valid(d.Total()) {
			err = errors.New("the sum of its times is not finite")
		}
		if err != nil {
			return fmt.Errorf("devices[%d]: %w", i, err)
		}
	}
	if len(pl.Tables) > problem.MaxTables {
		return fmt.Errorf("tables: %d are more than %d", len(pl.Tables), problem.MaxTables)
	}
	for i := range pl.Tables {
		if err := checkTable(&pl.Tables[i]); err != nil {
			return fmt.Errorf("tables[%d] %s: %w", i, jsonfile.Brief(pl.Tables[i].Name), err)
		}
	}
	if err := checkProvenance(&pl.Provenance); err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	return nil
}

// Check returns the first thing about c that a file cannot hold.
func (c *Cluster) Check() error {
	err := checkFields(clusterFields, c)
	if err == nil && c.Engine != c.Engine.Rules().Engine {
		err = fmt.Errorf("engine %q is unknown", c.Engine)
	}
	if err == nil {
		if err = hardware.CheckFixed(c.Fixed, c.Devices); err != nil {
			err = fmt.Errorf("fixed: %w", err)
		}
	}
	return first(err, c.Pipeline.Check(), checkMemories(c), checkAccounting(c))
}

// checkAccounting reports two ways to count the same bytes, and a release of TorchRec that is not
// known, or that nothing is counted by.
func checkAccounting(c *Cluster) error {
	if c.WeightsOnly && c.TorchRecBytes {
		return errors.New("weights_only and torchrec_bytes are both true: the bytes of a plan are counted in one way")
	}
	if c.TorchRecRelease == "" {
		return nil
	}
	if !c.TorchRecBytes {
		return errors.New("torchrec_release: it is stated without torchrec_bytes")
	}
	if c.TorchRecRelease == problem.UnstatedTorchRec {
		return fmt.Errorf("torchrec_release: %s is not written: leave the key out", c.TorchRecRelease)
	}
	if _, ok := problem.ReleaseOfTorchRec(c.TorchRecRelease); !ok {
		return fmt.Errorf("torchrec_release: the estimators of TorchRec %q are not known: the plan was made by another version of neuroshard", c.TorchRecRelease)
	}
	return nil
}

// checkMemories reports lists of memories that do not belong to the cluster.
func checkMemories(c *Cluster) error {
	t := c.Topology()
	if n := len(c.DeviceMemories); n > 0 && (n != c.Devices || t.DeviceMemory(t.Largest()) != c.DeviceMemory || t.ReserveFixed < 0) {
		return fmt.Errorf("device_memories_bytes: %d memories do not belong to %d devices of at most %d bytes with %d reserved", n, c.Devices, int64(c.DeviceMemory), int64(c.Reserve))
	}
	if n := len(c.HostMemories); n > 0 && (c.Devices == 0 || n != t.Hosts() || t.MostHostMemory() != c.HostMemory) {
		return fmt.Errorf("host_memories_bytes: %d memories do not belong to the hosts of %d devices with at most %d bytes", n, c.Devices, int64(c.HostMemory))
	}
	if share := c.ReserveShare; share < 0 || share >= 1 || share != 0 && len(c.DeviceMemories) == 0 {
		return fmt.Errorf("reserve_share: %v is not a share of devices that differ", share)
	}
	return nil
}

func checkTable(t *Table) error {
	if err := checkFields(tableFields, t); err != nil {
		return err
	}
	if !t.ShardingType.Known() {
		return fmt.Errorf("sharding type %s is unknown: known are %s", jsonfile.Brief(string(t.ShardingType)), join(shardingTypes))
	}
	if t.Pooling != 0 && t.Pooling != problem.PoolingNone {
		return fmt.Errorf("pooling: %v is not written: write %v, or leave the key out", t.Pooling, problem.PoolingNone)
	}
	if len(t.Shards) > MaxShards {
		return fmt.Errorf("shards: %d are more than %d", len(t.Shards), MaxShards)
	}
	for k := range t.Shards {
		if err := checkShard(&t.Shards[k]); err != nil {
			return fmt.Errorf("shards[%d]: %w", k, err)
		}
	}
	return nil
}

// checkShard checks a shard. A cache share of 0 means that no rows are cached, or that the plan does not
// state the share.
func checkShard(s *Shard) error {
	for _, r := range []struct {
		key  string
		of   problem.Range
		most int64
	}{{"columns", s.Columns, problem.MaxDim}, {"rows", s.Rows, problem.MaxRows}} {
		if r.of.Start < 0 || r.of.End <= r.of.Start || r.of.End > r.most {
			return fmt.Errorf("%s: [%d,%d] is not a range of at least one in 0 to %d", r.key, r.of.Start, r.of.End, r.most)
		}
	}
	switch {
	case s.Device < replicated || s.Device > hardware.MaxDevices:
		return fmt.Errorf("device: %d is not between 0 and %d", s.Device, hardware.MaxDevices)
	case !slices.Contains(tiers, s.Tier):
		return fmt.Errorf("tier %s is unknown: known are %s", jsonfile.Brief(string(s.Tier)), join(tiers))
	case s.Cache == 0:
	case !(s.Cache > 0 && s.Cache < 1):
		return fmt.Errorf("cache_share: %v is not above 0 and below 1", s.Cache)
	case s.Tier != HostCached:
		return fmt.Errorf("cache_share: only what lies in %s has one, and this lies in %s", HostCached, jsonfile.Brief(string(s.Tier)))
	}
	return nil
}

// statuses are how a search ends: the statuses of package search. A plan that no search made may
// leave its status empty.
var statuses = []string{"", "complete", "budget", "time", "interrupted"}

func checkProvenance(v *Provenance) error {
	if len(v.Warnings) > MaxWarnings {
		return fmt.Errorf("warnings: %d are more than %d", len(v.Warnings), MaxWarnings)
	}
	for _, text := range append([]string{v.ModelSource}, v.Warnings...) {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%s is not UTF-8", jsonfile.Brief(text))
		}
	}
	if !slices.Contains(statuses, v.Status) {
		return fmt.Errorf("status %s is unknown: known are %s", jsonfile.Brief(v.Status), join(statuses[1:]))
	}
	return first(v.Hidden.Check(), v.Hierarchy.Check(), checkFields(provenanceFields, v))
}

// first returns the first error that is not nil.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
