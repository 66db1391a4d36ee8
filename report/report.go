// Package report writes results for people, as text, and for scripts, as one JSON
// object.
//
//	Summarize  the verdict on a plan, which texts, JSON and pages show
//	Result     a finished result: its summary and, in full, devices, why, splits, baselines
//	Plan       the same for a plan file alone. The file has neither simulated cost
//	           nor lookups, so the report names the tables with most weights
//	Tables     every table of a plan, with its cheapest other place, one line each
//	Memory     one device's memory, line by line
//	Diff       what changed between two plans
//	Step       the whole training step of a plan
//	JSON       a finished result as an object
//	ReadCompared          what another planner found, from a file
//	Workloads, Devices    what can be planned, and for what
//	Dataset, Ceilings     what was measured, by what, and how noisy it is
//	Trace                 the tables that a log of lookups shows
//	Accuracy, LearningCurve    the errors of a model's predictions
//	Comparison            methods, by setting
//	Verify, Verified      plans that were run, beside their predictions
//	WatchEvent, WatchEnd  what a watch of a running job finds
//
// Times that come from the simulated device, or from a model trained on it, say
// SIMULATED. Equal arguments give equal bytes.
package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/unit"
)

// Options say how to write a report. The zero value works.
type Options struct {
	// Width is the number of columns of the terminal: text and the cells of tables
	// are wrapped at words, and tables leave out columns, so that lines do not exceed it unless
	// a word does. 0 stands for a file or a pipe: tables take 120 columns, and no text is
	// wrapped.
	Width int
	// Full adds all devices, tables and methods to the summary of a plan.
	Full bool
	// Wrote is the file that the plan was written to, and Next what to do next; both may be empty.
	Wrote, Next string
	// Colour allows ANSI colours.
	Colour bool
	// AllDevices lists every device of a large cluster, not only the busiest and the
	// least busy ones.
	AllDevices bool
	// AllChanges lists every change between two plans, not only the first 15 of each sort.
	AllChanges bool
	// ListTables says how a user lists every table, such as "--tables"; empty if there is
	// no way.
	ListTables string
	// Name is what was planned, such as "workload:mlperf-dlrm-dcnv2", or "-" for
	// standard input; it may be empty.
	Name string
	// Problem is the problem of the plan, or nil. With it, the report names the tables
	// that are read most.
	Problem *problem.Problem
	// From is the re-plan that the plan comes from; nil for any other plan.
	From *replan.Outcome
}

func (o Options) width() int {
	if o.Width <= 0 {
		return 120
	}
	return o.Width
}

// printer writes lines and keeps the first error.
type printer struct {
	w   io.Writer
	opt Options
	// begun is a line whose end was not written yet.
	begun string
	err   error
}

// more writes that n lines of a table were left out, if n is above 0, and how to list them:
// for example "list every table with --tables"; it may be empty.
func (p *printer) more(n int, how string) {
	if n <= 0 {
		return
	}
	if how != "" {
		how = ": " + how
	}
	p.printf("%s%s\n", words.More("", n), how)
}

// everyTable says how to list every table.
func (p *printer) everyTable() string {
	if p.opt.ListTables == "" {
		return ""
	}
	return "list every table with " + p.opt.ListTables
}

// printf writes text, wrapped if it is for a terminal. It keeps a line until its end.
func (p *printer) printf(format string, args ...any) {
	text := p.begun + fmt.Sprintf(format, args...)
	p.begun = ""
	for {
		line, rest, ended := strings.Cut(text, "\n")
		if !ended {
			p.begun = text
			return
		}
		if p.opt.Width > 0 {
			line = wrapped(line, p.opt.Width)
		}
		p.write(line + "\n")
		text = rest
	}
}

// write writes whole lines as they are.
func (p *printer) write(lines string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, lines)
	}
}

// mostIndent is the largest indentation of the lines that continue a wrapped line.
const mostIndent = 20

// wrapped breaks a line at spaces so that no part is wider than width, unless one word is.
// The parts but the first are indented to the line's text behind its title, as in
//
//	gain            54 % less time than the
//	                best baseline
func wrapped(line string, width int) string {
	if text.StringWidthWithoutEscSequences(line) <= width {
		return line
	}
	indent := indentation(line, width)
	var b strings.Builder
	column := 0
	for i, word := range inseparable(strings.Split(line, " ")) {
		wide := text.StringWidthWithoutEscSequences(word)
		switch {
		case i == 0:
		case column+1+wide > width && column > indent:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += wide
	}
	return b.String()
}

// inseparable joins each number to the unit behind it.
func inseparable(parts []string) []string {
	joined := []string{parts[0]}
	for i, part := range parts[1:] {
		last := &joined[len(joined)-1]
		unit := strings.TrimRight(part, ".,:;)")
		switch before := parts[i]; {
		case strings.HasSuffix(before, "±"), before != "" && before[len(before)-1] >= '0' && before[len(before)-1] <= '9' && slices.Contains(units, unit):
			*last += " " + part
		default:
			joined = append(joined, part)
		}
	}
	return joined
}

// units are those of the numbers in reports.
var units = []string{"%", "s", "ms", "us", "B", "KiB", "MiB", "GiB", "TiB", "KB/s", "MB/s", "GB/s", "TB/s", "K", "M", "G", "T", "±"}

// indentation returns where the text of a line begins behind its title: two spaces or more
// end a title, and "- " is one.
func indentation(line string, width int) int {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	if at := strings.Index(line[indent:], "  "); at > 0 && line[indent] < utf8.RuneSelf { // a legend has no title
		rest := line[indent+at:]
		if behind := indent + at + len(rest) - len(strings.TrimLeft(rest, " ")); behind <= mostIndent {
			indent = behind
		}
	} else if strings.HasPrefix(line[indent:], "- ") {
		indent += 2
	}
	if 2*indent > width {
		return 0
	}
	return indent
}

// fact writes a line with a title and a text, or nothing if the text is empty.
func (p *printer) fact(title, text string) {
	if text != "" {
		p.printf("%-12s %s\n", title, OneLine(text))
	}
}

// section starts a part of the report.
func (p *printer) section(format string, args ...any) {
	p.printf("\n%s\n", p.paint(bold, fmt.Sprintf(format, args...)))
}

// The ANSI colours in use.
const (
	bold    = "1"
	red     = "31"
	yellow  = "33"
	cyan    = "36"
	blue    = "34"
	magenta = "35"
)

func (p *printer) paint(colour, s string) string {
	if !p.opt.Colour || colour == "" || s == "" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

// grid writes rows under a header, in columns. A column whose title begins with "<" is
// aligned to the left, the others to the right. On a terminal that is too narrow, cells are
// wrapped at words; then the columns whose titles begin with "?" are left out, the last ones first.
func (p *printer) grid(titles []string, rows [][]string) {
	kept := make([]int, len(titles))
	for i := range kept {
		kept[i] = i
	}
	var left []string
	for p.opt.Width > 0 && leastWidth(titles, rows, kept) > p.opt.Width {
		at := -1
		for i, column := range kept {
			if strings.HasPrefix(titles[column], "?") {
				at = i
			}
		}
		if at < 0 {
			break
		}
		left = append(left, strings.TrimLeft(titles[kept[at]], "?<"))
		kept = slices.Delete(kept, at, at+1)
	}
	shown := make([][]string, len(rows))
	for r, row := range rows {
		for _, column := range kept {
			if column < len(row) {
				shown[r] = append(shown[r], row[column])
			}
		}
	}
	var heads []string
	for _, column := range kept {
		heads = append(heads, strings.TrimPrefix(titles[column], "?"))
	}
	p.write(render(heads, shown, p.opt.Width) + "\n")
	if len(left) > 0 {
		slices.Reverse(left)
		p.printf("a wider terminal also shows: %s\n", strings.Join(left, ", "))
	}
}

// between columns are two spaces.
const gap = 2

// leastWidth returns the width of a table of some columns if each cell is wrapped at words.
func leastWidth(titles []string, rows [][]string, columns []int) int {
	width := -gap
	for _, column := range columns {
		least, _ := columnWidths(titles, rows, column)
		width += least + gap
	}
	return width
}

// columnWidths returns the least width of a column and the width of its longest cell. A number stays
// beside its unit: only titles, and cells that are aligned to the left, are wrapped.
func columnWidths(titles []string, rows [][]string, column int) (least, most int) {
	cells := []string{strings.TrimLeft(titles[column], "?<")}
	for _, row := range rows {
		if column < len(row) {
			cells = append(cells, row[column])
		}
	}
	wraps := strings.Contains(titles[column][:min(2, len(titles[column]))], "<")
	for i, cell := range cells {
		wide := text.StringWidthWithoutEscSequences(cell)
		most = max(most, wide)
		if i > 0 && !wraps {
			least = max(least, wide)
			continue
		}
		for _, word := range strings.Fields(cell) {
			least = max(least, text.StringWidthWithoutEscSequences(word))
		}
	}
	return least, most
}

// fit returns the widths of columns that together take at most a width, if words allow it: the widest
// columns are made narrower first.
func fit(titles []string, rows [][]string, width int) []int {
	least, widths, sum := make([]int, len(titles)), make([]int, len(titles)), -gap
	for i := range titles {
		least[i], widths[i] = columnWidths(titles, rows, i)
		sum += widths[i] + gap
	}
	for ; sum > width; sum-- {
		widest := -1
		for i := range widths {
			if widths[i] > least[i] && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

// render lays out a table. Cells are wrapped at words so that lines are at most width columns wide;
// 0 wraps nothing.
func render(titles []string, rows [][]string, width int) string {
	t := table.NewWriter()
	t.SuppressTrailingSpaces()
	style := table.Style{Box: table.StyleBoxDefault, Options: table.OptionsNoBordersAndSeparators}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", strings.Repeat(" ", gap)
	t.SetStyle(style)
	widths := make([]int, len(titles))
	if width > 0 {
		widths = fit(titles, rows, width)
	}
	header := make(table.Row, len(titles))
	var columns []table.ColumnConfig
	for i, title := range titles {
		align := text.AlignRight
		if left, ok := strings.CutPrefix(title, "<"); ok {
			align, title = text.AlignLeft, left
		}
		header[i] = wrapCell(title, widths[i])
		columns = append(columns, table.ColumnConfig{Number: i + 1, Align: align, AlignHeader: align})
	}
	t.SetColumnConfigs(columns)
	t.AppendHeader(header)
	for _, row := range rows {
		cells := make(table.Row, len(row))
		for i, cell := range row {
			cells[i] = wrapCell(cell, widths[i])
		}
		t.AppendRow(cells)
	}
	return t.Render()
}

// wrapCell breaks a cell at spaces; 0 breaks nothing.
func wrapCell(cell string, width int) string {
	if width <= 0 || text.StringWidthWithoutEscSequences(cell) <= width {
		return cell
	}
	return text.WrapSoft(cell, width)
}

// aligned prints times in milliseconds with one number of decimals, such that
// the largest of them keeps four significant digits.
type aligned struct{ decimals int }

func alignTo(largest unit.Millis) aligned {
	switch {
	case largest >= 1000:
		return aligned{0}
	case largest >= 100:
		return aligned{1}
	case largest >= 10:
		return aligned{2}
	case largest >= 1:
		return aligned{3}
	}
	return aligned{4}
}

func (a aligned) ms(m unit.Millis) string {
	return strconv.FormatFloat(float64(m), 'f', a.decimals, 64)
}

// percent prints the share part/whole; "-" if whole is 0.
func percent(part, whole float64) string {
	if !(whole > 0) {
		return "-"
	}
	share := 100 * part / whole
	if math.Abs(share) < 9.95 {
		return unsigned(fmt.Sprintf("%.1f", share)) + " %"
	}
	return fmt.Sprintf("%.0f %%", share)
}

// unsigned takes the minus off a printed number whose digits are all 0.
func unsigned(number string) string {
	if strings.Trim(number, "-0.") == "" {
		return strings.TrimPrefix(number, "-")
	}
	return number
}

// name prints a name from a file so that it cannot disturb the terminal.
func name(s string) string { return shortened(s, 51) }

// shortened prints a name like name, of at most longest bytes.
func shortened(s string, longest int) string {
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest-3], "") + "..."
	}
	plain := s != ""
	for _, r := range s {
		plain = plain && unicode.IsPrint(r) && r != ' ' && r != unicode.ReplacementChar
	}
	if plain {
		return s
	}
	return strconv.Quote(s)
}

// path prints the name of a file or workload. It shortens a long name to its end, because
// the ends of paths differ.
func path(s string) string {
	const longest = 48
	if len(s) > longest {
		s = "..." + strings.ToValidUTF8(s[len(s)-longest:], "")
	}
	return name(s)
}

// plural prints a count, with separators between thousands, and its noun.
func plural(n int, noun string) string {
	_, nouns, _ := strings.Cut(words.Plural(n, noun), " ")
	return count(int64(n)) + " " + nouns
}

// count prints a whole number with separators between thousands.
func count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// numbers prints the first 8 numbers of a list, and consecutive numbers as a range.
func numbers(list []int) string { return ranges(list, 8) }

// ranges prints the first longest numbers and ranges of an ascending list.
func ranges(list []int, longest int) string {
	var parts []string
	for i := 0; i < len(list); {
		if len(parts) == longest {
			return strings.Join(parts, ", ") + words.More(" ", len(list)-i)
		}
		end := i + 1
		for end < len(list) && list[end] == list[end-1]+1 {
			end++
		}
		if end-i > 2 {
			parts = append(parts, fmt.Sprintf("%d-%d", list[i], list[end-1]))
			i = end
			continue
		}
		parts = append(parts, strconv.Itoa(list[i]))
		i++
	}
	return strings.Join(parts, ", ")
}
