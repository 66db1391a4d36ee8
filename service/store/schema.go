package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// application is SQLite's application_id of our files: "neur" in ASCII.
const application = 0x6e657572

// steps bring a file from each version of the schema to the next: steps[v] runs on a file of
// version v (PRAGMA user_version). A step that was released is never changed.
//
//	plans    one row for each id: numbers, names, and three texts of JSON under Zstandard
//	history  one row for each name and plan: when the plan was first and last put under that
//	         name. The rows' numbers grow with their last times and are never used again.
//	         The name '' is the one of plans without a name. newest is 1 in the last row of
//	         each other name.
//	totals   one row: the number of rows of history, kept by triggers
var steps = []string{`
CREATE TABLE plans (
	id      TEXT PRIMARY KEY NOT NULL,
	digest  TEXT NOT NULL,
	model   TEXT NOT NULL,
	tool    TEXT NOT NULL,
	created INTEGER NOT NULL, -- nanoseconds since 1970, UTC
	tables  INTEGER NOT NULL,
	devices INTEGER NOT NULL,
	cost    REAL NOT NULL,    -- milliseconds
	sum     BLOB NOT NULL,    -- checksum of all other columns
	plan    BLOB NOT NULL,
	problem BLOB NOT NULL,
	result  BLOB NOT NULL
) STRICT;
CREATE TABLE history (
	seq    INTEGER PRIMARY KEY AUTOINCREMENT,
	name   TEXT NOT NULL,
	plan   TEXT NOT NULL REFERENCES plans (id),
	first  INTEGER NOT NULL,
	last   INTEGER NOT NULL,
	newest INTEGER NOT NULL
) STRICT;
CREATE INDEX history_name ON history (name, seq);
CREATE UNIQUE INDEX history_plan ON history (plan, name);
CREATE INDEX history_old ON history (seq) WHERE newest = 0;
CREATE UNIQUE INDEX history_newest ON history (name) WHERE newest = 1;
CREATE TABLE totals (entries INTEGER NOT NULL) STRICT;
INSERT INTO totals VALUES (0);
CREATE TRIGGER history_insert AFTER INSERT ON history BEGIN
	UPDATE totals SET entries = entries + 1;
END;
CREATE TRIGGER history_delete AFTER DELETE ON history BEGIN
	UPDATE totals SET entries = entries - 1;
END;
`}

// migrate brings the file of conn to the version len(steps), in one transaction.
func migrate(ctx context.Context, conn *sql.Conn) (err error) {
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		}
	}()
	version, err := version(ctx, conn)
	if err != nil {
		return err
	}
	for _, step := range steps[version:] {
		if _, err := conn.ExecContext(ctx, step); err != nil {
			return fmt.Errorf("bring the schema from version %d to %d: %w", version, len(steps), err)
		}
	}
	if version < len(steps) {
		if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", application, len(steps))); err != nil {
			return err
		}
	}
	_, err = conn.ExecContext(context.WithoutCancel(ctx), "COMMIT")
	return err
}

// version returns the version of the file's schema, 0 of a database without tables. A file of
// another program and a file of a newer version are errors.
func version(ctx context.Context, conn *sql.Conn) (int, error) {
	var v, id, tables int
	// One statement sees the file before or after another process's change, and not between.
	err := conn.QueryRowContext(ctx, `SELECT (SELECT user_version FROM pragma_user_version),
		(SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_schema)`).Scan(&v, &id, &tables)
	if err != nil {
		return 0, err
	}
	switch {
	case v == 0 && id == application && tables == 0:
		return 0, nil
	case id != application || v < 1:
		return 0, errors.New("it is the database of another program: choose another folder")
	case v > len(steps):
		return 0, fmt.Errorf("its schema has version %d, and this program knows versions up to %d: start a newer neuroshard, or choose another folder", v, len(steps))
	}
	return v, nil
}
