package problem

import (
	"slices"

	"github.com/neuroshard/neuroshard/problem/hardware"
)

// release.go says in what the estimators of TorchRec's releases differ. The formulas themselves are
// in torchrec.go (bytes) and in package cost/torchrec (times); both take a release.

// TorchRecRelease is a minor release of TorchRec, and what its estimators count in a way of their
// own. It is comparable.
type TorchRecRelease struct {
	// Name is the release, such as "1.6", and Version the version of it that the tests compare
	// with.
	Name, Version string

	// A table_row_wise or grid table lies on a group of devices: those of a host, or of a pod, the
	// hosts that the same fast links join (NVLinkDomain; TorchRec's pod_size times
	// local_world_size). podTimes and podBytes say that the estimators of times and of bytes know
	// pods.
	podTimes, podBytes bool
	// partialGroups says that W devices in groups of G are W/G groups in the times of the two
	// types; without it, the full ones count, and at least one.
	partialGroups bool
	// emptyBags says that a bag without lookups has a vector, too. Without it, a feature has one
	// vector for each of its lookups, up to one for each of its bags.
	emptyBags bool
}

// torchRecReleases has the oldest release first.
var torchRecReleases = [...]TorchRecRelease{
	{Name: "1.5", Version: "1.5.1", emptyBags: true, partialGroups: true},
	{Name: "1.6", Version: "1.6.1", emptyBags: true, podBytes: true},
	{Name: "1.7", Version: "1.7.0", podBytes: true, podTimes: true},
	{Name: "1.8", Version: "1.8.0", podBytes: true, podTimes: true},
	{Name: "1.9", Version: "1.9.2", podBytes: true, podTimes: true},
}

// UnstatedTorchRec is the release of plan files that state none: older versions of neuroshard knew
// only this one.
const UnstatedTorchRec = "1.6"

// torchRecPrefix comes before the release in names such as "torchrec-1.6".
const torchRecPrefix = string(TorchRec) + "-"

// TorchRecReleases returns the releases of TorchRec whose estimators are known, oldest first. The
// slice is the caller's.
func TorchRecReleases() []TorchRecRelease { return slices.Clone(torchRecReleases[:]) }

// NewestTorchRec returns the last of TorchRecReleases.
func NewestTorchRec() TorchRecRelease { return torchRecReleases[len(torchRecReleases)-1] }

// TorchRecNames returns the names that ParseTorchRec reads, without those of versions: "torchrec"
// first. The slice is the caller's.
func TorchRecNames() []string {
	names := []string{string(TorchRec)}
	for _, r := range torchRecReleases {
		names = append(names, r.String())
	}
	return names
}

// ParseTorchRec reads the name of a release: "torchrec" for the newest, "torchrec-1.6" for one, or
// "torchrec-1.6.1", its model id. It returns false for any other text.
func ParseTorchRec(s string) (TorchRecRelease, bool) {
	if s == string(TorchRec) {
		return NewestTorchRec(), true
	}
	for _, r := range torchRecReleases {
		if s == r.String() || s == r.Model() {
			return r, true
		}
	}
	return TorchRecRelease{}, false
}

// ReleaseOfTorchRec returns the release of that name, such as "1.6"; false if it is not known.
func ReleaseOfTorchRec(name string) (TorchRecRelease, bool) {
	return ParseTorchRec(torchRecPrefix + name)
}

// String returns the name of the release that users write, such as "torchrec-1.6".
func (r TorchRecRelease) String() string { return torchRecPrefix + r.Name }

// Model returns the model id of plans with the times of the release, such as "torchrec-1.6.1".
func (r TorchRecRelease) Model() string { return torchRecPrefix + r.Version }

// Bags returns the vectors that the release counts of a pooled feature for one sample.
func (r TorchRecRelease) Bags(f *Feature) float64 {
	if r.emptyBags {
		return f.bags()
	}
	return min(f.bags(), f.PoolingFactor)
}

// MemoryGroup returns the devices of a group of a table_row_wise table in the release's bytes.
func (r TorchRecRelease) MemoryGroup(t hardware.Topology) int { return group(t, r.podBytes) }

// TimeGroup returns the same in the release's times.
func (r TorchRecRelease) TimeGroup(t hardware.Topology) int { return group(t, r.podTimes) }

func group(t hardware.Topology, pods bool) int {
	if pods {
		return t.LinkDomain()
	}
	return t.PerHost()
}

// TimeGroups returns the number of these groups in the release's times.
func (r TorchRecRelease) TimeGroups(t hardware.Topology) float64 {
	n, of := t.Devices, r.TimeGroup(t)
	if r.partialGroups {
		return float64(n) / float64(of)
	}
	return float64(max(1, n/of))
}
