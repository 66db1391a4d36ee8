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

// LimitPages lets the file have this many pages at most.
func (s *Store) LimitPages(ctx context.Context, pages int) error {
	_, err := s.writer.conn.ExecContext(ctx, fmt.Sprintf("PRAGMA max_page_count(%d)", pages))
	return err
}

// ForbidWrites makes SQLite refuse all writes.
func (s *Store) ForbidWrites(ctx context.Context) error {
	_, err := s.writer.conn.ExecContext(ctx, "PRAGMA query_only(1)")
	return err
}

// Synchronous returns SQLite's synchronous setting of the connection that writes: 2 is FULL.
func (s *Store) Synchronous(ctx context.Context) (level int, err error) {
	err = s.writer.conn.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&level)
	return level, err
}
