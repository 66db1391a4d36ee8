package plan

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// cluster.go tells in which fields two clusters differ.

// shown prints the value of a field of a cluster.
func (c *Cluster) shown(f *field) string {
	value := reflect.ValueOf(c).Elem().FieldByIndex(f.index)
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
	case problem.Pipeline:
		p := c.Problem()
		return string(p.TrainPipeline())
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
	for i := range clusterFields {
		f := &clusterFields[i]
		if has, want := c.shown(f), want.shown(f); has != want && f.key != "engine" {
			key := strings.TrimSuffix(statedAs(f.key), "_bytes")
			found = append(found, fmt.Sprintf("the plan was made for %s: %s, the problem has %s", strings.ReplaceAll(key, "_", " "), has, want))
		}
	}
	return found
}
