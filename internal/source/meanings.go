package source

import "strings"

// A Meaning is a word that once meant several things in this repository, with
// the one meaning that it keeps.
type Meaning struct {
	// Word is in lower case and singular.
	Word string
	// Means is the word's one meaning.
	Means string
	// Packages lists the names of the packages that may declare names with the
	// word; it is empty if no package may.
	Packages []string
}

// Meanings returns the words that may be part of a declared name in a few
// packages only, in alphabetical order.
func Meanings() []Meaning {
	return []Meaning{
		{"group", "the shards of one device that run as one operation", []string{
			"bench", "collect", "cost", "dataset", "design", "preferred", "protocol", "report",
			"simulate", "train", "verify", "worker",
		}},
		{"kind", "what is known of a table's accesses: a histogram, an exponent, nothing", []string{"access"}},
		{"lot", "no meaning: the word is operator class", nil},
		{"meter", "no meaning: the words are measurement backend and progress bar", nil},
		{"pool", "a set of tables to draw tasks from", []string{"bench", "design", "lab", "workload"}},
		{"rank", "the number of a process, and of its device, in an exchange", []string{
			"export", "input", "protocol", "worker",
		}},
		{"spread", "how far repeated times of one sample lie apart", []string{
			"bench", "collect", "dataset", "design", "protocol", "train", "verify",
		}},
	}
}

// Uses returns the names of a package, outside of tests, that contain a word in
// singular or plural.
func Uses(p *Package, word string) []Name {
	var all []Name
	for _, name := range Names(p) {
		for _, w := range Words(name.Text) {
			if strings.TrimSuffix(w, "s") == word {
				all = append(all, name)
				break
			}
		}
	}
	return all
}
