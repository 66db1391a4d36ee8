package sweep

import (
	"bytes"
	"math"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// A file that is read is written as it was, up to its order.
func FuzzRead(f *testing.F) {
	head := Head{Format: Format, Version: FormatVersion, Tool: "1", Identity: "0", Axes: []Axis{{axisDevices, []string{"1", "2"}}}, Cells: 2, Part: Part{1, 1}}
	file := File{head, []Outcome{outcome(1, "none", 1, 100, 10, 2), {Cell: Cell{Number: 2, Batch: 8, Device: "h200", Devices: 2}, Status: Infeasible, Reason: "too <large>"}}}
	must.Get(Read("file", bytes.NewReader(file.bytes())))(f)
	f.Add(file.bytes())
	f.Add(line(head))
	f.Add(file.bytes()[:200])
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		read, err := Read("file", bytes.NewReader(text))
		if err != nil {
			return
		}
		if again, err := Read("file", bytes.NewReader(read.bytes())); err != nil || read.Missing() < 0 || len(again.Outcomes) != len(read.Outcomes) {
			t.Fatalf("%d missing cells; read again: error %v", read.Missing(), err)
		}
		r := NewResults(*read, BySpeed)
		must.Do(t, WriteCSV(&bytes.Buffer{}, r))
	})
}

// A catalog that is read has only prices that clusters can have.
func FuzzReadCatalog(f *testing.F) {
	f.Add("InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region\na,H100,8,20,9,here\n", false)
	f.Add("InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region\na,h100-80,8.0,NaN,1e999,\"here\"\n", true)
	f.Add("InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region\n\"", false)
	profile := must.Get(hardware.ByName("h100-80"))(f)
	f.Fuzz(func(t *testing.T, text string, spot bool) {
		tariff, err := ReadCatalog("catalog.csv", bytes.NewReader([]byte(text)), spot)
		if err != nil {
			return
		}
		price, source, ok := tariff.Hourly(hardware.Topology{Profile: profile, Devices: 12, DevicesPerHost: 8})
		if ok && (!(price > 0) || math.IsInf(price, 0) || source == "") {
			t.Errorf("got a price of %v by %q", price, source)
		}
	})
}

// A scale that is read is written so that it is read again.
func FuzzParseScale(f *testing.F) {
	for _, text := range []string{"none", "rows=2,dims=1.5", "tables=0.25,pooling=3", "rows=1e-6"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseScale(text)
		if err != nil {
			return
		}
		again, err := ParseScale(s.String())
		if err != nil || again.String() != s.String() {
			t.Errorf("%q: got %v, and %v with error %v when it is read again", text, s, again, err)
		}
	})
}
