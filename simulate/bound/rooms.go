package bound

import "math"

// rooms.go counts the columns that every device has at least. Let C be the pooled columns of all slices, D the
// number of devices, and X the most columns of a device. The other D-1 devices have X columns each at
// most, so every device has at least F = C - (D-1) X columns:
//
//	device 0   X columns
//	device 1   X columns
//	device 2   C - 2 X columns, or more
//
// If exchanges take long, X is close to the mean C/D, and so is F. Columns take time. So beside a
// slice of a hot table, a device has less time for other slices than u minus the time of that slice.
//
// All times here are lower bounds by tangents. Let a slice of w columns add at least t ms to a device, and let c
// be the least t/w of all slices that the device may hold. The slices of a device have
//
//	sum of t <= u  and  sum of w >= F,  so  sum of (t - c w) <= u - c F
//
// and every t - c w is at least 0. So no device holds a slice whose t - c w is above the room u - c F, and
// the limits of large slices (large.go) hold for the times t - c w and this room.
//
// A device of a guest (guests.go) holds exactly one slice of the guest. Let b be the least t - c w of
// this slice. Then t - c w - b of this slice, plus t - c w of all other slices of the device, is at
// most u - c F - b. Suppose that the guest of G granules is cut into m slices, and that no slice of more
// than g granules fits. Then each slice has at least G - (m-1) g granules, and b is the least t - c w of
// slices of that width or more.
//
// If u or X falls, the rooms become smaller, or F becomes larger. So rooms for the longest time that
// the prices may refute hold for all times below it.

// room is the time that is taken on every device of a mode.
type room struct {
	// column is c, in ms for each pooled column. guest is b, in ms; it is 0 unless the devices hold a
	// guest. taken is c F + b, in ms.
	column, guest, taken float64
}

// leanest holds the least times of a pooled column of a table in a lane class, in ms, in the order of load:
// memory, cache and issue, forward and backward. sorted is the least share of the time of sorting.
type leanest struct {
	times  [sorting]float64
	sorted float64
}

// leanestOf returns the least that a pooled column of slices of t takes in the lane class at the
// given place of its operation.
func leanestOf(t *table, lanes int, class *laneClass) leanest {
	least := leanest{sorted: math.Inf(1)}
	for j := range least.times {
		least.times[j] = math.Inf(1)
	}
	for g := t.narrowest(); g <= min(len(t.slices), class.widest); g++ {
		s := &t.slices[g-1]
		each := 1 / (t.columns * s.granules)
		for j, v := range [sorting]float64{s.memory, s.cache, s.issue[lanes], s.memoryBack, s.cacheBack, s.issueBack[lanes]} {
			least.times[j] = min(least.times[j], v*each)
		}
		least.sorted = min(least.sorted, each)
	}
	return least
}

// of returns the least time, in ms, that a pooled column of t adds to operator o if d is the
// operator's direction.
func (l *leanest) of(t *table, o *operator, d *load) float64 {
	sum := d[sorting] * l.sorted * t.sorted[o.passes]
	for j, v := range l.times {
		sum += d[j] * v
	}
	return sum
}

// makeRooms sets the rooms of all modes, at the directions, for devices that have at most the given columns
// and take at most r.longest.
func makeRooms(r *relaxation, most float64) {
	copy(r.judges, r.directions)
	all := 0.0
	for i := range r.tables {
		t := &r.tables[i]
		all += t.count * t.columns * float64(t.granules)
	}
	fewest := max(all*(1-rounding)-float64(r.devices-1)*most, 0)
	for k := range r.rooms {
		r.rooms[k] = room{}
		if fewest > 0 {
			column := leastOfColumn(r, k) * (1 - rounding)
			r.rooms[k] = room{column: column, taken: column * fewest}
		}
	}
	for i := range r.tables {
		if t := &r.tables[i]; t.guest > 0 {
			receive(r, t)
		}
	}
}

// leastOfColumn returns the least time, in ms, that a pooled column adds to a device in mode k; 0 if the
// mode holds no table.
func leastOfColumn(r *relaxation, k int) float64 {
	least := math.Inf(1)
	for j := r.modes[k].first; j < r.modes[k].end; j++ {
		o := &r.operators[j]
		for i := range r.tables {
			if t := &r.tables[i]; t.operation == o.operation && r.admits(t, o) {
				least = min(least, t.lean[o.lanes].of(t, o, &r.judges[j]))
			}
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// receive counts the slice of guest t in the rooms of its devices.
func receive(r *relaxation, t *table) {
	widest := t.granules - (t.pieces-1)*t.least
	for t.pieces > 1 && widest > t.least && !fitsAlone(r, t, widest) {
		widest--
	}
	narrowest := max(t.least, t.granules-(t.pieces-1)*widest)
	for k := range r.rooms {
		if r.memories[r.modes[k].memory].guest != t.guest {
			continue
		}
		least := math.Inf(1)
		for j := r.modes[k].first; j < r.modes[k].end; j++ {
			if o := &r.operators[j]; o.operation == t.operation && r.admits(t, o) {
				for g := narrowest; g <= min(widest, o.widest); g++ {
					least = min(least, beyond(r, j, t, &t.slices[g-1]))
				}
			}
		}
		if !math.IsInf(least, 1) {
			r.rooms[k].guest = max(least-rounding*r.longest, 0)
			r.rooms[k].taken += r.rooms[k].guest
		}
	}
}

// fitsAlone reports whether a slice of t of g granules fits the room of some device. The slice of a guest
// does not count in the rooms yet.
func fitsAlone(r *relaxation, t *table, g int) bool {
	for _, k := range r.of[t.operation] {
		o := &r.operators[k]
		if r.admits(t, o) && g <= o.widest && beyond(r, k, t, &t.slices[g-1]) <= roomOf(r, o) {
			return true
		}
	}
	return false
}

// beyond returns the least time, in ms, that slice s of t adds to a device in operator k, minus the part
// that is already taken on every device.
func beyond(r *relaxation, k int, t *table, s *slice) float64 {
	o := &r.operators[k]
	m := &r.rooms[o.mode]
	v := r.judges[k].of(t, s, o) - m.column*t.columns*s.granules
	if t.guest > 0 {
		v -= m.guest
	}
	return v
}

// roomOf returns the room of a device with operator o, in ms: the longest time minus the time that is
// taken on every device.
func roomOf(r *relaxation, o *operator) float64 {
	return r.longest*(1+rounding) - r.modes[o.mode].extra - r.rooms[o.mode].taken
}
