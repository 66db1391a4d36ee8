package cost

import "github.com/neuroshard/neuroshard/internal/peaks"

// deviceTotals are the times and the pooled columns of all devices of a Scorer, with their
// extremes. A device that changed is read again when they are asked for.
type deviceTotals struct {
	computes *peaks.List[float64]
	// most are the columns, and least the negated columns.
	most, least *peaks.List[int]
	sum         int // of the columns
	changed     []int32
	isChanged   []bool
}

func newDeviceTotals(n int) deviceTotals {
	return deviceTotals{computes: peaks.New[float64](n), most: peaks.New[int](n), least: peaks.New[int](n), isChanged: make([]bool, n)}
}

// reset empties all devices.
func (t *deviceTotals) reset() {
	t.computes.Fill(0)
	t.most.Fill(0)
	t.least.Fill(0)
	t.sum, t.changed = 0, t.changed[:0]
	clear(t.isChanged)
}

// change records that a device changed.
func (t *deviceTotals) change(device int) {
	if !t.isChanged[device] {
		t.isChanged[device] = true
		t.changed = append(t.changed, int32(device))
	}
}
