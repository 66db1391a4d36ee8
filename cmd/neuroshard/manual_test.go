package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestCommandsPage wants docs/COMMANDS.md to be what the commands say of themselves.
func TestCommandsPage(t *testing.T) {
	const page = "../../docs/COMMANDS.md"
	made := runHere(t.Context(), quiet(), "manual", "--markdown", "-")
	if made.code != exitOK {
		t.Fatalf("got exit code %d: %s", made.code, made.stderr)
	}
	if *update {
		if err := os.WriteFile(page, []byte(made.stdout), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != made.stdout {
		t.Errorf("docs/COMMANDS.md is not the commands' help (make it again: go run ./cmd/neuroshard manual --markdown docs/COMMANDS.md)")
	}
	if !strings.Contains(made.stdout, "write the plan to this file") || !strings.Contains(made.stdout, "0  done; diff:") {
		t.Error("docs/COMMANDS.md lacks a flag of plan, or the exit codes")
	}
}

// TestEveryCommandHasItsManual wants each command in docs/COMMANDS.md, each of its flags in its
// section there or in a section that it refers to, and a man page of it with all its flags.
func TestEveryCommandHasItsManual(t *testing.T) {
	folder := t.TempDir()
	if r := runHere(t.Context(), quiet(), "manual", "--man", folder); r.code != exitOK {
		t.Fatalf("got exit code %d: %s", r.code, r.stderr)
	}
	doc := runHere(t.Context(), quiet(), "manual", "--markdown", "-").stdout
	root := newRootCommand(&app{stdout: &output{to: &strings.Builder{}}, stderr: &strings.Builder{}, env: quiet()})
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.Hidden {
				continue
			}
			visit(sub)
			name := strings.TrimPrefix(sub.CommandPath(), "neuroshard ")
			page, err := os.ReadFile(filepath.Join(folder, strings.ReplaceAll(sub.CommandPath(), " ", "-")+".1"))
			if err != nil {
				t.Error(err)
			}
			if sub.IsAdditionalHelpTopicCommand() {
				continue
			}
			if !strings.Contains(doc, "# "+name) {
				t.Errorf("docs/COMMANDS.md has no section %q", name)
			}
			sub.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if !strings.Contains(doc, "--"+f.Name+" ") && f.Name != "help" {
					t.Errorf("docs/COMMANDS.md does not have %s --%s", name, f.Name)
				}
				if !strings.Contains(string(page), `--`+f.Name+`\fP`) && f.Name != "help" {
					t.Errorf("the man page of %s does not have --%s", name, f.Name)
				}
			})
		}
	}
	visit(root)
}

// TestManualIsHidden wants the command that makes documents out of users' way, and its flags
// checked.
func TestManualIsHidden(t *testing.T) {
	if help := runHere(t.Context(), quiet(), "--help"); strings.Contains(help.stdout, "manual") {
		t.Errorf("got a help that lists the command manual: %s", help.stdout)
	}
	for _, args := range [][]string{{"manual"}, {"manual", "--man", "x", "--markdown", "-"}} {
		if r := runHere(t.Context(), quiet(), args...); r.code != exitBad {
			t.Errorf("%q: got exit code %d, want %d", args, r.code, exitBad)
		}
	}
}

// TestChaptersNameCommands wants every command that a group of the help names to exist.
func TestChaptersNameCommands(t *testing.T) {
	root := newRootCommand(&app{stdout: &output{to: &strings.Builder{}}, stderr: &strings.Builder{}, env: quiet()})
	for _, g := range commandChapters {
		for _, name := range g.commands {
			if c, _, err := root.Find([]string{name}); name != "serve" && (err != nil || c.Name() != name) {
				t.Errorf("group %q names %q, which is no command", g.title, name)
			}
		}
	}
}
