// Package protocol defines the messages between the program that measures (package
// collect) and the process that runs kernels, the worker: one JSON object a line,
// requests on the worker's stdin, responses on its stdout, logs on its stderr. Each
// side ignores the fields that it does not know.
//
//	> {"op":"hello","v":1}
//	< {"op":"hello","v":1,"backend":"cpu","device":"...","caps":["compute","comm"],"measured":true}
//	> {"op":"init","batch":65536,"warmup":1,"repeats":5,"cache":"cold","seed":7}
//	< {"op":"init"}
//	> {"op":"tables","tables":[{"t":0,"rows":1000000,"pooling_factor":12.3,"unique_rows":41000,"reuse":[..17]}]}
//	< {"op":"tables","tables":[{"t":0,"unique_rows":40987,"reuse":[..17]}]}
//	> {"op":"compute","id":"s1","group":[{"t":0,"dim":64}],"opt":"sgd","dtype":"fp32"}
//	< {"op":"compute","id":"s1","fwd_ms":0.81,"bwd_ms":2.02,"fwd_iqr":0.01,"bwd_iqr":0.03,"n":5,"source":"measured"}
//	> {"op":"comm","id":"c1","dims":[512,384],"batch":65536,"start_ms":[0,3.1]}
//	< {"op":"comm","id":"c1","fwd":[3.4,0.3],"bwd":[0.3,0.3],"iqr":0.01,"n":5,"source":"measured"}
//	< {"op":"error","id":"s9","code":"oom","msg":"..."}
//
// Every request gets exactly one response, in order. docs/MEASURING.md describes
// the messages for authors of workers.
package protocol

import (
	"fmt"

	"github.com/neuroshard/neuroshard/problem/access"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

// Version is the version of the protocol, which both sides state in hello.
const Version = 1

// MaxLine is the longest message in bytes. A longer one ends the conversation.
const MaxLine = 16 << 20

// These are the operations.
const (
	OpHello    = "hello"
	OpInit     = "init"
	OpTables   = "tables"
	OpCompute  = "compute"
	OpComm     = "comm"
	OpCeilings = "ceilings"
	OpError    = "error"
)

// These are the capabilities that a worker may state, in addition to the names of
// optimizers and precisions.
const (
	CapCompute  = "compute"
	CapComm     = "comm"
	CapWeighted = "weighted"
	CapCeilings = "ceilings"
	// CapLookupFiles says that the worker uses files of lookups. Without CapLengths it gets one
	// for each table, so it need not make up lookups.
	CapLookupFiles = "pools"
	// CapLengths says that the worker makes up bags of the length_cv that tables ask for.
	CapLengths = "length_cv"
	// CapCommPrefix with the name of a precision says that the worker runs all-to-alls
	// whose numbers travel in that precision: "comm_bf16". Every worker with CapComm runs
	// those in fp32.
	CapCommPrefix = "comm_"
)

// These are the error codes.
const (
	CodeMemory      = "oom"
	CodeBadRequest  = "bad_request"
	CodeTimeout     = "timeout"
	CodeDrift       = "drift"
	CodeUnsupported = "unsupported"
	// CodeInternal is a failure of the worker itself.
	CodeInternal = "internal"
)

// Request is any request; Op decides which fields count.
type Request struct {
	Op string `json:"op"`
	// V is the version (hello).
	V int `json:"v,omitempty"`
	// ID names a compute or comm request; its response carries it too.
	ID string `json:"id,omitempty"`

	// Batch is the global batch in samples (init; comm, where 0 means init's).
	Batch int `json:"batch,omitempty"`
	// Warmup is the number of runs before Repeats timed runs (init).
	Warmup  int `json:"warmup,omitempty"`
	Repeats int `json:"repeats,omitempty"`
	// Cache is "cold" if caches are flushed before each repeat, or "warm" if not
	// (init). FlushBytes is the number of bytes written to flush them; with 0 the
	// worker writes four times its last-level cache.
	Cache      string `json:"cache,omitempty"`
	FlushBytes int64  `json:"flush_bytes,omitempty"`
	Seed       uint64 `json:"seed,omitempty"`

	// Tables are added to the tables that groups may name (tables). init removes all
	// tables.
	Tables []Table `json:"tables,omitempty"`

	// Group holds the members of one fused operation (compute). Opt is its optimizer
	// and DType its precision, by their names in package problem. For an all-to-all (comm),
	// DType is the precision in which its numbers travel, and an empty one means fp32.
	Group    []Member `json:"group,omitempty"`
	Opt      string   `json:"opt,omitempty"`
	DType    string   `json:"dtype,omitempty"`
	Weighted bool     `json:"weighted,omitempty"`

	// Dims holds the pooled columns of each rank, and StartMS the time in ms when each
	// rank is ready; the least is 0 (comm).
	Dims    []int     `json:"dims,omitempty"`
	StartMS []float64 `json:"start_ms,omitempty"`
	// PerHost is the number of ranks on one host; 0 means all.
	PerHost int `json:"per_host,omitempty"`
}

// Table holds the statistics of a table that a worker needs to make up its indices.
// In responses, UniqueRows, Reuse and LengthCV are those of the lookups that the worker made.
type Table struct {
	T    int   `json:"t"`
	Rows int64 `json:"rows,omitempty"`
	// PoolingFactor is the number of lookups per sample over all features.
	PoolingFactor float64 `json:"pooling_factor,omitempty"`
	// Features is the number of bags per sample; 0 means 1.
	Features int `json:"features,omitempty"`
	// LengthCV is the coefficient of variation of the lengths of the bags. 0 asks for bags
	// as equal as whole lengths at random can be. Anything else needs CapLengths: a worker
	// without it ignores the field.
	LengthCV float64 `json:"length_cv,omitempty"`
	// Batch is the batch of UniqueRows, Reuse and the table's indices; 0 means init's.
	// All members of a group have the same batch.
	Batch int `json:"batch,omitempty"`
	// UniqueRows is the number of distinct rows of one batch, and Reuse the share of
	// them in each use-count class (package access).
	UniqueRows float64                 `json:"unique_rows,omitempty"`
	Reuse      [access.Classes]float64 `json:"reuse"`
	// RowsPerID is the number of rows that come together, each time one id is drawn; 0 for
	// independent draws. A worker may ignore it: UniqueRows and Reuse hold the same.
	RowsPerID float64 `json:"rows_per_id,omitempty"`
	// LookupFile, if not empty, names a file with the table's lookups (package lookups). The
	// worker uses them unchanged. LookupFile needs CapLookupFiles.
	LookupFile string `json:"pool,omitempty"`
}

// Member is a column slice of a table.
type Member struct {
	T   int `json:"t"`
	Dim int `json:"dim"`
}

// Response is any response; Op decides which fields count.
type Response struct {
	Op string `json:"op"`
	V  int    `json:"v,omitempty"`
	ID string `json:"id,omitempty"`

	// Backend is "fbgemm", "triton", "torch", "cpu" or "simulated". Device is the
	// device's own name. Kernel is the code that runs, with its version. Measured is
	// false for a simulation (hello).
	Backend string   `json:"backend,omitempty"`
	Device  string   `json:"device,omitempty"`
	Kernel  string   `json:"kernel,omitempty"`
	Clocks  string   `json:"clocks,omitempty"`
	Caps    []string `json:"caps,omitempty"`
	// Lacks are pairs of an optimizer and a precision among Caps that the kernels do not
	// have together, such as "adam fp16" (hello).
	Lacks    []string `json:"lacks,omitempty"`
	Measured bool     `json:"measured,omitempty"`
	// Threads is the number of CPU threads of one device; MemoryBytes the most memory
	// for a group's weights and state; Ranks the most ranks of a comm request;
	// CacheBytes the size of the last-level cache.
	Threads     int   `json:"threads,omitempty"`
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	Ranks       int   `json:"ranks,omitempty"`
	CacheBytes  int64 `json:"cache_bytes,omitempty"`

	// Cache describes the flush that init asked for, for example "flushed 256MiB"
	// (init).
	Cache string `json:"cache,omitempty"`

	// Tables hold the statistics of the lookups that the worker made (tables).
	Tables []Table `json:"tables,omitempty"`

	// Times are medians in ms (compute), with their interquartile ranges over N
	// repeats. Source is "measured" or "simulated".
	ForwardMS      float64 `json:"fwd_ms,omitempty"`
	BackwardMS     float64 `json:"bwd_ms,omitempty"`
	ForwardSpread  float64 `json:"fwd_iqr,omitempty"`
	BackwardSpread float64 `json:"bwd_iqr,omitempty"`
	N              int     `json:"n,omitempty"`
	Source         string  `json:"source,omitempty"`

	// Forward and Backward are each rank's times in ms (comm); Forward contains the
	// wait for the last rank. Spread is the interquartile range of the slowest
	// backward.
	Forward  []float64 `json:"fwd,omitempty"`
	Backward []float64 `json:"bwd,omitempty"`
	Spread   float64   `json:"iqr,omitempty"`

	// Ceilings are the highest rates that the device reaches, by name: copy_gbps,
	// gather_gbps, cached_gather_gbps, sort_mkeys, clock_ghz and, with more than one
	// rank, alltoall_gbps and alltoall_us (ceilings). Profile is the hardware profile
	// that follows from the ceilings, for a device without a known profile.
	Ceilings map[string]float64 `json:"ceilings,omitempty"`
	Profile  hardware.Profile   `json:"profile,omitzero"`

	// Code and Message state the failure (error).
	Code    string `json:"code,omitempty"`
	Message string `json:"msg,omitempty"`
}

// Error is a worker's error response as a Go error.
type Error struct{ Code, Message string }

func (e *Error) Error() string { return fmt.Sprintf("worker: %s: %s", e.Code, e.Message) }
