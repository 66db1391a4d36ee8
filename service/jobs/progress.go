package jobs

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// Job is work in a queue. It is safe for concurrent use.
type Job struct {
	id    string
	work  Work
	queue *Queue
	ctx   context.Context
	stop  context.CancelCauseFunc
	// place is the job's place among those that wait; nil if it does not wait. The queue's lock
	// guards it.
	place *list.Element
	// size is the bytes of the result, from the end of the work.
	size  int64
	ended chan struct{}

	lock     sync.Mutex
	status   Status
	waiters  int
	detached bool
	result   any
	err      error
	// reported is when callers last saw a report.
	reported time.Time
	// changed is closed at each change of the status, and replaced by a new channel.
	changed chan struct{}
}

// Status is a copy of what is known of a job.
type Status struct {
	ID, What string
	State    State
	// Created, Started and Ended are zero if the job is not that far.
	Created, Started, Ended time.Time
	// Change counts the changes of the status, from 1.
	Change int64
	// Progress is the work's last report, or nil.
	Progress any
}

// progressEvery is the shortest time between two progress reports that callers see.
const progressEvery = 50 * time.Millisecond

func newJob(q *Queue, w Work) *Job {
	ctx, stop := context.WithCancelCause(context.Background())
	j := &Job{id: newID(), work: w, queue: q, ctx: ctx, stop: stop, ended: make(chan struct{}), changed: make(chan struct{})}
	j.status = Status{ID: j.id, What: w.What, State: Queued, Created: time.Now(), Change: 1}
	return j
}

// ID returns the job's id: 32 hex digits that cannot be guessed.
func (j *Job) ID() string { return j.id }

// join counts a caller that waits, or notes that the job runs on without any.
func (j *Job) join(detached bool) {
	j.lock.Lock()
	defer j.lock.Unlock()
	if detached {
		j.detached = true
	} else {
		j.waiters++
	}
}

// Cancel cancels the job: it ends the context of the work. The value that the work then returns is
// the job's result.
func (j *Job) Cancel() {
	if !j.Status().State.Ended() {
		j.queue.cancel(j)
	}
}

// Wait returns the result of the work. If ctx ends first, Wait returns the error of ctx, and cancels
// the job unless another caller waits for the job or the job is detached.
func (j *Job) Wait(ctx context.Context) (any, error) {
	select {
	case <-j.ended:
		return j.Result()
	case <-ctx.Done():
	}
	j.queue.leave(j)
	return nil, ctx.Err()
}

// leave reports whether nobody waits for the job after this caller, and it is not detached.
func (j *Job) leave() bool {
	j.lock.Lock()
	defer j.lock.Unlock()
	j.waiters--
	return j.waiters == 0 && !j.detached && !j.status.State.Ended()
}

// Result returns what the work returned. It is nil, nil before the end of the job.
func (j *Job) Result() (any, error) {
	j.lock.Lock()
	defer j.lock.Unlock()
	return j.result, j.err
}

// Status returns the present status.
func (j *Job) Status() Status {
	j.lock.Lock()
	defer j.lock.Unlock()
	return j.status
}

// Changes returns the present status, and a channel that is closed when the status changes.
func (j *Job) Changes() (Status, <-chan struct{}) {
	j.lock.Lock()
	defer j.lock.Unlock()
	return j.status, j.changed
}

// change counts a change. The job is locked.
func (j *Job) change() {
	j.status.Change++
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *Job) begin() {
	j.lock.Lock()
	defer j.lock.Unlock()
	j.status.State, j.status.Started = Running, time.Now()
	j.change()
}

// Report sets the progress of the work. Callers that follow the job see the newest report, at most
// one in each progressEvery.
func (j *Job) Report(progress any) {
	j.lock.Lock()
	defer j.lock.Unlock()
	first := j.status.Progress == nil
	j.status.Progress = progress
	if now := time.Now(); first || now.Sub(j.reported) >= progressEvery {
		j.reported = now
		j.change()
	}
}

// finish sets what became of the job.
func (j *Job) finish(result any, err error) {
	j.lock.Lock()
	defer j.lock.Unlock()
	j.result, j.err = result, err
	j.status.Ended = time.Now()
	j.status.Change++ // who looks now sees the end; release wakes the others
	switch {
	case errors.Is(context.Cause(j.ctx), ErrCanceled):
		j.status.State = Canceled
	case err != nil:
		j.status.State = Failed
	default:
		j.status.State = Done
	}
	j.work.Run = nil // what it holds may be large
}

// release wakes the callers that wait for the job.
func (j *Job) release() {
	j.lock.Lock()
	defer j.lock.Unlock()
	close(j.ended)
	close(j.changed)
	j.changed = make(chan struct{})
}
