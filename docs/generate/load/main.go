//go:build unix

// Command load measures the service of neuroshard serve: it starts the binary and sends
// requests to it. docs/SERVICE.md shows what it prints.
//
//	go build -o bin/neuroshard ./cmd/neuroshard
//	go run ./docs/generate/load -binary bin/neuroshard                        how quick
//	go run ./docs/generate/load -binary bin/neuroshard -requests 86400        a day
//
// Server and generator share the processors of one machine. The load generator is
// internal/load and not a library, for two reasons: its times count from when a request was
// due, and its quantiles are exact. The answers are read whole, and checked.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/neuroshard/neuroshard/internal/load"
)

func main() {
	binary := flag.String("binary", "bin/neuroshard", "the neuroshard binary")
	requests := flag.Int("requests", 0, "replay this many requests of users in place of measuring rates: a day has 86400, one a second")
	clients := flag.Int("clients", 2, "clients of a replay, each with one request at a time")
	seconds := flag.Int("seconds", 20, "seconds of each measured rate")
	flags := flag.String("flags", "", "further flags of neuroshard serve, by spaces")
	flag.Parse()
	do := func() error { return rates(os.Stdout, *binary, *seconds, strings.Fields(*flags)) }
	if *requests > 0 {
		do = func() error { return day(os.Stdout, *binary, *requests, *clients, strings.Fields(*flags)) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// hundred is the body of a request for a plan of 100 tables on 8 devices.
func hundred(options string) string {
	return fmt.Sprintf(`{"problem":{"workload":"dlrm-datasets-100x8"},"options":{%s}}`, options)
}

// rates measures what the server answers at fixed rates, and as fast as it can.
func rates(w io.Writer, binary string, seconds int, flags []string) (err error) {
	ctx := context.Background()
	data, err := os.MkdirTemp("", "load")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	s, err := start(binary, data, flags...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()

	const known = 20
	var bodies, ids []string
	for n := range known {
		body := hundred(fmt.Sprintf(`"seed":%d,"method":"size"`, n))
		a, err := s.plan(ctx, body)
		if err != nil {
			return err
		}
		bodies, ids = append(bodies, body), append(ids, a.ID)
	}
	cached := func(ctx context.Context, n int) error {
		status, text, err := s.call(ctx, http.MethodPost, "/v1/plan", bodies[n%known])
		if err == nil && (status != http.StatusOK || !strings.Contains(string(text[:min(len(text), 200)]), ids[n%known])) {
			err = fmt.Errorf("status %d: %.200s", status, text)
		}
		return err
	}
	fresh := func(options string) load.Request {
		return func(ctx context.Context, n int) error {
			_, err := s.plan(ctx, hundred(fmt.Sprintf(`"seed":%d%s`, n, options)))
			return err
		}
	}
	fmt.Fprintf(w, "%d processors, server and generator together.\n\n", runtime.NumCPU())
	fmt.Fprintln(w, "| requests | answers a second | p50 | p99 | longest | errors | processors of the server | its memory, MiB |\n|---|--:|--:|--:|--:|--:|--:|--:|")
	row := func(name string, run func() *load.Report) error {
		before, err := s.state(ctx)
		if err != nil {
			return err
		}
		r := run()
		after, err := s.state(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "| %s | %.1f | %s | %s | %s | %d | %.2f | %.0f |\n", name, r.Rate(), ms(r.Quantile(0.5)), ms(r.Quantile(0.99)), ms(r.Quantile(1)), r.Failed(), (after.cpu-before.cpu)/r.Took.Seconds(), after.resident)
		for _, text := range r.Errors() {
			fmt.Fprintln(os.Stderr, "load:", name+":", text)
		}
		return nil
	}
	seed := 0 // each measurement of new plans has seeds of its own
	after := func(do load.Request, requests int) load.Request {
		first := seed + 1000
		seed = first + requests
		return func(ctx context.Context, n int) error { return do(ctx, first+n) }
	}
	columns := `,"sharding_types":["table_wise","column_wise"]`
	return errors.Join(
		row("a known plan, 2,000 a second", func() *load.Report { return load.Open(ctx, 2000, 2000*seconds, cached) }),
		row("a known plan, 8 clients without a pause", func() *load.Report { return load.Closed(ctx, 8, 3000*seconds, cached, nil) }),
		row("a new plan, 2 clients without a pause", func() *load.Report {
			return load.Closed(ctx, 2, 4*seconds, after(fresh(""), 4*seconds), nil)
		}),
		row("a new plan in at most 80,000 evaluations, 2 clients without a pause", func() *load.Report {
			return load.Closed(ctx, 2, 6*seconds, after(fresh(`,"max_evaluations":80000`), 6*seconds), nil)
		}),
		row("a new plan of slices of columns, 2 clients without a pause", func() *load.Report {
			return load.Closed(ctx, 2, 10*seconds, after(fresh(columns), 10*seconds), nil)
		}),
		row("a new plan of slices of columns, 10 a second", func() *load.Report {
			return load.Open(ctx, 10, 10*seconds, after(fresh(columns), 10*seconds))
		}),
	)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }

// day replays requests of users and prints what the server takes on the way. After them the
// server is started again, and has all plans that clients received.
func day(w io.Writer, binary string, requests, clients int, flags []string) (err error) {
	ctx := context.Background()
	data, err := os.MkdirTemp("", "load")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	// A small limit of memory, so that the cache of answers is full before the first request.
	flags = append([]string{"--max-memory", "320MiB", "--max-body", "4MiB"}, flags...)
	s, err := start(binary, data, flags...)
	if err != nil {
		return err
	}
	m := &mix{server: s, seed: 1}
	if err := errors.Join(m.prepare(ctx), m.fill(ctx)); err != nil {
		return errors.Join(err, s.kill())
	}
	fmt.Fprintln(w, "| requests | live heap, MiB | memory of the process, MiB | goroutines | open files | cache, MiB |\n|--:|--:|--:|--:|--:|--:|")
	report := func(done int) {
		now, err := s.state(ctx)
		if err != nil {
			fmt.Fprintln(os.Stderr, "load:", err)
		}
		fmt.Fprintf(w, "| %d | %.0f | %.0f | %d | %d | %.0f |\n", done, now.live, now.resident, now.goroutines, now.files, now.cache)
	}
	r := load.Closed(ctx, clients, requests, m.do, func(done int) {
		if done%max(1, requests/10) == 0 {
			report(done)
		}
	})
	report(requests)
	fmt.Fprintf(w, "\n%d requests in %.0f s, %.0f a second: p50 %s, p99 %s, longest %s, %d errors.\n", r.Requests(), r.Took.Seconds(), r.Rate(), ms(r.Quantile(0.5)), ms(r.Quantile(0.99)), ms(r.Quantile(1)), r.Failed())
	if err := s.stop(); err != nil {
		return err
	}
	again, err := start(binary, data, flags...)
	if err != nil {
		return err
	}
	if err := errors.Join(m.found(ctx, again), again.stop()); err != nil {
		return err
	}
	fmt.Fprintf(w, "After a restart all %d plans that clients received are found.\n", len(m.plans))
	if r.Failed() > 0 {
		return fmt.Errorf("%d requests failed:\n%s", r.Failed(), strings.Join(r.Errors(), "\n"))
	}
	return nil
}
