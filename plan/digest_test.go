package plan

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// The digest of the sample. It may only change with digestForm, or with the
// sample or its device profile.
const sampleDigest = "b771038cba54c0fb4031248c2bfa581e6658b1431f3125fc34fa28edda17f281"

func TestDigestGolden(t *testing.T) {
	p, _ := sample(t)
	if got := Digest(p); got != sampleDigest {
		t.Errorf("got %s, want %s", got, sampleDigest)
	}
}

// Changing any field of a problem, found by reflection so that none can be
// forgotten, gives a digest of its own.
func TestDigestOfAnyChange(t *testing.T) {
	p, _ := sample(t)
	p.Tables = p.Tables[:3]
	p.Tables[1].Access = access.Distribution{Kind: access.Histogram, Reuse: [access.Classes]float64{0.5, 0.5}, Batch: 100}
	seen := map[string]string{Digest(p): "nothing"}
	leaves := 0
	note := func(place string) {
		leaves++
		digest := Digest(p)
		if other, ok := seen[digest]; ok {
			t.Errorf("changing %s gives the digest of changing %s", place, other)
		}
		seen[digest] = place
	}
	var walk func(v reflect.Value, place string)
	walk = func(v reflect.Value, place string) {
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				if f := v.Type().Field(i); f.Name != "OnlyWidth" { // it is no input
					walk(v.Field(i), place+"."+f.Name)
				}
			}
			return
		case reflect.Array:
			for i := range v.Len() {
				walk(v.Index(i), fmt.Sprintf("%s[%d]", place, i))
			}
			return
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i), fmt.Sprintf("%s[%d]", place, i))
			}
			v.Set(reflect.Append(v.Slice3(0, v.Len(), v.Len()), reflect.Zero(v.Type().Elem())))
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Int, reflect.Int64:
			v.SetInt(v.Int() + 1)
		case reflect.Uint8:
			v.SetUint(v.Uint() + 1)
		case reflect.Float64:
			v.SetFloat(v.Float() + 0.125)
		case reflect.Pointer:
			return // of tables that problem.Deduplicated makes: no plan is of such a problem
		default:
			t.Fatalf("%s is of kind %v: teach the test how to change it", place, v.Kind())
		}
		note(place)
		v.Set(old)
	}
	walk(reflect.ValueOf(p).Elem(), "problem")
	if leaves < 100 {
		t.Errorf("got %d changes, want at least 100", leaves)
	}

	p.Tables[0], p.Tables[1] = p.Tables[1], p.Tables[0]
	note("the order of the tables")
	p.Tables[0], p.Tables[1] = p.Tables[1], p.Tables[0]
	if seen[Digest(p)] != "nothing" {
		t.Error("the problem was not restored")
	}
}

// A problem that does not state the lanes of warps has the digest of one that states the usual 32.
func TestDigestOfUsualLanes(t *testing.T) {
	p, _ := sample(t)
	p.Topology.Profile.WarpLanes = 0
	if got := Digest(p); got != sampleDigest {
		t.Errorf("lanes of a warp unstated: got %s, want %s", got, sampleDigest)
	}
}

// Texts that run into each other have different digests.
func TestDigestKeepsTextsApart(t *testing.T) {
	of := func(names ...string) string {
		p := &problem.Problem{}
		for _, name := range names {
			p.Tables = append(p.Tables, problem.Table{Name: "t", Features: []problem.Feature{{Name: name}}})
		}
		return Digest(p)
	}
	if of("ab", "c") == of("a", "bc") {
		t.Error("got equal digests, want different ones")
	}
}

// TestMadeFrom compares a plan's input with problems: with its own, whose cluster is stated in other
// words, and with one of other access statistics.
func TestMadeFrom(t *testing.T) {
	p, pl := sample(t)
	for name, reserve := range map[string]struct {
		share float64
		fixed unit.Bytes
	}{"default": {}, "share": {.12, 0}, "none": {hardware.NoReserve, 0}, "both": {.15, 100 * unit.KiB}} {
		p.Topology.ReserveShare, p.Topology.ReserveFixed = reserve.share, reserve.fixed
		pl.Cluster, pl.Provenance.Input = clusterOf(p), Digest(p)
		other := *p
		other.Topology = pl.Cluster.Topology()
		other.Topology.Profile = p.Topology.Profile
		if !pl.MadeFrom(p) || !pl.MadeFrom(&other) {
			t.Errorf("reserve %s: got a plan of another problem", name)
		}
		other.Tables = slices.Clone(p.Tables)
		other.Tables[0].Access.UniqueRows++
		if pl.MadeFrom(&other) {
			t.Errorf("reserve %s: got a plan of a problem with other access statistics", name)
		}
	}
}

// TestMadeFromRacks: a plan that was made with an NVLink domain of one host, of devices that are sold in racks, is made
// from the cluster that the plan states.
func TestMadeFromRacks(t *testing.T) {
	p, pl := sample(t)
	profile := must.Get(hardware.ByName("gb200"))(t)
	p.Topology = hardware.Topology{Profile: profile, Devices: 8, DevicesPerHost: 4, NVLinkDomain: 4}
	pl.Cluster, pl.Provenance.Input = clusterOf(p), Digest(p)
	other := *p
	other.Topology = pl.Cluster.Topology()
	other.Topology.Profile = profile
	if !pl.MadeFrom(&other) || pl.Origin(&other) != "" {
		t.Errorf("got a plan of another problem: %s", pl.Origin(&other))
	}
	other.Tables = slices.Clone(p.Tables)
	other.Tables[0].Access.UniqueRows++
	if pl.Origin(&other) == "" {
		t.Error("got a plan of a problem with other access statistics")
	}
	pl.Cluster.Profile, other.Topology.Profile = "mine", hardware.Profile{Name: "mine", Memory: profile.Memory}
	if want := "whether the plan was made from these tables is not known"; !strings.HasPrefix(pl.Origin(&other), want) {
		t.Errorf("a device that is not listed: got %q, want %q", pl.Origin(&other), want)
	}
}
