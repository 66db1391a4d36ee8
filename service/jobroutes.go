package service

import (
	"time"

	"github.com/neuroshard/neuroshard/service/jobs"
)

// JobStatus is what is known of a job.
type JobStatus struct {
	ID       string     `json:"id" doc:"Id of the job"`
	What     string     `json:"what" doc:"What the job does: plan, replan or sweep"`
	State    jobs.State `json:"state" enum:"queued,running,done,failed,canceled"`
	Created  time.Time  `json:"created"`
	Started  *time.Time `json:"started"`
	Ended    *time.Time `json:"ended"`
	Progress any        `json:"progress" doc:"How far the job is; null before it runs"`
	// Result is what the request would have returned, of a job that is done; Error is the
	// refusal, of one that failed.
	Result Value    `json:"result,omitempty" doc:"What the request would have returned, once the job is done"`
	Error  *Refusal `json:"error,omitempty" doc:"Why the job failed"`
}

// statusOf returns what is known of a job.
func statusOf(j *jobs.Job) JobStatus {
	status := j.Status()
	out := JobStatus{ID: status.ID, What: status.What, State: status.State, Created: status.Created, Started: orNull(status.Started), Ended: orNull(status.Ended), Progress: status.Progress}
	if !status.State.Ended() {
		return out
	}
	result, err := j.Result()
	if a, ok := result.(interface{ bytes() []byte }); ok && err == nil {
		out.Result = a.bytes()
	}
	if err != nil {
		out.Error = refused(err)
	}
	return out
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
