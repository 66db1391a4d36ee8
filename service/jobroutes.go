package service

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/neuroshard/neuroshard/service/jobs"
)

// JobStatus is what is known of a job.
type JobStatus struct {
	ID       string     `json:"id" doc:"Id of the job"`
	What     string     `json:"what" doc:"What the job does: plan, replan, sweep or page"`
	State    jobs.State `json:"state" enum:"queued,running,done,failed,canceled"`
	Created  time.Time  `json:"created"`
	Started  *time.Time `json:"started"`
	Ended    *time.Time `json:"ended"`
	Progress any        `json:"progress" doc:"How far the job is; null before it runs"`
	Result   Value      `json:"result,omitempty" doc:"The answer to the request, if the job is done or was canceled with a plan"`
	Error    *Refusal   `json:"error,omitempty" doc:"Why the job failed"`
}

// JobList is what GET /v1/jobs returns.
type JobList struct {
	Jobs []JobStatus `json:"jobs" doc:"Jobs, the newest in front, without their results"`
}

// encoded is a result of a job.
type encoded interface{ bytes() []byte }

// sizeOf returns the bytes of a result of a job.
func sizeOf(result any) int64 {
	if e, ok := result.(encoded); ok {
		return int64(len(e.bytes()))
	}
	return 0
}

// statusOf returns the status of a job; without its result if brief is true.
func statusOf(j *jobs.Job, brief bool) JobStatus {
	status := j.Status()
	out := JobStatus{ID: status.ID, What: status.What, State: status.State, Created: status.Created, Started: orNull(status.Started), Ended: orNull(status.Ended), Progress: status.Progress}
	if !status.State.Ended() {
		return out
	}
	result, err := j.Result()
	if e, ok := result.(encoded); ok && err == nil && !brief {
		out.Result = e.bytes()
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

// jobRoutes registers what reads, follows and cancels jobs.
func jobRoutes(s *Service) {
	register(s, operation{method: http.MethodGet, path: "/v1/jobs", id: "list-jobs", summary: "The jobs that wait, run, or ended a while ago", answer: JobList{}},
		func(context.Context, *none) (*reply, error) {
			all := s.queue.Jobs()
			out := JobList{Jobs: []JobStatus{}}
			for _, j := range all {
				out.Jobs = append(out.Jobs, statusOf(j, true))
			}
			slices.SortFunc(out.Jobs, func(a, b JobStatus) int { return b.Created.Compare(a.Created) })
			return jsonReply(http.StatusOK, out)
		})
	register(s, operation{method: http.MethodGet, path: "/v1/jobs/{id}", id: "get-job", summary: "A job, with its result once it has ended", answer: JobStatus{}},
		func(_ context.Context, in *byID) (*reply, error) {
			j := s.queue.Job(in.ID)
			if j == nil {
				return nil, noJob(in.ID)
			}
			return jsonReply(http.StatusOK, statusOf(j, false))
		})
	register(s, operation{method: http.MethodDelete, path: "/v1/jobs/{id}", id: "cancel-job", summary: "Cancel a job", answer: JobStatus{}},
		func(_ context.Context, in *byID) (*reply, error) {
			j := s.queue.Job(in.ID)
			if j == nil {
				return nil, noJob(in.ID)
			}
			j.Cancel()
			return jsonReply(http.StatusOK, statusOf(j, true))
		})
	events := operation{
		method: http.MethodGet, path: "/v1/jobs/{id}/events", id: "job-events", contentType: "text/event-stream", answer: "",
		summary: "The progress of a job as server-sent events: progress, then done, failed or canceled",
	}
	type follow struct {
		ID   string `path:"id" maxLength:"32" doc:"Id: 32 hex digits"`
		Last string `header:"Last-Event-ID" doc:"Id of the last event that was received"`
	}
	huma.Register(s.api, s.described(&events), func(_ context.Context, in *follow) (*huma.StreamResponse, error) {
		return follows(s, in.ID, in.Last)
	})
}

func noJob(id string) *Refusal {
	return refuse(http.StatusNotFound, typeNotFound, "there is no job "+clip(id)+", or it ended a while ago", "list the jobs with GET /v1/jobs")
}

// pulse is the time after which a stream without events sends a comment, so that no proxy ends the
// idle connection.
const pulse = 15 * time.Second

// follows streams the events of a job behind the last one that was received.
func follows(s *Service, id, last string) (*huma.StreamResponse, error) {
	j := s.queue.Job(id)
	if j == nil {
		return nil, noJob(id)
	}
	select {
	case s.streams <- struct{}{}:
	default:
		s.metrics.streams.Inc()
		return nil, busy(http.StatusServiceUnavailable, "too many streams of events are open", 5)
	}
	seen, _ := strconv.ParseInt(last, 10, 64) // 0 if there is none
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer func() { <-s.streams }()
		r, w := humago.Unwrap(c)
		stream(w, r, j, seen)
	}}, nil
}

// stream writes the events of a job after the event seen.
func stream(w http.ResponseWriter, r *http.Request, j *jobs.Job, seen int64) {
	status, changed := j.Changes()
	if status.State.Ended() && seen >= status.Change {
		w.WriteHeader(http.StatusNoContent) // all events were received: a browser connects no more
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	flush := http.NewResponseController(w)
	beat := time.NewTicker(pulse)
	defer beat.Stop()
	for {
		if status.Change > seen {
			seen = status.Change
			if event(w, j, status) != nil {
				return
			}
		}
		if flush.Flush() != nil || status.State.Ended() {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		case <-beat.C:
			if _, err := io.WriteString(w, ": \n\n"); err != nil {
				return
			}
		}
		status, changed = j.Changes()
	}
}

// event writes the status of a job as an event.
func event(w io.Writer, j *jobs.Job, status jobs.Status) error {
	name := "progress"
	out := JobStatus{ID: status.ID, What: status.What, State: status.State, Created: status.Created, Started: orNull(status.Started), Progress: status.Progress}
	if status.State.Ended() {
		name = string(status.State)
		out = statusOf(j, true)
	}
	data, err := json.Marshal(out)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", status.Change, name, data)
	return err
}

var _ huma.StatusError = (*Refusal)(nil)
