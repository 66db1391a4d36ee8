package input

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/problem"
)

// inTables wraps the JSON of tables into a file.
func inTables(tables string) string {
	return `{"format": "neuroshard-tables", "version": 1, "tables": [` + tables + `]}`
}

// inTable wraps further keys into a file of one table.
func inTable(keys string) string {
	return inTables(`{"name": "user", "rows": 10, "dim": 64, ` + keys + `}`)
}

const csvHeader = "name,rows,dim,pooling_factor,zipf\n"

// badTables are files with something wrong in each. Their extension is .csv
// where the name has it, else .json.
var badTables = []struct{ name, content string }{
	{"module a number", inTable(`"module": 7`)},
	{"more unique rows than rows", inTable(`"pooling_factor": 1, "access": {"reuse": [1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0], "batch": 65536, "unique_rows": 10.5}`)},
	{"more unique rows than lookups", inTable(`"features": [{"pooling_factor": 1}, {"pooling_factor": 0.5}], "access": {"reuse": [1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0], "batch": 5, "unique_rows": 9}`)},
	{"a part of a unique row", inTable(`"pooling_factor": 1, "access": {"reuse": [1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0], "batch": 65536, "unique_rows": 1e-300}`)},
	{"a feature twice", inTable(`"features": [{"name": "clicks", "pooling_factor": 1}, {"name": "views", "pooling_factor": 1}, {"name": "clicks", "pooling_factor": 2}]`)},
	{"half a pair of surrogates", inTables(`{"name": "user\ud800", "rows": 10, "dim": 64}`)},
	{"rows zero", inTables(`{"name": "user", "rows": 0, "dim": 64}`)},
	{"rows negative", inTables(`{"name": "user", "rows": -5, "dim": 64}`)},
	{"rows NaN", inTables(`{"name": "user", "rows": NaN, "dim": 64}`)},
	{"rows infinite", inTables(`{"name": "user", "rows": -Infinity, "dim": 64}`)},
	{"rows fraction", inTables(`{"name": "user", "rows": 1.5, "dim": 64}`)},
	{"rows too many", inTables(`{"name": "user", "rows": 2e12, "dim": 64}`)},
	{"rows huge", inTables(`{"name": "user", "rows": 1e400, "dim": 64}`)},
	{"rows huge exponent", inTables(`{"name": "user", "rows": 1e99999999999999999999, "dim": 64}`)},
	{"rows string", inTables(`{"name": "user", "rows": "10", "dim": 64}`)},
	{"rows null", inTables(`{"name": "user", "rows": null, "dim": 64}`)},
	{"rows list", inTables(`{"name": "user", "rows": [10], "dim": 64}`)},
	{"dim zero", inTables(`{"name": "user", "rows": 10, "dim": 0}`)},
	{"dim negative", inTables(`{"name": "user", "rows": 10, "dim": -64}`)},
	{"dim huge", inTables(`{"name": "user", "rows": 10, "dim": 1048576}`)},
	{"dim not a multiple of 4", inTables(`{"name": "user", "rows": 10, "dim": 6}`)},
	{"pooling negative", inTable(`"pooling_factor": -1`)},
	{"pooling NaN", inTable(`"pooling_factor": NaN`)},
	{"pooling huge", inTable(`"pooling_factor": 1e300`)},
	{"pooling beyond float64", inTable(`"pooling_factor": 1e999`)},
	{"pooling word", inTable(`"pooling": "meen"`)},
	{"pooling number", inTable(`"pooling": 7.5`)},
	{"pooling default", `{"format": "neuroshard-tables", "version": 1, "defaults": {"pooling": "max"}, "tables": [{"name": "user", "rows": 10, "dim": 4}]}`},
	{"lengths negative", inTable(`"length_cv": -0.5`)},
	{"lengths huge", inTable(`"features": [{"pooling_factor": 1, "length_cv": 1001}, {"pooling_factor": -1, "length_cv": -1}]`)},
	{"lengths NaN", inTable(`"length_cv": NaN`)},
	{"lengths null", inTable(`"length_cv": null`)},
	{"lengths a word", inTable(`"features": [{"pooling_factor": 1, "length_cv": "poisson"}]`)},
	{"lengths and features", inTable(`"features": [{"pooling_factor": 1}], "length_cv": 0.5`)},
	{"bags zero", inTable(`"bags": 0`)},
	{"bags negative", inTable(`"features": [{"pooling_factor": 1, "bags": -2}]`)},
	{"bags zero in a feature", inTable(`"features": [{"pooling_factor": 1, "bags": 0}]`)},
	{"bags huge", inTable(`"bags": 1e7`)},
	{"bags a word", inTable(`"bags": "two"`)},
	{"bags and features", inTable(`"features": [{"pooling_factor": 1}], "bags": 2`)},
	{"tiers many", inTable(`"constraints": {"tiers": ["hbm", "host", "host", [[]], 7, "x"], "cache_share": 0.5}`)},
	{"tiers wrong", inTable(`"constraints": {"tiers": ["ssd", "host", 5]}`)},
	{"tiers of no cache", inTable(`"constraints": {"tiers": ["hbm"], "cache_share": 0.5}`)},
	{"cache share", inTable(`"constraints": {"cache_share": 1}`)},
	{"sharding types many", inTable(`"constraints": {"sharding_types": ["row_wise", "row_wise", "row_wise", "row_wise", "row_wise", "row_wise", "row_wise", {"a": 1}]}`)},
	{"bags of a sequence", inTable(`"pooling": "none", "bags": 2`)},
	{"bags of a listed sequence", inTable(`"pooling": "none", "features": [{"pooling_factor": 1, "bags": 2}]`)},
	{"weighted sequence", inTable(`"pooling": "none", "weighted": true`)},
	{"default lengths", `{"format": "neuroshard-tables", "version": 1, "defaults": {"length_cv": -1}, "tables": [{"name": "user", "rows": 10, "dim": 4}]}`},
	{"pooling missing in feature", inTable(`"features": [{"name": "f"}]`)},
	{"features empty", inTable(`"features": []`)},
	{"features and pooling", inTable(`"features": [{"pooling_factor": 1}], "pooling_factor": 1`)},
	{"features not a list", inTable(`"features": {"name": "f"}`)},
	{"name empty", inTables(`{"name": "", "rows": 10, "dim": 4}`)},
	{"name missing", inTables(`{"rows": 10, "dim": 4}`)},
	{"table empty", inTables(`{}`)},
	{"table not an object", inTables(`7, "user", {"name": "ok", "rows": 10, "dim": 4}`)},
	{"no tables", inTables(``)},
	{"duplicate names", "{\"format\": \"neuroshard-tables\", \"version\": 1, \"tables\": [\n{\"name\": \"user\", \"rows\": 10, \"dim\": 4},\n{\"name\": \"item\", \"rows\": 10, \"dim\": 4},\n{\"name\": \"user\", \"rows\": 0, \"dim\": 4}]}"},
	{"duplicate key", inTable(`"rows": 11`)},
	{"duplicate unknown key", inTable(`"x": 1, "x": 2`)},
	{"unknown key", inTable(`"roows": 11, "num_embeddings": 3, "Weighted": true, "zzz": [1, {"a": null}]`)},
	{"unknown keys below", inTable(`"features": [{"nme": "f", "pooling_factor": 1}], "access": {"zipff": 1}, "constraints": {"pin": 3, "min-width": 4}`)},
	{"unknown top key", `{"format": "neuroshard-tables", "version": 1, "table": []}`},
	{"unknown default", `{"format": "neuroshard-tables", "version": 1, "defaults": {"zip": 1, "dim": 4}, "tables": [{"name": "user", "rows": 10, "dim": 4}]}`},
	{"precision unknown", inTable(`"precision": "fp61"`)},
	{"precision foreign", inTable(`"precision": "int8"`)},
	{"optimizer unknown", inTable(`"optimizer": "rowwise-adagrad"`)},
	{"weighted string", inTable(`"weighted": "yes"`)},
	{"access empty", inTable(`"access": {}`)},
	{"access two kinds", inTable(`"access": {"zipf": 1, "uniform": true}`)},
	{"access not uniform", inTable(`"access": {"uniform": false}`)},
	{"access batch alone", inTable(`"access": {"zipf": 1, "batch": 7}`)},
	{"access law unknown", inTable(`"access": {"zipf": 1, "index_law": "multihot"}`)},
	{"access law alone unknown", inTable(`"access": {"index_law": 7}`)},
	{"access law and batch", inTable(`"access": {"index_law": "multi_hot", "batch": 7}`)},
	{"access number", inTable(`"access": 1.05`)},
	{"zipf zero", inTable(`"access": {"zipf": 0}`)},
	{"zipf huge", inTable(`"access": {"zipf": 11}`)},
	{"reuse short", inTable(`"access": {"reuse": [1], "batch": 5}`)},
	{"reuse without batch", inTable(`"access": {"reuse": [1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}`)},
	{"reuse sum", inTable(`"access": {"reuse": [0.5,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0], "batch": 5}`)},
	{"reuse share", inTable(`"access": {"reuse": [2,-1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0], "batch": 5}`)},
	{"nothing hides", inTables(`{"name": 7, "rows": "x", "dim": 6, "pooling_factor": -1, "precision": "fp8",
 "access": {"reuse": [2, "x", 0], "batch": -5}, "constraints": {"devices": ["y", 9], "min_width": 6, "no_split": 3}},
{"name": "a", "rows": 0, "dim": null, "features": 7, "access": {"zipf": "z"}, "constraints": {"devices": [0, "y"], "group": "g", "min_width": 128}},
{"name": "a", "rows": 0, "dim": 8, "features": [], "optimizer": "x", "constraints": {"devices": [1], "group": "g"}}`)},
	{"default zipf unread", `{"format": "neuroshard-tables", "version": 1, "defaults": {"zipf": "x"}, "tables": [{"name": "user", "rows": 10, "dim": 4}]}`},
	{"pin to a missing device", inTable(`"constraints": {"device": 8}`)},
	{"pin negative", inTable(`"constraints": {"device": -1}`)},
	{"pin and list", inTable(`"constraints": {"device": 1, "devices": [1, 2]}`)},
	{"devices empty", inTable(`"constraints": {"devices": []}`)},
	{"devices twice", inTable(`"constraints": {"devices": [1, 1]}`)},
	{"group apart", inTables(`{"name": "a", "rows": 10, "dim": 4, "constraints": {"group": "g", "device": 1}}, {"name": "b", "rows": 10, "dim": 4, "constraints": {"group": "g", "device": 2}}`)},
	{"min_width odd", inTable(`"constraints": {"min_width": 6}`)},
	{"min_width above dim", inTable(`"constraints": {"min_width": 128}`)},
	{"sharding types unknown", inTable(`"constraints": {"sharding_types": ["row_wise", "colum_wise"]}`)},
	{"sharding types empty", inTable(`"constraints": {"sharding_types": []}`)},
	{"sharding types twice", inTable(`"constraints": {"sharding_types": ["grid", "grid"]}`)},
	{"sharding types and devices", inTable(`"constraints": {"sharding_types": ["row_wise"], "device": 1}`)},
	{"default min_width odd", `{"format": "neuroshard-tables", "version": 1, "defaults": {"constraints": {"min_width": 6}}, "tables": [{"name": "user", "rows": 10, "dim": 4}]}`},
	{"default group", `{"format": "neuroshard-tables", "version": 1, "defaults": {"constraints": {"group": "g"}}, "tables": [{"name": "user", "rows": 10, "dim": 4}]}`},
	{"batch zero", `{"format": "neuroshard-tables", "version": 1, "batch": 0, "tables": [{"name": "user", "rows": 10, "dim": 4}]}`},
	{"batch huge", "{\"format\": \"neuroshard-tables\", \"version\": 1,\n\"batch\": 1e9, \"tables\": [{\"name\": \"user\", \"rows\": 10, \"dim\": 4}]}"},
	{"samples zero", `{"format": "neuroshard-tables", "version": 1, "samples": 0, "tables": [{"name": "user", "rows": 10, "dim": 4}]}`},
	{"samples huge", `{"format": "neuroshard-tables", "version": 1, "samples": 1000000000000001, "tables": [{"name": "user", "rows": 10, "dim": 4}]}`},
	{"samples fraction", `{"format": "neuroshard-tables", "version": 1, "samples": 0.5, "tables": [{"name": "user", "rows": 10, "dim": 4}]}`},
	{"many at once", "{\"format\": \"neuroshard-tables\", \"version\": 1, \"tables\": [\n" +
		"{\"name\": \"user\", \"rows\": 0, \"dim\": 6},\n{\"name\": \"item\", \"rows\": 1.5, \"dim\": 6, \"dims\": 3},\n{\"rows\": 5, \"dim\": 8},\n{\"name\": \"ad\", \"rows\": 5, \"dim\": 10}]}"},

	{"format missing", `{"tables": [{"name": "user", "rows": 10, "dim": 4}]}`},
	{"format foreign", `{"format": "neuroshard-plan", "version": 1, "shards": []}`},
	{"version unknown", `{"format": "neuroshard-tables", "version": 2, "new": 1}`},
	{"truncated in a table", inTables(`{"name": "user", "rows": 10, "dim": 64}, {"name": "item", "rows"`)[:95+20]},
	{"truncated in a string", `{"format": "neuroshard-ta`},
	{"truncated in a number", `{"format": "neuroshard-tables", "version": 1, "tables": [{"name": "user", "rows": 1e`},
	{"truncated in a word", `{"format": "neuroshard-tables", "version": 1, "tables": [{"name": "user", "weighted": tr`},
	{"truncated after the tables", "{\"format\": \"neuroshard-tables\",\n\"version\": 1,\n\"tables\": [{\"name\": \"user\", \"rows\": 10, \"dim\": 64}]\n"},
	{"just a brace", "{"},
	{"data after the end", inTable(`"weighted": true`) + " {}"},
	{"comma missing", inTables(`{"name": "user" "rows": 10}`)},
	{"comma too many", inTables(`{"name": "user", "rows": 10, "dim": 4},`)},
	{"key not quoted", inTables(`{name: "user"}`)},
	{"quote missing", "{\"format\": \"neuroshard-tables\", \"version\": 1, \"tables\": [\n{\"name\": \"user,\n\"rows\": 10}]}"},
	{"comment", "{\"format\": \"neuroshard-tables\", // ours\n\"version\": 1}"},
	{"python literal", inTable(`"weighted": True`)},
	{"bad escape", inTables(`{"name": "us\er"}`)},
	{"not UTF-8", inTables("{\"name\": \"us\xffer\"}")},
	{"leading zero", inTables(`{"name": "user", "rows": 010, "dim": 4}`)},
	{"nested deep", inTable(`"x": ` + strings.Repeat("[", 100))},

	{"empty", ""},
	{"blank", " \n\t\n"},
	{"prose", "Hello planner,\nplease place my tables.\n"},
	{"prose.csv", "id;size\n1;2\n"},
	{"binary", "\x89PNG\r\n\x1a\n\x00\x00"},

	{"prototype bins missing", `[{"row": 10, "dim": 4, "pooling_factor": 1, "bin_0": 1}]`},
	{"prototype zero row", `[` + prototypeTableOf(0, "0") + `]`},
	{"prototype hides nothing", `[` + prototypeTableOf(0, "1.5") + `,{"row": 0, "dim": 6, "pooling_factor": -1}]`},
	{"prototype NaN", `[` + prototypeTableOf(0, "NaN") + `]`},
	{"prototype truncated", prototypeTruncated()},
	{"prototype bin too many", `[` + prototypeTableOf(0, `1, "bin_17": 0`) + `]`},

	{"unknown column.csv", "name,rows,dim,poling_factor,dtype,colour\na,1,4,1,fp32,red\n"},
	{"missing column.csv", "name,num_embeddings\na,1\n"},
	{"column twice.csv", "name,rows,dim,rows\na,1,4,1\n"},
	{"index column.csv", ",name,rows,dim\n0,a,1,4\n"},
	{"reuse column missing.csv", "name,rows,dim,reuse_0,reuse_1\na,1,4,1,0\n"},
	{"values.csv", csvHeader + "a,0,6,1,1\nb,x,4,nan,1\nc,1.5,,1,\nd,-3,4,-2,99\n,1,4,1,1\ne,1e30,4,1e999,0\n"},
	{"tiers.csv", "name,rows,dim,tiers,cache_share\na,1,4,hbm;host;host_cached;hbm;ssd,\nb,1,4,host;;,\nc,1,4,hbm,0.5\nd,1,4,,1\n"},
	{"bags.csv", "name,rows,dim,bags,pooling\na,1,4,-1,\nb,1,4,0,\nc,1,4,1e7,\nd,1,4,x,\ne,1,4,2,none\nf,1,4,2,sum\n"},
	{"lengths.csv", "name,rows,dim,length_cv\na,1,4,-1\nb,1,4,nan\nc,1,4,1e4\nd,1,4,x\n"},
	{"pooling.csv", "name,rows,dim,pooling\na,1,4,Mean\nb,1,4,2\n"},
	{"cells.csv", csvHeader + "a,1,4\nb,1,4,1,1,1\n"},
	{"duplicate names.csv", csvHeader + "a,1,4,1,1\nb,1,4,1,1\na,1,4,1,1\n"},
	{"words.csv", "name,rows,dim,weighted,precision,optimizer,devices,no_split,min_width\na,1,4,perhaps,fp8,rowwise,0;x;9,maybe,6\n"},
	{"nothing hides.csv", "name,rows,dim,pooling_factor,precision,zipf,devices,group,no_split,min_width\n" +
		"a,-1,127,NaN,fp8,1.05,9,g,maybe,7\na,0,64,-3,fp32,-1,x,,,\nb,1,x,1,fp32,1,0,g,,20000\n\"\xff\",0,4,1,fp32,1,1,g,,\n"},
	{"thousands.csv", csvHeader + "a,\"1,000\",4,1,1\n"},
	{"open quote.csv", csvHeader + "\"a,1,4,1,1\nb,1,4,1,1\n"},
	{"stray quote.csv", csvHeader + "a \"b\",1,4,1,1\n"},
	{"no tables.csv", csvHeader},
	{"not UTF-8.csv", csvHeader + "\xff,1,4,1,1\n"},
	{"more unique rows than rows.csv", "name,rows,dim,pooling_factor,reuse_batch,unique_rows,reuse_0,reuse_1,reuse_2,reuse_3,reuse_4,reuse_5,reuse_6,reuse_7,reuse_8,reuse_9,reuse_10,reuse_11,reuse_12,reuse_13,reuse_14,reuse_15,reuse_16\n" +
		"a,1000,4,1,65536,1e12,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n" +
		"b,1e9,4,1.5,1000,1700,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n" +
		"c,1e9,4,1.5,1000,1600,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n" +
		"d,x,4,1.5,65536,1600,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n"},
	{"half a histogram.csv", "name,rows,dim,zipf,reuse_batch,unique_rows,reuse_0,reuse_1,reuse_2,reuse_3,reuse_4,reuse_5,reuse_6,reuse_7,reuse_8,reuse_9,reuse_10,reuse_11,reuse_12,reuse_13,reuse_14,reuse_15,reuse_16\n" +
		"a,1,4,,5,1,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,\n" +
		"b,1,4,1.1,5,1,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n" +
		"c,1,4,,,1,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n" +
		"d,1,4,,5,,,,,,,,,,,,,,,,,,\n"},
	{"dedup stated and chosen", `{"format": "neuroshard-tables", "version": 1, "tables": [
{"name": "both", "rows": 9, "dim": 4, "pooling": "none", "index_dedup": true, "choose_dedup": true},
{"name": "chosen", "rows": 9, "dim": 4, "pooling": "none", "index_dedup": false, "choose_dedup": true}], "defaults": {"index_dedup": true, "choose_dedup": true}}`},
}

func prototypeTruncated() string {
	whole := `[` + prototypeTableOf(0, "7") + `]`
	return whole[:len(whole)/2]
}

// badTopologies are YAML where the name ends in .yaml, else JSON.
var badTopologies = []struct{ name, content string }{
	{"empty.yaml", ""},
	{"comment only.yaml", "# nothing\n"},
	{"unknown keys.yaml", "devices: 8\ndevice: a100-80\nhosts: 2\ngpus_per_node: 8\nreserve-share: 0.1\n"},
	{"unknown pipeline.yaml", "devices: 8\ndevice: a100-80\npipeline: sparse_dst\n"},
	{"unknown option of a pipeline.yaml", "devices: 8\ndevice: a100-80\npipeline: sparse-dist+clear_dist_inputs\n"},
	{"options of another pipeline.yaml", "devices: 8\ndevice: a100-80\npipeline: prefetch+clear_data_dist_inputs\n"},
	{"overhead in percent.yaml", "devices: 8\ndevice: a100-80\nallocator_overhead: 12\n"},
	{"overhead below 0.yaml", "devices: 8\ndevice: a100-80\nallocator_overhead: -0.1\n"},
	{"pipeline number.json", `{"devices": 8, "device": "a100-80", "pipeline": 3}`},
	{"unknown profile.yaml", "devices: 8\ndevice: a100_80\n"},
	{"foreign profile.yaml", "devices: 8\ndevice: tpu-v5\n"},
	{"unknown unit.yaml", "devices: 8\ndevice: a100-80\nmemory: 40 gigs\nreserve_fixed: 2GiBit\n"},
	{"no unit.yaml", "devices: 8\ndevice: a100-80\nmemory: 40\nreserve_fixed: \"40\"\n"},
	{"sizes.yaml", "devices: 8\ndevice: a100-80\nmemory: -1GiB\nreserve_fixed: 1e30GiB\n"},
	{"NaN size.yaml", "devices: 8\ndevice: a100-80\nmemory: NaNGiB\n"},
	{"devices zero.yaml", "devices: 0\ndevice: a100-80\n"},
	{"devices huge.yaml", "devices: 1e9\ndevice: a100-80\n"},
	{"devices fraction.yaml", "devices: 1.5\ndevice: a100-80\ndevices_per_host: -1\n"},
	{"devices word.yaml", "devices: eight\ndevice: 80\nbatch: [1]\ndevices_per_host:\n"},
	{"nothing hides.yaml", "devices: 0\nreserve_share: 2\ndevices_per_host: -1\nbatch: 0\n"},
	{"devices hide nothing.yaml", "devices: abc\ndevice: rtx2080ti\ndevices_per_host: 4\nreserve_share: 2\n"},
	{"memory unread.yaml", "devices: 8\ndevice: a100-80\nmemory: 400 gigs\nreserve_fixed: 100GiB\n"},
	{"profile unread.yaml", "devices: 8\ndevice: a100-800\nreserve_fixed: 300GiB\nreserve_share: -1\n"},
	{"devices missing.yaml", "devices_per_host: 8\n"},
	{"reserve.yaml", "devices: 8\ndevice: a100-80\nreserve_share: 1.5\n"},
	{"reserve percent.yaml", "devices: 8\ndevice: a100-80\nreserve_share: 15%\n"},
	{"reserve NaN.yaml", "devices: 8\ndevice: a100-80\nreserve_share: .nan\n"},
	{"reserve everything.yaml", "devices: 8\ndevice: a100-80\nreserve_fixed: 80GiB\n"},
	{"no network.yaml", "devices: 8\ndevices_per_host: 4\ndevice: rtx2080ti\n"},
	{"host memory.yaml", "devices: 8\ndevice: a100-80\nhost_memory: 512\n"},
	{"host memory unit.yaml", "devices: 8\ndevice: a100-80\nhost_memory: 2 tons\n"},
	{"host memory huge.yaml", "devices: 8\ndevice: a100-80\nhost_memory: 9000TiB\n"},
	{"comm precision.yaml", "devices: 8\ndevice: a100-80\ncomm_precision: int8\n"},
	{"comm precision number.yaml", "devices: 8\ndevice: a100-80\ncomm_precision: 16\n"},
	{"comm precision list.yaml", "devices: 8\ndevice: a100-80\ncomm_precision: [fp16]\n"},
	{"engine.yaml", "devices: 8\ndevice: a100-80\nengine: torchrecs\n"},
	{"engine number.yaml", "devices: 8\ndevice: a100-80\nengine: 1\n"},
	{"lanes.yaml", "devices: 8\ndevice: a100-80\nlanes: owns\n"},
	{"lanes number.yaml", "devices: 8\ndevice: a100-80\nlanes: 8\n"},
	{"dense preset.yaml", "devices: 8\ndevice: a100-80\ndense: mlperf-dlrm-dcn2\n"},
	{"dense number.yaml", "devices: 8\ndevice: a100-80\ndense: 3\n"},
	{"dense keys.yaml", "devices: 8\ndevice: a100-80\ndense:\n  bottom: [13, x, 1.5]\n  interactions: dot\n  interaction: dcm\n  top: 1024\n  precision: fp8\n  activations: 250\n  parallel: fdsp\n  optimizer: lamb\n"},
	{"dense numbers.yaml", "devices: 8\ndevice: a100-80\ndense:\n  bottom: [13, -1, 16]\n  interaction: {dcn: {layers: 0, rank: -1}}\n  top: [0, 1]\n"},
	{"dense nothing.yaml", "devices: 8\ndevice: a100-80\ndense: {}\n"},
	{"dense dot.yaml", "devices: 8\ndevice: a100-80\ndense:\n  bottom: [13, 512, 16]\n  interaction: dot\n  top: [1]\n"},
	{"dense given.yaml", "devices: 8\ndevice: a100-80\ndense:\n  interaction: {flops: -638e6, parameters: 1e30}\n  top: [1]\n"},
	{"dense two.yaml", "devices: 8\ndevice: a100-80\ndense:\n  interaction: {flops: 638e6, dcn: {layers: 3}}\n  top: [1]\n"},
	{"dense dcn and cat.yaml", "devices: 8\ndevice: a100-80\ndense:\n  interaction: {dcn: {layers: 3}, cat: {stride: 4}}\n  top: [1]\n"},
	{"dense no parameters.yaml", "devices: 8\ndevice: a100-80\ndense:\n  interaction: {flops: 638e6}\n"},
	{"dense features.yaml", "devices: 8\ndevice: a100-80\ndense: mlperf-dlrm-v1\n"},
	{"dense large.yaml", "devices: 1\ndevice: a100-80\ndense:\n  interaction: {flops: 1e12, parameters: 50e9}\n"},
	{"dense in a small reserve.yaml", "devices: 8\ndevice: a100-80\nreserve_share: 0\nreserve_fixed: 1MiB\ndense:\n  interaction: {flops: 638e6, parameters: 320e6}\n  optimizer: adam\n"},
	{"stack.yaml", "devices: 8\ndevice: a100-80\nstack: hugctr\n"},
	{"stack parts.yaml", "devices: 8\ndevice: a100-80\nstack:\n  preset: hugectr\n  forward: fp8\n  exchange: tree\n  overlap: [input, everything]\n  launch: lazy\n  sharp: 1\n  nccl: true\n"},
	{"stack without preset.yaml", "devices: 8\ndevice: a100-80\nstack:\n  exchange: flat\n  overlap: input\n"},
	{"network unit.yaml", "devices: 16\ndevices_per_host: 8\ndevice: a100-80\nnetwork_bandwidth: 50\nnvlink_domain: 8GB\n"},
	{"network bits.yaml", "devices: 16\ndevices_per_host: 8\ndevice: a100-80\nnetwork_bandwidth: 400Gb/s\nnvlink_domain: -8\n"},
	{"network slow.yaml", "devices: 24\ndevices_per_host: 8\ndevice: a100-80\nnetwork_bandwidth: 50B/s\nnvlink_domain: 12\n"},
	{"step unit.yaml", "devices: 8\ndevice: a100-80\nstep: 3.9\nloader: 20\nprice: free\n"},
	{"step words.yaml", "devices: 8\ndevice: a100-80\nstep: 3.9 hours\nloader: 20Gb/s\nprice: -1\n"},
	{"step zero.yaml", "devices: 8\ndevice: a100-80\nstep: 0ms\nloader: 0GB/s\nprice: 0\n"},
	{"step negative.yaml", "devices: 8\ndevice: a100-80\nstep: -3ms\nloader: 1e30GB/s\nprice: 1e9\n"},
	{"dense tree", `{"devices": 8, "device": "a100-80", "dense": {"bottom": {"a": [[[[[[[[[1]]]]]]]]]}}}`},
	{"dense twice", `{"devices": 8, "device": "a100-80", "dense": {"top": [1], "interaction": "cat", "top": [1], "bottom": null, "precision": true}}`},
	{"dense broken", `{"devices": 8, "device": "a100-80", "dense": {"top": [1}`},
	{"batch huge.yaml", "devices: 8\ndevice: a100-80\nbatch: 1e12\n"},
	{"key twice.yaml", "devices: 8\ndevice: a100-80\ndevices: 9\n"},
	{"alias.yaml", "devices: &n 8\ndevice: a100-80\nbatch: *n\n"},
	{"bomb.yaml", "a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\ndevices: 8\n"},
	{"merge.yaml", "<<: {devices: 8}\ndevice: a100-80\n"},
	{"two documents.yaml", "devices: 8\n---\ndevices: 9\n"},
	{"broken.yaml", "devices: 8\n  device: a100-80\n"},
	{"list.yaml", "- devices\n- 8\n"},
	{"prose.yaml", "eight of the big ones"},
	{"binary.yaml", "\x00\x01\x02"},
	{"truncated", `{"devices": 8, "device": "a100`},
	{"unknown key", `{"devices": 8, "device": "a100-80", "mem": "40GiB"}`},
	{"types", `{"devices": "8", "device": 80, "memory": 40, "reserve_share": "0.1", "batch": true, "devices_per_host": {}}`},
	{"twice", `{"devices": 8, "device": "a100-80", "devices": 9}`},
	{"two objects", `{"devices": 8, "device": "a100-80"}{}`},
	{"NaN", `{"devices": NaN, "device": "a100-80"}`},
	{"activations fill a device.yaml", "devices: 8\ndevice: a100-80\nactivations: 75GiB\n"},
}

func badTablesErrors(t *testing.T, name, content string) error {
	if filepath.Ext(name) == "" {
		name += ".json"
	}
	_, err := readAndCheck(t, strings.ReplaceAll(name, " ", "_"), content)
	return err
}

func badTopologyErrors(t *testing.T, name, content string) error {
	if filepath.Ext(name) == "" {
		name += ".json"
	}
	f, err := Topology(strings.ReplaceAll(name, " ", "_"), strings.NewReader(content))
	p := &problem.Problem{
		Tables:   []problem.Table{{Name: "a", Rows: 1, Dim: 4, Features: make([]problem.Feature, 1)}},
		Topology: f.Topology, Batch: f.Batch,
	}
	if !f.Has("batch") {
		p.Batch = 1024
	}
	parts := Parts{Tables: TableFile{Tables: p.Tables}, Topology: &f}
	whole, stepErr := parts.step()
	_, fitErr := parts.fit(&whole, p)
	return Join(err, stepErr, fitErr, Check(p, f))
}

// TestBadInputs compares the errors of every bad file with testdata/bad.golden.
func TestBadInputs(t *testing.T) {
	var got strings.Builder
	show := func(kind, name string, err error) {
		var list *Errors
		if !errors.As(err, &list) {
			t.Errorf("%s %q: got %v (%T), want *Errors", kind, name, err, err)
			return
		}
		fmt.Fprintf(&got, "== %s: %s\n%s\n", kind, name, err)
	}
	for _, c := range badTables {
		show("tables", c.name, badTablesErrors(t, c.name, c.content))
	}
	for _, c := range badTopologies {
		show("topology", c.name, badTopologyErrors(t, c.name, c.content))
	}
	must.Match(t, "testdata/bad.golden", []byte(got.String()))
}
