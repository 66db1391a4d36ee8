package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
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
	d, err := m.load(folder)
	if err != nil {
		return Dataset{}, fmt.Errorf("dataset %q: %w", folder, err)
	}
	return d, nil
}

// readFile reads a file that the manifest describes.
func readFile(path string, want File) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if int64(len(data)) != want.Bytes {
		return nil, fmt.Errorf("%d bytes, and the manifest states %d: it is cut off, or of another dataset", len(data), want.Bytes)
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

// load makes the manifest's dataset of its files.
func (m *Manifest) load(folder string) (Dataset, error) {
	var d Dataset
	if m.Compute != nil {
		d.Compute = &Compute{Provenance: m.Compute.Provenance}
	}
	if m.Comm != nil {
		d.Comm = &Comm{Provenance: m.Comm.Provenance}
	}
	for _, file := range m.Files {
		data, err := readFile(filepath.Join(folder, file.Name), file)
		if err == nil {
			err = m.decode(&d, file, data)
		}
		if err != nil {
			return Dataset{}, fmt.Errorf("%s: %w", file.Name, err)
		}
	}
	if err := d.Validate(); err != nil {
		return Dataset{}, err
	}
	got := manifestOf(d)
	if got.Files = m.Files; !reflect.DeepEqual(got, *m) {
		return Dataset{}, errors.New("the numbers of samples in the splits are not those that the manifest states")
	}
	return d, nil
}

// decode adds what one file holds to the dataset.
func (m *Manifest) decode(d *Dataset, file File, data []byte) (err error) {
	switch file.Name {
	case TablesName:
		d.Compute.Tables, err = decodeAs(m, file, data, fromTableRow)
	case ComputeName:
		d.Compute.Samples, err = decodeAs(m, file, data, fromGroupRow)
	case RepeatsName:
		d.Compute.Repeats, err = decodeAs(m, file, data, asItIs[Repeat])
	case AnchorsName:
		d.Compute.Anchors, err = decodeAs(m, file, data, asItIs[Anchor])
	case CommName:
		d.Comm.Samples, err = decodeAs(m, file, data, fromExchangeRow)
	}
	return err
}

// decodeAs returns what the rows of a file stand for.
func decodeAs[R, T any](m *Manifest, file File, data []byte, from func(int, R) (T, error)) ([]T, error) {
	rows, metadata, err := decodeRows[R](data, file.Rows)
	if err != nil {
		return nil, err
	}
	want, err := m.metadata(file.Name)
	if err != nil {
		return nil, err
	}
	if !maps.Equal(metadata, want) {
		return nil, errors.New("its metadata are not the manifest's: the file is of another dataset")
	}
	var list []T
	for i, row := range rows {
		v, err := from(i, row)
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", i, err)
		}
		list = append(list, v)
	}
	return list, nil
}

func asItIs[T any](_ int, row T) (T, error) { return row, nil }

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
		return encodeRows(d.Compute.Repeats, metadata)
	case AnchorsName:
		return encodeRows(d.Compute.Anchors, metadata)
	}
	return encodeRows(each(d.Comm.Samples, toExchangeRow), metadata)
}
