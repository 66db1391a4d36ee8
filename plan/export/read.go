package export

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/neuroshard/neuroshard/internal/strictjson"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/unit"
)

// read.go reads ShardingPlans: files that the function TorchRec wrote, and {"plan": ...}
// as a ShardingPlan serializes itself. It reads token by token, so that it needs little
// more memory than the file has bytes. It reports every fault with its place, such as
// plan["sparse.ebc"]["user"].shards[2].placement. It continues after a value of the wrong
// type, and stops after broken syntax.

// MaxFile is the size above which a file is refused.
const MaxFile = plan.MaxFile

// The limits of a file.
const (
	maxName   = 1 << 16 // bytes of a module's path and of a table's name
	maxDepth  = 100     // of values that are skipped
	maxErrors = 1000
	// maxCounted is the number of errors after which reading stops.
	maxCounted = 100_000
)

// File is a ShardingPlan as read from a file.
type File struct {
	// Name is the file's name in errors.
	Name string
	// World is the number of ranks and Local the number of ranks of a full host; 0 if
	// the file does not state it.
	World, Local int
	// Cluster is the cluster that a plan of ours was made for; nil in other files.
	Cluster *plan.Cluster
	// Tables are the placed tables, in the file's order; nil for a file of HugeCTR, whose tables
	// have no shapes until Place knows them. Each has a unique name: the
	// module's path precedes names that two modules have. Rows and Dim are 0 for a
	// data-parallel table whose shape the file does not state; its one shard is then
	// empty.
	Tables []plan.Table
	// Notes say which words were read as other words with the same meaning.
	Notes []string

	// local holds the name of each table in its module.
	local []string
	// numbered is above 0 if Local was derived from the numbers of devices; a host then
	// has at least numbered devices. Local is too large if some hosts hold nothing.
	numbered int
	// dealt holds the tables of a file of HugeCTR, which has no shapes.
	dealt []dealt
}

// ReadTorchRec reads a ShardingPlan. It fails with an *input.Errors that has every fault
// of the file.
//
// The shards of the File cover each table exactly once, in shapes that fit its
// sharding type, on ranks below World if World is known.
func ReadTorchRec(name string, r io.Reader) (*File, error) {
	p := &reader{file: name, form: torchRecForm}
	var f *File
	if p.load(r) {
		f = p.read()
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return f, nil
}

// form is the form of a file that this program writes for an engine.
type form struct {
	format  string
	version int
	// object names the file's value, and end is what the file ends in the middle of.
	object, end string
	// write and give are hints: how to write such a file, and which files are read.
	write, give string
}

var torchRecForm = form{
	format: TorchRecFormat, version: TorchRecVersion,
	object: "an object with the key \"plan\"", end: "the plan", write: "write it with json.dump(plan._serialize(), file)",
	give: "give a file of neuroshard export --to torchrec, or a serialized ShardingPlan",
}

// load reads the bytes of the file. It returns false, with a fault reported, if they are no text.
func (p *reader) load(r io.Reader) bool {
	data, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	switch {
	case err != nil:
		p.addAt(0, "", "", "it cannot be read: %v", err)
	case len(data) > MaxFile:
		p.addAt(0, "", "", "the file is larger than %d bytes", MaxFile)
	case !utf8.Valid(data):
		p.addAt(0, "", "is this the right file?", "it is not UTF-8 text")
	default:
		p.data = data
	}
	return p.count == 0
}

// err returns nil, or an *input.Errors with the faults reported.
func (p *reader) err() error {
	if p.count == 0 {
		return nil
	}
	return &input.Errors{List: p.errors, More: p.count - len(p.errors)}
}

// entry is one table as it stands in the file.
type entry struct {
	module, table      string
	line               int
	shardingType       plan.ShardingType
	tier               plan.Tier
	cache              float64 // the load factor of a cache; 0: not stated
	operator           problem.Operator
	typeName, kernel   string
	ranks              []int
	hasRanks, hasShard bool
	shards             []shard
	bad                bool // a part of the entry could not be read
}

type shard struct {
	offsets, sizes [2]int64
	// rank and device are those of the placement; rank is -1 if there is no placement,
	// device is -1 if the placement names no number.
	rank, device int
}

// reader reads a file and collects its faults.
type reader struct {
	file   string
	form   form
	data   []byte
	json   *strictjson.Reader
	path   []string
	errors []input.Error
	count  int

	entries []entry
	shapes  map[[2]string][2]int64
	shaped  [][2]string // the keys of shapes, in the file's order
	out     File
}

// add reports a fault where the reader is.
func (p *reader) add(hint, format string, args ...any) {
	p.addAt(p.json.Line(), strings.Join(p.path, ""), hint, format, args...)
}

// addAt reports a fault at a place.
func (p *reader) addAt(line int, place, hint, format string, args ...any) {
	if p.count++; len(p.errors) == maxErrors {
		return
	}
	message := fmt.Sprintf(format, args...)
	if place = strings.TrimPrefix(place, "."); place != "" {
		message = place + ": " + message
	}
	p.errors = append(p.errors, input.Error{File: p.file, Line: line, Message: message, Hint: hint})
}

// start begins the reading of the file.
func (p *reader) start() {
	p.json = strictjson.New(bufio.NewReader(bytes.NewReader(p.data)), p, strictjson.Options{Depth: maxDepth})
	p.path = nil
}

// Broken reports broken syntax.
func (p *reader) Broken(e strictjson.SyntaxError) {
	place := strings.Join(p.path, "")
	if e.Ended {
		p.addAt(e.Line, place, "write or copy the file again", "the file ends in the middle of %s", p.form.end)
		return
	}
	p.addAt(e.Line, place, p.form.write, "this is not valid JSON: %s", e.Message)
}

// Mistyped reports a value of the wrong type.
func (p *reader) Mistyped(what, _ string, found strictjson.Found) {
	shown := "an object"
	switch found.Type {
	case strictjson.Null:
		shown = "null"
	case strictjson.Bool:
		shown = "true or false"
	case strictjson.Number:
		shown = "the number " + quote(found.Text)
	case strictjson.String:
		shown = "the text " + quote(found.Text)
	case strictjson.List:
		shown = "a list"
	}
	p.addAt(found.Line, strings.Join(p.path, ""), "", "%s where %s belongs", shown, what)
}

// Twice reports a key that occurs twice.
func (p *reader) Twice(_ *strictjson.ObjectReader, key string) {
	p.add("keep one of them", "the key %s is there twice", quote(key))
}

// Unknown is not called: the objects here allow any keys and judge them.
func (p *reader) Unknown(*strictjson.ObjectReader, string) {}

// stop reports what ends the reading, where the reader is.
func (p *reader) stop(format string, args ...any) {
	if !p.json.Failed() {
		p.json.Stop()
		p.add("", format, args...)
	}
}

// null takes a null if it comes next.
func (p *reader) null() bool {
	if p.json.Next() != strictjson.Null {
		return false
	}
	p.json.Skip()
	return !p.json.Failed()
}

// object reads an object, calling value for the value of each key; null is an
// empty one where that is allowed. A key that is there twice is reported and
// skipped.
func (p *reader) object(what string, null bool, value func(key string)) bool {
	if null && p.null() {
		return true
	}
	o := p.json.Object(what, nil)
	for key := range o.Keys() {
		value(key)
	}
	return o.Opened() && !p.json.Failed()
}

// array reads a list of at most limit elements.
func (p *reader) array(what string, null bool, limit int, element func(i int)) bool {
	if null && p.null() {
		return true
	}
	if !p.json.Want(strictjson.List, what, "a list") {
		return false
	}
	for i := range p.json.List(what) {
		if i == limit {
			p.stop("there are more than %d elements", limit)
			return false
		}
		p.in("["+strconv.Itoa(i)+"]", func() { element(i) })
	}
	return !p.json.Failed()
}

// in runs read with a step more in the path.
func (p *reader) in(step string, read func()) {
	p.path = append(p.path, step)
	read()
	p.path = p.path[:len(p.path)-1]
}

// text reads a string.
func (p *reader) text(what string) (string, bool) { return p.json.Text(what) }

// whole reads a whole number from 0 to limit.
func (p *reader) whole(what string, limit int64) (int64, bool) {
	n, ok := p.json.Number(what, what)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseInt(n, 10, 64)
	if err != nil || v < 0 || v > limit {
		p.add("", "%s is not a whole number from 0 to %d", quote(n), limit)
		return 0, false
	}
	return v, true
}

// The keys of a file of ours; a bare plan has the one of plan alone.
var fileKeys = []string{"format", "version", "world_size", "local_size", "accelerator", "plan", "shapes", "cluster", "provenance"}

// read reads the file, and what it means.
func (p *reader) read() *File {
	ours, ok := p.header()
	if !ok {
		return nil
	}
	p.start()
	p.shapes = map[[2]string][2]int64{}
	planned := false
	p.object("an object with the key \"plan\"", false, func(key string) {
		p.in("."+key, func() {
			switch {
			case key == "plan":
				planned = true
				p.plan()
			case !ours:
				p.add(`a ShardingPlan serializes to {"plan": ...}`, "the key is unknown")
				p.json.Skip()
			default:
				p.ourKey(key)
			}
		})
	})
	if p.path = nil; !p.json.Failed() {
		p.end()
	}
	if p.json.Failed() {
		return nil
	}
	if !planned {
		p.path = nil
		p.add(p.form.write, "the key \"plan\" is missing")
		return nil
	}
	if p.path = nil; ours && p.count == 0 && (p.out.World == 0 || p.out.Local == 0) {
		p.addAt(0, "", "export the plan again", "world_size or local_size is missing or 0")
	}
	return p.interpret()
}

// end wants nothing after the end of the plan.
func (p *reader) end() {
	if p.json.Next() != strictjson.None {
		p.stop("there is more after the end of %s", p.form.end)
		return
	}
	p.json.End()
}

// header looks for format and version among the keys of the file, wherever they
// are. ours is true of a file of the form that this program writes.
func (p *reader) header() (ours, ok bool) {
	p.start()
	format, version, hasFormat, hasVersion := "", "", false, false
	p.object(p.form.object, false, func(key string) {
		switch key {
		case "format":
			format, hasFormat = p.shown(), true
		case "version":
			version, hasVersion = p.shown(), true
		default:
			p.json.Skip()
		}
	})
	if p.count > 0 {
		return false, false
	}
	want, shown := strconv.Itoa(p.form.version), version
	if _, err := strconv.Atoi(version); err != nil {
		shown = quote(version)
	}
	switch {
	case !hasFormat:
		return false, true
	case format == plan.Format:
		p.addAt(0, "", "neuroshard show and diff read it as it is", "this is a plan of neuroshard already")
	case format == HugeCTRFormat && p.form.format != HugeCTRFormat:
		p.addAt(0, "", "import it with --from hugectr and --tables", "this is an export for HugeCTR")
	case format == TorchRecFormat && p.form.format != TorchRecFormat:
		p.addAt(0, "", "import it without --from, or with --from torchrec", "this is an export for TorchRec")
	case format != p.form.format:
		p.addAt(0, "", p.form.give, "the format is %s, not %q", quote(format), p.form.format)
	case !hasVersion:
		p.addAt(0, "", "", "the key \"version\" is missing: known is version %s", want)
	case version != want:
		p.addAt(0, "", "export the plan again, or read it with a program that knows the version", "the file has version %s of its format: this program knows version %s only", shown, want)
	}
	return true, p.count == 0
}

// shown reads any value as what an error shows of it.
func (p *reader) shown() string {
	switch kind := p.json.Next(); kind {
	case strictjson.String:
		text, _ := p.json.Text("")
		return text
	case strictjson.Number:
		text, _ := p.json.Number("", "")
		return text
	default:
		p.json.Skip()
		return string(kind)
	}
}

// ourKey reads a key beside the plan.
func (p *reader) ourKey(key string) {
	switch key {
	case "format", "version", "accelerator", "provenance":
		p.json.Skip() // header has looked at the first two; the others do not place tables
	case "world_size":
		n, _ := p.whole("the number of ranks", hardware.MaxDevices)
		p.out.World = int(n)
	case "local_size":
		n, _ := p.whole("the number of ranks of a host", hardware.MaxDevices)
		p.out.Local = int(n)
	case "shapes":
		p.shapesOf()
	case "cluster":
		p.cluster()
	default:
		p.add("known: "+strings.Join(fileKeys, ", "), "the key is unknown")
		p.json.Skip()
	}
}

// shapesOf reads rows and columns by module and table.
func (p *reader) shapesOf() {
	p.object("the shapes by module", false, func(module string) {
		p.in("["+quote(module)+"]", func() {
			p.object("the shapes by table", false, func(table string) {
				p.in("["+quote(table)+"]", func() {
					if shape, ok := p.pair("rows and columns"); ok {
						k := [2]string{module, table}
						p.shapes[k] = shape
						p.shaped = append(p.shaped, k)
					}
				})
			})
		})
	})
}

// pair reads two whole numbers: rows, then columns.
func (p *reader) pair(what string) (pair [2]int64, ok bool) {
	n, before := 0, p.count
	read := p.array(what, false, 2, func(i int) {
		limit := int64(problem.MaxRows)
		if i == 1 {
			limit = problem.MaxDim
		}
		pair[i], _ = p.whole("a whole number", limit)
		n++
	})
	if read && n != 2 {
		p.add("", "it has %d numbers, not 2: rows, then columns", n)
	}
	return pair, read && p.count == before
}

// cluster reads the cluster of a plan of ours.
func (p *reader) cluster() {
	c := &plan.Cluster{}
	required := 0
	read := p.object("a cluster", false, func(key string) {
		p.in("."+key, func() {
			if p.clusterKey(c, key) {
				required++
			}
		})
	})
	if read && required < 7 {
		p.add("", "a cluster has profile, devices, devices_per_host, batch, device_memory_bytes, reserve_bytes and weights_only")
	}
	p.out.Cluster = c
}

// torchRec reads the value of a key that says that TorchRec counts the bytes.
func (p *reader) torchRec(c *plan.Cluster, key string) {
	if key == "torchrec_bytes" {
		c.TorchRecBytes, _ = p.json.Bool("true or false")
		return
	}
	release, ok := p.text("a release of TorchRec")
	if _, known := problem.ReleaseOfTorchRec(release); ok && !known {
		p.add("", "the estimators of TorchRec %s are not known", quote(release))
	}
	c.TorchRecRelease = release
}

// sizes reads a list of sizes.
func (p *reader) sizes() (list []unit.Bytes) {
	p.array("a list of sizes", false, hardware.MaxDevices, func(int) {
		n, _ := p.whole("a number of bytes", 1<<62)
		list = append(list, unit.Bytes(n))
	})
	return list
}

// share reads a share above 0 and below 1.
func (p *reader) share() float64 {
	n, ok := p.json.Number("a share above 0 and below 1", "")
	v, err := strconv.ParseFloat(n, 64)
	if ok && (err != nil || !(v > 0 && v < 1)) {
		p.add("", "%s is not a number above 0 and below 1", quote(n))
	}
	return v
}

// multiplier reads a factor in TorchRec's formulas.
func (p *reader) multiplier(into *float64) {
	n, ok := p.json.Number(fmt.Sprintf("a number above 0 and at most %d", hardware.MaxMultiplier), "")
	v, err := strconv.ParseFloat(n, 64)
	if ok && (err != nil || !(v > 0 && v <= hardware.MaxMultiplier)) {
		p.add("", "%s is not a number above 0 and at most %d", quote(n), hardware.MaxMultiplier)
	}
	*into = v
}

// estimate reads the value of a key of a cluster that only estimates depend on: a bandwidth or a
// multiplier.
func (p *reader) estimate(c *plan.Cluster, key string) {
	into := &c.NetworkBandwidth
	switch key {
	case "backward_multiplier":
		p.multiplier(&c.BackwardMultiplier)
		return
	case "weighted_backward_multiplier":
		p.multiplier(&c.WeightedBackwardMultiplier)
		return
	case "link_bytes_per_second":
		into = &c.LinkBandwidth
	case "hbm_bytes_per_second":
		into = &c.HBMBandwidth
	case "host_link_bytes_per_second":
		into = &c.HostLinkBandwidth
	}
	bytes, _ := p.whole("a number of bytes a second", int64(hardware.MaxNetworkBandwidth))
	*into = unit.Bandwidth(bytes)
}

// clusterKey reads the value of a key of a cluster, and reports whether it is one
// that every cluster has.
func (p *reader) clusterKey(c *plan.Cluster, key string) (required bool) {
	whole := func(v *int, limit int64) {
		n, _ := p.whole("a whole number", limit)
		*v = int(n)
	}
	size := func(v *unit.Bytes) {
		n, _ := p.whole("a number of bytes", 1<<62)
		*v = unit.Bytes(n)
	}
	switch key {
	case "profile":
		c.Profile, _ = p.text("a profile's name")
	case "devices":
		whole(&c.Devices, hardware.MaxDevices)
	case "devices_per_host":
		whole(&c.DevicesPerHost, hardware.MaxDevices)
	case "batch":
		whole(&c.Batch, problem.MaxBatch)
	case "device_memory_bytes":
		size(&c.DeviceMemory)
	case "reserve_bytes":
		size(&c.Reserve)
	case "weights_only":
		c.WeightsOnly, _ = p.json.Bool("true or false")
	case "host_memory_bytes":
		size(&c.HostMemory)
		return false
	case "comm_precision":
		c.CommPrecision = p.precision()
		return false
	case "engine":
		c.Engine = p.engine()
		return false
	case "lanes":
		c.LaneRule = p.laneRule()
		return false
	case "network_bytes_per_second", "link_bytes_per_second", "hbm_bytes_per_second", "host_link_bytes_per_second", "backward_multiplier", "weighted_backward_multiplier":
		p.estimate(c, key)
		return false
	case "nvlink_domain":
		whole(&c.NVLinkDomain, hardware.MaxDevices)
		return false
	case "torchrec_bytes", "torchrec_release":
		p.torchRec(c, key)
		return false
	default:
		p.differing(c, key)
		return false
	}
	return true
}

// differing reads the value of a key of devices or hosts that differ, or of a cluster's sharding
// groups.
func (p *reader) differing(c *plan.Cluster, key string) {
	switch key {
	case "device_memories_bytes":
		c.DeviceMemories = p.sizes()
	case "host_memories_bytes":
		c.HostMemories = p.sizes()
	case "reserve_share":
		c.ReserveShare = p.share()
	default:
		p.replicaKey(c, key)
	}
}

// replicaKey reads the value of a key of a cluster's sharding groups.
func (p *reader) replicaKey(c *plan.Cluster, key string) {
	into, most := &c.Replicas, hardware.MaxDevices
	switch key {
	case "replicas":
	case "replicas_per_host":
		into = &c.ReplicasPerHost
	case "replicas_per_domain":
		into = &c.ReplicasPerDomain
	case "sync_every":
		into, most = &c.SyncEvery, hardware.MaxSyncEvery
	case "inter_host_allreduce":
		c.InterHostAllReduce, _ = p.json.Bool("true or false")
		return
	default:
		p.add("", "the key is unknown")
		p.json.Skip()
		return
	}
	n, _ := p.whole("a whole number", int64(most))
	*into = int(n)
}

// laneRule reads a lane rule's name.
func (p *reader) laneRule() problem.LaneRule {
	name, ok := p.text("a lane rule's name")
	if !ok {
		return 0
	}
	rule, err := problem.ParseLaneRule(name)
	if err != nil {
		p.add("", "%v", err)
	}
	return rule
}

// precision reads a precision's name.
func (p *reader) precision() problem.Precision {
	name, ok := p.text("a precision's name")
	if !ok {
		return 0
	}
	precision, err := problem.ParsePrecision(name)
	if err != nil {
		p.add("", "%v", err)
	}
	return precision
}

func (p *reader) engine() problem.Engine {
	name, ok := p.text("an engine's name")
	if !ok {
		return ""
	}
	engine, err := problem.ParseEngine(name)
	if err != nil {
		p.add("", "%v", err)
	}
	return engine
}

func (p *reader) plan() {
	p.object("the tables by module", false, func(module string) {
		p.in("["+quote(module)+"]", func() {
			if len(module) > maxName {
				p.add("", "the path of the module has more than %d bytes", maxName)
			}
			p.object("the module's tables", false, func(table string) {
				p.in("["+quote(table)+"]", func() { p.table(module, table) })
			})
		})
	})
}

// otherKeys are the keys of a ParameterSharding that do not place a table.
var otherKeys = []string{"enforce_hbm", "stochastic_rounding", "bounds_check_mode", "output_dtype", "key_value_params"}

func (p *reader) table(module, table string) {
	if len(p.entries) == problem.MaxTables {
		p.stop("there are more than %d tables", problem.MaxTables)
		return
	}
	if p.count >= maxCounted {
		p.stop("there are more than %d errors: the rest of the file was not read", maxCounted)
		return
	}
	before := p.count
	e := entry{module: module, table: table, line: p.json.Line()}
	switch {
	case table == "":
		p.add("", "the table has no name")
	case len(table) > maxName:
		p.add("", "the table's name has more than %d bytes", maxName)
	}
	var hasType, hasKernel bool
	read := p.object("a table's sharding", false, func(key string) {
		hasType = hasType || key == "sharding_type"
		hasKernel = hasKernel || key == "compute_kernel"
		p.in("."+key, func() { p.tableKey(&e, key) })
	})
	if read && !hasType {
		p.add("", "the key \"sharding_type\" is missing")
	}
	if read && !hasKernel {
		p.add("", "the key \"compute_kernel\" is missing")
	}
	e.bad = !read || p.count > before
	p.entries = append(p.entries, e)
}

// tableKey reads the value of a key of a table's sharding.
func (p *reader) tableKey(e *entry, key string) {
	switch key {
	case "sharding_type":
		p.shardingType(e)
	case "compute_kernel":
		p.kernel(e)
	case "ranks":
		p.array("a list of ranks", true, plan.MaxShards, func(int) {
			rank, _ := p.whole("a rank", hardware.MaxDevices-1)
			e.ranks, e.hasRanks = append(e.ranks, int(rank)), true
		})
	case "shards":
		p.shards(e)
	case "cache_params":
		p.cache(e)
	case "operator":
		n, _ := p.whole("the number of an operator", problem.Operators-1)
		e.operator = problem.Operator(n)
	case "sharding_spec":
		p.object("a sharding_spec", true, func(key string) {
			if key != "shards" {
				p.json.Skip()
				return
			}
			p.in("."+key, func() { p.shards(e) })
		})
	default:
		if !slices.Contains(otherKeys, key) {
			p.add("known: sharding_type, compute_kernel, operator, ranks, shards", "the key is unknown")
		}
		p.json.Skip()
	}
}

// cache reads how much of a table is cached. It skips the other keys, which a plan
// does not keep, and a value that is no object.
func (p *reader) cache(e *entry) {
	if p.json.Next() != strictjson.Object {
		p.json.Skip()
		return
	}
	p.object("a table's cache_params", false, func(key string) {
		p.in("."+key, func() {
			if key != "load_factor" {
				p.json.Skip()
				return
			}
			if p.null() {
				return
			}
			n, ok := p.json.Number("the share of the rows that is cached", "")
			if !ok {
				return
			}
			v, err := strconv.ParseFloat(n, 64)
			if err != nil || !(v > 0) {
				p.add("it is the share of the rows that is cached, such as 0.2", "%s is not a number above 0", quote(n))
				return
			}
			e.cache = v
		})
	})
}

// Sharding types that plans call by another name.
const tableColumnWise = "table_column_wise"

func (p *reader) shardingType(e *entry) {
	name, ok := p.text("a sharding type")
	if !ok {
		return
	}
	if name == tableColumnWise {
		e.shardingType, e.typeName = plan.ColumnWise, tableColumnWise
		return
	}
	for shardingType, known := range shardingTypes {
		if known == name {
			e.shardingType, e.typeName = shardingType, known
			return
		}
	}
	p.add("known: table_wise, column_wise, table_column_wise, row_wise, table_row_wise, grid_shard, data_parallel", "sharding type %s is unknown", quote(name))
}

// refusedKernels are TorchRec's kernels that a plan cannot state, with the reason.
var refusedKernels = map[string]string{
	"quant": "it is for inference", "quant_uvm": "it is for inference", "quant_uvm_caching": "it is for inference",
	"key_value": "it keeps tables outside of the memory of devices and hosts", "ssd_virtual_table": "it keeps tables outside of the memory of devices and hosts",
	"dram_virtual_table": "its tables have no fixed rows", "dram_ssd_virtual_table": "its tables have no fixed rows",
	"customized_kernel": "nothing is known of it", "unfused_tpu": "it is not for GPUs",
}

func (p *reader) kernel(e *entry) {
	name, ok := p.text("a compute kernel")
	if !ok {
		return
	}
	for tier, known := range computeKernels {
		if known == name {
			e.tier, e.kernel = tier, known
			return
		}
	}
	switch why, known := refusedKernels[name]; {
	case name == denseKernel:
		e.tier, e.kernel = plan.HBM, denseKernel
	case name == fusedTriton:
		e.tier, e.kernel = plan.HBM, fusedTriton
	case known:
		p.add("kernels with a place in a plan: fused, fused_uvm, fused_uvm_caching, dense", "kernel %q has no place in a plan: %s", name, why)
	default:
		p.add("known: fused, fused_uvm, fused_uvm_caching, dense", "compute kernel %s is unknown", quote(name))
	}
}

// fusedTriton is a kernel for the same memory as fused.
const fusedTriton = "fused_triton"

func (p *reader) shards(e *entry) {
	if e.hasShard {
		p.add("keep one of shards and sharding_spec", "the shards are there twice")
	}
	p.array("a list of shards", true, plan.MaxShards, func(int) {
		e.hasShard = true
		s := shard{rank: -1, device: -1}
		var hasOffsets, hasSizes bool
		read := p.object("a shard", false, func(key string) {
			p.in("."+key, func() {
				switch key {
				case "shard_offsets":
					s.offsets, _ = p.pair("rows and columns")
					hasOffsets = true
				case "shard_sizes":
					s.sizes, _ = p.pair("rows and columns")
					hasSizes = true
				case "placement":
					p.placement(&s)
				default:
					p.add("known: shard_offsets, shard_sizes, placement", "the key is unknown")
					p.json.Skip()
				}
			})
		})
		if read && !(hasOffsets && hasSizes) {
			p.add("", "a shard has shard_offsets and shard_sizes")
		}
		e.shards = append(e.shards, s)
	})
}

// placement reads rank:3/cuda:1, rank:3/cpu, or nothing: null, or None as TorchRec
// writes it.
func (p *reader) placement(s *shard) {
	if p.null() {
		return
	}
	text, ok := p.json.Text("a placement")
	if !ok || text == "None" {
		return
	}
	worker, device, _ := strings.Cut(text, "/")
	number, ok := strings.CutPrefix(worker, "rank:")
	rank, err := strconv.Atoi(number)
	if !ok || err != nil || rank < 0 || rank >= hardware.MaxDevices {
		p.add("", `%s is not a placement such as "rank:3/cuda:1"`, quote(text))
		return
	}
	s.rank = rank
	kind, index, numbered := strings.Cut(device, ":")
	if !slices.Contains([]string{CUDA, CPU, "mtia", "tpu"}, kind) {
		p.add("", `%s is not a placement such as "rank:3/cuda:1" or "rank:3/cpu"`, quote(text))
		return
	}
	if numbered && kind != CPU {
		at, err := strconv.Atoi(index)
		if err != nil || at < 0 || at >= hardware.MaxDevices {
			p.add("", `%s is not a placement such as "rank:3/cuda:1"`, quote(text))
			return
		}
		s.device = at
	}
}

// place returns where an entry stands.
func (e *entry) place() string { return fmt.Sprintf("plan[%s][%s]", quote(e.module), quote(e.table)) }
