package export

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/neuroshard/neuroshard/internal/jsonfile"
	"github.com/neuroshard/neuroshard/plan"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/problem/input"
)

// read.go reads ShardingPlans: files that the function TorchRec wrote, and {"plan": ...}
// as a ShardingPlan serializes itself. It stops at the first fault, and names its place, such as
// plan.ebc.user.shards[2].placement.

// MaxFile is the size above which a file is refused.
const MaxFile = plan.MaxFile

// File is a ShardingPlan as read from a file.
type File struct {
	// Name is the file's name in errors.
	Name string
	// World is the number of ranks and Local the number of ranks of a full host; 0 if
	// the file does not state it.
	World, Local int
	// Cluster is the cluster that a plan of ours was made for; nil in other files.
	Cluster *plan.Cluster
	// Tables are the placed tables, in the file's order; nil for a file of HugeCTR, whose tables
	// have no shapes until Place knows them. Each has a unique name: the
	// module's path precedes names that two modules have. Rows and Dim are 0 for a
	// data-parallel table whose shape the file does not state; its one shard is then
	// empty.
	Tables []plan.Table
	// Notes say which words were read as other words with the same meaning.
	Notes []string

	// local holds the name of each table in its module.
	local []string
	// numbered is above 0 if Local was derived from the numbers of devices; a host then
	// has at least numbered devices. Local is too large if some hosts hold nothing.
	numbered int
	// dealt holds the tables of a file of HugeCTR, which has no shapes.
	dealt []dealt
}

// ReadTorchRec reads a ShardingPlan. It fails with an *input.Errors that has the first fault
// of the file.
//
// The shards of the File cover each table exactly once, in shapes that fit its
// sharding type, on ranks below World if World is known.
func ReadTorchRec(name string, r io.Reader) (*File, error) {
	var read struct {
		header
		World       int                            `json:"world_size"`
		Local       int                            `json:"local_size"`
		Accelerator jsonfile.Ignored               `json:"accelerator"`
		Plan        *entryList                     `json:"plan"`
		Shapes      map[string]map[string][2]int64 `json:"shapes"`
		Cluster     *plan.Cluster                  `json:"cluster"`
		Provenance  jsonfile.Ignored               `json:"provenance"`
	}
	f := &File{Name: name}
	if err := f.decode(r, &torchRecForm, &read, &read.header); err != nil {
		return nil, err
	}
	f.World, f.Local, f.Cluster = read.World, read.Local, read.Cluster
	for _, n := range []int{f.World, f.Local} {
		if n < 0 || n > hardware.MaxDevices || n == 0 && read.Format != nil {
			return nil, f.fault("export the plan again", "world_size or local_size is missing, or not between 1 and %d", hardware.MaxDevices)
		}
	}
	if read.Plan == nil {
		return nil, f.fault(torchRecForm.write, "the key \"plan\" is missing")
	}
	if f.Cluster != nil {
		if err := f.Cluster.Check(); err != nil {
			return nil, f.fault("export the plan again", "cluster: %v", err)
		}
	}
	if err := f.interpret(*read.Plan, read.Shapes); err != nil {
		return nil, err
	}
	return f, nil
}

// form is the form of a file that this program writes for an engine.
type form struct {
	format  string
	version int
	// write and give are hints: how to write such a file, and which files are read.
	write, give string
}

var torchRecForm = form{
	format: TorchRecFormat, version: TorchRecVersion,
	write: "write it with json.dump(plan._serialize(), file)",
	give:  "give a file of neuroshard convert --to torchrec, or a serialized ShardingPlan",
}

// header is what makes a file one of a form; both are nil in files of other programs.
type header struct {
	Format  *string `json:"format"`
	Version *int    `json:"version"`
}

// decode reads the file into v, which contains h.
func (f *File) decode(r io.Reader, form *form, v any, h *header) error {
	data, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	switch {
	case err != nil:
		return f.fault("", "it cannot be read: %v", err)
	case len(data) > MaxFile:
		return f.fault("", "the file is larger than %d bytes", MaxFile)
	}
	err = jsonfile.Unmarshal(data, v, json.WithUnmarshalers(json.JoinUnmarshalers(
		jsonfile.Bounded[int](hardware.MaxDevices), jsonfile.Bounded[string](problem.MaxTables),
		jsonfile.Bounded[dealt](problem.MaxTables), jsonfile.Bounded[strategy](problem.MaxTables))))
	if err != nil && json.Unmarshal(data, h, jsontext.AllowDuplicateNames(true)) != nil {
		h = &header{}
	}
	if hint, message := h.check(form); message != "" {
		return f.fault(hint, "%s", message)
	}
	if err == nil {
		return nil
	}
	var at *jsonfile.Error
	if !errors.As(err, &at) {
		return f.fault(form.write, "%v", err)
	}
	fault, hint := input.Error{File: f.Name, Line: at.Line, Message: at.Err.Error()}, (*hinted)(nil)
	if at.Place != "" {
		fault.Message = at.Place + ": " + fault.Message
	} else {
		fault.Hint = form.write
	}
	if errors.As(err, &hint) {
		fault.Hint = hint.hint
	}
	return &input.Errors{List: []input.Error{fault}}
}

// check says what is wrong with the header of a file of this program.
func (h *header) check(form *form) (hint, message string) {
	switch {
	case h.Format == nil:
	case *h.Format == plan.Format:
		return "neuroshard show and diff read it as it is", "this is a plan of neuroshard already"
	case *h.Format == HugeCTRFormat && form.format != HugeCTRFormat:
		return "import it with --from hugectr and --tables", "this is an export for HugeCTR"
	case *h.Format == TorchRecFormat && form.format != TorchRecFormat:
		return "import it without --from, or with --from torchrec", "this is an export for TorchRec"
	case *h.Format != form.format:
		return form.give, fmt.Sprintf("the format is %s, not %q", quote(*h.Format), form.format)
	case h.Version == nil:
		return "", fmt.Sprintf("the key \"version\" is missing: known is version %d", form.version)
	case *h.Version != form.version:
		return "export the plan again, or read it with a program that knows the version", fmt.Sprintf("the file has version %d of its format: this program knows version %d only", *h.Version, form.version)
	}
	return "", ""
}

// hinted is an error with what to do about it.
type hinted struct {
	error
	hint string
}

// entry is one table as it stands in the file: a ParameterSharding, as parameterJSON or as TorchRec
// serializes it.
type entry struct {
	module, table string
	shardingType  plan.ShardingType
	tier          plan.Tier

	TypeName string           `json:"sharding_type"`
	Kernel   string           `json:"compute_kernel"`
	Operator problem.Operator `json:"operator"`
	Dedup    bool             `json:"index_dedup"`
	Ranks    []int            `json:"ranks"`
	Shards   shardList        `json:"shards"`
	Spec     shardingSpec     `json:"sharding_spec"`
	Cache    loadFactor       `json:"cache_params"`

	// What does not place a table.
	EnforceHBM         jsonfile.Ignored `json:"enforce_hbm"`
	StochasticRounding jsonfile.Ignored `json:"stochastic_rounding"`
	BoundsCheckMode    jsonfile.Ignored `json:"bounds_check_mode"`
	OutputDtype        jsonfile.Ignored `json:"output_dtype"`
	KeyValueParams     jsonfile.Ignored `json:"key_value_params"`
}

// place returns where an entry stands.
func (e *entry) place() string { return jsonfile.Place("plan", e.module, e.table) }

type shard struct {
	offsets, sizes [2]int64
	// rank and device are those of the placement; rank is -1 if there is no placement,
	// device is -1 if the placement names no number.
	rank, device int
}

// entryList is the tables of a file, in its order.
type entryList []entry

// UnmarshalJSONFrom reads the tables by module.
func (l *entryList) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return jsonfile.Object(d, func(module string) error {
		return jsonfile.Object(d, func(table string) error {
			if len(*l) == problem.MaxTables {
				return fmt.Errorf("there are more than %d tables", problem.MaxTables)
			}
			e := entry{module: module, table: table}
			if table == "" {
				return errors.New("the table has no name")
			}
			if err := json.UnmarshalDecode(d, &e); err != nil {
				return err
			}
			err := e.complete()
			*l = append(*l, e)
			return err
		})
	})
}

// complete sets the type and the tier, and checks what has no place in a plan.
func (e *entry) complete() (err error) {
	if len(e.Spec) > 0 {
		if len(e.Shards) > 0 {
			return &hinted{errors.New("the shards are there twice"), "keep one of shards and sharding_spec"}
		}
		e.Shards = shardList(e.Spec)
	}
	if e.Operator >= problem.Operators {
		return fmt.Errorf("operator: %d is not between 0 and %d", e.Operator, problem.Operators-1)
	}
	for _, rank := range e.Ranks {
		if rank < 0 || rank >= hardware.MaxDevices {
			return fmt.Errorf("ranks: %d is not between 0 and %d", rank, hardware.MaxDevices-1)
		}
	}
	if e.shardingType, err = typeOf(e.TypeName); err == nil {
		e.tier, err = tierOf(e.Kernel)
	}
	return err
}

// shardList is the shards of a table, in the file's order.
type shardList []shard

// UnmarshalJSONFrom reads the shards.
func (l *shardList) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return jsonfile.List(d, plan.MaxShards, func(_ int, j *shardJSON) error {
		if j.Offsets == nil || j.Sizes == nil {
			return errors.New("it has no shard_offsets or no shard_sizes, of two numbers each")
		}
		s := shard{offsets: *j.Offsets, sizes: *j.Sizes}
		for _, n := range [][2]int64{s.offsets, s.sizes} {
			if n[0] < 0 || n[0] > problem.MaxRows || n[1] < 0 || n[1] > problem.MaxDim {
				return fmt.Errorf("%d rows and %d columns are not between 0 and %d and %d", n[0], n[1], int64(problem.MaxRows), problem.MaxDim)
			}
		}
		if s.sizes[1] == 0 {
			return errors.New("shard_sizes: it has no columns")
		}
		err := s.place(j.Placement)
		*l = append(*l, s)
		return err
	})
}

// shardingSpec is the shards inside the sharding_spec of a serialized ShardingPlan.
type shardingSpec shardList

// UnmarshalJSONFrom reads the shards, and skips the rest.
func (l *shardingSpec) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return jsonfile.Object(d, func(key string) error {
		if key != "shards" {
			return d.SkipValue()
		}
		return json.UnmarshalDecode(d, (*shardList)(l))
	})
}

// loadFactor is how much of a table is cached; 0 if it is not stated.
type loadFactor float64

// UnmarshalJSONFrom reads the load factor of cache_params, and skips the other keys, which a plan
// does not keep, and a value that is no object.
func (c *loadFactor) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '{' {
		return d.SkipValue()
	}
	return jsonfile.Object(d, func(key string) error {
		if key != "load_factor" || d.PeekKind() == 'n' {
			return d.SkipValue()
		}
		var factor float64
		if err := json.UnmarshalDecode(d, &factor); err != nil {
			return err
		}
		if *c = loadFactor(factor); !(factor > 0) {
			return &hinted{fmt.Errorf("%v is not a number above 0", factor), "it is the share of the rows that is cached, such as 0.2"}
		}
		return nil
	})
}

// tableColumnWise is a sharding type that plans call by another name.
const tableColumnWise = "table_column_wise"

func typeOf(name string) (plan.ShardingType, error) {
	if name == tableColumnWise {
		return plan.ColumnWise, nil
	}
	for shardingType, known := range shardingTypes {
		if known == name {
			return shardingType, nil
		}
	}
	return "", &hinted{fmt.Errorf("sharding type %s is unknown", quote(name)), "known: table_wise, column_wise, table_column_wise, row_wise, table_row_wise, grid_shard, data_parallel"}
}

// refusedKernels are TorchRec's kernels that a plan cannot state, with the reason.
var refusedKernels = map[string]string{
	"quant": "it is for inference", "quant_uvm": "it is for inference", "quant_uvm_caching": "it is for inference",
	"key_value": "it keeps tables outside of the memory of devices and hosts", "ssd_virtual_table": "it keeps tables outside of the memory of devices and hosts",
	"dram_virtual_table": "its tables have no fixed rows", "dram_ssd_virtual_table": "its tables have no fixed rows",
	"customized_kernel": "nothing is known of it", "unfused_tpu": "it is not for GPUs",
}

// fusedTriton is a kernel for the same memory as fused.
const fusedTriton = "fused_triton"

func tierOf(kernel string) (plan.Tier, error) {
	for tier, known := range computeKernels {
		if known == kernel {
			return tier, nil
		}
	}
	if kernel == denseKernel || kernel == fusedTriton {
		return plan.HBM, nil
	}
	const known = "kernels with a place in a plan: fused, fused_uvm, fused_uvm_caching, dense"
	if why, refused := refusedKernels[kernel]; refused {
		return "", &hinted{fmt.Errorf("kernel %q has no place in a plan: %s", kernel, why), known}
	}
	return "", &hinted{fmt.Errorf("compute kernel %s is unknown", quote(kernel)), known}
}

// place reads rank:3/cuda:1, rank:3/cpu, or nothing: empty, or None as TorchRec writes it.
func (s *shard) place(text string) error {
	s.rank, s.device = -1, -1
	if text == "" || text == "None" {
		return nil
	}
	var err error
	worker, device, _ := strings.Cut(text, "/")
	number, ok := strings.CutPrefix(worker, "rank:")
	s.rank, err = strconv.Atoi(number)
	kind, index, numbered := strings.Cut(device, ":")
	ok = ok && err == nil && slices.Contains([]string{CUDA, CPU, "mtia", "tpu"}, kind)
	if numbered && kind != CPU {
		s.device, err = strconv.Atoi(index)
		ok = ok && err == nil && s.device >= 0
	}
	if !ok || s.rank < 0 || max(s.rank, s.device) >= hardware.MaxDevices {
		return fmt.Errorf(`placement: %s is not a placement such as "rank:3/cuda:1" or "rank:3/cpu"`, quote(text))
	}
	return nil
}
