package plan

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/neuroshard/neuroshard/internal/atomicfile"
	"github.com/neuroshard/neuroshard/internal/jsonfile"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// format.go writes plans as JSON and read.go reads them. docs/PLAN.md draws the
// format, schema/plan.schema.json states it for other tools.

// Format is the name that a plan file carries in its "format" key.
const Format = "neuroshard-plan"

// The limits of a plan file. Read refuses a file beyond them before it allocates
// memory for it; Write refuses a plan that Read would refuse.
const (
	// MaxFile is the size of a file, in bytes: 100 MB.
	MaxFile = 100 * 1000 * 1000
	// MaxShards is the number of shards of a table.
	MaxShards = hardware.MaxDevices
	// MaxWarnings is the number of warnings.
	MaxWarnings = 10_000

	maxBytes = 1 << 62 // of a memory line
	maxCount = 1 << 53 // of shards and pooled columns: what a JSON number holds exactly
)

// The parts of a file, in the order of their keys. read.go reads them, and Write writes those on a line
// each.
type (
	predictedJSON struct {
		Cost   unit.Millis `json:"cost_ms"`
		Source string      `json:"source"`
	}
	deviceJSON struct {
		Device         int            `json:"device"`
		Shards         int            `json:"shards"`
		DimSum         int            `json:"dim_sum"`
		Forward        unit.Millis    `json:"forward_ms"`
		ForwardComm    unit.Millis    `json:"forward_comm_ms"`
		BackwardComm   unit.Millis    `json:"backward_comm_ms"`
		Backward       unit.Millis    `json:"backward_ms"`
		ForwardHidden  unit.Millis    `json:"forward_hidden_ms,omitempty"`
		BackwardHidden unit.Millis    `json:"backward_hidden_ms,omitempty"`
		Total          unit.Millis    `json:"total_ms"`
		Memory         problem.Memory `json:"memory"`
	}
	// tableJSON is a table without its shards, which follow as the last key.
	tableJSON struct {
		Name         string           `json:"name"`
		Module       string           `json:"module,omitempty"`
		Rows         int64            `json:"rows"`
		Dim          int              `json:"dim"`
		ShardingType ShardingType     `json:"kind"`
		Precision    string           `json:"precision,omitempty"`
		Optimizer    string           `json:"optimizer,omitempty"`
		Pooling      string           `json:"pooling,omitempty"`
		Vectors      float64          `json:"vectors,omitempty"`
		Operator     problem.Operator `json:"operator,omitempty"`
	}
	shardJSON struct {
		Replicated bool     `json:"replicated"`
		Device     *int     `json:"device"`
		Columns    [2]int64 `json:"columns"`
		Rows       [2]int64 `json:"rows"`
		Tier       Tier     `json:"tier"`
		Cache      float64  `json:"cache_share"`
	}
)

func deviceOf(i int, d *Device) deviceJSON {
	return deviceJSON{i, d.Shards, d.DimSum, d.Forward, d.ForwardComm, d.BackwardComm, d.Backward, d.ForwardHidden, d.BackwardHidden, d.Total(), d.Memory}
}

func (j *deviceJSON) device() Device {
	return Device{Shards: j.Shards, DimSum: j.DimSum, Memory: j.Memory, StepTimes: StepTimes{
		Forward: j.Forward, ForwardComm: j.ForwardComm, BackwardComm: j.BackwardComm, Backward: j.Backward,
		ForwardHidden: j.ForwardHidden, BackwardHidden: j.BackwardHidden,
	}}
}

func tableOf(t *Table) tableJSON {
	j := tableJSON{Name: t.Name, Module: t.Module, Rows: t.Rows, Dim: t.Dim, ShardingType: t.ShardingType, Vectors: t.Vectors, Operator: t.Operator}
	if t.Stated {
		j.Precision, j.Optimizer = t.Precision.String(), t.Optimizer.String()
	}
	if t.Sequence {
		j.Pooling = problem.PoolingNone.String()
	}
	return j
}

func (j *tableJSON) table() (t Table, err error) {
	t = Table{Name: j.Name, Module: j.Module, Rows: j.Rows, Dim: j.Dim, ShardingType: j.ShardingType, Vectors: j.Vectors, Operator: j.Operator, Sequence: j.Pooling != "", Stated: j.Precision != ""}
	if t.Stated != (j.Optimizer != "") {
		return t, errors.New(`it has one of "precision" and "optimizer": state both or neither`)
	}
	if t.Sequence && j.Pooling != problem.PoolingNone.String() {
		return t, fmt.Errorf("pooling: %s is not written: write %q, or leave the key out", jsonfile.Brief(j.Pooling), problem.PoolingNone.String())
	}
	if t.Stated {
		if t.Precision, err = problem.ParsePrecision(j.Precision); err == nil {
			t.Optimizer, err = problem.ParseOptimizer(j.Optimizer)
		}
	}
	return t, err
}

// Write writes the plan as JSON. Equal plans give equal bytes. It refuses what
// Read would not read back, before it writes anything: times that are not
// finite numbers of at least 0, ranges that end before they start, unknown
// sharding types and tiers, names that are not UTF-8, and sizes beyond the limits.
// (It finds only while it writes that the whole file is above MaxFile.) It does not
// validate the plan: see Validate.
func (pl *Plan) Write(w io.Writer) error {
	if err := pl.check(); err != nil {
		return fmt.Errorf("plan cannot be written: %w", err)
	}
	limited, digest := &limitedWriter{w: w, left: MaxFile}, sha256.New()
	out := jsonfile.NewWriter(io.MultiWriter(limited, digest))
	printPlan(out, pl)
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(limited, ",\n  \"digest\": \"%x\"\n}\n", digest.Sum(nil))
	return err
}

// limitedWriter refuses to write a file that Read would refuse.
type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(b []byte) (int, error) {
	if len(b) > l.left {
		return 0, fmt.Errorf("plan cannot be written: it is larger than %d bytes", MaxFile)
	}
	l.left -= len(b)
	return l.w.Write(b)
}

// printPlan writes all of a file but its digest, which is that of this text, and what follows it.
func printPlan(p *jsonfile.Writer, pl *Plan) {
	p.Print("{\n  \"format\": ", Format, ",\n  \"version\": ", Version)
	p.Print(",\n  \"predicted\": ", predictedJSON{pl.Predicted, pl.Provenance.ModelSource})
	p.Print(",\n  \"cluster\": ", pl.Cluster)
	if pl.Sync != (Sync{}) {
		p.Print(",\n  \"sync\": ", pl.Sync)
	}
	p.WriteString(",\n  \"devices\": [")
	for i := range pl.Devices {
		p.Item(i, "\n    ")
		p.Print("", deviceOf(i, &pl.Devices[i]))
	}
	p.WriteString("\n  ],\n  \"tables\": [")
	for i := range pl.Tables {
		t := &pl.Tables[i]
		p.Item(i, "\n    ")
		p.Open(tableOf(t))
		p.WriteString(`,"shards":[`)
		for k := range t.Shards {
			p.Item(k, "\n      ")
			printShard(p, &t.Shards[k])
		}
		p.WriteString("]}")
	}
	p.WriteString("\n  ],\n")
	printProvenance(p, &pl.Provenance)
}

// printShard is written by hand: a plan may have a million.
func printShard(p *jsonfile.Writer, s *Shard) {
	b := p.AvailableBuffer()
	if s.Device == replicated {
		b = append(b, `{"replicated":true`...)
	} else {
		b = strconv.AppendInt(append(b, `{"device":`...), int64(s.Device), 10)
	}
	b = appendRange(append(b, `,"columns":[`...), s.Columns)
	b = appendRange(append(b, `],"rows":[`...), s.Rows)
	b = append(append(append(b, `],"tier":"`...), s.Tier...), '"')
	if s.Cache != 0 {
		b = strconv.AppendFloat(append(b, `,"cache_share":`...), s.Cache, 'g', -1, 64)
	}
	p.Write(append(b, '}'))
}

func appendRange(b []byte, r problem.Range) []byte {
	b = append(strconv.AppendInt(b, r.Start, 10), ',')
	return strconv.AppendInt(b, r.End, 10)
}

func printProvenance(p *jsonfile.Writer, v *Provenance) {
	p.Print("  \"provenance\": {\n    \"tool\": ", v.Tool, ",\n    \"version\": ", v.Version)
	p.Print(",\n    \"method\": ", v.Method, ",\n    \"seed\": ", v.Seed, ",\n    \"status\": ", v.Status)
	p.Print(",\n    \"model\": ", v.Model, ",\n    \"input\": ", v.Input)
	if v.Hidden != (Hidden{}) {
		p.Print(",\n    \"hidden\": ", v.Hidden)
	}
	if v.Hierarchy.On() {
		p.Print(",\n    \"hierarchy\": ", v.Hierarchy)
	}
	if v.Policy != "" {
		p.Print(",\n    \"policy\": ", v.Policy)
	}
	p.WriteString(",\n    \"warnings\": [")
	for i, warning := range v.Warnings {
		p.Item(i, "\n      ")
		p.Print("", warning)
	}
	p.WriteString("]\n  }")
}

// Save writes the plan to the file path, whole or not at all: see
// atomicfile.Write. A path that exists but is no regular file, such as
// /dev/stdout, is written directly.
func (pl *Plan) Save(path string) error { return atomicfile.Write(path, pl.Write) }

// check returns the first thing about pl that a file cannot hold.
func (pl *Plan) check() error {
	if err := checkTime("predicted cost_ms", pl.Predicted); err != nil {
		return err
	}
	if err := pl.Cluster.Check(); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	if err := first(checkInt("bytes", int64(pl.Sync.Bytes), maxBytes), checkTime("simulated_ms", pl.Sync.Time)); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if len(pl.Devices) > hardware.MaxDevices {
		return fmt.Errorf("devices: %d are more than %d", len(pl.Devices), hardware.MaxDevices)
	}
	for i := range pl.Devices {
		if err := checkDevice(&pl.Devices[i]); err != nil {
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

func checkNetwork(b unit.Bandwidth) error {
	if b != 0 && !(b >= hardware.MinNetworkBandwidth && b <= hardware.MaxNetworkBandwidth) {
		return fmt.Errorf("%v is not between %v and %v", float64(b), float64(hardware.MinNetworkBandwidth), float64(hardware.MaxNetworkBandwidth))
	}
	return nil
}

func checkKnown(e problem.Engine) error {
	if e != e.Rules().Engine {
		return fmt.Errorf("engine %q is unknown", e)
	}
	return nil
}

func checkDevice(d *Device) error {
	m := &d.Memory
	return first(
		checkInt("shards", int64(d.Shards), maxCount),
		checkInt("dim_sum", int64(d.DimSum), maxCount),
		checkTime("forward_ms", d.Forward),
		checkTime("forward_comm_ms", d.ForwardComm),
		checkTime("backward_comm_ms", d.BackwardComm),
		checkTime("backward_ms", d.Backward),
		checkTime("forward_hidden_ms", d.ForwardHidden),
		checkTime("backward_hidden_ms", d.BackwardHidden),
		checkTime("total_ms", d.Total()),
		checkInt("weights_bytes", int64(m.Weights), maxBytes),
		checkInt("optimizer_bytes", int64(m.Optimizer), maxBytes),
		checkInt("outputs_bytes", int64(m.Outputs), maxBytes),
		checkInt("gradients_bytes", int64(m.Gradients), maxBytes),
		checkInt("indices_bytes", int64(m.Indices), maxBytes),
		checkInt("received_bytes", int64(m.Received), maxBytes),
		checkInt("reserve_bytes", int64(m.Reserve), maxBytes),
		checkInt("cache_bytes", int64(m.Cache), maxBytes),
		checkInt("host_bytes", int64(m.Host), maxBytes))
}

func checkTable(t *Table) error {
	if err := first(
		checkText("name", t.Name),
		checkText("module", t.Module),
		checkInt("rows", t.Rows, problem.MaxRows),
		checkInt("dim", int64(t.Dim), problem.MaxDim),
		checkShardingType(t.ShardingType),
		checkInt("precision", int64(t.Precision), int64(problem.BF16)),
		checkInt("optimizer", int64(t.Optimizer), int64(problem.Adam)),
		checkVectors(t.Vectors),
		checkInt("operator", int64(t.Operator), problem.Operators-1)); err != nil {
		return err
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

// maxVectors is the largest number of vectors that a sample can get from a table.
const maxVectors = problem.MaxFeatures * problem.MaxBags

func checkVectors(v float64) error {
	if !(v >= 0 && v <= maxVectors) {
		return fmt.Errorf("vectors: %v is not between 0 and %d", v, maxVectors)
	}
	return nil
}

func checkShard(s *Shard) error {
	if s.Device != replicated {
		if err := checkInt("device", int64(s.Device), hardware.MaxDevices); err != nil {
			return err
		}
	}
	return first(
		checkRange("columns", s.Columns, problem.MaxDim),
		checkRange("rows", s.Rows, problem.MaxRows),
		checkTier(s.Tier),
		checkCache(s))
}

// checkCache checks the share of the rows that is cached. 0 means that none is, or
// that the plan does not state it.
func checkCache(s *Shard) error {
	switch {
	case s.Cache == 0:
		return nil
	case !(s.Cache > 0 && s.Cache < 1):
		return fmt.Errorf("cache_share: %v is not above 0 and below 1", s.Cache)
	case s.Tier != HostCached:
		return fmt.Errorf("cache_share: only what lies in %s has one, and this lies in %s", HostCached, jsonfile.Brief(string(s.Tier)))
	}
	return nil
}

func checkRange(key string, r problem.Range, limit int64) error {
	if r.Start < 0 || r.End <= r.Start || r.End > limit {
		return fmt.Errorf("%s: [%d,%d] is not a range of at least one in 0 to %d", key, r.Start, r.End, limit)
	}
	return nil
}

func checkShardingType(k ShardingType) error {
	for _, known := range shardingTypes {
		if k == known {
			return nil
		}
	}
	return fmt.Errorf("sharding type %s is unknown: known are %s", jsonfile.Brief(string(k)), knownTypes())
}

func checkTier(t Tier) error {
	if !slices.Contains(tiers, t) {
		return fmt.Errorf("tier %s is unknown: known are %s", jsonfile.Brief(string(t)), joinTiers())
	}
	return nil
}

func checkProvenance(v *Provenance) error {
	if len(v.Warnings) > MaxWarnings {
		return fmt.Errorf("warnings: %d are more than %d", len(v.Warnings), MaxWarnings)
	}
	for _, warning := range v.Warnings {
		if err := checkText("warnings", warning); err != nil {
			return err
		}
	}
	return first(
		v.Hidden.Check(), v.Hierarchy.Check(),
		checkText("tool", v.Tool), checkText("version", v.Version), checkText("method", v.Method), checkText("policy", v.Policy),
		checkStatus(v.Status), checkText("model", v.Model), checkText("source", v.ModelSource),
		checkText("input", v.Input))
}

// statuses are how a search ends: the statuses of package search. A plan that no search made may
// leave its status empty.
var statuses = []string{"complete", "budget", "time", "interrupted"}

func checkStatus(status string) error {
	if status != "" && !slices.Contains(statuses, status) {
		return fmt.Errorf("status %s is unknown: known are %s", jsonfile.Brief(status), join(statuses))
	}
	return nil
}

func checkInt(key string, v, limit int64) error {
	if v < 0 || v > limit {
		return fmt.Errorf("%s: %d is not between 0 and %d", key, v, limit)
	}
	return nil
}

func checkTime(key string, ms unit.Millis) error {
	if !valid(ms) {
		return fmt.Errorf("%s: %v is not a finite number of at least 0", key, float64(ms))
	}
	return nil
}

func checkText(key, s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s: %s is not UTF-8", key, jsonfile.Brief(s))
	}
	return nil
}

// checkAt puts a key in front of an error.
func checkAt(key string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", key, err)
	}
	return err
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

// checkSum checks a file's total_ms against the times it is the total of.
func checkSum(d *Device, total unit.Millis) error {
	if want := d.Total(); !same(total, want) && !math.IsInf(float64(want), 1) {
		return fmt.Errorf("total_ms: %v is not the sum of the device's times, %v", float64(total), float64(want))
	}
	return nil
}
