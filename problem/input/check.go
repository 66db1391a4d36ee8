package input

import (
	"errors"
	"fmt"
	"slices"

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
	var invalid *problem.Invalid
	if !errors.As(judged.Validate(), &invalid) {
		return
	}
	for _, f := range invalid.Faults {
		e := Error{Table: f.Table, Message: f.Message, Hint: f.Hint}
		var at place
		switch {
		case len(f.Tables) > 0:
			at = c.tableAt(p, f.Tables[0])
			if f.Table != "" && len(f.Tables) == 2 && at.file != "" {
				e.Message = fmt.Sprintf("the name is used twice, at %v and %v", c.tableAt(p, f.Tables[1]), at)
			}
		case f.Key == "batch":
			at = c.batchAt(p.Batch)
		case f.Key != "":
			at, e.Hint = c.clusterAt(f.Key)
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

// clusterAt returns where a key of hardware.Topology.Problems stands, and what belongs there.
func (c *checker) clusterAt(key string) (at place, hint string) {
	leaves := key == "reserve"
	switch key {
	case "device_profile":
		key = "device"
	case "reserve":
		if key = "reserve_share"; len(c.topologies) > 0 && !c.topologies[0].Has(key) {
			key = "reserve_fixed"
		}
	}
	if leaves {
		hint = "lower the share or the fixed part"
	} else if i := slices.Index(clusterShape.keys, key); i >= 0 {
		hint = clusterFields[i].hint
	}
	for _, f := range c.topologies {
		if f.Has(key) {
			return place{f.Name, f.lines[key]}, hint
		}
	}
	if len(c.topologies) == 1 {
		at.file = c.topologies[0].Name
	}
	return at, hint
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
