// Command measured makes the tables of docs/MEASURED.md: what scripts/measure-gpu measured on a
// GPU, beside what the simulated device and the cost models predict. The measurements are in
// docs/measured, a folder for each GPU and backend, so the command needs no GPU and prints the
// same bytes each time.
//
//	go run ./docs/generate/measured                          all tables
//	go run ./docs/generate/measured -doc docs/MEASURED.md    the tables, into the document
//
// Each table has a function, in the file of its step: lanes.go, times.go, fit.go, weights.go, samples.go, plans.go,
// replay.go.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/neuroshard/neuroshard/internal/marks"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/simulate"
)

func main() {
	folder := flag.String("folder", "docs/measured", "folder of the measurements")
	doc := flag.String("doc", "", "document to put the tables into, in place of those between its marks: `file`")
	flag.Parse()
	if err := run(os.Stdout, *folder, *doc); err != nil {
		fmt.Fprintln(os.Stderr, "measured: error:", err)
		os.Exit(1)
	}
}

// The folders of the measurements, by the kernels that ran.
const (
	fbgemm = "h200-fbgemm"
	triton = "h200-triton"
)

// profile is the profile of the GPU that was measured.
const profile = "h200"

// A table is one table of the document; its mark there is "measured NAME".
type table struct {
	name string
	make func(m *measurements) (string, error)
}

// tables lists all tables in the order of the document.
func tables() []table {
	return []table{
		{"plans", planTable},
		{"dcnv2", dcnTable},
		{"replayed", replayTable},
		{"lanes", lanesTable},
		{"lanes-triton", tritonLanesTable},
		{"times", timesTable},
		{"line", lineTable},
		{"fitted", fittedTable},
		{"weights", weightsTable},
		{"groups", samplesTable},
		{"ceilings", ceilingsTable},
	}
}

// run prints all tables, and writes them into the document if it is named.
func run(out io.Writer, folder, doc string) error {
	m, err := readAll(folder)
	if err != nil {
		return err
	}
	texts := make([]string, len(tables()))
	for i, t := range tables() {
		if texts[i], err = t.make(m); err != nil {
			return fmt.Errorf("table %s: %w", t.name, err)
		}
		fmt.Fprintf(out, "%s:\n\n%s\n\n", t.name, texts[i])
	}
	if doc == "" {
		return nil
	}
	for i, t := range tables() {
		if err := marks.Replace(doc, "measured "+t.name, texts[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// measurements is what the folders hold.
type measurements struct {
	folder         string
	fbgemm, triton kernelTimes
	// device is the simulated device of the profile.
	device simulate.Device
}

// kernelTimes holds the measurements of one backend. name is for tables, and folder is that of
// its files.
type kernelTimes struct {
	name, folder string
	lanes        lanesFile
	anchors      anchorsFile
	plans        []planRow
}

// backends returns the measurements of both backends.
func (m *measurements) backends() []*kernelTimes { return []*kernelTimes{&m.fbgemm, &m.triton} }

func readAll(folder string) (*measurements, error) {
	hw, err := hardware.ByName(profile)
	if err != nil {
		return nil, err
	}
	m := &measurements{
		folder: folder, device: simulate.NewDevice(hw),
		fbgemm: kernelTimes{name: "FBGEMM", folder: fbgemm}, triton: kernelTimes{name: "Triton", folder: triton},
	}
	for _, k := range m.backends() {
		at := filepath.Join(folder, k.folder)
		if err := readJSON(filepath.Join(at, "lanes.json"), &k.lanes); err != nil {
			return nil, err
		}
		if n := len(k.lanes.Lanes); n != lanesCases {
			return nil, fmt.Errorf("%s: %d of %d cases of lanes.json are measured", at, n, lanesCases)
		}
		if err := readJSON(filepath.Join(at, "anchors.json"), &k.anchors); err != nil {
			return nil, err
		}
		if k.plans, err = readPlans(filepath.Join(at, "plans.csv")); err != nil {
			return nil, err
		}
	}
	return m, nil
}
