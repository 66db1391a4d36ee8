package store

import (
	"context"
	"fmt"
)

// Unsynced returns the options for a store that does not wait for the disk.
func (o Options) Unsynced() Options {
	o.unsynced = true
	return o
}

// Pragma runs a pragma on the connection that writes, and returns its value.
func (s *Store) Pragma(ctx context.Context, text string) (value string, err error) {
	err = s.writes.QueryRowContext(ctx, "PRAGMA "+text).Scan(&value)
	if err != nil {
		err = fmt.Errorf("%s: %w", text, err)
	}
	return value, err
}
