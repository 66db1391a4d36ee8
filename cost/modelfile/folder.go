package modelfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/neuroshard/neuroshard/internal/atomicfile"
)

// A folder of weights is a manifest and tensors, whatever the manifest states. Cost models
// are such folders, and so are policies (package policy).

// Digest returns twelve hexadecimal digits that stand for a manifest, which must not state
// the digest itself, and the tensors: the same digits if and only if both are the same. It
// fails if the tensors could not be written.
func Digest(manifest any, tensors []Tensor) (string, error) {
	text, err := json.Marshal(manifest)
	if err != nil {
		return "", fmt.Errorf("manifest: %w", err)
	}
	weights, err := encode(tensors)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	hash.Write(text)
	hash.Write(weights)
	return hex.EncodeToString(hash.Sum(nil))[:12], nil
}

// ReadFolder reads the manifest, into the value that manifest points to, and the tensors of
// a folder. It refuses fields that the value does not have, bytes after the manifest, files
// of more than 64 MiB, and weights that are not finite. The caller checks the digest.
func ReadFolder(files fs.FS, folder string, manifest any) ([]Tensor, error) {
	text, err := readFile(files, path.Join(folder, ManifestName))
	if err != nil {
		return nil, err
	}
	weights, err := readFile(files, path.Join(folder, WeightsName))
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(manifest); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			line := 1 + bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte("\n"))
			err = fmt.Errorf("line %d: %w", line, err)
		}
		return nil, fmt.Errorf("%s/%s: %w", folder, ManifestName, err)
	}
	if rest := bytes.TrimSpace(text[decoder.InputOffset():]); len(rest) > 0 {
		return nil, fmt.Errorf("%s/%s: %d bytes follow the manifest", folder, ManifestName, len(rest))
	}
	tensors, err := decode(weights)
	if err != nil {
		return nil, fmt.Errorf("%s/%s: %w", folder, WeightsName, err)
	}
	return tensors, nil
}

// WriteFolder writes a folder, which it makes. Each file is written beside its place and
// renamed, weights first, so that a broken write leaves the old folder or one whose digest
// does not match.
func WriteFolder(folder string, manifest any, tensors []Tensor) error {
	weights, err := encode(tensors)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	if err := replace(filepath.Join(folder, WeightsName), weights); err != nil {
		return err
	}
	return replace(filepath.Join(folder, ManifestName), append(text, '\n'))
}

// Find returns the values of the tensor of that name and shape, or an error that says what
// the tensors have instead.
func Find(tensors []Tensor, name string, shape ...int) ([]float32, error) {
	for _, t := range tensors {
		if t.Name != name {
			continue
		}
		if fmt.Sprint(t.Shape) != fmt.Sprint(shape) {
			return nil, fmt.Errorf("tensor %q has shape %v, want %v", name, t.Shape, shape)
		}
		return t.Data, nil
	}
	return nil, fmt.Errorf("tensor %q is missing", name)
}

func readFile(files fs.FS, name string) ([]byte, error) {
	// Check before opening: opening a pipe would wait for a writer.
	if info, err := fs.Stat(files, name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: it is no file", name)
	}
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%s: larger than %d bytes", name, maxFileBytes)
	}
	return data, nil
}

func replace(path string, data []byte) error {
	return atomicfile.Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
