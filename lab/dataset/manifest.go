package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/neuroshard/neuroshard/internal/jsonfile"
)

// ManifestName is the name of the manifest in a dataset's folder.
const ManifestName = "dataset.json"

// Format and Version identify the datasets that this package writes and reads.
const (
	Format  = "neuroshard-dataset"
	Version = 2
)

// The names of the Parquet files in a dataset's folder. docs/FORMATS.md
// describes their columns.
const (
	TablesName  = "tables.parquet"
	ComputeName = "compute.parquet"
	RepeatsName = "repeats.parquet"
	AnchorsName = "anchors.parquet"
	CommName    = "comm.parquet"
)

// fileNames returns the names of all Parquet files that a dataset may have.
func fileNames() []string {
	return []string{TablesName, ComputeName, RepeatsName, AnchorsName, CommName}
}

// Manifest describes a dataset: everything except the samples.
type Manifest struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Compute and Comm describe the two parts; one may be nil.
	Compute *ComputeInfo `json:"compute,omitempty"`
	Comm    *CommInfo    `json:"comm,omitempty"`
	// Files are the folder's Parquet files, in the order they are written.
	Files []File `json:"files"`
}

// ComputeInfo describes the samples of fused lookups.
type ComputeInfo struct {
	Provenance Provenance `json:"provenance"`
	Tables     int        `json:"tables"`
	Counts
	// Repeats and Anchors are the numbers of both.
	Repeats int `json:"repeats"`
	Anchors int `json:"anchors"`
}

// CommInfo describes the samples of all-to-alls.
type CommInfo struct {
	Provenance Provenance `json:"provenance"`
	Counts
}

// Counts are numbers of samples: all, those of each split, and those of any
// split that are quarantined.
type Counts struct {
	Samples     int `json:"samples"`
	Train       int `json:"train"`
	Validation  int `json:"validation"`
	Test        int `json:"test"`
	Quarantined int `json:"quarantined"`
}

func (c *Counts) add(s Split, quarantined bool) {
	c.Samples++
	switch s {
	case Train:
		c.Train++
	case Validation:
		c.Validation++
	case Test:
		c.Test++
	}
	if quarantined {
		c.Quarantined++
	}
}

// File is one Parquet file of a dataset.
type File struct {
	Name  string `json:"name"`
	Rows  int    `json:"rows"`
	Bytes int64  `json:"bytes"`
	// SHA256 is the digest of its bytes, in hexadecimal.
	SHA256 string `json:"sha256"`
}

// manifestOf returns the dataset's manifest without its files.
func manifestOf(d Dataset) Manifest {
	m := Manifest{Format: Format, Version: Version}
	if c := d.Compute; c != nil {
		m.Compute = &ComputeInfo{Provenance: c.Provenance, Tables: len(c.Tables), Repeats: len(c.Repeats), Anchors: len(c.Anchors)}
		for i := range c.Samples {
			m.Compute.add(c.Samples[i].Split, c.Samples[i].Quarantined)
		}
	}
	if c := d.Comm; c != nil {
		m.Comm = &CommInfo{Provenance: c.Provenance}
		for i := range c.Samples {
			m.Comm.add(c.Samples[i].Split, c.Samples[i].Quarantined)
		}
	}
	return m
}

// names returns the files that a dataset of this manifest has, in the order they
// are written, with their rows.
func (m *Manifest) names() []File {
	var files []File
	if c := m.Compute; c != nil {
		files = append(files, File{Name: TablesName, Rows: c.Tables}, File{Name: ComputeName, Rows: c.Samples})
		if c.Repeats > 0 {
			files = append(files, File{Name: RepeatsName, Rows: c.Repeats})
		}
		if c.Anchors > 0 {
			files = append(files, File{Name: AnchorsName, Rows: c.Anchors})
		}
	}
	if c := m.Comm; c != nil {
		files = append(files, File{Name: CommName, Rows: c.Samples})
	}
	return files
}

// provenance returns the provenance of the part that the named file holds.
func (m *Manifest) provenance(name string) Provenance {
	if name == CommName {
		return m.Comm.Provenance
	}
	return m.Compute.Provenance
}

// The keys of the Parquet files' metadata: a file that was taken out of its
// folder still says what it is.
const (
	keyFormat     = "neuroshard.format"
	keyVersion    = "neuroshard.version"
	keyContent    = "neuroshard.content"
	keyProvenance = "neuroshard.provenance"
)

// metadata returns the key-value metadata of the file of that name.
func (m *Manifest) metadata(name string) (map[string]string, error) {
	text, err := json.Marshal(m.provenance(name))
	if err != nil {
		return nil, fmt.Errorf("provenance: %w", err)
	}
	return map[string]string{
		keyFormat: m.Format, keyVersion: strconv.Itoa(m.Version),
		keyContent: name[:len(name)-len(filepath.Ext(name))], keyProvenance: string(text),
	}, nil
}

// ReadManifest reads the manifest of a dataset's folder. It does not read the Parquet
// files; Read compares those with the manifest. If the folder has no manifest, the
// error wraps fs.ErrNotExist.
func ReadManifest(folder string) (Manifest, error) {
	name := filepath.Join(folder, ManifestName)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, fmt.Errorf("%q is no dataset: it has no %s, which is written last (%w): was collecting interrupted?", folder, ManifestName, fs.ErrNotExist)
	}
	if err != nil {
		return Manifest{}, err
	}
	m, err := parseManifest(data)
	if err != nil {
		return Manifest{}, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

func parseManifest(data []byte) (Manifest, error) {
	var m Manifest
	bounds := jsonv2.WithUnmarshalers(jsonfile.Bounded[File](len(fileNames())))
	if err := jsonfile.Unmarshal(data, &m, bounds, jsonv2.RejectUnknownMembers(false)); err != nil {
		return m, err
	}
	if m.Format != Format || m.Version != Version {
		return m, fmt.Errorf("format %q version %d: this program reads %q of version %d", m.Format, m.Version, Format, Version)
	}
	if m.Compute == nil && m.Comm == nil {
		return m, errors.New("it tells of no samples")
	}
	want := m.names()
	if len(m.Files) != len(want) {
		return m, fmt.Errorf("it lists %d files, and its samples need %d", len(m.Files), len(want))
	}
	for i, file := range m.Files {
		if file.Name != want[i].Name || file.Rows != want[i].Rows {
			return m, fmt.Errorf("file %q of %d rows, want %q of %d", file.Name, file.Rows, want[i].Name, want[i].Rows)
		}
	}
	return m, nil
}
