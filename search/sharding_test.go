package search_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/neuroshard/neuroshard/internal/fixedseed"
	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/search/searchtest"
	"github.com/neuroshard/neuroshard/unit"
)

// formsModel is a cost model of all forms, in whole nanoseconds. Slices in HBM cost what
// closedForm says; if sums is true, they cost the sum of their own costs. Slices in
// other forms cost one launch for each operator class on a device (none if sums is
// true), the bytes of their lookups and, in Shared, the bytes that they send; a replica
// also costs its bytes for the update.
type formsModel struct {
	p       *problem.Problem
	sums    bool
	items   *formItems
	columns *closedForm
	// host and plain are by device: slices in host memory, and slices in HBM if sums is
	// true. byHost is by host: blocks of rows. dims are the columns on each device.
	host, byHost, plain []classTime
	dims                []int64
	rows, replicas      classTime
	shared              int64
	// hidden is what is hidden of the exchanges of each direction. A direction takes half of
	// the time of all exchanges.
	hidden [2]float64
	// inside and between are the times of both directions of a hierarchical exchange for each
	// column of the device and of the host with the most columns; 0 for flat exchanges.
	// hostDims are the columns of blocks of rows on each host.
	inside, between int64
	hostDims        []int64
}

// classTime is the number and the time of slices of one operator class.
type classTime struct{ count, time int64 }

func (c *classTime) add(sign, time int64) { c.count, c.time = c.count+sign, c.time+sign*time }

// of returns the time of an operator class with its launch.
func (c classTime) of(s *formsModel) int64 {
	if c.count == 0 || s.sums {
		return c.time
	}
	return c.time + launch
}

const launch = 40_000

type formed struct {
	slice
	form problem.Form
}

type formItems struct {
	list  []formed
	index map[formed]int
	plain []int // the numbers of closedForm for the zero form
}

// formsFactory returns a Factory of formsModels.
func formsFactory(p *problem.Problem, sums bool) search.Factory {
	items, columns := &formItems{index: map[formed]int{}}, factory(p)
	return func() search.Scorer {
		n, hosts := p.Topology.Devices, p.Topology.Hosts()
		return &formsModel{
			p: p, sums: sums, items: items, columns: columns().(*closedForm),
			host: make([]classTime, n), byHost: make([]classTime, hosts), plain: make([]classTime, n), dims: make([]int64, n),
			hostDims: make([]int64, hosts),
		}
	}
}

func (s *formsModel) Item(table, width int, form problem.Form) int {
	key := formed{slice{table, width}, form}
	if i, ok := s.items.index[key]; ok {
		return i
	}
	plain := -1
	if form == (problem.Form{}) {
		plain = s.columns.Item(table, width, problem.Form{})
	}
	s.items.index[key] = len(s.items.list)
	s.items.list, s.items.plain = append(s.items.list, key), append(s.items.plain, plain)
	return len(s.items.list) - 1
}

func (s *formsModel) Reset() {
	s.columns.Reset()
	clear(s.host)
	clear(s.byHost)
	clear(s.plain)
	clear(s.dims)
	clear(s.hostDims)
	s.rows, s.replicas, s.shared = classTime{}, classTime{}, 0
}

func (s *formsModel) Add(device, item int)    { s.change(device, item, 1) }
func (s *formsModel) Remove(device, item int) { s.change(device, item, -1) }

func (s *formsModel) change(device, item int, sign int64) {
	it := s.items.list[item]
	t := &s.p.Tables[it.table]
	n, local := int64(s.p.Topology.Devices), int64(s.p.Topology.PerHost())
	columns := int64(problem.Columns(it.width, t.Bags()))
	time := 20 * int64(math.Ceil(t.PoolingFactor()*16)) * int64(it.width+8)
	sent := 150 * columns
	switch {
	case it.form.ShardingType == problem.RowWise:
		s.rows.add(sign, time/n)
		if s.inside > 0 {
			sent = (s.inside + s.between) * columns
		}
		s.shared += sign * sent
	case it.form.ShardingType == problem.TableRowWise:
		s.byHost[device/int(local)].add(sign, time/local)
		if s.p.Topology.Hosts() > 1 { // on one host, the blocks are those of all devices
			sent /= 3
		}
		if s.inside > 0 {
			s.hostDims[device/int(local)] += sign * columns
			sent = 0
		}
		s.shared += sign * sent
	case it.form.ShardingType == problem.DataParallel:
		s.replicas.add(sign, time/n+t.Rows*int64(it.width)/4)
		s.shared += sign * t.Rows * int64(it.width) / 16
	case it.form.Tier == problem.Host:
		s.host[device].add(sign, 10*time)
		s.dims[device] += sign * columns
	case it.form.Tier == problem.HostCached:
		s.host[device].add(sign, int64(float64(10*time)*(1-it.form.Cache*.9)))
		s.dims[device] += sign * columns
	case s.sums:
		s.plain[device].add(sign, time)
	default:
		s.columns.shift(device, s.items.plain[item], sign)
	}
}

func (s *formsModel) Compute(device int) float64 {
	ns := s.host[device].of(s) + s.byHost[device/s.p.Topology.PerHost()].of(s) + s.plain[device].of(s)
	return s.columns.Compute(device) + float64(ns)/1e6
}

func (s *formsModel) ComputeWith(item int, devices []int32, out []float64) {
	for i, d := range devices {
		s.Add(int(d), item)
		out[i] = s.Compute(int(d))
		s.Remove(int(d), item)
	}
}

func (s *formsModel) Shared() float64 {
	shared := float64(s.rows.of(s)+s.replicas.of(s)+s.shared) / 1e6
	for _, hidden := range s.hidden {
		shared -= min(hidden, float64(s.shared)/2e6)
	}
	return shared
}

func (s *formsModel) Hides() bool { return s.hidden != [2]float64{} || s.inside > 0 }

func (s *formsModel) HostSize() int {
	if s.inside == 0 {
		return 0
	}
	return s.p.Topology.PerHost()
}

func (s *formsModel) Columns(device int) int64 {
	return s.dims[device] + s.columns.held[device].dims + s.hostDims[device/s.p.Topology.PerHost()]
}

func (s *formsModel) HostColumns(host int) int64 {
	sum, perHost := s.hostDims[host], s.p.Topology.PerHost()
	for d := host * perHost; d < min((host+1)*perHost, len(s.dims)); d++ {
		sum += s.dims[d] + s.columns.held[d].dims
	}
	return sum
}

func (s *formsModel) Rates() (column, hostColumn, fixed float64) {
	return float64(s.inside) / 2e6, float64(s.between) / 2e6, 0
}

// allToAll returns the time of both all-to-alls, or of the hierarchical exchange in their place,
// in ns.
func (s *formsModel) allToAll() int64 {
	dims, ofHost := int64(0), int64(0)
	for d := range s.dims {
		dims = max(dims, s.Columns(d))
	}
	if s.inside == 0 {
		return s.columns.network * dims
	}
	for h := range s.hostDims {
		ofHost = max(ofHost, s.HostColumns(h))
	}
	return s.inside*dims + s.between*ofHost
}

func (s *formsModel) AllToAlls() (times, free [2]float64) {
	for i, hidden := range s.hidden {
		if !s.sums {
			times[i] = float64(s.allToAll()) / 2e6
		}
		free[i] = max(0, hidden-float64(s.shared)/2e6)
	}
	return times, free
}

func (s *formsModel) Cost() float64 {
	if s.Hides() {
		return s.exposed()
	}
	slowest, dims := 0., int64(0)
	for d := range s.dims {
		slowest, dims = max(slowest, s.Compute(d)), max(dims, s.dims[d]+s.columns.held[d].dims)
	}
	if s.sums {
		dims = 0
	}
	return slowest + float64(s.columns.network*dims)/1e6 + s.Shared()
}

// exposed returns the cost by its definition: the longest compute, and what is not hidden of
// all exchanges of each direction.
func (s *formsModel) exposed() float64 {
	cost, sent := 0., s.allToAll()
	for d := range s.dims {
		cost = max(cost, s.Compute(d))
	}
	if s.sums {
		sent = 0
	}
	cost += float64(s.rows.of(s)+s.replicas.of(s)) / 1e6
	for _, hidden := range s.hidden {
		cost += max(0, float64(sent+s.shared)/2e6-hidden)
	}
	return cost
}

// hidingFactory returns a Factory of formsModels that hide the given ms of the exchanges.
func hidingFactory(p *problem.Problem, forward, backward float64) search.Factory {
	newScorer := formsFactory(p, false)
	return func() search.Scorer {
		s := newScorer().(*formsModel)
		s.hidden = [2]float64{forward, backward}
		return s
	}
}

// hierarchicalFactory puts the problem's devices on two hosts, and returns a Factory of
// formsModels with a hierarchical exchange that hide the given ms of each direction.
func hierarchicalFactory(p *problem.Problem, inside, between int64, hidden float64) search.Factory {
	p.Topology.Devices, p.Topology.DevicesPerHost = 4, 2
	newScorer := hidingFactory(p, hidden, hidden)
	return func() search.Scorer {
		s := newScorer().(*formsModel)
		s.inside, s.between = inside, between
		return s
	}
}

func TestFormsModelConforms(t *testing.T) {
	for _, sums := range []bool{false, true} {
		for _, c := range []struct{ devices, perHost int }{{1, 0}, {4, 0}, {6, 2}, {5, 2}} {
			p := pool(1, 8, c.devices, 128)
			p.Topology.DevicesPerHost, p.Topology.HostMemory = c.perHost, unit.TiB
			searchtest.Conform(t, p, formsFactory(p, sums), searchtest.Forms(p.Topology))
			searchtest.Conform(t, p, formsFactory(p, sums), nil)
			searchtest.Conform(t, p, hidingFactory(p, .05, .2), searchtest.Forms(p.Topology))
			if c.devices == 4 {
				newScorer := hierarchicalFactory(p, 200, 900, .05)
				searchtest.Conform(t, p, newScorer, searchtest.Forms(p.Topology))
			}
		}
		for _, c := range searchtest.Cases(a100()) {
			t.Run(c.Name, func(t *testing.T) {
				searchtest.Conform(t, c.Problem, formsFactory(c.Problem, sums), searchtest.Forms(c.Problem.Topology))
			})
		}
	}
}

// checkPlacement fails if the result is not a valid placement of p with the given sharding types, or if its cost is not that of
// its shards in a new Scorer. Package plan checks cover, constraints, rules of engines and memory, and shares no code with the search.
func checkPlacement(t rapid.TB, p *problem.Problem, newScorer search.Factory, types []problem.ShardingType, r search.Result) {
	t.Helper()
	made := plan.New(p, r.Shards)
	if err := made.Validate(p); err != nil {
		t.Errorf("the plan is not valid: %v", err)
	}
	for _, table := range made.Tables {
		allowed := types
		if slices.Contains(types, problem.ColumnWise) || len(types) == 0 {
			allowed = append(slices.Clone(types), search.Columns()...)
		} else if slices.Contains(types, problem.Grid) {
			allowed = append(slices.Clone(types), problem.TableRowWise)
		}
		if !slices.Contains(allowed, table.ShardingType) {
			t.Errorf("table %q: got sharding type %s, want one of %v", table.Name, table.ShardingType, types)
		}
	}
	scorer := newScorer()
	scorer.Reset()
	seen := map[problem.Shard]bool{} // what several devices hold together counts once
	for d, held := range r.Shards {
		for _, s := range held {
			form := p.Form(s)
			if form.ShardingType.Joint() {
				perHost := p.Topology.PerHost()
				if first := s; form.ShardingType == problem.TableRowWise {
					if d%perHost > 0 {
						continue
					}
				} else if first.Rows = (problem.Range{}); seen[first] {
					continue
				} else {
					seen[first] = true
				}
			}
			scorer.Add(d, scorer.Item(s.Table, s.Dim(), form))
		}
	}
	if cost := scorer.Cost(); math.Abs(cost-r.Cost) > 1e-12*cost {
		t.Errorf("got cost %v, want %v, the cost of the same placement in a new Scorer", r.Cost, cost)
	}
}

// onSomeHosts draws a problem as tight does, but on one to three hosts, with or without
// host memory. Host memory may be too small for the tables.
func onSomeHosts(t *rapid.T) *problem.Problem {
	p := tight(t)
	perHost := rapid.SampledFrom([]int{1, 2, 3, 4}).Draw(t, "per host")
	n := perHost * rapid.IntRange(1, 3).Draw(t, "hosts")
	if n > 2 && rapid.IntRange(0, 5).Draw(t, "partial") == 0 {
		n--
	}
	total := p.ShardBudget(0)[problem.ForwardExchange] * unit.Bytes(p.Topology.Devices)
	for i := range p.Tables {
		if d := &p.Tables[i].Constraint.Devices; len(*d) > 0 {
			for k := range *d {
				(*d)[k] %= n
			}
			slices.Sort(*d)
			*d = slices.Compact(*d)
		}
		p.Tables[i].Constraint.OneHost = rapid.IntRange(0, 3).Draw(t, "one host") == 0
	}
	p.Topology.Devices, p.Topology.DevicesPerHost, p.Topology.Profile = n, perHost, a100()
	if rapid.Bool().Draw(t, "host memory") {
		share := rapid.SampledFrom([]float64{.05, .3, 1, 4}).Draw(t, "share of host memory")
		p.Topology.HostMemory = unit.Bytes(float64(total) * share / float64(p.Topology.Hosts()))
	}
	if p.Topology.HostMemory == 0 {
		p.Engine = rapid.SampledFrom([]problem.Engine{"", problem.TorchRec, problem.HugeCTR}).Draw(t, "engine")
	}
	if rapid.IntRange(0, 2).Draw(t, "count all") > 0 {
		p.Accounting = problem.CountAll
	}
	share := rapid.SampledFrom([]float64{.4, .8, 1, 1.2, 2, 3, 5, 20}).Draw(t, "share of memory")
	p.Topology.Memory = p.DeviceMemory(0)[problem.ForwardExchange].Used() + unit.Bytes(math.Ceil(float64(total)*share/float64(n))) + 1
	if p.Validate() != nil {
		p.Engine = "" // it has another rule for tables
	}
	must.Do(t, p.Validate())
	return p
}

func a100() hardware.Profile {
	profile, err := hardware.ByName("a100-80")
	if err != nil {
		panic(err)
	}
	return profile
}

// someTiers lets some tables lie in some memory tiers only.
func someTiers(t *rapid.T, p *problem.Problem) {
	for i := range p.Tables {
		if c := &p.Tables[i].Constraint; p.Topology.HostMemory > 0 && c.Colocation == "" && rapid.IntRange(0, 5).Draw(t, "tiers") == 0 {
			c.Tiers = rapid.SliceOfNDistinct(rapid.SampledFrom(problem.Tiers()), 1, 3, rapid.ID[problem.Tier]).Draw(t, "tiers of the table")
			if slices.Contains(c.Tiers, problem.HostCached) && rapid.Bool().Draw(t, "with a share") {
				c.CacheShare = .25
			}
		}
	}
}

func someShardingTypes(t *rapid.T) []problem.ShardingType {
	if rapid.Bool().Draw(t, "all sharding types") {
		return problem.ShardingTypes()
	}
	return rapid.SliceOfNDistinct(rapid.SampledFrom(problem.ShardingTypes()), 0, 6, rapid.ID[problem.ShardingType]).Draw(t, "sharding types")
}

// TestPropertyPlansAreValid draws problems on devices and hosts of any kind, sharding types and a cost model. The plan of each method
// is valid, none is cheaper than the default's by a baseline, and the default finds the same plan with any number of workers.
func TestPropertyPlansAreValid(t *testing.T) { plansAreValid(t, 6_000) }

func plansAreValid(t *testing.T, evaluations int64) {
	fixedseed.Few(t)
	rapid.Check(t, func(t *rapid.T) {
		p, types := onSomeHosts(t), someShardingTypes(t)
		someTiers(t, p)
		if rapid.Bool().Draw(t, "uneven") {
			uneven(p, func() float64 { return rapid.Float64Range(.2, 1.8).Draw(t, "share") })
		}
		newScorer := formsFactory(p, rapid.Bool().Draw(t, "additive"))
		opt := search.Options{ShardingTypes: types, Seed: rapid.Uint64().Draw(t, "seed"), Workers: 1, MaxEvaluations: evaluations}
		best, err := search.Run(context.Background(), p, newScorer, opt)
		found := planned(t, err)
		if found {
			checkPlacement(t, p, newScorer, types, best)
			opt.Workers = rapid.IntRange(2, 5).Draw(t, "workers")
			again, err := search.Run(context.Background(), p, newScorer, opt)
			if diff := gocmp.Diff(best, again); err != nil || diff != "" {
				t.Errorf("with %d workers: %v (-1 worker +%d):\n%s", opt.Workers, err, opt.Workers, diff)
			}
		}
		inSlices := len(types) == 0 || slices.Contains(types, problem.ColumnWise)
		for _, m := range search.Methods()[1:] {
			opt.Method = m
			r, err := search.Run(context.Background(), p, newScorer, searchtest.WithPolicy(opt))
			if !planned(t, err) {
				continue
			}
			checkPlacement(t, p, newScorer, nil, r)
			if inSlices && (!found || best.Cost > r.Cost && slices.Contains(search.Baselines(), m)) {
				t.Errorf("got %v with cost %v, and %v of method %s", found, best.Cost, r.Cost, m)
			}
		}
	})
}

// planned reports whether err is nil. The test fails if err is not one of the search's
// typed errors, or if the error does not say which table does not fit, and why.
func planned(t rapid.TB, err error) bool {
	t.Helper()
	if err == nil {
		return true
	}
	var infeasible *search.Infeasible
	var noShardingType *search.NoShardingType
	switch {
	case errors.As(err, &infeasible):
		if infeasible.Table == "" || infeasible.Reason == "" || infeasible.Need <= 0 || infeasible.Missing < 0 {
			t.Errorf("got %+v, want a table, bytes and a reason", infeasible)
		}
	case errors.As(err, new(*search.Idle)):
	case !errors.As(err, &noShardingType) || len(noShardingType.Tables) == 0:
		t.Errorf("got error %v, want one that says which tables do not fit or cannot be placed", err)
	}
	return false
}

// large returns a table of many rows: it takes a little more than 4 bytes for each row
// and column.
func large(name string, rows int64, dim int) problem.Table {
	return problem.Table{Name: name, Rows: rows, Dim: dim, Features: []problem.Feature{{Name: name, PoolingFactor: 2}}, Access: access.Distribution{Kind: access.Uniform}}
}

// TestTablesOfTooManyRows plans tables whose narrowest slice of columns is larger than a
// device. The tables must be cut by rows or go to host memory if that is allowed, and the
// error must name them if nothing holds them.
func TestTablesOfTooManyRows(t *testing.T) {
	topology := func(devices, perHost int, host unit.Bytes) hardware.Topology {
		return hardware.Topology{Profile: a100(), Devices: devices, DevicesPerHost: perHost, HostMemory: host, ReserveShare: hardware.NoReserve}
	}
	columns := []problem.ShardingType{problem.TableWise, problem.ColumnWise}
	huge := large("huge", 10_000_000_000, 4) // 149 GiB
	small := large("small", 1000, 64)
	for _, c := range []struct {
		name     string
		topology hardware.Topology
		tables   []problem.Table
		types    []problem.ShardingType
		want     problem.Form // of the first table, in a plan
		none     string       // in the error
	}{
		{"by rows", topology(8, 0, 0), []problem.Table{huge, small}, problem.ShardingTypes(), problem.Form{ShardingType: problem.RowWise}, ""},
		{"by rows alone", topology(8, 0, 0), []problem.Table{huge, small}, []problem.ShardingType{problem.RowWise}, problem.Form{ShardingType: problem.RowWise}, ""},
		{"by rows of hosts alone", topology(8, 4, 0), []problem.Table{huge, small}, []problem.ShardingType{problem.TableRowWise}, problem.Form{ShardingType: problem.TableRowWise}, ""},
		{"two by rows of hosts", topology(8, 4, 0), []problem.Table{huge, huge, small}, []problem.ShardingType{problem.ColumnWise, problem.TableRowWise}, problem.Form{ShardingType: problem.TableRowWise}, ""},
		{"a grid, larger than a host", topology(8, 4, 0), []problem.Table{large("vast", 18_000_000_000, 8), small}, []problem.ShardingType{problem.ColumnWise, problem.Grid}, problem.Form{ShardingType: problem.TableRowWise}, ""},
		{"columns alone", topology(8, 0, 0), []problem.Table{huge, small}, columns, problem.Form{}, `"huge"`},
		{"by default", topology(8, 0, 0), []problem.Table{huge, small}, nil, problem.Form{}, `"huge"`},
		{"host memory", topology(8, 0, 4*unit.TiB), []problem.Table{huge, small}, columns, problem.Form{Tier: problem.Host}, ""},
		{"host memory of one device", topology(1, 0, 4*unit.TiB), []problem.Table{huge, small}, nil, problem.Form{Tier: problem.Host}, ""},
		{"too little host memory", topology(8, 0, 400*unit.GiB), []problem.Table{huge, small}, columns, problem.Form{}, `"huge"`},
		{"replicas alone", topology(8, 0, 0), []problem.Table{small, huge}, []problem.ShardingType{problem.DataParallel}, problem.Form{}, `"huge"`},
		{"one device by rows", topology(1, 0, 0), []problem.Table{small}, []problem.ShardingType{problem.RowWise}, problem.Form{}, `"small"`},
		{"rows of a full host", topology(2, 0, 0), []problem.Table{large("vast", 40_000_000_000, 4)}, problem.ShardingTypes(), problem.Form{}, `"vast"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &problem.Problem{Batch: 4096, Topology: c.topology}
			for i, table := range c.tables {
				table.Name = fmt.Sprint(table.Name, i)
				p.Tables = append(p.Tables, table)
			}
			must.Do(t, p.Validate())
			for _, sums := range []bool{false, true} {
				newScorer := formsFactory(p, sums)
				r, err := search.Run(context.Background(), p, newScorer, search.Options{ShardingTypes: c.types, Workers: 1, MaxEvaluations: 20_000})
				if c.none != "" {
					if err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(c.none, `"`)) {
						t.Errorf("got %v, want an error that names %s", err, c.none)
					}
					planned(t, err)
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				checkPlacement(t, p, newScorer, c.types, r)
				for _, s := range slices.Concat(r.Shards...) {
					if got := p.Form(s); s.Table == 0 && (got.ShardingType != c.want.ShardingType || got.Tier.OnHost() != c.want.Tier.OnHost()) {
						t.Errorf("got %+v of the first table, want %+v", s, c.want)
					}
				}
			}
		})
	}
}

// tiny returns a problem of three tables on 2 or 4 devices, in one host or two.
func tiny(seed uint64) *problem.Problem { return tinyOf(seed, func(*problem.Table, int) {}) }

// tinyVectors returns a tiny problem in which a table has a third of a bag a sample to five bags,
// another is of pooling none, and the third has one bag.
func tinyVectors(seed uint64) *problem.Problem {
	return tinyOf(seed, func(t *problem.Table, i int) {
		switch (i + int(seed)) % 3 {
		case 0:
			t.Features[0].Bags = []float64{1. / 3, 2, 5}[seed/3%3]
		case 1:
			t.Pooling = problem.PoolingNone
		}
	})
}

// tinyDedup returns a tiny problem in which a table is of sequences and another pooled, both with indices that are
// deduplicated.
func tinyDedup(seed uint64) *problem.Problem {
	return tinyOf(seed, func(t *problem.Table, i int) {
		if t.IndexDedup = i < 2; i == 0 {
			t.Pooling = problem.PoolingNone
		}
	})
}

// tinySorted returns a tiny problem whose rows are sorted by use, on devices that are nearly full.
func tinySorted(seed uint64) *problem.Problem {
	p := tinyOf(seed, func(t *problem.Table, i int) {
		t.Access = access.Distribution{Kind: access.Zipf, Exponent: 1.1, Sorted: true}
		if i == int(seed)%3 {
			t.Constraint.ShardingTypes = []problem.ShardingType{problem.RowWise}
		}
	})
	p.Topology.HostMemory = 0
	return filled(p, float64(12+seed%32)/4)
}

// tinyFull returns a problem of three tables that nearly fill the memory of four devices on two hosts.
func tinyFull(seed uint64) *problem.Problem {
	draw := rand.New(rand.NewPCG(seed, 8))
	p := tinyOf(4*seed+3, func(t *problem.Table, i int) { t.Dim = 4 * (1 + draw.IntN(3)) })
	p.Topology.HostMemory, p.Batch = 0, []int{1, 33, 256, 4096}[draw.IntN(4)]
	return filled(p, float64(103+seed%60)/100)
}

// filled gives all devices together room for some times the bytes of the whole tables.
func filled(p *problem.Problem, times float64) *problem.Problem {
	all, fixed := unit.Bytes(0), p.DeviceMemory(0)
	for i := range p.Tables {
		_, m := p.ShardMemory(p.Whole(i)).Peak()
		all += m.Used()
	}
	_, m := fixed.Peak()
	p.Topology.Memory = m.Used() + unit.Bytes(times*float64(all))/unit.Bytes(p.Topology.Devices)
	return p
}

// TestTablesLeaveTheDeviceOfSortedRows: a table whose rows are sorted by use fills the first device, and three other tables just
// find room beside its later blocks.
func TestTablesLeaveTheDeviceOfSortedRows(t *testing.T) {
	p := pool(1, 4, 4, 8)
	p.Accounting, p.Batch = problem.CountAll, 64
	for i := range p.Tables {
		t := &p.Tables[i]
		t.Rows, t.Dim, t.Features[0].PoolingFactor, t.Constraint.ShardingTypes = 2_000_000, 4, 1, []problem.ShardingType{problem.TableWise}
	}
	sorted := &p.Tables[0]
	sorted.Rows, sorted.Features[0].PoolingFactor = 4000, 10_000
	sorted.Access = access.Distribution{Kind: access.Zipf, Exponent: 1.1, Sorted: true}
	sorted.Constraint.ShardingTypes = []problem.ShardingType{problem.RowWise}
	block := func(d int64) problem.Shard {
		s := p.Whole(0)
		s.ShardingType, s.Rows = problem.RowWise, problem.Range{Start: 1000 * d, End: 1000 * (d + 1)}
		return s
	}
	needs := p.DeviceMemory(1).Add(p.ShardMemory(block(1))).Add(p.ShardMemory(p.Whole(1))).Add(p.SharedMemory(block(0)))
	for d := range int64(3) {
		needs = needs.Add(p.SharedMemory(block(d + 1))).Add(p.SharedMemory(p.Whole(int(d + 1))))
	}
	_, m := needs.Peak()
	p.Topology.Memory = m.Used()
	r := must.Get(search.Run(context.Background(), p, formsFactory(p, false), search.Options{ShardingTypes: problem.ShardingTypes(), Workers: 1}))(t)
	checkPlacement(t, p, formsFactory(p, false), problem.ShardingTypes(), r)
	if len(r.Shards[0]) != 1 {
		t.Errorf("the first device holds %v, want its block alone", r.Shards[0])
	}
}

// tinyOf returns a tiny problem whose tables change has changed. The memory is for the changed ones.
func tinyOf(seed uint64, change func(t *problem.Table, i int)) *problem.Problem {
	draw := rand.New(rand.NewPCG(seed, 5))
	devices := 2 << (seed % 2)
	p := pool(seed, 3, devices, 8)
	p.Accounting = problem.CountAll
	if seed%4 == 3 {
		p.Topology.DevicesPerHost = 2
	}
	for i := range p.Tables {
		t := &p.Tables[i]
		t.Dim = 4 * (1 + draw.IntN(2))
		t.Rows = int64(math.Exp(draw.Float64()*9)) + 8
		t.Features[0].PoolingFactor = math.Exp(draw.Float64() * 5)
		change(t, i)
	}
	if seed%5 == 0 { // HBM has room for half of the weights
		p.Topology.HostMemory, p.Batch = unit.GiB, 1
		buffers, weights := unit.Bytes(0), unit.Bytes(0)
		for i := range p.Tables {
			_, m := p.ShardMemory(p.Whole(i)).Peak()
			weights += m.Weights + m.Optimizer
			buffers += m.Used() - m.Weights - m.Optimizer
		}
		p.Topology.Memory = p.DeviceMemory(0)[problem.ForwardExchange].Used() + 2*buffers + weights/unit.Bytes(2*devices)
	}
	return p
}

// tieredTiny returns a tiny problem with host memory whose tables may lie in some tiers only.
func tieredTiny(seed uint64) *problem.Problem {
	p := tiny(seed)
	p.Topology.HostMemory = unit.GiB
	draw := rand.New(rand.NewPCG(seed, 19))
	for i, tiers := range [][]problem.Tier{{problem.Host}, {problem.HostCached}, {problem.HBM, problem.HostCached}} {
		at := (i + int(seed)) % len(p.Tables)
		c := &p.Tables[at].Constraint
		if c.Tiers = tiers; draw.IntN(2) == 0 && c.PermitsTier(problem.HostCached) {
			c.CacheShare = []float64{.3, .05}[draw.IntN(2)]
		}
	}
	return p
}

// optima are kinds of tiny problems that are compared with brute force, which tries all forms of three tables on every device. tasks is
// the number of problems of a kind, and many that of the long test.
func optima() []optimum {
	forms := func(sums bool) func(*problem.Problem) search.Factory {
		return func(p *problem.Problem) search.Factory { return formsFactory(p, sums) }
	}
	hiding := func(forward, backward float64) func(*problem.Problem) search.Factory {
		return func(p *problem.Problem) search.Factory { return hidingFactory(p, forward, backward) }
	}
	hierarchical := func(inside, between int64, hidden float64) func(*problem.Problem) search.Factory {
		return func(p *problem.Problem) search.Factory { return hierarchicalFactory(p, inside, between, hidden) }
	}
	onHosts := func(seed uint64) *problem.Problem {
		p := tinyOf(2*seed+1, func(t *problem.Table, i int) { t.Constraint.OneHost = i < 2 })
		p.Topology.DevicesPerHost = 2
		return p
	}
	return []optimum{
		{"additive", 2, 40, tiny, forms(true)},
		{"fused", 3, 40, tiny, forms(false)},
		{"slices on one host", 1, 10, onHosts, forms(false)},
		{"several bags or none", 1, 20, tinyVectors, forms(false)},
		{"deduplicated", 2, 12, tinyDedup, func(p *problem.Problem) search.Factory { return formsFactory(problem.Deduplicated(p), false) }},
		{"rows sorted by use", 3, 40, tinySorted, forms(false)},
		{"nearly full", 3, 30, tinyFull, forms(false)},
		{"devices of unlike memory", 2, 12, unevenTiny, forms(false)},
		{"some tiers only", 1, 6, tieredTiny, forms(true)},
		{"little is hidden", 1, 5, tiny, hiding(.001, .0005)},
		{"much of one direction is hidden", 1, 5, tiny, hiding(1e3, 0)},
		{"all is hidden", 1, 5, tiny, hiding(1e3, 1e3)},
		{"long exchanges between hosts", 1, 4, tiny, hierarchical(100, 1000, 0)},
		{"long exchanges inside hosts, a part is hidden", 1, 4, tiny, hierarchical(1000, 100, .01)},
	}
}

type optimum struct {
	name        string
	tasks, many int
	problemOf   func(seed uint64) *problem.Problem
	factoryOf   func(*problem.Problem) search.Factory
}

func TestOptimum(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it compares with all placements")
	}
	for _, o := range optima() {
		t.Run(o.name, func(t *testing.T) { compareProblems(t, o.name, o.tasks, o.problemOf, o.factoryOf) })
	}
}

func compareProblems(t *testing.T, name string, tasks int, problemOf func(seed uint64) *problem.Problem, factoryOf func(*problem.Problem) search.Factory) {
	hits, none, hosted, sum := 0, 0, 0, 0.
	for seed := range uint64(tasks) {
		p := problemOf(seed)
		newScorer := factoryOf(p)
		want := optimumInForms(p, newScorer())
		r, err := search.Run(context.Background(), p, newScorer, search.Options{ShardingTypes: problem.ShardingTypes(), Workers: 1})
		if math.IsInf(want, 1) != (err != nil) {
			t.Fatalf("want %v: %v", want, err)
		} else if err != nil {
			none, hits, sum = none+1, hits+1, sum+1
			continue
		}
		checkPlacement(t, p, newScorer, problem.ShardingTypes(), r)
		if r.Cost < want*(1-1e-12) {
			t.Errorf("task %d: got cost %v, below the optimum %v", seed, r.Cost, want)
		}
		if !r.Optimal && p.Topology.HostMemory == 0 {
			t.Errorf("task %d: the search does not say that it tried all placements", seed)
		}
		if slices.ContainsFunc(slices.Concat(r.Shards...), func(s problem.Shard) bool { return s.Tier.OnHost() }) {
			hosted++
		}
		sum += r.Cost / want
		if r.Cost <= want*(1+1e-9) {
			hits++
		} else {
			t.Logf("task %d: got %.4f of the optimum, %v", seed, r.Cost/want, r.Shards)
		}
	}
	t.Logf("%s: the optimum on %d of %d tasks, a mean ratio of %.4f; %d with host memory", name, hits, tasks, sum/float64(tasks), hosted)
	if none > tasks/3 {
		t.Errorf("%s: no plan fits on %d of %d tasks, want it on a third at most", name, none, tasks)
	}
	least := tasks * 95 / 100
	if tasks < 5 {
		least = tasks
	}
	if hits < least {
		t.Errorf("%s: got the optimum on %d of %d tasks, want it on %d at least", name, hits, tasks, least)
	}
}

// optimumInForms returns the cost of the cheapest placement, by trying all of them. Tables
// are at most 8 columns wide, so a table has at most two slices.
func optimumInForms(p *problem.Problem, s search.Scorer) float64 {
	best := math.Inf(1)
	n, perHost := p.Topology.Devices, p.Topology.PerHost()
	used, host := make([][problem.Phases]unit.Bytes, n), make([]unit.Bytes, n)
	var shared [problem.Phases]unit.Bytes // of every device
	budgets := make([][problem.Phases]unit.Bytes, n)
	for d := range budgets {
		budgets[d] = p.ShardBudget(d)
	}
	within := func(d int) bool {
		for f, bytes := range used[d] {
			if bytes+shared[f] > budgets[d][f] {
				return false
			}
		}
		return host[d] <= p.HostBudget(d)
	}
	// hold counts the bytes of a slice in a form with its first shard on device d, and
	// reports whether its devices have room for them.
	hold := func(i, width int, form problem.Form, d int, sign unit.Bytes) (fits bool) {
		shard := p.Whole(i)
		shard.Columns.End = int64(width)
		shard.ShardingType, shard.Tier, shard.Cache = form.ShardingType, form.Tier, form.Cache
		devices := 1
		switch form.ShardingType {
		case problem.RowWise, problem.DataParallel:
			devices = n
		case problem.TableRowWise:
			devices = perHost
		}
		t, first := &p.Tables[i], d
		fits = true
		for ; d < first+devices; d++ {
			if form.ShardingType.ByRows() {
				start := int64(d-first) * t.BlockRows(devices)
				shard.Rows = problem.Range{Start: start, End: min(t.Rows, start+t.BlockRows(devices))}
			}
			memory := p.ShardMemory(shard)
			for f, bytes := range memory.Used() {
				used[d][f] += sign * bytes
			}
			host[d] += sign * memory[problem.ForwardExchange].Host
			for f, bytes := range p.SharedMemory(shard).Used() {
				shared[f] += sign * bytes
			}
			fits = fits && within(d)
		}
		return fits
	}
	var table func(i int)
	// put places slices of table i, of the given widths and in one form, on devices from
	// "from" on, every step-th of them.
	var put func(i int, widths []int, form problem.Form, step, from int)
	put = func(i int, widths []int, form problem.Form, step, from int) {
		if len(widths) == 0 {
			table(i + 1)
			return
		}
		item := s.Item(i, widths[0], form)
		for d := from; d < n; d += step {
			if p.Tables[i].Constraint.OneHost && step == 1 && from > 0 && d/perHost != (from-1)/perHost {
				continue // the first slice is on device from-1
			}
			if hold(i, widths[0], form, d, 1) {
				s.Add(d, item)
				put(i, widths[1:], form, step, d+step)
				s.Remove(d, item)
			}
			hold(i, widths[0], form, d, -1)
		}
	}
	table = func(i int) {
		if i == len(p.Tables) {
			for d := range n {
				if !within(d) {
					return
				}
			}
			best = min(best, s.Cost())
			return
		}
		t := &p.Tables[i]
		cuts := cutsOf(t.Dim)
		forms := []problem.Form{{}}
		if p.Topology.HostMemory > 0 {
			forms = append(forms, problem.Form{Tier: problem.Host})
			shares := []float64{.02, .05, .1, .2, .4} // the shares that the search tries
			if own := t.Constraint.CacheShare; own > 0 {
				shares = []float64{own}
			}
			for _, share := range shares {
				forms = append(forms, problem.Form{Tier: problem.HostCached, Cache: share})
			}
		}
		forms = slices.DeleteFunc(forms, func(f problem.Form) bool { return !t.Constraint.PermitsCache(f.Tier, f.Cache) })
		inHBM := t.Constraint.PermitsTier(problem.HBM)
		for _, widths := range cuts {
			for _, form := range forms {
				if t.Permits(problem.ColumnWise) {
					put(i, widths, form, 1, 0)
				}
			}
			if inHBM && t.CutsByRows(perHost) && t.Permits(problem.TableRowWise) {
				put(i, widths, problem.Form{ShardingType: problem.TableRowWise}, perHost, 0)
			}
		}
		if inHBM && t.CutsByRows(n) && t.Permits(problem.RowWise) {
			put(i, cuts[0], problem.Form{ShardingType: problem.RowWise}, n, 0)
		}
		if inHBM && t.Permits(problem.DataParallel) {
			put(i, cuts[0], problem.Form{ShardingType: problem.DataParallel}, n, 0)
		}
	}
	table(0)
	return best
}

// cutsOf returns all ways to cut columns into slices in order, one slice first.
func cutsOf(columns int) (cuts [][]int) {
	for width := columns; width > 0; width -= problem.ColumnGranule {
		rest := [][]int{nil}
		if width < columns {
			rest = cutsOf(columns - width)
		}
		for _, more := range rest {
			cuts = append(cuts, append([]int{width}, more...))
		}
	}
	return cuts
}

// TestMoreShardingTypesAreNeverMoreExpensive plans small problems with slices of columns
// only and with all sharding types. The second plan must not cost more.
func TestMoreShardingTypesAreNeverMoreExpensive(t *testing.T) { neverMoreExpensive(t, 1) }

func neverMoreExpensive(t *testing.T, tasks int) {
	gain := 0.
	for seed := range uint64(tasks) {
		p := pool(seed, 6+int(seed%8)*2, 4, 64)
		p.Accounting = problem.CountAll
		p.Topology.DevicesPerHost, p.Topology.HostMemory = int(seed%2)*2, unit.TiB*unit.Bytes(seed%3)
		newScorer := formsFactory(p, false)
		plain := *p
		plain.Topology.HostMemory = 0
		off := must.Get(search.Run(context.Background(), &plain, newScorer, search.Options{Workers: 1}))(t)
		on := must.Get(search.Run(context.Background(), p, newScorer, search.Options{Workers: 1, ShardingTypes: problem.ShardingTypes()}))(t)
		checkPlacement(t, p, newScorer, problem.ShardingTypes(), on)
		if on.Cost > off.Cost {
			t.Errorf("seed %d: got cost %v with all sharding types, want at most %v, the cost with slices of columns only", seed, on.Cost, off.Cost)
		}
		gain += on.Cost / off.Cost / float64(tasks)
	}
	t.Logf("plans of all sharding types cost %.3f times plans of slices of columns", gain)
}

// byConstruction draws a problem that is known to have a placement. It places the tables
// at random, in forms of its own choice, and gives the devices a little more memory than
// the placement takes.
func byConstruction(seed uint64) *problem.Problem {
	draw := rand.New(rand.NewPCG(seed, 6))
	perHost := 2 + draw.IntN(3)
	p := pool(seed, 4+draw.IntN(12), perHost*(1+draw.IntN(3)), 32)
	p.Accounting, p.Batch = problem.CountAll, 64
	p.Topology.Profile, p.Topology.DevicesPerHost = a100(), perHost
	n := p.Topology.Devices
	used, host := make([]unit.Bytes, n), make([]unit.Bytes, n)
	for i := range p.Tables {
		t := &p.Tables[i]
		s := p.Whole(i)
		first, devices := draw.IntN(n), 1
		switch form := draw.IntN(6); {
		case form < 2 && t.CutsByRows(n):
			s.ShardingType, first, devices = problem.RowWise, 0, n
		case form == 2 && t.CutsByRows(perHost):
			s.ShardingType, first, devices = problem.TableRowWise, first/perHost*perHost, perHost
		case form == 3:
			s.Tier = problem.Host
		case form == 4:
			s.Tier, s.Cache = problem.HostCached, .1
		}
		if devices > 1 {
			s.Rows.End = t.BlockRows(devices)
		} else { // the emptiest of three devices
			for range 2 {
				if d := draw.IntN(n); used[d]+host[d] < used[first]+host[first] {
					first = d
				}
			}
		}
		_, memory := p.ShardMemory(s).Peak()
		for d := first; d < first+devices; d++ {
			used[d] += memory.Used()
			host[d] += memory.Host
		}
	}
	const spare = 1.05
	p.Topology.HostMemory = unit.Bytes(spare*float64(slices.Max(host)))*unit.Bytes(perHost) + unit.Bytes(perHost)
	_, fixed := p.DeviceMemory(0).Peak()
	p.Topology.Memory = fixed.Used() + unit.Bytes(spare*float64(slices.Max(used))) + 1
	return p
}

// TestMemoryTightInAllForms plans problems that are known to have a placement with blocks
// of rows and host memory, on devices with little room to spare. Nine in ten must get a
// plan.
func TestMemoryTightInAllForms(t *testing.T) { memoryTightInAllForms(t, 30) }

func memoryTightInAllForms(t *testing.T, tasks uint64) {
	solved := uint64(0)
	for seed := range tasks {
		p := byConstruction(seed)
		newScorer := formsFactory(p, true)
		r, err := search.Run(context.Background(), p, newScorer, search.Options{ShardingTypes: problem.ShardingTypes(), Workers: 1, Brief: true, MaxEvaluations: 4_000})
		if planned(t, err) {
			checkPlacement(t, p, newScorer, problem.ShardingTypes(), r)
			solved++
		}
	}
	if solved < tasks*9/10 {
		t.Errorf("got plans for %d of %d tasks, want plans for 90 %%", solved, tasks)
	}
}
