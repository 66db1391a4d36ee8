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

// key is the value of a flag that is a key: --set alone states it.
type key struct {
	pflag.Value
	open bool
}

func (k *key) Set(text string) error {
	if !k.open {
		return errors.New("it is a key")
	}
	return k.Value.Set(text)
}

// ValueOf returns the value of a flag, or of a key.
func ValueOf(f *pflag.Flag) pflag.Value {
	if k, ok := f.Value.(*key); ok {
		return k.Value
	}
	return f.Value
}

// IsKey reports whether --set states a flag.
func IsKey(f *pflag.Flag) bool {
	_, ok := f.Value.(*key)
	return ok
}

// Settle makes all flags that are not plain keys, of the command and of those below it: --set states
// them, by names with underscores, and --help-all lists them.
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
		if plain(c, f.Name) {
			return
		}
		found = true
		f.Value, f.Hidden = &key{Value: f.Value}, true
		if f.Annotations[sectionKey] == nil {
			annotate(f, sectionKey, "Keys of "+heading(c))
		}
	})
	if found {
		flags.Var(setter{flags, map[string]string{}}, "set", "state one of the keys that --help-all lists; may be repeated")
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

// setter is the value of --set. stated holds the values of the plain flags that it stated.
type setter struct {
	flags  *pflag.FlagSet
	stated map[string]string
}

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
	before := f.Value.String()
	if k, ok := f.Value.(*key); ok {
		k.open = true
		defer func() { k.open = false }()
	}
	twice := f.Changed && !strings.HasSuffix(f.Value.Type(), "Array") && !strings.HasSuffix(f.Value.Type(), "Slice")
	if err := s.flags.Set(f.Name, value); err != nil {
		return err
	}
	if after := f.Value.String(); twice && after != before {
		return restated(name, before, after)
	}
	if !IsKey(f) {
		s.stated[f.Name] = f.Value.String()
	}
	return nil
}

// Restated returns the error of a flag that gives a setting another value than --set before it; nil if
// there is none.
func Restated(c *cobra.Command) *KeyError {
	var wrong *KeyError
	if set := c.Flags().Lookup("set"); set != nil {
		if s, ok := set.Value.(setter); ok {
			s.flags.VisitAll(func(f *pflag.Flag) {
				if before, ok := s.stated[f.Name]; ok && f.Value.String() != before {
					wrong = restated("--"+f.Name, before, f.Value.String())
				}
			})
		}
	}
	return wrong
}

func restated(name, before, after string) *KeyError {
	return &KeyError{Message: fmt.Sprintf("%s is stated twice: %s and %s", name, before, after), Hint: "state it once"}
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
