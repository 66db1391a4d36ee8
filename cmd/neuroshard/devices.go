package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/unit"
)

func newDevicesCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "List the device profiles",
		Args:  exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			shipped := pretrained.Profiles()
			modelled := func(name string) bool { return slices.Contains(shipped, name) }
			if asJSON {
				return bad(a.printJSON(describeProfiles(modelled)), "")
			}
			return bad(report.Devices(a.stdout, hardware.Profiles(), modelled, a.reportOptions()), "")
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return cmd
}

// profileJSON is a device profile in the list.
type profileJSON struct {
	Name      string     `json:"name"`
	Memory    unit.Bytes `json:"memory_bytes"`
	HBMGBps   float64    `json:"hbm_gbps"`
	L2        unit.Bytes `json:"l2_bytes"`
	SMs       int        `json:"sms"`
	IntraGBps float64    `json:"intra_gbps"`
	NICGBps   float64    `json:"nic_gbps"`
	Model     bool       `json:"model"`
}

func describeProfiles(modelled func(name string) bool) []profileJSON {
	var all []profileJSON
	for _, h := range hardware.Profiles() {
		all = append(all, profileJSON{h.Name, h.Memory, h.HBMGBps, h.L2, h.SMs, h.IntraGBps, h.NICGBps, modelled(h.Name)})
	}
	return all
}
