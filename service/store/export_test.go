package store

// Unsynced returns the options for a store that does not wait for the disk.
func (o Options) Unsynced() Options {
	o.unsynced = true
	return o
}
