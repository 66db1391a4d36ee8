package service

import (
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/service/jobs"
)

// counters are the metrics of a service, in Prometheus' form and by its conventions.
type counters struct {
	set                                     *metrics.Set
	hits, misses, panics, refusedBodies     *metrics.Counter
	planSeconds                             *metrics.FloatCounter
	plans, streams, unauthorised, crossSite *metrics.Counter
	// histograms are those that are known, by name and labels.
	histograms sync.Map
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
		plans:         set.NewCounter("neuroshard_planning_seconds_count"),
		planSeconds:   set.NewFloatCounter("neuroshard_planning_seconds_sum"),
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

// buckets are the upper bounds of the histograms of times, in seconds.
func buckets() []float64 {
	return []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
}

// request counts a request that was answered.
func (m *counters) request(route string, code int, took time.Duration) {
	m.set.GetOrCreateCounter(fmt.Sprintf("neuroshard_http_requests_total{route=%q,code=\"%d\"}", route, code)).Inc()
	m.observe("neuroshard_http_request_duration_seconds", fmt.Sprintf("route=%q", route), took)
}

// histogram counts times: buckets[i] is the number of times up to the bound i, and the last bucket
// the number of all times.
type histogram struct {
	buckets []*metrics.Counter
	count   *metrics.Counter
	sum     *metrics.FloatCounter
}

// histogram returns the histogram of a name and labels.
func (m *counters) histogram(name, labels string) *histogram {
	key := name + labels
	if known, ok := m.histograms.Load(key); ok {
		return known.(*histogram)
	}
	h := &histogram{
		count: m.set.GetOrCreateCounter(fmt.Sprintf("%s_count{%s}", name, labels)),
		sum:   m.set.GetOrCreateFloatCounter(fmt.Sprintf("%s_sum{%s}", name, labels)),
	}
	for _, bound := range append(buckets(), math.Inf(1)) {
		h.buckets = append(h.buckets, m.set.GetOrCreateCounter(fmt.Sprintf("%s_bucket{%s,le=%q}", name, labels, strconv.FormatFloat(bound, 'g', -1, 64))))
	}
	known, _ := m.histograms.LoadOrStore(key, h)
	return known.(*histogram)
}

// observe adds a time to a histogram.
func (m *counters) observe(name, labels string, took time.Duration) {
	h := m.histogram(name, labels)
	first := sort.SearchFloat64s(buckets(), took.Seconds())
	for _, bucket := range h.buckets[first:] {
		bucket.Inc()
	}
	h.count.Inc()
	h.sum.Add(took.Seconds())
}

// job counts a job that ended.
func (m *counters) job(j *jobs.Status) {
	m.set.GetOrCreateCounter(fmt.Sprintf("neuroshard_jobs_total{what=%q,state=%q}", j.What, j.State)).Inc()
	if !j.Started.IsZero() {
		m.observe("neuroshard_job_duration_seconds", fmt.Sprintf("what=%q", j.What), j.Ended.Sub(j.Started))
		m.observe("neuroshard_job_wait_seconds", fmt.Sprintf("what=%q", j.What), j.Started.Sub(j.Created))
	}
}

// planned counts a search.
func (m *counters) planned(took time.Duration) {
	m.plans.Inc()
	m.planSeconds.Add(took.Seconds())
}

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
