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
		{Form{Kind: TableWise}, ClassColumns, false, false},
		{Form{Kind: ColumnWise}, ClassColumns, false, false},
		{Form{Kind: RowWise}, ClassBlocks, true, false},
		{Form{Kind: TableRowWise}, ClassHostBlocks, true, false},
		{Form{Kind: Grid}, ClassHostBlocks, true, false},
		{Form{Kind: DataParallel}, ClassReplicas, true, false},
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
