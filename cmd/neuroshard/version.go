package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost/pretrained"
)

func newVersionCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and the cost models inside",
		Args:  exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			if !asJSON {
				return printVersion(a.stdout)
			}
			v, err := describeVersion()
			if err != nil {
				return err
			}
			return bad(a.printJSON(v), "")
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

type versionJSON struct {
	Version string `json:"version"`
	// Commit is the commit that the binary was built from; Modified, whether the checkout had
	// other changes. A build outside of a checkout, such as that of go install, knows neither.
	Commit   string      `json:"commit,omitempty"`
	Modified bool        `json:"modified,omitempty"`
	Go       string      `json:"go"`
	Platform string      `json:"platform"`
	Models   []modelJSON `json:"models"`
}

type modelJSON struct {
	Profile string `json:"profile"`
	ID      string `json:"id"`
	Source  string `json:"source"`
}

// String names the program, its version, and what it was built from and for.
func (v versionJSON) String() string {
	commit := ""
	if v.Commit != "" {
		commit = " (commit " + v.Commit[:min(12, len(v.Commit))] + ")"
		if v.Modified {
			commit = strings.TrimSuffix(commit, ")") + ", modified)"
		}
	}
	return fmt.Sprintf("neuroshard %s%s %s %s", v.Version, commit, v.Go, v.Platform)
}

// printVersion prints a line for the program, and one for each cost model.
func printVersion(w io.Writer) error {
	v, err := describeVersion()
	if err != nil {
		return err
	}
	fmt.Fprintln(w, v)
	for _, m := range v.Models {
		fmt.Fprintf(w, "model %-10s %s %s\n", m.Profile, m.ID, m.Source)
	}
	return nil
}

func describeVersion() (versionJSON, error) {
	v := versionJSON{Version: neuroshard.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Models: []modelJSON{}}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Commit, v.Modified = commitOf(info)
	}
	for _, profile := range pretrained.Profiles() {
		file, err := pretrained.File(profile)
		if err != nil {
			return v, err
		}
		v.Models = append(v.Models, modelJSON{profile, file.Manifest.ID, file.Manifest.Source})
	}
	return v, nil
}

// commitOf returns the commit that a binary was built from, "" if the build does not know it.
func commitOf(info *debug.BuildInfo) (commit string, modified bool) {
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	return commit, modified
}

// versionOf returns the version of a binary: the one that its release stated, or that of the
// module if go install downloaded it. A module that was downloaded has a checksum.
func versionOf(stated string, info *debug.BuildInfo) string {
	if strings.HasSuffix(stated, "-dev") && info.Main.Sum != "" {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return stated
}
