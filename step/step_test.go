package step

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/simulate"
	"github.com/neuroshard/neuroshard/unit"
)

// held is a part of a table on a device: one of equal blocks of its rows, in the order of
// the list, or all of it. Device -1 is a replica on each.
type held struct{ table, device, blocks int }

// dealt places the tables whole on one device after the other, and table 20 in blocks.
func dealt(p *problem.Problem) (parts []held) {
	n := p.Topology.Devices
	for i := range p.Tables {
		if i != 20 {
			parts = append(parts, held{i, i % n, 1})
			continue
		}
		for d := range n {
			parts = append(parts, held{i, d, n})
		}
	}
	return parts
}

func placed(p *problem.Problem, parts []held) [][]problem.Shard {
	shards := make([][]problem.Shard, p.Topology.Devices)
	next := make([]int64, len(p.Tables))
	for _, h := range parts {
		s, rows := p.Whole(h.table), p.Tables[h.table].Rows
		if h.device < 0 {
			s.ShardingType = problem.DataParallel
			for d := range shards {
				shards[d] = append(shards[d], s)
			}
			continue
		}
		if h.blocks > 1 {
			s.ShardingType = problem.RowWise
			if h.blocks != len(shards) {
				s.Blocks = h.blocks
			}
			s.Rows = problem.Range{Start: next[h.table], End: min(next[h.table]+p.Tables[h.table].BlockRows(h.blocks), rows)}
			next[h.table] = s.Rows.End
		}
		shards[h.device] = append(shards[h.device], s)
	}
	return shards
}

func mlperf(t testing.TB, stack, profile string, devices, perHost, batch int) Input {
	t.Helper()
	p := dlrm(t, profile, devices, perHost, batch)
	d := must.Get(DenseByName("mlperf-dlrm-dcnv2"))(t)
	s := must.Get(StackByName(stack))(t)
	return Input{Problem: p, Shards: placed(p, dealt(p)), Dense: &d, Stack: s}
}

func priced(t testing.TB, in Input) Times {
	t.Helper()
	return must.Get(Price(in))(t)
}

func near(t *testing.T, what string, got, want, off float64) {
	t.Helper()
	if math.Abs(got-want) > off*math.Abs(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// The parts that Price states add up to the step, under each stack.
func TestTermsAddUp(t *testing.T) {
	for _, name := range StackNames() {
		for _, devices := range []int{1, 8, 16} {
			in := mlperf(t, name, "h100-80", devices, 8, 55296)
			got := priced(t, in)
			near(t, name, max(float64(got.Embedding+got.Dense+got.AllReduce), float64(got.Terms.Launches)), float64(got.Step), 1e-12)
			near(t, name+": throughput", got.SamplesPerSecond, 55296/float64(got.Step)*1e3, 1e-12)
			if got.Terms.HiddenForward > got.Terms.ExchangeForward || got.Hidden < 0 {
				t.Errorf("%s: got %v hidden of an exchange of %v, want at most that", name, got.Terms.HiddenForward, got.Terms.ExchangeForward)
			}
			if devices == 1 && (got.Terms.ExchangeForward != 0 || got.AllReduce != 0) {
				t.Errorf("%s: got exchanges on one device, want none", name)
			}
		}
	}
}

// The dense terms of 8 H100 and a batch of 55,296, by hand: 6,912 samples a device.
func TestDenseTerms(t *testing.T) {
	in := mlperf(t, "hugectr", "h100-80", 8, 8, 55296)
	c := &in.Stack.Constants
	c.GEMM, c.Stream, c.Passes, c.Fixed, c.Inside, c.Exposed = 0.65, 0.8, 6, 0.4, 1, 0.5
	got := priced(t, in).Terms
	// 96.2 MFLOP less the first layer's gradient of the input, and memory-bound last layers.
	near(t, "products", float64(got.GEMM), 96.2e6*6912/(989.5e9*.803*.65), 0.03)
	all, _ := in.Dense.Activations()
	near(t, "activations", float64(got.Activations), 6*all*6912/(3350e6*.8), 1e-9)
	near(t, "optimizer", float64(got.Optimizer), 16_044_545*20/(3350e6*.85), 1e-9)
	near(t, "all-reduce", float64(got.AllReduce), .5*2*7/8*2*16_044_545/340e6, 1e-9)
	near(t, "fixed", float64(got.Fixed), .4, 0)
}

// What a stack or a dense part changes of the all-reduce, by hand, on two hosts: SHARP sends half
// between hosts, FSDP half again the bytes of DDP.
func TestAllReduces(t *testing.T) {
	in := mlperf(t, "hugectr", "h100-80", 16, 8, 55296)
	c := &in.Stack.Constants
	c.Inside, c.Between, c.Exposed, c.Latency = 1, 1, 1, .06
	bytes := 2. * 16_044_545
	inside, between := 2*bytes*7/8/340e6, 2*bytes/8/2/(.8*48.5e6)
	near(t, "DDP", float64(priced(t, in).AllReduce), inside+between+.06, 1e-9)
	in.Stack.SHARP = true
	near(t, "SHARP", float64(priced(t, in).AllReduce), inside+between/2+.06, 1e-9)
	in.Dense.Parallel = FSDP
	near(t, "FSDP", float64(priced(t, in).AllReduce), 1.5*(inside+between/2)+.06, 1e-9)
	near(t, "FSDP: optimizer", float64(priced(t, in).Terms.Optimizer), 16_044_545/16.*20/(3350e6*.85), 1e-9)
}

// A replica's gradients are in the all-reduce and in the dense update of each device, FSDP or
// not, and its lookups run beside the exchanges.
func TestReplicasInAStep(t *testing.T) {
	for _, parallel := range []Parallel{DDP, FSDP} {
		in := mlperf(t, "hugectr", "h100-80", 8, 8, 55296)
		in.Dense.Parallel = parallel
		before := priced(t, in)
		parts := slices.DeleteFunc(dealt(in.Problem), func(h held) bool { return h.table == 5 })
		in.Shards = placed(in.Problem, append(parts, held{5, -1, 1}))
		e := must.Get(EmbeddingsOf(in.Problem, in.Shards, in.Stack))(t)
		weights := float64(in.Problem.Tables[5].Rows) * 128
		got := priced(t, in)
		near(t, string(parallel)+": all-reduce", float64(got.AllReduce/before.AllReduce), (16_044_545+weights)/16_044_545, 1e-9)
		near(t, string(parallel)+": optimizer", float64(got.Terms.Optimizer-before.Terms.Optimizer), weights*20/(3350e6*.85), 1e-6)
		near(t, string(parallel)+": forward", float64(got.Terms.BesideForward-before.Terms.BesideForward), float64(e.ReplicaForward), 1e-6)
		near(t, string(parallel)+": backward", float64(got.Terms.BesideBackward-before.Terms.BesideBackward), float64(e.ReplicaBackward), 1e-6)
		if !(e.ReplicaForward > 0 && e.ReplicaBackward > 0) {
			t.Errorf("got replicas of %v and %v, want lookups", e.ReplicaForward, e.ReplicaBackward)
		}
	}
}

// Embeddings that are a step old run beside a third of the dense part forward and the rest
// backward, and replicas hide nothing more.
func TestStaleEmbeddings(t *testing.T) {
	in := mlperf(t, "torchrec-semisync", "h100-80", 8, 8, 55296)
	in.Stack.Overlaps.Forward = true
	got := priced(t, in).Terms
	near(t, "forward", float64(got.BesideForward), float64(got.GEMM+got.Activations)/3, 1e-12)
	near(t, "backward", float64(got.BesideBackward), float64(got.GEMM+got.Activations)*2/3, 1e-12)
	if hidden, err := in.Hidden(); err != nil || hidden.Replicas {
		t.Errorf("got %+v and %v hidden, want replicas to hide nothing", hidden, err)
	}
}

// The first layer needs no gradient of its input if that is the features, and needs one if it
// is embeddings.
func TestFirstGradient(t *testing.T) {
	in := mlperf(t, "hugectr", "h100-80", 8, 8, 55296)
	c := &in.Stack.Constants
	c.GEMM, c.Stream = .65, 1
	for _, d := range []Dense{
		{Bottom: []int{8192}, Interaction: Cat, Top: []int{8192}, Precision: FP16},
		{Bottom: []int{8192, 8192}, Interaction: Cat, Top: []int{8192}, Precision: FP16},
	} {
		in.Dense = &d
		flops := 0.
		for _, l := range d.Of(in.Problem).Layers() {
			passes := 3.
			if l.Bottom {
				passes = 2
			}
			flops += passes * 2 * float64(l.In) * float64(l.Out)
		}
		near(t, "products", float64(priced(t, in).Terms.GEMM), flops*6912/(989.5e9*.803*.65), 1e-9)
	}
}

// Uniform and hierarchical exchanges by hand, on two hosts of two devices.
func TestExchanges(t *testing.T) {
	p := dlrm(t, "h100-80", 4, 2, 4000)
	p.Tables = p.Tables[:3]
	shards := placed(p, []held{{0, 0, 2}, {0, 1, 2}, {1, 0, 1}, {2, 2, 1}})
	uniform, err := StackByName("hugectr")
	if err != nil {
		t.Fatal(err)
	}
	uniform.Constants.Between, uniform.Constants.Latency = 1, .06
	e := must.Get(EmbeddingsOf(p, shards, uniform))(t)
	// Device 0 sends two vectors of 256 bytes for 3/4 of 4,000 samples; 2/3 of it leaves the host.
	bytes := 3. / 4 * 4000 * 2 * 256
	near(t, "uniform", float64(e.ExchangeForward), bytes/3/340e6+bytes*2/3/(.8*48.5e6)+.06, 1e-9)
	// With all on device 0, it sends three vectors for 3/4 of the samples, more than any device
	// receives. With a table on each of three devices, device 3 receives three for 1/4 of them.
	for _, c := range []struct {
		held []held
		sent float64 // vectors for each sample
	}{
		{[]held{{0, 0, 1}, {1, 0, 1}, {2, 0, 1}}, 3 * 3. / 4},
		{[]held{{0, 0, 1}, {1, 1, 1}, {2, 2, 1}}, 3. / 4},
	} {
		if e, err = EmbeddingsOf(p, placed(p, c.held), uniform); err != nil {
			t.Fatal(err)
		}
		bytes = c.sent * 4000 * 256
		near(t, "uniform", float64(e.ExchangeForward), bytes/3/340e6+bytes*2/3/(.8*48.5e6)+.06, 1e-9)
	}
	hierarchical := must.Get(StackByName("hugectr-hierarchical"))(t)
	hierarchical.Constants.Between, hierarchical.Constants.Latency = 1, .06
	if e, err = EmbeddingsOf(p, shards, hierarchical); err != nil {
		t.Fatal(err)
	}
	// Two tables on host 0, although table 0 has two blocks there.
	near(t, "hierarchical", float64(e.ExchangeForward), 4000./2*2*256/340e6+4000./2/2*2*256/(.8*48.5e6)+.06, 1e-9)
}

// A pooled table whose indices are deduplicated has a uniform exchange of its own, of a vector for each distinct index
// of a device's samples, and each device pools the vectors.
func TestUniqueExchange(t *testing.T) {
	p := dlrm(t, "h100-80", 4, 2, 4000)
	p.Tables = p.Tables[:2]
	unique := &p.Tables[1]
	unique.Rows, unique.Access = 500, access.Distribution{Kind: access.Uniform}
	unique.Features = []problem.Feature{{PoolingFactor: 100}} // each of 1,000 samples: they read all rows
	shards := placed(p, []held{{0, 0, 1}, {1, 2, 1}})
	for _, name := range []string{"hugectr", "hugectr-hierarchical"} {
		stack := must.Get(StackByName(name))(t)
		stack.Constants.Between, stack.Constants.Latency = 1, .06
		of := func(tables []problem.Table, shards [][]problem.Shard) Embeddings {
			q := *p
			q.Tables = tables
			return must.Get(EmbeddingsOf(&q, shards, stack))(t)
		}
		alone := of(p.Tables[:1], placed(p, []held{{0, 0, 1}}))
		unique.IndexDedup = true
		both := of(p.Tables, shards)
		bytes := 3. / 4 * 4000 * .5 * 256
		near(t, name, float64(both.ExchangeForward-alone.ExchangeForward), bytes/3/340e6+bytes*2/3/(.8*48.5e6)+.06, 1e-6)
		pooled := 1000. * (100 + 1) * 128 * 4 / (3350e6 * .9)
		unique.Rows = 250
		if less := of(p.Tables, shards); both.Forward < unit.Millis(pooled) || less.Forward < unit.Millis(pooled) || less.ExchangeForward >= both.ExchangeForward {
			t.Errorf("%s: got %v and an exchange of %v, and %v and %v of half of the rows, want less, and %v or more for pooling", name, both.Forward, both.ExchangeForward, less.Forward, less.ExchangeForward, pooled)
		}
		unique.Rows = 500
	}
}

// The simulated device and a whole step count the same hierarchical exchange, whatever the
// forms of the tables: inside the host of the device with the most vectors, and then from the
// host with the most tables.
func TestHierarchyIsTheSimulatedOne(t *testing.T) {
	stack, err := StackByName("hugectr-hierarchical")
	if err != nil {
		t.Fatal(err)
	}
	stack.Constants.Sent, stack.Constants.Inside, stack.Constants.Between = .5, .9, .7
	p := dlrm(t, "h100-80", 6, 2, 4000)
	p.Tables, p.CommPrecision, p.Hierarchy = p.Tables[:6], problem.FP16, stack.Hierarchy()
	whole := func(i int, shardingType problem.ShardingType) problem.Shard {
		s := p.Whole(i)
		s.ShardingType = shardingType
		return s
	}
	// Table 0 is on all devices, table 1 on host 1 and table 2 in two blocks on host 2. Device
	// 0 has three columns of slices, and table 5 has a replica everywhere.
	shards := make([][]problem.Shard, 6)
	block := func(device, i, n, k int, shardingType problem.ShardingType, blocks int) {
		s, rows := whole(i, shardingType), p.Tables[i].BlockRows(n)
		s.Rows, s.Blocks = problem.Range{Start: rows * int64(k), End: min(rows*int64(k+1), p.Tables[i].Rows)}, blocks
		shards[device] = append(shards[device], s)
	}
	for d := range shards {
		block(d, 0, 6, d, problem.RowWise, 0)
		shards[d] = append(shards[d], whole(5, problem.DataParallel))
	}
	block(2, 1, 2, 0, problem.TableRowWise, 0)
	block(3, 1, 2, 1, problem.TableRowWise, 0)
	block(4, 2, 2, 0, problem.RowWise, 2)
	block(5, 2, 2, 1, problem.RowWise, 2)
	left, right := whole(3, problem.ColumnWise), whole(3, problem.ColumnWise)
	left.Columns.End, right.Columns.Start = 32, 32
	shards[0] = append(shards[0], left, right, whole(4, problem.TableWise))
	e := must.Get(EmbeddingsOf(p, shards, stack))(t)
	// Device 0 and its host have tables 0, 3 and 4: three vectors of 256 bytes.
	network := p.Topology.Device().NICGBps * .95 * 1e6
	want := .5*4000./2*3*256/(.9*340e6) + .5*4000./2*2/3*3*256/(.7*network) + .06
	near(t, "step", float64(e.ExchangeForward), want, 1e-9)
	b := must.Get(simulate.NewPricer(p).Price(shards))(t)
	least := b.Devices[0].ForwardComm // contains the wait for the slowest device
	for _, d := range b.Devices {
		least = min(least, d.ForwardComm)
	}
	near(t, "simulated", float64(least), want, 1e-9)
	p.Tables = p.Tables[:5]
	for d := range shards { // without replicas, the gradients take the same exchange
		for i := range shards[d] {
			if shards[d][i].ShardingType == problem.DataParallel {
				shards[d] = append(shards[d][:i], shards[d][i+1:]...)
				break
			}
		}
	}
	if b, err = simulate.NewPricer(p).Price(shards); err != nil {
		t.Fatal(err)
	}
	near(t, "simulated, backward", float64(b.Devices[3].BackwardComm), want, 1e-9)
	// Devices that send no vectors have no exchange.
	for d := range shards {
		shards[d] = []problem.Shard{whole(0, problem.DataParallel)}
	}
	if e, err = EmbeddingsOf(p, shards, stack); err != nil || e.ExchangeForward != 0 {
		t.Errorf("only replicas: got an exchange of %v, %v, want none", e.ExchangeForward, err)
	}
}

// A measured step gives itself back for its own plan, and moves other plans by the
// difference of their embeddings.
func TestMeasuredStep(t *testing.T) {
	in := mlperf(t, "hugectr", "h100-80", 8, 8, 55296)
	before := priced(t, in)
	in.Measured.Step = 4.2
	for _, dense := range []*Dense{in.Dense, nil} {
		in.Dense = dense
		got := priced(t, in)
		near(t, "its own plan", float64(got.Step), 4.2, 1e-12)
		if !got.Calibrated || !got.Measured || got.Scaled || got.ErrorPercent != 0 {
			t.Errorf("its own plan: got calibrated %v, measured %v, scaled %v and an error bar of %v %%, want the measured step without a bar", got.Calibrated, got.Measured, got.Scaled, got.ErrorPercent)
		}
		other := in
		other.Measured.Shards = in.Shards
		other.Shards = placed(in.Problem, moved(in.Problem))
		worse := priced(t, other)
		if worse.Measured || !(worse.ErrorPercent > 0) {
			t.Errorf("another plan: got measured %v and an error bar of %v %%, want a prediction with a bar", worse.Measured, worse.ErrorPercent)
		}
		near(t, "another plan", float64(worse.Step-got.Step), float64(worse.Embedding-got.Embedding), 1e-9)
		if worse.Embedding <= before.Embedding {
			t.Errorf("got embeddings of %v with all tables on a device, want more than %v", worse.Embedding, before.Embedding)
		}
	}
}

// moved returns the dealt tables with all whole ones on device 0.
func moved(p *problem.Problem) []held {
	parts := dealt(p)
	for i := range parts {
		if parts[i].blocks <= 1 {
			parts[i].device = 0
		}
	}
	return parts
}

// A step that is shorter than its predicted embeddings scales them, and says so. A slow
// loader makes a step that was not measured.
func TestMeasuredIsShort(t *testing.T) {
	in := mlperf(t, "hugectr", "h100-80", 8, 8, 55296)
	in.Dense = nil
	in.Measured.Step = 1e6
	long := priced(t, in)
	in.Measured.Step = (long.Embedding + long.Terms.LookupForward + long.Terms.LookupBackward) / 2
	if got := priced(t, in); !got.Scaled || !got.Measured || got.Embedding >= long.Embedding {
		t.Errorf("a step of %v: got scaled %v, measured %v and embeddings of %v, want those of %v to shrink", in.Measured.Step, got.Scaled, got.Measured, got.Embedding, long.Embedding)
	}
	in.Measured.Step, in.Loader = 4, 1e9
	if got := priced(t, in); got.Measured || got.Calibrated || !got.Unloaded || got.Bound != BoundLoader || got.ErrorPercent != in.Stack.Error.OneHost {
		t.Errorf("a slow loader: got measured %v, calibrated %v, unloaded %v, bound by %v, ± %v %%, want a prediction bound by the loader, with the bar of predictions", got.Measured, got.Calibrated, got.Unloaded, got.Bound, got.ErrorPercent)
	}
}

// A measured step of another GPU kind is compared with that kind's step: where it took what is
// predicted of it, the step that is priced stays as predicted.
func TestMeasuredOnAnotherKind(t *testing.T) {
	old := mlperf(t, "hugectr", "a100-80", 8, 8, 65536)
	in := mlperf(t, "hugectr", "h100-80", 8, 8, 65536)
	want := priced(t, in)
	in.Measured = Measured{Step: priced(t, old).Step, Problem: old.Problem, Shards: old.Shards}
	near(t, "step", float64(priced(t, in).Step), float64(want.Step), 1e-9)
}

func TestFloors(t *testing.T) {
	in := mlperf(t, "hugectr", "h100-80", 8, 8, 55296)
	step := priced(t, in)
	// MLPerf's samples have 214 indices, 13 dense features and a label of four bytes each.
	near(t, "input", step.InputBytesPerSecond, 912*step.SamplesPerSecond, 1e-12)
	in.Loader, in.PricePerHour = 1e9, 3
	got := priced(t, in)
	near(t, "loader", float64(got.Step), 55296*912/1e9*1e3, 1e-9)
	if got.Bound != BoundLoader {
		t.Errorf("got a step bound by %s, want loader", got.Bound)
	}
	near(t, "price", got.PricePerBillion, 3*8/3600./got.SamplesPerSecond*1e9, 1e-12)
	if got.EpochMinutes != 0 {
		t.Errorf("got %v minutes an epoch, want 0, as the number of its samples is not known", got.EpochMinutes)
	}
	in.Samples = 60 * 55296 * 1000 // 60,000 steps: a step of 1 ms gives 1 minute
	near(t, "epoch", priced(t, in).EpochMinutes, float64(got.Step), 1e-12)
	in.Loader, in.Stack.Constants.Launches = 0, 50
	if got := priced(t, in); got.Bound != BoundHost || got.Step != 50 {
		t.Errorf("got %v bound by %s, want 50 ms bound by host", got.Step, got.Bound)
	}
	in.Measured.Step = 40 // launches take less than was assumed
	near(t, "measured", float64(priced(t, in).Step), 40, 1e-12)
}

func TestPriceRefuses(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(*Input)
		want   string
	}{
		{"nothing to go by", func(in *Input) { in.Dense = nil }, "neither a dense part nor a measured step"},
		{"a step below the lookups", func(in *Input) { in.Measured.Step = .01 }, "below the time of its lookups alone"},
		{"a step below the products", func(in *Input) {
			d := *in.Dense
			d.Precision, in.Dense, in.Measured.Step = FP32, &d, 5
		}, "below the time of the dense part's products alone"},
		{"a negative step", func(in *Input) { in.Measured.Step = -1 }, "negative"},
		{"negative samples", func(in *Input) { in.Samples = -1 }, "an epoch of -1 samples is not between 1 and 1000000000000000"},
		{"more samples than MaxSamples", func(in *Input) { in.Samples = MaxSamples + 1 }, "an epoch of 1000000000000001 samples is not between"},
		{"a loader that is no number", func(in *Input) { in.Loader = math.NaN() }, "not a number"},
		{"other devices", func(in *Input) { in.Shards = in.Shards[1:] }, "for 7 devices"},
		{"an unknown device", func(in *Input) { in.Problem.Topology.Profile.Name = "mine" }, "are not known"},
		{"no network", func(in *Input) {
			in.Problem.Topology.DevicesPerHost, in.Problem.Topology.Profile.NICGBps = 4, 0
		}, "has no network"},
		{"host memory", func(in *Input) { in.Shards[0][0].Tier = problem.Host }, "host memory"},
		{"a stack out of range", func(in *Input) { in.Stack.Constants.GEMM, in.Stack.Exchange = 2, "ring" }, "GEMM efficiency: 2"},
		{"layers that do not fit", func(in *Input) { d := *in.Dense; d.Vectors = 3; in.Dense = &d }, "takes 3 pooled vectors"},
	} {
		in := mlperf(t, "hugectr", "h100-80", 8, 8, 55296)
		c.change(&in)
		if _, err := Price(in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.what, err, c.want)
		}
	}
}

// Under the flat exchange, embeddings take what the simulated device says.
func TestFlatIsSimulated(t *testing.T) {
	in := mlperf(t, "torchrec-base", "a100-80", 8, 8, 65536)
	got := priced(t, in)
	e, err := EmbeddingsOf(in.Problem, in.Shards, in.Stack)
	if err != nil {
		t.Fatal(err)
	}
	// A device copies 8,192 samples of 13 dense features over 80 % of PCI Express 4.
	input := float64(e.Input) + 8192*(e.InputBytes+13*4)/25.2e6
	near(t, "embeddings", float64(got.Embedding), float64(e.Forward+e.Backward+e.ExchangeForward+e.ExchangeBackward)+input, 1e-12)
	sparse := in
	if sparse.Stack, err = StackByName("torchrec-sparse"); err != nil {
		t.Fatal(err)
	}
	if other := priced(t, sparse); got.Step-other.Step <= 0 || math.Abs(float64(got.Step-other.Step)-input) > 1e-9 {
		t.Errorf("got %v with the input in the step and %v without, want a difference of %v ms", got.Step, other.Step, input)
	}
}

// What a user changes of a flat stack changes its step: the sort, and the format of the
// gradients.
func TestFlatParts(t *testing.T) {
	in := mlperf(t, "torchrec-base", "a100-80", 8, 8, 65536)
	base := must.Get(EmbeddingsOf(in.Problem, in.Shards, in.Stack))(t)
	in.Stack.Backward = half()
	shorter := must.Get(EmbeddingsOf(in.Problem, in.Shards, in.Stack))(t)
	if shorter.ExchangeForward != base.ExchangeForward || !(shorter.ExchangeBackward < base.ExchangeBackward) {
		t.Errorf("got exchanges of %v and %v with gradients in fp16, want the forward's %v and a backward below %v", shorter.ExchangeForward, shorter.ExchangeBackward, base.ExchangeForward, base.ExchangeBackward)
	}
	in.Stack.Overlaps.Sort = true
	sorted := must.Get(EmbeddingsOf(in.Problem, in.Shards, in.Stack))(t)
	if sorted.Forward != base.Forward || !(sorted.Backward < base.Backward) || sorted.Backward <= 0 {
		t.Errorf("got a backward of %v with the sort hidden, want one between 0 and %v", sorted.Backward, base.Backward)
	}
}

// TestStatedLinks: under each exchange, a faster network shortens the step, and an NVLink
// domain of all devices makes it that of one host with them.
func TestStatedLinks(t *testing.T) {
	for _, stack := range []string{"hugectr", "hugectr-hierarchical"} {
		usual := priced(t, mlperf(t, stack, "h100-80", 16, 8, 55296))
		in := mlperf(t, stack, "h100-80", 16, 8, 55296)
		in.Problem.Topology.NetworkBandwidth = 100 * unit.Bandwidth(unit.GB)
		if fast := priced(t, in); !(fast.Terms.AllReduce < usual.Terms.AllReduce && fast.Step < usual.Step) {
			t.Errorf("%s, a faster network: got a step of %v with an all-reduce of %v, want less than %v and %v", stack, fast.Step, fast.Terms.AllReduce, usual.Step, usual.Terms.AllReduce)
		}
		in.Problem.Topology.NetworkBandwidth, in.Problem.Topology.NVLinkDomain = 0, 72
		one := priced(t, mlperf(t, stack, "h100-80", 16, 16, 55296))
		if got := priced(t, in); got.Terms != one.Terms {
			t.Errorf("%s, one domain: got %+v, want the terms of one host, %+v", stack, got.Terms, one.Terms)
		}
	}
}

// TestErrorBarOfMeasured wants a calibrated step to have the bar of calibrated steps, also
// under a stack without an error bar of its own.
func TestErrorBarOfMeasured(t *testing.T) {
	in := mlperf(t, "torchrec-base", "h100-80", 8, 8, 55296)
	if got := priced(t, in).ErrorPercent; got != 0 {
		t.Errorf("without a measured step: got %v %%, want an unknown error", got)
	}
	in.Measured.Step = 9
	in.Measured.Shards = placed(in.Problem, moved(in.Problem))
	if got := priced(t, in).ErrorPercent; got != UnknownError().Calibrated {
		t.Errorf("with a measured step: got %v %%, want %v", got, UnknownError().Calibrated)
	}
	in = mlperf(t, "hugectr", "h100-80", 8, 8, 55296)
	other := mlperf(t, "hugectr", "h100-80", 16, 8, 65536)
	for _, unseen := range []struct {
		profile string
		devices int
		want    float64
		unseen  bool
	}{
		{"b200", 8, in.Stack.Error.UnseenOneHost, true},
		{"a100-40", 8, in.Stack.Error.OneHost, false},
		{"a100-80", 16, in.Stack.Error.UnseenHosts, true},
		{"b200", 16, in.Stack.Error.UnseenHosts, true},
		{"h100-80", 16, in.Stack.Error.Hosts, false},
	} {
		got := priced(t, mlperf(t, "hugectr", unseen.profile, unseen.devices, 8, 65536))
		if got.ErrorPercent != unseen.want || got.Unseen != unseen.unseen {
			t.Errorf("%d x %s: got %v %%, unseen %v, want %v, %v", unseen.devices, unseen.profile, got.ErrorPercent, got.Unseen, unseen.want, unseen.unseen)
		}
	}
	bar, another := in.Stack.Error, placed(in.Problem, moved(in.Problem))
	for _, c := range []struct {
		measured Measured
		want     float64
	}{
		{Measured{}, bar.OneHost},
		{Measured{Step: 9, Shards: another}, bar.Calibrated},
		{Measured{Step: 9, Problem: in.Problem, Shards: another}, bar.Calibrated},
		{Measured{Step: 9, Problem: other.Problem, Shards: other.Shards}, bar.Carried},
	} {
		in.Measured = c.measured
		if got := priced(t, in).ErrorPercent; got != c.want || !(got > 0) {
			t.Errorf("measured %v: got %v %%, want %v", c.measured.Step, got, c.want)
		}
	}
}

// What a search takes as hidden is what the exchanges of any placement run beside, without the
// lookups of its replicas.
func TestHiddenWhateverThePlacement(t *testing.T) {
	for _, name := range StackNames() {
		in := mlperf(t, name, "h100-80", 8, 8, 55296)
		hidden := must.Get(in.Hidden())(t)
		e := must.Get(EmbeddingsOf(in.Problem, in.Shards, in.Stack))(t)
		if hidden.Replicas {
			hidden.Forward += e.ReplicaForward
			hidden.Backward += e.ReplicaBackward
		}
		got := priced(t, in).Terms
		near(t, name+": forward", float64(hidden.Forward), float64(got.BesideForward), 1e-12)
		near(t, name+": backward", float64(hidden.Backward), float64(got.BesideBackward), 1e-12)
		in.Dense, in.Measured.Step = nil, 100
		if hidden, err := in.Hidden(); err != nil || hidden.Forward+hidden.Backward > 0 || hidden.Replicas {
			t.Errorf("%s without a dense part: got %+v, %v, want nothing hidden", name, hidden, err)
		}
	}
	bad := mlperf(t, "hugectr", "h100-80", 8, 8, 55296)
	bad.Stack.IndexBytes = 3
	if _, err := bad.Hidden(); err == nil {
		t.Error("got no error for a stack out of range")
	}
}
