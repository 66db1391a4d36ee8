package store

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// The errors that callers tell apart. Each is wrapped in an error with the details.
var (
	// ErrNotFound says that no plan has the id.
	ErrNotFound = errors.New("no plan has this id")
	// ErrTooLarge says that a record is above the limit of the store, which has not kept it.
	ErrTooLarge = errors.New("the record is too large")
	// ErrDamaged says that the file has other bytes than were written. To repair a single
	// damaged record, delete the plan by its id and put it again.
	ErrDamaged = errors.New("the database is damaged")
	// ErrFull says that the disk has no room. Nothing that was stored before is lost.
	ErrFull = errors.New("the disk is full")
	// ErrReadOnly says that the file or its file system cannot be written. Nothing that was
	// stored before is lost.
	ErrReadOnly = errors.New("the database cannot be written")
	// ErrBusy says that another process kept the file locked for all of the time that the
	// store waits. The call can be tried again.
	ErrBusy = errors.New("another process keeps the database locked")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("the store is closed")
)

// advice has for each of these errors what to do next.
var advice = map[error]string{
	ErrFull:     "nothing that was stored is lost; free some space, or lower the limit of stored bytes",
	ErrReadOnly: "nothing that was stored is lost; make the folder and its files writable, or choose another folder",
	ErrBusy:     "try again; if the error stays, find out which other process uses the file",
	ErrDamaged:  "stop all servers of the folder, move the file away or restore a copy of it, and start again",
}

// code returns SQLite's primary result code of an error, and 0 if it is not SQLite's.
func code(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

func isBusy(err error) bool {
	c := code(err)
	return c == sqlite3.SQLITE_BUSY || c == sqlite3.SQLITE_LOCKED || c == sqlite3.SQLITE_PROTOCOL
}

// explain wraps an error of SQLite in one that says what failed, where, and what to do; nil
// stays nil, and the errors of this package stay what they are.
func explain(path, verb string, err error) error {
	if err == nil {
		return nil
	}
	var what error
	switch code(err) {
	case sqlite3.SQLITE_FULL:
		what = ErrFull
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		what = ErrReadOnly
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		what = ErrBusy
	case sqlite3.SQLITE_CORRUPT:
		what = ErrDamaged
	case sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("store: %s %s: the file is no database: move it away, or choose another folder", verb, path)
	default:
		for known, advice := range advice {
			if errors.Is(err, known) {
				return fmt.Errorf("store: %s %s: %w: %s", verb, path, err, advice)
			}
		}
		return fmt.Errorf("store: %s %s: %w", verb, path, err)
	}
	return fmt.Errorf("store: %s %s: %w (%w): %s", verb, path, what, err, advice[what])
}
