package input

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// topology.go has the fields of a cluster.

// TopologyFile is the content of a topology file.
type TopologyFile struct {
	// Name is the file's name, as it appears in errors.
	Name string
	// Cluster is what the file states. What the file leaves out is zero, for flags to
	// fill in.
	Cluster

	// step is what the file states of the whole training step.
	step   stepPart
	own    []hardware.Profile
	lines  map[string]int
	faulty bool
	// unread holds the keys whose values could not be read; veiled is set where
	// the file may state others that were not found, too.
	unread map[string]bool
	veiled bool
}

// What some fields of a cluster are, in hints, schemas and documents.
const (
	stepHint   = "step is a measured time with its unit, such as 3.9ms, which calibrates the rest of the step"
	loaderHint = "loader is what the input pipeline delivers to all devices, such as 20GB/s; no limit if left out"
	lengthHint = "sample_length_cv is the standard deviation of the lengths of samples over their mean; 0 if left out"
	priceHint  = "price is that of one device for an hour, such as 2.95"
)

// The kinds of a cluster's fields.
var (
	reserveShare = kind[float64]{func(r *report, n *node, hint string) (float64, bool) {
		share, ok := anyReal.read(r, n, hint)
		return hardware.ReserveShare(share), ok
	}, nil, anyReal.schema}
	// memories are a text as flags have it, or a list of sizes.
	memories = kind[oneByOne]{func(r *report, n *node, hint string) (oneByOne, bool) {
		list, sizes := []node{*n}, []string(nil)
		if n.kind == aList {
			list = n.list
		}
		for i := range list {
			text, ok := r.textOf(&list[i], "a size with its unit", hint)
			if !ok {
				return oneByOne{}, false
			}
			sizes = append(sizes, text)
		}
		m, err := hardware.ParseMemories(strings.Join(sizes, ","))
		if err != nil {
			r.add(n.line, n.key+": "+err.Error(), hint)
		}
		return oneByOne{memories: m, flag: n.kind == cell}, err == nil
	}, nil, nil}
	lengthCV = real[float64](func(v float64) string {
		if !(v >= 0 && v <= problem.MaxLengthCV) {
			return fmt.Sprintf("%v is not between 0 and %d", v, problem.MaxLengthCV)
		}
		return ""
	})
	price = kind[float64]{func(r *report, n *node, hint string) (float64, bool) {
		text := n.text
		if n.kind != aNumber {
			var ok bool
			if text, ok = r.text(n, hint); !ok {
				return 0, false
			}
		}
		price, err := parsePrice(text)
		if err != nil {
			r.add(n.line, n.key+": "+what(err), hint)
		}
		return price, err == nil
	}, nil, nil}
)

// clusterFields are the fields of a topology file: those of the cluster and those of the step.
var (
	clusterFields = numbered(append(clusterList(),
		&field[TopologyFile]{key: "dense", hint: "dense is the model's dense part: a preset, or its layers as below", read: readDense, copy: func(into, from *TopologyFile) { into.step.dense = from.step.dense }},
		&field[TopologyFile]{key: "stack", hint: "stack is the training system that runs the step: a preset, or its parts as below", read: readStack, copy: func(into, from *TopologyFile) { into.step.stack = from.step.stack }},
		at("step", quantity("a time with its unit", "ms", unit.ParseMillis), stepHint, func(t *TopologyFile) *unit.Millis { return &t.step.measured }),
		at("loader", bandwidth, loaderHint, func(t *TopologyFile) *unit.Bandwidth { return &t.step.loader }),
		at("sample_length_cv", lengthCV, lengthHint, func(t *TopologyFile) *float64 { return &t.step.lengthCV }),
		at("price", price, priceHint, func(t *TopologyFile) *float64 { return &t.step.price }),
	))
	clusterShape = shaped("a topology", clusterFields)
)

// clusterList returns the fields of the cluster, with what files and flags state in other ways than problems.
func clusterList() []*field[TopologyFile] {
	fields := listed(problem.ClusterFields(), func(t *TopologyFile) *problem.Problem { return &t.Problem })
	for _, f := range []*field[TopologyFile]{
		{key: "device", schema: schema{"type": "string"}, read: readProfile, copy: func(into, from *TopologyFile) { into.Topology.Profile = from.Topology.Profile }},
		at("device_memories", memories, "", func(t *TopologyFile) *oneByOne { return &t.devices }),
		at("host_memories", memories, "", func(t *TopologyFile) *oneByOne { return &t.hosts }),
		at("reserve_share", reserveShare, "", func(t *TopologyFile) *float64 { return &t.Topology.ReserveShare }),
		at("batch", whole[int](1, problem.MaxBatch), "", func(t *TopologyFile) *int { return &t.Batch }),
	} {
		at := slices.IndexFunc(fields, func(other *field[TopologyFile]) bool { return other.key == f.key })
		f.hint = fields[at].hint
		fields[at] = f
	}
	return fields
}

// clusterHint returns what a field of a cluster is, for hints.
func clusterHint(key string) string { return clusterFields[slices.Index(clusterShape.keys, key)].hint }

// Has reports whether the file states the key, such as "reserve_share".
func (f TopologyFile) Has(key string) bool { return f.lines[key] > 0 }

// fault returns an error about a key, at its line if the file states the key and no flag does.
func (f TopologyFile) fault(o Overrides, key, message, hint string) error {
	e := Error{Message: message, Hint: hint}
	if f.Has(key) && !o.Has(key) {
		e.File, e.Line = f.Name, f.lines[key]
	}
	return &Errors{List: []Error{e}}
}

// open reports whether the file may state the key, with a value that is not known.
func (f TopologyFile) open(key string) bool {
	return f.unread[key] || f.veiled && !f.Has(key)
}

// forgive replaces the open values that no flag stated either by valid ones. What is
// still wrong with t is then wrong for every value that the file may have meant.
func (f TopologyFile) forgive(t *hardware.Topology) {
	if t.Devices == 0 && f.open("devices") {
		t.Devices = hardware.MaxDevices
		t.DevicesPerHost = min(t.DevicesPerHost, 0) // perhaps they are all on one host
	}
	if t.Profile.Name == "" && f.open("device") {
		profiles := hardware.Profiles()
		t.Profile = profiles[len(profiles)-1] // it has a network between hosts
		t.Memory = cmp.Or(t.Memory, hardware.MaxMemory)
	}
	if f.open("memory") {
		t.Memory = cmp.Or(t.Memory, hardware.MaxMemory)
	}
	if f.open("host_memory") {
		t.HostMemory = cmp.Or(t.HostMemory, hardware.MaxMemory)
	}
	if f.open("reserve_share") && t.ReserveShare == 0 {
		t.ReserveShare = hardware.NoReserve
	}
}

// Topology reads a topology from YAML or JSON: an object with keys of clusterFields.
// No key is required. docs/FORMATS.md draws the file. Content that begins with "{" is JSON
// unless the name ends in .yaml or .yml. YAML aliases and anchors, several documents,
// and files above 1 MiB are refused.
//
// own are profiles that device may name beside those of package hardware: the
// device of a cost model that was measured on it.
//
// The error is nil or an *Errors with all that is wrong; beside it comes what
// could be read, for Check.
func Topology(name string, from io.Reader, own ...hardware.Profile) (TopologyFile, error) {
	t := TopologyFile{Name: name, own: own}
	r := &reading{report: &report{file: name}}
	root := r.root(name, clusterShape.what, from)
	readCluster(r, clusterShape, root, &t)
	return t, r.err()
}

// readCluster reads an object of fields of a cluster; nil is one that could not be read.
func readCluster(r *reading, of *shape[TopologyFile], n *node, into *TopologyFile) {
	into.lines, into.unread = map[string]int{}, map[string]bool{}
	before := r.count()
	r.lines = into.lines
	if n != nil {
		of.read(r, n, into)
	}
	for _, f := range of.fields {
		if r.bad.has(1 << f.id) {
			into.unread[f.key] = true
		}
	}
	into.faulty = r.count() > 0
	into.veiled = n == nil || r.count() > before+r.explained
}

func readProfile(r *reading, n *node, hint string, t *TopologyFile) {
	name, ok := r.text(n, "write one of "+strings.Join(hardware.Names(), ", "))
	if !ok {
		return
	}
	for _, p := range t.own {
		if p.Name == name {
			t.Topology.Profile = p
			return
		}
	}
	profile, err := hardware.ByName(clip(name))
	if err != nil {
		if len(t.own) > 0 {
			err = fmt.Errorf("%w; or %s, the model's own", err, t.own[0].Name)
		}
		message := err.Error()
		if n.kind == cell {
			message = n.key + ": " + message
		}
		r.add(n.line, message, hint)
	}
	t.Topology.Profile = profile
}

func readDense(r *reading, n *node, _ string, t *TopologyFile) {
	before := r.count()
	t.step.dense = denseOf(r.report, n)
	t.step.dense.Name, t.step.dense.faulty = t.Name, r.count() > before
}

func readStack(r *reading, n *node, _ string, t *TopologyFile) {
	before := r.count()
	if s := stackOf(r.report, n); r.count() == before {
		t.step.stack = &s
	}
}
