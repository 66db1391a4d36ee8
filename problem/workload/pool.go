package workload

// A pool is 856 tables that, together, are accessed like the published batch of
// PublishedLocality, each in a way of its own:
//
//  1. Draw each table's pooling factor (log-normal, scaled to the published
//     mean), rows (log-normal) and the share of its rows that a batch touches.
//     These give a first guess of its distinct rows U and mean use count n/U.
//  2. Tilt the published histogram until its mean use count is the table's:
//     p_j ~ q_j c_j^theta, large theta for hot tables; shake each class a
//     little; drop the classes that the table is too small for.
//  3. Fit the lookups W[t][j] = U_t p_tj c_j of table t in class j to the
//     published totals by iterative proportional fitting: scale the columns to
//     the published index shares, the rows to each table's lookups, again until
//     both hold (Deming and Stephan 1940), in O(856 x 17) a round.
//
// Fitting lookups alone is enough: the distinct rows in class j are the lookups
// over c_j, so index shares, row shares and unique share are tied to each
// other. The published ones do not quite fit the class means c_j of package
// access, nor each other after rounding; target finds the nearest that do.

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/access"
)

// PoolDim is the number of columns of a pool's tables. The published batch
// names none, so it is a placeholder: tasks draw their own.
const PoolDim = 16

// Pool's distributions. The published files name no row counts; these spread
// over the orders of magnitude that production tables are known to span.
const (
	poolingSigma           = 1.35 // sigma of the natural logarithm
	minPooling, maxPooling = 0.1, 300

	rowsMedian, rowsSigma = 6e5, 2.2
	minRows, maxRows      = 1e3, 2e7

	touchedSigma = 0.8 // of the share of rows that a batch touches
	maxTouched   = 0.8
	minMeanUse   = 1.02

	classShake = 0.35
)

// Pool returns 856 synthetic tables p000, p001, ... whose accesses have the
// statistics of PublishedLocality: the mean pooling factor exactly, the unique
// share within 6 %, both histograms within 0.006 a class. Each is read by one
// feature, is PoolDim wide, fp32, trained with SGD, and has a use-count
// histogram of its own. The same seed gives the same pool.
func Pool(seed uint64) []problem.Table {
	published := PublishedLocality()
	aim := newTarget(published)
	r := random(seed, poolStream)

	drafts := make([]draft, published.Tables)
	for i := range drafts {
		drafts[i].pooling = math.Exp(poolingSigma * r.NormFloat64())
		drafts[i].rows = truncatedLogNormal(r, rowsMedian, rowsSigma, minRows, maxRows)
		drafts[i].touched = math.Exp(touchedSigma * r.NormFloat64())
	}
	scalePooling(drafts, published.MeanPoolingFactor())
	scaleTouched(drafts, published.Batch, published.Indices/aim.meanUse)
	tilts := newTilts(aim.rowShare)
	for i := range drafts {
		d := &drafts[i]
		d.lookups = d.pooling * float64(published.Batch)
		d.fill(tilts.at(d.lookups/d.unique), r)
	}
	fit(drafts, aim.indexShare)

	tables := make([]problem.Table, len(drafts))
	for i := range drafts {
		tables[i] = drafts[i].table(fmt.Sprintf("p%03d", i), published.Batch)
	}
	return tables
}

// target is the histogram pair, consistent with access.ClassMean, that a pool
// is fitted to.
type target struct {
	// meanUse is the lookups per distinct row: sum of rowShare[j] c_j.
	meanUse              float64
	rowShare, indexShare [access.Classes]float64
}

// newTarget returns the shares q, with index shares s_j = q_j c_j / m, that lie
// nearest to the published ones in the sum of both squared distances. For a
// given mean m that is least squares under sum q = sum s = 1, solved with two
// Lagrange multipliers; m itself is the one within 5 % of the published mean
// that leaves the least distance in the worst class.
func newTarget(l Locality) target {
	best, bestError := target{}, math.Inf(1)
	for step := -50; step <= 50; step++ {
		t := nearest(l, (1+0.001*float64(step))/l.UniqueShare())
		worst := 0.0
		for j := range t.rowShare {
			if t.rowShare[j] <= 0 {
				worst = math.Inf(1)
			}
			worst = max(worst, math.Abs(t.rowShare[j]-l.RowShare[j]), math.Abs(t.indexShare[j]-l.IndexShare[j]))
		}
		if worst < bestError {
			best, bestError = t, worst
		}
	}
	return best
}

// nearest minimises sum (q_j-a_j)^2 + (k_j q_j-b_j)^2, k_j = c_j/m, under
// sum q_j = 1 and sum k_j q_j = 1: q_j = (a_j + k_j b_j + x + y k_j)/(1+k_j^2).
func nearest(l Locality, mean float64) target {
	var w, wk, wkk, q, qk float64
	var free, weight, k [access.Classes]float64
	for j := range free {
		k[j] = access.ClassMean(j) / mean
		weight[j] = 1 / (1 + k[j]*k[j])
		free[j] = weight[j] * (l.RowShare[j] + k[j]*l.IndexShare[j])
		w += weight[j]
		wk += weight[j] * k[j]
		wkk += weight[j] * k[j] * k[j]
		q += free[j]
		qk += free[j] * k[j]
	}
	det := w*wkk - wk*wk
	x := ((1-q)*wkk - (1-qk)*wk) / det
	y := ((1-qk)*w - (1-q)*wk) / det
	t := target{meanUse: mean}
	for j := range free {
		t.rowShare[j] = free[j] + weight[j]*(x+y*k[j])
		t.indexShare[j] = k[j] * t.rowShare[j]
	}
	return t
}

// draft is a table in the making.
type draft struct {
	pooling, rows, touched float64
	lookups, unique        float64
	// class holds the lookups that go to each use-count class.
	class [access.Classes]float64
}

// scalePooling scales the drafts' pooling factors, cut to their bounds, to the
// given mean.
func scalePooling(drafts []draft, mean float64) {
	cut := func(d draft, scale float64) float64 {
		return min(max(d.pooling*scale, minPooling), maxPooling)
	}
	scale := bisect(func(scale float64) bool {
		sum := 0.0
		for _, d := range drafts {
			sum += cut(d, scale)
		}
		return sum < mean*float64(len(drafts))
	})
	for i := range drafts {
		drafts[i].pooling = cut(drafts[i], scale)
	}
}

// scaleTouched scales the share of its rows that a batch touches in each table
// so that the distinct rows of all tables add up to total.
func scaleTouched(drafts []draft, batch int, total float64) {
	unique := func(d draft, scale float64) float64 {
		return min(d.rows*min(d.touched*scale, maxTouched), d.pooling*float64(batch)/minMeanUse)
	}
	scale := bisect(func(scale float64) bool {
		sum := 0.0
		for _, d := range drafts {
			sum += unique(d, scale)
		}
		return sum < total
	})
	for i := range drafts {
		drafts[i].unique = unique(drafts[i], scale)
	}
}

// bisect returns the scale, between 1e-6 and 1e6, from which on low is false.
func bisect(low func(scale float64) bool) float64 {
	from, to := 1e-6, 1e6
	for range 60 {
		if middle := math.Sqrt(from * to); low(middle) {
			from = middle
		} else {
			to = middle
		}
	}
	return math.Sqrt(from * to)
}

// tilts are the histograms q_j c_j^theta / sum, over a grid of theta.
type tilts struct {
	mean  []float64 // ascending
	share [][access.Classes]float64
}

func newTilts(base [access.Classes]float64) tilts {
	const from, to, steps = -6.0, 4.0, 400
	var t tilts
	for i := range steps + 1 {
		theta := from + (to-from)*float64(i)/steps
		var share [access.Classes]float64
		sum, mean := 0.0, 0.0
		for j, q := range base {
			share[j] = q * math.Exp(theta*math.Log(access.ClassMean(j)))
			sum += share[j]
			mean += share[j] * access.ClassMean(j)
		}
		for j := range share {
			share[j] /= sum
		}
		t.mean = append(t.mean, mean/sum)
		t.share = append(t.share, share)
	}
	return t
}

// at returns the first histogram of the grid whose mean use count is at least
// the given one.
func (t tilts) at(mean float64) [access.Classes]float64 {
	for i, m := range t.mean {
		if m >= mean {
			return t.share[i]
		}
	}
	return t.share[len(t.share)-1]
}

// fill sets the draft's lookups by class from a histogram, shaken at random.
func (d *draft) fill(share [access.Classes]float64, r *rand.Rand) {
	for j, p := range share {
		d.class[j] = p * access.ClassMean(j) * math.Exp(classShake*r.NormFloat64())
	}
	d.scale()
}

// scale scales the classes to the draft's lookups.
func (d *draft) scale() {
	sum := 0.0
	for _, c := range d.class {
		sum += c
	}
	for j := range d.class {
		d.class[j] *= d.lookups / sum
	}
}

// prune empties the classes in which not even half a row is expected, but for
// the one with the most lookups.
func (d *draft) prune() {
	most := 0
	for j, c := range d.class {
		if c > d.class[most] {
			most = j
		}
	}
	for j, c := range d.class {
		if j != most && c < access.ClassMean(j)/2 {
			d.class[j] = 0
		}
	}
	d.scale()
}

// fit fits the drafts' lookups to the given share of each class. A few rounds
// bring every class to its size before the too small ones are emptied for good.
func fit(drafts []draft, share [access.Classes]float64) {
	const before, rounds, enough = 4, 200, 1e-6
	for round := range rounds {
		if round == before {
			for i := range drafts {
				drafts[i].prune()
			}
		}
		var sum [access.Classes]float64
		total := 0.0
		for i := range drafts {
			for j, c := range drafts[i].class {
				sum[j] += c
			}
			total += drafts[i].lookups
		}
		worst := 0.0
		var factor [access.Classes]float64
		for j := range sum {
			factor[j] = share[j] * total / sum[j]
			worst = max(worst, math.Abs(factor[j]-1))
		}
		if round > before && worst < enough {
			return
		}
		for i := range drafts {
			for j := range drafts[i].class {
				drafts[i].class[j] *= factor[j]
			}
			drafts[i].scale()
		}
	}
}

// table returns the finished table. Its rows grow where the fit made its
// distinct rows more than maxTouched of them.
func (d *draft) table(name string, batch int) problem.Table {
	unique := 0.0
	reuse := d.class
	for j := range reuse {
		reuse[j] /= access.ClassMean(j)
		unique += reuse[j]
	}
	for j := range reuse {
		reuse[j] /= unique
	}
	return problem.Table{
		Name: name, Dim: PoolDim,
		Rows:     int64(math.Ceil(max(d.rows, unique/maxTouched))),
		Features: []problem.Feature{{Name: name, PoolingFactor: d.pooling}},
		Access:   access.Distribution{Kind: access.Histogram, Reuse: reuse, Batch: batch},
	}
}

// truncatedLogNormal draws until the number lies between low and high.
func truncatedLogNormal(r *rand.Rand, median, spread, low, high float64) float64 {
	for {
		if x := median * math.Exp(spread*r.NormFloat64()); x >= low && x <= high {
			return x
		}
	}
}

// The streams of random numbers, so that equal seeds do not repeat each other.
const (
	poolStream = 1 + iota
	taskStream
	scaleStream
)

// random returns the generator of a seed, for one purpose and one of its uses.
func random(seed uint64, stream uint64, index ...uint64) *rand.Rand {
	high := mix(seed)
	low := mix(high ^ mix(stream))
	for _, i := range index {
		low = mix(low ^ mix(i))
	}
	return rand.New(rand.NewPCG(high, low))
}

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood 2014): it spreads
// near seeds far apart.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
