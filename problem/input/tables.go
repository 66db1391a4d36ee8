package input

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/neuroshard/neuroshard/internal/strictjson"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/step"
)

// TablesFormat and TablesVersion mark the project's own format of tables.
const (
	TablesFormat  = "neuroshard-tables"
	TablesVersion = 1
)

// The keys of the format's objects, in the order in which Write writes them.
var (
	fileKeys       = []string{"format", "version", "batch", "samples", "warnings", "defaults", "fixed", "tables"}
	defaultsKeys   = []string{"pooling_factor", "length_cv", "pooling", "weighted", "prefetch", "index_dedup", "precision", "optimizer", "zipf", "index_law", "constraints"}
	tableKeys      = []string{"name", "module", "rows", "dim", "features", "pooling_factor", "length_cv", "bags", "pooling", "weighted", "prefetch", "index_dedup", "kernel_settings", "precision", "output_precision", "optimizer", "access", "constraints"}
	featureKeys    = []string{"name", "pooling_factor", "length_cv", "bags"}
	accessKeys     = []string{"reuse", "batch", "unique_rows", "zipf", "uniform", "index_law"}
	constraintKeys = []string{"devices", "device", "group", "no_split", "min_width", "one_host", "sharding_types", "tiers", "cache_share"}
	// defaultConstraintKeys are the constraints that all tables of a file may have.
	defaultConstraintKeys = []string{"devices", "device", "no_split", "min_width", "one_host", "sharding_types", "tiers", "cache_share"}
)

// Hints that several formats share.
const (
	rowsHint         = "rows is the table's hash size"
	dimHint          = "dim is the table's number of columns"
	poolingHint      = "the pooling factor is the mean number of lookups per sample"
	lengthHint       = "length_cv is the standard deviation of the lengths of a feature's bags over their mean"
	bagsHint         = "bags is the mean number of bags per sample: leave it out for one"
	batchHint        = "the batch is the number of samples of a step over all devices"
	samplesHint      = "samples is the number of samples of an epoch"
	zipfHint         = "published tables lie between 0.5 and 2"
	uniqueHint       = "unique_rows is the number of distinct rows in the batch of the histogram"
	widthHint        = "min_width is the narrowest column slice allowed"
	deviceHint       = "devices are numbered from 0"
	cacheHint        = "the cache share is the share of the table's rows that HBM caches"
	distributionHint = `state one of "reuse", "zipf" and "uniform", or leave access out`
)

// jsonFile names a file of the project's own format in messages.
const jsonFile = "the file"

// jsonReader is a file of the project's own format being read into its builder.
type jsonReader struct {
	*builder
	s *scanner
}

// readJSON reads the project's own format into b.
func readJSON(b *builder, s *scanner) {
	r := jsonReader{b, s}
	file := s.Object(jsonFile, fileKeys)
	for key := range file.Keys() {
		switch key {
		case "format":
			r.formatKey()
		case "version":
			r.versionKey()
		case "batch":
			b.batchLine = s.Line()
			if batch, ok := s.whole("batch", batchHint); ok {
				b.Batch = b.globalBatch(s.Line(), batch)
			}
		case "samples":
			r.samplesKey()
		case "warnings":
			r.warningsKey()
		case "defaults":
			r.defaultsKey()
		case "fixed":
			r.fixed()
		case "tables":
			r.tables("tables")
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

// tables reads the list of tables, which messages call what.
func (r jsonReader) tables(what string) {
	for i := range r.s.List(what) {
		if r.s.Next(); r.full(r.s.Line()) {
			r.s.Stop()
			return
		}
		r.table(i)
	}
}

func (r jsonReader) formatKey() {
	if format, ok := r.s.Text("format"); ok && format != TablesFormat {
		r.s.fail(fmt.Sprintf("the format is %s, not %q", quote(format), TablesFormat), "give a file of tables here")
	}
}

func (r jsonReader) versionKey() {
	if version, ok := r.s.whole("version", ""); ok && version != TablesVersion {
		r.s.fail(fmt.Sprintf("version %d of the format is not known: this program reads version %d", version, TablesVersion), "get a newer program, or write the file anew")
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

// samplesKey reads the number of samples of an epoch. 0 would pass for a number that is not
// stated.
func (r jsonReader) samplesKey() {
	samples, ok := r.s.whole("samples", samplesHint)
	switch {
	case !ok:
	case samples < 1 || samples > step.MaxSamples:
		r.s.fail(fmt.Sprintf("samples: %d is not between 1 and %d", samples, int64(step.MaxSamples)), samplesHint)
	default:
		r.Samples = samples
	}
}

// mostWarnings is the most warnings that a file may state, and mostWarning the most bytes
// of a warning.
const (
	mostWarnings = 100
	mostWarning  = 1000
)

// warningsKey reads what the program that wrote the file had to assume.
func (r jsonReader) warningsKey() {
	for i := range r.s.List("warnings") {
		r.s.Next()
		text, ok := r.s.Text("a warning")
		switch {
		case !ok:
		case i >= mostWarnings:
			r.s.fail(fmt.Sprintf("more than %d warnings", mostWarnings), "leave some out")
			r.s.Stop()
		case !isWarning(text):
			r.s.fail(noWarning(text), "leave it out")
		default:
			r.Warnings = append(r.Warnings, text)
		}
	}
}

// isWarning reports whether a file may state the text as a warning.
func isWarning(text string) bool {
	return text != "" && len(text) <= mostWarning && !strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) })
}

// noWarning says that a file may not state the text as a warning.
func noWarning(text string) string {
	return fmt.Sprintf("the warning %s is not a line of 1 to %d printable bytes", quote(text), mostWarning)
}

func (r jsonReader) defaultsKey() {
	s, d := r.s, &r.defaults
	for key := range s.Object("defaults", defaultsKeys).Keys() {
		switch key {
		case "pooling_factor":
			d.pooling, _ = s.real("pooling_factor", poolingHint) // 0 does no harm
			d.stated |= statedPooling
		case "length_cv":
			d.lengthCV, _ = s.real("length_cv", lengthHint)
			d.stated |= statedLengths
		case "pooling":
			d.how = s.pooling()
		case "weighted":
			d.weighted, _ = s.Bool("weighted")
		case "prefetch":
			d.prefetch, _ = s.Bool("prefetch")
		case "index_dedup":
			d.indexDedup, _ = s.Bool("index_dedup")
		case "precision":
			d.precision, _ = s.precision("precision")
		case "optimizer":
			d.stated |= statedOptimizer
			d.optimizer = s.optimizer()
		case "zipf":
			var ok bool
			if d.zipf, ok = s.real("zipf", zipfHint); !ok {
				d.zipf = access.DefaultExponent
			}
			d.stated |= statedAccess
		case "index_law":
			d.law, _ = s.law()
		case "constraints":
			var constrained stated
			d.constraint, constrained, _ = s.constraints(defaultConstraintKeys)
			d.stated |= constrained
			r.checkMinWidth()
		}
	}
}

// checkMinWidth reports a least width of slices in the defaults that no table can have, and
// takes it away.
func (r jsonReader) checkMinWidth() {
	if width := r.defaults.constraint.MinWidth; width < 0 || width > problem.MaxDim || width%problem.ColumnGranule != 0 {
		r.s.add(r.s.Line(), fmt.Sprintf("min_width: %d is not a multiple of %d from 0 to %d", width, problem.ColumnGranule, problem.MaxDim), widthHint)
		r.defaults.constraint.MinWidth = 0
	}
}

// tableReader is one table of the project's own format being read.
type tableReader struct {
	*scanner
	problem.Table
	// pooling, lengthCV and bags are those of the one feature of a table that lists no
	// features.
	pooling, lengthCV, bags float64
	stated                  stated
	bad                     unread
}

// table reads the table at position i. A table that is no object, or in which the
// syntax breaks off, is left out.
func (r jsonReader) table(i int) {
	s := r.s
	s.Next()
	line, named := s.Line(), len(s.report.list)
	t := &tableReader{scanner: s}
	o := s.Object("a table", tableKeys)
	o.Aliases = torchRecNames
	for key := range o.Keys() {
		if part, ok := t.key(key); !ok {
			t.bad |= part
		}
	}
	whole := o.Opened() && !s.Failed()
	if whole {
		t.complete(o, line)
	}
	name := t.Name
	if name == "" {
		name = fmt.Sprintf("#%d", i)
	}
	s.name(named, name)
	if whole {
		r.builder.table(t.Table, line, t.stated, t.bad, name)
	}
}

// key reads the value of a key. ok is false where the value could not be read, and
// part is what is then unread of the table.
func (t *tableReader) key(key string) (part unread, ok bool) {
	switch key {
	case "name":
		t.Name, ok = t.scanner.Text("name")
		return unreadName, ok
	case "rows":
		t.Rows, ok = t.whole("rows", rowsHint)
		return unreadRows, ok
	case "dim":
		t.Dim, ok = t.dim()
		return unreadDim, ok
	case "constraints":
		var constrained stated
		t.Constraint, constrained, ok = t.constraints(constraintKeys)
		t.stated |= constrained
		return unreadDevices, ok
	case "precision":
		t.stated |= statedPrecision
		t.Precision, ok = t.precision("precision")
		return unreadPrecision, ok
	case "module", "kernel_settings", "output_precision":
		t.names(key)
	case "features":
		t.stated |= statedPooling
		t.Features = t.features()
	case "pooling_factor", "length_cv", "bags":
		t.only(key)
	case "pooling":
		t.stated |= statedHow
		t.Pooling = t.scanner.pooling()
	case "weighted":
		t.stated |= statedWeighted
		t.Weighted, _ = t.Bool("weighted")
	case "prefetch":
		t.stated |= statedPrefetch
		t.Prefetch, _ = t.Bool("prefetch")
	case "index_dedup":
		t.stated |= statedIndexDedup
		t.IndexDedup, _ = t.Bool("index_dedup")
	case "optimizer":
		t.stated |= statedOptimizer
		t.Optimizer = t.optimizer()
	case "access":
		var has stated
		t.Access, has = t.access()
		t.stated |= has
	}
	return 0, true
}

// only reads a number that belongs to the one feature of a table without a list of features.
func (t *tableReader) only(key string) {
	switch key {
	case "pooling_factor":
		t.stated |= statedPooling
		t.pooling, _ = t.real(key, poolingHint)
	case "length_cv":
		t.stated |= statedLengths
		t.lengthCV, _ = t.real(key, lengthHint)
	case "bags":
		t.bags = t.scanner.bags()
	}
}

// names reads the module, the kernel settings or the number format of the vectors.
func (t *tableReader) names(key string) {
	switch key {
	case "module":
		t.Module = t.module()
	case "kernel_settings":
		t.KernelSettings, _ = t.scanner.Text(key)
	case "output_precision":
		if p, ok := t.precision(key); ok {
			t.OutputPrecision = problem.OutputIn(p)
		}
	}
}

// complete reports the keys that are missing or exclude each other, and makes the
// one feature of a table that lists no features.
func (t *tableReader) complete(o *strictjson.ObjectReader, line int) {
	t.require(o, line, "name", "rows", "dim")
	t.bad |= missing(o)
	if !o.Has("features") {
		t.Features = []problem.Feature{{Name: t.Name, PoolingFactor: t.pooling, LengthCV: t.lengthCV, Bags: t.bags}}
		return
	}
	for _, key := range []string{"pooling_factor", "length_cv", "bags"} {
		if o.Has(key) {
			t.add(line, fmt.Sprintf("both features and %s are stated", key), fmt.Sprintf("state %s for a table that one feature reads, else in each of the features", key))
		}
	}
	t.stated |= statedLengths
}

// missing returns what is unread because the table's object does not have it.
func missing(o *strictjson.ObjectReader) (bad unread) {
	for _, needed := range []struct {
		key  string
		part unread
	}{{"name", unreadName}, {"rows", unreadRows}, {"dim", unreadDim}} {
		if !o.Has(needed.key) {
			bad |= needed.part
		}
	}
	return bad
}

// dim reads a number of columns.
func (s *scanner) dim() (int, bool) {
	dim, ok := s.whole("dim", dimHint)
	return int(dim), ok
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
		if s.Next() == strictjson.String { // as TorchRec's feature_names lists them
			f.Name, _ = s.Text("a feature")
			f.PoolingFactor, f.LengthCV = unstatedFactor, unstatedLengths
			features = append(features, f)
			continue
		}
		line, o := s.Line(), s.Object("a feature", featureKeys)
		for key := range o.Keys() {
			switch key {
			case "name":
				f.Name, _ = s.Text("name")
			case "pooling_factor":
				f.PoolingFactor, _ = s.real("pooling_factor", poolingHint)
			case "length_cv":
				f.LengthCV, _ = s.real("length_cv", lengthHint)
			case "bags":
				f.Bags = s.bags()
			}
		}
		if !o.Has("length_cv") {
			f.LengthCV = unstatedLengths
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

// precision reads the name of a precision under a key.
func (s *scanner) precision(key string) (p problem.Precision, ok bool) {
	line := s.Line()
	text, ok := s.Text(key)
	if !ok {
		return 0, false
	}
	p, err := problem.ParsePrecision(strings.ToLower(text)) // TorchRec writes FP16
	s.enum(line, err, text, key, precisions())
	return p, err == nil
}

// bags reads the bags per sample of a feature. It refuses 0, which would mean that none are stated.
func (s *scanner) bags() float64 {
	bags, ok := s.real("bags", bagsHint)
	if ok && bags == 0 {
		s.add(s.Line(), "bags: 0 is not above 0", bagsHint)
	}
	return bags
}

// pooling reads how the rows of a bag become one vector.
func (s *scanner) pooling() problem.Pooling {
	line := s.Line()
	text, ok := s.Text("pooling")
	if !ok {
		return 0
	}
	p, err := problem.ParsePooling(strings.ToLower(text)) // TorchRec writes SUM
	s.enum(line, err, text, "pooling", problem.Poolings())
	return p
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
		r.add(line, fmt.Sprintf("%s %s is unknown", what, quote(word)), r.suggest(word, known))
	}
}

func precisions() []string {
	return []string{problem.FP32.String(), problem.FP16.String(), problem.BF16.String()}
}

func optimizers() []string {
	return []string{problem.SGD.String(), problem.RowwiseAdagrad.String(), problem.Adagrad.String(), problem.Adam.String()}
}

// access reads the distribution of a table's accesses, and says what of it is stated.
func (s *scanner) access() (d access.Distribution, has stated) {
	s.Next()
	line, before := s.Line(), s.count()
	o := s.Object("access", accessKeys)
	has = statedAccess
	for key := range o.Keys() {
		s.accessKey(key, &d)
	}
	if o.Has("index_law") {
		has |= statedLaw
		if d.Kind == access.Unstated {
			has = statedLaw // a default may say the rest
		}
	}
	if o.Opened() && !s.Failed() {
		// A key that was not understood may have been one of a distribution.
		s.checkAccess(o, line, s.count() > before)
		if o.Has("reuse") && !o.Has("batch") {
			d.Batch = 1
		}
	}
	return d, has
}

func (s *scanner) accessKey(key string, d *access.Distribution) {
	switch key {
	case "reuse":
		d.Kind = access.Histogram
		s.reuse(d)
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
			s.add(s.Line(), "uniform: false says nothing", distributionHint)
		}
	case "index_law":
		d.Law, _ = s.law()
	}
}

// law reads the law by which indices come about.
func (s *scanner) law() (access.Law, bool) {
	line := s.Line()
	text, ok := s.Text("index_law")
	if !ok {
		return access.Independent, false
	}
	return s.indexLaw(line, text)
}

// indexLaw returns the law of a name, or reports the name.
func (r *report) indexLaw(line int, text string) (access.Law, bool) {
	law, err := access.ParseLaw(text)
	r.enum(line, err, text, "index_law", laws())
	return law, err == nil
}

func laws() (names []string) {
	for _, law := range access.Laws() {
		names = append(names, law.String())
	}
	return names
}

// checkAccess reports keys that do not state one distribution.
func (s *scanner) checkAccess(o *strictjson.ObjectReader, line int, faulty bool) {
	var kinds []string
	for _, key := range []string{"reuse", "zipf", "uniform"} {
		if o.Has(key) {
			kinds = append(kinds, key)
		}
	}
	switch {
	case len(kinds) == 0 && faulty:
	case len(kinds) == 0 && !o.Has("index_law"):
		s.add(line, "access states no distribution", distributionHint)
	case len(kinds) > 1:
		s.add(line, "access states both "+strings.Join(kinds, " and "), distributionHint)
	case o.Has("reuse"):
		s.require(o, line, "batch")
	case o.Has("batch") || o.Has("unique_rows"):
		s.add(line, "access states batch or unique_rows without reuse", "they belong to a histogram of reuse")
	}
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

// colocation reads the name of a co-location.
func (s *scanner) colocation() string {
	group, ok := s.Text("group")
	if ok && group == "" {
		s.add(s.Line(), "group is empty", "leave it out for a table in no group")
	}
	return group
}

// devices reads the devices that a table is allowed on.
func (s *scanner) devices() (devices []int) {
	before := s.count()
	for range s.List("devices") {
		if d, ok := s.whole("devices", deviceHint); ok {
			devices = append(devices, int(d))
		}
	}
	if len(devices) == 0 && !s.Failed() && s.count() == before {
		s.add(s.Line(), "devices is an empty list: the table could go nowhere", "leave it out to allow all devices")
	}
	return devices
}

// shardingTypes reads the sharding types that a table may have.
func (s *scanner) shardingTypes() []problem.ShardingType {
	return namesIn(s, "sharding_types", "sharding type", problem.ParseShardingType, shardingTypes())
}

// memory reads the tiers or the cache share of a constraint, and returns which is stated.
func (s *scanner) memory(key string, c *problem.Constraint) stated {
	if key == "tiers" {
		c.Tiers = s.tiers()
		return statedTiers
	}
	c.CacheShare = s.cacheShare()
	return statedCacheShare
}

// tiers reads the memory tiers that a table may lie in.
func (s *scanner) tiers() []problem.Tier {
	return namesIn(s, "tiers", "memory tier", problem.ParseTier, tiers())
}

// namesIn reads a list of one or more names of one kind.
func namesIn[T ~string](s *scanner, key, kind string, parse func(string) (T, error), known []string) (list []T) {
	before := s.count()
	for i := range s.List(key) {
		line := s.Line()
		if i >= len(known) {
			if s.Skip(); i == len(known) {
				s.add(line, tooMany(key, known), "name each at most once")
			}
			continue
		}
		text, ok := s.Text(key)
		if !ok {
			continue
		}
		name, err := parse(text)
		if s.enum(line, err, text, kind, known); err == nil {
			list = append(list, name)
		}
	}
	if len(list) == 0 && !s.Failed() && s.count() == before {
		s.add(s.Line(), key+" is an empty list: the table could have none", fmt.Sprintf("leave it out to allow all %ss", kind))
	}
	if s.count() > before {
		return nil // part of a list would be wrong for reasons of its own
	}
	return list
}

// tooMany says that a list has more entries than there are names for it.
func tooMany(key string, known []string) string {
	return fmt.Sprintf("%s has more than the %d entries that there are", key, len(known))
}

// cacheShare reads the share of a table's rows that HBM caches; 0 if it is no share.
func (s *scanner) cacheShare() float64 {
	share, ok := s.real("cache_share", cacheHint)
	if ok && !(share > 0 && share < 1) {
		s.add(s.Line(), badCacheShare(share), cacheHint)
		return 0
	}
	return share
}

func badCacheShare(share float64) string {
	return fmt.Sprintf("cache_share: %v is not above 0 and below 1", share)
}

func shardingTypes() []string { return texts(problem.ShardingTypes()) }
func tiers() []string         { return texts(problem.Tiers()) }

func texts[T ~string](names []T) []string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = string(name)
	}
	return list
}

// slices reads a constraint of a table's slices of columns, and returns which it is.
func (s *scanner) slices(key string, c *problem.Constraint) stated {
	if key == "one_host" {
		c.OneHost, _ = s.Bool(key)
		return statedOneHost
	}
	width, _ := s.whole(key, widthHint)
	c.MinWidth = int(width)
	return statedMinWidth
}

// constraints reads the constraints, which may have the given keys, and which of them are
// stated. ok is false where it is not clear which devices are allowed.
func (s *scanner) constraints(keys []string) (c problem.Constraint, has stated, ok bool) {
	ok = true
	s.Next()
	line, o := s.Line(), s.Object("constraints", keys)
	for key := range o.Keys() {
		switch key {
		case "devices":
			before := s.count()
			c.Devices = append(c.Devices, s.devices()...)
			ok = ok && s.count() == before
			has |= statedDevices
		case "device":
			d, read := s.whole("device", deviceHint)
			if ok = ok && read; read {
				c.Devices = append(c.Devices, int(d))
			}
			has |= statedDevices
		case "group":
			c.Colocation = s.colocation()
		case "no_split":
			c.NoSplit, _ = s.Bool("no_split")
			has |= statedNoSplit
		case "min_width", "one_host":
			has |= s.slices(key, &c)
		case "sharding_types":
			c.ShardingTypes = s.shardingTypes()
			has |= statedShardingTypes
		case "tiers", "cache_share":
			has |= s.memory(key, &c)
		}
	}
	if o.Has("device") && o.Has("devices") && !s.Failed() {
		s.add(line, "both device and devices are stated", "state device to pin the table to one, devices to allow several")
		slices.Sort(c.Devices)
		c.Devices, ok = slices.Compact(c.Devices), false
	}
	return c, has, ok
}
