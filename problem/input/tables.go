package input

import (
	"fmt"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/strictjson"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
)

// TablesFormat and TablesVersion mark the project's own format of tables.
const (
	TablesFormat  = "neuroshard-tables"
	TablesVersion = 1
)

// The keys of the format's objects, in the order in which Write writes them.
var (
	fileKeys       = []string{"format", "version", "batch", "defaults", "tables"}
	defaultsKeys   = []string{"pooling_factor", "weighted", "precision", "optimizer", "zipf"}
	tableKeys      = []string{"name", "module", "rows", "dim", "features", "pooling_factor", "weighted", "precision", "optimizer", "access", "constraints"}
	featureKeys    = []string{"name", "pooling_factor"}
	accessKeys     = []string{"reuse", "batch", "unique_rows", "zipf", "uniform"}
	constraintKeys = []string{"devices", "device", "group", "no_split", "min_width"}
)

// Hints that several formats share.
const (
	rowsHint    = "rows is the table's hash size"
	dimHint     = "dim is the table's number of columns"
	poolingHint = "the pooling factor is the mean number of lookups per sample"
	batchHint   = "the batch is the number of samples of a step over all devices"
	zipfHint    = "published tables lie between 0.5 and 2"
	uniqueHint  = "unique_rows is the number of distinct rows in the batch of the histogram"
	widthHint   = "min_width is the narrowest column slice allowed"
	deviceHint  = "devices are numbered from 0"
	kindsHint   = `state one of "reuse", "zipf" and "uniform", or leave access out`
)

// jsonFile names a file of the project's own format in messages.
const jsonFile = "the file"

// readJSON reads the project's own format.
func (b *builder) readJSON(s *scanner) {
	file := s.Object(jsonFile, fileKeys)
	for key := range file.Keys() {
		switch key {
		case "format":
			b.formatKey(s)
		case "version":
			b.versionKey(s)
		case "batch":
			b.batchLine = s.Line()
			if batch, ok := s.whole("batch", batchHint); ok {
				b.Batch = b.globalBatch(s.Line(), batch)
			}
		case "defaults":
			b.defaultsKey(s)
		case "tables":
			for i := range s.List("tables") {
				if s.Next(); b.full(s.Line()) {
					s.Stop()
					break
				}
				b.jsonTable(s, i)
			}
		}
	}
	s.End()
	if s.Failed() {
		return
	}
	for _, key := range []string{"format", "version", "tables"} {
		if !file.Has(key) {
			b.add(1, key+" is missing", fmt.Sprintf(`begin the file with {"format": %q, "version": %d, "tables": [...`, TablesFormat, TablesVersion))
		}
	}
}

func (b *builder) formatKey(s *scanner) {
	if format, ok := s.Text("format"); ok && format != TablesFormat {
		s.fail(fmt.Sprintf("the format is %s, not %q", quote(format), TablesFormat), "give a file of tables here")
	}
}

func (b *builder) versionKey(s *scanner) {
	if version, ok := s.whole("version", ""); ok && version != TablesVersion {
		s.fail(fmt.Sprintf("version %d of the format is not known: this program reads version %d", version, TablesVersion), "get a newer program, or write the file anew")
	}
}

// globalBatch returns a stated batch, or reports it: 0 is no batch, and would
// pass for none stated.
func (r *report) globalBatch(line int, batch int64) int {
	if batch < 1 || batch > problem.MaxBatch {
		r.add(line, fmt.Sprintf("batch: %d is not between 1 and %d", batch, problem.MaxBatch), batchHint)
		return 0
	}
	return int(batch)
}

func (b *builder) defaultsKey(s *scanner) {
	d := &b.defaults
	for key := range s.Object("defaults", defaultsKeys).Keys() {
		switch key {
		case "pooling_factor":
			d.pooling, _ = s.real("pooling_factor", poolingHint) // 0 does no harm
			d.stated |= statedPooling
		case "weighted":
			d.weighted, _ = s.Bool("weighted")
		case "precision":
			d.precision, _ = s.precision()
		case "optimizer":
			d.optimizer = s.optimizer()
		case "zipf":
			var ok bool
			if d.zipf, ok = s.real("zipf", zipfHint); !ok {
				d.zipf = access.DefaultExponent
			}
			d.stated |= statedAccess
		}
	}
}

// jsonTable reads the table at position i. One that is no object, or in which the
// syntax breaks off, is left out.
func (b *builder) jsonTable(s *scanner, i int) {
	s.Next()
	line, named := s.Line(), len(s.report.list)
	var t problem.Table
	var has stated
	var bad unread
	check := func(ok bool, part unread) {
		if !ok {
			bad |= part
		}
	}
	pooling, ok := 0.0, false
	o := s.Object("a table", tableKeys)
	for key := range o.Keys() {
		switch key {
		case "name":
			t.Name, ok = s.Text("name")
			check(ok, unreadName)
		case "module":
			t.Module = s.module()
		case "rows":
			t.Rows, ok = s.whole("rows", rowsHint)
			check(ok, unreadRows)
		case "dim":
			var dim int64
			dim, ok = s.whole("dim", dimHint)
			t.Dim = int(dim)
			check(ok, unreadDim)
		case "features":
			t.Features = s.features()
			has |= statedPooling
		case "pooling_factor":
			pooling, _ = s.real("pooling_factor", poolingHint)
			has |= statedPooling
		case "weighted":
			t.Weighted, _ = s.Bool("weighted")
			has |= statedWeighted
		case "precision":
			t.Precision, ok = s.precision()
			check(ok, unreadPrecision)
			has |= statedPrecision
		case "optimizer":
			t.Optimizer = s.optimizer()
			has |= statedOptimizer
		case "access":
			t.Access = s.access()
			has |= statedAccess
		case "constraints":
			t.Constraint, ok = s.constraints()
			check(ok, unreadDevices)
		}
	}
	if o.Opened() && !s.Failed() {
		s.require(o, line, "name", "rows", "dim")
		check(o.Has("name"), unreadName)
		check(o.Has("rows"), unreadRows)
		check(o.Has("dim"), unreadDim)
		if o.Has("features") && o.Has("pooling_factor") {
			s.add(line, "both features and pooling_factor are stated", "state pooling_factor for a table that one feature reads, else features")
		} else if o.Has("pooling_factor") {
			t.Features = []problem.Feature{{Name: t.Name, PoolingFactor: pooling}}
		}
	}
	name := t.Name
	if name == "" {
		name = fmt.Sprintf("#%d", i)
	}
	s.name(named, name)
	if o.Opened() && !s.Failed() {
		b.table(t, line, has, bad, name)
	}
}

// module reads the path of the module that holds a table. An empty one is
// reported: it would pass for none stated.
func (s *scanner) module() string {
	module, ok := s.Text("module")
	if ok && module == "" {
		s.add(s.Line(), "module is empty", "leave it out for a table of the model itself, or of no known module")
	}
	return module
}

// require reports the keys that the object lacks.
func (s *scanner) require(o *strictjson.ObjectReader, line int, keys ...string) {
	var missing []string
	for _, key := range keys {
		if !o.Has(key) {
			missing = append(missing, key)
		}
	}
	switch {
	case len(missing) == 1:
		s.add(line, fmt.Sprintf("%s is missing in %s", missing[0], o.What), "")
	case len(missing) > 1:
		s.add(line, fmt.Sprintf("%s are missing in %s", strings.Join(missing, ", "), o.What), "")
	}
}

// features reads the features; where they could not be read, it makes up one
// that reads nothing.
func (s *scanner) features() []problem.Feature {
	var features []problem.Feature
	before := s.count()
	for range s.List("features") {
		var f problem.Feature
		s.Next()
		line, o := s.Line(), s.Object("a feature", featureKeys)
		for key := range o.Keys() {
			switch key {
			case "name":
				f.Name, _ = s.Text("name")
			case "pooling_factor":
				f.PoolingFactor, _ = s.real("pooling_factor", poolingHint)
			}
		}
		if o.Opened() && !s.Failed() {
			s.require(o, line, "pooling_factor")
		}
		features = append(features, f)
	}
	if len(features) == 0 && s.count() > before {
		return make([]problem.Feature, 1)
	}
	return features
}

func (s *scanner) precision() (p problem.Precision, ok bool) {
	line := s.Line()
	text, ok := s.Text("precision")
	if !ok {
		return 0, false
	}
	p, err := problem.ParsePrecision(text)
	s.enum(line, err, text, "precision", precisions())
	return p, err == nil
}

func (s *scanner) optimizer() problem.Optimizer {
	line := s.Line()
	text, ok := s.Text("optimizer")
	if !ok {
		return 0
	}
	o, err := problem.ParseOptimizer(text)
	s.enum(line, err, text, "optimizer", optimizers())
	return o
}

// enum reports a word that is not one of the known ones.
func (r *report) enum(line int, err error, word, what string, known []string) {
	if err != nil {
		r.add(line, fmt.Sprintf("%s %s is unknown", what, quote(word)), suggest(word, known))
	}
}

func precisions() []string {
	return []string{problem.FP32.String(), problem.FP16.String(), problem.BF16.String()}
}

func optimizers() []string {
	return []string{problem.SGD.String(), problem.RowwiseAdagrad.String(), problem.Adagrad.String(), problem.Adam.String()}
}

func (s *scanner) access() access.Distribution {
	var d access.Distribution
	s.Next()
	line, before := s.Line(), s.count()
	o := s.Object("access", accessKeys)
	for key := range o.Keys() {
		switch key {
		case "reuse":
			d.Kind = access.Histogram
			s.reuse(&d)
		case "batch":
			batch, ok := s.whole("batch", "state the number of samples that the histogram was counted on")
			if d.Batch = int(batch); !ok {
				d.Batch = 1
			}
		case "unique_rows":
			d.UniqueRows, _ = s.real("unique_rows", uniqueHint)
		case "zipf":
			d.Kind = access.Zipf
			var ok bool
			if d.Exponent, ok = s.real("zipf", zipfHint); !ok {
				d.Exponent = access.DefaultExponent
			}
		case "uniform":
			d.Kind = access.Uniform
			if uniform, ok := s.Bool("uniform"); ok && !uniform {
				s.add(s.Line(), "uniform: false says nothing", kindsHint)
			}
		}
	}
	if !o.Opened() || s.Failed() {
		return d
	}
	var kinds []string
	for _, key := range []string{"reuse", "zipf", "uniform"} {
		if o.Has(key) {
			kinds = append(kinds, key)
		}
	}
	switch {
	case len(kinds) == 0 && s.count() > before:
		// The key that was not understood may have been one.
	case len(kinds) == 0:
		s.add(line, "access states no distribution", kindsHint)
	case len(kinds) > 1:
		s.add(line, "access states both "+strings.Join(kinds, " and "), kindsHint)
	case o.Has("reuse"):
		if s.require(o, line, "batch"); !o.Has("batch") {
			d.Batch = 1
		}
	case o.Has("batch") || o.Has("unique_rows"):
		s.add(line, "access states batch or unique_rows without reuse", "they belong to a histogram of reuse")
	}
	return d
}

func (s *scanner) reuse(d *access.Distribution) {
	before, n := s.count(), 0
	for i := range s.List("reuse") {
		share, _ := s.real("reuse", "reuse holds the share of distinct rows in each use-count class")
		if i < len(d.Reuse) {
			d.Reuse[i] = share
		}
		n++
	}
	if n != access.Classes && !s.Failed() && (n > 0 || s.count() == before) {
		s.add(s.Line(), fmt.Sprintf("reuse has %d shares, not %d", n, access.Classes), "the classes are rows used 1, 2, 3-4, 5-8, ..., 16385-32768 and more than 32768 times in a batch")
	}
	if s.count() > before {
		d.Reuse = mendedReuse(d.Reuse)
	}
}

// constraints reads the constraints; ok is false where it is not clear which
// devices are allowed.
func (s *scanner) constraints() (c problem.Constraint, ok bool) {
	ok = true
	s.Next()
	line, o := s.Line(), s.Object("constraints", constraintKeys)
	for key := range o.Keys() {
		switch key {
		case "devices":
			before := s.count()
			for range s.List("devices") {
				if d, ok := s.whole("devices", deviceHint); ok {
					c.Devices = append(c.Devices, int(d))
				}
			}
			if len(c.Devices) == 0 && !s.Failed() && s.count() == before {
				s.add(s.Line(), "devices is an empty list: the table could go nowhere", "leave it out to allow all devices")
			}
			ok = ok && s.count() == before
		case "device":
			d, read := s.whole("device", deviceHint)
			if ok = ok && read; read {
				c.Devices = append(c.Devices, int(d))
			}
		case "group":
			if group, ok := s.Text("group"); ok && group == "" {
				s.add(s.Line(), "group is empty", "leave it out for a table in no group")
			} else {
				c.Group = group
			}
		case "no_split":
			c.NoSplit, _ = s.Bool("no_split")
		case "min_width":
			width, _ := s.whole("min_width", widthHint)
			c.MinWidth = int(width)
		}
	}
	if o.Has("device") && o.Has("devices") && !s.Failed() {
		s.add(line, "both device and devices are stated", "state device to pin the table to one, devices to allow several")
		slices.Sort(c.Devices)
		c.Devices, ok = slices.Compact(c.Devices), false
	}
	return c, ok
}
