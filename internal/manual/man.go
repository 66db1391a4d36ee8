package manual

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Man returns a man page for the root command, its topics and each visible command below it, by the
// name of the file, such as "neuroshard-plan.1". The pages have no date: the same commands give the
// same bytes.
func Man(root *cobra.Command, version string) map[string][]byte {
	pages := map[string][]byte{}
	add := func(c *cobra.Command) { pages[pageName(c)+".1"] = page(c, version) }
	add(root)
	walk(root, add)
	for _, topic := range topics(root) {
		add(topic)
	}
	return pages
}

// pageName returns the name of the man page of a command.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// page writes the man page of a command, in the macros of man(7).
func page(c *cobra.Command, version string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %q \"1\" \"\" %q \"User Commands\"\n", strings.ToUpper(pageName(c)), c.Root().Name()+" "+version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(c)), roff(c.Short))
	if !c.IsAdditionalHelpTopicCommand() {
		fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	}
	b.WriteString(".SH DESCRIPTION\n")
	for i, p := range paragraphs(about(c)) {
		if p.shown {
			shown(&b, p.lines)
			continue
		}
		if i > 0 {
			b.WriteString(".PP\n")
		}
		for _, line := range p.lines {
			b.WriteString(roff(line) + "\n")
		}
	}
	for _, g := range chapters(c) {
		fmt.Fprintf(&b, ".SH %s\n", roff(strings.ToUpper(g.title)))
		for _, sub := range g.commands {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(sub.Name()), roff(sub.Short))
		}
	}
	for _, s := range sections(c, false) {
		fmt.Fprintf(&b, ".SH %s\n", roff(strings.ToUpper(s.title)))
		s.flags.VisitAll(func(f *pflag.Flag) { option(&b, f) })
	}
	if c.HasExample() {
		b.WriteString(".SH EXAMPLES\n")
		shown(&b, strings.Split(strings.TrimRight(c.Example, "\n"), "\n"))
	}
	seeAlso(&b, c)
	return b.Bytes()
}

// option writes one flag: its names, its value, what it does.
func option(b *bytes.Buffer, f *pflag.Flag) {
	value, usage := pflag.UnquoteUsage(f)
	names := "\\fB\\-\\-" + roff(f.Name) + "\\fR"
	if f.Shorthand != "" {
		names = "\\fB\\-" + roff(f.Shorthand) + "\\fR, " + names
	}
	if value != "" {
		names += " \\fI" + roff(value) + "\\fR"
	}
	fmt.Fprintf(b, ".TP\n%s\n%s\n", names, roff(usage+stated(f, usage)))
}

// stated returns the default of a flag, unless it is nothing or its usage states it.
func stated(f *pflag.Flag, usage string) string {
	switch f.DefValue {
	case "", "0", "false", "[]", "0s":
		return ""
	}
	if strings.Contains(usage, "(default") {
		return ""
	}
	return " (default " + f.DefValue + ")"
}

// shown writes lines that keep their breaks.
func shown(b *bytes.Buffer, lines []string) {
	b.WriteString(".PP\n.RS 2\n.nf\n")
	for _, line := range lines {
		b.WriteString(roff(strings.TrimPrefix(line, "  ")) + "\n")
	}
	b.WriteString(".fi\n.RE\n")
}

// seeAlso names the pages above, below and beside a command.
func seeAlso(b *bytes.Buffer, c *cobra.Command) {
	var names []string
	add := func(other *cobra.Command) {
		if other != c && other.Name() != "help" {
			names = append(names, "\\fB"+roff(pageName(other))+"\\fR(1)")
		}
	}
	if c.HasParent() {
		add(c.Parent())
	}
	for _, g := range chapters(c) {
		for _, sub := range g.commands {
			add(sub)
		}
	}
	for _, topic := range topics(c.Root()) {
		add(topic)
	}
	if len(names) > 0 {
		fmt.Fprintf(b, ".SH SEE ALSO\n%s\n", strings.Join(names, ",\n"))
	}
}

// roff escapes a line of text: backslashes, hyphens, and what begins a line as a macro does.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}
