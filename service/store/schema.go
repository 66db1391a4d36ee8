package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// application is SQLite's application_id of the files of this package, "neur" in ASCII, and
// schemaVersion their user_version.
const application, schemaVersion = 0x6e657572, 2

// schema makes the tables:
//
//	plans    a row for each id, with three texts of JSON under Zstandard, which has their checksum
//	history  a row for each name and plan: when the plan was first and last asked for under that
//	         name, in nanoseconds since 1970. The row with the highest seq is the last plan of the
//	         name; the name '' is the one of plans without a name. A plan ends with its last row.
const schema = `
CREATE TABLE plans (
	id TEXT PRIMARY KEY NOT NULL, digest TEXT NOT NULL, model TEXT NOT NULL, tool TEXT NOT NULL,
	created INTEGER NOT NULL, tables INTEGER NOT NULL, devices INTEGER NOT NULL, cost REAL NOT NULL,
	plan BLOB NOT NULL, problem BLOB NOT NULL, result BLOB NOT NULL
) STRICT;
CREATE TABLE history (
	seq INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, plan TEXT NOT NULL REFERENCES plans (id),
	first INTEGER NOT NULL, last INTEGER NOT NULL, UNIQUE (plan, name)
) STRICT;
CREATE INDEX history_name ON history (name, seq);
CREATE TRIGGER history_end AFTER DELETE ON history BEGIN
	DELETE FROM plans WHERE id = old.plan AND NOT EXISTS (SELECT 1 FROM history WHERE plan = old.plan);
END;
`

// more makes a table that files of earlier programs of this version do not have:
//
//	abouts   what a list says of a plan, a text of JSON
const more = `CREATE TABLE IF NOT EXISTS abouts (
	plan TEXT PRIMARY KEY NOT NULL REFERENCES plans (id) ON DELETE CASCADE, about TEXT NOT NULL
) STRICT;`

// patience is how long a statement waits for a lock that another process holds.
const patience = 10 * time.Second

// dsn returns what the driver needs to open path. SQLite reads a name that starts with "file:" as
// a URI, in which a path may have any characters.
func dsn(path string, pragmas ...string) string {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // C:/folder
	}
	query := url.Values{
		"_pragma": append([]string{fmt.Sprintf("busy_timeout(%d)", patience.Milliseconds()), "foreign_keys(1)", "trusted_schema(0)"}, pragmas...),
		"_txlock": {"immediate"}, // a transaction waits for its lock at its start
	}
	return (&url.URL{Scheme: "file", Path: slashed, RawQuery: query.Encode()}).String()
}

// useLog switches the file to a write-ahead log. SQLite does not wait for the locks of other
// processes in this one case, so useLog tries again.
func useLog(ctx context.Context, db *sql.DB) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var mode string
		err := db.QueryRowContext(ctx, "PRAGMA journal_mode(wal)").Scan(&mode)
		if err == nil && mode != "wal" {
			return fmt.Errorf("the file system cannot share a write-ahead log (SQLite's journal mode stays %q): choose a folder on a local disk", mode)
		}
		if !errors.Is(meaning(err), ErrBusy) || time.Now().After(deadline) {
			return err
		}
	}
}

// owned returns whether the file has the tables of this package. A file of another program, or of
// another version of the schema, is an error.
func owned(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
},
) (bool, error) {
	var version, id, tables int
	err := db.QueryRowContext(ctx, "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version, pragma_application_id").Scan(&version, &id, &tables)
	switch {
	case err != nil:
		return false, err
	case version == 0 && id == 0 && tables == 0:
		return false, nil
	case id != application:
		return false, errors.New("it is the database of another program: choose another folder")
	case version != schemaVersion:
		return false, fmt.Errorf("its schema has version %d, and this program knows version %d: start the neuroshard that wrote it, or choose another folder", version, schemaVersion)
	}
	return true, nil
}

// prepare makes the tables in a new file.
func (s *Store) prepare(ctx context.Context) error {
	// The file of another program stays as it is.
	if _, err := owned(ctx, s.writes); err != nil {
		return err
	}
	if err := useLog(ctx, s.writes); err != nil {
		return err
	}
	return s.change(ctx, func(tx *sql.Tx) error {
		made, err := owned(ctx, tx)
		if err != nil {
			return err
		}
		missing := more
		if !made {
			missing = schema + more + fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", application, schemaVersion)
		}
		_, err = tx.ExecContext(ctx, missing)
		return err
	})
}
