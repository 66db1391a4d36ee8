package docs_test

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/source"
)

// sectionOf returns the part of docs/ARCHITECTURE.md under a heading.
func sectionOf(t *testing.T, heading string) string {
	t.Helper()
	_, section, found := strings.Cut(read(t, "docs/ARCHITECTURE.md"), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/ARCHITECTURE.md has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// TestGlossary wants each word once in the glossary, with one meaning.
func TestGlossary(t *testing.T) {
	seen := map[string]bool{}
	rows := regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \|$`).FindAllStringSubmatch(sectionOf(t, "Words"), -1)
	for _, row := range rows[1:] {
		for word := range strings.SplitSeq(row[1], ", ") {
			if seen[word] {
				t.Errorf("the glossary has %q twice", word)
			}
			seen[word] = true
		}
		if strings.Contains(row[2], "; also") {
			t.Errorf("the glossary has two meanings of %q: %s", row[1], row[2])
		}
	}
	if len(seen) < 20 {
		t.Errorf("got %d words, want the glossary", len(seen))
	}
}

// TestOneMeaning keeps words that had several meanings to the packages in which
// they have one.
func TestOneMeaning(t *testing.T) {
	found := map[string]int{}
	for _, meaning := range source.Meanings() {
		for _, p := range module(t).Packages {
			if uses := source.Uses(p, meaning.Word); len(uses) > 0 && !slices.Contains(meaning.Packages, p.Name) {
				found[meaning.Word+" "+p.Folder] = len(uses)
			}
		}
	}
	compareExceptions(t, "meanings", found, "names with this word, which has one meaning in other packages (internal/source/meanings.go)")
}

// TestTwins refuses pairs of names in which one stands for the other in a second world,
// such as X and SpreadX.
func TestTwins(t *testing.T) {
	found := map[string]int{}
	for _, p := range module(t).Packages {
		names := map[[2]string]bool{}
		for _, name := range source.Names(p) {
			names[[2]string{name.Owner, strings.ToLower(name.Text)}] = !name.Field
		}
		for _, name := range source.Names(p) {
			for _, twin := range []string{"Spread" + name.Text, name.Text + "Spread", name.Text + "All", name.Text + "Kinds"} {
				if names[[2]string{name.Owner, strings.ToLower(twin)}] {
					found[p.Folder+" "+cmp.Or(name.Owner, p.Name)+"."+name.Text+" and "+twin]++
				}
			}
		}
	}
	compareExceptions(t, "twins", found, "extend the data or add an implementation instead of a twin")
}

// TestMethodsInTwoFiles keeps the methods of a type together.
func TestMethodsInTwoFiles(t *testing.T) {
	found := map[string]int{}
	for _, p := range module(t).Packages {
		for _, typ := range source.Types(p) {
			if len(typ.Files) > 2 {
				found[p.Folder+" "+typ.Name] = len(typ.Files)
			}
		}
	}
	compareExceptions(t, "methods", found, "files hold methods of the type; want at most 2")
}

// TestComplexity keeps functions short of branches.
func TestComplexity(t *testing.T) {
	found := map[string]int{}
	for _, p := range module(t).Packages {
		limit := 15
		if strings.HasPrefix(p.Folder, "cmd/") {
			limit = 20
		}
		for _, fn := range source.Functions(p) {
			if fn.Complexity > limit {
				found[p.Folder+" "+fn.Name] = fn.Complexity
			}
		}
	}
	compareExceptions(t, "complexity", found, "cyclomatic complexity; want at most 15, and 20 in cmd/")
}

// TestPackageComment wants the package comment of a package of four or more
// files to name each file, because there a file is a phase or a part. The file
// that holds the package comment, doc.go, and the file that is named as the
// package need no mention. Outside of these folders the files of a package are
// variants of one thing: commands, reports, kernels, formats.
func TestPackageComment(t *testing.T) {
	found := map[string]int{}
	for _, p := range module(t).Packages {
		top, _, _ := strings.Cut(p.Folder, "/")
		if len(p.Files) < 4 || !slices.Contains([]string{"problem", "cost", "search", "plan", "simulate", "lab"}, top) ||
			p.Folder == "problem/input" || p.Folder == "cost/prototype" {
			continue
		}
		for _, f := range p.Files {
			stem := source.Stem(f.Name())
			if f.Syntax.Doc != nil || stem == "doc" || stem == p.Name {
				continue
			}
			if !strings.Contains(p.Doc, stem+".go") {
				found[p.Folder+" "+stem+".go"] = 1
			}
		}
	}
	compareExceptions(t, "comments", found, "the package comment does not name this file")
}

// TestRootFolders wants at most 14 folders with Go code at the root.
func TestRootFolders(t *testing.T) {
	var folders []string
	for _, p := range module(t).Packages {
		if top, _, _ := strings.Cut(p.Folder, "/"); top != "." && !slices.Contains(folders, top) {
			folders = append(folders, top)
		}
	}
	if len(folders) > 14 {
		t.Errorf("got %d folders with Go code at the root, want at most 14: %v", len(folders), folders)
	}
}

// forbidden are the words that Plain English does without. The key of each pattern is a string that
// all of its matches contain, so that only lines with this string are searched. Lines are in lower case.
var forbidden = map[string]*regexp.Regexp{
	"dear":          regexp.MustCompile(`\bdear(er|est|ly)?\b|\bdearest`),
	" many":         regexp.MustCompile(`\b(so|as) many\b`),
	"at the begin":  regexp.MustCompile(`\bat the begin\b`),
	"in no way":     regexp.MustCompile(`\bin no way\b`),
	" told":         regexp.MustCompile(`\b(is|are|was|were|be) told\b`),
	"of which":      regexp.MustCompile(`[,;:] (\w+ )?of which\b|\bof which there\b`),
	"what there is": regexp.MustCompile(`\bwhat there is\b`),
	"where there ":  regexp.MustCompile(`\bwhere there (is|are)\b`),
	"besides":       regexp.MustCompile(`\bbesides\b`),
	"may nothing":   regexp.MustCompile(`\bmay nothing\b`),
	" indeed":       regexp.MustCompile(`\bprice(s|d)? indeed\b`),
}

// TestProse looks for these words in code, documents and scripts.
func TestProse(t *testing.T) {
	found := map[string]int{}
	for _, name := range files(t, ".go", ".md", ".yml", ".py", ".json") {
		if name == "docs/rules_test.go" || name == "CHANGELOG.md" || path.Base(name) == "LICENSE" {
			continue // these lists; and what was written at the time
		}
		for line := range strings.Lines(strings.ToLower(read(t, name))) {
			for words, pattern := range forbidden {
				if strings.Contains(line, words) {
					found[name] += len(pattern.FindAllString(line, -1))
				}
			}
		}
		if found[name] == 0 {
			delete(found, name)
		}
	}
	compareExceptions(t, "prose", found, "words that Plain English does without (docs/rules_test.go lists them)")
}
