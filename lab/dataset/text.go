package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
)

// text.go writes the text formats of the published NeuroShard prototype. They hold less
// than a dataset. Samples that the formats cannot hold are refused:
//
//	compute   "3,9,9 1.25"              indices of tables, forward and backward ms
//	comm      "8,4 0,1.5 3,2 3,2"       dim sums, starts, forward ms, backward ms
//
// Index k stands for table k%n at dim 128>>(k/n), n being the number of tables.
// The formats state neither batch, optimizer, precision, splits nor provenance.

// textDims are the dims that the prototype's indices can say, in their order.
var textDims = []int{128, 64, 32, 16, 8, 4}

const (
	// textBatch is the batch that the prototype's histograms belong to.
	textBatch = 65536
	// maxTextDevices is the most devices of the prototype's nets.
	maxTextDevices = 1024
)

// writeComputeText writes the samples in the prototype's format, quarantined
// ones left out, in the order they are in. All must be of one operation, every member must have one of the dims 4, 8, 16, 32, 64 and 128,
// and one feature must read its table. If not, the error lists the values that occur.
// writeTableConfigs writes the tables that the indices number.
func writeComputeText(w io.Writer, c *Compute) error {
	samples := c.Usable()
	if err := checkComputeText(c, samples); err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	for _, g := range samples {
		for i, m := range g.Members {
			if i > 0 {
				_ = out.WriteByte(',')
			}
			index := slices.Index(textDims, int(m.Dim))*len(c.Tables) + int(m.Table)
			_, _ = out.WriteString(strconv.Itoa(index))
		}
		fmt.Fprintf(out, " %s\n", decimal(float64(g.Forward+g.Backward)))
	}
	return out.Flush()
}

func checkComputeText(c *Compute, samples []Group) error {
	if len(samples) == 0 {
		return errors.New("there are no samples of fused lookups to write")
	}
	operations := map[problem.Operation]int{}
	for _, g := range samples {
		operations[g.Operation]++
		for _, m := range g.Members {
			if t := &c.Tables[m.Table]; len(t.Features) != 1 {
				return fmt.Errorf("sample %d: table %q is read by %d features: the prototype knows tables of one", g.ID, t.Name, len(t.Features))
			}
			if !slices.Contains(textDims, int(m.Dim)) {
				return fmt.Errorf("sample %d: dim %d: the prototype knows 4, 8, 16, 32, 64 and 128", g.ID, m.Dim)
			}
		}
	}
	return oneKind(operations, "operations", func(op problem.Operation) string {
		text := fmt.Sprintf("batch %d %v %v", op.Batch, op.Optimizer, op.Precision)
		if op.Weighted {
			text += " weighted"
		}
		if op.LaneRule != problem.LanesByWidest {
			text += fmt.Sprintf(" lanes %v", op.LaneRule)
		}
		return text
	})
}

// commSetting is what all exchanges of one text file have in common.
type commSetting struct{ devices, perHost, batch int }

// writeCommText writes the samples in the prototype's format, quarantined ones
// left out, in the order they are in. All must be of one number of devices,
// alike on hosts, and of one batch.
func writeCommText(w io.Writer, c *Comm) error {
	samples := c.Usable()
	if len(samples) == 0 {
		return errors.New("there are no samples of all-to-alls to write")
	}
	kinds := map[commSetting]int{}
	for _, e := range samples {
		kinds[commSetting{e.Devices, e.DevicesPerHost, e.Batch}]++
		if e.Devices > maxTextDevices {
			return fmt.Errorf("sample %d: %d devices: the prototype knows %d", e.ID, e.Devices, maxTextDevices)
		}
	}
	err := oneKind(kinds, "kinds", func(k commSetting) string {
		return fmt.Sprintf("%d devices, %d on a host, batch %d", k.devices, k.perHost, k.batch)
	})
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	for _, e := range samples {
		fmt.Fprintf(out, "%s %s %s %s\n", join(e.DimSums, strconv.Itoa), join(e.Start, decimal), join(e.Forward, decimal), join(e.Backward, decimal))
	}
	return out.Flush()
}

// oneKind refuses samples of several kinds, and lists the kinds with their numbers of
// samples, ten at most.
func oneKind[K comparable](kinds map[K]int, noun string, name func(K) string) error {
	if len(kinds) < 2 {
		return nil
	}
	var words []string
	for k, n := range kinds {
		words = append(words, fmt.Sprintf("%q (%d)", name(k), n))
	}
	slices.Sort(words)
	if len(words) > 10 {
		words = append(words[:10], fmt.Sprintf("%d others", len(words)-10))
	}
	return fmt.Errorf("samples of %d %s, and the prototype's format can say one: choose among %s", len(kinds), noun, strings.Join(words, ", "))
}

// decimal prints v so that it is read back exactly.
func decimal[F ~float64](v F) string { return strconv.FormatFloat(float64(v), 'g', -1, 64) }

func join[T any](list []T, text func(T) string) string {
	return strings.Join(each1(list, text), ",")
}

// writeTableConfigs writes the tables in the prototype's format, a JSON list of
// objects with the keys row, pooling_factor and bin_0 to bin_16. The bins are
// those of a batch of 65,536, as in the published data.
//
// If augmented is false, the list has one object for each table, for readers that know how
// indices are made. If it is true, the list has one object for each table and dim, with the
// key dim, and index k stands for the list's element k.
func writeTableConfigs(w io.Writer, tables []problem.Table, augmented bool) error {
	dims := []int{0}
	if augmented {
		dims = textDims
	}
	configs := each1(tables, func(t problem.Table) string {
		reuse := t.Counts(textBatch).Reuse
		if t.Access.Kind == access.Histogram && t.Access.Batch == textBatch {
			reuse = t.Access.Reuse
		}
		text := fmt.Sprintf(`{"row": %d, "pooling_factor": %s`, t.Rows, decimal(t.PoolingFactor()))
		for i, share := range reuse {
			text += fmt.Sprintf(`, "bin_%d": %s`, i, decimal(share))
		}
		return text
	})
	out := bufio.NewWriter(w)
	_ = out.WriteByte('[')
	separator := "\n"
	for _, dim := range dims {
		for i, config := range configs {
			if dim > 0 {
				config += fmt.Sprintf(`, "dim": %d`, dim)
			}
			if !json.Valid([]byte(config + "}")) {
				return fmt.Errorf("table %d, %q: its numbers are not finite", i, tables[i].Name)
			}
			fmt.Fprint(out, separator, config, "}")
			separator = ",\n"
		}
	}
	_, _ = out.WriteString("\n]\n")
	return out.Flush()
}

// ExportPrototype writes a dataset to a folder in the prototype's formats, which
// hold less than a dataset:
//
//	compute.txt                   samples of fused lookups (writeComputeText)
//	table_configs.json            the tables (writeTableConfigs)
//	augmented_table_configs.json  the same for each dim: element k has index k
//	comm_4.txt                    all-to-alls of 4 devices (writeCommText), and so on
//
// If the formats cannot hold some sample, nothing is written. Files of these names are
// replaced.
func ExportPrototype(folder string, d Dataset) error {
	type output struct {
		name  string
		write func(io.Writer) error
	}
	var outputs []output
	if c := d.Compute; c != nil && len(c.Samples) > 0 {
		outputs = append(outputs,
			output{"compute.txt", func(w io.Writer) error { return writeComputeText(w, c) }},
			output{"table_configs.json", func(w io.Writer) error { return writeTableConfigs(w, c.Tables, false) }},
			output{"augmented_table_configs.json", func(w io.Writer) error { return writeTableConfigs(w, c.Tables, true) }})
	}
	if c := d.Comm; c != nil {
		byDevices := map[int]*Comm{}
		var order []int
		for _, e := range c.Usable() {
			if byDevices[e.Devices] == nil {
				byDevices[e.Devices] = &Comm{Provenance: c.Provenance}
				order = append(order, e.Devices)
			}
			byDevices[e.Devices].Samples = append(byDevices[e.Devices].Samples, e)
		}
		slices.Sort(order)
		for _, n := range order {
			outputs = append(outputs, output{fmt.Sprintf("comm_%d.txt", n), func(w io.Writer) error { return writeCommText(w, byDevices[n]) }})
		}
	}
	if len(outputs) == 0 {
		return errors.New("the dataset holds no samples to write")
	}
	var names []string
	var contents [][]byte
	for _, o := range outputs {
		var text bytes.Buffer
		if err := o.write(&text); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		names, contents = append(names, o.name), append(contents, text.Bytes())
	}
	return placeTogether(folder, names, contents)
}
