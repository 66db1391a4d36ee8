package manual

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/neuroshard/neuroshard/internal/words"
)

// aliasKey is the annotation of a plain flag that names the key that it states, too, and allKey that
// of a command whose help is to list its keys.
const aliasKey, allKey = "neuroshard_key", "neuroshard_all"

// setting is the value of a flag after Settle. key is true if --set alone states it, which opens it then.
type setting struct {
	pflag.Value
	key, open bool
	// stated and again are the value that was stated first, and another one that came later.
	stated, again *string
}

func (s *setting) Set(text string) error {
	if s.key && !s.open {
		return errors.New("it is a key")
	}
	if err := s.Value.Set(text); err != nil {
		return err
	}
	now := s.String()
	switch {
	case s.stated == nil:
		s.stated = &now
	case now != *s.stated:
		s.again = &now
	}
	return nil
}

// ValueOf returns the value of a flag as the command registered it.
func ValueOf(f *pflag.Flag) pflag.Value {
	if s, ok := f.Value.(*setting); ok {
		return s.Value
	}
	return f.Value
}

// IsKey reports whether --set states a flag.
func IsKey(f *pflag.Flag) bool {
	s, ok := f.Value.(*setting)
	return ok && s.key
}

// Settle makes all flags that are not plain keys, of the command and of those below it: --set states
// them, by names with underscores, and --help-all lists them. Restated then tells which were stated twice.
func Settle(c *cobra.Command, plain func(c *cobra.Command, name string) bool) {
	for _, sub := range c.Commands() {
		Settle(sub, plain)
	}
	flags, found := c.Flags(), false
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if !plain(c, name) {
			name = strings.ReplaceAll(name, "-", "_")
		}
		return pflag.NormalizedName(name)
	})
	flags.VisitAll(func(f *pflag.Flag) {
		isKey := !plain(c, f.Name)
		f.Value = &setting{Value: f.Value, key: isKey}
		if !isKey {
			return
		}
		found, f.Hidden = true, true
		if f.Annotations[sectionKey] == nil {
			annotate(f, sectionKey, "Keys of "+heading(c))
		}
	})
	if found {
		flags.Var(setter{flags}, "set", "state one of the keys that --help-all lists; may be repeated")
		_ = c.RegisterFlagCompletionFunc("set", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			flags.VisitAll(func(f *pflag.Flag) {
				if IsKey(f) {
					names = append(names, f.Name+"=")
				}
			})
			return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		})
		flags.VarPF(helpAll{c}, "help-all", "", "list the keys of --set, too").NoOptDefVal = "true"
	}
}

// Alias has --set state a plain flag under the name of a key, too.
func Alias(f *pflag.Flag, name string) { annotate(f, aliasKey, name) }

func annotate(f *pflag.Flag, name, value string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[name] = []string{value}
}

// setsKeys reports whether a flag states keys, or lists them.
func setsKeys(f *pflag.Flag) bool { return f.Name == "set" || f.Name == "help-all" }

// setter is the value of --set.
type setter struct{ flags *pflag.FlagSet }

func (setter) String() string { return "" }
func (setter) Type() string   { return "key=value" }

func (s setter) Set(text string) error {
	name, value, stated := strings.Cut(text, "=")
	var f *pflag.Flag
	s.flags.VisitAll(func(one *pflag.Flag) {
		if IsKey(one) && one.Name == name || slices.Equal(one.Annotations[aliasKey], []string{name}) {
			f = one
		}
	})
	switch {
	case f == nil:
		return s.unknown(name)
	case !stated && f.NoOptDefVal == "":
		return &KeyError{Message: name + ": the value is missing", Hint: "write --set " + name + "=VALUE"}
	case !stated:
		value = f.NoOptDefVal
	}
	if one, ok := f.Value.(*setting); ok {
		one.open = true
		defer func() { one.open = false }()
	}
	return s.flags.Set(f.Name, value)
}

// Restated returns an error for each setting that was stated with two values, unless it is a list that
// grows.
func Restated(c *cobra.Command) (all []*KeyError) {
	c.Flags().Visit(func(f *pflag.Flag) {
		s, ok := f.Value.(*setting)
		if !ok || s.again == nil || strings.HasSuffix(s.Type(), "Array") || strings.HasSuffix(s.Type(), "Slice") {
			return
		}
		name := f.Name
		if !s.key {
			name = "--" + name
		}
		all = append(all, &KeyError{Message: fmt.Sprintf("%s is stated twice: %s and %s", name, *s.stated, *s.again), Hint: "state it once"})
	})
	return all
}

// unknown returns the error of a key that the command does not have.
func (s setter) unknown(name string) error {
	var known []string
	s.flags.VisitAll(func(f *pflag.Flag) {
		if IsKey(f) {
			known = append(known, f.Name)
		}
	})
	hint := "see the keys with: --help-all"
	word := strings.ReplaceAll(strings.ToLower(name), "-", "_")
	if f := s.flags.Lookup(strings.ReplaceAll(word, "_", "-")); f != nil && !IsKey(f) {
		hint = "it is a flag: --" + f.Name
	} else if near := words.Closest(word, known); near != "" {
		hint = "did you mean " + near + "?"
	}
	return &KeyError{fmt.Sprintf("--set: the key %q is unknown", name), hint, word}
}

// KeyError is the error of a text of --set. Unknown is the key if the command does not have it.
type KeyError struct{ Message, Hint, Unknown string }

func (e *KeyError) Error() string { return e.Message }

// helpAll is the value of --help-all, which asks for the help with all keys.
type helpAll struct{ c *cobra.Command }

func (helpAll) String() string { return "" }
func (helpAll) Type() string   { return "bool" }

func (h helpAll) Set(string) error {
	h.c.Annotations = map[string]string{allKey: "true"}
	return pflag.ErrHelp
}

var dashes = regexp.MustCompile(`(?m)^ {6}(--)?`)

// keyUsages lists keys as FlagUsagesWrapped does, without dashes.
func (s section) keyUsages() string {
	return dashes.ReplaceAllStringFunc(s.flags.FlagUsagesWrapped(width), func(start string) string {
		return strings.Repeat(" ", len(start)-len("      "))
	})
}
