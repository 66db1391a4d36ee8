package cost

import (
	"math"

	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// Tables that are cut by rows, replicated, or in host memory run as operators of
// their own beside those of the slices in HBM, each kind with tables of its kind
// only. A block of rows is priced as the table that it is to its device
// (problem.OfBlocks), a replica as a table read by a smaller batch
// (problem.OfReplicas): the same nets price them. What they exchange is the closed
// form of a plain collective over the constants that were fitted to all-to-alls, with
// the correction that the net has for an all-to-all of as many bytes; and what goes
// over the host link, and the dense update of replicas, are the simulated device's
// (docs/SIMULATED.md). Neither has samples of its own.

// A lot is what fuses: the number of a lot stands above lotShift in an item's number.
const (
	lotColumns = iota // slices in HBM, whose numbers are those of Pool.Item
	lotBlocks         // blocks of rows on all devices
	lotHosts          // blocks of rows on the devices of a host
	lotReplicas
	lotHost   // slices in host memory
	lotCached // slices in host memory, with rows cached in HBM
	lots

	lotShift = 28
)

// spreadPools are what a pool needs for the other forms than columns.
type spreadPools struct {
	pool                    *Pool
	blocks, hosts, replicas *Pool
	items                   [lots][]spreadItem
	index                   map[spreadKey]int
	// device says what host links and dense updates take, which no net learned.
	device simulate.Device
}

type spreadKey struct {
	table, width int
	form         problem.Form
}

// spreadItem is a slice in another form.
type spreadItem struct {
	// item is its number in the lot's pool.
	item int
	// columns are its pooled columns.
	columns int
	// forward and backward are, in units of time, what it takes besides its operator:
	// the host link, or the dense update of a replica.
	forward, backward ticks
	// gradients is the number of a replica's weights.
	gradients int64
}

// ticks are units of time that add up in any order: 2^-30 ms.
type ticks int64

const tick = 1.0 / (1 << 30)

func ticksOf(t unit.Millis) ticks { return ticks(math.Round(min(float64(t)/tick, 1<<52))) }

func (t ticks) ms() float64 { return float64(t) * tick }

// SpreadScorer is a Scorer that also estimates slices in other forms. It serves one goroutine; those of one Pool share the pool's items.
type SpreadScorer struct {
	// Scorer holds the slices in HBM.
	*Scorer
	pools *spreadPools
	// lots price the operators of the other lots: blocks and replicas on one device,
	// those by host on a device for each host.
	lots [lots]*Scorer
	// link is what each device's slices in host memory take over the link, forward and
	// backward.
	link [2][]ticks
	// columns by lot, of blocks and of each host; weights of replicas and their update.
	blockColumns int
	hostColumns  []int
	weights      int64
	update       ticks
}

// NewSpreadScorer returns an empty placement that may have slices in all forms. With
// caution it prices as NewCautiousScorer does. Of all scorers of a pool, the first
// of this kind must be made while no other is in use.
func (p *Pool) NewSpreadScorer(caution float64) (*SpreadScorer, error) {
	return p.spreadScorer(caution, p.problem.Topology.HostMemory > 0)
}

// spreadScorer returns one that prices slices in host memory only where hosted is true.
func (p *Pool) spreadScorer(caution float64, hosted bool) (*SpreadScorer, error) {
	if err := p.spreadOut(); err != nil {
		return nil, err
	}
	s := &SpreadScorer{Scorer: p.NewCautiousScorer(caution), pools: p.spread, hostColumns: make([]int, p.cluster.hosts())}
	pools := [lots]*Pool{lotBlocks: p.spread.blocks, lotHosts: p.spread.hosts, lotReplicas: p.spread.replicas}
	if hosted {
		pools[lotHost], pools[lotCached] = p, p
		s.link[0], s.link[1] = make([]ticks, len(s.devices)), make([]ticks, len(s.devices))
	}
	for lot, pool := range pools {
		if pool != nil {
			s.lots[lot] = pool.NewCautiousScorer(caution)
		}
	}
	return s, nil
}

// spreadOut makes the pools of the other forms.
func (p *Pool) spreadOut() error {
	if p.spread != nil {
		return nil
	}
	s := &spreadPools{
		pool: p, index: map[spreadKey]int{},
		device: simulate.NewDevice(p.model.hardware),
	}
	derived := func(q *problem.Problem, devices int) (*Pool, error) {
		q.Topology.Devices, q.Topology.DevicesPerHost = devices, 0
		return NewPool(p.model, q)
	}
	var err error
	if s.blocks, err = derived(p.problem.OfBlocks(p.cluster.Devices), 1); err != nil {
		return err
	}
	if s.hosts, err = derived(p.problem.OfBlocks(p.cluster.PerHost), p.cluster.hosts()); err != nil {
		return err
	}
	if s.replicas, err = derived(p.problem.OfReplicas(), 1); err != nil {
		return err
	}
	p.spread = s
	return nil
}

// lotOf returns the lot of a form.
func lotOf(f problem.Form) int {
	switch {
	case f.Kind == problem.RowWise:
		return lotBlocks
	case f.Kind == problem.TableRowWise:
		return lotHosts
	case f.Kind == problem.DataParallel:
		return lotReplicas
	case f.Tier == problem.Host:
		return lotHost
	case f.Tier == problem.HostCached:
		return lotCached
	}
	return lotColumns
}

// Item registers a slice of the table in a form: see search.Scorer. It must not
// be called while a Scorer of the pool is in use elsewhere. Host memory needs a topology
// that has some.
func (s *SpreadScorer) Item(table, width int, form problem.Form) int {
	lot := lotOf(form)
	if lot == lotColumns {
		return s.pool.Item(table, width)
	}
	return s.pools.item(lot, spreadKey{table, width, form}, s.lots[lot].pool)
}

func (p *spreadPools) item(lot int, key spreadKey, pool *Pool) int {
	if i, ok := p.index[key]; ok {
		return i
	}
	t := &p.pool.problem.Tables[key.table]
	it := spreadItem{item: pool.Item(key.table, key.width), columns: key.width * len(t.Features)}
	switch lot {
	case lotReplicas:
		it.gradients = t.Rows * int64(key.width)
		it.backward = ticksOf(p.device.DenseUpdate(t, key.width))
	case lotHost, lotCached:
		forward, backward := p.device.HostLink(t, t.Counts(p.pool.problem.Batch), key.width, key.form)
		it.forward, it.backward = ticksOf(forward), ticksOf(backward)
	}
	number := lot<<lotShift | len(p.items[lot])
	p.items[lot] = append(p.items[lot], it)
	p.index[key] = number
	return number
}

// Reset empties all devices.
func (s *SpreadScorer) Reset() {
	s.Scorer.Reset()
	for _, lot := range s.lots {
		if lot != nil {
			lot.Reset()
		}
	}
	clear(s.link[0])
	clear(s.link[1])
	clear(s.hostColumns)
	s.blockColumns, s.weights, s.update = 0, 0, 0
}

// Add puts an item on a device, or on all that hold it.
func (s *SpreadScorer) Add(device, item int) {
	if item < 1<<lotShift {
		s.Scorer.Add(device, item)
		return
	}
	s.change(device, item, (*Scorer).Add, 1)
}

// Remove takes an item off a device, or off all that hold it.
func (s *SpreadScorer) Remove(device, item int) {
	if item < 1<<lotShift {
		s.Scorer.Remove(device, item)
		return
	}
	s.change(device, item, (*Scorer).Remove, -1)
}

func (s *SpreadScorer) change(device, item int, do func(s *Scorer, device, item int), sign int) {
	lot := item >> lotShift
	it := &s.pools.items[lot][item&(1<<lotShift-1)]
	switch lot {
	case lotBlocks:
		s.blockColumns += sign * it.columns
		device = 0
	case lotHosts:
		device /= s.pool.cluster.PerHost
		s.hostColumns[device] += sign * it.columns
	case lotReplicas:
		s.weights += int64(sign) * it.gradients
		s.update += ticks(sign) * it.backward
		device = 0
	default:
		s.link[0][device] += ticks(sign) * it.forward
		s.link[1][device] += ticks(sign) * it.backward
	}
	do(s.lots[lot], device, it.item)
}

// Compute returns the predicted time of a device's operators and host link, without
// those that all devices run alike (Shared).
func (s *SpreadScorer) Compute(device int) float64 {
	return s.Scorer.Compute(device) + s.beside(device)
}

// beside returns the time of the device's other operators than those of slices in HBM.
func (s *SpreadScorer) beside(device int) float64 {
	t := s.lots[lotHosts].Compute(device / s.pool.cluster.PerHost)
	if s.lots[lotHost] != nil {
		t += s.lots[lotHost].Compute(device) + s.lots[lotCached].Compute(device) + (s.link[0][device] + s.link[1][device]).ms()
	}
	return t
}

// ComputeWith returns, for each of the devices, what Compute would return with the
// item added there. It changes nothing.
func (s *SpreadScorer) ComputeWith(item int, devices []int32, out []float64) {
	if item < 1<<lotShift {
		s.Scorer.ComputeWith(item, devices, out)
		for i, d := range devices {
			out[i] += s.beside(int(d))
		}
		return
	}
	for i, d := range devices {
		s.Add(int(d), item)
		out[i] = s.Compute(int(d))
		s.Remove(int(d), item)
	}
}

// load returns what the slices on single devices make of the all-to-alls.
func (s *SpreadScorer) load() CommLoad {
	load := CommLoad{Min: math.MaxInt}
	for d := range s.devices {
		sum := s.columnsOf(d)
		load.Max, load.Min, load.Sum = max(load.Max, sum), min(load.Min, sum), load.Sum+sum
	}
	return load
}

// columnsOf returns the pooled columns of the slices that are the device's alone.
func (s *SpreadScorer) columnsOf(device int) int {
	sum := s.devices[device].dimSum
	if s.lots[lotHost] != nil {
		sum += s.lots[lotHost].devices[device].dimSum + s.lots[lotCached].devices[device].dimSum
	}
	return sum
}

// alike reports whether there is anything that Shared counts, or hosts hold.
func (s *SpreadScorer) alike() bool {
	if s.blockColumns > 0 || s.weights > 0 || s.lots[lotBlocks].devices[0].shards > 0 || s.lots[lotReplicas].devices[0].shards > 0 {
		return true
	}
	for _, columns := range s.hostColumns {
		if columns > 0 {
			return true
		}
	}
	return false
}

// Shared returns the time that every device spends alike: see search.Scorer.
func (s *SpreadScorer) Shared() float64 {
	forward, backward := s.exchanges()
	return s.lots[lotBlocks].Compute(0) + s.lots[lotReplicas].Compute(0) + s.update.ms() + forward + backward
}

// exchanges returns the times of all exchanges but the all-to-alls.
func (s *SpreadScorer) exchanges() (forward, backward float64) {
	c, k := s.pool.cluster, s.pool.model.comm.constants
	if c.Devices == 1 {
		return 0, 0
	}
	n, batch, copies := float64(c.Devices), float64(c.Batch), k.CopyGBps*bytesPerMS
	if s.blockColumns > 0 {
		columns := float64(s.blockColumns)
		passed := (n - 1) / n * batch * columns * c.element()
		both := s.ring(passed) + c.packing()*batch*columns/copies
		forward, backward = forward+both, backward+both
	}
	most, all, least := 0, 0, math.MaxInt
	for _, columns := range s.hostColumns {
		most, all, least = max(most, columns), all+columns, min(least, columns)
	}
	if most > 0 {
		both := s.inHosts(float64(most)) + s.betweenHosts(float64(most), float64(all), float64(least))
		forward, backward = forward+both, backward+both
	}
	if s.weights > 0 {
		backward += s.allReduce(float64(s.weights) * c.element())
	}
	return forward, backward
}

// ring returns the time of a collective in which each device passes so many bytes on to
// the next, host by host, in as many rings as a host has devices.
func (s *SpreadScorer) ring(passed float64) float64 {
	c, k := s.pool.cluster, s.pool.model.comm.constants
	inside := passed / (k.IntraGBps * bytesPerMS)
	if c.hosts() == 1 {
		return k.AlphaMS + inside
	}
	between := passed / float64(c.PerHost)
	return max(network(k, c)+inside, s.corrected(network(k, c)+between/(k.NICGBps*bytesPerMS), between))
}

// inHosts returns the time of a reduce-scatter of the partial sums of so many columns
// inside a host, or of its gradients' all-gather.
func (s *SpreadScorer) inHosts(columns float64) float64 {
	c, k := s.pool.cluster, s.pool.model.comm.constants
	local := float64(c.PerHost)
	if local == 1 {
		return 0
	}
	return k.AlphaMS + (local-1)/local*float64(c.Batch)*columns*c.element()/(k.IntraGBps*bytesPerMS) +
		c.packing()*float64(c.Batch)*columns/(k.CopyGBps*bytesPerMS)
}

// betweenHosts returns the time of the all-to-all of what a host's devices have summed.
func (s *SpreadScorer) betweenHosts(most, all, least float64) float64 {
	c, k := s.pool.cluster, s.pool.model.comm.constants
	hosts, local := float64(c.hosts()), float64(c.PerHost)
	if hosts == 1 {
		return 0
	}
	part := float64(c.Batch) / local * c.element()
	moved := max((hosts-1)/hosts*part*most, part/hosts*(all-least))
	return s.corrected(network(k, c)+moved/(k.NICGBps*bytesPerMS), moved)
}

// corrected returns the time of a collective between hosts, in ms, times what the net
// corrects that of an all-to-all by in which every device sends as many bytes. Inside a
// host the closed form is as good for one collective as for another.
func (s *SpreadScorer) corrected(time, bytes float64) float64 {
	c, m := s.pool.cluster, &s.pool.model.comm
	if c.hosts() == 1 {
		return time
	}
	n := float64(c.Devices)
	columns := int(max(1, min(1<<24, bytes/((n-1)/n*float64(c.Batch)*c.element()))))
	load := CommLoad{Max: columns, Min: columns, Sum: columns * c.Devices}
	unpack := c.packing() * float64(c.Batch) / n * float64(load.Sum) / (m.constants.CopyGBps * bytesPerMS)
	return time * (s.comm.times(m, c, load).backward - unpack) / Collective(m.constants, c, load)
}

// allReduce returns the time of an all-reduce of so many bytes: inside hosts, and of
// each device's part between them.
func (s *SpreadScorer) allReduce(bytes float64) float64 {
	c, k := s.pool.cluster, s.pool.model.comm.constants
	hosts, local := float64(c.hosts()), float64(c.PerHost)
	t := 0.0
	if local > 1 {
		t += k.AlphaMS + 2*(local-1)/local*bytes/(k.IntraGBps*bytesPerMS)
	}
	if hosts > 1 {
		moved := 2 * (hosts - 1) / hosts * bytes / local
		t += s.corrected(network(k, c)+moved/(k.NICGBps*bytesPerMS), moved)
	}
	return t
}

// network returns the fixed time of a collective between hosts.
func network(k CommConstants, c Cluster) float64 {
	return k.BaseMS + k.HopMS*math.Log2(float64(c.Devices))
}

// Cost returns the predicted cost of the placement, in ms.
func (s *SpreadScorer) Cost() float64 {
	longest, all := 0.0, 0.0
	for d := range s.devices {
		compute := s.Compute(d)
		longest, all = max(longest, compute), all+compute
	}
	load := s.load()
	cost := longest
	if load.Sum > 0 || !s.alike() { // summed in Scorer.Cost's order
		comm := &s.pool.model.comm
		times := s.comm.times(comm, s.pool.cluster, load)
		n := len(s.devices)
		forward := Overlapped(comm.constants, n, times.forward, lead(all, longest, n))
		cost = longest + times.backward + forward + comm.pack(s.pool.cluster, load.Max)
	}
	return finite(cost + s.Shared())
}

// Breakdown returns the price of the current placement, device by device.
func (s *SpreadScorer) Breakdown() plan.Breakdown {
	devices := make([]plan.StepTimes, len(s.devices))
	add := func(d *plan.StepTimes, lot *Scorer, device int) {
		for op := range lot.operations {
			forward, backward := lot.parts(op, &lot.groups[device*lot.operations+op])
			d.Forward += unit.Millis(forward)
			d.Backward += unit.Millis(backward)
		}
	}
	var shared plan.StepTimes
	add(&shared, s.lots[lotBlocks], 0)
	add(&shared, s.lots[lotReplicas], 0)
	shared.Backward += unit.Millis(s.update.ms())
	exchangeForward, exchangeBackward := s.exchanges()
	load := s.load()
	comm := &s.pool.model.comm
	toAll := load.Sum > 0 || !s.alike()
	var times commTimes
	if toAll {
		times = s.comm.times(comm, s.pool.cluster, load)
	}
	latest, all := unit.Millis(0), unit.Millis(0)
	for i := range devices {
		d := &devices[i]
		*d = shared
		add(d, s.Scorer, i)
		add(d, s.lots[lotHosts], i/s.pool.cluster.PerHost)
		if s.lots[lotHost] != nil {
			add(d, s.lots[lotHost], i)
			add(d, s.lots[lotCached], i)
			d.Forward += unit.Millis(s.link[0][i].ms())
			d.Backward += unit.Millis(s.link[1][i].ms())
		}
		d.BackwardComm = unit.Millis(times.backward + exchangeBackward)
		ready := d.Forward + d.Backward + d.BackwardComm
		latest, all = max(latest, ready), all+ready
	}
	forward := Overlapped(comm.constants, len(devices), times.forward, lead(float64(all), float64(latest), len(devices)))
	for i := range devices {
		d := &devices[i]
		wait := latest - (d.Forward + d.Backward + d.BackwardComm)
		own := forward + exchangeForward
		if toAll {
			own += comm.pack(s.pool.cluster, s.columnsOf(i))
		}
		d.ForwardComm = wait + unit.Millis(own)
	}
	return plan.NewBreakdown(devices)
}

// spreadsOver reports whether a placement has slices in other forms than the zero one.
func (p *Pool) spreadsOver(shards [][]problem.Shard) bool {
	for _, held := range shards {
		for _, shard := range held {
			if p.problem.Form(shard) != (problem.Form{}) {
				return true
			}
		}
	}
	return false
}

// priceSpread is Price of placements in any form.
func (p *Pool) priceSpread(shards [][]problem.Shard) plan.Breakdown {
	s, err := p.spreadScorer(0, true)
	if err != nil {
		panic("cost: " + err.Error()) // the pool's own problem was taken
	}
	type slice struct {
		table int
		first int64
	}
	seen := map[slice]bool{}
	for d, held := range shards {
		for _, shard := range held {
			form := p.problem.Form(shard)
			if form.Kind != "" {
				key := slice{shard.Table, shard.Columns.Start}
				if seen[key] {
					continue
				}
				seen[key] = true
			}
			s.Add(d, s.Item(shard.Table, shard.Dim(), form))
		}
	}
	return s.Breakdown()
}
