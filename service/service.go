// Package service plans over HTTP, for programs and for people: each command of the command line
// is a request. It has jobs, a cache of plans, and limits on everything that a request can ask for.
//
//	New             a Service of a model, a store and limits
//	Service.Handler the routes (routes.go, planroutes.go, plansroutes.go, lists.go) behind the guard (guard.go)
//	Service.Close   lets jobs finish
//
// A request goes through these steps, a file each:
//
//	guard      who may call: hosts, origins, tokens, panics, logs (guard.go)
//	body       the JSON of a request, every fault at once (body.go), with its types (requests.go)
//	compose    the problem that the request states (compose.go), within the limits (limits.go)
//	plan       the plan cache and the job that plans (plan.go), with the cost estimates of the
//	           operator's model (prices.go) and the job's progress (progress.go)
//	jobs       the jobs as callers see them (jobroutes.go)
//	judge      requests about given plans: price, validate, diff (comparison.go)
//	replan, sweep    plans from an old plan, and for many clusters (replan.go, sweep.go)
//	pages      the live page and its data (pageroutes.go)
//	refusal    errors as problem details with hints (refusal.go)
//
// The metrics are in metrics.go, the cache of answers is in cache.go, and the interface of the store
// in store.go. No request names a file, a folder or code: the operator chooses the model and the
// store.
package service

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/semaphore"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/service/jobs"
)

// Options configure a service. Store must be set.
type Options struct {
	// Model estimates the costs; nil takes Formulas, those of a release of TorchRec, or the models
	// that ship for the profiles if these are nil, too.
	Model    *cost.Model
	Formulas neuroshard.Prices
	Store    Store
	// Limits bound every request; fields that are 0 have the defaults of DefaultLimits.
	Limits Limits
	// Token, if not empty, is the bearer token that every request for data must have.
	Token string
	// Hosts are the names of the server that requests may use, in addition to localhost and IP
	// addresses. If Token is set and Hosts is empty, requests may use any name.
	Hosts []string
	// Log is where requests and failures are logged; if it is nil, nothing is logged.
	Log *slog.Logger
}

// Service plans for its callers. It is safe for concurrent use.
type Service struct {
	opt     Options
	limits  Limits
	log     *slog.Logger
	prices  *pricer
	shelf   *shelf
	planner *planner
	queue   *jobs.Queue
	metrics *counters
	// bodies is the memory of requests that are being read and decoded.
	bodies  *semaphore.Weighted
	streams chan struct{}
	mux     *router
	api     huma.API
	openAPI []byte
	handler http.Handler
}

// New returns a service. It fails if the limits contradict each other.
func New(opt Options) (*Service, error) {
	limits := opt.Limits.withDefaults()
	if err := errors.Join(limits.check()...); err != nil {
		return nil, err
	}
	if opt.Store == nil {
		return nil, errors.New("service: no store is set")
	}
	s := &Service{
		opt: opt, limits: limits,
		log:     cmp.Or(opt.Log, slog.New(slog.DiscardHandler)),
		prices:  newPricer(opt.Model, opt.Formulas),
		bodies:  semaphore.NewWeighted(limits.bodyMemory()),
		streams: make(chan struct{}, limits.Streams),
	}
	s.queue = jobs.New(jobs.Options{
		Running: limits.Concurrency, Waiting: limits.Queue, Weight: limits.planMemory(), OnEnd: s.jobEnded,
		KeptSize: int64(limits.Memory / 16), Size: sizeOf,
	})
	s.shelf = &shelf{opt.Store, newCache(int64(limits.Cache)), s.log}
	s.metrics = newCounters(s)
	mux := &router{ServeMux: http.NewServeMux()}
	s.mux, s.api = mux, newAPI(mux)
	s.planner = &planner{&composer{s.prices, &s.limits}, s.shelf, s.queue, s.metrics, s.api.OpenAPI().Components.Schemas}
	if err := routes(s, mux); err != nil {
		return nil, err
	}
	s.handler = newGuard(s, mux)
	return s, nil
}

// Server returns an HTTP server of the service, with timeouts against slow clients. The caller
// calls its Serve and its Shutdown.
func (s *Service) Server() *http.Server {
	return &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		// A body has its own limit (guard.takeIn), and so has each part of an answer (recorder).
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
}

// Handler returns the routes of the service, behind the guard.
func (s *Service) Handler() http.Handler { return s.handler }

// OpenAPI returns the description of the API: OpenAPI 3.1 in JSON.
func (s *Service) OpenAPI() []byte { return s.openAPI }

// Close takes no more jobs. It lets running and waiting jobs finish until ctx ends, and then cancels
// them: a canceled job answers with the best plan found so far. Close does not close the store.
func (s *Service) Close(ctx context.Context) {
	s.queue.Close(ctx)
}

// jobEnded counts and logs a job that ended.
func (s *Service) jobEnded(j *jobs.Job) {
	status := j.Status()
	s.metrics.job(&status)
	_, err := j.Result()
	if panicked := (*jobs.Panicked)(nil); errors.As(err, &panicked) {
		s.metrics.panics.Inc()
		s.log.Error("a job panicked", "job", status.ID, "what", status.What, "panic", strings.TrimSpace(panicked.Error()), "stack", string(panicked.Stack))
	}
	ran := time.Duration(0)
	if !status.Started.IsZero() {
		ran = status.Ended.Sub(status.Started)
	}
	s.log.Info("job", "job", status.ID, "what", status.What, "state", status.State, "ms", ran.Milliseconds())
}
