package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/neuroshard/neuroshard/problem/input"
)

// requests.go has the bodies of requests. The tags are the schemas of the API.

// ProblemBody is what is to be planned.
type ProblemBody struct {
	Name      string         `json:"name,omitempty" maxLength:"200" doc:"Name of the model, under which its plans are kept; it does not change the plan" example:"ranking-prod"`
	Tables    Value          `json:"tables,omitempty" doc:"Tables in one of the JSON formats that neuroshard plan reads: an object of format neuroshard-tables, a scenario in TorchRec's words, or the list of the published prototype"`
	TablesCSV string         `json:"tables_csv,omitempty" doc:"Tables as CSV text, in place of tables"`
	Workload  string         `json:"workload,omitempty" maxLength:"200" doc:"Name of a workload, in place of tables" example:"mlperf-dlrm-dcnv2"`
	Topology  Value          `json:"topology,omitempty" doc:"The cluster, with the keys of a topology file"`
	Overrides *OverridesBody `json:"overrides,omitempty" doc:"Single fields of the cluster, as the flags of neuroshard plan state them"`
}

// OverridesBody are single fields of a cluster.
type OverridesBody struct {
	Devices            *int      `json:"devices,omitempty" doc:"Number of devices" example:"8"`
	Device             *string   `json:"device,omitempty" maxLength:"200" doc:"Device profile, one of GET /v1/devices" example:"a100-80"`
	DevicesPerHost     *int      `json:"devices_per_host,omitempty" doc:"Devices that share a host's fast links; 8 if nobody states them, or all, if they are fewer or have no network between hosts"`
	Memory             *Quantity `json:"memory,omitempty" doc:"Memory of a device, such as 40GiB"`
	DeviceMemories     *string   `json:"device_memories,omitempty" maxLength:"100000" doc:"Memory of each device where devices differ, such as 40GiB,80GiB, or of some, such as 0-3=40GiB"`
	ReserveShare       *float64  `json:"reserve_share,omitempty" doc:"Share of each device's memory to keep free of tables"`
	ReserveFixed       *Quantity `json:"reserve_fixed,omitempty" doc:"Memory of each device to keep free on top of the share"`
	HostMemory         *Quantity `json:"host_memory,omitempty" doc:"Memory of a full host that the tables of its devices may use, such as 1TiB"`
	HostMemories       *string   `json:"host_memories,omitempty" maxLength:"100000" doc:"Memory of each host where hosts differ, such as 512GiB,1TiB, or of some, such as 0=512GiB"`
	NetworkBandwidth   *Quantity `json:"network_bandwidth,omitempty" doc:"A device's share of the network between hosts, such as 50GB/s"`
	NVLinkDomain       *int      `json:"nvlink_domain,omitempty" doc:"Devices that the links inside hosts join"`
	Replicas           *int      `json:"replicas,omitempty" doc:"Number of sharding groups of 2D parallelism, without the auto of the flag; all other fields describe the whole cluster"`
	SyncEvery          *int      `json:"sync_every,omitempty" doc:"Steps from one all-reduce of the replicas to the next"`
	InterHost          *bool     `json:"inter_host_allreduce,omitempty" doc:"Whether the devices of a sharding group are consecutive"`
	LinkBandwidth      *Quantity `json:"link_bandwidth,omitempty" doc:"Bandwidth of a device to the others of its host, for TorchRec's formulas"`
	HBMBandwidth       *Quantity `json:"hbm_bandwidth,omitempty" doc:"Bandwidth of a device's memory, for TorchRec's formulas"`
	HostLinkBandwidth  *Quantity `json:"host_link_bandwidth,omitempty" doc:"Bandwidth of a device to its host's memory, for TorchRec's formulas"`
	BackwardMultiplier *float64  `json:"backward_multiplier,omitempty" doc:"Time of the kernels of the backward over that of the forward, for TorchRec's formulas"`
	WeightedBackward   *float64  `json:"weighted_backward_multiplier,omitempty" doc:"Factor of the time of the backward for weighted lookups, for TorchRec's formulas"`
	Accounting         *string   `json:"accounting,omitempty" maxLength:"200" doc:"Which bytes count against a device's memory: all, or torchrec for those that TorchRec's storage estimator counts in the newest release that is known, or torchrec-1.6, in another release"`
	CommPrecision      *string   `json:"comm_precision,omitempty" maxLength:"200" doc:"Number format of the vectors that devices send each other"`
	Engine             *string   `json:"for,omitempty" maxLength:"200" doc:"Engine that is to run the plan, torchrec or hugectr"`
	Lanes              *string   `json:"lanes,omitempty" maxLength:"200" doc:"Which table sets the lanes of a bag: widest or own"`
	MinWidth           *int      `json:"min_width,omitempty" doc:"Narrowest slice of a table, in columns"`
	Batch              *int      `json:"batch,omitempty" doc:"Global batch in samples" example:"65536"`
	Optimizer          *string   `json:"optimizer,omitempty" maxLength:"200" doc:"Optimizer of tables that state none" example:"rowwise_adagrad"`
	Dim                *int      `json:"dim,omitempty" doc:"Columns of tables in the prototype's format, which does not state them"`
}

// overrides returns the fields as package input takes them, with a fault for each quantity that is not one.
func (o *OverridesBody) overrides() (input.Overrides, []fault) {
	if o == nil {
		return nil, nil
	}
	var faults []fault
	all := input.Overrides{}
	body, _ := json.Marshal(o) // it was read from JSON
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(body, &fields)
	for key, value := range fields {
		text := string(value)
		var written string
		var number float64
		switch size := slices.Contains([]string{"memory", "reserve_fixed", "host_memory"}, key); {
		case text[0] == '"':
			_ = json.Unmarshal(value, &written)
			text = written
		case size || strings.HasSuffix(key, "_bandwidth"):
			if json.Unmarshal(value, &number) != nil || number < 0 || size && number != math.Trunc(number) {
				faults = append(faults, fault{Location: "problem.overrides." + key, Message: clip(text) + " is not a whole number in range"})
				continue
			}
			if text += "B"; !size {
				text += "/s"
			}
		}
		if key == "for" {
			key = "engine"
		}
		all[key] = text
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

// quantityOf reads a number, or a text with a unit; nil if the quantity is not stated. If it is neither,
// quantityOf adds a fault and returns nil.
func quantityOf[T ~int64 | ~float64](q *Quantity, location string, parse func(string) (T, error), faults *[]fault) *T {
	if q == nil {
		return nil
	}
	var value T
	var err error
	if text := []byte(*q); text[0] != '"' {
		if json.Unmarshal(text, &value) != nil || value < 0 {
			err = fmt.Errorf("%s is not a whole number in range", clip(string(text)))
		}
	} else {
		var written string
		_ = json.Unmarshal(text, &written) // it is valid JSON
		value, err = parse(written)
	}
	if err != nil {
		*faults = append(*faults, fault{Location: location, Message: err.Error()})
		return nil
	}
	return &value
}
