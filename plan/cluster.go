package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// cluster.go checks the fields of a cluster, and tells in which of them two clusters differ.

// clusterFields are the fields of a Cluster that files state.
var clusterFields = slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[Cluster]()), func(f reflect.StructField) bool { return f.Anonymous })

// keyOf returns the key of a field of a Cluster in files.
func keyOf(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return key
}

// shown prints the value of a field of a cluster.
func (c *Cluster) shown(f reflect.StructField) string {
	value := reflect.ValueOf(c).Elem().FieldByIndex(f.Index)
	switch v := value.Interface().(type) {
	case unit.Bytes:
		return exactly(v)
	case []unit.Bytes:
		sizes := make([]string, len(v))
		for i, m := range v {
			sizes[i] = exactly(m)
		}
		if len(v) > 0 {
			return words.List(sizes, len(sizes))
		}
	case []hardware.FixedLoad:
		if text, _ := json.Marshal(v); len(v) > 0 { // numbers, texts and lists always encode
			return string(text)
		}
	case bool, problem.Precision, problem.LaneRule:
		return fmt.Sprint(v)
	default:
		if !value.IsZero() {
			return fmt.Sprint(v)
		}
	}
	return "none"
}

// differences says in which fields the cluster of a plan differs from that of a problem. Rules check
// the engine.
func (c *Cluster) differences(want *Cluster) (found []string) {
	for _, f := range clusterFields {
		key := keyOf(f)
		if has, want := c.shown(f), want.shown(f); has != want && key != "engine" {
			key = strings.TrimSuffix(strings.Replace(key, "_bytes_per_second", "_bandwidth", 1), "_bytes")
			found = append(found, fmt.Sprintf("the plan was made for %s: %s, the problem has %s", strings.ReplaceAll(key, "_", " "), has, want))
		}
	}
	return found
}

// Check returns the first thing about c that a file cannot hold.
func (c *Cluster) Check() error {
	limits := map[string]problem.Limits{}
	for _, f := range problem.ClusterFields() {
		limits[f.Key] = f.Limits
	}
	for _, f := range clusterFields {
		value, key := reflect.ValueOf(c).Elem().FieldByIndex(f.Index), keyOf(f)
		var err error
		switch v := value.Interface().(type) {
		case string:
			err = checkText(key, v)
		case int:
			most := int64(hardware.MaxDevices)
			if l := limits[key]; l.Most > 0 {
				most = int64(l.Most)
			}
			err = checkInt(key, int64(v), most)
		case unit.Bytes:
			err = checkInt(key, int64(v), maxBytes)
		case problem.Precision:
			err = checkInt(key, int64(v), int64(problem.BF16))
		case problem.LaneRule:
			err = checkInt(key, int64(v), int64(problem.LanesByTable))
		case unit.Bandwidth:
			err = checkAt(key, checkNetwork(v))
		case float64:
			err = checkNumber(key, v, limits[key])
		}
		if err != nil {
			return err
		}
	}
	return first(checkMemories(c), checkAt("fixed", hardware.CheckFixed(c.Fixed, c.Devices)), checkAccounting(c), checkKnown(c.Engine))
}

// checkNumber checks a number that is 0 if the plan states none.
func checkNumber(key string, v float64, of problem.Limits) error {
	wrong := of.Wrong(v)
	if v == 0 || v > 0 && !math.IsInf(v, 0) && wrong == "" {
		return nil
	}
	return fmt.Errorf("%s: %s", key, cmp.Or(wrong, fmt.Sprintf("%v is not a number of at least 0", v)))
}
