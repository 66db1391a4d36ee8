package input

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
)

// csvColumns are the columns that a CSV file may have, without reuse_0 to
// reuse_16. The first three are required.
var csvColumns = []string{
	"name", "rows", "dim", "module", "pooling_factor", "length_cv", "bags", "pooling", "weighted", "prefetch", "index_dedup", "kernel_settings", "precision", "output_precision", "optimizer", "zipf", "index_law",
	"devices", "group", "no_split", "min_width", "one_host", "sharding_types", "tiers", "cache_share", "reuse_batch", "unique_rows",
}

// torchRecNames are fields of TorchRec's EmbeddingBagConfig and of its pooled features, with the
// keys and columns that hold the same.
var torchRecNames = map[string]string{
	"num_embeddings": "rows",
	"embedding_dim":  "dim",
	"data_type":      "precision",
	"feature_names":  "features",
	"is_weighted":    "weighted",
}

// column returns the column that a cell of the header names.
func column(cell string) string {
	if same, ok := torchRecNames[cell]; ok && slices.Contains(csvColumns, same) {
		return same
	}
	return cell
}

// maxCSVLine bounds a line, so that one line of commas cannot fill memory.
const maxCSVLine = 1 << 20

// maxCSVColumns bounds the columns. A file has less than 50 known ones.
const maxCSVColumns = 1000

var errLongLine = fmt.Errorf("a line is longer than %d bytes", maxCSVLine)

// csvReader reads the lines of a CSV file of tables.
type csvReader struct {
	*builder
	in *csv.Reader
	// skipped is how many lines come before the header.
	skipped int
	// columns maps a column's name to its position; width counts the columns.
	columns map[string]int
	width   int
	reuse   []string
	// rows counts the lines of tables.
	rows int
	// The line being read.
	cells []string
	line  int
}

// readCSV reads a CSV file, whose header is on the given line, into b.
func readCSV(b *builder, in *bufio.Reader, line int) {
	r := &csvReader{builder: b, in: csv.NewReader(&lineLimited{r: in}), skipped: line - 1}
	r.in.FieldsPerRecord = -1
	r.in.ReuseRecord = true
	r.in.TrimLeadingSpace = true
	if head, _ := in.Peek(in.Size()); semicolons(head) {
		r.in.Comma = ';'
	}
	for i := range access.Classes {
		r.reuse = append(r.reuse, fmt.Sprintf("reuse_%d", i))
	}
	if !r.next() || !r.header() {
		return
	}
	for r.next() {
		if b.full(r.line) {
			return
		}
		r.table()
	}
}

// semicolons reports whether a file separates cells by semicolons, as spreadsheets do where the comma
// is the decimal sign: its first line has no comma.
func semicolons(head []byte) bool {
	first, _, _ := bytes.Cut(bytes.TrimLeft(head, "\r\n"), []byte("\n"))
	return bytes.ContainsRune(first, ';') && !bytes.ContainsRune(first, ',')
}

// next reads a line; false at the end and after broken syntax.
func (r *csvReader) next() bool {
	cells, err := r.in.Read()
	if err == io.EOF {
		return false
	}
	var syntax *csv.ParseError
	switch {
	case err == nil:
	case errors.As(err, &syntax):
		message, hint := syntax.Err.Error(), ""
		switch syntax.Err {
		case csv.ErrQuote:
			message, hint = "a quoted cell goes on behind its quote, or is never closed", `write a quote inside a quoted cell as ""`
		case csv.ErrBareQuote:
			message, hint = `a " stands inside a cell that is not quoted`, `quote the cell and write the quote as ""`
		}
		if r.columns == nil {
			r.unrecognised(r.skipped+syntax.StartLine, message)
		} else {
			r.fatal(r.skipped+syntax.StartLine, message, hint)
		}
		return false
	case errors.Is(err, errLongLine):
		r.fatal(0, err.Error(), "a table takes one line")
		return false
	default:
		r.readError(0, err)
		return false
	}
	line, _ := r.in.FieldPos(0)
	r.line, r.cells = r.skipped+line, cells
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return true
}

// header reads the names of the columns. It returns false if one of them is wrong: every line would
// then have errors that only follow from that.
func (r *csvReader) header() bool {
	known := append(slices.Clone(csvColumns), r.reuse...)
	if !slices.ContainsFunc(r.cells, func(c string) bool { return slices.Contains(known, column(c)) }) {
		text := strings.Join(r.cells, string(r.in.Comma))
		if !utf8.ValidString(text) {
			r.unrecognised(r.line, "it is not text in UTF-8")
		} else {
			r.unrecognised(r.line, fmt.Sprintf("it begins with %s", quote(text)))
		}
		return false
	}
	if len(r.cells) > maxCSVColumns {
		r.fatal(r.line, fmt.Sprintf("the header has %d columns, more than %d", len(r.cells), maxCSVColumns), "a table takes one line, and a column states one property of the tables")
		return false
	}
	before := r.count()
	r.columns, r.width = map[string]int{}, len(r.cells)
	reuse := r.readColumns(known)
	for _, name := range csvColumns[:3] {
		if _, ok := r.columns[name]; !ok {
			r.add(r.line, fmt.Sprintf("column %q is missing", name), "name, rows and dim are required")
		}
	}
	if reuse != 0 && reuse != access.Classes {
		r.add(r.line, fmt.Sprintf("%d of the columns reuse_0 to reuse_%d are there", reuse, access.Classes-1), "a histogram takes all of them")
	} else if _, ok := r.columns["reuse_batch"]; reuse > 0 && !ok {
		r.add(r.line, `column "reuse_batch" is missing`, "state the number of samples that the histogram was counted on")
	}
	return r.count() == before
}

// readColumns records the position of each known column, reports the others, and
// returns how many of reuse_0 to reuse_16 there are.
func (r *csvReader) readColumns(known []string) int {
	reuse := 0
	for i, cell := range r.cells {
		name := column(cell)
		switch _, twice := r.columns[name]; {
		case twice:
			r.add(r.line, fmt.Sprintf("column %s is there twice", quote(name)), "keep one of them")
		case name == "":
			r.add(r.line, fmt.Sprintf("column %d has no name", i+1), "pandas writes its index so: use to_csv(..., index=False)")
		case !slices.Contains(known, name):
			r.add(r.line, fmt.Sprintf("unknown column %s", quote(name)), r.suggestColumn(name, known))
		default:
			r.columns[strings.Clone(name)] = i
			if strings.HasPrefix(name, "reuse_") && name != "reuse_batch" {
				reuse++
			}
		}
	}
	return reuse
}

// suggestColumn returns the hint for an unknown column, as suggest does, with the columns
// reuse_0 to reuse_16 in short.
func (r *csvReader) suggestColumn(name string, known []string) string {
	hint := r.suggest(name, known)
	if strings.HasPrefix(hint, "known: ") {
		return fmt.Sprintf("known: %s, reuse_0 to reuse_%d", strings.Join(csvColumns, ", "), access.Classes-1)
	}
	return hint
}

// cell returns the cell of that column, and whether it says anything.
func (r *csvReader) cell(column string) (string, bool) {
	i, ok := r.columns[column]
	if !ok || r.cells[i] == "" {
		return "", false
	}
	return r.cells[i], true
}

func (r *csvReader) table() {
	named := len(r.list)
	name := fmt.Sprintf("#%d", r.rows)
	r.rows++
	if len(r.cells) != r.width {
		r.add(r.line, fmt.Sprintf("the line has %d cells, the header %d", len(r.cells), r.width), "separate cells by commas; quote a cell that holds one")
		return
	}
	var t problem.Table
	var has stated
	var bad unread
	before := r.count()
	if text, ok := r.text("name"); ok {
		t.Name, name = text, text
	} else if _, exists := r.columns["name"]; !exists || r.count() > before {
		bad |= unreadName
	}
	t.Module, _ = r.text("module")
	var ok bool
	if t.Rows, ok = r.requiredWhole("rows", rowsHint); !ok {
		bad |= unreadRows
	}
	dim, ok := r.requiredWhole("dim", dimHint)
	if t.Dim = int(dim); !ok {
		bad |= unreadDim
	}
	has |= r.feature(&t)
	has |= r.flags(&t)
	t.KernelSettings, _ = r.text("kernel_settings")
	if text, ok := r.cell("precision"); ok {
		var err error
		t.Precision, err = problem.ParsePrecision(strings.ToLower(text)) // TorchRec's DataType is FP32
		if r.enum(r.line, err, text, "precision", precisions()); err != nil {
			bad |= unreadPrecision
		}
		has |= statedPrecision
	}
	if text, ok := r.cell("output_precision"); ok {
		p, err := problem.ParsePrecision(text)
		if r.enum(r.line, err, text, "output_precision", precisions()); err == nil {
			t.OutputPrecision = problem.OutputIn(p)
		}
	}
	if text, ok := r.cell("optimizer"); ok {
		var err error
		t.Optimizer, err = problem.ParseOptimizer(text)
		r.enum(r.line, err, text, "optimizer", optimizers())
		has |= statedOptimizer
	}
	has |= r.access(&t.Access)
	if t.Constraint, ok = r.constraint(); !ok {
		bad |= unreadDevices
	}
	r.name(named, name)
	r.builder.table(t, r.line, has, bad, name)
}

// flags reads the columns that are true or false, and returns which of these are stated.
func (r *csvReader) flags(t *problem.Table) (has stated) {
	if weighted, ok := r.boolean("weighted"); ok {
		t.Weighted = weighted
		has |= statedWeighted
	}
	if prefetch, ok := r.boolean("prefetch"); ok {
		t.Prefetch = prefetch
		has |= statedPrefetch
	}
	if dedup, ok := r.boolean("index_dedup"); ok {
		t.IndexDedup = dedup
		has |= statedIndexDedup
	}
	return has
}

// feature reads the one feature of the table and how its bags are pooled, and returns which
// of these properties are stated.
func (r *csvReader) feature(t *problem.Table) (has stated) {
	only := problem.Feature{Name: t.Name}
	if _, ok := r.cell("pooling_factor"); ok {
		only.PoolingFactor, _ = r.real("pooling_factor", poolingHint)
		has |= statedPooling
	}
	if _, ok := r.cell("length_cv"); ok {
		only.LengthCV, _ = r.real("length_cv", lengthHint)
		has |= statedLengths
	}
	if _, ok := r.cell("bags"); ok {
		if only.Bags, ok = r.real("bags", bagsHint); ok && only.Bags == 0 {
			r.add(r.line, "bags: 0 is not above 0", bagsHint)
		}
	}
	t.Features = []problem.Feature{only}
	if text, ok := r.cell("pooling"); ok {
		var err error
		t.Pooling, err = problem.ParsePooling(text)
		r.enum(r.line, err, text, "pooling", problem.Poolings())
		has |= statedHow
	}
	return has
}

// text returns a cell of free text, as a string of its own.
func (r *csvReader) text(column string) (string, bool) {
	cell, ok := r.cell(column)
	if !ok {
		return "", false
	}
	if !utf8.ValidString(cell) {
		r.add(r.line, column+" is not valid UTF-8", "save the file as UTF-8")
		return "", false
	}
	return strings.Clone(cell), true
}

func (r *csvReader) requiredWhole(column, hint string) (int64, bool) {
	value, ok := r.whole(column, hint)
	if _, stated := r.cell(column); !ok && !stated {
		if _, exists := r.columns[column]; exists {
			r.add(r.line, column+" is empty", hint)
		}
	}
	return value, ok
}

func (r *csvReader) whole(column, hint string) (int64, bool) {
	cell, ok := r.cell(column)
	if !ok {
		return 0, false
	}
	value, complaint := number(cell).whole()
	if complaint != "" {
		r.add(r.line, column+": "+complaint, hint)
	}
	return value, complaint == ""
}

func (r *csvReader) real(column, hint string) (float64, bool) {
	cell, ok := r.cell(column)
	if !ok {
		return 0, false
	}
	value, complaint := number(cell).real()
	if complaint != "" {
		r.add(r.line, column+": "+complaint, hint)
	}
	return value, complaint == ""
}

func (r *csvReader) boolean(column string) (value, ok bool) {
	cell, ok := r.cell(column)
	if !ok {
		return false, false
	}
	switch strings.ToLower(cell) {
	case "true", "1", "yes":
		return true, true
	case "false", "0", "no":
		return false, true
	}
	r.add(r.line, fmt.Sprintf("%s: %s is not true or false", column, quote(cell)), "")
	return false, false
}

// accessCells is what a line states of a table's accesses.
type accessCells struct {
	// stated counts the cells of reuse_0 to reuse_16 that are not empty; empty names
	// the last that is.
	stated int
	empty  string
	// Whether the other columns are stated.
	zipf, batch, unique bool
}

// access reads the distribution, and says what of it is stated.
func (r *csvReader) access(d *access.Distribution) (has stated) {
	var is accessCells
	before := r.count()
	for i, column := range r.reuse {
		if _, ok := r.cell(column); !ok {
			is.empty = column
			continue
		}
		is.stated++
		d.Reuse[i], _ = r.real(column, "the reuse columns hold the share of distinct rows in each use-count class")
	}
	broken := r.count() > before || is.stated < len(r.reuse)
	_, is.zipf = r.cell("zipf")
	exponent, ok := r.real("zipf", zipfHint)
	if !ok {
		exponent = access.DefaultExponent
	}
	_, is.batch = r.cell("reuse_batch")
	batch, ok := r.whole("reuse_batch", "state the number of samples that the histogram was counted on")
	if !ok {
		batch = 1
	}
	_, is.unique = r.cell("unique_rows")
	unique, _ := r.real("unique_rows", uniqueHint)
	r.checkAccess(is)
	if text, ok := r.cell("index_law"); ok {
		d.Law, _ = r.indexLaw(r.line, text)
		has |= statedLaw
	}
	switch {
	case is.stated > 0:
		d.Kind, d.Batch, d.UniqueRows = access.Histogram, int(batch), unique
		if broken {
			d.Reuse = mendedReuse(d.Reuse)
		}
	case is.zipf:
		d.Kind, d.Exponent = access.Zipf, exponent
	}
	if d.Kind != access.Unstated {
		has |= statedAccess
	}
	return has
}

// checkAccess reports columns of accesses that do not go together.
func (r *csvReader) checkAccess(is accessCells) {
	switch {
	case is.stated > 0 && is.stated < len(r.reuse):
		if _, exists := r.columns[is.empty]; exists {
			r.add(r.line, is.empty+" is empty", "a histogram takes all of reuse_0 to reuse_16")
		}
	case is.stated > 0 && is.zipf:
		r.add(r.line, "both zipf and reuse are stated", "state one of them")
	case is.stated > 0:
		if _, exists := r.columns["reuse_batch"]; !is.batch && exists {
			r.add(r.line, "reuse_batch is empty", "state the number of samples that the histogram was counted on")
		}
	case is.batch || is.unique:
		r.add(r.line, "reuse_batch or unique_rows is stated without reuse_0 to reuse_16", "they belong to a histogram of reuse")
	}
}

// constraint reads the constraints; ok is false where an allowed device could
// not be read.
func (r *csvReader) constraint() (c problem.Constraint, ok bool) {
	ok = true
	if cell, stated := r.cell("devices"); stated {
		for _, text := range strings.Split(cell, ";") {
			device, complaint := number(strings.TrimSpace(text)).whole()
			if complaint != "" {
				r.add(r.line, "devices: "+complaint, "separate devices by semicolons, for example "+strconv.Quote("0;1;2"))
				ok = false
				continue
			}
			c.Devices = append(c.Devices, int(device))
		}
	}
	c.Colocation, _ = r.text("group")
	c.NoSplit, _ = r.boolean("no_split")
	width, _ := r.whole("min_width", widthHint)
	c.MinWidth = int(width)
	c.OneHost, _ = r.boolean("one_host")
	c.ShardingTypes = cellNames(r, "sharding_types", "sharding type", problem.ParseShardingType, shardingTypes())
	c.Tiers = cellNames(r, "tiers", "memory tier", problem.ParseTier, tiers())
	share, stated := r.real("cache_share", cacheHint)
	if stated && !(share > 0 && share < 1) {
		r.add(r.line, badCacheShare(share), cacheHint)
		share = 0
	}
	c.CacheShare = share
	return c, ok
}

// cellNames reads the names of one kind in a cell, separated by semicolons.
func cellNames[T ~string](r *csvReader, column, kind string, parse func(string) (T, error), known []string) (list []T) {
	cell, stated := r.cell(column)
	if !stated {
		return nil
	}
	before := r.count()
	for i, text := range strings.SplitN(cell, ";", len(known)+1) {
		if i == len(known) {
			r.add(r.line, tooMany(column, known), "name each at most once")
			break
		}
		text = strings.TrimSpace(text)
		name, err := parse(text)
		if r.enum(r.line, err, text, kind, known); err == nil {
			list = append(list, name)
		}
	}
	if r.count() > before {
		return nil // part of a list would be wrong for reasons of its own
	}
	return list
}

// lineLimited passes r on until a line is longer than maxCSVLine.
type lineLimited struct {
	r      io.Reader
	length int
}

func (l *lineLimited) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	for _, c := range p[:n] {
		l.length++
		if c == '\n' {
			l.length = 0
		} else if l.length > maxCSVLine {
			return 0, errLongLine
		}
	}
	return n, err
}
