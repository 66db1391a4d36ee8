package manual

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/internal/must"
)

// tool returns a small command line: two commands that share a section of flags, one below
// another, a hidden one, and a topic.
func tool() *cobra.Command {
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "tool", Short: "Do things", Long: "tool does things.\n\n  tool make x\n", Run: run}
	root.AddGroup(&cobra.Group{ID: "main", Title: "Main things"})
	shared := func(c *cobra.Command, names ...string) {
		defer Section(c.Flags(), "Keys of sizes")()
		for _, name := range names {
			c.Flags().Int(name, 3, "`size` of the "+name)
		}
	}
	mk := &cobra.Command{
		Use: "make FILE [MORE]", GroupID: "main", Short: "Make a thing", Run: run, Example: "  tool make a*.txt --width 3",
		Long: "Make a thing (--force makes it again).\nSee docs/PLAN.md for <things>.\n\n.dots and 'quotes' begin lines, and \\ is no macro.",
	}
	mk.Flags().BoolP("force", "f", false, "make it again")
	mk.Flags().String("secret", "", "not shown")
	_ = mk.Flags().MarkHidden("secret")
	shared(mk, "width", "height")
	list := &cobra.Command{Use: "list", Short: "List things", Run: run}
	shared(list, "width")
	list.AddCommand(&cobra.Command{Use: "all KIND", Short: "List all", Run: run})
	defer Settle(root, func(_ *cobra.Command, name string) bool { return name != "width" && name != "height" })
	root.AddCommand(mk, list, &cobra.Command{Use: "ghost", Short: "Not shown", Hidden: true, Run: run}, &cobra.Command{Use: "colours", Short: "What colours mean", Long: "Red is bad."})
	return root
}

func TestMarkdown(t *testing.T) {
	got := string(Markdown(tool(), "Commands", "An opening.", nil))
	const want = "# Commands\n\nAn opening.\n\n**Main things:** [make](#make)\n\n**More commands:** [list](#list)\n" +
		"\n## What colours mean\n\nRed is bad.\n" +
		"\n## make\n\n`tool make FILE [MORE] [flags]`\n\nMake a thing (`--force` makes it again). See [PLAN.md](PLAN.md) for \\<things\\>.\n" +
		"\n.dots and 'quotes' begin lines, and \\ is no macro.\n\n```\ntool make a*.txt --width 3\n```\n" +
		"\n```\n  -f, --force   make it again\n```\n\nKeys for `--set`: [keys of sizes](#keys-of-sizes).\n" +
		"\n## list\n\n`tool list [flags]`\n\nList things.\n\nKeys for `--set`: [keys of sizes](#keys-of-sizes) without `height`.\n" +
		"\n### list all\n\n`tool list all KIND`\n\nList all.\n" +
		"\n## Keys of sizes\n\n```\n  height size   size of the height (default 3)\n  width size    size of the width (default 3)\n```\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	got = string(Markdown(tool(), "Commands", "An opening.", map[string]string{"Keys of sizes": "SIZES.md"}))
	if strings.Contains(got, "## Keys of sizes") || !strings.Contains(got, "[keys of sizes](SIZES.md) without `height`.") {
		t.Errorf("keys on another page: got\n%s", got)
	}
}

func TestFlagsOnce(t *testing.T) {
	root := &cobra.Command{Use: "tool"}
	for _, name := range []string{"make", "list"} {
		c := &cobra.Command{Use: name, Short: "Do it", Run: func(*cobra.Command, []string) {}}
		c.Flags().Int("own", 1, "of "+name)
		end := Section(c.Flags(), "Keys of sizes")
		for i, flag := range []string{"a", "b", "c", "d", "e"} {
			switch {
			case name == "list" || i < 3:
				c.Flags().Int(flag, 1, "size")
			case i == 3:
				c.Flags().Int(flag, 1, "another")
			}
		}
		end()
		root.AddCommand(c)
	}
	Settle(root, func(*cobra.Command, string) bool { return true })
	got := string(Markdown(root, "Commands", "An opening.", nil))
	for _, want := range []string{
		"\n```\n      --d int     another (default 1)\n      --own int   of make (default 1)\n```\n\nIt also takes the [flags of sizes](#flags-of-sizes) without `--e`.\n",
		"\n```\n      --own int   of list (default 1)\n```\n\nIt also takes the [flags of sizes](#flags-of-sizes).\n",
		"\n## Flags of sizes\n\n```\n      --a int   size (default 1)\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got no %q in\n%s", want, got)
		}
	}
}

func TestMan(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	folder := filepath.Join(t.TempDir(), "man")
	must.Do(t, Man(tool(), "1.2.3", folder))
	for _, name := range []string{"tool.1", "tool-make.1", "tool-list.1", "tool-list-all.1", "tool-colours.1"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "tool-ghost.1")); err == nil {
		t.Error("got a page of a hidden command")
	}
	page := must.Get(os.ReadFile(filepath.Join(folder, "tool-make.1")))(t)
	for _, want := range []string{
		`.TH "TOOL-MAKE" "1" "Sep 2001" "tool 1.2.3" "User Commands"`, ".SH SYNOPSIS\n\\fBtool make FILE [MORE] [flags]\\fP\n",
		"See docs/PLAN.md for <things>", "\n\\&.dots and 'quotes' begin lines", "\\fB--set\\fP=", "tool make a*.txt --width 3\n",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("got no %q in\n%s", want, page)
		}
	}
	if strings.Contains(string(page), "secret") {
		t.Errorf("got a hidden flag in\n%s", page)
	}
}

func TestUsage(t *testing.T) {
	root := tool()
	root.SetUsageFunc(Usage)
	for args, want := range map[string]string{
		"--help": "tool does things.\n\n  tool make x\n\nUsage:\n  tool [flags]\n  tool [command]\n\nMain things:\n  make        Make a thing\n\n" +
			"More commands:\n  completion  Generate the autocompletion script for the specified shell\n  help        Help about any command\n  list        List things\n\n" +
			"Flags:\n  -h, --help   help for tool\n\nAdditional help topics:\n  tool colours    What colours mean\n\nUse \"tool [command] --help\" for more information about a command.\n",
		"list --help": "List things\n\nUsage:\n  tool list [flags]\n  tool list [command]\n\nCommands:\n  all         List all\n\nFlags:\n  -h, --help            help for list\n      --help-all        list the keys of --set, too\n      --set key=value   state one of the keys that --help-all lists; may be repeated\n\nUse \"tool list [command] --help\" for more information about a command.\n",
	} {
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs(strings.Fields(args))
		if err := root.Execute(); err != nil || out.String() != want {
			t.Errorf("%s: got error %v and\n%s\nwant\n%s", args, err, out.String(), want)
		}
	}
}
