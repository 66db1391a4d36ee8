package service

import (
	"fmt"
	"runtime"
	"time"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
	"github.com/neuroshard/neuroshard/unit"
)

// Limits bound what requests ask for. A field that is 0 has its default.
type Limits struct {
	// Body is the most bytes of a request's body; 32 MiB by default.
	Body unit.Bytes
	// Tables and Devices are the most tables and devices of a problem; 20,000 and 4,096 by default.
	Tables, Devices int
	// Cells is the most cells of a sweep; 256 by default.
	Cells int
	// Concurrency is the number of planning jobs at a time; by default the number of processors,
	// because a search gains little from a second one. Each job's search uses
	// an equal share of the processors.
	Concurrency int
	// Queue is the most jobs that wait; 64 by default. If it is negative, no job may wait.
	Queue int
	// Time is the most time of a job; a minute by default.
	Time time.Duration
	// Memory is the memory of the process; half of it is for planning, a quarter for the bodies of
	// requests and an eighth for the cache of answers. 2 GiB by default.
	Memory unit.Bytes
	// Cache is the most bytes of encoded answers in memory; an eighth of Memory by default.
	Cache unit.Bytes
	// Streams is the most streams of events at a time; 64 by default.
	Streams int
	// BodyTime is the most time that a client has to send a body, and WriteTime the most time to
	// take each part of an answer; 30 s by default.
	BodyTime, WriteTime time.Duration
}

// DefaultLimits returns the limits of a service whose operator states none.
func DefaultLimits() Limits { return Limits{}.withDefaults() }

func (l Limits) withDefaults() Limits {
	orDefault(&l.Body, 32*unit.MiB)
	orDefault(&l.Tables, 20_000)
	orDefault(&l.Devices, 4096)
	orDefault(&l.Cells, 256)
	orDefault(&l.Concurrency, runtime.GOMAXPROCS(0))
	orDefault(&l.Queue, 64)
	orDefault(&l.Time, time.Minute)
	orDefault(&l.Memory, 2*unit.GiB)
	orDefault(&l.Cache, l.Memory/8)
	orDefault(&l.Streams, 64)
	orDefault(&l.BodyTime, 30*time.Second)
	orDefault(&l.WriteTime, 30*time.Second)
	return l
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// leastMemory is the least memory with which a service can plan published models.
const leastMemory = 256 * unit.MiB

// check reports limits that are out of range.
func (l *Limits) check() []error {
	var errs []error
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	add(l.Body < unit.KiB, "the limit of a body of %v is below 1 KiB", l.Body)
	add(l.Tables < 1 || l.Tables > problem.MaxTables, "the limit of %d tables is not between 1 and %d", l.Tables, problem.MaxTables)
	add(l.Devices < 1 || l.Devices > hardware.MaxDevices, "the limit of %d devices is not between 1 and %d", l.Devices, hardware.MaxDevices)
	add(l.Cells < 1, "the limit of %d cells of a sweep is below 1", l.Cells)
	add(l.Concurrency < 1, "%d planning jobs at a time are below 1", l.Concurrency)
	add(l.Time < time.Millisecond, "the limit of time of %v is below 1 ms", l.Time)
	add(l.Memory < leastMemory, "the limit of memory of %v is below %v", l.Memory, leastMemory)
	add(l.Cache < 0 || l.Cache > l.Memory/2, "the cache of %v is not between 0 and half of the memory of %v", l.Cache, l.Memory)
	add(l.bodyMemory() < bodyWeight(l.Body), "a body of %v does not fit into the memory for bodies, which is a quarter of %v: %v would fit", l.Body, l.Memory, l.bodyMemory()/bodyCopies)
	add(l.Streams < 1, "%d streams of events are below 1", l.Streams)
	add(l.BodyTime < 0 || l.WriteTime < 0, "a limit of time is below 0")
	return errs
}

// bodyCopies is the memory of a request while its body is decoded, as a multiple of the body's
// bytes: the buffer, which grows by doubling, the parts of the body, and its tables.
const bodyCopies = 8

func bodyWeight(body unit.Bytes) int64 { return int64(body) * bodyCopies }

// bodyMemory is the memory for the bodies of requests.
func (l *Limits) bodyMemory() int64 { return int64(l.Memory / 4) }

// planMemory is the memory for all planning jobs together.
func (l *Limits) planMemory() int64 { return int64(l.Memory / 2) }

// planWeight returns an upper estimate of the memory that planning takes. It is above the
// peaks of processes that plan (docs/RESULTS.md has the command).
func planWeight(tables, devices int) int64 {
	return int64(72*unit.MiB + 24*unit.KiB*unit.Bytes(tables) + 16*unit.KiB*unit.Bytes(devices))
}

// workers returns the threads of one job's search; they do not change the plan.
func (l *Limits) workers() int { return max(1, runtime.GOMAXPROCS(0)/l.Concurrency) }
