package prototype

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
)

// The bounds of cost files.
const (
	maxSamples      = 2_000_000
	maxSampleTables = 10_000
	// maxMillis is above any measured time: an hour.
	maxMillis = 3.6e6
)

// Slice is a table of the pool with the given dim.
type Slice struct{ Table, Dim int }

// ComputeSample is a measured group of tables on one device.
type ComputeSample struct {
	Slices []Slice
	// Millis is the time of the fused forward and backward.
	Millis float64
}

// CommSample is a measured pair of all-to-alls. Each list has one number for each
// device.
type CommSample struct {
	// Dims holds the dim sums, and Starts the times, in ms, at which the devices
	// enter the forward exchange.
	Dims   []int
	Starts []float64
	// Forward and Backward are the times of the exchanges, in ms.
	Forward, Backward []float64
}

// ReadComputeSamples reads compute costs, gzipped or not. Each line is one sample:
// "i,j,k ms". Index k stands for table k%tables with dim 128>>(k/tables), where
// tables is the size of the pool.
func ReadComputeSamples(name string, r io.Reader, tables int) ([]ComputeSample, error) {
	if tables < 1 || tables > problem.MaxTables {
		return nil, fmt.Errorf("%s: a pool of %d tables", name, tables)
	}
	data, err := readAll(name, r)
	if err != nil {
		return nil, err
	}
	const dims = 6 // 128, 64, ..., 4
	f := &faults{file: name}
	var samples []ComputeSample
	for line, text := range lines(f, data) {
		fields := strings.Fields(text)
		if len(fields) != 2 {
			f.add(line, "got %d fields, want 2: \"i,j,k ms\"", len(fields))
			continue
		}
		indices, err1 := integerList(fields[0], maxSampleTables)
		times, err2 := millisList(fields[1], 1)
		if err := join([]error{err1, err2}); err != nil {
			f.add(line, "%w", err)
			continue
		}
		s := ComputeSample{Slices: make([]Slice, len(indices)), Millis: times[0]}
		for i, k := range indices {
			if k < 0 || k >= dims*tables {
				f.add(line, "index %d: a pool of %d tables at %d dims has indices 0 to %d", k, tables, dims, dims*tables-1)
				break
			}
			s.Slices[i] = Slice{k % tables, 128 >> (k / tables)}
		}
		if samples = append(samples, s); len(samples) > maxSamples {
			f.add(line, "more than %d samples", maxSamples)
			break
		}
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return samples, nil
}

// ReadCommSamples reads comm costs, gzipped or not. Each line is one sample: "dims
// starts forward backward", four comma lists of one number for each device.
func ReadCommSamples(name string, r io.Reader, devices int) ([]CommSample, error) {
	if devices < 1 || devices > maxDevices {
		return nil, fmt.Errorf("%s: samples of %d devices", name, devices)
	}
	data, err := readAll(name, r)
	if err != nil {
		return nil, err
	}
	f := &faults{file: name}
	var samples []CommSample
	for line, text := range lines(f, data) {
		fields := strings.Fields(text)
		if len(fields) != 4 {
			f.add(line, "got %d fields, want 4: \"dims starts forward backward\"", len(fields))
			continue
		}
		var s CommSample
		var found [4]error
		s.Dims, found[0] = integerList(fields[0], devices)
		s.Starts, found[1] = millisList(fields[1], devices)
		s.Forward, found[2] = millisList(fields[2], devices)
		s.Backward, found[3] = millisList(fields[3], devices)
		if found[0] == nil && len(s.Dims) != devices {
			found[0] = fmt.Errorf("%d dim sums for %d devices", len(s.Dims), devices)
		}
		for _, d := range s.Dims {
			if d < 0 || d > 1<<30 {
				found[0] = fmt.Errorf("dim sum %d is not between 0 and 2^30", d)
			}
		}
		if err := join(found[:]); err != nil {
			f.add(line, "%w", err)
			continue
		}
		if samples = append(samples, s); len(samples) > maxSamples {
			f.add(line, "more than %d samples", maxSamples)
			break
		}
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return samples, nil
}

// millisList reads a comma list of n times.
func millisList(text string, n int) ([]float64, error) {
	if got := strings.Count(text, ",") + 1; got != n {
		return nil, fmt.Errorf("%d times in a list, want %d", got, n)
	}
	list := make([]float64, 0, n)
	for part := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseFloat(part, 64)
		if err != nil || math.IsNaN(v) || v < 0 || v > maxMillis {
			return nil, fmt.Errorf("%q is not a time in ms", short(part))
		}
		list = append(list, v)
	}
	return list, nil
}
