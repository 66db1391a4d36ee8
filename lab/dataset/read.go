package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
)

// Read reads a dataset from its folder. It checks the files against the digests
// of the manifest, and every value as Validate does; so a file that was cut off,
// damaged or edited is an error. Lists without elements come back as nil.
func Read(folder string) (Dataset, error) {
	m, err := ReadManifest(folder)
	if err != nil {
		return Dataset{}, err
	}
	d, err := m.load(func(f File) ([]byte, error) { return readFile(filepath.Join(folder, f.Name), f) })
	if err != nil {
		return Dataset{}, fmt.Errorf("dataset %q: %w", folder, err)
	}
	return d, nil
}

// readFile reads a file that the manifest describes.
func readFile(path string, want File) ([]byte, error) {
	// Check before opening: opening a pipe would wait for a writer.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() != want.Bytes {
		return nil, fmt.Errorf("%d bytes, and the manifest states %d: it is cut off, or of another dataset", info.Size(), want.Bytes)
	}
	data := make([]byte, want.Bytes)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, err
	}
	if digest(data) != want.SHA256 {
		return nil, errors.New("its digest is not the manifest's: it is damaged, or was edited")
	}
	return data, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// load makes the manifest's dataset of its files, which get returns. All files
// are read, and the errors of all returned.
func (m *Manifest) load(get func(File) ([]byte, error)) (Dataset, error) {
	var d Dataset
	if m.Compute != nil {
		d.Compute = &Compute{Provenance: m.Compute.Provenance}
	}
	if m.Comm != nil {
		d.Comm = &Comm{Provenance: m.Comm.Provenance}
	}
	var failed []error
	for _, file := range m.Files {
		data, err := get(file)
		if err == nil {
			err = m.decode(&d, file, data)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", file.Name, err))
		}
	}
	if len(failed) > 0 {
		return Dataset{}, errors.Join(failed...)
	}
	if err := d.Validate(); err != nil {
		return Dataset{}, err
	}
	got := manifestOf(d)
	if got.Files, got.Version = m.Files, m.Version; !reflect.DeepEqual(got, *m) {
		return Dataset{}, errors.New("the numbers of samples in the splits are not those that the manifest states")
	}
	return d, nil
}

// decode adds what one file holds to the dataset.
func (m *Manifest) decode(d *Dataset, file File, data []byte) error {
	want, err := m.metadata(file.Name)
	if err != nil {
		return err
	}
	var metadata map[string]string
	switch file.Name {
	case TablesName:
		var rows []tableRow
		if rows, metadata, err = decodeRows[tableRow](data, m.Version); err == nil {
			d.Compute.Tables, err = tryEach(rows, fromTableRow)
		}
	case ComputeName:
		var rows []groupRow
		if rows, metadata, err = decodeRows[groupRow](data, m.Version); err == nil {
			d.Compute.Samples, err = tryEach(rows, fromGroupRow)
		}
	case RepeatsName:
		var rows []repeatRow
		rows, metadata, err = decodeRows[repeatRow](data, m.Version)
		d.Compute.Repeats = each1(rows, fromRepeatRow)
	case AnchorsName:
		var rows []anchorRow
		rows, metadata, err = decodeRows[anchorRow](data, m.Version)
		d.Compute.Anchors = each1(rows, fromAnchorRow)
	case CommName:
		var rows []exchangeRow
		if rows, metadata, err = decodeRows[exchangeRow](data, m.Version); err == nil {
			d.Comm.Samples, err = tryEach(rows, fromExchangeRow)
		}
	}
	if err != nil {
		return err
	}
	for _, key := range []string{keyFormat, keyVersion, keyContent, keyProvenance} {
		if metadata[key] != want[key] {
			return fmt.Errorf("its %s is not the manifest's: the file is of another dataset", key)
		}
	}
	return nil
}

// encode returns the Parquet file of that name.
func (m *Manifest) encode(d Dataset, name string) ([]byte, error) {
	metadata, err := m.metadata(name)
	if err != nil {
		return nil, err
	}
	switch name {
	case TablesName:
		return encodeRows(each(d.Compute.Tables, toTableRow), metadata)
	case ComputeName:
		return encodeRows(each(d.Compute.Samples, toGroupRow), metadata)
	case RepeatsName:
		return encodeRows(each1(d.Compute.Repeats, toRepeatRow), metadata)
	case AnchorsName:
		return encodeRows(each1(d.Compute.Anchors, toAnchorRow), metadata)
	}
	return encodeRows(each(d.Comm.Samples, toExchangeRow), metadata)
}
