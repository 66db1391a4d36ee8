package store

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// The errors that callers tell apart. Each is wrapped in an error with the details. After
// ErrFull, ErrReadOnly and ErrBusy, nothing that was stored before is lost.
var (
	ErrNotFound = errors.New("no plan has this id")
	// ErrDamaged says that the file has other bytes than were written. To repair a single
	// damaged record, delete the plan by its id and put it again.
	ErrDamaged  = errors.New("the database is damaged")
	ErrFull     = errors.New("the disk is full")
	ErrReadOnly = errors.New("the database cannot be written")
	// ErrBusy says that another process kept the file locked for as long as the store waits.
	ErrBusy = errors.New("another process keeps the database locked")
)

// advice has for some errors what to do next.
var advice = map[error]string{
	ErrFull:     "nothing that was stored is lost; free some space, or lower the limit of stored bytes",
	ErrReadOnly: "nothing that was stored is lost; make the folder and its files writable, or choose another folder",
	ErrBusy:     "try again; if the error stays, find out which other process uses the file",
	ErrDamaged:  "stop all servers of the folder, move the file away or restore a copy of it, and start again",
}

// meaning returns the error of this package that an error of SQLite is; nil for others.
func meaning(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return nil
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return ErrFull
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return ErrReadOnly
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return ErrBusy
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return ErrDamaged
	}
	return nil
}

// explain wraps an error in one that says what failed, where, and what to do; nil stays nil.
func (s *Store) explain(verb string, err error) error {
	if err == nil {
		return nil
	}
	if what := meaning(err); what != nil {
		err = fmt.Errorf("%w (%w): %s", what, err, advice[what])
	}
	return fmt.Errorf("store: %s %s: %w", verb, s.path, err)
}
