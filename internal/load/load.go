// Package load sends requests at a rate, or one after another, and reports how long they took.
//
//	Open      a request at each tick of a clock, whether or not earlier ones have ended
//	Closed    several clients; each client sends a request when its last one has ended
//	Report    the results: Rate, Quantile, Errors
//
// In Open, the time of a request counts from the moment at which the request was due. So if the
// server or the load generator stalls, all requests that were due during the stall count as slow,
// and not only the request that was in progress.
package load

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// Request sends the request with a number, counted from 0, and returns an error unless the
// answer is the expected one. It is called by several goroutines at once.
type Request func(ctx context.Context, n int) error

// mostWaiting is the most requests of Open that wait for their answers. A request that is due
// when they all wait counts as an error.
const mostWaiting = 4096

// Open sends requests at a rate in requests a second, up to a number or until ctx ends, and
// waits for all answers.
func Open(ctx context.Context, rate float64, requests int, do Request) *Report {
	r := newReport(requests)
	var wait sync.WaitGroup
	waiting := make(chan struct{}, mostWaiting)
	interval := float64(time.Second) / rate
	for n := 0; n < requests && ctx.Err() == nil; n++ {
		due := r.start.Add(time.Duration(float64(n) * interval))
		if early := time.Until(due); early > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(early):
			}
		}
		select {
		case waiting <- struct{}{}:
		default:
			r.add(due, fmt.Errorf("not sent, because %d requests wait for their answers", mostWaiting))
			continue
		}
		wait.Go(func() {
			r.add(due, do(ctx, n))
			<-waiting
		})
	}
	wait.Wait()
	return r.finish()
}

// Closed has clients send requests one after another, up to a number of all clients together
// or until ctx ends. It calls progress, if that is not nil, between two requests with the
// number of requests that were sent before; the other clients go on.
func Closed(ctx context.Context, clients, requests int, do Request, progress func(done int)) *Report {
	r := newReport(requests)
	var wait sync.WaitGroup
	numbers := make(chan int)
	for range clients {
		wait.Go(func() {
			for n := range numbers {
				start := time.Now()
				r.add(start, do(ctx, n))
			}
		})
	}
	for n := 0; n < requests && ctx.Err() == nil; n++ {
		if progress != nil {
			progress(n)
		}
		numbers <- n
	}
	close(numbers)
	wait.Wait()
	return r.finish()
}

// Report is the result of requests.
type Report struct {
	// Took is the time from the start to the last answer.
	Took time.Duration

	start time.Time
	lock  sync.Mutex
	times []time.Duration // sorted when the report is finished
	wrong map[string]int  // how often each error was returned
}

func newReport(requests int) *Report {
	return &Report{start: time.Now(), times: make([]time.Duration, 0, requests), wrong: map[string]int{}}
}

// add counts a request that has just ended.
func (r *Report) add(start time.Time, err error) {
	took := time.Since(start)
	r.lock.Lock()
	defer r.lock.Unlock()
	r.times = append(r.times, took)
	if err != nil {
		r.wrong[err.Error()]++
	}
}

func (r *Report) finish() *Report {
	r.Took = time.Since(r.start)
	slices.Sort(r.times)
	return r
}

// Requests returns the number of requests, with those that failed.
func (r *Report) Requests() int { return len(r.times) }

// Rate returns the answers a second.
func (r *Report) Rate() float64 { return float64(len(r.times)) / max(r.Took.Seconds(), 1e-9) }

// Quantile returns the time that a share of the requests, from 0 to 1, did not exceed: 0.99
// is p99 and 1 is the longest time. It is 0 if there were no requests.
func (r *Report) Quantile(share float64) time.Duration {
	if len(r.times) == 0 {
		return 0
	}
	at := int(math.Ceil(share*float64(len(r.times)))) - 1
	return r.times[min(max(at, 0), len(r.times)-1)]
}

// Failed returns the number of requests that failed.
func (r *Report) Failed() (n int) {
	for _, times := range r.wrong {
		n += times
	}
	return n
}

// Errors returns the most frequent errors with their numbers, at most ten.
func (r *Report) Errors() (all []string) {
	texts := slices.SortedFunc(maps.Keys(r.wrong), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.wrong[b], r.wrong[a]), cmp.Compare(a, b))
	})
	for _, text := range texts[:min(len(texts), 10)] {
		all = append(all, fmt.Sprintf("%d x %s", r.wrong[text], text))
	}
	return all
}
