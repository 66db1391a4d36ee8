package input

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/problem"
)

// Source is a file that a problem was read from: a TableFile or a
// TopologyFile.
type Source interface{ source() }

func (TableFile) source()    {}
func (TopologyFile) source() {}

// Check validates a problem and returns nil or an *Errors that says for each
// fault which file and line it comes from. p.Tables must be the tables of the
// TableFiles among the sources, in order; a fault of a value that is in no source
// has no position.
//
// Sources may come from reads that failed. What failed is reported by the read
// and not again by Check: a topology that could not be read, for example, does
// not make every pin wrong.
func Check(p *problem.Problem, sources ...Source) error {
	c := &checker{report: &report{}}
	for _, s := range sources {
		switch f := s.(type) {
		case TableFile:
			c.tables = append(c.tables, f)
		case TopologyFile:
			c.topologies = append(c.topologies, f)
		}
	}
	c.check(p)
	return c.err()
}

type checker struct {
	*report
	tables     []TableFile
	topologies []TopologyFile
	// names maps a table's name, as Validate sees it, to its index.
	names map[string]int
	// renamed holds the true names of tables that were renamed for Validate.
	renamed map[string]string
}

// place is where something stands; the zero value is nowhere.
type place struct {
	file string
	line int
}

func (p place) String() string {
	switch {
	case p.file == "":
		return "an unknown place"
	case p.line == 0:
		return p.file
	}
	return fmt.Sprintf("%s:%d", p.file, p.line)
}

func (c *checker) check(p *problem.Problem) {
	judged := *p
	c.forgive(&judged)
	c.rename(&judged)
	var invalid *problem.Invalid
	if !errors.As(judged.Validate(), &invalid) {
		return
	}
	topology := judged.Topology.Problems()
	for _, f := range invalid.Faults {
		e := Error{Table: f.Table, Message: f.Message, Hint: f.Hint}
		var at place
		switch {
		case f.Table != "":
			at = c.tableAt(p, c.indexOf(f.Table))
			if name, ok := c.renamed[f.Table]; ok {
				e.Table = name
			}
		case slices.Contains(topology, f.Message):
			at, e.Hint = c.topologyFault(f.Message)
		case strings.HasPrefix(f.Message, "batch:"):
			at = c.batchAt(p.Batch)
		case len(f.Colocation) > 0:
			at, e.Message = c.tableAt(p, f.Colocation[0]), c.colocationMessage(&judged, f)
		case len(c.tables) == 1:
			at = place{c.tables[0].Name, 0}
		}
		e.File, e.Line = at.file, at.line
		c.put(e)
	}
}

// forgive replaces what a failed read left empty by valid values.
func (c *checker) forgive(p *problem.Problem) {
	badTables, badTopology := false, false
	for _, f := range c.tables {
		badTables = badTables || f.faulty
	}
	for _, f := range c.topologies {
		badTopology = badTopology || f.faulty
	}
	if badTables && len(p.Tables) == 0 {
		p.Tables = []problem.Table{{Name: "none", Rows: 1, Dim: problem.ColumnGranule, Features: make([]problem.Feature, 1)}}
	}
	for _, f := range c.topologies {
		f.forgive(&p.Topology)
	}
	if p.Batch == 0 && (badTables || badTopology) {
		p.Batch = 1
	}
}

// rename reports names that are used twice, and gives each table after the first a
// unique name for Validate, so that a fault says which table it is about. Tables
// whose names could not be read get a unique name as well.
func (c *checker) rename(p *problem.Problem) {
	c.names = make(map[string]int, len(p.Tables))
	c.renamed = map[string]string{}
	tables := p.Tables
	taken := make(map[string]bool, len(tables))
	for i := range tables {
		taken[tables[i].Name] = true
	}
	for i := range tables {
		name := tables[i].Name
		if file, k := c.fileOf(p, i); file != nil {
			if shown, ok := file.unnamed[k]; ok {
				c.renameTable(p, tables, taken, i, shown)
				continue
			}
		}
		first, twice := c.names[name]
		if name == "" || !twice {
			if name != "" {
				c.names[name] = i
			}
			continue
		}
		at, firstAt := c.tableAt(p, i), c.tableAt(p, first)
		where := fmt.Sprintf("by tables #%d and #%d", first, i)
		if at.file != "" {
			where = fmt.Sprintf("at %v and %v", firstAt, at)
		}
		c.put(Error{File: at.file, Line: at.line, Table: name, Message: "the name is used twice, " + where, Hint: "give every table a name of its own"})
		c.renameTable(p, tables, taken, i, name)
	}
}

// renameTable gives table i a name that is not taken; errors show another.
func (c *checker) renameTable(p *problem.Problem, tables []problem.Table, taken map[string]bool, i int, shown string) {
	if len(c.renamed) == 0 {
		p.Tables = slices.Clone(tables)
	}
	unique := fmt.Sprintf("%s #%d", shown, i)
	for taken[unique] {
		unique += "'"
	}
	taken[unique] = true
	p.Tables[i].Name = unique
	c.names[unique], c.renamed[unique] = i, shown
}

// indexOf returns the index of the table that a fault names, or -1.
func (c *checker) indexOf(name string) int {
	if i, ok := c.names[name]; ok {
		return i
	}
	var i int
	if _, err := fmt.Sscanf(name, "#%d", &i); err == nil {
		return i
	}
	return -1
}

// tableAt returns where table i of the problem stands.
func (c *checker) tableAt(p *problem.Problem, i int) place {
	f, k := c.fileOf(p, i)
	if f == nil {
		return place{}
	}
	return place{f.Name, f.Line(k)}
}

// fileOf returns the file that states table i of the problem, and the table's
// index there; nil where no file does.
func (c *checker) fileOf(p *problem.Problem, i int) (*TableFile, int) {
	total := 0
	for k := range c.tables {
		total += len(c.tables[k].Tables)
	}
	if i < 0 || total != len(p.Tables) {
		return nil, 0
	}
	for k := range c.tables {
		if n := len(c.tables[k].Tables); i >= n {
			i -= n
			continue
		}
		return &c.tables[k], i
	}
	return nil, 0
}

// topologyFault returns where the field stands that a message of
// hardware.Topology.Problems begins with, and what to do.
func (c *checker) topologyFault(message string) (place, string) {
	field, _, _ := strings.Cut(message, ":")
	key, hint := strings.ReplaceAll(field, " ", "_"), ""
	switch key {
	case "device_profile":
		key, hint = "device", "the profile is the kind of device, such as a100-80"
	case "reserve":
		key, hint = "reserve_share", "lower the share or the fixed part"
		if len(c.topologies) > 0 && !c.topologies[0].Has(key) {
			key = "reserve_fixed"
		}
	case "devices":
		hint = "state the number of devices of the cluster"
	case "devices_per_host":
		hint = "state how many devices share a host's fast links"
	case "device_memories":
		hint = deviceMemoriesHint
	case "host_memories":
		hint = hostMemoriesHint
	case "network_bandwidth":
		hint = networkHint
	case "nvlink_domain":
		hint = domainHint
	case "reserve_share":
		hint = "it is a share of the memory: write 0.15 for 15 %"
	}
	for _, f := range c.topologies {
		if f.Has(key) {
			return place{f.Name, f.lines[key]}, hint
		}
	}
	if len(c.topologies) == 1 {
		return place{c.topologies[0].Name, 0}, hint
	}
	return place{}, hint
}

// colocationMessage returns the message about a co-location with the names
// that errors show in the place of those that Validate was given.
func (c *checker) colocationMessage(judged *problem.Problem, f problem.Fault) string {
	var given, shown []string
	for _, i := range f.Colocation {
		name := judged.Tables[i].Name
		given = append(given, name)
		if original, ok := c.renamed[name]; ok {
			name = original
		}
		shown = append(shown, name)
	}
	return strings.Replace(f.Message, " tables "+strings.Join(given, ", ")+" have", " tables "+strings.Join(shown, ", ")+" have", 1)
}

// batchAt returns where the batch is stated.
func (c *checker) batchAt(batch int) place {
	for _, f := range c.topologies {
		if f.Has("batch") && f.Batch == batch {
			return place{f.Name, f.lines["batch"]}
		}
	}
	for _, f := range c.tables {
		if f.batchLine > 0 && f.Batch == batch {
			return place{f.Name, f.batchLine}
		}
	}
	return place{}
}
