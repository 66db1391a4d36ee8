// Package store keeps finished plans in one SQLite file, so that servers find a plan by its id
// and by the name of its model, also after a restart. Several servers may use one file.
//
//	Open            makes or opens the file plans.db of a folder; the usual entry point
//	Put, Touch      add a plan, or note that a plan was requested again
//	Get, Delete     read or delete the plan of an id
//	List, Names     list the history of a name, or the names, newest first
//	Check, Verify   check that the file can be used, or read all of it to find damage
//	Close           closes the file
//
// The other files of the package hold the database file and its permissions (file.go), the
// schema and the steps from one version to the next (schema.go), the only connection that writes
// (writer.go), histories and the deletions that keep to the limits (history.go), records as rows
// (record.go), and errors with their advice (errors.go).
//
// A plan is on the disk when Put returns: the file has a write-ahead log, and SQLite syncs
// the log before a commit ends (synchronous=FULL). If a process is killed in the middle of a
// Put, the file is as it was before or after that Put. Several processes of one
// machine may use one file at the same time. A network file system does not share the
// memory that the processes need for their locks, so the folder must be on a local disk.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/neuroshard/neuroshard/unit"
)

// Options are the limits of a store. The zero value takes the defaults.
type Options struct {
	// Keep is what the store keeps at most.
	Keep Keep
	// MaxRecord is the largest sum of the plan, the problem and the result of one record,
	// before compression; 128 MiB if it is 0, and at most 512 MiB.
	MaxRecord unit.Bytes

	unsynced bool // for tests that never lose power: nothing waits for the disk
}

// complete returns the options with their defaults, or an error that names all values out
// of range.
func (o Options) complete() (Options, error) {
	var wrong []error
	if o.Keep.Plans < 0 || o.Keep.Bytes < 0 || o.MaxRecord < 0 {
		wrong = append(wrong, errors.New("store: a limit is negative: limits are positive, and 0 takes the default"))
	}
	if o.MaxRecord > maxRecord {
		wrong = append(wrong, fmt.Errorf("store: the limit of a record is %v: at most %v are possible", o.MaxRecord, maxRecord))
	}
	if o.Keep.Plans == 0 {
		o.Keep.Plans = 100_000
	}
	if o.Keep.Bytes == 0 {
		o.Keep.Bytes = 10 * unit.GiB
	}
	if o.MaxRecord == 0 {
		o.MaxRecord = 128 * unit.MiB
	}
	return o, errors.Join(wrong...)
}

// Keep limits the size of a store. If a Put exceeds a limit, it deletes the oldest entries of
// the histories until both limits hold, and the plans that are then in no history. The last
// plan of a name is deleted only if nothing else is left to delete. The entry of the Put always
// stays. One Put deletes at most 64 entries, so after the limits were lowered, several Puts are
// needed until they hold.
type Keep struct {
	// Plans is the most entries of all histories together; a plan that was put under two
	// names has two entries. 0 is 100,000.
	Plans int
	// Bytes is the most bytes of the database in use, without its log; 0 takes the
	// default of 10 GiB. The log adds up to 16 MiB. The space of deleted plans is used again, or
	// goes back to the file system in small steps.
	Bytes unit.Bytes
}

// Store is an open file of plans. It is safe for concurrent use. Several stores, of one
// process or of several, may have the same file open.
type Store struct {
	path    string
	file    os.FileInfo // of path when it was opened
	options Options

	reads   *sql.DB              // its connections only read
	queries map[string]*sql.Stmt // of reads, by their text
	writes  *sql.DB              // its one connection is writer's
	// turn holds a value while nobody uses writer, which is nil when the store is closed.
	turn   chan struct{}
	writer *writer
	codec  *codec
}

// Open opens the file of plans in folder, and makes the folder and the file if they do not
// exist. Both then belong to their owner alone, and an existing file loses the permissions
// of others. Open refuses a file that is no database of this package and a file of a newer
// version. The caller must close the store.
func Open(ctx context.Context, folder string, options Options) (*Store, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	path, err := ownFile(folder)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	s := &Store{path: path, options: options, queries: map[string]*sql.Stmt{}, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	if err := s.connect(ctx); err != nil {
		return nil, errors.Join(s.explain("open", err), s.Close())
	}
	return s, nil
}

// connect opens the connections of the store and brings the file to the present schema.
func (s *Store) connect(ctx context.Context) (err error) {
	if s.codec, err = newCodec(); err != nil {
		return err
	}
	sync := "synchronous(full)"
	if s.options.unsynced {
		sync = "synchronous(off)"
	}
	s.writes, err = sql.Open("sqlite", dsn(s.path, "auto_vacuum(incremental)", sync, "journal_size_limit(16777216)"))
	if err != nil {
		return err
	}
	s.writes.SetMaxOpenConns(1)
	conn, err := s.writes.Conn(ctx)
	if err != nil {
		return err
	}
	s.writer = &writer{conn, map[string]*sql.Stmt{}}
	// The file of another program stays as it is.
	if _, err := version(ctx, conn); err != nil {
		return err
	}
	if err := useLog(ctx, conn); err != nil {
		return err
	}
	if err := migrate(ctx, conn); err != nil {
		return err
	}
	s.reads, err = sql.Open("sqlite", dsn(s.path, "query_only(1)"))
	if err != nil {
		return err
	}
	s.reads.SetMaxOpenConns(4)
	s.reads.SetMaxIdleConns(4)
	for _, text := range []string{getText, newestText, listText, listNameText, namesText, totalText} {
		if s.queries[text], err = s.reads.PrepareContext(ctx, text); err != nil {
			return err
		}
	}
	s.file, err = os.Stat(s.path)
	return err
}

// Put stores a record and adds it to the history of its name. The record is on the disk when
// Put returns nil. If the store has a plan with this id already, that plan stays, the name's
// history notes the plan anew, and fresh is false: Get returns what is stored.
//
// Put returns ErrTooLarge for a record above the limit. A context that ends stops a Put that
// waits for its turn; a Put that was stopped later may be stored or not.
func (s *Store) Put(ctx context.Context, r Record) (fresh bool, err error) {
	if err := checkRecord(r, s.options.MaxRecord); err != nil {
		return false, fmt.Errorf("store: put plan %q: %w", r.ID, err)
	}
	row := s.codec.encode(r)
	err = s.change(ctx, func(w *writer) error {
		var one int
		switch err := w.row(ctx, insertText, row.values(r.ID), &one); {
		case err == nil:
			fresh = true
		case !isNone(err):
			return err
		}
		seq, err := w.note(ctx, r.ID, r.Name, r.Created)
		if err != nil {
			return err
		}
		return w.keep(ctx, s.options.Keep, seq)
	})
	if err != nil {
		return false, s.explain("write", err)
	}
	return fresh, nil
}

// Touch notes that the stored plan with an id was asked for under a name again: the plan
// becomes the last of the name's history, and it is deleted later than older plans when the
// store is full. A plan that is the last of its name already needs no write. Touch returns
// ErrNotFound if no plan has the id.
func (s *Store) Touch(ctx context.Context, id, name string, at time.Time) error {
	if err := errors.Join(checkID(id), checkText("name", name)); err != nil {
		return fmt.Errorf("store: touch plan %q: %w", id, err)
	}
	var newest string
	err := s.queries[newestText].QueryRowContext(ctx, name).Scan(&newest)
	if err == nil && newest == id {
		return nil
	}
	if err != nil && !isNone(err) {
		return s.explain("read", err)
	}
	return s.explain("write", s.change(ctx, func(w *writer) error {
		var one int
		if err := w.row(ctx, existsText, []any{id}, &one); err != nil {
			return notFound(id, err)
		}
		seq, err := w.note(ctx, id, name, at)
		if err != nil {
			return err
		}
		return w.keep(ctx, s.options.Keep, seq)
	}))
}

// Get returns the plan with an id, under the name that it was last put or touched under. It
// returns ErrNotFound if there is none, and ErrDamaged if the stored plan is not what was put.
func (s *Store) Get(ctx context.Context, id string) (Record, error) {
	var row encoded
	var name string
	err := s.queries[getText].QueryRowContext(ctx, id).Scan(append(row.pointers(), &name)...)
	if err != nil {
		return Record{}, s.explain("read", notFound(id, err))
	}
	r, err := s.codec.decode(id, row)
	if err != nil {
		return Record{}, s.explain("read", fmt.Errorf("plan %q: %w", id, err))
	}
	r.Name = name
	return r, nil
}

// Delete removes the plan with an id from the store and from all histories. It returns
// ErrNotFound if there is none.
func (s *Store) Delete(ctx context.Context, id string) error {
	return s.explain("write", s.change(ctx, func(w *writer) error {
		var one int
		if err := w.row(ctx, existsText, []any{id}, &one); err != nil {
			return notFound(id, err)
		}
		return w.forgetPlan(ctx, id)
	}))
}

// notFound returns ErrNotFound with the id if err means that no plan has the id, and else err.
func notFound(id string, err error) error {
	if isNone(err) {
		return fmt.Errorf("plan %q: %w", id, ErrNotFound)
	}
	return err
}

// List returns the entries of a name, newest first; the entries of all names and of plans
// without a name if name is empty.
func (s *Store) List(ctx context.Context, name string, page Page) ([]Entry, error) {
	before, limit := page.bounds()
	text, values := listText, []any{before, limit}
	if name != "" {
		text, values = listNameText, append([]any{name}, values...)
	}
	var all []Entry
	err := s.rows(ctx, text, values, func(rows *sql.Rows) error {
		e, err := scanEntry(rows)
		all = append(all, e)
		return err
	})
	return all, err
}

// Names returns the names that plans were put under, those with the newest entries first.
// The page's Before is the Seq of Name.Last.
func (s *Store) Names(ctx context.Context, page Page) ([]Name, error) {
	before, limit := page.bounds()
	var all []Name
	err := s.rows(ctx, namesText, []any{before, limit}, func(rows *sql.Rows) error {
		var n Name
		var err error
		n.Last, err = scanEntry(rows, &n.Plans)
		n.Name = n.Last.Name
		all = append(all, n)
		return err
	})
	return all, err
}

// rows calls scan for each row of a query that was prepared.
func (s *Store) rows(ctx context.Context, text string, values []any, scan func(*sql.Rows) error) error {
	rows, err := s.queries[text].QueryContext(ctx, values...)
	if err != nil {
		return s.explain("read", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return s.explain("read", err)
		}
	}
	return s.explain("read", rows.Err())
}

// Path returns the path of the database.
func (s *Store) Path() string { return s.path }

// Check returns an error if the file can no longer be read, or if the path no longer leads
// to the file that was opened. It does little work: a server may call it every second.
func (s *Store) Check(ctx context.Context) error {
	if err := s.samePath(); err != nil {
		return err
	}
	var entries int64
	return s.explain("read", s.queries[totalText].QueryRowContext(ctx).Scan(&entries))
}

// Verify reads the whole file and returns an error if its structure is damaged. It takes time
// in proportion to the file.
func (s *Store) Verify(ctx context.Context) error {
	var found string
	err := s.reads.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&found)
	if err == nil && found != "ok" {
		err = fmt.Errorf("%w: %s", ErrDamaged, found)
	}
	return s.explain("verify", err)
}

// samePath returns an error if another file, or no file, is at the path of the store: what
// is written to the opened file would be lost.
func (s *Store) samePath() error {
	info, err := os.Stat(s.path)
	if err != nil {
		return fmt.Errorf("store: the database was removed while it was open: %w", err)
	}
	if !os.SameFile(info, s.file) {
		return fmt.Errorf("store: another file was put in the place of %s while it was open: restart the server", s.path)
	}
	return nil
}

// Close ends the store: SQLite brings the log into the database and removes the log if no
// other store has the file open. Calls after Close fail, apart from Close.
func (s *Store) Close() error {
	var errs []error
	<-s.turn
	defer func() { s.turn <- struct{}{} }()
	if s.writer != nil {
		errs = append(errs, s.writer.close())
		s.writer = nil
	}
	for _, db := range []*sql.DB{s.reads, s.writes} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if s.codec != nil {
		errs = append(errs, s.codec.close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("store: close %s: %w", s.path, err)
	}
	return nil
}

// explain is explain for the store's file.
func (s *Store) explain(verb string, err error) error { return explain(s.path, verb, err) }
