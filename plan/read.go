package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/neuroshard/neuroshard/internal/jsonfile"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// Read reads a plan that Write wrote, and stops at the first fault: a key that is unknown or there
// twice, or a value that Write does not write. The error of a file of another format or version says
// so before anything else; other errors name the line and the place. A file above MaxFile bytes is
// refused as soon as the limit is passed, and no file takes more than a few times its own size in
// memory.
//
// Read does not know the problem: call Validate before you use the plan.
func Read(r io.Reader) (*Plan, error) {
	pl, _, err := ReadStated(r)
	return pl, err
}

// NoDigest says what a reader cannot know of a plan that states no digest.
const NoDigest = "the plan states no digest of its content, so changes of it after it was made cannot be seen"

// ErrChanged is the error of Read for a plan whose content is not what its digest is of.
var ErrChanged = errors.New(`the plan was changed after neuroshard wrote it: its content does not have the digest that it states: make the plan again, or, if the change is meant, remove the key "digest" and run neuroshard check`)

// ReadStated reads a plan as Read does. It also reports whether the file states the digest of its
// content; a plan that other programs or people wrote may state none (NoDigest).
func ReadStated(r io.Reader) (pl *Plan, digest bool, err error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return nil, false, err
	}
	if len(data) > MaxFile {
		return nil, false, fmt.Errorf("plan file is larger than %d bytes: no plan is", MaxFile)
	}
	var f fileJSON
	bounds := json.WithUnmarshalers(json.JoinUnmarshalers(
		jsonfile.Bounded[hardware.FixedLoad](hardware.MaxFixed), jsonfile.Bounded[unit.Bytes](hardware.MaxDevices),
		jsonfile.Bounded[int](hardware.MaxDevices), jsonfile.Bounded[string](MaxWarnings)))
	if err := jsonfile.Unmarshal(data, &f, bounds); err != nil {
		var h header
		if json.Unmarshal(data, &h, jsontext.AllowDuplicateNames(true)) == nil && h.check() != nil {
			return nil, false, h.check()
		}
		return nil, false, fmt.Errorf("plan file, %w", err)
	}
	if err := f.check(); err != nil {
		return nil, false, err
	}
	pl = f.plan()
	if err := pl.check(); err != nil {
		return nil, false, fmt.Errorf("plan file: %w", err)
	}
	if f.Digest != nil && *f.Digest != pl.digest() {
		return nil, false, ErrChanged
	}
	return pl, f.Digest != nil, nil
}

// digest returns the digest of the plan. White space and the order of keys do not matter, because it is
// that of the text that Write writes.
func (pl *Plan) digest() string {
	digest := sha256.New()
	p := jsonfile.NewWriter(digest)
	printPlan(p, pl)
	_ = p.Flush() // a hash takes every write
	return hex.EncodeToString(digest.Sum(nil))
}

// header is what makes a file a plan file.
type header struct {
	Format  *string `json:"format"`
	Version *int    `json:"version"`
}

func (h *header) check() error {
	switch {
	case h.Format == nil:
		return fmt.Errorf("not a plan file: it has no %q key, a plan has %q: %q", "format", "format", Format)
	case *h.Format != Format:
		return fmt.Errorf("not a plan file: its format is %s, not %q", jsonfile.Brief(*h.Format), Format)
	case h.Version == nil:
		return fmt.Errorf("plan file has no %q key: known is version %d", "version", Version)
	case *h.Version != Version:
		return fmt.Errorf("plan file has version %d: this program knows version %d only; make the plan again, or read it with a program that knows version %d", *h.Version, Version, *h.Version)
	}
	return nil
}

// fileJSON is a plan file.
type fileJSON struct {
	header
	Predicted  *predictedJSON `json:"predicted"`
	Cluster    *Cluster       `json:"cluster"`
	Sync       Sync           `json:"sync"`
	Devices    *deviceList    `json:"devices"`
	Tables     *tableList     `json:"tables"`
	Provenance *Provenance    `json:"provenance"`
	Digest     *string        `json:"digest"`
}

// check refuses a file that lacks a part of a plan, and a cluster without a device, which no reader
// of a plan expects.
func (f *fileJSON) check() error {
	if err := f.header.check(); err != nil {
		return err
	}
	for _, part := range []struct {
		key  string
		lack bool
	}{
		{"predicted", f.Predicted == nil},
		{"cluster", f.Cluster == nil},
		{"devices", f.Devices == nil},
		{"tables", f.Tables == nil},
		{"provenance", f.Provenance == nil},
	} {
		if part.lack {
			return fmt.Errorf("plan file: key %q is missing", part.key)
		}
	}
	switch c := f.Cluster; {
	case c.Devices < 1 || c.DevicesPerHost < 1:
		return fmt.Errorf("plan file: cluster: %d devices, %d a host, want at least 1", c.Devices, c.DevicesPerHost)
	case c.Profile == "" || c.Batch < 1 || c.DeviceMemory < 1:
		return errors.New("plan file: cluster: it states no profile, no batch or no memory of a device")
	case len(*f.Devices) != c.Devices:
		return fmt.Errorf("plan file: it lists %d devices, and its cluster has %d", len(*f.Devices), c.Devices)
	}
	return nil
}

func (f *fileJSON) plan() *Plan {
	f.Provenance.ModelSource = f.Predicted.Source
	if len(f.Provenance.Warnings) == 0 {
		f.Provenance.Warnings = nil
	}
	return &Plan{Tables: *f.Tables, Devices: *f.Devices, Cluster: *f.Cluster, Predicted: f.Predicted.Cost, Sync: f.Sync, Provenance: *f.Provenance}
}

// The long lists of a file. Their elements are converted one by one, so that a file of a million
// shards is not in memory twice.
type (
	deviceList []Device
	tableList  []Table
	shardList  []Shard
)

// UnmarshalJSONFrom reads the devices in the order of their numbers.
func (l *deviceList) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return jsonfile.List(d, hardware.MaxDevices, func(i int, j *NumberedDevice) error {
		if j.Number != i {
			return fmt.Errorf("device: %d is out of order, here is the place of %d", j.Number, i)
		}
		d := Device{j.Shards, j.DimSum, j.Phase, j.Memory, j.Pools, j.StepTimes}
		*l = append(*l, d)
		if want := d.Total(); !same(j.Total, want) {
			return fmt.Errorf("total_ms: %v is not the sum of the device's times, %v", float64(j.Total), float64(want))
		}
		return nil
	})
}

// UnmarshalJSONFrom reads the tables.
func (l *tableList) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return jsonfile.List(d, problem.MaxTables, func(_ int, j *struct {
		Table
		Precision *problem.Precision `json:"precision"`
		Optimizer *problem.Optimizer `json:"optimizer"`
		Shards    shardList          `json:"shards"`
	},
	) error {
		if j.Name == "" || j.Rows == 0 || j.Dim == 0 || j.Precision == nil || j.Optimizer == nil {
			return errors.New("it states no name, no rows, no dim, no precision or no optimizer")
		}
		j.Table.Precision, j.Table.Optimizer, j.Table.Shards = *j.Precision, *j.Optimizer, j.Shards
		*l = append(*l, j.Table)
		return nil
	})
}

// UnmarshalJSONFrom reads the shards of a table.
func (l *shardList) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return jsonfile.List(d, MaxShards, func(_ int, j *shardJSON) error {
		if (j.Device == nil) != j.Replicated {
			return errors.New(`it has neither or both of "device" and "replicated": write one`)
		}
		s := Shard{Columns: problem.Range{Start: j.Columns[0], End: j.Columns[1]}, Rows: problem.Range{Start: j.Rows[0], End: j.Rows[1]}, Device: replicated, Tier: j.Tier, Cache: j.Cache}
		if j.Device != nil {
			if s.Device = *j.Device; s.Device < 0 {
				return fmt.Errorf("device: %d is not the number of a device", s.Device)
			}
		}
		*l = append(*l, s)
		return nil
	})
}
