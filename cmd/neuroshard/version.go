package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost/pretrained"
)

func newVersionCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version and the cost models inside",
		Args:  exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			v, err := describeVersion()
			if err != nil {
				return err
			}
			if asJSON {
				return bad(a.printJSON(v), "")
			}
			fmt.Fprintln(a.stdout, versionLine())
			for _, m := range v.Models {
				fmt.Fprintf(a.stdout, "model %-10s %s %s\n", m.Profile, m.ID, m.Source)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// versionLine names the program, its version, and what it was built for.
func versionLine() string {
	return fmt.Sprintf("neuroshard %s %s %s/%s", neuroshard.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

type versionJSON struct {
	Version  string      `json:"version"`
	Go       string      `json:"go"`
	Platform string      `json:"platform"`
	Models   []modelJSON `json:"models"`
}

type modelJSON struct {
	Profile string `json:"profile"`
	ID      string `json:"id"`
	Source  string `json:"source"`
}

func describeVersion() (versionJSON, error) {
	v := versionJSON{neuroshard.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, []modelJSON{}}
	for _, profile := range pretrained.Profiles() {
		file, err := pretrained.File(profile)
		if err != nil {
			return v, err
		}
		v.Models = append(v.Models, modelJSON{profile, file.Manifest.ID, file.Manifest.Source})
	}
	return v, nil
}
