package service

import (
	"bytes"
	"context"
	"net/http"
	"runtime"
	"slices"
	"sync"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/report"
)

// none is the input of operations without parameters.
type none struct{}

// version is what GET /v1/version returns.
type version struct {
	Version  string `json:"version" doc:"Version of neuroshard"`
	Go       string `json:"go" doc:"Version of Go"`
	Platform string `json:"platform" doc:"Operating system and processor"`
	// Profiles are the device profiles that this server plans for.
	Profiles []string `json:"profiles" doc:"Device profiles that this server plans for; empty: all of GET /v1/devices"`
}

// health is what GET /healthz and GET /readyz return.
type health struct {
	Status string `json:"status" example:"ok"`
}

// listRoutes registers the operations that describe the server, the devices and the workloads.
func listRoutes(s *Service) {
	register(s, operation{method: http.MethodGet, path: "/v1/version", id: "version", summary: "The version of the server", answer: version{}},
		func(context.Context, *none) (*reply, error) {
			profiles := s.prices.profiles()
			if profiles == nil {
				profiles = []string{}
			}
			return jsonReply(http.StatusOK, version{neuroshard.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, profiles})
		})
	register(s, operation{method: http.MethodGet, path: "/v1/devices", id: "devices", summary: "The device profiles", answer: []report.ListedDevice{}},
		func(context.Context, *none) (*reply, error) {
			modelled := s.prices.profiles()
			return jsonReply(http.StatusOK, report.DevicesJSON(func(name string) bool { return modelled == nil || slices.Contains(modelled, name) }))
		})
	workloads := sync.OnceValue(report.WorkloadsJSON) // drawing them takes time
	register(s, operation{method: http.MethodGet, path: "/v1/workloads", id: "workloads", summary: "The workloads that are known by name", answer: []report.ListedWorkload{}},
		func(context.Context, *none) (*reply, error) { return jsonReply(http.StatusOK, workloads()) })
	register(s, operation{method: http.MethodGet, path: "/healthz", id: "healthz", summary: "Whether the server runs", answer: health{}},
		func(context.Context, *none) (*reply, error) { return jsonReply(http.StatusOK, health{"ok"}) })
	register(s, operation{method: http.MethodGet, path: "/readyz", id: "readyz", summary: "Whether the server can answer: its store works", answer: health{}},
		func(ctx context.Context, _ *none) (*reply, error) {
			if err := s.shelf.store.Check(ctx); err != nil {
				s.log.Error("the store does not work", "error", err)
				return nil, busy(http.StatusServiceUnavailable, "the store of plans does not work: the server's log says why", 5)
			}
			return jsonReply(http.StatusOK, health{"ok"})
		})
	register(s, operation{method: http.MethodGet, path: "/metrics", id: "metrics", summary: "Metrics in the text format of Prometheus", answer: "", contentType: "text/plain"},
		func(context.Context, *none) (*reply, error) {
			var b bytes.Buffer
			s.metrics.write(&b)
			return &reply{Status: http.StatusOK, ContentType: "text/plain; version=0.0.4; charset=utf-8", Body: b.Bytes()}, nil
		})
}
