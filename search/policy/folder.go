package policy

import (
	"fmt"
	"io/fs"
	"slices"

	"github.com/neuroshard/neuroshard/cost/modelfile"
)

// Format and Version identify the manifest that this package writes.
const (
	Format  = "neuroshard-policy"
	Version = 1
)

// Folder is a trained policy: its weights and its manifest, which Read reads from a folder
// and Write writes. Packages search/policy/dreamshard and search/policy/autoshard make nets of its weights.
type Folder struct {
	Manifest Manifest
	// Tensors are the weights, in the order in which they are written.
	Tensors []modelfile.Tensor
}

// Manifest states what a policy is and how it was made: everything except the weights.
type Manifest struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// ID is derived from the weights and the manifest (Folder.Seal).
	ID string `json:"id"`
	// Method is the search method that the policy is for: DreamShard or AutoShard.
	Method string `json:"method"`
	// Profile is the hardware profile that the training plans were measured on. Source is
	// "simulated" or "measured", and Backend names what took the times.
	Profile string `json:"profile"`
	Source  string `json:"source"`
	Backend string `json:"backend"`
	// Command makes the policy again.
	Command string `json:"command"`
	// Features names the inputs of the nets (FeatureNames).
	Features []string `json:"features"`
	// Mean and Deviation standardise the first features (dim, rows, pooling factor) of method
	// AutoShard, which keeps them from its training. They are empty for DreamShard, which
	// standardises inside each task.
	Mean      []float64 `json:"mean,omitempty"`
	Deviation []float64 `json:"deviation,omitempty"`
	Card      Card      `json:"card"`
	// CPUSeconds is the processor time that the training took. It differs from run to run, so
	// the id does not cover it.
	CPUSeconds float64 `json:"cpu_seconds"`
}

// Card states what a policy was trained on, and how the training went.
type Card struct {
	Seed uint64 `json:"seed"`
	// Costs is what predicts costs in rollouts: "own", the policy's own cost net, or the id
	// of the cost model that took its place.
	Costs string `json:"costs"`
	// Reward is what the policy was rewarded by: "cost" or "balance".
	Reward string `json:"reward"`
	// Tasks is the number of training tasks, each of Tables tables on Devices devices, of dims
	// up to MaxDim, at batch Batch. MemoryBytes is a device's memory for weights.
	Tasks       int   `json:"tasks"`
	Tables      int   `json:"tables"`
	Devices     int   `json:"devices"`
	MaxDim      int   `json:"max_dim"`
	Batch       int   `json:"batch"`
	MemoryBytes int64 `json:"memory_bytes"`
	// TrainTables is the number of tables that training tasks are drawn from, TestTables
	// that of the tests. No table is in both.
	TrainTables int `json:"train_tables"`
	TestTables  int `json:"test_tables"`
	// Plans is the number of plans that were measured, Episodes the number of rollouts that the
	// policy learned from.
	Plans    int `json:"plans"`
	Episodes int `json:"episodes"`
	// Losses has one entry for each iteration of the training.
	Losses []Losses `json:"losses"`
	// Test is the mean measured cost, over TestTasks tasks of the tables of the tests, of greedy
	// rollouts of the policy, and of plans of the methods random and lookup.
	TestTasks int    `json:"test_tasks"`
	Test      []Test `json:"test"`
}

// Losses are the mean losses of one iteration of a training: of the cost net in ms^2, and
// of the policy.
type Losses struct {
	Cost   float64 `json:"cost"`
	Policy float64 `json:"policy"`
}

// Test is the mean cost of a method's plans of the test tasks, and their mean balance.
type Test struct {
	Method string  `json:"method"`
	Solved int     `json:"solved"`
	CostMS float64 `json:"cost_ms"`
	// Balance is the mean of the least device time over the largest: of the lookups and their
	// backward, without exchanges.
	Balance float64 `json:"balance"`
}

// Seal sets the manifest's format, version, features and id. Two policies have the same id if
// and only if their weights and manifests are the same but for CPUSeconds.
func (f *Folder) Seal() error {
	m := &f.Manifest
	m.Format, m.Version, m.ID, m.Features = Format, Version, "", FeatureNames()
	covered := *m
	covered.CPUSeconds = 0
	digest, err := modelfile.Digest(covered, f.Tensors)
	if err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	m.ID = m.Method + "-" + m.Profile + "-" + digest
	return nil
}

// Read reads a policy's folder from a file system. It checks that the id matches the contents, so
// that a damaged or edited policy is never used. The weights are checked by the package of the method.
func Read(files fs.FS, folder string) (*Folder, error) {
	f := &Folder{}
	var err error
	if f.Tensors, err = modelfile.ReadFolder(files, folder, &f.Manifest); err != nil {
		return nil, err
	}
	m := &f.Manifest
	if m.Format != Format || m.Version != Version {
		return nil, fmt.Errorf("%s/%s: format %q version %d: this build reads %q version %d", folder, modelfile.ManifestName, m.Format, m.Version, Format, Version)
	}
	if m.Method != DreamShard && m.Method != AutoShard {
		return nil, fmt.Errorf("%s/%s: method %q is neither %q nor %q", folder, modelfile.ManifestName, m.Method, DreamShard, AutoShard)
	}
	if !slices.Equal(m.Features, FeatureNames()) {
		return nil, fmt.Errorf("%s/%s: the policy reads other features than this build computes", folder, modelfile.ManifestName)
	}
	id := m.ID
	if err := f.Seal(); err != nil {
		return nil, err
	}
	if m.ID != id {
		return nil, fmt.Errorf("%s: the policy's id %q does not match its contents (%q): the files are damaged or were edited", folder, id, m.ID)
	}
	return f, nil
}

// Write seals the policy and writes its folder, which it makes. A broken write leaves the old
// policy or one that Read refuses.
func (f *Folder) Write(folder string) error {
	if err := f.Seal(); err != nil {
		return err
	}
	return modelfile.WriteFolder(folder, f.Manifest, f.Tensors)
}
