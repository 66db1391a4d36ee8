package problem

// Operation is what all shards of one fused kernel call have in common. The
// engines fuse a device's shards of equal Operation into one call; the calls
// of a device run one after the other.
type Operation struct {
	// Batch is the global batch, in samples.
	Batch     int
	Optimizer Optimizer
	Precision Precision
	// Weighted is true where lookups carry per-sample weights.
	Weighted bool
}

// Operation returns the operation that shards of table i belong to.
func (p *Problem) Operation(i int) Operation {
	t := &p.Tables[i]
	return Operation{Batch: p.Batch, Optimizer: t.Optimizer, Precision: t.Precision, Weighted: t.Weighted}
}
