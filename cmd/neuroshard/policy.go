package main

import (
	"fmt"
	"os"

	"github.com/neuroshard/neuroshard/lab/reinforce"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/policy"
)

// policy.go holds what commands share that take a policy.

// loadPolicy loads a policy from a folder.
func loadPolicy(folder string) (search.Policy, *policy.Manifest, error) {
	const hint = "make one with: neuroshard lab train-policy"
	if err := checkFolder(folder); err != nil {
		return nil, nil, bad(fmt.Errorf("policy %w", err), hint)
	}
	f, err := policy.Read(os.DirFS(folder), ".")
	if err != nil {
		return nil, nil, bad(fmt.Errorf("policy %s: %w", folder, err), hint)
	}
	p, err := reinforce.Load(f)
	if err != nil {
		return nil, nil, bad(fmt.Errorf("policy %s: %w", folder, err), hint)
	}
	return p, &f.Manifest, nil
}
