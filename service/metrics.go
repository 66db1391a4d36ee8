package service

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/service/jobs"
)

// counters are the metrics of a service, in Prometheus' form and by its conventions.
type counters struct {
	set                                 *metrics.Set
	hits, misses, panics, refusedBodies *metrics.Counter
	streams, unauthorised, crossSite    *metrics.Counter
	planning                            *metrics.Summary
}

func newCounters(s *Service) *counters {
	set := metrics.NewSet()
	m := &counters{
		set:           set,
		hits:          set.NewCounter(`neuroshard_plan_cache_requests_total{result="hit"}`),
		misses:        set.NewCounter(`neuroshard_plan_cache_requests_total{result="miss"}`),
		panics:        set.NewCounter("neuroshard_panics_total"),
		refusedBodies: set.NewCounter(`neuroshard_refused_total{reason="memory"}`),
		unauthorised:  set.NewCounter(`neuroshard_refused_total{reason="token"}`),
		crossSite:     set.NewCounter(`neuroshard_refused_total{reason="cross_site"}`),
		streams:       set.NewCounter(`neuroshard_refused_total{reason="streams"}`),
		planning:      set.NewSummary("neuroshard_planning_seconds"),
	}
	set.NewGauge(`neuroshard_jobs{state="running"}`, func() float64 { running, _, _ := s.queue.Load(); return float64(running) })
	set.NewGauge(`neuroshard_jobs{state="queued"}`, func() float64 { _, waiting, _ := s.queue.Load(); return float64(waiting) })
	set.NewGauge("neuroshard_jobs_memory_bytes", func() float64 { _, _, weight := s.queue.Load(); return float64(weight) })
	set.NewGauge("neuroshard_event_streams", func() float64 { return float64(len(s.streams)) })
	set.NewGauge("neuroshard_answer_cache_bytes", func() float64 { bytes, _ := s.shelf.answers.size(); return float64(bytes) })
	if file, ok := s.opt.Store.(interface{ Path() string }); ok {
		set.NewGauge("neuroshard_store_bytes", func() float64 { return sizeOfFiles(file.Path()) })
	}
	set.NewGauge(fmt.Sprintf("neuroshard_build_info{version=%q}", neuroshard.Version), func() float64 { return 1 })
	return m
}

// request counts a request that was answered.
func (m *counters) request(route string, code int, took time.Duration) {
	m.set.GetOrCreateCounter(fmt.Sprintf("neuroshard_http_requests_total{route=%q,code=\"%d\"}", route, code)).Inc()
	m.observe("neuroshard_http_request_duration_seconds", "route", route, took)
}

// observe adds a time to a summary with one label.
func (m *counters) observe(name, label, value string, took time.Duration) {
	m.set.GetOrCreateSummary(fmt.Sprintf("%s{%s=%q}", name, label, value)).Update(took.Seconds())
}

// job counts a job that ended.
func (m *counters) job(j *jobs.Status) {
	m.set.GetOrCreateCounter(fmt.Sprintf("neuroshard_jobs_total{what=%q,state=%q}", j.What, j.State)).Inc()
	if !j.Started.IsZero() {
		m.observe("neuroshard_job_duration_seconds", "what", j.What, j.Ended.Sub(j.Started))
		m.observe("neuroshard_job_wait_seconds", "what", j.What, j.Started.Sub(j.Created))
	}
}

// planned counts a search.
func (m *counters) planned(took time.Duration) { m.planning.Update(took.Seconds()) }

// write writes all metrics, and those of the process.
func (m *counters) write(w io.Writer) {
	m.set.WritePrometheus(w)
	metrics.WriteProcessMetrics(w)
}

// sizeOfFiles returns the bytes of the file of plans and of its log.
func sizeOfFiles(path string) (bytes float64) {
	for _, name := range []string{path, path + "-wal"} {
		if info, err := os.Stat(name); err == nil {
			bytes += float64(info.Size())
		}
	}
	return bytes
}
