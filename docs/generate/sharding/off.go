package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// pinned has a line for each workload, its plan file's SHA-256 and its name. A change that
// is not meant to change plans of slices of columns keeps them. A change that is meant to
// makes no plan more expensive, apart from the luck of a search, and pins the plans anew:
//
//	go build -o bin/neuroshard ./cmd/neuroshard
//	go run ./docs/generate/sharding off -pin > docs/generate/sharding/testdata/plans.sha256
//
//go:embed testdata/plans.sha256
var pinned string

// off plans workloads with slices of columns only, and compares the plan files, byte
// for byte, with those of before.
func off(ctx context.Context, p *program) error {
	want := sums(pinned)
	if !p.pin {
		p.head("workload", "SHA-256 of the plan", "the same as before")
	}
	changed := 0
	for _, name := range p.workloads {
		sum, err := planSum(ctx, p.binary, name)
		if err != nil {
			return err
		}
		if p.pin {
			fmt.Fprintf(p.out, "%s  %s\n", sum, name)
			continue
		}
		verdict := "yes"
		if want[name] != sum {
			verdict = "no"
			changed++
		}
		p.row(name, sum[:16], verdict)
	}
	if changed > 0 {
		return fmt.Errorf("%d of %d plans are not those of before", changed, len(p.workloads))
	}
	return nil
}

// planSum returns the SHA-256 of the plan file that the binary writes for a workload.
func planSum(ctx context.Context, binary, name string) (string, error) {
	folder, err := os.MkdirTemp("", "kinds")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	file := filepath.Join(folder, "plan.json")
	cmd := exec.CommandContext(ctx, binary, "plan", "workload:"+name, "--no-baselines", "--sharding-types", "table_wise,column_wise", "-o", file)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", name, err, stderr.Bytes())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(text)), nil
}

// sums reads lines of sums and names, by name.
func sums(text string) map[string]string {
	found := map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if sum, name, ok := strings.Cut(lines.Text(), "  "); ok {
			found[name] = sum
		}
	}
	return found
}
