package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/neuroshard/neuroshard"
	"github.com/neuroshard/neuroshard/internal/words"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/input"
	"github.com/neuroshard/neuroshard/replan"
	"github.com/neuroshard/neuroshard/report"
	"github.com/neuroshard/neuroshard/search"
	"github.com/neuroshard/neuroshard/service/jobs"
	"github.com/neuroshard/neuroshard/service/store"
	"github.com/neuroshard/neuroshard/unit"
)

// The types of refusals that programs tell apart; the others have type about:blank.
const (
	typeInput      = "urn:neuroshard:input"
	typeInfeasible = "urn:neuroshard:infeasible"
	typeLimit      = "urn:neuroshard:limit"
	typeBusy       = "urn:neuroshard:busy"
	typeTime       = "urn:neuroshard:time"
	typeNotFound   = "urn:neuroshard:not-found"
)

// Refusal is the answer to a request that failed: problem details (RFC 9457) with every fault
// of the input and what to do about it.
type Refusal struct {
	Type   string  `json:"type" doc:"The sort of refusal, for programs" example:"urn:neuroshard:input"`
	Title  string  `json:"title" doc:"The HTTP status in words"`
	Status int     `json:"status" doc:"The HTTP status"`
	Detail string  `json:"detail" doc:"What is wrong, in one sentence"`
	Hint   string  `json:"hint,omitempty" doc:"What to do about it"`
	Errors []fault `json:"errors,omitempty" doc:"Every fault of the input"`
	More   int     `json:"more_errors,omitempty" doc:"Number of further faults"`
	// Table, Missing and DevicesNeeded are of problems that do not fit.
	Table         string     `json:"table,omitempty" doc:"The table that does not fit"`
	Missing       unit.Bytes `json:"missing_bytes,omitempty" doc:"Bytes that are missing for it"`
	DevicesNeeded int        `json:"devices_needed,omitempty" doc:"Devices that would be enough"`

	retryAfter int
}

// fault is one thing wrong with a request.
type fault struct {
	Location string `json:"location,omitempty" doc:"Where the fault is in the request" example:"problem.overrides.devices"`
	Message  string `json:"message" doc:"What is wrong, with the value"`
	Hint     string `json:"hint,omitempty" doc:"What to do about it"`
	Table    string `json:"table,omitempty" doc:"The table at fault"`
	Line     int    `json:"line,omitempty" doc:"The line of the fault, from 1, in the value at the location"`
	Value    any    `json:"value,omitempty" doc:"The value at fault, if it is short"`
}

func (r *Refusal) Error() string {
	if len(r.Errors) == 1 {
		return r.Errors[0].Message
	}
	return r.Detail
}

// GetStatus returns the HTTP status.
func (r *Refusal) GetStatus() int { return r.Status }

// ContentType returns the content type of problem details.
func (r *Refusal) ContentType(string) string { return "application/problem+json" }

// GetHeaders returns Retry-After, if the refusal is for now.
func (r *Refusal) GetHeaders() http.Header {
	h := http.Header{}
	if r.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(r.retryAfter))
	}
	return h
}

// refuse returns a refusal without faults.
func refuse(status int, kind, detail, hint string) *Refusal {
	return &Refusal{Type: kind, Title: http.StatusText(status), Status: status, Detail: detail, Hint: hint}
}

// joined returns one refusal of an error and of further faults; nil if there are none.
func joined(err error, faults []fault) error {
	if len(faults) == 0 {
		return err
	}
	if err == nil {
		return refusal(faults...)
	}
	r := refused(err)
	if len(r.Errors) == 0 {
		return r // a refusal of another sort comes first
	}
	more := refusal(append(slices.Clone(r.Errors), faults...)...)
	more.More += r.More
	return more
}

// mostFaults is the number of faults that one answer lists.
const mostFaults = 100

// refusal returns the refusal of a wrong input.
func refusal(faults ...fault) *Refusal {
	detail := faults[0].Message
	if len(faults) > 1 {
		detail = fmt.Sprintf("%d faults in the request", len(faults))
	}
	r := refuse(http.StatusUnprocessableEntity, typeInput, detail, "")
	r.Errors = faults[:min(len(faults), mostFaults)]
	r.More = len(faults) - len(r.Errors)
	return r
}

// overLimit returns the refusal of a request that asks for more than the operator allows.
func overLimit(location, message, hint string) *Refusal {
	r := refusal(fault{Location: location, Message: message, Hint: hint})
	r.Type = typeLimit
	return r
}

// busy returns the refusal of a request that may be repeated after some seconds.
func busy(status int, detail string, seconds int) *Refusal {
	r := refuse(status, typeBusy, detail, fmt.Sprintf("ask again after %d s", seconds))
	r.retryAfter = seconds
	return r
}

// refused returns the refusal that an error leads to.
func refused(err error) *Refusal {
	var (
		known      *Refusal
		inputs     *input.Errors
		invalid    *problem.Invalid
		infeasible *search.Infeasible
		noStep     *neuroshard.StepError
		old        *replan.OtherPlan
		form       *neuroshard.Unpriceable
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &inputs):
		return ofInputs(inputs)
	case errors.As(err, &invalid):
		var faults []fault
		for _, f := range invalid.Faults {
			faults = append(faults, fault{Location: "problem", Message: f.String(), Hint: inFields(f.Hint)})
		}
		return refusal(faults...)
	case errors.As(err, &infeasible):
		return ofInfeasible(infeasible)
	case report.Remedy(err) != "":
		return refuse(http.StatusUnprocessableEntity, typeInfeasible, err.Error(), inFields(report.Remedy(err)))
	case errors.As(err, &noStep):
		return refusal(fault{Location: "problem.topology", Message: "the whole step has no price: " + noStep.Err.Error(), Hint: "docs/OPERATION.md says what a step needs"})
	case errors.As(err, &old):
		return refusal(fault{Location: "old", Message: old.Message, Hint: inFields(old.Hint)})
	case errors.As(err, &form):
		return refusal(fault{Location: "plan", Message: form.Error()})
	}
	return ofJob(err)
}

// ofJob returns the refusal that an error of a job leads to.
func ofJob(err error) *Refusal {
	var heavy *jobs.TooHeavy
	switch {
	case errors.As(err, &heavy):
		return overLimit("problem", fmt.Sprintf("planning takes about %v of memory, and this server has %v for it", unit.Bytes(heavy.Weight), unit.Bytes(heavy.Most)), "plan for fewer tables or devices, or start the server with a larger max_memory")
	case errors.Is(err, jobs.ErrFull):
		return busy(http.StatusTooManyRequests, "the queue of jobs is full", 2)
	case errors.Is(err, jobs.ErrClosed):
		return busy(http.StatusServiceUnavailable, "the server is ending", 5)
	case errors.Is(err, jobs.ErrCanceled):
		return refuse(http.StatusConflict, typeBusy, "the job was canceled", "ask again for a new job")
	case errors.Is(err, context.DeadlineExceeded):
		return refuse(http.StatusUnprocessableEntity, typeTime, "the limit of time ended the job before there was a result", "raise options.time_limit_ms up to the limit of the server, or plan with another options.method")
	case errors.Is(err, context.Canceled):
		return refuse(http.StatusServiceUnavailable, typeBusy, "the request was canceled", "")
	}
	return ofStore(err)
}

// ofStore returns the refusal that an error of the store leads to.
func ofStore(err error) *Refusal {
	switch {
	case errors.Is(err, store.ErrFull):
		return refuse(http.StatusInsufficientStorage, "about:blank", "the disk of the store is full", "free some space on the server, or start it with a smaller max_data")
	case errors.Is(err, store.ErrReadOnly):
		return refuse(http.StatusInsufficientStorage, "about:blank", "the store cannot be written", "make the folder of --data writable for the server")
	case errors.Is(err, store.ErrBusy):
		return busy(http.StatusServiceUnavailable, "another process keeps the store locked", 5)
	}
	return refuse(http.StatusInternalServerError, "about:blank", "an error of the server: its log has the details", "please report it")
}

// ofInfeasible returns the refusal of a problem that does not fit.
func ofInfeasible(e *search.Infeasible) *Refusal {
	r := refuse(http.StatusUnprocessableEntity, typeInfeasible, e.Error(), inFields(report.Remedy(e)))
	r.Table, r.Missing, r.DevicesNeeded = e.Table, e.Missing, max(0, e.DevicesNeeded)
	return r
}

// ofInputs returns the refusal of inputs that package input read.
func ofInputs(e *input.Errors) *Refusal {
	var faults []fault
	for _, one := range e.Alike() {
		said := one.Error
		said.Message = one.Said()
		faults = append(faults, faultOf(said))
	}
	r := refusal(faults...)
	r.More += e.More
	return r
}

// ofParameters returns the refusal of a request whose parameters huma refuses.
func ofParameters(e *huma.ErrorModel) *Refusal {
	var faults []fault
	for _, one := range e.Errors {
		f := fault{Location: clip(one.Location), Message: one.Message, Value: shortly(one.Value)}
		if _, name, ok := strings.Cut(one.Location, "."); ok && one.Message == "unknown query parameter" {
			f.Message, f.Value, f.Hint = fmt.Sprintf("parameter %q is unknown", clip(name)), nil, "GET /openapi.json describes the parameters"
		}
		faults = append(faults, f)
	}
	if len(faults) == 0 {
		return refuse(e.Status, "about:blank", e.Detail, "")
	}
	// huma reports unknown parameters in any order.
	slices.SortStableFunc(faults, func(a, b fault) int { return strings.Compare(a.Location, b.Location) })
	r := refusal(faults...)
	if len(faults) == 1 && faults[0].Location != "" {
		r.Detail = faults[0].Location + ": " + faults[0].Message
	}
	r.Status, r.Title = e.Status, http.StatusText(e.Status)
	return r
}

// faultOf returns an error of package input in the words of a request: the flags of commands are
// fields here.
func faultOf(e input.Error) fault {
	f := fault{Location: e.File, Message: e.Message, Hint: inFields(e.Hint), Table: e.Table, Line: e.Line}
	if name, rest, ok := strings.Cut(e.Message, ": "); ok {
		if name = field(name); slices.ContainsFunc(overrideKeys(), func(k input.ClusterKey) bool { return overrideKey(k.Name) == name }) && e.File == "" {
			f.Location, f.Message = "problem.overrides."+name, rest
		}
	}
	if f.Location == "" {
		f.Location = "problem"
	}
	f.Message = inFields(f.Message)
	if e.Table != "" {
		f.Message = fmt.Sprintf("table %q: %s", e.Table, f.Message)
	}
	return f
}

// field returns the field of a request that states what a flag of the command line does.
func field(flag string) string {
	switch name := strings.ReplaceAll(strings.TrimPrefix(flag, "--"), "-", "_"); name {
	case "gpus":
		return "devices"
	case "gpu":
		return "device"
	case "engine":
		return "for"
	case "types":
		return "sharding_types"
	default:
		return name
	}
}

// inFields returns a message or a hint for users of the command line in the words of a request.
func inFields(text string) string {
	for _, one := range [][2]string{
		{"add --gpus N or --hosts N, or describe the cluster in a file: --cluster cluster.yaml", "state overrides.devices, or describe the cluster in topology"},
		{"add --gpu PROFILE, one of", "state overrides.device, one of"},
		{"neuroshard list workloads", "GET /v1/workloads"},
		{"neuroshard list devices", "GET /v1/devices"},
		{"leave the flag out", "leave the field out"},
	} {
		text = strings.ReplaceAll(text, one[0], one[1])
	}
	return flagInText().ReplaceAllStringFunc(text, func(flag string) string {
		if flag == "--types" {
			return "options." + field(flag)
		}
		return "overrides." + field(flag)
	})
}

func flagInText() *regexp.Regexp { return regexp.MustCompile(`--[a-z]+(-[a-z]+)*`) }

// meant returns the hint of a word that is not known, or "".
func meant(word string, known []string) string {
	if near := words.Closest(strings.ToLower(strings.ReplaceAll(word, "-", "_")), known); near != "" {
		return "did you mean " + near + "?"
	}
	return "choose one of " + strings.Join(known, ", ")
}
