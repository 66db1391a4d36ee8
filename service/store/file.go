package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// File is the name of the database in its folder. SQLite keeps two files beside it while
// the database is open: File + "-wal" and File + "-shm".
const File = "plans.db"

// patience is how long a statement waits for a lock that another process holds.
const patience = 10 * time.Second

// ownFile returns the absolute path of the database in folder, and makes sure that the
// folder and the file exist and that only their owner may read the file. It never opens an
// existing file: closing a file drops the locks that other stores of this process have on it.
func ownFile(folder string) (string, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(folder, File)
	info, err := made(folder, path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a file", path)
	}
	if info.Size() < 512 { // SQLite would take it as an empty database, and plans that it had would be gone without a word
		return "", fmt.Errorf("open %s: the file is no database: restore a copy, move it away, or choose another folder", path)
	}
	if runtime.GOOS == "windows" {
		return path, nil // permissions come from the folder
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if info.Mode().Perm()&0o077 != 0 {
			if err := os.Chmod(name, 0o600); err != nil {
				return "", fmt.Errorf("others may read %s, and its permissions cannot be changed: %w", name, err)
			}
		}
	}
	return path, nil
}

// made makes the database at path, if there is none, and removes what stores left that were killed
// while they made it.
func made(folder, path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		failed := create(folder, path)
		// If there is a database all the same, a store that started at the same time made it.
		if info, err = os.Stat(path); err != nil {
			return nil, cmp.Or(failed, err)
		}
	}
	if err == nil {
		removeParts(folder)
	}
	return info, err
}

// create makes a database without tables at path for its owner alone, if there is no file: under
// another name first, so that the file is whole, and closed before another store can lock it. The
// database has a header, so that a file of no bytes is one that lost its content.
func create(folder, path string) error {
	f, err := os.CreateTemp(folder, "."+File+"-*.part") // with permissions 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if err := f.Close(); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dsn(f.Name(), "auto_vacuum(incremental)"))
	if err != nil {
		return err
	}
	_, err = db.Exec(fmt.Sprintf("PRAGMA application_id = %d", application))
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	err = os.Link(f.Name(), path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	// A file system without links, where a store that starts at the same time may be replaced: it
	// has no plans yet.
	return os.Rename(f.Name(), path)
}

// removeParts removes the files that stores left which were killed while they made the database. There
// is a database now, so that nobody needs one of these files.
func removeParts(folder string) {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		// SQLite keeps a journal beside the file.
		name := strings.TrimSuffix(e.Name(), "-journal")
		if strings.HasPrefix(name, "."+File+"-") && strings.HasSuffix(name, ".part") {
			_ = os.Remove(filepath.Join(folder, e.Name()))
		}
	}
}

// dsn returns what the driver needs to know to open path. SQLite reads a file name that
// starts with "file:" as a URI, in which a path may have any characters.
func dsn(path string, pragmas ...string) string {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // C:/folder
	}
	query := url.Values{"_pragma": append([]string{
		fmt.Sprintf("busy_timeout(%d)", patience.Milliseconds()),
		"foreign_keys(1)",
		"trusted_schema(0)",
	}, pragmas...)}
	return (&url.URL{Scheme: "file", Path: slashed, RawQuery: query.Encode()}).String()
}

// useLog switches the file to a write-ahead log. SQLite does not wait for the locks of
// other processes in this one case, so useLog tries again.
func useLog(ctx context.Context, conn *sql.Conn) error {
	deadline := time.Now().Add(patience)
	for {
		var mode string
		err := conn.QueryRowContext(ctx, "PRAGMA journal_mode(wal)").Scan(&mode)
		switch {
		case err == nil && mode == "wal":
			return nil
		case err == nil:
			return fmt.Errorf("the file system cannot share a write-ahead log (SQLite's journal mode stays %q): choose a folder on a local disk", mode)
		case !isBusy(err) || time.Now().After(deadline):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
