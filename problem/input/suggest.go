package input

import (
	"fmt"
	"slices"
	"strings"
)

// synonyms maps words that other tools use for a table's properties to ours.
var synonyms = map[string]string{
	"num_embeddings":   "rows",
	"num_rows":         "rows",
	"hash_size":        "rows",
	"hash_sizes":       "rows",
	"cardinality":      "rows",
	"vocabulary_size":  "rows",
	"vocab_size":       "rows",
	"embedding_dim":    "dim",
	"emb_dim":          "dim",
	"dimension":        "dim",
	"columns":          "dim",
	"feature_names":    "features",
	"pooling_factors":  "pooling_factor",
	"bag_size":         "pooling_factor",
	"hotness":          "pooling_factor",
	"multi_hot_size":   "pooling_factor",
	"is_weighted":      "weighted",
	"data_type":        "precision",
	"dtype":            "precision",
	"alpha":            "zipf",
	"pin":              "device",
	"profile":          "device",
	"gpu":              "device",
	"num_devices":      "devices",
	"gpus":             "devices",
	"world_size":       "devices",
	"local_world_size": "devices_per_host",
	"gpus_per_host":    "devices_per_host",
	"gpus_per_node":    "devices_per_host",
	"devices_per_node": "devices_per_host",
	"batch_size":       "batch",
	"hbm":              "memory",
	"min_partition":    "min_width",
}

// scenarioWords maps words for what a scenario states to its own.
var scenarioWords = map[string]string{
	"pooling_factor":   "pooling",
	"precision":        "dtype",
	"batch":            "global_batch",
	"batch_size":       "batch_size_per_rank",
	"cluster":          "topology",
	"devices":          "world_size",
	"devices_per_host": "local_world_size",
	"memory":           "hbm_bytes",
	"hbm_cap":          "hbm_bytes",
}

// suggest returns the hint for a word that is not among the known ones: the
// one that was probably meant, or else all of them.
func suggest(word string, known []string) string {
	if best := closest(word, known); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "known: " + strings.Join(known, ", ")
}

// closest returns the known word that was probably meant, or "".
func closest(word string, known []string) string {
	word = strings.ToLower(strings.TrimSpace(word))
	if len(word) > 40 {
		return ""
	}
	plain := strings.NewReplacer("-", "_", " ", "_").Replace(word)
	meant := synonyms[plain]
	for _, m := range []string{meant, scenarioWords[plain], scenarioWords[meant]} {
		if m != "" && slices.Contains(known, m) {
			return m
		}
	}
	best, least := "", max(1, min(3, len(word)/3))+1
	for _, k := range known {
		if d := editDistance(plain, k); d < least {
			best, least = k, d
		}
	}
	if best == "" && len(plain) >= 3 {
		for _, k := range known {
			if strings.HasPrefix(k, plain) {
				return k
			}
		}
	}
	return best
}

// editDistance returns the fewest insertions, deletions, substitutions and
// swaps of neighbours that turn a into b (optimal string alignment), in
// O(len(a) len(b)).
func editDistance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
