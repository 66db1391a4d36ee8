package search

import (
	"slices"

	"github.com/neuroshard/neuroshard/problem"
)

// A constraint may demand that all slices of a table lie on devices of one host
// (problem.Constraint.OneHost), as TorchRec's table_column_wise does:
//
//	host 0         host 1
//	| 48 | 48 |    |    |    |     allowed
//	| 48 |    |    | 48 |    |     not allowed
//
// Steps that place slices one after the other put the first slice on a host with room for all slices of the table, and the others on
// the same host (holders.open). The annealing cuts a table on its host, and moves all its slices to another host together (rehost).

// One in rehostEvery moves of a slice that must stay on its host moves all slices of its table.
const rehostEvery = 4

// onHost returns which tables must have all slices on one host; nil if none must.
func onHost(p *problem.Problem) []bool {
	if p.Topology.Hosts() < 2 || !slices.ContainsFunc(p.Tables, func(t problem.Table) bool { return t.Constraint.OneHost }) {
		return nil
	}
	list := make([]bool, len(p.Tables))
	for i := range p.Tables {
		list[i] = p.Tables[i].Constraint.OneHost
	}
	return list
}

// staysOnHost reports whether the piece is one of several slices that must lie on one host.
func staysOnHost(c *catalog, k *piece) bool {
	if c.onHost == nil {
		return false
	}
	m := k.members[0]
	return c.onHost[m.table] && k.span == oneDevice && m.width < c.problem.Tables[m.table].Dim
}

// strays reports whether slices of the piece's table must not lie on these two devices, because
// they are of different hosts.
func strays(c *catalog, k *piece, d, other int32) bool {
	return staysOnHost(c, k) && hostOf(c, d) != hostOf(c, other)
}

// hostOf returns the number of a device's host.
func hostOf(c *catalog, d int32) int32 { return d / int32(c.devicesOf(oneHost)) }

// onHostOf returns the devices of a list, which must ascend, that are on a host. The result must not be
// modified.
func onHostOf(c *catalog, host int32, devices []int32) []int32 {
	per := int32(c.devicesOf(oneHost))
	from, _ := slices.BinarySearch(devices, host*per)
	to, _ := slices.BinarySearch(devices, (host+1)*per)
	return devices[from:to]
}

// rehost moves all slices of a slice's table to another host, in their order from a drawn device
// of the host on.
func rehost(m *mover, slot int32) bool {
	per, hosts := int32(m.c.devicesOf(oneHost)), int32(m.c.problem.Topology.Hosts())
	host, turn := m.draw.Int32N(hosts-1), m.draw.Int32N(per)
	if host >= hostOf(m.c, m.parts[slot].device) {
		host++
	}
	table, _ := m.table(m.parts[slot].piece)
	for _, other := range m.tables[table] {
		p := m.parts[other]
		to := host*per + (p.device+turn)%per
		if int(to) >= len(m.c.all) || m.c.pieces[p.piece].span != oneDevice || !m.allows(p.piece, to) {
			return false
		}
		m.gone, m.come = append(m.gone, other), append(m.come, placed{p.piece, to})
	}
	return m.fits(false)
}
