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
