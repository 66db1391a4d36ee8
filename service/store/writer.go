package store

import (
	"context"
	"database/sql"
	"errors"
)

// writer is the connection that changes the file.
type writer struct {
	conn       *sql.Conn
	statements map[string]*sql.Stmt // by their text
}

// change runs f in a transaction of the store's writer. The transaction has the file's write
// lock from its start and is on the disk when change returns nil; otherwise nothing of it
// happened, apart from a commit that failed at its last sync.
func (s *Store) change(ctx context.Context, f func(*writer) error) (err error) {
	if err := s.samePath(); err != nil {
		return err
	}
	select {
	case <-s.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.turn <- struct{}{} }()
	w := s.writer
	if w == nil {
		return ErrClosed
	}
	if err := w.run(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	always := context.WithoutCancel(ctx)
	defer func() {
		if err != nil {
			// After some errors SQLite has ended the transaction already.
			_ = w.run(always, "ROLLBACK")
		}
	}()
	if err := f(w); err != nil {
		return err
	}
	if err := w.shrink(ctx); err != nil {
		return err
	}
	return w.run(always, "COMMIT")
}

// prepared returns the statement with a text, which it prepares once.
func (w *writer) prepared(ctx context.Context, text string) (*sql.Stmt, error) {
	if st := w.statements[text]; st != nil {
		return st, nil
	}
	st, err := w.conn.PrepareContext(ctx, text)
	if err == nil {
		w.statements[text] = st
	}
	return st, err
}

// run executes a statement without results.
func (w *writer) run(ctx context.Context, text string, values ...any) error {
	st, err := w.prepared(ctx, text)
	if err != nil {
		return err
	}
	_, err = st.ExecContext(ctx, values...)
	return err
}

// row puts the first row of a query into to; sql.ErrNoRows says that there is none.
func (w *writer) row(ctx context.Context, text string, values []any, to ...any) error {
	st, err := w.prepared(ctx, text)
	if err != nil {
		return err
	}
	return st.QueryRowContext(ctx, values...).Scan(to...)
}

func isNone(err error) bool { return errors.Is(err, sql.ErrNoRows) }

func (w *writer) close() error {
	var errs []error
	for _, st := range w.statements {
		errs = append(errs, st.Close())
	}
	return errors.Join(append(errs, w.conn.Close())...)
}
