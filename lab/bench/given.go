package bench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/neuroshard/neuroshard/cost/prototype"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/search"
)

// MaxGivenBytes is the size above which ReadGiven refuses a file: that of the largest
// plan. The readers of the other formats have smaller limits of their own.
const MaxGivenBytes = max(plan.MaxFile, int64(prototype.MaxFileBytes))

// ReadGiven reads plans for the tasks, at least one, from a file: results that this package wrote,
// those of the published prototype, or a plan file, whose name stands as its method. If results of the
// prototype state no setting, it is the longest one that begins the file's name, or that of the first
// task.
func ReadGiven(name string, r io.Reader, tasks []Task) ([]Given, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxGivenBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if isPlan(data) {
		pl, err := plan.Read(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		given, err := GivenPlan(tasks, search.Method(SettingOf(name)), pl)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return []Given{given}, nil
	}
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		results, err := ReadResults(name, bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		return GivenResults(results), nil
	}
	results, err := prototype.ReadResults(name, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	setting := ""
	for _, t := range tasks {
		if strings.HasPrefix(filepath.Base(name), t.Setting) && len(t.Setting) > len(setting) {
			setting = t.Setting
		}
	}
	return GivenPrototype(cmp.Or(setting, tasks[0].Setting), results), nil
}

// SettingOf returns the setting of the tasks in a file: the file's name without folder
// and extension.
func SettingOf(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// isPlan reports whether a file states that it is a plan file.
func isPlan(data []byte) bool {
	var file struct {
		Format string `json:"format"`
	}
	return json.Unmarshal(data, &file) == nil && file.Format == plan.Format
}
