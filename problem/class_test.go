package problem

import "testing"

// TestClassOf checks the class of every form, and who holds a shard of the class.
func TestClassOf(t *testing.T) {
	for _, test := range []struct {
		form          Form
		want          OperatorClass
		joint, onHost bool
	}{
		{Form{}, ClassColumns, false, false},
		{Form{Tier: HBM}, ClassColumns, false, false},
		{Form{ShardingType: TableWise}, ClassColumns, false, false},
		{Form{ShardingType: ColumnWise}, ClassColumns, false, false},
		{Form{ShardingType: RowWise}, ClassBlocks, true, false},
		{Form{ShardingType: TableRowWise}, ClassHostBlocks, true, false},
		{Form{ShardingType: Grid}, ClassHostBlocks, true, false},
		{Form{ShardingType: DataParallel}, ClassReplicas, true, false},
		{Form{Tier: Host}, ClassHostMemory, false, true},
		{Form{Tier: HostCached, Cache: .1}, ClassCached, false, true},
	} {
		got := ClassOf(test.form)
		if got != test.want || got.Joint() != test.joint || got.OnHost() != test.onHost {
			t.Errorf("ClassOf(%+v): got %d (joint %v, on host %v), want %d (%v, %v)",
				test.form, got, got.Joint(), got.OnHost(), test.want, test.joint, test.onHost)
		}
		if got >= OperatorClasses {
			t.Errorf("ClassOf(%+v): got %d, want less than %d", test.form, got, OperatorClasses)
		}
	}
}

// TestOperatorKey checks which slices of a device share an operator, by the rules of each
// engine: the documented rule is the oracle of every cost model.
func TestOperatorKey(t *testing.T) {
	p := Problem{Batch: 1024, Tables: []Table{
		{Name: "a", Module: "m", Dim: 64},
		{Name: "b", Module: "m", Dim: 8},
		{Name: "c", Module: "n", Dim: 64},
		{Name: "d", Module: "m", Dim: 64, Pooling: MeanPooling},
		{Name: "e", Module: "m", Dim: 64, Optimizer: Adam},
		{Name: "f", Module: "m", Dim: 64, Prefetch: true},
		{Name: "g", Module: "m", Dim: 8, Prefetch: true},
		{Name: "h", Module: "m", Dim: 128, Prefetch: true},
		{Name: "i", Module: "m", Dim: 64, KernelSettings: "checks indices"},
		{Name: "j", Module: "m", Dim: 64, KernelSettings: "checks indices"},
		{Name: "k", Module: "m", Dim: 64, Pooling: PoolingNone},
		{Name: "l", Module: "m", Dim: 8, Pooling: PoolingNone},
	}}
	type slice struct {
		table, width int
		form         Form
	}
	a := slice{0, 64, Form{}}
	grid, cached := Form{ShardingType: TableRowWise}, Form{Tier: HostCached, Cache: .1}
	for _, test := range []struct {
		name             string
		a, b             slice
		none, trec, huge bool // whether they share an operator
	}{
		{"other width of the table", a, slice{1, 8, Form{}}, true, true, true},
		{"whole and cut", a, slice{0, 32, Form{}}, true, false, true},
		{"cut and cut", slice{1, 4, Form{}}, slice{0, 32, Form{}}, true, true, true},
		{"modules", a, slice{2, 64, Form{}}, true, false, true},
		{"poolings", a, slice{3, 64, Form{}}, true, false, true},
		{"a sequence and sums", a, slice{10, 64, Form{}}, false, false, false},
		{"a sequence and means", slice{3, 64, Form{}}, slice{10, 64, Form{}}, false, false, false},
		{"sequences", slice{11, 8, Form{}}, slice{10, 64, Form{}}, true, true, true},
		{"replicas of a sequence and of sums", slice{0, 64, Form{ShardingType: DataParallel}}, slice{10, 64, Form{ShardingType: DataParallel}}, false, false, false},
		{"optimizers", a, slice{4, 64, Form{}}, false, false, false},
		{"classes", a, slice{0, 64, grid}, false, false, false},
		{"table_row_wise and grid", slice{0, 64, grid}, slice{0, 32, grid}, true, false, true},
		{"replicas of tables of two optimizers", slice{0, 64, Form{ShardingType: DataParallel}}, slice{4, 64, Form{ShardingType: DataParallel}}, true, false, true},
		{"cached, of two widths", slice{0, 64, cached}, slice{1, 8, cached}, true, true, true},
		{"prefetched and not", slice{0, 64, cached}, slice{5, 64, cached}, true, false, true},
		{"prefetched and not, in HBM", a, slice{5, 64, Form{}}, true, false, true},
		{"prefetched, of two widths", slice{5, 64, cached}, slice{6, 8, cached}, true, false, true},
		{"prefetched, of one width", slice{5, 32, cached}, slice{7, 32, cached}, true, true, true},
		{"prefetched, of two cuts", slice{7, 64, cached}, slice{7, 32, cached}, true, false, true},
		{"prefetched, two cache shares", slice{5, 64, cached}, slice{5, 64, Form{Tier: HostCached, Cache: .2}}, true, true, true},
		{"prefetched, of two widths, in HBM", slice{5, 64, Form{}}, slice{6, 8, Form{}}, true, true, true},
		{"prefetched, of two widths, in host memory", slice{5, 64, Form{Tier: Host}}, slice{6, 8, Form{Tier: Host}}, true, true, true},
		{"kernel settings and none", a, slice{8, 64, Form{}}, false, false, false},
		{"the same kernel settings", slice{8, 64, Form{}}, slice{9, 64, Form{}}, true, true, true},
		{"replicas with kernel settings and without", slice{0, 64, Form{ShardingType: DataParallel}}, slice{8, 64, Form{ShardingType: DataParallel}}, false, false, false},
		{"numbers", a, slice{1, 8, Form{Operator: 1}}, false, false, false},
	} {
		for engine, want := range map[Engine]bool{"": test.none, TorchRec: test.trec, HugeCTR: test.huge} {
			p.Engine = engine
			if got := p.OperatorKey(test.a.table, test.a.width, test.a.form) == p.OperatorKey(test.b.table, test.b.width, test.b.form); got != want {
				t.Errorf("%s, engine %q: got %v, want %v", test.name, engine, got, want)
			}
		}
	}
}
