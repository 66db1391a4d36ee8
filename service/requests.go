package service

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/danielgtaylor/huma/v2"

	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/unit"
)

// requests.go has the bodies of requests. The tags are the schemas of the API.

// ProblemBody is what is to be planned.
type ProblemBody struct {
	Name      string         `json:"name,omitempty" maxLength:"200" pattern:"^[^\\x00-\\x1f\\x7f]*$" doc:"Name of the model, under which its plans are kept; it does not change the plan" example:"ranking-prod"`
	Tables    Value          `json:"tables,omitempty" doc:"Tables in one of the JSON formats that neuroshard plan reads: an object of format neuroshard-tables, a scenario in TorchRec's words, or the list of the published prototype"`
	TablesCSV string         `json:"tables_csv,omitempty" doc:"Tables as CSV text, in place of tables"`
	Workload  string         `json:"workload,omitempty" maxLength:"200" doc:"Name of a workload, in place of tables" example:"mlperf-dlrm-dcnv2"`
	Topology  Value          `json:"topology,omitempty" doc:"The cluster, with the keys of a topology file"`
	Overrides *OverridesBody `json:"overrides,omitempty" doc:"Single fields of the cluster, as the flags of neuroshard plan state them"`
}

// OverridesBody are single fields of a cluster.
type OverridesBody struct {
	Devices          *int       `json:"devices,omitempty" doc:"Number of devices" example:"8"`
	Device           *string    `json:"device,omitempty" maxLength:"200" doc:"Device profile, one of GET /v1/devices" example:"a100-80"`
	DevicesPerHost   *int       `json:"devices_per_host,omitempty" doc:"Devices that share a host's fast links"`
	Memory           *Size      `json:"memory,omitempty" doc:"Memory of a device, such as 40GiB"`
	ReserveShare     *float64   `json:"reserve_share,omitempty" doc:"Share of each device's memory to keep free of tables"`
	ReserveFixed     *Size      `json:"reserve_fixed,omitempty" doc:"Memory of each device to keep free on top of the share"`
	HostMemory       *Size      `json:"host_memory,omitempty" doc:"Memory of a full host that the tables of its devices may use, such as 1TiB"`
	NetworkBandwidth *Bandwidth `json:"network_bandwidth,omitempty" doc:"A device's share of the network between hosts, such as 50GB/s"`
	NVLinkDomain     *int       `json:"nvlink_domain,omitempty" doc:"Devices that the links inside hosts join"`
	CommPrecision    *string    `json:"comm_precision,omitempty" maxLength:"200" doc:"Number format of the vectors that devices send each other"`
	Engine           *string    `json:"for,omitempty" maxLength:"200" doc:"Engine that is to run the plan, torchrec or hugectr"`
	Lanes            *string    `json:"lanes,omitempty" maxLength:"200" doc:"Which table sets the lanes of a bag: widest or own"`
	MinWidth         *int       `json:"min_width,omitempty" doc:"Narrowest slice of a table, in columns"`
	Batch            *int       `json:"batch,omitempty" doc:"Global batch in samples" example:"65536"`
	Dim              *int       `json:"dim,omitempty" doc:"Columns of tables in the prototype's format, which does not state them"`
}

// overrides returns the fields as package input takes them.
func (o *OverridesBody) overrides() input.Overrides {
	if o == nil {
		return input.Overrides{}
	}
	return input.Overrides{
		Devices: o.Devices, DevicesPerHost: o.DevicesPerHost, Device: o.Device,
		Memory: (*unit.Bytes)(o.Memory), ReserveFixed: (*unit.Bytes)(o.ReserveFixed), HostMemory: (*unit.Bytes)(o.HostMemory),
		NetworkBandwidth: (*unit.Bandwidth)(o.NetworkBandwidth), NVLinkDomain: o.NVLinkDomain, ReserveShare: o.ReserveShare,
		CommPrecision: o.CommPrecision, Engine: o.Engine, Lanes: o.Lanes, MinWidth: o.MinWidth, Batch: o.Batch, Dim: o.Dim,
	}
}

// OptionsBody are the options of a search.
type OptionsBody struct {
	Method         string   `json:"method,omitempty" maxLength:"200" doc:"Search method; neuroshard by default" example:"neuroshard"`
	Seed           uint64   `json:"seed,omitempty" doc:"Seed of the random numbers in the search"`
	MaxEvaluations int64    `json:"max_evaluations,omitempty" minimum:"0" doc:"Cost estimates after which the search ends; 0 takes a number that grows with the problem"`
	TimeLimit      int64    `json:"time_limit_ms,omitempty" minimum:"1" doc:"Time after which the best plan so far is the answer, which is then not kept; the server's own limit by default"`
	ShardingTypes  []string `json:"sharding_types,omitempty" minItems:"1" maxItems:"100" doc:"Sharding types that tables may have, or all"`
	Certificate    *bool    `json:"certificate,omitempty" doc:"Compute a lower bound on the cost of every plan; true by default"`
	Baselines      *bool    `json:"baselines,omitempty" doc:"Compare with plans of the baseline methods; true by default"`
	RiskPenalty    float64  `json:"risk_penalty,omitempty" minimum:"0" maximum:"100" doc:"Standard deviations of the model's ensemble that the search adds to an estimate"`
}

// PlanBody is the body of POST /v1/plan.
type PlanBody struct {
	Problem ProblemBody  `json:"problem"`
	Options *OptionsBody `json:"options,omitempty"`
	Cache   string       `json:"cache,omitempty" enum:"use,refresh" doc:"use takes a plan that is known; refresh plans again" default:"use"`
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

// Size is a number of bytes, as a number or as a text with a unit.
type Size unit.Bytes

// Schema returns the schema of a size.
func (Size) Schema(huma.Registry) *huma.Schema { return quantity("40GiB") }

// quantity is the schema of a number, or of a text with a unit.
func quantity(example string) *huma.Schema {
	least, most := 0.0, 200
	return &huma.Schema{OneOf: []*huma.Schema{{Type: huma.TypeString, MaxLength: &most}, {Type: huma.TypeNumber, Minimum: &least}}, Examples: []any{example}}
}

// UnmarshalJSON reads a size.
func (s *Size) UnmarshalJSON(text []byte) error { return quantityOf(text, s, unit.ParseSize) }

// Bandwidth is a number of bytes a second, or a text with a unit.
type Bandwidth unit.Bandwidth

// Schema returns the schema of a bandwidth.
func (Bandwidth) Schema(huma.Registry) *huma.Schema { return quantity("50GB/s") }

// UnmarshalJSON reads a bandwidth.
func (b *Bandwidth) UnmarshalJSON(text []byte) error {
	return quantityOf(text, b, unit.ParseBandwidth)
}

// quantityOf reads a number, or a text with a unit.
func quantityOf[T ~int64 | ~float64, P ~int64 | ~float64](text []byte, to *T, parse func(string) (P, error)) error {
	if text[0] != '"' {
		var number P
		if err := json.Unmarshal(text, &number); err != nil {
			return fmt.Errorf("%s is not a whole number in range", text)
		}
		*to = T(number)
		return nil
	}
	var written string
	if err := json.Unmarshal(text, &written); err != nil {
		return err
	}
	value, err := parse(written)
	*to = T(value)
	return err
}
