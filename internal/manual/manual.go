// Package manual renders what commands say of themselves: manual.go sorts flags into
// sections and prints the help of a command, markdown.go writes one page of all commands, and
// man.go writes a man page for each.
//
// All three read the same cobra.Command, so that no text stands twice. The package does not use
// cobra's templates, which keep every method of every type in the binary.
package manual

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sectionKey is the annotation of a flag that names its section.
const sectionKey = "neuroshard_section"

// general is the title of the section of flags without a section of their own.
const general = "Flags"

// Section puts the flags that are added to a set, until the returned function is called, into a
// section of the help: defer manual.Section(flags, "Keys of the cluster")(). Flags that have a
// section keep it.
func Section(flags *pflag.FlagSet, title string) func() {
	before := map[string]bool{}
	flags.VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	return func() {
		flags.VisitAll(func(f *pflag.Flag) {
			if !before[f.Name] && f.Annotations[sectionKey] == nil {
				annotate(f, sectionKey, title)
			}
		})
	}
}

// section is flags of a command under one title.
type section struct {
	title string
	flags *pflag.FlagSet
}

// sections returns the visible flags of a command, and then the sections of its keys by title.
func sections(c *cobra.Command, help bool) []section {
	var all []section
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden && !IsKey(f) || f.Name == "help" && !help {
			return
		}
		title, shown := general, *f
		if IsKey(f) {
			title = f.Annotations[sectionKey][0]
		}
		shown.Value, shown.Hidden = ValueOf(f), false
		f = &shown
		at := slices.IndexFunc(all, func(s section) bool { return s.title == title })
		if at < 0 {
			at, all = len(all), append(all, section{title, pflag.NewFlagSet("", pflag.ContinueOnError)})
		}
		all[at].flags.AddFlag(f)
	})
	slices.SortFunc(all, func(a, b section) int {
		return cmp.Or(strings.Compare(order(a.title), order(b.title)), strings.Compare(a.title, b.title))
	})
	return all
}

// order sorts the general section before all others.
func order(title string) string {
	if title == general {
		return ""
	}
	return "1"
}

// Usage prints how a command is called, its examples, its commands and its flags by sections.
// It is for cobra.Command.SetUsageFunc.
func Usage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if c.Runnable() {
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(c.Example, "\n"))
	}
	for _, g := range chapters(c) {
		fmt.Fprintf(&b, "\n%s:\n", g.title)
		for _, sub := range g.commands {
			fmt.Fprintf(&b, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
		}
	}
	for _, s := range sections(c, true) {
		if s.title == general {
			fmt.Fprintf(&b, "\n%s:\n%s", s.title, s.flags.FlagUsages())
		} else if c.Annotations[allKey] != "" {
			fmt.Fprintf(&b, "\n%s:\n%s", s.title, s.keyUsages())
		}
	}
	for i, topic := range topics(c) {
		if i == 0 {
			b.WriteString("\nAdditional help topics:\n")
		}
		fmt.Fprintf(&b, "  %-*s %s\n", topic.CommandPathPadding(), topic.CommandPath(), topic.Short)
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s [command] --help\" for more information about a command.\n", c.CommandPath())
	}
	_, err := io.WriteString(c.OutOrStderr(), b.String())
	return err
}

// chapter is commands under one title.
type chapter struct {
	title    string
	commands []*cobra.Command
}

// chapters returns the visible commands below a command by their groups, and those without a group
// last.
func chapters(c *cobra.Command) []chapter {
	var all []chapter
	for _, g := range c.Groups() {
		all = append(all, chapter{title: g.Title})
	}
	rest := chapter{title: "Commands"}
	if len(all) > 0 {
		rest.title = "More commands"
	}
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() && sub.Name() != "help" {
			continue
		}
		at := slices.IndexFunc(c.Groups(), func(g *cobra.Group) bool { return g.ID == sub.GroupID })
		if at < 0 {
			rest.commands = append(rest.commands, sub)
			continue
		}
		all[at].commands = append(all[at].commands, sub)
	}
	return slices.DeleteFunc(append(all, rest), func(g chapter) bool { return len(g.commands) == 0 })
}

// topics returns the help topics below a command: they run nothing.
func topics(c *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(c.Commands()), func(sub *cobra.Command) bool { return !sub.IsAdditionalHelpTopicCommand() })
}

// walk calls f for the visible commands below a command, parents first, in the order of the help.
// The command help is left out: it shows what the manual says. So are the shells of completion: the
// help of each says how to load its script.
func walk(c *cobra.Command, f func(*cobra.Command)) {
	for _, g := range chapters(c) {
		for _, sub := range g.commands {
			if sub.Name() != "help" {
				f(sub)
			}
			if sub.Name() != "help" && sub.Name() != "completion" {
				walk(sub, f)
			}
		}
	}
}

// paragraph is a part of a long text, without an empty line in it.
type paragraph struct {
	lines []string
	// shown is true for lines that keep their line breaks, because they are indented.
	shown bool
}

// paragraphs divides a long text at empty lines and where lines begin or end to be indented.
func paragraphs(text string) []paragraph {
	var all []paragraph
	open := false
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if strings.TrimSpace(line) == "" {
			open = false
			continue
		}
		shown := strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "\t")
		if !open || all[len(all)-1].shown != shown {
			all, open = append(all, paragraph{shown: shown}), true
		}
		last := &all[len(all)-1]
		last.lines = append(last.lines, line)
	}
	return all
}

// about returns the long text of a command, or its short one as a sentence.
func about(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return c.Short + "."
}
