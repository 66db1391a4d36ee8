package worker

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"runtime"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/unit"
)

// machine holds the facts that a Linux system reports about its hardware. Other
// systems report none and get default values.
type machine struct {
	model string
	// clocks holds the facts about the processor's clock that stay the same from run
	// to run: limits and policy, not the current rate.
	clocks        string
	memory, cache unit.Bytes
}

// defaultMemory is the memory of a machine that does not report it.
const defaultMemory = 8 * unit.GiB

// defaultCache is the last-level cache of a machine that does not report one.
const defaultCache = 32 * unit.MiB

// cacheFolder is the folder in which Linux describes the caches of the first
// processor.
const cacheFolder = "sys/devices/system/cpu/cpu0/cache"

// describe reads a machine's description from the root of its file system.
func describe(root fs.FS) machine {
	m := machine{model: runtime.GOARCH, clocks: "not told by the system", memory: defaultMemory, cache: defaultCache}
	if model := field(root, "proc/cpuinfo", "model name"); model != "" {
		m.model = model
	}
	const policy = "sys/devices/system/cpu/cpu0/cpufreq/"
	if most, err := strconv.ParseFloat(text(root, policy+"cpuinfo_max_freq"), 64); err == nil {
		m.clocks = fmt.Sprintf("at most %.2f GHz", most/1e6)
		if governor := text(root, policy+"scaling_governor"); governor != "" {
			m.clocks += ", governor " + governor
		}
	}
	if kb, _, _ := strings.Cut(field(root, "proc/meminfo", "MemTotal"), " "); kb != "" {
		if n, err := strconv.ParseInt(kb, 10, 64); err == nil && n > 0 && n < 1<<40 {
			m.memory = unit.Bytes(n) * unit.KiB
		}
	}
	// The limit of a container counts if it is lower.
	for _, limit := range []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if n, err := strconv.ParseInt(text(root, limit), 10, 64); err == nil && n > 0 {
			m.memory = min(m.memory, unit.Bytes(n))
		}
	}
	if caches, err := fs.Sub(root, cacheFolder); err == nil {
		m.cache = lastLevelCache(caches)
	}
	return m
}

func (m machine) device(opt *Options) string {
	switch {
	case opt.ProcessorTime:
		return m.model + ", processor time of 1 thread"
	case opt.Threads == 1:
		return m.model + ", 1 thread"
	}
	return fmt.Sprintf("%s, %d threads", m.model, opt.Threads)
}

// text returns the first line of a small file; it is "" if there is no such file.
func text(root fs.FS, name string) string {
	content, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	line, _, _ := bytes.Cut(content, []byte("\n"))
	return string(bytes.TrimSpace(line))
}

// field returns the value of the first line "key : value" of a file, or "".
func field(root fs.FS, name, key string) string {
	content, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		k, v, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// lastLevelCache returns the size of the last-level cache, from the folder that describes the caches.
func lastLevelCache(cache fs.FS) unit.Bytes {
	indices, _ := fs.Glob(cache, "index*") // the pattern is right
	size, level := defaultCache, 0
	for _, index := range indices {
		at, err := strconv.Atoi(text(cache, index+"/level"))
		kind := text(cache, index+"/type")
		kib, inKiB := strings.CutSuffix(text(cache, index+"/size"), "K") // Linux writes no other unit
		n, err2 := strconv.ParseInt(kib, 10, 32)
		if err == nil && err2 == nil && inKiB && n > 0 && at > level && (kind == "Unified" || kind == "Data") {
			size, level = unit.Bytes(n)*unit.KiB, at
		}
	}
	return size
}
