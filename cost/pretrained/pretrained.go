// Package pretrained holds the cost models that ship inside the binary, one for
// each hardware profile. Each folder below models is a modelfile with its card;
// docs/RESULTS.md has their errors, and docs/SEARCH.md the command that makes them again.
package pretrained

import (
	"embed"
	"fmt"
	"io/fs"

	"github.com/neuroshard/neuroshard/cost/modelfile"
)

//go:embed models
var models embed.FS

// File returns the modelfile of a profile.
func File(profile string) (*modelfile.Model, error) {
	if _, err := fs.Stat(models, "models/"+profile); err != nil {
		return nil, fmt.Errorf("no pre-trained model for device profile %q: train one with: neuroshard lab train --simulate %s", profile, profile)
	}
	return modelfile.Read(models, "models/"+profile)
}

// Profiles returns the names of the profiles that have a model, sorted.
func Profiles() []string {
	entries, err := models.ReadDir("models")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}
