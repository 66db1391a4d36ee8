package collect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/neuroshard/neuroshard/lab/dataset"
)

// passPrefix begins the names of the folders of passes.
const passPrefix = "pass-"

// passFolder returns the folder of one pass. It exists until all passes are
// measured.
func passFolder(folder string, pass int) string {
	return filepath.Join(folder, fmt.Sprint(passPrefix, pass))
}

// passes measures the design of r once for each pass of r's options, each pass with
// its own run into its own folder, and joins the datasets. An interruption loses no
// more than in a single run. The run r itself measures nothing.
func (s store) passes(ctx context.Context, r *run, folder string) (none dataset.Dataset, err error) {
	path := filepath.Join(folder, journalName)
	if _, err := os.Stat(path); err == nil {
		return none, fmt.Errorf("folder %s: it holds a run of a single pass: continue with a single pass, or name another folder", folder)
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
		return none, fmt.Errorf("folder %s: it holds more than %d passes: continue with the same number of passes, or name another folder", folder, r.opt.Passes)
	}
	var sets []dataset.Dataset
	// done is the number of measurements of the passes before this one, and earlier
	// the number of those that earlier runs made.
	done, earlier := 0, 0
	for pass := 1; pass <= r.opt.Passes; pass++ {
		opt := r.opt
		opt.Passes = 0
		// Each remaining pass takes as long as this one, in measurements.
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
	// Each run measures the facts about the device again; the facts of the first pass
	// are kept.
	set, err := dataset.Join(r.opt.Fastest, sets...)
	if err != nil {
		return none, err
	}
	if err := s.write(folder, set); err != nil {
		return none, fmt.Errorf("%w: all measurements are kept in %s; run the same command again to write the dataset", err, folder)
	}
	s.sync(folder)
	return set, r.removePasses(folder)
}

// removePasses removes the folders of the joined passes.
func (r *run) removePasses(folder string) error {
	for pass := 1; pass <= r.opt.Passes; pass++ {
		if err := os.RemoveAll(passFolder(folder, pass)); err != nil {
			return fmt.Errorf("the dataset is written, but the folder of a pass could not be removed: %w", err)
		}
	}
	return nil
}
