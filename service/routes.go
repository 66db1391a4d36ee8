package service

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/report/page"
)

// reply is the encoded answer of an operation.
type reply struct {
	Status      int
	ContentType string `header:"Content-Type"`
	// Length is the bytes of Body; register sets it. Without it, net/http sends the answer in chunks.
	Length   int    `header:"Content-Length"`
	Location string `header:"Location"`
	Body     []byte
}

// jsonReply returns a value as the answer.
func jsonReply(status int, value any) (*reply, error) {
	var b bytes.Buffer
	in := json.NewEncoder(&b)
	in.SetEscapeHTML(false)
	err := in.Encode(value)
	return &reply{Status: status, ContentType: "application/json", Body: b.Bytes()}, err
}

// operation is one route of the API with what its description says.
type operation struct {
	method, path, id, summary string
	// body and answer are values of the types of the body and of the answer. If body is nil, the
	// request has no body; if answer is nil, the answer may have any form.
	body, answer any
	// contentType is the content type of the answer; application/json if it is empty.
	contentType string
	// job says that the answer may be the job, with status 202: if the caller asks for the job, or
	// always if answer is a JobStatus.
	job bool
}

// router is a mux that keeps a list of its patterns.
type router struct {
	*http.ServeMux
	patterns []string
}

// HandleFunc registers a handler.
func (r *router) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	r.patterns = append(r.patterns, pattern)
	r.ServeMux.HandleFunc(pattern, handler)
}

// ServeHTTP answers a request that no route takes with a refusal: the mux answers with plain text.
func (r *router) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	own, pattern := r.Handler(q)
	if pattern != "" {
		r.ServeMux.ServeHTTP(w, q)
		return
	}
	none := &noRoute{header: w.Header(), status: http.StatusOK}
	own.ServeHTTP(none, q) // it sets the header Allow
	if none.status != http.StatusMethodNotAllowed {
		none.status = http.StatusNotFound // a redirect to a clean path that no route takes, too
		w.Header().Del("Location")
	}
	refusal := refuse(none.status, typeNotFound, "there is no path "+clip(q.URL.Path), "GET /openapi.json describes all paths")
	if none.status == http.StatusMethodNotAllowed {
		refusal = refuse(none.status, "about:blank", fmt.Sprintf("%s does not take the method %s", clip(q.URL.Path), clip(q.Method)), "use one of "+w.Header().Get("Allow"))
	}
	write(w, refusal)
}

// noRoute takes the status of the mux's own answer and drops its text.
type noRoute struct {
	header http.Header
	status int
}

func (n *noRoute) Header() http.Header         { return n.header }
func (n *noRoute) Write(b []byte) (int, error) { return len(b), nil }
func (n *noRoute) WriteHeader(status int)      { n.status = status }

// newAPI returns the API of a mux, without operations.
func newAPI(mux *router) huma.API {
	return humago.New(mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "neuroshard", Version: neuroshard.Version,
				Description: "Plans how the embedding tables of a recommendation model are split and placed over devices.",
			},
			Components: &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", schemaName)},
		},
		Formats:                      map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{refuseParameters},
	})
}

// refuseParameters returns huma's own errors, which are about parameters, as refusals.
func refuseParameters(_ huma.Context, _ string, answer any) (any, error) {
	if own, ok := answer.(*huma.ErrorModel); ok {
		return ofParameters(own), nil
	}
	return answer, nil
}

// routes registers all operations, and encodes the description of the API.
func routes(s *Service, mux *router) error {
	// huma knows no null for an object, and parts of a summary are null where they are not known.
	s.api.OpenAPI().Components.Schemas.RegisterTypeAlias(reflect.TypeFor[report.Summary](), reflect.TypeFor[Value]())
	planRoutes(s)
	plansRoutes(s)
	compareRoutes(s)
	jobRoutes(s)
	listRoutes(s)
	if err := pageRoutes(s, mux); err != nil {
		return err
	}
	if s.opt.Token != "" {
		s.api.OpenAPI().Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
		s.api.OpenAPI().Security = []map[string][]string{{"token": {}}}
	}
	var err error
	if s.openAPI, err = json.MarshalIndent(s.api.OpenAPI(), "", "  "); err != nil {
		return err
	}
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(s.openAPI)
	})
	return nil
}

// schemaName returns the name of a type in the description of the API.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if root, ok := strings.CutSuffix(name, "Body"); ok {
		name = root + "Request"
	}
	if t.PkgPath() == reflect.TypeFor[page.Document]().PkgPath() {
		name = "Page" + name
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// register adds an operation to the API and to its description.
func register[I any](s *Service, o operation, handle func(ctx context.Context, in *I) (*reply, error)) {
	op := s.described(&o)
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*reply, error) {
		out, err := handle(ctx, in)
		if err != nil {
			r := refused(err)
			if r.Status == http.StatusInternalServerError {
				s.log.Error("a request failed", "route", o.method+" "+o.path, "error", err)
			}
			return nil, r
		}
		if out != nil {
			out.Length = len(out.Body)
		}
		return out, nil
	})
	for _, response := range op.Responses {
		response.Headers = nil // they are those of any answer
	}
	if o.body != nil { // huma describes the body, and leaves it to decode
		schema := s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(o.body), true, o.id)
		s.api.OpenAPI().Paths[o.path].Post.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
	}
}

// described returns an operation as the description of the API has it.
func (s *Service) described(o *operation) huma.Operation {
	schemas := s.api.OpenAPI().Components.Schemas
	content := func(contentType string, value any) map[string]*huma.MediaType {
		schema := &huma.Schema{}
		if value != nil {
			schema = schemas.Schema(reflect.TypeOf(value), true, o.id)
		}
		return map[string]*huma.MediaType{contentType: {Schema: schema}}
	}
	op := huma.Operation{OperationID: o.id, Method: o.method, Path: o.path, Summary: o.summary, Responses: map[string]*huma.Response{
		"default": {Description: "What is wrong, and what to do about it", Content: content("application/problem+json", Refusal{})},
	}}
	if o.job {
		op.DefaultStatus = http.StatusAccepted
		op.Responses["202"] = &huma.Response{Description: "The job, whose address is in the header Location", Content: content("application/json", JobStatus{})}
	}
	if _, always := o.answer.(JobStatus); !always || !o.job {
		op.DefaultStatus = http.StatusOK
		op.Responses["200"] = &huma.Response{Description: "OK", Content: content(cmp.Or(o.contentType, "application/json"), o.answer)}
	}
	return op
}
