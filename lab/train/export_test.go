package train

// Quick trains on the all-to-alls for a few epochs only.
func (o Options) Quick() Options {
	o.quick = true
	return o
}
