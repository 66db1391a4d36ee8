package plan

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/neuroshard/neuroshard/internal/strictjson"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// Read reads a plan that Write wrote. It is strict: every key must be there,
// once, and no other; numbers must be finite and in their range; a "total_ms"
// must be the sum it claims to be. The error of a file of another format or
// version says so before anything else; other errors name the line and the
// place. A file above MaxFile bytes, or with more devices, tables or shards
// than a plan may have, is refused as soon as the limit is passed, so no file
// takes more than a few times its own size in memory.
//
// Read does not know the problem: call Validate before you use the plan.
func Read(r io.Reader) (*Plan, error) {
	pl, _, err := ReadStated(r)
	return pl, err
}

// NoDigest says what a reader cannot know of a plan that states no digest.
const NoDigest = "the plan states no digest of its content, so changes of it after it was made cannot be seen"

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
	if !utf8.Valid(data) {
		return nil, false, errors.New("not a plan file: it is not UTF-8 text")
	}
	if err := header(data); err != nil {
		return nil, false, err
	}
	p := newParser(data)
	pl = &Plan{}
	if digest, err = p.plan(pl); err != nil {
		return nil, false, p.locate(err)
	}
	return pl, digest, nil
}

// header finds format and version among the keys of the file, wherever they
// are, and refuses what this package cannot read.
func header(data []byte) error {
	p := newParser(data)
	p.anyKeys = true
	var format string
	var version int64
	seen := map[string]bool{}
	errFound := errors.New("found")
	err := p.eachKey(nil, func(key string) (err error) {
		switch key {
		case "format":
			format, err = p.text()
		case "version":
			version, err = p.int(maxCount)
		default:
			p.json.Skip()
			return p.err
		}
		seen[key] = true
		if err == nil && len(seen) == 2 {
			err = errFound
		}
		return err
	})
	switch {
	case errors.Is(err, errFound):
	case err != nil:
		return p.locate(err)
	case !seen["format"]:
		return fmt.Errorf("not a plan file: it has no %q key, a plan has %q: %q", "format", "format", Format)
	case format == Format:
		return fmt.Errorf("plan file has no %q key: known is version %d", "version", Version)
	}
	if format != Format {
		return fmt.Errorf("not a plan file: its format is %s, not %q", brief(format), Format)
	}
	if version != Version {
		return fmt.Errorf("plan file has version %d: this program knows version %d only; make the plan again, or read it with a program that knows version %d", version, Version, version)
	}
	return nil
}

// parser reads a plan's JSON and stops at the first fault, which it keeps in err.
type parser struct {
	json *strictjson.Reader
	err  error
	// line is the line of err; 0 is where the reader is.
	line int
	// anyKeys is whether keys may occur twice, as far as this parser is concerned.
	anyKeys bool
}

func newParser(data []byte) *parser {
	p := &parser{}
	p.json = strictjson.New(bufio.NewReader(bytes.NewReader(data)), p, strictjson.Options{})
	return p
}

// stop keeps err and ends the reading.
func (p *parser) stop(line int, err error) {
	p.err, p.line = err, line
	p.json.Stop()
}

// Broken keeps an error of the syntax.
func (p *parser) Broken(e strictjson.SyntaxError) {
	err := errors.New(e.Message)
	if e.Ended {
		err = fmt.Errorf("the file ends in the middle of the plan: %w", io.ErrUnexpectedEOF)
	}
	p.stop(e.Line, err)
}

// Mistyped keeps an error of a value's type.
func (p *parser) Mistyped(_, wanted string, found strictjson.Found) {
	p.stop(found.Line, fmt.Errorf("%s is not %s", describe(found), wanted))
}

// Unknown keeps an error of an unknown key.
func (p *parser) Unknown(o *strictjson.ObjectReader, key string) {
	p.stop(0, fmt.Errorf("key %s is unknown: known are %s", brief(key), strings.Join(o.Known, ", ")))
}

// Twice keeps an error of a key that occurs twice.
func (p *parser) Twice(_ *strictjson.ObjectReader, key string) {
	if !p.anyKeys {
		p.stop(0, fmt.Errorf("key %q is there twice", key))
	}
}

// locate adds the line of err to it.
func (p *parser) locate(err error) error {
	line := p.line
	if line == 0 {
		line = p.json.Line()
	}
	return fmt.Errorf("plan file, line %d: %w", line, err)
}

var planKeys = []string{"format", "version", "predicted", "cluster", "devices", "tables", "provenance", "sync", "digest"}

// plan reads a plan. It reports whether the plan states a digest.
func (p *parser) plan(pl *Plan) (stated bool, err error) {
	digest := ""
	err = p.object(planKeys, 2, func(key string) (err error) {
		switch key {
		case "format":
			_, err = p.text() // header has looked
		case "version":
			_, err = p.int(Version)
		case "predicted":
			err = p.predicted(pl)
		case "cluster":
			err = p.cluster(&pl.Cluster)
		case "sync":
			err = p.sync(&pl.Sync)
		case "devices":
			err = p.array(hardware.MaxDevices, func(i int) error {
				d, err := p.device(i)
				pl.Devices = append(pl.Devices, d)
				return err
			})
		case "tables":
			err = p.array(problem.MaxTables, func(int) error {
				t, err := p.table()
				pl.Tables = append(pl.Tables, t)
				return err
			})
		case "provenance":
			err = p.provenance(&pl.Provenance)
		case "digest":
			digest, err = p.text()
			stated = true
		}
		return within(key, err)
	})
	if err != nil {
		return false, err
	}
	if p.json.End(); p.err != nil {
		return false, errors.New("there is more after the end of the plan")
	}
	if stated {
		err = pl.checkDigest(digest)
	}
	return stated, err
}

var predictedKeys = []string{"cost_ms", "source"}

func (p *parser) predicted(pl *Plan) error {
	return p.object(predictedKeys, 0, func(key string) (err error) {
		switch key {
		case "cost_ms":
			pl.Predicted, err = p.time()
		case "source":
			pl.Provenance.ModelSource, err = p.text()
		}
		return within(key, err)
	})
}

var syncKeys = []string{"bytes", "simulated_ms"}

// sync reads the all-reduce of the replicas.
func (p *parser) sync(s *Sync) error {
	return p.object(syncKeys, 0, func(key string) (err error) {
		switch key {
		case "bytes":
			err = intInto(p, &s.Bytes, maxBytes)
		case "simulated_ms":
			s.Time, err = p.time()
		}
		return within(key, err)
	})
}

// The last twenty-two keys of a cluster are optional.
var clusterKeys = []string{"profile", "devices", "devices_per_host", "batch", "device_memory_bytes", "reserve_bytes", "weights_only", "host_memory_bytes", "device_memories_bytes", "reserve_share", "host_memories_bytes", "fixed", "comm_precision", "engine", "lanes", "network_bytes_per_second", "nvlink_domain", "torchrec_bytes", "torchrec_release", "link_bytes_per_second", "hbm_bytes_per_second", "host_link_bytes_per_second", "backward_multiplier", "weighted_backward_multiplier", "replicas", "replicas_per_host", "replicas_per_domain", "inter_host_allreduce", "sync_every"}

func (p *parser) cluster(c *Cluster) error {
	err := p.object(clusterKeys, 22, func(key string) (err error) {
		switch key {
		case "profile":
			c.Profile, err = p.text()
		case "devices":
			err = intInto(p, &c.Devices, hardware.MaxDevices)
		case "devices_per_host":
			err = intInto(p, &c.DevicesPerHost, hardware.MaxDevices)
		case "batch":
			err = intInto(p, &c.Batch, problem.MaxBatch)
		case "device_memory_bytes":
			err = intInto(p, &c.DeviceMemory, maxBytes)
		case "reserve_bytes":
			err = intInto(p, &c.Reserve, maxBytes)
		case "weights_only":
			c.WeightsOnly, err = p.bool()
		default:
			err = p.clusterOption(c, key)
		}
		return within(key, err)
	})
	if err != nil {
		return err
	}
	return checkAccounting(c)
}

// clusterOption reads the value of an optional key of a cluster.
func (p *parser) clusterOption(c *Cluster, key string) (err error) {
	switch key {
	case "host_memory_bytes":
		err = stated(p, &c.HostMemory, maxBytes)
	case "comm_precision":
		c.CommPrecision, err = named(p, problem.ParsePrecision)
	case "engine":
		c.Engine, err = named(p, problem.ParseEngine)
	case "lanes":
		c.LaneRule, err = named(p, problem.ParseLaneRule)
	case "network_bytes_per_second":
		err = p.bandwidth(&c.NetworkBandwidth)
	case "link_bytes_per_second":
		err = p.bandwidth(&c.LinkBandwidth)
	case "hbm_bytes_per_second":
		err = p.bandwidth(&c.HBMBandwidth)
	case "host_link_bytes_per_second":
		err = p.bandwidth(&c.HostLinkBandwidth)
	case "backward_multiplier":
		c.BackwardMultiplier, err = p.above0(hardware.MaxMultiplier)
	case "weighted_backward_multiplier":
		c.WeightedBackwardMultiplier, err = p.above0(hardware.MaxMultiplier)
	case "nvlink_domain":
		var devices int64
		err = stated(p, &devices, hardware.MaxDevices)
		c.NVLinkDomain = int(devices)
	case "torchrec_bytes", "torchrec_release":
		err = p.torchRec(c, key)
	default:
		err = p.differing(c, key)
	}
	return err
}

// torchRec reads the value of a key that says that TorchRec counts the bytes.
func (p *parser) torchRec(c *Cluster, key string) (err error) {
	if key == "torchrec_release" {
		c.TorchRecRelease, err = p.text()
		return err
	}
	if c.TorchRecBytes, err = p.bool(); err == nil && !c.TorchRecBytes {
		err = errors.New("false is not written: leave the key out")
	}
	return err
}

// sizes reads a list of sizes that are not all the same.
func (p *parser) sizes() (list []unit.Bytes, err error) {
	err = p.array(hardware.MaxDevices, func(int) error {
		var size unit.Bytes
		err := stated(p, &size, maxBytes)
		list = append(list, size)
		return err
	})
	if err == nil && (len(list) == 0 || slices.Min(list) == slices.Max(list)) {
		err = errors.New("equal memories are not written: leave the key out")
	}
	return list, err
}

// differing reads a key of devices or hosts that differ, or of the sharding groups.
func (p *parser) differing(c *Cluster, key string) (err error) {
	switch key {
	case "device_memories_bytes":
		c.DeviceMemories, err = p.sizes()
	case "host_memories_bytes":
		c.HostMemories, err = p.sizes()
	case "reserve_share":
		c.ReserveShare, err = p.share()
	case "fixed":
		c.Fixed, err = p.fixed()
	default:
		err = p.replicas(c, key)
	}
	return err
}

// fixed reads the fixed loads of a cluster.
func (p *parser) fixed() (loads []hardware.FixedLoad, err error) {
	err = p.array(hardware.MaxFixed, func(int) error {
		var l hardware.FixedLoad
		err := p.object([]string{"name", "devices", "bytes", "ms"}, 3, func(key string) (err error) {
			switch key {
			case "name":
				l.Name, err = p.text()
			case "devices":
				err = p.array(hardware.MaxDevices, func(int) error {
					var d int
					err := intInto(p, &d, hardware.MaxDevices)
					l.Devices = append(l.Devices, d)
					return err
				})
			case "bytes":
				err = stated(p, &l.Bytes, maxBytes)
			case "ms":
				l.Time, err = p.time()
			}
			return within(key, err)
		})
		loads = append(loads, l)
		return err
	})
	if err == nil && len(loads) == 0 {
		err = errors.New("an empty list is not written: leave the key out")
	}
	return loads, err
}

// replicas reads a key of the sharding groups.
func (p *parser) replicas(c *Cluster, key string) (err error) {
	if key == "inter_host_allreduce" {
		if c.InterHostAllReduce, err = p.bool(); err == nil && !c.InterHostAllReduce {
			err = errors.New("false is not written: leave the key out")
		}
		return err
	}
	into, most := &c.Replicas, hardware.MaxDevices
	switch key {
	case "replicas_per_host":
		into = &c.ReplicasPerHost
	case "replicas_per_domain":
		into = &c.ReplicasPerDomain
	case "sync_every":
		into, most = &c.SyncEvery, hardware.MaxSyncEvery
	}
	if err = intInto(p, into, int64(most)); err == nil && *into < 2 {
		err = fmt.Errorf("%d is not written: leave the key out", *into)
	}
	return err
}

// bandwidth reads a bandwidth in whole bytes a second that is not the default one.
func (p *parser) bandwidth(into *unit.Bandwidth) error {
	var bytes unit.Bytes
	err := stated(p, &bytes, int64(hardware.MaxNetworkBandwidth))
	if *into = unit.Bandwidth(bytes); err == nil {
		err = checkNetwork(*into)
	}
	return err
}

// named reads the name of a value that is not the default one.
func named[T comparable](p *parser, parse func(string) (T, error)) (value T, err error) {
	value, err = parsed(p, parse)
	var unstated T
	if err == nil && value == unstated {
		err = fmt.Errorf("%v is not written: leave the key out", value)
	}
	return value, err
}

// parsed reads the name of a value.
func parsed[T any](p *parser, parse func(string) (T, error)) (value T, err error) {
	name, err := p.text()
	if err == nil {
		value, err = parse(name)
	}
	return value, err
}

// The last two keys of a device are optional.
var deviceKeys = []string{"device", "shards", "dim_sum", "forward_ms", "forward_comm_ms", "backward_comm_ms", "backward_ms", "total_ms", "memory", "forward_hidden_ms", "backward_hidden_ms"}

func (p *parser) device(i int) (d Device, err error) {
	var number int
	var total unit.Millis
	err = p.object(deviceKeys, 2, func(key string) (err error) {
		switch key {
		case "device":
			err = intInto(p, &number, hardware.MaxDevices)
		case "shards":
			err = intInto(p, &d.Shards, maxCount)
		case "dim_sum":
			err = intInto(p, &d.DimSum, maxCount)
		case "forward_ms":
			d.Forward, err = p.time()
		case "forward_comm_ms":
			d.ForwardComm, err = p.time()
		case "backward_comm_ms":
			d.BackwardComm, err = p.time()
		case "backward_ms":
			d.Backward, err = p.time()
		case "forward_hidden_ms":
			d.ForwardHidden, err = p.some()
		case "backward_hidden_ms":
			d.BackwardHidden, err = p.some()
		case "total_ms":
			total, err = p.time()
		case "memory":
			err = p.memory(&d.Memory)
		}
		return within(key, err)
	})
	if err != nil {
		return d, err
	}
	if number != i {
		return d, fmt.Errorf("device: %d is out of order, here is the place of %d", number, i)
	}
	return d, first(checkTime("total_ms", d.Total()), sum(&d, total))
}

// The last two keys of a device's memory are optional.
var memoryKeys = []string{"weights_bytes", "optimizer_bytes", "outputs_bytes", "gradients_bytes", "indices_bytes", "received_bytes", "reserve_bytes", "cache_bytes", "host_bytes"}

func (p *parser) memory(m *problem.Memory) error {
	lines := []*unit.Bytes{&m.Weights, &m.Optimizer, &m.Outputs, &m.Gradients, &m.Indices, &m.Received, &m.Reserve, &m.Cache, &m.Host}
	return p.object(memoryKeys, 2, func(key string) error {
		line := lines[slices.Index(memoryKeys, key)]
		if line == &m.Cache || line == &m.Host {
			return within(key, stated(p, line, maxBytes))
		}
		return within(key, intInto(p, line, maxBytes))
	})
}

// The last six keys of a table are optional; precision and optimizer are stated together.
var tableKeys = []string{"name", "rows", "dim", "kind", "shards", "module", "operator", "precision", "optimizer", "pooling", "vectors"}

func (p *parser) table() (t Table, err error) {
	stating := 0
	err = p.object(tableKeys, 6, func(key string) (err error) {
		switch key {
		case "name":
			t.Name, err = p.text()
		case "module":
			if t.Module, err = p.text(); err == nil && t.Module == "" {
				err = errors.New("an empty one is not written: leave the key out")
			}
		case "rows":
			err = intInto(p, &t.Rows, problem.MaxRows)
		case "dim":
			err = intInto(p, &t.Dim, problem.MaxDim)
		case "kind":
			t.ShardingType, err = word(p, checkShardingType, shardingTypes...)
		case "operator":
			err = stated(p, &t.Operator, problem.Operators-1)
		case "precision", "optimizer":
			stating++
			err = p.format(&t, key)
		case "pooling":
			t.Sequence, err = p.sequence()
		case "vectors":
			t.Vectors, err = p.above0(maxVectors)
		case "shards":
			err = p.array(MaxShards, func(int) error {
				s, err := p.shard()
				t.Shards = append(t.Shards, s)
				return err
			})
		}
		return within(key, err)
	})
	if t.Stated = stating == 2; err == nil && stating == 1 {
		err = errors.New(`it has one of "precision" and "optimizer": state both or neither`)
	}
	return t, err
}

// The last three keys of a shard are optional, and device and replicated exclude
// each other.
var shardKeys = []string{"columns", "rows", "tier", "device", "replicated", "cache_share"}

func (p *parser) shard() (s Shard, err error) {
	holders := 0
	err = p.object(shardKeys, 3, func(key string) (err error) {
		switch key {
		case "columns":
			s.Columns, err = p.interval(problem.MaxDim)
		case "rows":
			s.Rows, err = p.interval(problem.MaxRows)
		case "tier":
			s.Tier, err = word(p, checkTier, tiers...)
		case "device":
			holders++
			err = intInto(p, &s.Device, hardware.MaxDevices)
		case "replicated":
			holders++
			var yes bool
			yes, err = p.bool()
			s.Device = replicated
			if err == nil && !yes {
				err = errors.New("false is not written: leave the key out and name the device")
			}
		case "cache_share":
			s.Cache, err = p.share()
		}
		return within(key, err)
	})
	if err == nil && holders != 1 {
		err = errors.New(`it has neither or both of "device" and "replicated": write one`)
	}
	if err == nil {
		err = checkCache(&s)
	}
	return s, err
}

// interval reads [start, end].
func (p *parser) interval(limit int64) (problem.Range, error) {
	var ends [2]int64
	n := 0
	err := p.array(2, func(i int) (err error) {
		n++
		ends[i], err = p.int(limit)
		return err
	})
	r := problem.Range{Start: ends[0], End: ends[1]}
	switch {
	case err != nil:
		return r, err
	case n != 2:
		return r, fmt.Errorf("a range has 2 numbers, not %d", n)
	case r.End <= r.Start:
		return r, fmt.Errorf("[%d,%d] is not a range: it ends where it starts or before", r.Start, r.End)
	}
	return r, nil
}

// The last three keys of a provenance are optional.
var provenanceKeys = []string{"tool", "version", "method", "seed", "status", "model", "input", "warnings", "hidden", "hierarchy", "policy"}

func (p *parser) provenance(v *Provenance) error {
	return p.object(provenanceKeys, 3, func(key string) (err error) {
		switch key {
		case "tool":
			v.Tool, err = p.text()
		case "version":
			v.Version, err = p.text()
		case "method":
			v.Method, err = p.text()
		case "seed":
			v.Seed, err = p.seed()
		case "status":
			if v.Status, err = p.text(); err == nil {
				err = checkStatus(v.Status)
			}
		case "model":
			v.Model, err = p.text()
		case "input":
			v.Input, err = p.text()
		case "hidden":
			v.Hidden, err = p.hidden()
		case "hierarchy":
			v.Hierarchy, err = p.hierarchy()
		case "policy":
			if v.Policy, err = p.text(); err == nil && v.Policy == "" {
				err = errors.New("the id is empty: leave the key out")
			}
		case "warnings":
			err = p.array(MaxWarnings, func(int) error {
				warning, err := p.text()
				v.Warnings = append(v.Warnings, warning)
				return err
			})
		}
		return within(key, err)
	})
}

var hiddenKeys = []string{"forward_ms", "backward_ms", "replicas"}

func (p *parser) hidden() (h Hidden, err error) {
	err = p.object(hiddenKeys, 0, func(key string) (err error) {
		switch key {
		case "forward_ms":
			h.Forward, err = p.time()
		case "backward_ms":
			h.Backward, err = p.time()
		case "replicas":
			h.Replicas, err = p.bool()
		}
		return within(key, err)
	})
	if err == nil && h == (Hidden{}) {
		err = errors.New("nothing is hidden: leave the key out")
	}
	return h, err
}

var hierarchyKeys = []string{"sent_share", "inside_factor", "between_factor", "latency_ms"}

func (p *parser) hierarchy() (h problem.Hierarchy, err error) {
	err = p.object(hierarchyKeys, 0, func(key string) (err error) {
		switch key {
		case "sent_share":
			h.Sent, err = p.factor()
		case "inside_factor":
			h.Inside, err = p.factor()
		case "between_factor":
			h.Between, err = p.factor()
		case "latency_ms":
			h.Latency, err = p.time()
		}
		return within(key, err)
	})
	if err == nil {
		err = h.Check()
	}
	return h, err
}

// object reads an object whose keys are all of keys, each once; the last few are
// optional. It calls value to read each key's value.
func (p *parser) object(keys []string, optional int, value func(key string) error) error {
	o := p.json.Object("", keys)
	if err := p.each(o, value); err != nil {
		return err
	}
	for _, key := range keys[:len(keys)-optional] {
		if !o.Has(key) {
			return fmt.Errorf("key %q is missing", key)
		}
	}
	return nil
}

// eachKey reads an object of the known keys, or of any if known is nil, and calls
// value to read the value of each.
func (p *parser) eachKey(known []string, value func(key string) error) error {
	return p.each(p.json.Object("", known), value)
}

func (p *parser) each(o *strictjson.ObjectReader, value func(key string) error) error {
	for key := range o.Keys() {
		if err := value(key); err != nil {
			return err
		}
	}
	return p.err
}

// array reads an array of at most limit elements, and calls element to read each.
func (p *parser) array(limit int, element func(i int) error) error {
	for i := range p.json.List("") {
		if i == limit {
			return fmt.Errorf("there are more than %d elements", limit)
		}
		if err := element(i); err != nil {
			return within("["+strconv.Itoa(i)+"]", err)
		}
	}
	return p.err
}

func (p *parser) text() (string, error) {
	s, _ := p.json.Text("")
	return s, p.err
}

// word reads one of the known words, and returns it rather than a copy: a plan
// may have a million of them. check says what is wrong with any other.
func word[T ~string](p *parser, check func(T) error, known ...T) (T, error) {
	text, err := p.text()
	if err != nil {
		return "", err
	}
	if i := slices.Index(known, T(text)); i >= 0 {
		return known[i], nil
	}
	return "", check(T(text))
}

func (p *parser) bool() (bool, error) {
	b, _ := p.json.Bool("")
	return b, p.err
}

func (p *parser) number() (string, error) {
	n, _ := p.json.Number("", "a number")
	return n, p.err
}

// int reads a whole number between 0 and limit.
func (p *parser) int(limit int64) (int64, error) {
	text, err := p.number()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 || v > limit {
		return 0, fmt.Errorf("%s is not a whole number between 0 and %d", brief(text), limit)
	}
	return v, nil
}

// intInto reads a whole number between 0 and limit into v.
func intInto[T ~int | ~int64 | ~uint8](p *parser, v *T, limit int64) error {
	n, err := p.int(limit)
	*v = T(n)
	return err
}

// stated reads a whole number, at least one, into v: 0 is not written.
func stated[T ~int64 | ~uint8](p *parser, v *T, limit int64) error {
	err := intInto(p, v, limit)
	if err == nil && *v == 0 {
		err = errors.New("0 is not written: leave the key out")
	}
	return err
}

// format reads the precision or the optimizer of a table.
func (p *parser) format(t *Table, key string) (err error) {
	if key == "precision" {
		t.Precision, err = parsed(p, problem.ParsePrecision)
	} else {
		t.Optimizer, err = parsed(p, problem.ParseOptimizer)
	}
	return err
}

// sequence reads the pooling of a table, which is stated for PoolingNone only.
func (p *parser) sequence() (bool, error) {
	text, err := p.text()
	if err == nil && text != problem.PoolingNone.String() {
		err = fmt.Errorf("%s is not written: write %q, or leave the key out", brief(text), problem.PoolingNone.String())
	}
	return err == nil, err
}

// above0 reads a number above 0 and at most the given one.
func (p *parser) above0(most int) (float64, error) {
	text, err := p.number()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0 && v <= float64(most)) {
		return 0, fmt.Errorf("%s is not a number above 0 and at most %d", brief(text), most)
	}
	return v, nil
}

// share reads a number above 0 and below 1.
func (p *parser) share() (float64, error) {
	text, err := p.number()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0 && v < 1) {
		return 0, fmt.Errorf("%s is not a number above 0 and below 1", brief(text))
	}
	return v, nil
}

// seed reads a whole number of 64 bits.
func (p *parser) seed() (uint64, error) {
	text, err := p.number()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a whole number between 0 and 2^64-1", brief(text))
	}
	return v, nil
}

// time reads a finite number of at least 0.
func (p *parser) time() (unit.Millis, error) {
	text, err := p.number()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !valid(unit.Millis(v)) {
		return 0, fmt.Errorf("%s is not a finite number of at least 0", brief(text))
	}
	return unit.Millis(v + 0), nil // -0 becomes 0
}

// factor reads a finite number above 0.
func (p *parser) factor() (float64, error) {
	v, err := p.time()
	if err == nil && v == 0 {
		err = errors.New("0 is not a finite number above 0")
	}
	return float64(v), err
}

// some reads a time that is only written if it is above 0.
func (p *parser) some() (unit.Millis, error) {
	ms, err := p.time()
	if err == nil && ms == 0 {
		err = errors.New("0 is not written: leave the key out")
	}
	return ms, err
}

// describe names a value in an error.
func describe(found strictjson.Found) string {
	switch found.Type {
	case strictjson.Null:
		return "null"
	case strictjson.Object, strictjson.List:
		return strconv.Quote(string(found.Type))
	}
	return brief(found.Text)
}

// placeError is an error with the place it belongs to, such as tables[3].rows.
type placeError struct {
	place string
	err   error
}

func (e *placeError) Error() string { return e.place + ": " + e.err.Error() }
func (e *placeError) Unwrap() error { return e.err }

// within puts a key, or an index in brackets, in front of an error's place.
func within(place string, err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case *placeError:
		if !strings.HasPrefix(e.place, "[") {
			place += "."
		}
		return &placeError{place + e.place, e.err}
	}
	return &placeError{place, err}
}
