package manual

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// width is the width of the tables of flags, in columns.
const width = 110

// Markdown returns a page of the root command, its topics and all visible commands below it.
// Keys stand once, at the end, by their sections; so do flags of sections that several commands have.
// elsewhere has links to the sections that another page has, by their titles.
func Markdown(root *cobra.Command, title, opening string, elsewhere map[string]string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n%s\n", title, strings.TrimSpace(opening))
	for _, g := range chapters(root) {
		fmt.Fprintf(&b, "\n**%s:**", g.title)
		for i, c := range g.commands {
			if c.Name() == "help" {
				continue
			}
			comma := ","
			if i == 0 {
				comma = ""
			}
			fmt.Fprintf(&b, "%s [%s](#%s)", comma, c.Name(), anchor(heading(c)))
		}
		b.WriteString("\n")
	}
	for _, topic := range topics(root) {
		fmt.Fprintf(&b, "\n## %s\n\n%s", topic.Short, linked(topic))
	}
	shared, once := sharedSections(root), sharedFlags(root)
	page := pages{shared, once, elsewhere}
	walk(root, func(c *cobra.Command) { page.write(&b, c) })
	for _, s := range once {
		fmt.Fprintf(&b, "\n## %s\n\n```\n%s```\n", s.title, s.flags.FlagUsagesWrapped(width))
	}
	for _, s := range shared {
		if elsewhere[s.title] == "" {
			fmt.Fprintf(&b, "\n## %s\n\n```\n%s```\n", s.title, s.keyUsages())
		}
	}
	return b.Bytes()
}

// pages says where keys and flags stand that several commands share: sections of keys, sections of
// flags, and links to the sections of keys on other pages, by title.
type pages struct {
	shared, once []section
	elsewhere    map[string]string
}

// write writes the section of a command.
func (p pages) write(b *bytes.Buffer, c *cobra.Command) {
	fmt.Fprintf(b, "\n%s %s\n\n`%s`\n\n%s", strings.Repeat("#", 1+depth(c)), heading(c), c.UseLine(), linked(c))
	if c.HasExample() {
		fmt.Fprintf(b, "\n```\n%s\n```\n", strings.TrimRight(unindent(c.Example), "\n"))
	}
	var keys, flags []string
	for _, s := range sections(c, false) {
		if s.title != general {
			at := slices.IndexFunc(p.shared, func(x section) bool { return x.title == s.title })
			keys = append(keys, p.reference(s, p.shared[at]))
			continue
		}
		own := pflag.NewFlagSet("", pflag.ContinueOnError)
		s.flags.VisitAll(func(f *pflag.Flag) {
			if !setsKeys(f) && !slices.ContainsFunc(p.once, func(x section) bool { return x.has(f) }) {
				own.AddFlag(f)
			}
		})
		if own.HasFlags() {
			fmt.Fprintf(b, "\n```\n%s```\n", own.FlagUsagesWrapped(width))
		}
		for _, x := range p.once {
			if count(x.of(s)) > 0 {
				flags = append(flags, p.reference(s, x))
			}
		}
	}
	if len(flags) > 0 {
		fmt.Fprintf(b, "\nIt also takes the %s.\n", strings.Join(flags, "; "))
	}
	if len(keys) > 0 {
		fmt.Fprintf(b, "\nKeys for `--set`: %s.\n", strings.Join(keys, "; "))
	}
}

// depth returns the number of commands above a command.
func depth(c *cobra.Command) int {
	n := 0
	for ; c.HasParent(); c = c.Parent() {
		n++
	}
	return n
}

// heading returns the command without the name of the program.
func heading(c *cobra.Command) string {
	return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
}

var dropped = regexp.MustCompile(`[^a-z0-9 _-]`)

// anchor returns the name that a heading has in links.
func anchor(heading string) string {
	return strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// sharedSections returns the sections of keys, each with the keys of the command that has most of
// them, in the order in which they are met.
func sharedSections(root *cobra.Command) []section {
	var all []section
	walk(root, func(c *cobra.Command) {
		for _, s := range sections(c, false) {
			at := slices.IndexFunc(all, func(x section) bool { return x.title == s.title })
			switch {
			case s.title == general:
			case at < 0:
				all = append(all, s)
			case count(s) > count(all[at]):
				all[at] = s
			}
		}
	})
	return all
}

// sharedFlags returns the plain flags of sections of keys that at least two commands have flags of.
func sharedFlags(root *cobra.Command) []section {
	var all []section
	users := map[string]int{}
	walk(root, func(c *cobra.Command) {
		mine := map[string]*pflag.FlagSet{}
		for _, s := range sections(c, false) {
			s.flags.VisitAll(func(f *pflag.Flag) {
				title := flagsTitle(f)
				if s.title != general || title == "" {
					return
				}
				if mine[title] == nil {
					mine[title] = pflag.NewFlagSet("", pflag.ContinueOnError)
				}
				mine[title].AddFlag(f)
			})
		}
		for _, title := range slices.Sorted(maps.Keys(mine)) {
			users[title]++
			own := section{title, mine[title]}
			if at := slices.IndexFunc(all, func(x section) bool { return x.title == title }); at < 0 {
				all = append(all, own)
			} else if count(own) > count(all[at]) {
				all[at] = own
			}
		}
	})
	return slices.DeleteFunc(all, func(s section) bool { return users[s.title] < 2 })
}

// flagsTitle returns the title of the flags of the section of a plain flag, or "".
func flagsTitle(f *pflag.Flag) string {
	if f.Annotations[sectionKey] == nil {
		return ""
	}
	return "Flags" + strings.TrimPrefix(f.Annotations[sectionKey][0], "Keys")
}

// has reports whether a flag stands in a section of flags, in the same words.
func (s section) has(f *pflag.Flag) bool {
	other := s.flags.Lookup(f.Name)
	return other != nil && flagsTitle(f) == s.title && other.Usage == f.Usage && other.DefValue == f.DefValue
}

// of returns those flags of another section that stand in s.
func (s section) of(other section) section {
	found := section{s.title, pflag.NewFlagSet("", pflag.ContinueOnError)}
	other.flags.VisitAll(func(f *pflag.Flag) {
		if s.has(f) {
			found.flags.AddFlag(f)
		}
	})
	return found
}

func count(s section) int {
	n := 0
	s.flags.VisitAll(func(*pflag.Flag) { n++ })
	return n
}

// reference returns a link to a section of keys, with those that the command lacks.
func (p pages) reference(own, shared section) string {
	var lacks []string
	shared.flags.VisitAll(func(f *pflag.Flag) {
		if own.flags.Lookup(f.Name) == nil {
			name := f.Name
			if !IsKey(f) && flagsTitle(f) == shared.title {
				name = "--" + name
			}
			lacks = append(lacks, "`"+name+"`")
		}
	})
	to := cmp.Or(p.elsewhere[shared.title], "#"+anchor(shared.title))
	link := fmt.Sprintf("[%s%s](%s)", strings.ToLower(shared.title[:1]), shared.title[1:], to)
	if len(lacks) > 0 {
		link += " without " + strings.Join(lacks, ", ")
	}
	return link
}

var (
	flagWord = regexp.MustCompile(`(^|[\s(])(--[a-z][a-z-]*(?:=[A-Za-z]+)?)`)
	pageWord = regexp.MustCompile(`docs/([A-Z]+\.md)`)
)

// linked renders the long text of a command, with links to the pages of docs/.
func linked(c *cobra.Command) string {
	return pageWord.ReplaceAllString(prose(about(c)), "[$1]($1)")
}

// prose renders a long text: flags in the font of code, indented lines as they are.
func prose(text string) string {
	var b strings.Builder
	for i, p := range paragraphs(text) {
		if i > 0 {
			b.WriteString("\n")
		}
		if p.shown {
			fmt.Fprintf(&b, "```\n%s\n```\n", unindent(strings.Join(p.lines, "\n")))
			continue
		}
		line := strings.NewReplacer("&", `\&`, "<", `\<`, ">", `\>`, "*", `\*`, "_", `\_`).Replace(strings.Join(p.lines, " "))
		line = flagWord.ReplaceAllString(line, "$1`$2`")
		b.WriteString(line + "\n")
	}
	return b.String()
}

// unindent removes two spaces, or a tab, at the start of each line.
func unindent(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(strings.TrimPrefix(lines[i], "\t"), "  ")
	}
	return strings.Join(lines, "\n")
}
