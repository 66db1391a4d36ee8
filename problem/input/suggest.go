package input

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/neuroshard/neuroshard/internal/words"
)

// synonyms maps words that other tools use for a table's properties to ours.
var synonyms = map[string]string{
	"table":            "name",
	"table_name":       "name",
	"embedding_bag":    "name",
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
	"bag_size":         "pooling_factor",
	"avg_pooling":      "pooling_factor",
	"avg_length":       "pooling_factor",
	"hotness":          "pooling_factor",
	"multi_hot_size":   "pooling_factor",
	"pooling_cv":       "length_cv",
	"length_std":       "length_cv",
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
	"hosts":            "devices_per_host",
	"nodes":            "devices_per_host",
	"batch_size":       "batch",
	"hbm":              "memory",
	"min_partition":    "min_width",
	"kinds":            "sharding_types",
	"sharding_type":    "sharding_types",
	"framework":        "engine",

	"exact_sgd":             "sgd",
	"exact_adagrad":         "adagrad",
	"exact_rowwise_adagrad": "rowwise_adagrad",

	"prefetch_pipeline": "prefetch",
	"train_pipeline":    "pipeline",

	"trainpipelinebase":               "base",
	"trainpipelinesparsedist":         "sparse-dist",
	"prefetchtrainpipelinesparsedist": "prefetch",
	"trainpipelinesemisync":           "semi-sync",

	"use_index_dedup":   "index_dedup",
	"cache_load_factor": "cache_share",
	"output_dtype":      "output_precision",
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

// closest returns the known word that was probably meant, or "".
func closest(word string, known []string) string {
	word = strings.ToLower(strings.TrimSpace(word))
	if len(word) > 40 {
		return ""
	}
	plain := strings.NewReplacer("-", "_", " ", "_").Replace(word)
	meant := cmp.Or(synonyms[plain], synonyms[strings.TrimSuffix(plain, "s")])
	for _, m := range []string{meant, scenarioWords[plain], scenarioWords[meant]} {
		if m != "" && slices.Contains(known, m) {
			return m
		}
	}
	if best := words.Closest(plain, known); best != "" {
		return best
	}
	foreign := words.Closest(plain, slices.Sorted(maps.Keys(synonyms)))
	if meant := synonyms[foreign]; slices.Contains(known, meant) {
		return meant
	}
	return ""
}
