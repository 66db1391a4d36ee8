package report

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/neuroshard/neuroshard/lab/dataset"
)

// DatasetInfo is what a person wants to know of a dataset.
type DatasetInfo struct {
	Folder string `json:"folder"`
	// Seconds is how long the measurement took; 0: that is not known.
	Seconds float64             `json:"seconds,omitempty"`
	Compute *dataset.Provenance `json:"compute,omitempty"`
	Comm    *dataset.Provenance `json:"comm,omitempty"`
	Tables  int                 `json:"tables"`
	// Groups and Exchanges are samples, Quarantined those of either kind that were
	// set aside.
	Groups      int           `json:"groups"`
	Exchanges   int           `json:"exchanges"`
	Quarantined int           `json:"quarantined"`
	Noise       dataset.Noise `json:"noise"`
	// Realised is how near the lookups that ran are to the statistics that the design
	// asks for; nil if that is not known.
	Realised *RealisedInfo `json:"realised,omitempty"`
}

// RealisedInfo says how far the reuse histograms of made-up lookups lie from
// those asked for, in percent (lookups.Realised.Distance), over Tables tables, each at
// each batch size.
type RealisedInfo struct {
	Tables int     `json:"tables"`
	Mean   float64 `json:"mean_percent"`
	Max    float64 `json:"max_percent"`
}

// DatasetSummary sums a dataset up. Provenance is shared with the dataset.
func DatasetSummary(set dataset.Dataset) DatasetInfo {
	var s DatasetInfo
	if c := set.Compute; c != nil {
		s.Compute, s.Tables, s.Groups, s.Noise = &c.Provenance, len(c.Tables), len(c.Samples), c.Noise()
		for i := range c.Samples {
			if c.Samples[i].Quarantined {
				s.Quarantined++
			}
		}
	}
	if c := set.Comm; c != nil {
		s.Comm, s.Exchanges = &c.Provenance, len(c.Samples)
		for i := range c.Samples {
			if c.Samples[i].Quarantined {
				s.Quarantined++
			}
		}
	}
	return s
}

// Dataset writes what a dataset holds and where it comes from.
func Dataset(w io.Writer, s DatasetInfo, opt Options) error {
	p := &printer{w: w, opt: opt}
	title := "dataset"
	if s.Folder != "" {
		title += " " + name(s.Folder)
	}
	p.printf("%s  %s over %s, %s\n", p.paint(bold, title), plural(s.Groups, "group"), plural(s.Tables, "table"), plural(s.Exchanges, "all-to-all"))
	switch {
	case s.Compute != nil:
		provenance(p, s.Compute)
	case s.Comm != nil:
		provenance(p, s.Comm)
	}
	if s.Compute != nil && s.Comm != nil {
		otherProvenance(p, s.Compute, s.Comm)
	}
	if r := s.Realised; r != nil && r.Tables > 0 {
		p.fact("histograms", fmt.Sprintf("differ from those asked for by %.2f %% on average, %.1f %% at most (%s)", r.Mean, r.Max, plural(r.Tables, "table")))
	}
	if s.Quarantined > 0 {
		p.fact("quarantine", plural(s.Quarantined, "sample")+" set aside, because the backend drifted")
	}
	if n := s.Noise; n.Repeats > 0 {
		p.fact("noise", fmt.Sprintf("samples measured again differ by %.1f %% on average, %.1f %% in the median (%s)", n.Mean, n.Median, plural(n.Repeats, "repeat")))
	}
	if n := s.Noise; n.Anchors > 1 {
		p.fact("drift", fmt.Sprintf("the anchor, measured %d times, was at most %.1f %% off its median", n.Anchors, n.Drift))
	}
	if s.Seconds > 0 {
		p.fact("took", fmt.Sprintf("%.0f s", s.Seconds))
	}
	return p.err
}

// provenance writes where samples come from.
func provenance(p *printer, by *dataset.Provenance) {
	times := source(string(by.Source))
	if by.Source == dataset.Simulated {
		times += ", not measured"
	}
	p.fact("times", times)
	p.fact("profile", by.Profile)
	p.fact("device", by.Device)
	p.fact("clocks", by.Clocks)
	p.fact("kernel", by.Kernel)
	p.fact("backend", by.Backend)
	p.fact("cache", by.Cache)
	p.fact("lookups", by.Lookups)
	p.fact("each sample", runs(by.Passes, by.Fastest, by.Repeats, by.Warmup))
	p.fact("seed", fmt.Sprint(by.Seed))
}

// otherProvenance writes the facts of the all-to-alls that differ from those of the groups.
func otherProvenance(p *printer, compute, comm *dataset.Provenance) {
	differ := func(title, a, b string) {
		if a != b && b != "" {
			p.fact(title, "of the all-to-alls: "+b)
		}
	}
	differ("times", source(string(compute.Source)), source(string(comm.Source)))
	differ("device", compute.Device, comm.Device)
	differ("kernel", compute.Kernel, comm.Kernel)
	differ("backend", compute.Backend, comm.Backend)
}

// runs says what a sample's time is, such as the median of some runs; it returns "" if
// that is not known.
func runs(passes int, fastest bool, repeats, warmup int) string {
	if repeats <= 0 {
		return ""
	}
	text := fmt.Sprintf("median of %s after %d of warm-up", plural(repeats, "run"), warmup)
	switch {
	case passes > 1 && fastest:
		text = fmt.Sprintf("fastest of %d passes, each the %s", passes, text)
	case passes > 1:
		text = fmt.Sprintf("median of %d passes, each the %s", passes, text)
	}
	return text
}

// Ceilings writes what a device reaches at best.
func Ceilings(w io.Writer, by dataset.Provenance, found map[string]float64, opt Options) error {
	p := &printer{w: w, opt: opt}
	p.printf("%s  %s\n", p.paint(bold, OneLine(by.Device)), OneLine(by.Kernel))
	var rows [][]string
	for _, key := range slices.Sorted(maps.Keys(found)) {
		rows = append(rows, []string{name(key), fmt.Sprintf("%.3g", found[key])})
	}
	p.grid([]string{"<ceiling", "value"}, rows)
	return p.err
}
