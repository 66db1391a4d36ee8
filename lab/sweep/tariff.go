package sweep

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
)

// Tariff is what clusters cost per hour, as a user states it: the same price for each device,
// or a catalog of instances.
type Tariff struct {
	// flat is the price of one device for an hour; 0 with a catalog.
	flat float64
	// name is the catalog's file, and offers are its instances with accelerators.
	name   string
	spot   bool
	offers []offer
}

// offer is one row of a catalog.
type offer struct {
	instance, accelerator, region string
	// count is the number of devices of an instance, and price that of an instance for an hour.
	count int
	price float64
}

// accelerators holds, by device profile, the names that skypilot's catalog has for the device
// (github.com/skypilot-org/skypilot-catalog, catalogs/v8/common/accelerators.csv). A catalog
// may also write the profile's own name.
var accelerators = map[string][]string{
	"rtx2080ti": {"RTX2080Ti"},
	"v100-16":   {"V100"},
	"v100-32":   {"V100-32GB"},
	"a100-40":   {"A100"},
	"a100-80":   {"A100-80GB", "A100-80GB-SXM"},
	"h100-80":   {"H100", "H100-SXM", "H100-MEGA", "H100-NVLINK"},
	"h200":      {"H200", "H200-SXM"},
	"b200":      {"B200"},
	"gb200":     {"GB200"},
	"b300":      {"B300"},
	"gb300":     {"GB300"},
	"mi300x":    {"MI300X"},
	"mi350x":    {"MI350X"},
	"mi355x":    {"MI355X"},
}

// ParseFlat reads the price of one device for an hour, the same for all devices. ok is false if
// the text is no number.
func ParseFlat(text string) (t *Tariff, ok bool, err error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return nil, false, nil
	}
	if why := badPrice(v); why != "" {
		return nil, true, fmt.Errorf("price %s %s", text, why)
	}
	return &Tariff{flat: v}, true, nil
}

// badPrice says what is wrong with a price, or "".
func badPrice(v float64) string {
	switch {
	case math.IsNaN(v):
		return "is not a number"
	case v <= 0:
		return "is not above 0"
	case v > input.MaxPrice:
		return fmt.Sprintf("is above %.0f", input.MaxPrice)
	}
	return ""
}

// columns are the columns of skypilot's catalog that are read.
var columns = []string{"InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "SpotPrice", "Region"}

// ReadCatalog reads a CSV file in the columns of skypilot's catalog, in any order. Further columns
// are not read, and rows without an accelerator or without the price that is asked for are left
// out: the price of spot instances if spot is true, and otherwise Price. name stands in errors.
// The error is an *input.Errors with the first fault.
func ReadCatalog(name string, r io.Reader, spot bool) (*Tariff, error) {
	t := &Tariff{name: name, spot: spot}
	fault := func(line int, hint, format string, args ...any) error {
		return &input.Errors{List: []input.Error{{File: name, Line: line, Message: fmt.Sprintf(format, args...), Hint: hint}}}
	}
	in := csv.NewReader(r)
	head, err := in.Read()
	if err != nil {
		return nil, fault(1, "", "it is no CSV file with a header: %v", err)
	}
	at := map[string]int{}
	for i, column := range head {
		at[strings.TrimSpace(strings.TrimPrefix(column, "\ufeff"))] = i
	}
	for _, column := range columns {
		if _, ok := at[column]; !ok {
			return nil, fault(1, "the columns are those of skypilot's catalog: "+strings.Join(columns, ", ")+"; for one price for all devices write --prices 2.95", "column %s is missing", column)
		}
	}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fault(0, "", "%v", err)
		}
		if err := t.add(func(column string) string { return strings.TrimSpace(row[at[column]]) }); err != nil {
			line, _ := in.FieldPos(0)
			return nil, fault(line, "", "%v", err)
		}
	}
	if len(t.offers) == 0 {
		return nil, fault(0, "", "no row has an accelerator and a price in column %s", t.price())
	}
	return t, nil
}

// price returns the column of the price that is asked for.
func (t *Tariff) price() string {
	if t.spot {
		return "SpotPrice"
	}
	return "Price"
}

// add adds the offer of a row, given its cells by column. Instances without accelerators, with a
// part of one, or not for rent that way are no offers.
func (t *Tariff) add(cell func(column string) string) error {
	o := offer{instance: cell("InstanceType"), accelerator: cell("AcceleratorName"), region: cell("Region")}
	price := cell(t.price())
	if o.accelerator == "" || price == "" {
		return nil
	}
	count, err := strconv.ParseFloat(cell("AcceleratorCount"), 64) // skypilot writes 8.0
	if err != nil || !(count > 0 && count <= hardware.MaxDevices) {
		return fmt.Errorf("AcceleratorCount: %q is no number from 1 to %d", cell("AcceleratorCount"), hardware.MaxDevices)
	}
	if o.price, err = strconv.ParseFloat(price, 64); err != nil {
		return fmt.Errorf("%s: %q is not a number", t.price(), price)
	}
	if why := badPrice(o.price); why != "" {
		return fmt.Errorf("%s: %s %s", t.price(), price, why)
	}
	if o.count = int(count); count == math.Trunc(count) {
		t.offers = append(t.offers, o)
	}
	return nil
}

// String names the tariff.
func (t *Tariff) String() string {
	switch {
	case t == nil:
		return ""
	case t.flat > 0:
		return fmt.Sprintf("$%s an hour for a device (given)", strconv.FormatFloat(t.flat, 'g', -1, 64))
	case t.spot:
		return t.name + ", spot instances"
	}
	return t.name
}

// identity returns all that prices depend on, as text.
func (t *Tariff) identity() string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("%v %v %+v", t.flat, t.spot, t.offers)
}

// Hourly returns the price of the cluster for an hour, and its source. Of a catalog, each host
// of the cluster is the cheapest instance with enough devices: a host that needs fewer devices
// than its instance has pays for all of them. ok is false if the catalog has no such instance.
func (t *Tariff) Hourly(cluster hardware.Topology) (price float64, source string, ok bool) {
	if t.flat > 0 {
		return t.flat * float64(cluster.Devices), t.String(), true
	}
	names := append(slices.Clone(accelerators[cluster.Profile.Name]), cluster.Profile.Name)
	known := func(o offer) bool {
		return o.count >= cluster.PerHost() && slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, o.accelerator) })
	}
	var best *offer
	for i := range t.offers {
		o := &t.offers[i]
		if known(*o) && (best == nil || cmp.Or(cmp.Compare(o.price, best.price), cmp.Compare(o.instance, best.instance), cmp.Compare(o.region, best.region)) < 0) {
			best = o
		}
	}
	if best == nil {
		return 0, "", false
	}
	source = fmt.Sprintf("%d x %s (%d x %s)", cluster.Hosts(), cmp.Or(best.instance, "instance"), best.count, best.accelerator)
	if best.region != "" {
		source += " in " + best.region
	}
	return best.price * float64(cluster.Hosts()), source, true
}
