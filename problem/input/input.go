// Package input reads tables and topologies from files: tables as JSON in the
// project's own format, as CSV, or as the published prototype's
// table_configs.json; topologies as YAML or JSON; and scenarios, which are both in
// one JSON object. docs/FORMATS.md draws them.
//
// The steps, in order: Tables and Topology read one file each and report
// everything in it that cannot be understood; the caller composes a
// problem.Problem; Check reports what is understood but wrong, with file and
// line. All three return *Errors, and Join puts those of several files
// together, so that a user sees every mistake at once:
//
//	tables, err1 := input.Tables("tables.json", f, input.Options{})
//	cluster, err2 := input.Topology("cluster.yaml", g)
//	p := &problem.Problem{Tables: tables.Tables, Topology: cluster.Topology, Batch: tables.Batch}
//	if err := input.Join(err1, err2, input.Check(p, tables, cluster)); err != nil { ... }
//
// Write is the inverse of Tables for the project's own format.
package input

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// MaxFileBytes is the size above which a tables file is refused.
const MaxFileBytes = 100 * unit.MiB

// DefaultPoolingFactor is the lookups per sample assumed for a table that
// states none: a categorical feature with one value.
const DefaultPoolingFactor = 1

// Format names a format of tables.
type Format string

// The formats of tables.
const (
	// JSON is the project's own format, {"format": "neuroshard-tables", ...}.
	JSON Format = "json"
	// CSV is a header and one line a table.
	CSV Format = "csv"
	// Prototype is the published prototype's table_configs.json.
	Prototype Format = "prototype"
	// Scenario is tables, batch and cluster in one JSON object, in TorchRec's words.
	Scenario Format = "scenario"
)

// Options says how to read tables. The zero value works.
type Options struct {
	// DefaultDim is the dim of tables in the prototype's format that state none.
	// 0: such tables are an error. Below 0: it is the caller's to report.
	DefaultDim int

	// Optimizer is that of tables which state none. nil: that of Optimizers by the table's name, as
	// a plan states them; for a table without one, sgd is assumed, with a warning.
	Optimizer  *problem.Optimizer
	Optimizers map[string]problem.Optimizer

	// MaxTables is the most tables to read: a file with more is refused as soon as they were read.
	// 0 takes problem.MaxTables.
	MaxTables int

	// maxBytes replaces MaxFileBytes in tests.
	maxBytes int64
}

// TableFile is the content of one file of tables.
type TableFile struct {
	// Name is the file's name, as it appears in errors.
	Name string
	// Format is the format that was found in the file.
	Format Format
	// Tables are the tables that could be read, in the file's order.
	Tables []problem.Table
	// Batch is the global batch that the file states; 0: none.
	Batch int
	// Samples is the number of samples of an epoch that the file states, 1 to step.MaxSamples;
	// 0: none. Only the project's own format states it.
	Samples int64
	// Fixed are the fixed loads that the file states; only the project's own format states them.
	Fixed []hardware.FixedLoad
	// Cluster is the cluster that a scenario states, all but the device profile, and
	// its batch; nil in other formats. It is a source for Check where it is used.
	Cluster *TopologyFile
	// Warnings says what the file left open and what is assumed instead.
	Warnings []string

	lines     []int
	batchLine int
	faulty    bool
}

// Line returns the line, from 1, on which Tables[i] begins; 0 where i is not
// an index of Tables.
func (f TableFile) Line(i int) int {
	if i < 0 || i >= len(f.lines) {
		return 0
	}
	return f.lines[i]
}

// Tables reads a file of tables in any of the formats. The content decides the
// format: an object is the project's JSON, or a scenario if only scenarios have
// its first key; a list is the prototype's file, anything else CSV. The name is used
// in errors, and its extension as a hint.
//
// The error is nil or an *Errors with all that is wrong. Beside an error,
// Tables returns what could be read, so that Check can report the rest at the
// same time; nothing else should be done with it: what could not be read of a
// table is made up. Tables does not judge values:
// zero rows, odd dims or duplicate names are Check's to report.
//
// Memory grows with the number of tables, not with the file, and files above
// MaxFileBytes or Options.MaxTables are refused.
func Tables(name string, r io.Reader, opt Options) (TableFile, error) {
	limit := int64(MaxFileBytes)
	if opt.maxBytes > 0 {
		limit = opt.maxBytes
	}
	maxTables := cmp.Or(opt.MaxTables, problem.MaxTables)
	b := &builder{maxTables: maxTables, report: &report{file: name}, TableFile: TableFile{Name: name}, defaults: table{Table: &problem.Table{}}, next: table{Table: &problem.Table{}}}
	if size, ok := sizeOf(r); ok && size > limit {
		b.tooBig(limit)
	} else {
		b.optimizer, b.optimizers = opt.Optimizer, opt.Optimizers
		b.read(bufio.NewReaderSize(&limited{r: r, left: limit, limit: limit}, 1<<16), opt)
	}
	b.finish()
	if opt.DefaultDim > 0 && !b.dimUsed && len(b.Tables) > 0 {
		b.Warnings = append(b.Warnings, UnusedDim(opt.DefaultDim))
	}
	if opt.Optimizer != nil && !b.optimizerUsed && len(b.Tables) > 0 {
		b.Warnings = append(b.Warnings, unusedOptimizer(opt.Optimizer.String()))
	}
	return b.TableFile, b.err()
}

// unusedOptimizer returns the warning that an optimizer for tables without one was stated but no
// table needs it.
func unusedOptimizer(name string) string {
	return fmt.Sprintf("--optimizer %s is not used: every table states its optimizer", name)
}

// UnusedDim returns the warning that a dim for tables without one was stated but
// no table needs it.
func UnusedDim(dim int) string {
	return fmt.Sprintf("dim %d is not used: every table states its dim", dim)
}

// builder gathers the tables of a file and the errors in it.
type builder struct {
	*report
	TableFile
	// chunks hold the tables until the end of the file, because growing one
	// slice to a million tables would copy each of them many times; n counts
	// them.
	chunks    [][]problem.Table
	n         int
	maxTables int
	// stated has what each table states, and statedForAll what defaults states of the rest.
	stated       []set
	defaults     table
	next         table
	statedForAll set
	// dimUsed is set where a table needed Options.DefaultDim, and optimizerUsed where one needed
	// optimizer. optimizer and optimizers are those of Options.
	dimUsed, optimizerUsed bool
	optimizer              *problem.Optimizer
	optimizers             map[string]problem.Optimizer
}

const chunkTables = 4096

// fill gives a table the fields that it does not state itself. A table that is narrower than the least
// width of a slice stays whole, and one that may lie in no cache states no cache share.
func (b *builder) fill(t *table, has set) {
	for _, f := range defaultFields {
		if b.statedForAll.has(1<<f.id) && !has.has(1<<f.id) {
			f.copy(t, &b.defaults)
		}
	}
	if missing := b.statedForAll &^ has; missing != 0 {
		if missing.has(zipfField) {
			t.Access.Kind = access.Zipf
		}
		if missing.has(minWidthField) {
			t.Constraint.MinWidth = min(t.Constraint.MinWidth, t.Dim)
		}
		if missing.has(dedupField) {
			t.IndexDedup = t.IndexDedup && !(has.has(chooseField) && t.ChooseDedup)
		}
		if missing.has(chooseField) {
			t.ChooseDedup = t.ChooseDedup && !has.has(dedupField)
		}
		if missing.has(cacheField) && !t.Constraint.PermitsTier(problem.HostCached) {
			t.Constraint.CacheShare = 0
		}
	}
}

func (b *builder) read(in *bufio.Reader, opt Options) {
	first, err := skipSpace(in)
	switch {
	case err == io.EOF:
		b.add(0, "the file is empty", "see docs/FORMATS.md for the formats of tables")
	case err != nil:
		b.readError(0, err)
	case first.char == '{':
		s := newScanner(in, b.report, first)
		if beginsScenario(firstKey(in)) {
			b.Format = Scenario
			readScenario(b, s)
			return
		}
		b.Format = JSON
		readJSON(b, s)
	case first.char == '[' && listsTables(in):
		b.Format = JSON
		s := newScanner(in, b.report, first)
		b.each(s, tableShape, fileShape.what, b.newTable)
		s.End()
	case first.char == '[':
		b.Format = Prototype
		readPrototype(b, newScanner(in, b.report, first), opt.DefaultDim)
	default:
		b.Format = CSV
		readCSV(b, in, first.line)
	}
}

// listsTables reports whether a list that comes next is one of tables of the project's own format,
// and not of the prototype's, whose tables have no such keys. It takes nothing.
func listsTables(in *bufio.Reader) bool {
	ahead, _ := in.Peek(1 << 12)
	first, _, _ := bytes.Cut(ahead, []byte("}"))
	return slices.ContainsFunc([]string{"name", "rows", "num_embeddings"}, func(key string) bool {
		return bytes.Contains(first, []byte(`"`+key+`"`))
	})
}

// firstKey returns the first key of the JSON object that comes next, taking nothing; ""
// where it has none within what is looked at.
func firstKey(in *bufio.Reader) string {
	ahead, _ := in.Peek(1 << 12)
	ahead = bytes.TrimLeft(bytes.TrimPrefix(ahead, []byte("{")), " \t\r\n")
	rest, found := bytes.CutPrefix(ahead, []byte(`"`))
	key, _, closed := bytes.Cut(rest, []byte(`"`))
	if !found || !closed {
		return ""
	}
	return string(key)
}

// unrecognised reports a file that is in none of the formats.
func (b *builder) unrecognised(line int, why string) {
	hint := `tried: JSON of the project's own format (an object that begins with "{"), the prototype's table_configs.json (a list that begins with "["), CSV (a header with name, rows, dim)`
	if ext := strings.ToLower(filepath.Ext(b.Name)); ext == ".json" {
		hint = "the name ends in .json, but the content begins with neither { nor [; " + hint
	}
	b.add(line, "the format is not recognised: "+why, hint)
}

// full reports whether reading must end before the next table, for there are as
// many tables as a problem may have or more errors than anyone counts, and if so
// adds the error.
func (b *builder) full(line int) bool {
	switch {
	case b.n >= b.maxTables:
		b.fatal(line, fmt.Sprintf("the file has more than %d tables", b.maxTables), "plan the model in parts")
	case b.count() >= maxCounted:
		b.fatal(line, fmt.Sprintf("the file has more than %d errors: the rest of it was not read", maxCounted), "is this the right file?")
	default:
		return false
	}
	return true
}

// table adds a table, made whole where parts of it are unread. name is what
// errors call it.
func (b *builder) table(t *problem.Table, line int, s, bad set, name string) {
	b.checkUnique(t, line, s, bad, name)
	mend(t, bad)
	if bad.has(nameField) {
		t.Name = name
	}
	if b.n%chunkTables == 0 {
		var chunk []problem.Table // the first grows, as most files have few tables
		if b.n > 0 {
			chunk = make([]problem.Table, 0, chunkTables)
		}
		b.chunks = append(b.chunks, chunk)
	}
	last := &b.chunks[len(b.chunks)-1]
	*last = append(*last, *t)
	b.n++
	b.lines = append(b.lines, line)
	b.stated = append(b.stated, s)
}

// roundedLookups is the share by which the distinct rows of a batch may exceed its lookups:
// pooling factors are rounded, or means over several batches.
const roundedLookups = .1

// checkUnique reports less than one distinct row of a batch with a lookup, and more distinct rows of a batch than the table
// has rows, or than the batch has lookups. Only a file is checked: a table that is scaled afterwards keeps its histogram,
// and its counts are bounded when they are used (access.Counts).
func (b *builder) checkUnique(t *problem.Table, line int, s, bad set, name string) {
	d := &t.Access
	if d.Kind != access.Histogram || d.UniqueRows > problem.MaxRows {
		return // validation reports what no table can have
	}
	limit := ""
	switch {
	case !bad.has(rowsField) && t.Rows > 0 && d.UniqueRows > float64(t.Rows):
		limit = fmt.Sprintf("the table's %d rows", t.Rows)
	case s.has(factorField|featuresField) && d.Batch > 1 && d.UniqueRows > mostUnique(t): // what is not read is 1
		limit = fmt.Sprintf("the %.4g lookups of a batch of %d samples", t.PoolingFactor()*float64(d.Batch), d.Batch)
	case d.UniqueRows > 0 && d.UniqueRows < min(1, t.PoolingFactor()*float64(d.Batch)):
		b.put(Error{File: b.file, Line: line, Table: name, Message: fmt.Sprintf("unique_rows: %v is below 1", d.UniqueRows), Hint: about("unique_rows")})
		return
	default:
		return
	}
	b.put(Error{File: b.file, Line: line, Table: name, Message: fmt.Sprintf("unique_rows: %v is above %s", d.UniqueRows, limit), Hint: about("unique_rows")})
}

// mostUnique returns the most distinct rows that the batch of a table's histogram may have:
// the lookups of the batch, with roundedLookups. It is infinite if there is no feature, or one without lookups.
func mostUnique(t *problem.Table) float64 {
	if len(t.Features) == 0 {
		return math.Inf(1)
	}
	for _, f := range t.Features {
		if !(f.PoolingFactor > 0) {
			return math.Inf(1) // or its pooling factor was not read
		}
	}
	return (1 + roundedLookups) * t.PoolingFactor() * float64(t.Access.Batch)
}

// finish fills in defaults and gathers the warnings.
func (b *builder) finish() {
	b.faulty = len(b.list) > 0
	b.Tables = slices.Concat(b.chunks...)
	b.chunks = nil
	var noAccess, noPooling, noOptimizer []string
	unstatedAccess, unstatedPooling, unstatedOptimizer := 0, 0, 0
	for i := range b.Tables {
		t, s := &b.Tables[i], b.stated[i]
		if b.features(t, s) {
			noPooling, unstatedPooling = some(noPooling, t.Name), unstatedPooling+1
		}
		b.fill(&table{Table: t}, s)
		if !(s | b.statedForAll).has(zipfField) {
			noAccess, unstatedAccess = some(noAccess, t.Name), unstatedAccess+1
		}
		if !(s | b.statedForAll).has(optimizerField) && !b.knownOptimizer(t) {
			noOptimizer, unstatedOptimizer = some(noOptimizer, t.Name), unstatedOptimizer+1
		}
	}
	if unstatedAccess > 0 {
		b.warn(noAccess, unstatedAccess, fmt.Sprintf("no access distribution: Zipf %v is assumed", access.DefaultExponent))
	}
	if unstatedPooling > 0 {
		b.warn(noPooling, unstatedPooling, fmt.Sprintf("no pooling factor: %d lookup per sample is assumed", DefaultPoolingFactor))
	}
	if unstatedOptimizer > 0 {
		b.warn(noOptimizer, unstatedOptimizer, problem.NoOptimizer+"; state it with --optimizer")
	}
}

// knownOptimizer gives a table that states no optimizer the one that the options state, if they do.
func (b *builder) knownOptimizer(t *problem.Table) (known bool) {
	if b.optimizer != nil {
		t.Optimizer, b.optimizerUsed = *b.optimizer, true
		return true
	}
	if o, ok := b.optimizers[t.Name]; ok {
		t.Optimizer = o
		return true
	}
	return false
}

// features gives the features of a table the numbers that neither they nor the table state, and reports
// whether the pooling factor is assumed.
func (b *builder) features(t *problem.Table, has set) bool {
	pooling, listed := float64(DefaultPoolingFactor), has.has(featuresField)
	if b.statedForAll.has(factorField) {
		pooling = b.defaults.only.PoolingFactor
	}
	open := false
	for i := range t.Features {
		f := &t.Features[i]
		if math.IsNaN(f.PoolingFactor) || !listed && !has.has(factorField) {
			f.PoolingFactor, open = pooling, true
		}
		if math.IsNaN(f.LengthCV) || !listed && !has.has(lengthField) {
			f.LengthCV = b.defaults.only.LengthCV
		}
	}
	return open && !b.statedForAll.has(factorField)
}

// namesInWarning is how many tables a warning names.
const namesInWarning = 3

func some(names []string, name string) []string {
	if len(names) < namesInWarning {
		// A name that a terminal could not show as it is, is quoted.
		if quoted := quote(name); quoted == `"`+name+`"` {
			names = append(names, name)
		} else {
			names = append(names, quoted)
		}
	}
	return names
}

func (b *builder) warn(names []string, n int, what string) {
	verb := "state"
	if n == 1 {
		verb = "states"
	}
	list := words.List(names, n) + words.More(" ", n-len(names))
	b.Warnings = append(b.Warnings, fmt.Sprintf("%d of %d tables %s %s (%s)", n, len(b.Tables), verb, what, list))
}

// tooBigError is the error of a file that is larger than the limit.
type tooBigError struct{ limit unit.Bytes }

func (e *tooBigError) Error() string { return fmt.Sprintf("over %v", e.limit) }

// limited reads at most limit bytes and then fails with a *tooBigError.
type limited struct {
	r           io.Reader
	left, limit int64
}

func (l *limited) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	if int64(n) > l.left {
		n, err = int(l.left), &tooBigError{unit.Bytes(l.limit)}
	}
	l.left -= int64(n)
	return n, err
}

// sizeOf returns the size of a regular file.
func sizeOf(r io.Reader) (int64, bool) {
	f, ok := r.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return 0, false
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	return info.Size(), true
}

// start is the first byte of a file that is not space, and where it stands.
type start struct {
	char   byte
	line   int
	offset int64
}

// skipSpace moves to the first byte that is not space, past a UTF-8 byte order
// mark if there is one.
func skipSpace(in *bufio.Reader) (start, error) {
	at := start{line: 1}
	if mark, _ := in.Peek(3); string(mark) == "\ufeff" {
		_, _ = in.Discard(3)
		at.offset = 3
	}
	for {
		c, err := in.ReadByte()
		if err != nil {
			return at, err
		}
		switch c {
		case '\n':
			at.line++
		case ' ', '\t', '\r':
		default:
			at.char = c
			return at, in.UnreadByte()
		}
		at.offset++
	}
}
