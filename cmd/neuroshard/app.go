package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/modelfile"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/internal/atomicfile"
	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/lab/dataset"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/report"
)

// app is what all commands share.
type app struct {
	stdin  io.Reader
	stdout *output
	stderr io.Writer
	env    environment
	reads  reads
	// stdinRead is true once an input was standard input.
	stdinRead bool
	// described is the file that --device names.
	described string
	// running is true once flags and arguments were accepted. An error before that is
	// an error of usage.
	running bool
}

// open opens a file, or stdin for "-".
func (a *app) open(path string) (name string, r io.ReadCloser, err error) {
	return a.openOr(path, "check the path")
}

// openOr opens a file, or stdin for "-". The hint is for a file that does not exist.
func (a *app) openOr(path, hint string) (name string, r io.ReadCloser, err error) {
	if path == standardOutput {
		if a.stdinRead {
			return "standard input", nil, faulty("two inputs come from standard input", "standard input can be read once: name files for the others")
		}
		a.stdinRead = true
		return "standard input", countedReader{io.NopCloser(a.stdin), &a.reads}, nil
	}
	var f *os.File
	a.reads.during(func() { f, err = os.Open(path) })
	if err != nil {
		return path, nil, unreadable(path, err, hint)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		_ = f.Close()
		return path, nil, unreadable(path, errors.New("it is a folder"), hint)
	}
	return path, countedFile{f, &a.reads}, nil
}

// readPlan reads a plan from a file, or from stdin for "-".
func (a *app) readPlan(path string) (*plan.Plan, error) {
	pl, _, err := a.readStated(path)
	return pl, err
}

// readStated reads a plan file as plan.ReadStated does.
func (a *app) readStated(path string) (pl *plan.Plan, digest bool, err error) {
	name, r, err := a.open(path)
	if err != nil {
		return nil, false, err
	}
	defer r.Close()
	if pl, digest, err = plan.ReadStated(r); err != nil {
		return nil, false, usagef("plans are written by: neuroshard plan TABLES -o plan.json", "%s: %w", name, err)
	}
	return pl, digest, nil
}

// mostDoubted is the number of violations of a plan that are printed by commands that go on.
const mostDoubted = 3

// doubt says what is wrong with a plan that a command shows all the same.
func (a *app) doubt(path string, pl *plan.Plan) {
	found := pl.Check()
	for _, v := range found[:min(mostDoubted, len(found))] {
		warn(a.stderr, "%s is not valid: %v", path, v)
	}
	if more := words.More("", len(found)-mostDoubted); more != "" {
		warn(a.stderr, "%s violations: list them with neuroshard check PLAN TABLES", more)
	}
}

// warn prints a warning, in which no text of a file can disturb the terminal.
func warn(w io.Writer, format string, args ...any) {
	fmt.Fprintln(w, "neuroshard: warning:", report.OneLine(fmt.Sprintf(format, args...)))
}

// readDataset reads a dataset's folder.
func (a *app) readDataset(folder string) (dataset.Dataset, error) {
	if err := checkFolder(folder); err != nil {
		return dataset.Dataset{}, bad(err, "datasets are written by: neuroshard lab collect -o "+folder)
	}
	set, err := dataset.Read(folder)
	return set, bad(err, "datasets are written by: neuroshard lab collect -o "+folder)
}

// loadModel loads a cost model from a folder, or that of a device from the device's file.
func (a *app) loadModel(folder string) (*cost.Model, error) {
	if err := unknownRelease(folder); err != nil {
		return nil, err
	}
	if ext := filepath.Ext(folder); folder != "" && folder == a.described || ext == ".yaml" || ext == ".yml" {
		return a.loadDevice(folder)
	}
	if err := checkFolder(folder); err != nil {
		return nil, bad(fmt.Errorf("model %w", err), "make one with: neuroshard lab train")
	}
	file, err := modelfile.Read(os.DirFS(folder), ".")
	if err != nil {
		return nil, bad(fmt.Errorf("model %s: %w", folder, err), "make one with: neuroshard lab train")
	}
	model, err := cost.Load(file)
	return model, bad(err, "make it again with: neuroshard lab train")
}

// loadDevice reads a device's file, and returns the cost model of the profile under like, with the device's numbers.
func (a *app) loadDevice(path string) (*cost.Model, error) {
	name, r, err := a.open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	device, like, err := input.Device(name, r)
	if err != nil {
		return nil, err
	}
	file, err := pretrained.File(like.Name)
	if err != nil {
		return nil, bad(err, "")
	}
	shipped, err := cost.Load(file)
	if err != nil {
		return nil, bad(err, "")
	}
	model, err := shipped.Like(device)
	return model, bad(err, "")
}

// checkFolder refuses an input that is no folder.
func checkFolder(path string) error {
	switch info, err := os.Stat(path); {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s: there is no such folder", path)
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s: it is a file, not a folder", path)
	default:
		return err
	}
}

// givenModel loads the cost model that --model names; nil without the flag.
func (a *app) givenModel(folder string) (*cost.Model, error) {
	if folder == "" {
		return nil, nil
	}
	return a.loadModel(folder)
}

// printJSON prints a value as indented JSON.
func (a *app) printJSON(v any) error { return indented(a.stdout, v) }

// printPlan prints a plan as its file has it, and its warnings to stderr, because no report
// shows them.
func (a *app) printPlan(pl *plan.Plan) error {
	for _, warning := range pl.Provenance.Warnings {
		warn(a.stderr, "%s", warning)
	}
	return bad(pl.Write(a.stdout), "")
}

// writeOut writes a result to a file, whole or not at all, or to standard output if
// the path is "-" or empty.
func (a *app) writeOut(path string, data []byte) error {
	if toStandardOutput(path) {
		_, err := a.stdout.Write(data)
		return bad(err, "")
	}
	return writeFile(path, data)
}

// checkOutput refuses, before the work, an output file that could not be written after it,
// or that is one of the inputs of the command (see overwrites).
func (a *app) checkOutput(path string, inputs ...string) error {
	if toStandardOutput(path) {
		return nil
	}
	const hint = "--output names the file to write"
	// A link leads to the file that is written, also if the file does not exist yet.
	target, err := atomicfile.Target(path)
	if err != nil {
		return bad(err, hint)
	}
	folder := filepath.Dir(target)
	switch info, err := os.Stat(folder); {
	case err != nil:
		return usagef("make the folder first, or name another one", "--output: there is no folder %s", folder)
	case !info.IsDir():
		return usagef(hint, "--output: %s is not a folder", folder)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return usagef(hint, "--output: %s is a folder", path)
	}
	return a.overwrites(path, inputs...)
}

// overwrites refuses an output that is one of the inputs, or a file in a folder that is an
// input: the command would destroy what it reads. Inputs that are no files are passed over.
func (a *app) overwrites(output string, inputs ...string) error {
	written, err := os.Stat(output)
	if err != nil {
		return nil // it does not exist: nothing is lost
	}
	for _, input := range inputs {
		read, err := a.stat(input)
		if err != nil {
			continue
		}
		inside := false
		if folder, err := os.Stat(filepath.Dir(output)); err == nil && read.IsDir() && !written.IsDir() {
			inside = os.SameFile(folder, read)
		}
		if inside || os.SameFile(written, read) {
			return usagef("name another output", "%s is an input of this command, which would overwrite it", output)
		}
	}
	return nil
}

// stat describes an input: a file, a folder, or "-" for standard input.
func (a *app) stat(input string) (os.FileInfo, error) {
	if stdin, ok := a.stdin.(*os.File); ok && input == "-" {
		return stdin.Stat()
	}
	return os.Stat(input)
}

// reportOptions returns the width of stdout, and whether stdout takes colours: it does if
// stdout is a terminal and NO_COLOR (no-color.org) is not set.
func (a *app) reportOptions() report.Options {
	width, ok := a.env.terminal(a.stdout.to)
	if !ok {
		return report.Options{}
	}
	return report.Options{Width: width, Colour: a.env.getenv("NO_COLOR") == "" && a.env.getenv("TERM") != "dumb"}
}

func (a *app) newProgressBar() *progressBar {
	_, on := a.env.terminal(a.stderr)
	return &progressBar{to: a.stderr, terminal: on, now: a.env.now, told: a.env.now()}
}

// plainWidth is the width assumed for a terminal that does not state its width.
const plainWidth = 120
