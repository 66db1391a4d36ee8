package access

import "math"

// histogram.go takes a histogram counted on one batch to a batch of another
// size. A counted histogram says how many rows were used how often, but not
// which other rows exist, so the two directions differ. With r the new batch
// over the counted one:
//
//   - r < 1: each use of a row falls into the smaller batch with probability r,
//     on its own. Of the rows used c times, the share 1 - (1-r)^c is still used,
//     and those rows c*r / (1 - (1-r)^c) times each.
//   - r > 1: every row stays, used c*r times. Rows used once are the sign of a
//     tail not yet seen: the added lookups find new rows at the rate at which
//     the counted ones found rows used once, until the table has no more.
//
// Both are the identity at r = 1. A row's new mean use lies between the means
// of two classes and is shared out among them in proportion to its logarithm,
// which puts it wholly into class j when it equals that class's mean: so the
// result is continuous in r.

// histogram returns the counts of a batch from those of d.Batch samples. A
// d.Batch below 1 means that the histogram was counted on this very size.
func (d Distribution) histogram(rows, pooling float64, batch int) Counts {
	counted := d.Batch
	if counted < 1 {
		counted = batch
	}
	base := d.counted(rows, pooling*float64(counted))
	if counted == batch {
		return base
	}
	r := float64(batch) / float64(counted)
	lookups := pooling * float64(batch)

	var in [Classes]float64 // rows in each class at the new size
	sum := 0.0              // of the shares: 1 but for rounding in the input
	for j, share := range base.Reuse {
		sum += share
		used, mean := base.Unique*share, classMeans[j]*r
		if r < 1 {
			alive := -math.Expm1(classMeans[j] * math.Log1p(-r))
			used, mean = used*alive, mean/alive
		}
		divide(&in, used, mean)
	}
	if r > 1 {
		found := (lookups - base.Lookups) * base.Reuse[0] * base.Unique / base.Lookups
		in[0] += max(0, min(rows-base.Unique, found))
	}
	total := 0.0
	for _, used := range in {
		total += used
	}
	if !(total > 0) || !(sum > 0) {
		return Counts{Lookups: lookups, Unique: min(base.Unique, lookups), Reuse: base.Reuse}
	}
	c := Counts{Lookups: lookups, Unique: min(total/sum, rows, lookups)}
	for j, used := range in {
		c.Reuse[j] = used / total * sum
	}
	return c
}

// Deduplicated returns what the batch does if each of a number of equal parts of it uses a row at
// most once, so that lookups are left of all. A row that was used m times is then used once in each
// part that has any of these uses: in parts (1 - (1 - 1/parts)^m) parts, as a use is in any of them.
func (c Counts) Deduplicated(lookups, parts float64) Counts {
	own := Counts{Lookups: lookups, Unique: min(c.Unique, lookups), Sorted: c.Sorted, Exponent: -1}
	for j, share := range c.Reuse {
		divide(&own.Reuse, share, -parts*math.Expm1(classMeans[j]*math.Log1p(-1/parts)))
	}
	return own
}

// counted returns the counts of the batch that the histogram was taken on.
func (d Distribution) counted(rows, lookups float64) Counts {
	unique := d.UniqueRows
	if !(unique > 0) {
		unique = lookups / meanUse(&d.Reuse)
	}
	return Counts{Lookups: lookups, Unique: min(unique, rows, lookups), Reuse: d.Reuse}
}

// Repeated returns the histogram of a batch that reads unique distinct rows, one of them with the
// share most of all lookups, and each other equally often. The means of the classes add up to these
// uses, so that batches of twice the size, four times and so on keep the share.
func Repeated(lookups, unique, most float64, batch int) Distribution {
	d := Distribution{Kind: Histogram, Batch: batch, UniqueRows: unique}
	for _, rows := range [][2]float64{{unique - 1, lookups * (1 - most) / (unique - 1)}, {1, lookups * max(most, 1/unique)}} {
		j := 0
		for j < Classes-2 && classMeans[j+1] <= rows[1] {
			j++
		}
		up := min(1, (rows[1]-classMeans[j])/(classMeans[j+1]-classMeans[j]))
		d.Reuse[j] += rows[0] / unique * (1 - up)
		d.Reuse[j+1] += rows[0] / unique * up
	}
	return d
}

// divide adds rows of the given mean use to the two classes whose means
// enclose it, in proportion to its place between them on a logarithmic scale.
func divide(in *[Classes]float64, rows, mean float64) {
	j := 0
	for j < Classes-1 && classMeans[j+1] <= mean {
		j++
	}
	if j == Classes-1 || mean <= classMeans[0] {
		in[j] += rows
		return
	}
	up := math.Log(mean/classMeans[j]) / math.Log(classMeans[j+1]/classMeans[j])
	in[j] += rows * (1 - up)
	in[j+1] += rows * up
}
