package hardware

import (
	"fmt"
	"math"
	"slices"

	"github.com/neuroshard/neuroshard/unit"
)

// fixed.go states what the devices hold and do beside the tables of a plan: embedding tables that
// somebody else places, such as tables of a key-value store or with rows that appear in training.

// The limits of fixed loads. No sum of bytes overflows an int64.
const (
	MaxFixed     = 1 << 12
	MaxFixedTime = unit.Millis(1e6)
)

// FixedLoad is memory and compute that something outside of the plan takes on devices.
type FixedLoad struct {
	// Name says what takes them, such as a table. Loads of one name on different devices may differ.
	Name string `json:"name"`
	// Devices lists the devices, each once; empty means all.
	Devices []int `json:"devices,omitempty"`
	// Bytes is the device memory that it takes on each of the devices, at most MaxMemory.
	Bytes unit.Bytes `json:"bytes,omitempty"`
	// Time is its compute in a step on each of the devices, forward and backward, at most
	// MaxFixedTime.
	Time unit.Millis `json:"ms,omitempty"`
}

// On reports whether the load is on a device.
func (l *FixedLoad) On(device int) bool {
	return len(l.Devices) == 0 || slices.Contains(l.Devices, device)
}

// CheckFixed returns what is wrong with the fixed loads of a cluster; nil if nothing is.
func CheckFixed(loads []FixedLoad, devices int) error {
	if len(loads) > MaxFixed {
		return fmt.Errorf("%d loads are more than %d", len(loads), MaxFixed)
	}
	for i := range loads {
		l := &loads[i]
		if l.Name == "" {
			return fmt.Errorf("load %d has no name", i)
		}
		if err := l.check(devices); err != nil {
			return fmt.Errorf("%q: %w", l.Name, err)
		}
	}
	return unlike(loads)
}

func (l *FixedLoad) check(devices int) error {
	switch {
	case l.Bytes < 0 || l.Bytes > MaxMemory:
		return fmt.Errorf("%d bytes are not between 0 and %v", int64(l.Bytes), MaxMemory)
	case !(l.Time >= 0 && l.Time <= MaxFixedTime):
		return fmt.Errorf("%v ms are not between 0 and %v", float64(l.Time), float64(MaxFixedTime))
	case l.Bytes == 0 && l.Time == 0:
		return fmt.Errorf("it takes neither bytes nor time")
	}
	for _, d := range l.Devices {
		if d < 0 || d >= devices {
			return fmt.Errorf("device %d is not one of the %d devices", d, devices)
		}
	}
	return nil
}

// unlike returns an error if two loads of one name are on the same device.
func unlike(loads []FixedLoad) error {
	type place struct {
		name   string
		device int
	}
	const all = math.MaxInt
	seen := map[place]bool{}
	named := map[string]bool{}
	for i := range loads {
		l := &loads[i]
		devices := l.Devices
		if len(devices) == 0 {
			devices = []int{all}
		}
		for _, d := range devices {
			if seen[place{l.Name, d}] || seen[place{l.Name, all}] || d == all && named[l.Name] {
				return fmt.Errorf("%q is twice on one device: state each device of a load once", l.Name)
			}
			seen[place{l.Name, d}] = true
		}
		named[l.Name] = true
	}
	return nil
}
