package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/neuroshard/neuroshard/problem/input"
)

// requests.go has the bodies of requests. The tags are the schemas of the API.

// ProblemBody is what is to be planned.
type ProblemBody struct {
	Name      string        `json:"name,omitempty" maxLength:"200" doc:"Name of the model, under which its plans are kept; it does not change the plan" example:"ranking-prod"`
	Tables    Value         `json:"tables,omitempty" doc:"Tables in one of the JSON formats that neuroshard plan reads: an object of format neuroshard-tables, a scenario in TorchRec's words, or the list of the published prototype"`
	TablesCSV string        `json:"tables_csv,omitempty" doc:"Tables as CSV text, in place of tables"`
	Workload  string        `json:"workload,omitempty" maxLength:"200" doc:"Name of a workload, in place of tables" example:"mlperf-dlrm-dcnv2"`
	Topology  Value         `json:"topology,omitempty" doc:"The cluster, with the keys of a topology file"`
	Overrides OverridesBody `json:"overrides,omitempty" doc:"Single fields of the cluster, as the flags of neuroshard plan state them"`
}

// OverridesBody are single fields of a cluster, by the keys of input.Overrides; "for" is the engine.
type OverridesBody map[string]Value

// Schema returns the schema of the fields that package input knows.
func (OverridesBody) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Properties: map[string]*huma.Schema{}}
	for _, f := range overrideKeys() {
		property := &huma.Schema{Type: f.Type}
		switch most := 100_000; {
		case f.Unit != "":
			property = Quantity{}.Schema(nil)
		case f.Type == huma.TypeString:
			property.MaxLength = &most
		}
		property.Description = f.About
		s.Properties[overrideKey(f.Name)] = property
	}
	s.PrecomputeMessages()
	return s
}

// overrideKeys are the keys of the cluster and of tables: a request states the step in its topology.
func overrideKeys() []input.ClusterKey {
	return slices.DeleteFunc(input.ClusterKeys(), func(k input.ClusterKey) bool { return k.Step })
}

// overrideKey returns the key of a request that states a field.
func overrideKey(key string) string {
	if key == "engine" {
		return "for"
	}
	return key
}

// overrides returns the fields as package input takes them, with a fault for each quantity that is not one.
func (o OverridesBody) overrides() (input.Overrides, []fault) {
	if o == nil {
		return nil, nil
	}
	var faults []fault
	var known []string
	all := input.Overrides{}
	for _, f := range overrideKeys() {
		known = append(known, overrideKey(f.Name))
		value, stated := o[overrideKey(f.Name)]
		if !stated || string(value) == "null" {
			continue
		}
		text, err := written(value, f.Unit)
		if err != nil {
			faults = append(faults, fault{Location: "problem.overrides." + f.Name, Message: err.Error()})
			continue
		}
		all[f.Name] = text
	}
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(known, key) {
			faults = append(faults, fault{Location: "problem.overrides." + clip(key), Message: fmt.Sprintf("field %q is unknown", clip(key)), Hint: meant(key, known)})
		}
	}
	return all, faults
}

// OptionsBody are the options of a search.
type OptionsBody struct {
	Method         string   `json:"method,omitempty" maxLength:"200" doc:"Search method; neuroshard by default" example:"neuroshard"`
	Seed           uint64   `json:"seed,omitempty" doc:"Seed of the random numbers in the search"`
	MaxEvaluations int64    `json:"max_evaluations,omitempty" minimum:"0" doc:"Cost estimates after which the search ends; 0 takes a number that grows with the problem"`
	TimeLimit      int64    `json:"time_limit_ms,omitempty" minimum:"1" doc:"Time limit of the search. The best plan found until then is the answer, and is not kept. The server's own limit by default"`
	ShardingTypes  []string `json:"sharding_types,omitempty" minItems:"1" maxItems:"100" doc:"Sharding types that tables may have, or all"`
	Certificate    *bool    `json:"certificate,omitempty" doc:"Compute a lower bound on the cost of every plan; true by default"`
	Baselines      *bool    `json:"baselines,omitempty" doc:"Compare with plans of the baseline methods; true by default"`
	RiskPenalty    float64  `json:"risk_penalty,omitempty" minimum:"0" maximum:"100" doc:"Standard deviations of the model's ensemble that the search adds to an estimate"`
}

// KeptProblem is the problem of a kept plan, with the options of its search: with both, the same
// is planned for another cluster.
type KeptProblem struct {
	ProblemBody
	Options *OptionsBody `json:"options,omitempty"`
}

// PlanBody is the body of POST /v1/plan.
type PlanBody struct {
	Problem ProblemBody  `json:"problem"`
	Options *OptionsBody `json:"options,omitempty"`
	Cache   string       `json:"cache,omitempty" enum:"use,refresh" doc:"use: return the kept plan of the same input, if there is one; refresh: plan again" default:"use"`
}

// Value is a JSON value that a reader of its own reads.
type Value json.RawMessage

// Schema returns the schema of any value.
func (Value) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }

// UnmarshalJSON keeps a copy of the text.
func (v *Value) UnmarshalJSON(text []byte) error {
	*v = bytes.Clone(text)
	return nil
}

// MarshalJSON returns the text.
func (v Value) MarshalJSON() ([]byte, error) { return json.RawMessage(v).MarshalJSON() }

// object reports whether the value is an object or a list, and not a text such as an id.
func (v Value) object() bool { return len(v) > 0 && (v[0] == '{' || v[0] == '[') }

// Quantity is a size or a bandwidth: a number, of bytes or of bytes a second, or a text with a unit.
type Quantity json.RawMessage

// Schema returns the schema of a quantity.
func (Quantity) Schema(huma.Registry) *huma.Schema {
	least, most := 0.0, 200
	return &huma.Schema{OneOf: []*huma.Schema{{Type: huma.TypeString, MaxLength: &most}, {Type: huma.TypeNumber, Minimum: &least}}}
}

// UnmarshalJSON keeps a copy of the text.
func (q *Quantity) UnmarshalJSON(text []byte) error {
	*q = bytes.Clone(text)
	return nil
}

// MarshalJSON returns the text.
func (q Quantity) MarshalJSON() ([]byte, error) { return json.RawMessage(q).MarshalJSON() }

// written returns a JSON value as a flag states it: a number gets the unit, if there is one.
func written(value []byte, unit string) (string, error) {
	text := string(value)
	if text[0] == '"' {
		err := json.Unmarshal(value, &text)
		return text, err
	}
	if unit == "" {
		return text, nil
	}
	if number, err := strconv.ParseFloat(text, 64); err != nil || number < 0 || unit == "B" && number != math.Trunc(number) {
		return "", fmt.Errorf("%s is not a whole number in range", clip(text))
	}
	return text + unit, nil
}
