package plan

import (
	"crypto/sha256"
	"fmt"
	"io"
	"strconv"

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
	shardJSON struct {
		Replicated bool     `json:"replicated"`
		Device     *int     `json:"device"`
		Columns    [2]int64 `json:"columns"`
		Rows       [2]int64 `json:"rows"`
		Tier       Tier     `json:"tier"`
		Cache      float64  `json:"cache_share"`
	}
)

// NumberedDevice is a device as files have it, and objects that --json prints.
type NumberedDevice struct {
	Number int `json:"device"`
	Shards int `json:"shards"`
	DimSum int `json:"dim_sum"`
	StepTimes
	Total  unit.Millis    `json:"total_ms"`
	Phase  problem.Phase  `json:"phase"`
	Memory problem.Memory `json:"memory"`
	Pools  unit.Bytes     `json:"pools_bytes,omitempty"`
}

// Numbered returns device i.
func (pl *Plan) Numbered(i int) NumberedDevice {
	d := &pl.Devices[i]
	return NumberedDevice{i, d.Shards, d.DimSum, d.StepTimes, d.Total(), d.Phase, d.Memory, d.Pools}
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
		p.Print("", pl.Numbered(i))
	}
	p.WriteString("\n  ],\n  \"tables\": [")
	for i := range pl.Tables {
		t := &pl.Tables[i]
		p.Item(i, "\n    ")
		p.Open(t)
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
