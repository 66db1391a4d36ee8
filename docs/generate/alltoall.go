package main

import (
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

// allToAll compares published all-to-alls with the exchange formula of the simulated
// device (simulate/exchange.go). A benchmark's size is the bytes that a device holds for all
// devices, its own included, so a device sends (n-1)/n of them.
func allToAll() []*set {
	s := sets{what: "all-to-alls"}
	for _, f := range readFacts("alltoall.csv") {
		measured, predicted := allToAllTimes(f)
		rows := "out of the fit, a healthy cluster"
		switch f.text("use") {
		case "fit":
			rows = "in the fit, " + hosts(f.count("hosts"))
		case "fault":
			rows = "out of the fit, reported as a fault"
		}
		s.of(rows).add(predicted, measured)
	}
	return s.list
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

// allToAllTimes returns the measured and the predicted time of a row, in us. A row that states a
// bus bandwidth in place of a time has the time that follows from it.
func allToAllTimes(f fact) (measured, predicted float64) {
	profile := must(hardware.ByName(f.text("profile")))
	if nic := f.number("nic_gbps"); nic > 0 {
		profile.NICGBps = nic
	}
	devices := f.count("devices")
	sent := f.number("bytes") * float64(devices-1) / float64(devices)
	if measured = f.number("us"); measured == 0 {
		measured = sent / (1000 * f.number("bus_gbps"))
	}
	network := must(simulate.NewDevice(profile).Network(simulate.Cluster{Devices: devices, PerHost: devices / f.count("hosts"), Batch: 1}))
	return measured, 1000 * float64(network.AllToAll(sent).Time())
}
