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

	// A table_row_wise or grid table lies on the devices of a pod, the hosts that the same fast
	// links join (NVLinkDomain; TorchRec's pod_size times local_world_size). podTimes and podBytes
	// say that the estimators of times and of bytes know pods; others take each host for one.
	podTimes, podBytes bool
	// partialPods says that W devices in pods of M are W/M pods in the times of the two types;
	// without it, the full ones count, and at least one.
	partialPods bool
	// emptyBags says that a bag without lookups has a vector, too. Without it, a feature has one
	// vector for each of its lookups, up to one for each of its bags.
	emptyBags bool
}

// torchRecReleases has the oldest release first.
var torchRecReleases = [...]TorchRecRelease{
	{Name: "1.5", Version: "1.5.1", emptyBags: true, partialPods: true},
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

// MemoryPod returns the devices of a pod in the release's bytes.
func (r TorchRecRelease) MemoryPod(t hardware.Topology) int { return podOf(t, r.podBytes) }

// TimePod returns the devices of a pod in the release's times.
func (r TorchRecRelease) TimePod(t hardware.Topology) int { return podOf(t, r.podTimes) }

func podOf(t hardware.Topology, pods bool) int {
	if pods {
		return t.LinkDomain()
	}
	return t.PerHost()
}

// TimePods returns the number of pods in the release's times.
func (r TorchRecRelease) TimePods(t hardware.Topology) float64 {
	n, of := t.Devices, r.TimePod(t)
	if r.partialPods {
		return float64(n) / float64(of)
	}
	return float64(max(1, n/of))
}
