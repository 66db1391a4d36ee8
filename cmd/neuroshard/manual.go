package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/manual"
)

// Titles of the sections of flags that several commands share.
const (
	clusterSection   = "Keys of the cluster"
	stepSection      = "Keys of the whole step"
	backendSection   = "Keys of the backend"
	searchSection    = "Keys of the search"
	drawsSection     = "Keys of the draws"
	benchSection     = "Keys of a comparison"
	pageSection      = "Keys of a page"
	prototypeSection = "Keys of the prototype's nets"
)

// commandChapters divides the list of commands, by the names of commands.
var commandChapters = []struct {
	id, title string
	commands  []string
}{
	{"plans", "Plans", []string{"plan", "show", "diff", "compare", "replan", "sweep", "watch", "convert", "check", "serve", "list"}},
	{"lab", "Experts", []string{"lab"}},
}

// plainFlags are the flags of all commands; everything else is a key of --set.
var plainFlags = strings.Fields(`
	device
	output json full help help-all set version
	hosts gpus gpu memory host-memory batch optimizer engine cluster types model budget seed tables all-tables
	max-bytes lost-gpus lost-hosts exit-code batch-per-rank horizon by csv plot prices part to from once features
	listen data token-file tls-cert tls-key allow-host log
	backend worker samples trace shard limit ceilings simulate ensemble learning-curve columns rows hash-size
	count methods tasks budgets clusters markdown man`)

// describe gives the commands their groups and the help its form.
func describe(root *cobra.Command) {
	root.SetUsageFunc(manual.Usage)
	manual.Settle(root, func(c *cobra.Command, name string) bool {
		ofLab := name == "backend" || name == "worker"
		return slices.Contains(plainFlags, name) && !(ofLab && c.Name() == "plan")
	})
	for _, g := range commandChapters {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, name := range g.commands {
			if c, _, err := root.Find([]string{name}); err == nil && c != root {
				c.GroupID = g.id
			}
		}
	}
}

// manualTitle and manualOpening begin docs/COMMANDS.md.
const (
	manualTitle   = "Commands"
	manualOpening = "After reading this page you know every command, its flags and its exit codes. The page is the commands' own help: `neuroshard COMMAND --help` prints a part of it, and [CONTRIBUTING.md](../CONTRIBUTING.md) says how it is made. Objects of `--json` are drawn in [PLAN.md](PLAN.md#json-of-the-reports), [OPERATION.md](OPERATION.md) and [SEARCH.md](SEARCH.md#comparing-methods)."
)

// newManualCommand writes the help of all commands in other forms. Releases and documents are
// made with it; it is hidden from users.
func newManualCommand(a *app) *cobra.Command {
	var markdown, man string
	cmd := &cobra.Command{
		Use:    "manual",
		Hidden: true,
		Short:  "Write the help of all commands as Markdown, or as man pages",
		Args:   exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (markdown == "") == (man == "") {
				return usagef("", "manual: give one of --markdown and --man")
			}
			if markdown != "" {
				return a.writeOut(markdown, manual.Markdown(cmd.Root(), manualTitle, manualOpening, map[string]string{clusterSection: "FORMATS.md#the-cluster-file"}))
			}
			return bad(manual.Man(cmd.Root(), neuroshard.Version, man), "")
		},
	}
	cmd.Flags().StringVar(&markdown, "markdown", "", "`file` of docs/COMMANDS.md; - is standard output")
	cmd.Flags().StringVar(&man, "man", "", "`folder` to write the man pages to")
	return cmd
}

const conventions = `Every command prints its result to standard output; errors, hints and progress go to
standard error. An error reads

  neuroshard: error: tables.json:12: table "user": dim 6 is not a multiple of 4
  neuroshard: hint: pad the table to 8 columns

and all errors of all inputs are reported together.

The file - is standard input; -o - is standard output, for every command that writes a
file. An empty value, such as -o '', is an error, and so is an output that is one of the
command's inputs. Files are written whole or not at all.

TABLES is a file of tables, a scenario (docs/FORMATS.md), - or workload:NAME for a
published model (neuroshard list workloads).

A file of tables needs a cluster: --gpu with --hosts or --gpus, or --cluster. A workload has a
default cluster, and a plan states its own. A cluster file replaces that cluster; flags and
--set key=value override single fields of any of them. Keys are those of the cluster file
and of the command; --help-all lists them.

Sizes have a unit: GiB is 2^30 bytes, GB is 10^9. Times are milliseconds. A time that
comes from the simulated device says SIMULATED (docs/SIMULATED.md).

Progress is shown only if standard error is a terminal. Colours are used only if standard
output is a terminal and NO_COLOR is not set.`

// newConventionsTopic is shown by: neuroshard help conventions.
func newConventionsTopic() *cobra.Command {
	return &cobra.Command{Use: "conventions", Short: "What all commands have in common", Long: conventions}
}
