package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/neuroshard/neuroshard/lab/collect"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/unit"
)

// flags.go holds the values of flags, and completion of them in a shell.

// complete offers a flag's values to the shell.
func complete(cmd *cobra.Command, flag string, values func() []string) {
	completeBy(cmd, flag, func(string) ([]string, cobra.ShellCompDirective) { return values(), cobra.ShellCompDirectiveNoFileComp })
}

// completeBy offers what a function returns for the word that is begun.
func completeBy(cmd *cobra.Command, flag string, offer func(word string) ([]string, cobra.ShellCompDirective)) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return offer(word)
	})
	if err != nil {
		panic("neuroshard: " + err.Error())
	}
}

// completeList offers a flag's values to the shell, and after a comma those that are
// not in the list yet.
func completeList(cmd *cobra.Command, flag string, values func() []string) {
	completeBy(cmd, flag, func(word string) ([]string, cobra.ShellCompDirective) {
		list := word[:strings.LastIndexByte(word, ',')+1]
		known := strings.Split(list, ",")
		var offers []string
		for _, value := range values() {
			if !slices.Contains(known, value) && (list == "" || value != allShardingTypes) {
				offers = append(offers, list+value)
			}
		}
		return offers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}

// size is a flag's value in bytes, with its unit: unit.ParseSize.
type size unit.Bytes

func (s *size) Set(text string) error {
	b, err := unit.ParseSize(text)
	if err == nil {
		*s = size(b)
	}
	return err
}

func (s *size) String() string {
	if *s == 0 {
		return ""
	}
	return unit.Bytes(*s).String()
}

func (s *size) Type() string { return "size" }

// shardFlag is a flag's value of the form i/n.
type shardFlag collect.Shard

func (s *shardFlag) Set(text string) error {
	first, second, ok := strings.Cut(text, "/")
	index, err1 := strconv.Atoi(first)
	count, err2 := strconv.Atoi(second)
	if !ok || err1 != nil || err2 != nil || index < 1 || index > count {
		return fmt.Errorf("shard %q is not of the form 2/8, from 1/8 to 8/8", text)
	}
	*s = shardFlag{Index: index, Count: count}
	return nil
}

func (s *shardFlag) String() string {
	if s.Count == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.Index, s.Count)
}

func (s *shardFlag) Type() string { return "i/n" }

// intList is a flag's value of whole numbers, separated by commas.
type intList []int

func (l *intList) Set(text string) error {
	var values []int
	for word := range strings.SplitSeq(text, ",") {
		v, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			return fmt.Errorf("%q is not a whole number", word)
		}
		values = append(values, v)
	}
	slices.Sort(values)
	*l = slices.Compact(values)
	return nil
}

func (l *intList) String() string {
	words := make([]string, len(*l))
	for i, v := range *l {
		words[i] = strconv.Itoa(v)
	}
	return strings.Join(words, ",")
}

func (l *intList) Type() string { return "list" }

// methodFlag is a flag's value that names a search method.
type methodFlag search.Method

func (m *methodFlag) Set(text string) error {
	if !slices.Contains(search.Methods(), search.Method(text)) {
		return fmt.Errorf("method %q is unknown: choose one of %s", text, strings.Join(methods(), ", "))
	}
	*m = methodFlag(text)
	return nil
}

func (m *methodFlag) String() string { return string(*m) }
func (m *methodFlag) Type() string   { return "method" }

// allShardingTypes is the value of --types that stands for all sharding types.
const allShardingTypes = "all"

// shardingTypesFlag is a flag's value that lists sharding types.
type shardingTypesFlag []problem.ShardingType

func (k *shardingTypesFlag) Set(text string) error {
	if text == allShardingTypes {
		*k = problem.ShardingTypes()
		return nil
	}
	var list []problem.ShardingType
	for _, name := range strings.Split(text, ",") {
		if strings.TrimSpace(name) == allShardingTypes {
			return fmt.Errorf("write %s alone, or the types", allShardingTypes)
		}
		shardingType, err := problem.ParseShardingType(strings.TrimSpace(name))
		if err != nil {
			return fmt.Errorf("%w, or %s", err, allShardingTypes)
		}
		if !slices.Contains(list, shardingType) {
			list = append(list, shardingType)
		}
	}
	*k = list
	return nil
}

func (k *shardingTypesFlag) String() string {
	if len(*k) == len(problem.ShardingTypes()) {
		return allShardingTypes
	}
	var names []string
	for _, shardingType := range *k {
		names = append(names, string(shardingType))
	}
	return strings.Join(names, ",")
}

func (k *shardingTypesFlag) Type() string { return "types" }

// options returns the sharding types as a search takes them.
func (k *shardingTypesFlag) options() []problem.ShardingType { return search.Allowing(*k) }

func shardingTypeNames() []string {
	var names []string
	for _, shardingType := range problem.ShardingTypes() {
		names = append(names, string(shardingType))
	}
	return names
}

func methods() []string {
	var names []string
	for _, m := range search.Methods() {
		names = append(names, string(m))
	}
	return names
}
