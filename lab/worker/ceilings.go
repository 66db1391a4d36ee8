package worker

import (
	"runtime/debug"

	"github.com/neuroshard/neuroshard/lab/protocol"
	"github.com/neuroshard/neuroshard/lab/worker/engine"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// cacheOfThread bounds a thread's share of the last-level cache. A virtual machine
// reports the whole cache of its host, which hundreds of cores share; no server
// processor has more than 16 MiB of it for each core.
const cacheOfThread = 16 * unit.MiB

// ceilings measures the highest rates of the machine and of all-to-alls between the
// ranks. It also returns them as a hardware profile.
func ceilings(opt *Options, on *machine, g *ranks) (protocol.Response, error) {
	c := engine.MeasureCeilings(opt.Threads, max(engine.MinCeilingBytes, min(unit.GiB, opt.Memory/4)))
	debug.FreeOSMemory()
	r := protocol.Response{Ceilings: map[string]float64{
		"copy_gbps": c.CopyGBps, "gather_gbps": c.GatherGBps, "cached_gather_gbps": c.CachedGatherGBps,
		"sort_mkeys": c.SortMkeys, "clock_ghz": c.ClockGHz,
	}}
	// For the cost models, a thread of a CPU is like a multiprocessor of a GPU, and
	// its memory is like HBM. The bandwidth of the memory was measured, not looked up,
	// so a streaming kernel reaches all of it.
	r.Profile = hardware.Profile{
		Name: "cpu", Memory: min(opt.Memory, hardware.MaxMemory), HBMGBps: c.CopyGBps, HBMEfficiency: 1,
		L2:     min(on.cache, cacheOfThread*unit.Bytes(opt.Threads)),
		L2GBps: c.CachedGatherGBps, SMs: opt.Threads, ClockGHz: c.ClockGHz, Granule: 64,
	}
	if err := exchangeCeilings(g, r.Ceilings, &r.Profile); err != nil {
		return protocol.Response{}, err
	}
	return r, nil
}
