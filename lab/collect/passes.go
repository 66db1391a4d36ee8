package collect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/neuroshard/neuroshard/lab/dataset"
)

// passFolder returns the folder of one pass, which exists until all passes are measured.
func passFolder(folder string, pass int) string {
	return filepath.Join(folder, fmt.Sprintf("pass-%d", pass))
}

// passes measures the design of r once for each pass of r's options, each pass
// with a run of its own into a folder of its own, and joins the datasets. An
// interruption loses no more than it does in a single run. The run r itself
// measures nothing.
func (s store) passes(ctx context.Context, r *run, folder string) (none dataset.Dataset, err error) {
	path := filepath.Join(folder, journalName)
	if _, err := os.Stat(path); err == nil {
		return none, fmt.Errorf("folder %s: it holds a run of a single pass: measure once to go on with it, or name another folder", folder)
	}
	switch set, err := s.read(folder); {
	case err == nil:
		if err = r.finished(folder, set); !errors.Is(err, ErrFinished) {
			return none, err
		}
		return set, errors.Join(err, r.removePasses(folder))
	case !errors.Is(err, os.ErrNotExist):
		return none, fmt.Errorf("folder %s: it holds a dataset that cannot be read: %w: remove it or name another folder", folder, err)
	}
	if _, err := os.Stat(passFolder(folder, r.opt.Passes+1)); err == nil {
		return none, fmt.Errorf("folder %s: it holds more than %d passes: give the same number of passes to go on, or name another folder", folder, r.opt.Passes)
	}
	var sets []dataset.Dataset
	// done counts the measurements of the passes before this one, and earlier counts those
	// that earlier runs made.
	done, earlier := 0, 0
	for pass := 1; pass <= r.opt.Passes; pass++ {
		opt := r.opt
		opt.Passes = 0
		// Each remaining pass takes the same number of measurements as this one.
		last := Progress{Done: r.total(), Before: r.total()}
		opt.OnProgress = func(p Progress) {
			last = p
			p.Pass = pass
			p.Done, p.Before = done+p.Done, earlier+p.Before
			p.Total = done + (r.opt.Passes-pass+1)*p.Total
			r.opt.OnProgress(p)
		}
		set, err := s.run(ctx, r.design, r.backend, passFolder(folder, pass), opt)
		if err != nil && !errors.Is(err, ErrFinished) {
			return none, fmt.Errorf("pass %d of %d: %w", pass, r.opt.Passes, err)
		}
		sets = append(sets, set)
		done, earlier = done+last.Done, earlier+last.Before
	}
	// Each run measures some facts again; the facts of the first pass are kept.
	set, err := dataset.Join(r.opt.Fastest, sets...)
	if err != nil {
		return none, err
	}
	if err := s.write(folder, set); err != nil {
		return none, fmt.Errorf("%w: all is measured and kept in %s; start the same again to write it", err, folder)
	}
	s.sync(folder)
	return set, r.removePasses(folder)
}

// removePasses removes the folders of the joined passes.
func (r *run) removePasses(folder string) error {
	for pass := 1; pass <= r.opt.Passes; pass++ {
		if err := os.RemoveAll(passFolder(folder, pass)); err != nil {
			return fmt.Errorf("the dataset is written, but a pass of it is left: %w", err)
		}
	}
	return nil
}
