package input

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/step"
	"github.com/neuroshard/neuroshard/unit"
)

// tables.go has the fields of tables, which all formats of tables share, and reads the project's own
// format.

// TablesFormat and TablesVersion mark the project's own format of tables.
const (
	TablesFormat  = "neuroshard-tables"
	TablesVersion = 1
)

// Hints that several lists share.
const (
	batchHint   = "batch is the number of samples of a step over all devices"
	samplesHint = "samples is the number of samples of an epoch"
	deviceHint  = "devices are numbered from 0"

	distributionHint = `state one of "reuse", "zipf" and "uniform", or leave access out`
)

// table is a table of a file while it is read or written.
type table struct {
	*problem.Table
	// only is the feature of a table that lists no features.
	only problem.Feature
	// pin is the device that the key device states.
	pin int
	// uniform is the key uniform.
	uniform bool
}

var (
	anyReal   = real[float64](nil)
	precision = oneOf(problem.Precisions(), problem.ParsePrecision)
	optimizer = oneOf(problem.Optimizers(), problem.ParseOptimizer)
	output    = kind[problem.OutputPrecision]{func(r *report, n *node, hint string) (problem.OutputPrecision, bool) {
		p, ok := precision.read(r, n, hint)
		return problem.OutputIn(p), ok
	}, nil, precision.schema}
)

// The fields of tables. Those of the key access, and of constraints, stand by themselves in CSV files.
var (
	listedFields = listed(problem.TableFields(), func(t *table) *problem.Table { return t.Table })
	// onlyListed are those of the feature of a table that lists none.
	onlyListed = listed(problem.FeatureFields()[1:], func(t *table) *problem.Feature { return &t.only })
	ownFields  = slices.Concat(within("")[:4],
		[]*field[table]{at("features", features, "list the features that read the table", func(t *table) *[]problem.Feature { return &t.Features })},
		onlyListed, within("")[4:],
		[]*field[table]{group("access", shaped("access", accessFields)), group("constraints", shaped("constraints", constraintFields))})
	accessFields = append(within(problem.InAccess),
		at("uniform", truth, distributionHint, func(t *table) *bool { return &t.uniform }).in("-"))
	constraintFields = append(within(problem.InConstraints),
		at("device", anyWhole[int](), "device is the one allowed device, numbered from 0", func(t *table) *int { return &t.pin }).in("-").forAll())
	tableFields = writtenSo(numbered(slices.Concat(ownFields, accessFields, constraintFields)))

	// featureFields are those of a feature in a list.
	featureFields = featuresOfLists()
	featureShape  = shaped("a feature", featureFields, "pooling_factor")

	// fixedFields are those of a fixed load: a table of the model that somebody else places, by the bytes
	// and the time that it takes on devices.
	fixedFields = numbered([]*field[hardware.FixedLoad]{
		at("name", word, "", func(l *hardware.FixedLoad) *string { return &l.Name }),
		at("devices", listOf(anyWhole[int](), false), deviceHint, func(l *hardware.FixedLoad) *[]int { return &l.Devices }),
		at("bytes", size, "write a number and its unit, such as 12GiB", func(l *hardware.FixedLoad) *unit.Bytes { return &l.Bytes }).written(func(l *hardware.FixedLoad) any {
			if l.Bytes == 0 {
				return nil
			}
			return fmt.Sprintf("%dB", int64(l.Bytes))
		}),
		at("ms", real[unit.Millis](nil), "ms is the compute of the load in a step on each of its devices, forward and backward", func(l *hardware.FixedLoad) *unit.Millis { return &l.Time }),
	})
	fixedShape = shaped("a fixed load", fixedFields, "name")
)

// featuresOfLists returns the fields of a feature in a list, which always states its pooling factor.
func featuresOfLists() []*field[problem.Feature] {
	fields := numbered(listed(problem.FeatureFields(), func(f *problem.Feature) *problem.Feature { return f }))
	fields[1].write = func(f *problem.Feature) any { return f.PoolingFactor }
	return fields
}

// within returns the fields of an object of a table.
func within(object string) (fields []*field[table]) {
	for i, f := range problem.TableFields() {
		if f.In == object {
			fields = append(fields, listedFields[i])
		}
	}
	return fields
}

// writtenSo has some fields written otherwise than unless they are zero.
func writtenSo(fields []*field[table]) []*field[table] {
	for key, write := range map[string]func(*table) any{
		"features":         writtenFeatures,
		"pooling_factor":   writtenFactor,
		"precision":        func(t *table) any { return t.Precision.String() },
		"output_precision": writtenOutput,
		"optimizer":        func(t *table) any { return t.Optimizer.String() },
		"index_dedup":      func(t *table) any { return unlessZero(t.IndexDedup && !t.ChooseDedup) },
		"reuse":            ofKind(access.Histogram, func(t *table) any { return t.Access.Reuse }),
		"batch":            ofKind(access.Histogram, func(t *table) any { return t.Access.Batch }),
		"unique_rows":      ofKind(access.Histogram, writtenUnique),
		"zipf":             ofKind(access.Zipf, func(t *table) any { return t.Access.Exponent }),
		"uniform":          ofKind(access.Uniform, func(*table) any { return true }),
		"devices":          writtenDevices,
		"device":           writtenPin,
	} {
		fields[slices.IndexFunc(fields, func(f *field[table]) bool { return f.key == key })].write = write
	}
	return fields
}

// The sets of fields that belong together.
var (
	defaultFields  = forAll(tableFields)
	rowsField      = setOf(tableFields, "rows")
	dimField       = setOf(tableFields, "dim")
	precisionField = setOf(tableFields, "precision")
	nameField      = setOf(tableFields, "name")
	lengthField    = setOf(tableFields, "length_cv")
	featuresField  = setOf(tableFields, "features")
	factorField    = setOf(tableFields, "pooling_factor")
	onlyFields     = setOf(tableFields, "pooling_factor", "length_cv", "bags")
	dedupField     = setOf(tableFields, "index_dedup")
	chooseField    = setOf(tableFields, "choose_dedup")
	optimizerField = setOf(tableFields, "optimizer")
	accessField    = setOf(tableFields, "access")
	reuseField     = setOf(tableFields, "reuse")
	batchField     = setOf(tableFields, "batch")
	uniqueField    = setOf(tableFields, "unique_rows")
	zipfField      = setOf(tableFields, "zipf")
	uniformField   = setOf(tableFields, "uniform")
	kindFields     = reuseField | zipfField | uniformField
	lawField       = setOf(tableFields, "index_law")
	devicesFields  = setOf(tableFields, "devices", "device")
	pinField       = setOf(tableFields, "device")
	minWidthField  = setOf(tableFields, "min_width")
	cacheField     = setOf(tableFields, "cache_share")
)

// The shapes of a table and of the defaults.
var (
	tableShape    = tablesShape()
	defaultsShape = shaped("defaults", append(forAll(slices.Concat(ownFields, accessFields)), group("constraints", shaped("constraints", forAll(constraintFields)))))
)

func tablesShape() *shape[table] {
	s := shaped("a table", ownFields, "name", "rows", "dim")
	s.aliases = torchRecNames
	return s
}

// about returns what the field of a table is, for hints.
func about(key string) string {
	return listedFields[slices.IndexFunc(listedFields, func(f *field[table]) bool { return f.key == key })].hint
}

// forAll returns the fields of a list that a file may state for all tables.
func forAll(fields []*field[table]) []*field[table] {
	return slices.DeleteFunc(slices.Clone(fields), func(f *field[table]) bool { return !f.byDefault })
}

// torchRecNames are fields of TorchRec's EmbeddingBagConfig and of its constraints, with the keys
// and columns that hold the same.
var torchRecNames = map[string]string{
	"num_embeddings":  "rows",
	"embedding_dim":   "dim",
	"data_type":       "precision",
	"feature":         "features",
	"feature_names":   "features",
	"is_weighted":     "weighted",
	"pooling_factors": "pooling_factor",
}

func laws() (names []string) {
	for _, law := range access.Laws() {
		names = append(names, law.String())
	}
	return names
}

// ofKind writes a field of tables with one kind of distribution.
func ofKind(k access.Kind, write func(*table) any) func(*table) any {
	return func(t *table) any {
		if t.Access.Kind != k {
			return nil
		}
		return write(t)
	}
}

// single reports whether the table is written without a list of features.
func (t *table) single() bool { return len(t.Features) == 1 && t.Features[0].Name == t.Name }

func writtenFeatures(t *table) any {
	if t.single() || len(t.Features) == 0 {
		return nil
	}
	var list []any
	for i := range t.Features {
		list = append(list, object(featureFields, &t.Features[i]))
	}
	return list
}

func writtenFactor(t *table) any {
	if !t.single() {
		return nil
	}
	return t.only.PoolingFactor
}

func writtenOutput(t *table) any {
	if t.OutputPrecision == 0 {
		return nil
	}
	return t.OutputPrecision.Of(t.Precision).String()
}

func writtenDevices(t *table) any {
	if len(t.Constraint.Devices) < 2 {
		return nil
	}
	return t.Constraint.Devices
}

func writtenPin(t *table) any {
	if len(t.Constraint.Devices) != 1 {
		return nil
	}
	return t.Constraint.Devices[0]
}

// writtenUnique bounds the count: a table that was scaled may state more.
func writtenUnique(t *table) any {
	return unlessZero(min(t.Access.UniqueRows, float64(t.Rows), mostUnique(t.Table)))
}

// features is a list of features, or of their names as TorchRec's feature_names lists them.
var features = kind[[]problem.Feature]{func(r *report, n *node, hint string) ([]problem.Feature, bool) {
	elements, ok := r.elements(n, hint)
	if !ok {
		return make([]problem.Feature, 1), true // one that reads nothing
	}
	list := make([]problem.Feature, len(elements))
	for i := range elements {
		f, e := &list[i], &elements[i]
		if e.kind == aString || e.kind == cell {
			f.Name, f.PoolingFactor, f.LengthCV = e.text, unstated, unstated
			continue
		}
		e.key = "a feature"
		f.LengthCV = unstated
		featureShape.read(&reading{report: r}, e, f)
	}
	return list, true
}, nil, nil}

// shares are the shares of a histogram.
var shares = kind[[access.Classes]float64]{func(r *report, n *node, hint string) (reuse [access.Classes]float64, ok bool) {
	elements, ok := r.elements(n, hint)
	if ok && len(elements) != access.Classes {
		r.add(n.line, fmt.Sprintf("reuse has %d shares, not %d", len(elements), access.Classes), hint)
	}
	for i := range min(len(elements), access.Classes) {
		reuse[i], _ = anyReal.read(r, &elements[i], hint)
	}
	return reuse, true
}, nil, schema{"type": "array", "minItems": access.Classes, "maxItems": access.Classes, "items": schema{"type": "number"}}}

// fileShape is the project's own format, but for the tables.
var (
	fileFields = numbered([]*field[builder]{
		{key: "format", read: func(r *reading, n *node, _ string, _ *builder) {
			if format, ok := r.text(n, ""); ok && format != TablesFormat {
				r.fatal(n.line, fmt.Sprintf("the format is %s, not %q", quote(format), TablesFormat), "give a file of tables here")
			}
		}},
		{key: "version", read: func(r *reading, n *node, _ string, _ *builder) {
			if version, ok := anyWhole[int]().read(r.report, n, ""); ok && version != TablesVersion {
				r.fatal(n.line, fmt.Sprintf("version %d of the format is not known: this program reads version %d", version, TablesVersion), "get a newer program, or write the file anew")
			}
		}},
		at("batch", whole[int](1, problem.MaxBatch), batchHint, func(b *builder) *int { return &b.Batch }),
		at("samples", whole[int64](1, step.MaxSamples), samplesHint, func(b *builder) *int64 { return &b.Samples }),
		at("warnings", listOf(kind[string]{read: warning}, true), "leave it out", func(b *builder) *[]string { return &b.Warnings }),
		{key: "defaults", read: func(r *reading, n *node, _ string, b *builder) { b.readDefaults(n) }},
		{key: "fixed", read: func(r *reading, n *node, hint string, b *builder) { b.readFixed(n) }},
		{key: "tables"},
	})
	fileShape = shaped("the file", fileFields)
)

// mostWarnings is the most warnings that a file may state, and mostWarning the most bytes
// of a warning.
const (
	mostWarnings = 100
	mostWarning  = 1000
)

// warning reads what the program that wrote the file had to assume.
func warning(r *report, n *node, hint string) (string, bool) {
	text, ok := r.text(n, hint)
	if ok && !isWarning(text) {
		r.add(n.line, noWarning(text), hint)
		return "", false
	}
	return text, ok
}

// isWarning reports whether a file may state the text as a warning.
func isWarning(text string) bool {
	return text != "" && len(text) <= mostWarning && !strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) })
}

// noWarning says that a file may not state the text as a warning.
func noWarning(text string) string {
	return fmt.Sprintf("the warning %s is not a line of 1 to %d printable bytes", quote(text), mostWarning)
}

// readFixed reads the list of fixed loads.
func (b *builder) readFixed(n *node) {
	elements, _ := b.elements(n, "")
	if len(elements) > hardware.MaxFixed {
		b.add(n.line, fmt.Sprintf("more than %d fixed loads", hardware.MaxFixed), "state loads of the same devices together")
		return
	}
	for i := range elements {
		var l hardware.FixedLoad
		before := b.count()
		elements[i].key = "a fixed load"
		fixedShape.read(&reading{report: b.report}, &elements[i], &l)
		if b.count() == before {
			b.Fixed = append(b.Fixed, l)
		}
	}
}

// readDefaults reads the defaults of tables.
func (b *builder) readDefaults(n *node) {
	r := &reading{report: b.report}
	defaultsShape.read(r, n, &b.defaults)
	c := &b.defaults.Constraint
	if width := c.MinWidth; width < 0 || width > problem.MaxDim || width%problem.ColumnGranule != 0 {
		b.add(n.line, fmt.Sprintf("min_width: %d is not a multiple of %d from 0 to %d", width, problem.ColumnGranule, problem.MaxDim), about("min_width"))
		c.MinWidth = 0
	}
	r.devices(n, &b.defaults)
	r.dedup(n, &b.defaults)
	if r.bad.has(zipfField) {
		b.defaults.Access.Exponent = access.DefaultExponent
	}
	b.statedForAll = r.stated
}

// readJSON reads the project's own format into b.
func readJSON(b *builder, s *scanner) {
	r := &reading{report: b.report, lines: map[string]int{}}
	for key := range s.Object(fileShape.what, fileShape.keys) {
		if key == "tables" {
			r.lines[key] = s.Line()
			b.each(s, tableShape, key, b.newTable)
			continue
		}
		n := s.tree(key)
		if s.Failed() {
			return
		}
		f := fileFields[slices.Index(fileShape.keys, key)]
		if f.value(r, n, b); r.bad.has(setOf(fileFields, "format", "version")) {
			s.Stop()
			return
		}
	}
	b.batchLine = r.lines["batch"]
	s.End()
	if s.Failed() {
		return
	}
	for _, key := range []string{"format", "version", "tables"} {
		if r.lines[key] == 0 {
			b.add(1, key+" is missing", fmt.Sprintf(`begin the file with {"format": %q, "version": %d, "tables": [...`, TablesFormat, TablesVersion))
		}
	}
	if len(b.Warnings) > mostWarnings {
		b.add(r.lines["warnings"], fmt.Sprintf("more than %d warnings", mostWarnings), "leave some out")
	}
}

// each reads the list of tables, which messages call what, each into a table that begin returns.
func (b *builder) each(s *scanner, of *shape[table], what string, begin func(n *node, i int) *table) {
	for i := range s.List(what) {
		if s.Next(); b.full(s.Line()) {
			s.Stop()
			return
		}
		named := len(b.list)
		n := s.tree(of.what)
		if s.Failed() {
			name := fmt.Sprintf("#%d", i)
			if stated := n.get("name"); stated != nil {
				name = cmp.Or(stated.text, name)
			}
			b.name(named, name)
			return
		}
		b.readTable(of, n, begin(n, i), named, i)
	}
}

// newTable returns an empty table, whose memory serves all tables in turn.
func (b *builder) newTable(*node, int) *table {
	*b.next.Table = problem.Table{}
	b.next = table{Table: b.next.Table}
	return &b.next
}

// readTable reads the table at position i. named is the number of errors before those of the table.
func (b *builder) readTable(of *shape[table], n *node, t *table, named, i int) {
	r := &reading{report: b.report}
	is := of.read(r, n, t)
	if is {
		r.complete(n, t)
	}
	name := t.Name
	if name == "" {
		name = fmt.Sprintf("#%d", i)
	}
	b.name(named, name)
	if is {
		b.table(t.Table, n.line, r.stated, r.bad, name)
	}
}

// complete makes the one feature of a table that lists no features, and reports keys that exclude each
// other.
func (r *reading) complete(n *node, t *table) {
	switch {
	case !r.stated.has(featuresField):
		t.only.Name = t.Name
		t.Features = []problem.Feature{t.only}
	case len(t.Features) == 1 && math.IsNaN(t.Features[0].PoolingFactor): // a name, without numbers
		t.only.Name = t.Features[0].Name
		t.Features[0] = t.only
		r.stated &^= featuresField
	default:
		for _, f := range tableFields {
			if r.stated.has(1<<f.id) && onlyFields.has(1<<f.id) {
				r.add(n.line, fmt.Sprintf("both features and %s are stated", f.key), fmt.Sprintf("state %s for a table that one feature reads, else in each of the features", f.key))
			}
		}
	}
	if t.Dim <= 0 && !r.stated.has(dimField) {
		r.bad |= dimField
	}
	r.access(n, t)
	r.devices(n, t)
	r.dedup(n, t)
}

// dedup reports a table that states index_dedup and leaves it to the plan.
func (r *reading) dedup(n *node, t *table) {
	if t.IndexDedup && t.ChooseDedup {
		r.add(n.line, "both index_dedup and choose_dedup are true", "state index_dedup to deduplicate the indices, choose_dedup to let the plan decide")
		t.ChooseDedup = false
	}
}

// devices puts the device of a pin among the allowed devices.
func (r *reading) devices(n *node, t *table) {
	c, both := &t.Constraint, r.stated&devicesFields == devicesFields
	if r.stated.has(pinField) && !r.bad.has(pinField) {
		c.Devices = append(c.Devices, t.pin)
	}
	if r.stated.has(devicesFields) {
		r.stated |= devicesFields
	}
	if both {
		r.add(n.line, "both device and devices are stated", "state device to pin the table to one, devices to allow several")
		slices.Sort(c.Devices)
		c.Devices = slices.Compact(c.Devices)
		r.bad |= devicesFields
	}
}

// access tells the kind of a table's distribution, and reports keys that do not state one.
func (r *reading) access(n *node, t *table) {
	if t.Access.Kind == access.Histogram { // of the prototype's format
		r.stated |= zipfField
		if r.bad != 0 {
			t.Access.Reuse = mendedReuse(t.Access.Reuse)
		}
		return
	}
	r.checkAccess(n, t)
	r.kindOf(&t.Access)
	if r.stated.has(accessField) && !r.stated.has(lawField) {
		r.stated |= zipfField // as far as defaults go
	}
	if r.stated.has(kindFields) {
		r.stated |= zipfField
	}
}

// checkAccess reports what an access object states that does not go together.
func (r *reading) checkAccess(n *node, t *table) {
	var kinds []string
	for _, f := range accessFields {
		if r.stated&kindFields&(1<<f.id) != 0 {
			kinds = append(kinds, f.key)
		}
	}
	faulty := r.bad.has(accessField) && !r.bad.has(kindFields)
	switch {
	case len(kinds) > 1:
		r.add(n.line, "access states both "+strings.Join(kinds, " and "), distributionHint)
	case r.stated.has(reuseField):
		if !r.stated.has(batchField) {
			r.add(n.line, "reuse is stated without its batch", "state the number of samples that the histogram was counted on")
		}
	case r.stated.has(batchField | uniqueField):
		r.add(n.line, "access states batch or unique_rows without reuse", "they belong to a histogram of reuse")
	case r.stated.has(uniformField) && !t.uniform && !r.bad.has(uniformField):
		r.add(n.line, "uniform: false says nothing", distributionHint)
	case len(kinds) == 0 && r.stated.has(accessField) && !r.stated.has(lawField) && !faulty:
		r.add(n.line, "access states no distribution", distributionHint)
	}
}

// kindOf sets the kind of a distribution, and makes what was read of it wrongly usable.
func (r *reading) kindOf(d *access.Distribution) {
	switch {
	case r.stated.has(reuseField):
		d.Kind = access.Histogram
		if r.bad.has(reuseField) {
			d.Reuse = mendedReuse(d.Reuse)
		}
		if !r.stated.has(batchField) || r.bad.has(batchField) {
			d.Batch = 1
		}
		d.Exponent = 0
	case r.stated.has(uniformField):
		d.Kind, d.Exponent = access.Uniform, 0
	case r.stated.has(zipfField):
		d.Kind = access.Zipf
		if r.bad.has(zipfField) {
			d.Exponent = access.DefaultExponent
		}
	}
	if d.Kind != access.Histogram {
		d.Batch, d.UniqueRows = 0, 0
	}
}

// unstated is what a listed feature has for a number that it does not state, until the end of the file:
// the defaults may come after the tables. No number of a file reads as NaN.
var unstated = math.NaN()
