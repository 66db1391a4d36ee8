package main

import (
	"fmt"

	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

// allToAll compares published all-to-alls with the exchange formula of the simulated
// device (simulate/exchange.go). A benchmark's size is the bytes that a device holds for all
// devices, its own included, so a device sends (n-1)/n of them.
func allToAll() (*sheet, error) {
	facts, err := readFacts("alltoall.csv")
	if err != nil {
		return nil, err
	}
	s := &sheet{folded: true, columns: []string{"source", "GPU, as profile", ">GPUs", ">hosts", ">bytes a GPU", ">measured us", ">predicted us", ">ratio", "in the fit", "note"}}
	for _, f := range facts {
		measured, predicted, err := allToAllTimes(f)
		if err != nil {
			return nil, err
		}
		used := "no"
		name := "out of sample, a healthy cluster"
		switch {
		case f.text("use") == "fit":
			used = "yes"
			name = fmt.Sprintf("in the fit, %s", hosts(f.count("hosts")))
		case f.text("use") == "fault":
			name = "out of sample, reported as a fault"
		}
		s.set(name, goal{}).add(predicted, measured)
		s.rows = append(s.rows, []string{
			f.text("source"), f.text("gpu") + ", " + f.text("profile"), f.text("devices"), f.text("hosts"), size(f.number("bytes")),
			fmt.Sprintf("%.4g", measured), fmt.Sprintf("%.4g", predicted), fmt.Sprintf("%.2f", predicted/measured), used, f.text("note"),
		})
	}
	return s, nil
}

// hosts says a number of hosts in words.
func hosts(n int) string {
	switch {
	case n == 1:
		return "one host"
	case n < 16:
		return "2 to 8 hosts"
	}
	return "16 hosts"
}

// allToAllTimes returns the measured and the predicted time of a row, in us.
func allToAllTimes(f *fact) (measured, predicted float64, err error) {
	e, err := exchangeOf(f)
	if err != nil {
		return 0, 0, err
	}
	return e.measured, e.predicted(1), nil
}

// An exchange is a measured all-to-all.
type exchange struct {
	// measured is in us, and sent the bytes that a device sends.
	measured, sent float64
	network        simulate.Network
	// share is the share of the network cards' bandwidth in the formulas.
	share float64
}

// exchangeOf reads a row. A row that states a bus bandwidth in place of a time has the time
// that follows from it.
func exchangeOf(f *fact) (exchange, error) {
	profile, err := hardware.ByName(f.text("profile"))
	if err != nil {
		return exchange{}, fmt.Errorf("%s: %w", f.where, err)
	}
	if nic := f.number("nic_gbps"); nic > 0 {
		profile.NICGBps = nic
	}
	devices := f.count("devices")
	e := exchange{measured: f.number("us"), sent: f.number("bytes") * float64(devices-1) / float64(devices)}
	if e.measured == 0 {
		e.measured = e.sent / (1000 * f.number("bus_gbps"))
	}
	if f.err != nil {
		return exchange{}, f.err
	}
	e.network, err = simulate.NewDevice(profile).Network(simulate.Cluster{Devices: devices, PerHost: devices / f.count("hosts"), Batch: 1})
	if err != nil {
		return exchange{}, fmt.Errorf("%s: %w", f.where, err)
	}
	e.share = e.network.NIC / (1e6 * profile.NICGBps)
	return e, nil
}

// predicted returns the time in us if the network were faster than in the formulas, by a factor.
func (e exchange) predicted(factor float64) float64 {
	e.network.NIC *= factor
	return 1000 * float64(e.network.AllToAll(e.sent).Time())
}

// size prints bytes with three digits, in B, kB, MB or GB of powers of ten.
func size(bytes float64) string {
	unit := 0
	for bytes >= 999.5 && unit < 3 {
		bytes /= 1000
		unit++
	}
	return fmt.Sprintf("%.3g %s", bytes, [...]string{"B", "kB", "MB", "GB"}[unit])
}
