package service

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/neuroshard/neuroshard/unit"
)

// guard handles each request before its route: it decides whether the caller may call, reads the
// body, counts and logs the request, and answers if the route panics.
type guard struct {
	*Service
	next   http.Handler
	origin *http.CrossOriginProtection
	token  [sha256.Size]byte
}

func newGuard(s *Service, next http.Handler) http.Handler {
	return &guard{s, next, http.NewCrossOriginProtection(), sha256.Sum256([]byte(s.opt.Token))}
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	out := &recorder{ResponseWriter: w, deadline: http.NewResponseController(w), limit: g.limits.WriteTime}
	setHeaders(w.Header(), r.URL.Path)
	defer func() {
		if value := recover(); value != nil {
			g.panicked(out, r, value)
		}
		route := r.Pattern
		if route == "" {
			route = "none"
		}
		took := time.Since(start)
		g.metrics.request(route, out.status(), took)
		g.log.Info("request", "method", clip(r.Method), "route", route, "status", out.status(), "ms", float64(took.Microseconds())/1000, "bytes", out.bytes, "from", addressOf(r.RemoteAddr))
	}()
	if refusal := g.refuse(r); refusal != nil {
		g.turnAway(out, r, refusal)
		return
	}
	if r.Method != http.MethodPost {
		g.next.ServeHTTP(out, r)
		return
	}
	in, refusal := g.takeIn(out, r)
	if refusal != nil {
		g.turnAway(out, r, refusal)
		return
	}
	defer in.release()
	with := r.WithContext(context.WithValue(r.Context(), intakeKey{}, in))
	defer func() { r.Pattern = with.Pattern }()
	g.next.ServeHTTP(out, with)
}

// mostDropped is the largest part of a refused body that is read and dropped.
const mostDropped = 256 * unit.MiB

// turnAway writes a refusal while the client may still send the body, and then reads and drops the
// rest of the body. If the connection were closed before, a client that sends its whole body first
// would see a reset in place of the refusal.
func (g *guard) turnAway(out *recorder, r *http.Request, refusal *Refusal) {
	_ = out.deadline.EnableFullDuplex() // without it, net/http reads a part of the body first, for any time
	write(out, refusal)
	_ = out.deadline.Flush()
	_ = out.deadline.SetReadDeadline(time.Now().Add(g.limits.BodyTime))
	_, _ = io.CopyN(io.Discard, r.Body, int64(mostDropped))
	// The deadline stays, because net/http reads on when it closes the body. It sets another one for the
	// next request.
}

// refuse returns the refusal of a request that may not reach a route, or nil.
func (g *guard) refuse(r *http.Request) *Refusal {
	if !g.hosted(r.Host) {
		return refuse(http.StatusForbidden, "about:blank", fmt.Sprintf("this server is not %q", clip(r.Host)), "call it by its address, or start it with --allow-host NAME")
	}
	// Refuse requests that a browser sends for other sites. Requests that only read are refused,
	// too, because they also cost work.
	if from := r.Header.Get("Sec-Fetch-Site"); g.origin.Check(r) != nil || isData(r.URL.Path) && (from == "cross-site" || from == "same-site") {
		g.metrics.crossSite.Inc()
		return refuse(http.StatusForbidden, "about:blank", "the request comes from another site", "open the server's own page")
	}
	if g.opt.Token != "" && isData(r.URL.Path) && !g.authorised(r) {
		g.metrics.unauthorised.Inc()
		return refuse(http.StatusUnauthorized, "about:blank", "the request has no valid token", "send the header Authorization: Bearer TOKEN")
	}
	if r.Method == http.MethodPost {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			return refuse(http.StatusUnsupportedMediaType, "about:blank", fmt.Sprintf("the content type is %q", clip(r.Header.Get("Content-Type"))), "send JSON with the header Content-Type: application/json")
		}
		if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
			return refuse(http.StatusUnsupportedMediaType, "about:blank", fmt.Sprintf("the content encoding is %q", clip(coding)), "send the body uncompressed")
		}
	}
	return nil
}

// isData reports whether a path leads to data. The page, its assets, the description of the API
// and the health of the server need no token.
func isData(path string) bool { return strings.HasPrefix(path, "/v1/") || path == "/metrics" }

// hosted reports whether a Host header has a name or an address of this server. It protects from
// DNS rebinding, in which the name of another web site leads to this machine.
func (g *guard) hosted(header string) bool {
	name := strings.TrimSuffix(strings.ToLower(header), ".")
	if host, _, err := net.SplitHostPort(header); err == nil {
		name = strings.TrimSuffix(strings.ToLower(host), ".")
	}
	if len(g.opt.Hosts) == 0 && g.opt.Token != "" {
		return true
	}
	return name == "localhost" || net.ParseIP(strings.Trim(name, "[]")) != nil || slices.Contains(g.opt.Hosts, name)
}

// authorised reports whether a request has the token. It compares in constant time.
func (g *guard) authorised(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

// panicked answers and counts a panic.
func (g *guard) panicked(out *recorder, r *http.Request, value any) {
	if value == http.ErrAbortHandler {
		panic(value)
	}
	g.metrics.panics.Inc()
	g.log.Error("a request panicked", "route", r.Pattern, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
	if out.code == 0 {
		write(out, refused(errors.New("panic")))
	}
}

// intake is the body of a request, with the memory that it takes.
type intake struct {
	body    []byte
	weight  int64
	from    *semaphore.Weighted
	release func()
}

type intakeKey struct{}

// bodyOf returns the body of the request of a context.
func bodyOf(ctx context.Context) *intake { return ctx.Value(intakeKey{}).(*intake) }

// firstRead is the size of the first buffer for a body, in bytes.
const firstRead = 64 << 10

// takeIn reads the body of a request. It reserves memory as the body arrives, so that a slow client
// reserves little.
func (g *guard) takeIn(out *recorder, r *http.Request) (*intake, *Refusal) {
	in := &intake{from: g.bodies}
	in.release = sync.OnceFunc(func() { in.from.Release(in.weight) })
	most := int(g.limits.Body)
	if r.ContentLength > int64(most) {
		return nil, tooLarge(g.limits.Body)
	}
	_ = out.deadline.SetReadDeadline(time.Now().Add(g.limits.BodyTime)) // a test's recorder has no deadlines
	refusal := in.read(r.Body, r.ContentLength, most)
	_ = out.deadline.SetReadDeadline(time.Time{})
	if refusal != nil {
		in.release()
		if refusal.Type == typeBusy {
			g.metrics.refusedBodies.Inc()
		}
		return nil, refusal
	}
	return in, nil
}

// read reads a body of at most most bytes. length is the length that the client states, or -1.
func (in *intake) read(from io.Reader, length int64, most int) *Refusal {
	first := min(most+1, firstRead)
	if length >= 0 && length < int64(first) {
		first = int(length) + 1 // one more, so that a read sees the end
	}
	if !in.grow(first) {
		return busy(http.StatusServiceUnavailable, "too much memory is in use by other requests", 1)
	}
	for {
		if len(in.body) == cap(in.body) && !in.grow(min(most+1, 2*cap(in.body))) {
			return busy(http.StatusServiceUnavailable, "too much memory is in use by other requests", 1)
		}
		n, err := from.Read(in.body[len(in.body):cap(in.body)])
		in.body = in.body[:len(in.body)+n]
		switch {
		case len(in.body) > most:
			return tooLarge(unit.Bytes(most))
		case err == io.EOF:
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return refuse(http.StatusRequestTimeout, typeTime, "the body came too slowly", "send the request again")
		case err != nil:
			return refuse(http.StatusBadRequest, "about:blank", "the body ended early", "send the request again")
		}
	}
}

// grow makes room for a body of size bytes. It reports whether the memory for bodies suffices.
func (in *intake) grow(size int) bool {
	weight := bodyWeight(unit.Bytes(size)) - in.weight
	if !in.from.TryAcquire(weight) {
		return false
	}
	in.weight += weight
	larger := make([]byte, len(in.body), size)
	copy(larger, in.body)
	in.body = larger
	return true
}

func tooLarge(most unit.Bytes) *Refusal {
	return refuse(http.StatusRequestEntityTooLarge, typeLimit, fmt.Sprintf("the body is larger than this server's limit of %v", most), "send less, or start the server with a larger max_body")
}

// write writes a refusal.
func write(w http.ResponseWriter, r *Refusal) {
	for key, values := range r.GetHeaders() {
		w.Header()[key] = values
	}
	if r.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", r.ContentType(""))
	if r.Status == http.StatusRequestEntityTooLarge || r.Status == http.StatusRequestTimeout {
		w.Header().Set("Connection", "close") // the rest of the body is not read
	}
	var text bytes.Buffer
	_ = json.NewEncoder(&text).Encode(r)
	w.Header().Set("Content-Length", strconv.Itoa(text.Len())) // the client sees the end before its body was read
	w.WriteHeader(r.Status)
	_, _ = w.Write(text.Bytes())
}

// setHeaders sets the headers that every answer has.
func setHeaders(h http.Header, path string) {
	policy := "default-src 'none'; frame-ancestors 'none'"
	if !isData(path) {
		policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	}
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	if isData(path) {
		h.Set("Cache-Control", "no-store")
	}
}

// addressOf returns an address without its port.
func addressOf(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}

// recorder notes the status and the size of an answer, and sets a deadline for each part that the
// client has to take.
type recorder struct {
	http.ResponseWriter
	deadline *http.ResponseController
	limit    time.Duration
	code     int
	bytes    int64
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) WriteHeader(code int) {
	if r.code == 0 {
		r.code = code
	}
	r.ResponseWriter.WriteHeader(code)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.code == 0 {
		r.code = http.StatusOK
	}
	_ = r.deadline.SetWriteDeadline(time.Now().Add(r.limit)) // a test's recorder has none
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

// status returns the status that was sent.
func (r *recorder) status() int {
	if r.code == 0 {
		return http.StatusOK
	}
	return r.code
}
