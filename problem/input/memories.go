package input

import (
	"fmt"

	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// memories.go gives devices and hosts the memories that are stated one by one.

// oneByOne are memories that a file or a flag states.
type oneByOne struct {
	memories hardware.Memories
	// flag says that a flag states them.
	flag bool
}

// giveMemories sets the memories of devices and hosts that differ in the cluster's topology. A flag for
// the memory of all replaces the memories that a file or a plan states one by one.
func giveMemories(o Overrides, c *Cluster, file TopologyFile) error {
	t := &c.Topology
	usual, hosts := t.Memory, 0
	if usual == 0 {
		usual = t.Profile.Memory
	}
	if t.Devices > 0 {
		hosts = t.Hosts()
	}
	devices := spreading{what: "device", all: "memory", hint: clusterHint("device_memories"), file: file, flags: o, replaced: o.Has("memory") || o.Has("device"), given: o.Has("memory")}
	if devices.of = c.devices; !o.Has(devices.key()) || c.devices.flag {
		devices.into(&t.DeviceMemories, t.Devices, usual)
	}
	onHosts := spreading{what: "host", all: "host_memory", hint: clusterHint("host_memories"), file: file, flags: o, replaced: o.Has("host_memory"), given: o.Has("host_memory")}
	if onHosts.of = c.hosts; !o.Has(onHosts.key()) || c.hosts.flag {
		onHosts.into(&t.HostMemories, hosts, t.HostMemory)
	}
	*t = t.Even()
	return Join(append(devices.errs, onHosts.errs...)...)
}

// spreading are memories of devices or of hosts on their way into a topology.
type spreading struct {
	// what is "device" or "host", all the key of the memory of all, and hint that of errors.
	what, all, hint string
	file            TopologyFile
	flags           Overrides
	// given says that a flag states the memory of all, and replaced that a flag takes the place of
	// the memories that a file or a plan states one by one.
	given, replaced bool
	of              oneByOne
	errs            []error
}

func (s *spreading) key() string { return s.what + "_memories" }

func (s *spreading) fault(message string) {
	s.errs = append(s.errs, s.file.fault(s.flags, s.key(), message, s.hint))
}

// into sets the list of memories of a topology with n devices or hosts. A device or host without a
// stated memory keeps the one in the list, or gets the usual memory.
func (s *spreading) into(list *[]unit.Bytes, n int, usual unit.Bytes) {
	if s.replaced && !s.of.flag {
		s.of = oneByOne{}
	}
	if len(s.of.memories.Sizes) == 0 {
		if s.replaced {
			*list = nil
		}
		return
	}
	if n < 1 {
		return // reported
	}
	before := *list
	if s.replaced {
		before = nil
	}
	memories, wrong := s.of.memories.Of(n, before, usual)
	if wrong != "" {
		s.fault(fmt.Sprintf("%s memories: %s %ss", s.what, wrong, s.what))
		return
	}
	*list = memories
	if !s.of.memories.All(n) {
		return
	}
	switch {
	case s.of.flag && s.given:
		s.fault(fmt.Sprintf("%s has no effect: %s_memories states the memory of each %s", Flag(s.all), s.what, s.what))
	case !s.of.flag && s.file.Has(s.all):
		s.fault(fmt.Sprintf("%s has no effect: %s states the memory of each %s", s.all, s.key(), s.what))
	}
}
