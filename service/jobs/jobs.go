// Package jobs runs work in the background, a few jobs at a time, and keeps the result of each
// job for a while.
//
//	Queue.Start   accepts work, or joins the job that does the same work already
//	Job.Wait      waits for the end of a job; if its last caller stops waiting, the job is canceled
//	Job.Changes   the progress of a job, for callers that follow the job (progress.go)
//	Queue.Close   lets jobs finish, then cancels the rest
//
// Jobs start in the order of their arrival. A job starts when two conditions hold: fewer than
// Options.Running jobs run, and the weights of the running jobs leave room for the job's weight,
// such as its memory. The package knows nothing about plans.
package jobs

import (
	"container/list"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// State says how far a job is.
type State string

// The states. A job that ended is done, failed or canceled.
const (
	Queued   State = "queued"
	Running  State = "running"
	Done     State = "done"
	Failed   State = "failed"
	Canceled State = "canceled"
)

// Ended reports whether the state is one of a job that ended.
func (s State) Ended() bool { return s == Done || s == Failed || s == Canceled }

// The errors of Start and Wait that callers tell apart.
var (
	// ErrFull means that the queue holds its most waiting jobs.
	ErrFull = errors.New("the queue is full")
	// ErrClosed means that the queue takes no jobs any more.
	ErrClosed = errors.New("the queue is closed")
	// ErrCanceled is the cause of the context of a job that was canceled.
	ErrCanceled = errors.New("the job was canceled")
)

// TooHeavy is the error of work that is heavier than all running jobs together may be.
type TooHeavy struct{ Weight, Most int64 }

func (e *TooHeavy) Error() string {
	return fmt.Sprintf("the work has weight %d, above the most of %d", e.Weight, e.Most)
}

// Panicked is the error of a job whose work panicked.
type Panicked struct {
	Value any
	Stack []byte
}

func (e *Panicked) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Options bound a queue. The zero value works.
type Options struct {
	// Running is the most jobs that run at a time; 1 by default.
	Running int
	// Waiting is the most jobs that wait; 64 by default, none if it is negative.
	Waiting int
	// Weight is the most weight of all running jobs together; 0: no limit.
	Weight int64
	// Kept is the number of ended jobs that are kept; 256 by default. KeptFor is how long they
	// are kept; an hour by default.
	Kept    int
	KeptFor time.Duration
	// KeptSize is the most bytes of the results of ended jobs, by Size; 64 MiB by default.
	KeptSize int64
	// Size returns the bytes of a result; nil: none.
	Size func(result any) int64
	// OnEnd, if set, is called with each job that ended, before the job's callers get the result.
	OnEnd func(j *Job)
}

// Work is what a job does.
type Work struct {
	// What names the sort of work, such as "plan".
	What string
	// Key, if not empty, is the same for work with the same result. Work with the key of a job
	// that has not ended joins that job.
	Key string
	// Weight is the share of Options.Weight that the work takes while it runs.
	Weight int64
	// Limit, if above 0, ends the context of Run after that time.
	Limit time.Duration
	// Run does the work of a job, and reports its progress with Job.Report. If Run returns an error,
	// its result is dropped. If the job is canceled, ctx ends with the cause ErrCanceled.
	Run func(ctx context.Context, j *Job) (result any, err error)
}

// Queue holds jobs. It is safe for concurrent use.
type Queue struct {
	opt Options

	lock    sync.Mutex
	jobs    map[string]*Job
	byKey   map[string]*Job
	waiting list.List // of *Job, in the order of arrival
	ended   list.List // of *Job, in the order of their ends
	running int
	weight  int64
	// kept is the bytes of the results of ended jobs.
	kept   int64
	closed bool
	// idle is closed when no job is queued or runs after Close began; nil before.
	idle chan struct{}
}

// New returns a queue.
func New(opt Options) *Queue {
	if opt.Running <= 0 {
		opt.Running = 1
	}
	if opt.Waiting == 0 {
		opt.Waiting = 64
	}
	if opt.Kept == 0 {
		opt.Kept = 256
	}
	if opt.KeptSize == 0 {
		opt.KeptSize = 64 << 20
	}
	if opt.KeptFor == 0 {
		opt.KeptFor = time.Hour
	}
	return &Queue{opt: opt, jobs: map[string]*Job{}, byKey: map[string]*Job{}}
}

// Start accepts work and returns its job. With detached, the job runs on if nobody waits for
// it; without, the caller must call Wait once. Start fails with ErrFull, ErrClosed or
// *TooHeavy.
func (q *Queue) Start(w Work, detached bool) (*Job, error) {
	q.lock.Lock()
	defer q.lock.Unlock()
	if q.closed {
		return nil, ErrClosed
	}
	if j := q.byKey[w.Key]; w.Key != "" && j != nil && j.ctx.Err() == nil {
		j.join(detached)
		return j, nil
	}
	if q.opt.Weight > 0 && w.Weight > q.opt.Weight {
		return nil, &TooHeavy{w.Weight, q.opt.Weight}
	}
	starts := q.waiting.Len() == 0 && q.fits(&w)
	if !starts && q.waiting.Len() >= max(0, q.opt.Waiting) {
		return nil, ErrFull
	}
	j := newJob(q, w)
	j.join(detached)
	q.jobs[j.id] = j
	if w.Key != "" {
		q.byKey[w.Key] = j
	}
	if starts {
		q.run(j)
	} else {
		j.place = q.waiting.PushBack(j)
	}
	return j, nil
}

// fits reports whether work can run now.
func (q *Queue) fits(w *Work) bool {
	return q.running < q.opt.Running && (q.opt.Weight == 0 || q.weight+w.Weight <= q.opt.Weight)
}

// run starts a job. The queue is locked.
func (q *Queue) run(j *Job) {
	q.running++
	q.weight += j.work.Weight
	j.begin()
	go q.work(j)
}

// work does the work of a job, and then starts jobs that wait.
func (q *Queue) work(j *Job) {
	result, err := j.do()
	q.finish(j, result, err)
	q.lock.Lock()
	q.running--
	q.weight -= j.work.Weight
	q.end(j)
	for q.waiting.Len() > 0 {
		next := q.waiting.Front().Value.(*Job)
		if !q.fits(&next.work) {
			break
		}
		q.waiting.Remove(next.place)
		next.place = nil
		q.run(next)
	}
	q.lock.Unlock()
}

// finish sets the result of a job, and calls OnEnd before the job's callers get the result.
func (q *Queue) finish(j *Job, result any, err error) {
	if q.opt.Size != nil && result != nil {
		j.size = q.opt.Size(result)
	}
	j.finish(result, err)
	if q.opt.OnEnd != nil {
		q.opt.OnEnd(j)
	}
}

// end keeps a job that finished, returns its result to the callers that wait, and forgets old jobs.
// The queue is locked.
func (q *Queue) end(j *Job) {
	if q.byKey[j.work.Key] == j {
		delete(q.byKey, j.work.Key)
	}
	q.kept += j.size
	j.release()
	q.ended.PushBack(j)
	q.forget()
	if q.idle != nil && q.running == 0 && q.waiting.Len() == 0 {
		close(q.idle)
		q.idle = nil
	}
}

// forget drops ended jobs that are too old or too many. The queue is locked.
func (q *Queue) forget() {
	for e := q.ended.Front(); e != nil; e = q.ended.Front() {
		j := e.Value.(*Job)
		if q.ended.Len() <= q.opt.Kept && (q.kept <= q.opt.KeptSize || q.ended.Len() == 1) && time.Since(j.Status().Ended) < q.opt.KeptFor {
			return
		}
		q.ended.Remove(e)
		q.kept -= j.size
		delete(q.jobs, j.id)
	}
}

// Job returns the job of that id, or nil.
func (q *Queue) Job(id string) *Job {
	q.lock.Lock()
	defer q.lock.Unlock()
	q.forget()
	return q.jobs[id]
}

// Jobs returns all jobs that are known, in no order.
func (q *Queue) Jobs() []*Job {
	q.lock.Lock()
	defer q.lock.Unlock()
	q.forget()
	all := make([]*Job, 0, len(q.jobs))
	for _, j := range q.jobs {
		all = append(all, j)
	}
	return all
}

// Load returns the number of jobs that run and that wait, and the weight of those that run.
func (q *Queue) Load() (running, waiting int, weight int64) {
	q.lock.Lock()
	defer q.lock.Unlock()
	return q.running, q.waiting.Len(), q.weight
}

// cancel cancels a job: one that waits ends at once.
func (q *Queue) cancel(j *Job) {
	q.lock.Lock()
	waited := j.place != nil
	if waited {
		q.waiting.Remove(j.place)
		j.place = nil
	}
	q.lock.Unlock()
	j.stop(ErrCanceled)
	if !waited {
		return
	}
	q.finish(j, nil, ErrCanceled)
	q.lock.Lock()
	defer q.lock.Unlock()
	q.end(j)
}

// leave notes that a caller stops waiting for a job, and cancels the job if no other caller waits.
func (q *Queue) leave(j *Job) {
	q.lock.Lock()
	left := j.leave()
	if left {
		j.stop(ErrCanceled) // no caller joins it any more
	}
	q.lock.Unlock()
	if left {
		q.cancel(j)
	}
}

// Close takes no more jobs, and lets the others finish until ctx ends. Then it cancels them
// and waits for them.
func (q *Queue) Close(ctx context.Context) {
	q.lock.Lock()
	q.closed = true
	if q.running == 0 && q.waiting.Len() == 0 {
		q.lock.Unlock()
		return
	}
	if q.idle == nil {
		q.idle = make(chan struct{})
	}
	idle := q.idle
	q.lock.Unlock()
	select {
	case <-idle:
		return
	case <-ctx.Done():
	}
	for _, j := range q.Jobs() {
		if !j.Status().State.Ended() {
			q.cancel(j)
		}
	}
	<-idle
}

// newID returns an id that nobody guesses.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// do runs the work and turns a panic into an error.
func (j *Job) do() (result any, err error) {
	defer func() {
		if value := recover(); value != nil {
			result, err = nil, &Panicked{value, debug.Stack()}
		}
	}()
	ctx := j.ctx
	if j.work.Limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, j.work.Limit)
		defer stop()
	}
	if result, err = j.work.Run(ctx, j); err != nil {
		return nil, err
	}
	return result, nil
}
