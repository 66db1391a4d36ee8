package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/net/netutil"

	"github.com/neuroshard/neuroshard/service"
	"github.com/neuroshard/neuroshard/service/store"
	"github.com/neuroshard/neuroshard/unit"
)

func newServeCommand(a *app) *cobra.Command {
	s := serveCommand{app: a, limits: service.DefaultLimits()}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Plan for other programs over HTTP, and show plans in a browser",
		Long: `Plan for other programs over HTTP, and show plans in a browser.

The server describes its API at /openapi.json. It keeps plans in the folder of --data. If a
request asks for a plan that the server has, the answer comes at once.

By default only programs on this machine can call the server. To let other machines in, set
an address with --listen, and with --token-file a file that has a token of 16 characters or
more. Callers send the token in the header Authorization: Bearer TOKEN.

SIGTERM or Ctrl-C ends the server. Jobs then have the time of grace to finish.`,
		Example: `  neuroshard serve --data plans
  neuroshard serve --data plans --listen 0.0.0.0:7878 --token-file token --tls-cert cert.pem --tls-key key.pem
  curl -s http://127.0.0.1:7878/v1/plan -H 'Content-Type: application/json' -d '{"problem": {"workload": "mlperf-dlrm-dcnv2"}}'`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context()) },
	}
	s.register(cmd)
	s.passed = cmd.Flags()
	cmd.AddCommand(newServeCheckCommand(a))
	return cmd
}

type serveCommand struct {
	*app
	listen, data, model         string
	tokenFile, tlsCert, tlsKey  string
	hosts                       []string
	log                         string
	grace                       time.Duration
	limits                      service.Limits
	maxBody, maxMemory, maxData size
	keep, connections           int
	passed                      *pflag.FlagSet
}

func (s *serveCommand) register(cmd *cobra.Command) {
	f := cmd.Flags()
	l := &s.limits
	f.StringVar(&s.listen, "listen", "127.0.0.1:7878", "`address` and port to serve; port 0 takes a free one")
	f.StringVar(&s.data, "data", "", "`folder` of the plans; it is made if it does not exist")
	f.StringVar(&s.model, "model", "", modelUsage+" (default: the models that ship for the profiles)")
	f.StringVar(&s.tokenFile, "token-file", "", "`file` with the token that callers must send; required unless --listen is a loopback address")
	f.StringVar(&s.tlsCert, "tls-cert", "", "`file` of the certificate, for HTTPS")
	f.StringVar(&s.tlsKey, "tls-key", "", "`file` of the certificate's key")
	f.StringSliceVar(&s.hosts, "allow-host", nil, "`names` of the server that requests may use, in addition to localhost and IP addresses")
	f.StringVar(&s.log, "log", "text", "`form` of the log on standard error: text, json or none")
	f.DurationVar(&s.grace, "grace", 10*time.Second, "`time` that jobs have to finish when the server ends")
	s.maxBody, s.maxMemory, s.maxData = size(l.Body), size(l.Memory), size(10*unit.GiB)
	f.Var(&s.maxBody, "max-body", "most bytes of a request")
	f.IntVar(&l.Tables, "max-tables", l.Tables, "most tables of a problem")
	f.IntVar(&l.Devices, "max-devices", l.Devices, "most devices of a problem")
	f.IntVar(&l.Cells, "max-cells", l.Cells, "most cells of a sweep")
	f.IntVar(&l.Concurrency, "concurrency", 0, "planning `jobs` at a time (default: the number of cores)")
	f.IntVar(&l.Queue, "queue", l.Queue, "most jobs that wait; with 0, no job waits")
	f.DurationVar(&l.Time, "time-limit", l.Time, "most `time` of a job")
	f.Var(&s.maxMemory, "max-memory", "memory of the process, shared by planning, requests and the cache of answers")
	f.IntVar(&l.Streams, "max-streams", l.Streams, "most streams of events at a time")
	f.IntVar(&s.connections, "max-connections", 1024, "most connections at a time")
	f.IntVar(&s.keep, "keep", 100_000, "most plans to keep; the oldest are deleted first, and the last plan of a name after all others")
	f.Var(&s.maxData, "max-data", "most bytes of plans to keep")
	complete(cmd, "log", func() []string { return []string{"text", "json", "none"} })
	completeModel(cmd)
}

func (s *serveCommand) run(ctx context.Context) error {
	token, err := s.check()
	if err != nil {
		return err
	}
	options, err := s.options(token)
	if err != nil {
		return err
	}
	certificate, err := s.certificate()
	if err != nil {
		return err
	}
	kept, err := store.Open(ctx, s.data, store.Options{Keep: store.Keep{Plans: s.keep, Bytes: unit.Bytes(s.maxData)}})
	if err != nil {
		return bad(err, "--data names the folder of the plans")
	}
	defer func() { _ = kept.Close() }()
	options.Store = kept
	serving, err := service.New(options)
	if err != nil {
		return bad(err, "see the limits with: neuroshard serve --help")
	}
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return bad(fmt.Errorf("--listen: %w", err), "name another address or port; port 0 takes a free one")
	}
	debug.SetMemoryLimit(int64(s.maxMemory))
	scheme := "http"
	listener = netutil.LimitListener(listener, s.connections)
	if certificate != nil {
		scheme, listener = "https", tls.NewListener(listener, certificate)
	}
	fmt.Fprintf(s.stdout, "neuroshard serves %s://%s, and keeps plans in %s\n", scheme, listener.Addr(), s.data)
	err = s.serve(ctx, serving, listener)
	if err == nil {
		err = kept.Close()
	}
	return bad(err, "")
}

// serve serves until ctx ends, and then lets requests and jobs finish.
func (s *serveCommand) serve(ctx context.Context, serving *service.Service, listener net.Listener) error {
	server := serving.Server()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), s.grace)
	defer stop()
	closed := make(chan struct{})
	go func() { serving.Close(grace); close(closed) }()
	err := server.Shutdown(grace)
	<-closed
	if errors.Is(err, context.DeadlineExceeded) {
		// The jobs have ended. Wait a moment until their answers are sent.
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer stop()
		if server.Shutdown(last) != nil {
			_ = server.Close()
		}
		err = nil
	}
	return err
}

// check reports flags that are out of range or contradict each other, and returns the token.
func (s *serveCommand) check() (token string, err error) {
	var f faults
	f.add(s.data == "", "name the folder of the plans; it is made if it does not exist", "--data is missing")
	f.add((s.tlsCert == "") != (s.tlsKey == ""), "give both, or none of them", "--tls-cert and --tls-key go together")
	f.add(s.grace < 0, "leave the flag out for the default", "grace: %v is below 0", s.grace)
	f.add(slices.ContainsFunc(s.hosts, isBlank), "write names with a comma between each two: --allow-host plans.example,planner", "--allow-host: a name is empty")
	f.add(s.log != "text" && s.log != "json" && s.log != "none", "", "--log: %q is none of text, json and none", s.log)
	local, err := loopback(s.listen)
	if err != nil {
		f.add(true, "write an address and a port, such as 127.0.0.1:7878", "--listen: %v", err)
	}
	f.add(err == nil && !local && s.tokenFile == "", "add --token-file FILE, or listen on 127.0.0.1", "--listen: other machines can reach %s, and no token is set", s.listen)
	err = nil
	if s.tokenFile != "" {
		token, err = s.readToken()
	}
	return token, f.err(err, s.checkLimits())
}

func isBlank(text string) bool { return strings.TrimSpace(text) == "" }

// checkLimits reports limits that are 0 or less. A limit of 0 in service.Limits and in store.Keep
// stands for the default, which is not what a user means who writes 0.
func (s *serveCommand) checkLimits() error {
	const hint = "leave the flag out for the default"
	l := &s.limits
	var f faults
	f.below(1, map[string]int{
		"max-tables": l.Tables, "max-devices": l.Devices, "max-cells": l.Cells, "max-streams": l.Streams, "max-connections": s.connections, "keep": s.keep,
		"max-body": int(s.maxBody), "max-memory": int(s.maxMemory), "max-data": int(s.maxData),
	})
	if s.passed.Changed("concurrency") {
		f.below(1, map[string]int{"concurrency": l.Concurrency})
	}
	f.add(l.Queue < 0, hint, "queue: %d is below 0", l.Queue)
	f.add(l.Time <= 0, hint, "time_limit: %v is not above 0", l.Time)
	return f.err()
}

// loopback reports whether only programs of this machine reach an address.
func loopback(address string) (bool, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("%q is not an address with a port", address)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return false, fmt.Errorf("%q is not a port", port)
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback(), nil
}

// leastToken is the fewest characters of a token that nobody guesses, and mostToken the most that
// a header of a request has room for.
const leastToken, mostToken = 16, 4096

// readToken reads the file of --token-file.
func (s *serveCommand) readToken() (string, error) {
	text, err := s.tokenText()
	if err != nil {
		return "", unreadable(s.tokenFile, err, "make one, for example with: openssl rand -hex 32")
	}
	token := strings.TrimSpace(string(text))
	if len(token) < leastToken || len(token) > mostToken || strings.ContainsFunc(token, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsGraphic(r) || unicode.IsSpace(r) }) {
		return "", faulty(fmt.Sprintf("%s: the token is not one word of %d to %d ASCII characters", s.tokenFile, leastToken, mostToken), "make one, for example with: openssl rand -hex 32")
	}
	return token, nil
}

// tokenText returns the start of the file of --token-file: a longer one holds no token.
func (s *serveCommand) tokenText() ([]byte, error) {
	file, err := os.Open(s.tokenFile)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, 2*mostToken))
}

// options returns the options of the service, without its store.
func (s *serveCommand) options(token string) (service.Options, error) {
	s.limits.Body, s.limits.Memory = unit.Bytes(s.maxBody), unit.Bytes(s.maxMemory)
	s.limits.Cache = 0 // its share of the memory
	if s.limits.Queue == 0 {
		s.limits.Queue = -1 // no job waits; 0 would be the default
	}
	o := service.Options{Limits: s.limits, Token: token, Hosts: s.hosts, Formulas: formulasOf(s.model)}
	switch s.log {
	case "text":
		o.Log = slog.New(slog.NewTextHandler(s.stderr, nil))
	case "json":
		o.Log = slog.New(slog.NewJSONHandler(s.stderr, nil))
	}
	if o.Formulas == nil {
		model, err := s.givenModel(s.model)
		if err != nil {
			return o, err
		}
		o.Model = model
	}
	return o, nil
}

// certificate reads the certificate of --tls-cert; nil without the flag.
func (s *serveCommand) certificate() (*tls.Config, error) {
	if s.tlsCert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(s.tlsCert, s.tlsKey)
	if err != nil {
		return nil, bad(fmt.Errorf("the certificate %s with the key %s: %w", filepath.Base(s.tlsCert), filepath.Base(s.tlsKey), err), "give files in PEM form")
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}, nil
}
