package input

import (
	"fmt"
	"io"
	"strings"

	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// device.go reads a device that a user describes: a known one, and what differs.

const devicePart = "a device"

// deviceFields are the fields of a device, in the words of the cluster file.
var (
	deviceFields = numbered([]*field[hardware.Profile]{
		{key: "like", hint: "like is the device profile whose numbers the other keys replace; it is required", read: func(*reading, *node, string, *hardware.Profile) {}}, // read before
		at("name", word, "name is that of the device, in plans; it is required", func(p *hardware.Profile) *string { return &p.Name }),
		at("memory", size, "memory is that of the device, such as 96GiB", func(p *hardware.Profile) *unit.Bytes { return &p.Memory }),
		at("hbm_bandwidth", gbps, "hbm_bandwidth is that of the memory, such as 4TB/s", func(p *hardware.Profile) *float64 { return &p.HBMGBps }),
		at("l2", size, "l2 is the size of the last cache, such as 60MiB", func(p *hardware.Profile) *unit.Bytes { return &p.L2 }),
		at("l2_bandwidth", gbps, "l2_bandwidth is that of the last cache, such as 5TB/s", func(p *hardware.Profile) *float64 { return &p.L2GBps }),
		at("sms", whole[int](1, 1<<20), "sms is the number of multiprocessors or compute units", func(p *hardware.Profile) *int { return &p.SMs }),
		at("link_bandwidth", gbps, "link_bandwidth is what a device reaches to the others of its host, such as 340GB/s", func(p *hardware.Profile) *float64 { return &p.IntraGBps }),
		at("network_bandwidth", gbps, "network_bandwidth is what a device reaches to other hosts, such as 48GB/s", func(p *hardware.Profile) *float64 { return &p.NICGBps }),
		at("host_link_bandwidth", gbps, "host_link_bandwidth is that to the memory of the host, such as 50GB/s", func(p *hardware.Profile) *float64 { return &p.HostGBps }),
		at("devices_per_host", whole[int](1, hardware.MaxDevices), "devices_per_host is the number of devices of a full host", func(p *hardware.Profile) *int { return &p.PerHost }),
		at("nvlink_domain", whole[int](1, hardware.MaxDevices), "nvlink_domain is how many devices the links inside hosts join", func(p *hardware.Profile) *int { return &p.NVLinkDomain }),
	})
	deviceShape = shaped(devicePart, deviceFields, "like", "name")

	gbps = quantity("a bandwidth with its unit", "B/s", func(text string) (float64, error) {
		b, err := unit.ParseBandwidth(text)
		return b.GBps(), err
	})
)

// Device reads a device from YAML or JSON: an object with the keys like and name, which are required,
// and those of the numbers that differ from the profile like. docs/FORMATS.md draws the file.
//
// The error is nil or an *Errors with all that is wrong.
func Device(name string, from io.Reader) (device, like hardware.Profile, err error) {
	r := &report{file: name}
	root := r.root(name, devicePart, from)
	if root == nil {
		return device, like, r.err()
	}
	if base := root.get("like"); base != nil {
		if text, ok := r.text(base, "write one of "+strings.Join(hardware.Names(), ", ")); ok {
			if like, err = hardware.ByName(clip(text)); err != nil {
				r.add(base.line, "like: "+err.Error(), "describe them with: neuroshard list devices")
			}
		}
	}
	device = like
	device.HostGBps, device.PerHost = like.HostLinkGBps(), like.FullHost()
	lines := map[string]int{}
	if !deviceShape.read(&reading{report: r, lines: lines}, root, &device) || r.count() > 0 {
		return device, like, r.err()
	}
	if _, err := hardware.ByName(device.Name); err == nil {
		r.add(lines["name"], "name: "+quote(device.Name)+" is a known device profile", "give the device a name of its own")
	}
	if line := lines["nvlink_domain"]; device.NVLinkDomain%device.FullHost() != 0 && line == 0 {
		r.add(lines["devices_per_host"], fmt.Sprintf("devices_per_host: hosts of %d devices do not fill the NVLink domain of %s, which has %d", device.FullHost(), like.Name, device.NVLinkDomain), "state nvlink_domain, too: a multiple of devices_per_host")
	} else if device.NVLinkDomain%device.FullHost() != 0 {
		r.add(line, fmt.Sprintf("nvlink_domain: %d devices are not whole hosts of %d", device.NVLinkDomain, device.FullHost()), "state a multiple of devices_per_host")
	}
	if faults := device.Problems(); len(faults) > 0 {
		r.add(root.line, strings.Join(faults, "; "), "")
	}
	return device, like, r.err()
}
