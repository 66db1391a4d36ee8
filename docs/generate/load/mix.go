//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// mix is what users send: each request is drawn from a seed and its number alone, so the mix is
// the same for any number of clients.
//
//	750 of 1000  a plan that was made before, out of 40, the first ones most often
//	 50          a new plan of 2 to 5 tables, in at most 1,000 evaluations
//	 80          the price of a plan, or its check
//	 60          a list, a name's history, a plan by its id, its page
//	 50          a request with a fault, which the server refuses
//	 10          a job: started, watched to its end or canceled
type mix struct {
	server *server
	seed   uint64
	known  []string // bodies of plans that were made before

	lock  sync.Mutex
	plans map[string]float64 // the cost of each plan that was received, by id
	ids   []string           // of known
}

// small returns the body of a request for a plan of few tables. The number makes the tables.
func small(n uint64, tables int) string {
	rng := rand.New(rand.NewPCG(n, 7))
	var list []string
	for i := range tables {
		list = append(list, fmt.Sprintf(`{"name":"t%d","rows":%d,"dim":%d,"pooling_factor":%d}`,
			i, 1000+rng.IntN(1_000_000), 4<<rng.IntN(6), 1+rng.IntN(30)))
	}
	return fmt.Sprintf(`{"name":"model-%d","tables":{"format":"neuroshard-tables","version":1,"batch":65536,"tables":[%s]},"overrides":{"devices":2,"device":"a100-80"}}`,
		n%25, strings.Join(list, ","))
}

func planOf(problem string) string {
	return `{"problem":` + problem + `}`
}

// quick returns the body of a request for a plan that takes little time.
func quick(problem string) string {
	return `{"problem":` + problem + `,"options":{"max_evaluations":1000}}`
}

// prepare makes the plans that are known later.
func (m *mix) prepare(ctx context.Context) error {
	m.plans = map[string]float64{}
	for n := range 40 {
		body := planOf(small(uint64(n), 4+n%8))
		a, err := m.server.plan(ctx, body)
		if err != nil {
			return err
		}
		m.known, m.ids = append(m.known, body), append(m.ids, a.ID)
		m.plans[a.ID] = a.Cost
	}
	return nil
}

// fill has the server make quick plans until its cache of answers is as large as it gets, so
// that its growth is not taken for a leak.
func (m *mix) fill(ctx context.Context) error {
	last, same := -1.0, 0
	for n := 0; same < 3 && n < 20_000; n++ {
		body := fmt.Sprintf(`{"problem":{"workload":"dlrm-datasets-100x8"},"options":{"method":"random","seed":%d,"certificate":false,"baselines":false}}`, n)
		if _, err := m.server.plan(ctx, body); err != nil {
			return err
		}
		if n%100 != 99 {
			continue
		}
		now, err := m.server.state(ctx)
		if err != nil {
			return err
		}
		if now.cache <= last*1.001 {
			same++
		}
		last = max(last, now.cache)
	}
	return nil
}

// do sends the request with a number.
func (m *mix) do(ctx context.Context, n int) error {
	rng := rand.New(rand.NewPCG(m.seed, uint64(n)))
	known := int(float64(len(m.known)) * rng.Float64() * rng.Float64())
	switch draw := rng.IntN(1000); {
	case draw < 750:
		return m.again(ctx, m.known[known])
	case draw < 800:
		return m.again(ctx, quick(small(1000+uint64(n), 2+rng.IntN(4))))
	case draw < 880:
		return m.expect(ctx, http.StatusOK, http.MethodPost, "/v1/"+[]string{"price", "validate"}[rng.IntN(2)], m.priced(ctx, known))
	case draw < 940:
		path := []string{"/v1/plans?limit=20", "/v1/plans?name=model-3", "/v1/names", "/v1/plans/" + m.ids[known], "/v1/plans/" + m.ids[known] + "/page", "/v1/devices", "/healthz"}[rng.IntN(7)]
		return m.expect(ctx, http.StatusOK, http.MethodGet, path, "")
	case draw < 990:
		return m.faulty(ctx, rng)
	default:
		return m.job(ctx, rng, quick(small(1000+uint64(n), 8)))
	}
}

// again asks for a plan. A plan that was received before must be the same again.
func (m *mix) again(ctx context.Context, body string) error {
	a, err := m.server.plan(ctx, body)
	if err != nil {
		return err
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	if before, found := m.plans[a.ID]; found && before != a.Cost {
		return fmt.Errorf("plan %s has another cost than before", a.ID)
	}
	m.plans[a.ID] = a.Cost
	return nil
}

// priced returns the body of a request for the price of a known plan.
func (m *mix) priced(ctx context.Context, known int) string {
	var request struct{ Problem json.RawMessage }
	if err := json.Unmarshal([]byte(m.known[known]), &request); err != nil {
		panic(err) // a body of our own
	}
	_, plan, err := m.server.call(ctx, http.MethodGet, "/v1/plans/"+m.ids[known], "")
	if err != nil {
		return err.Error() // the server will refuse it
	}
	return fmt.Sprintf(`{"problem":%s,"plan":%s}`, request.Problem, plan)
}

// expect sends a request and wants a status.
func (m *mix) expect(ctx context.Context, want int, method, path, body string, header ...string) error {
	status, text, err := m.server.call(ctx, method, path, body, header...)
	if err == nil && status != want {
		err = fmt.Errorf("%s %s: status %d, want %d: %.300s", method, path, status, want, text)
	}
	return err
}

// faulty sends a request that the server must refuse.
func (m *mix) faulty(ctx context.Context, rng *rand.Rand) error {
	switch rng.IntN(7) {
	case 0:
		return m.expect(ctx, http.StatusBadRequest, http.MethodPost, "/v1/plan", `{"problem":`)
	case 1:
		return m.expect(ctx, http.StatusUnprocessableEntity, http.MethodPost, "/v1/plan", `{"problem":{"workload":"dlrm"},"option":{}}`)
	case 2:
		return m.expect(ctx, http.StatusUnprocessableEntity, http.MethodPost, "/v1/plan", `{"problem":{"workload":"mlperf-dlrm-dcnv2","overrides":{"devices":1000000}}}`)
	case 3:
		return m.expect(ctx, http.StatusNotFound, http.MethodGet, "/v1/plans/"+strings.Repeat("0", 32), "")
	case 4:
		return m.expect(ctx, http.StatusUnsupportedMediaType, http.MethodPost, "/v1/plan", m.known[0], "Content-Type", "text/plain")
	case 5:
		return m.expect(ctx, http.StatusForbidden, http.MethodPost, "/v1/plan", m.known[0], "Origin", "http://example.com")
	default:
		return m.expect(ctx, http.StatusNotFound, http.MethodGet, "/v1/nothing", "")
	}
}

// job starts a job and watches it to its end, or cancels it.
func (m *mix) job(ctx context.Context, rng *rand.Rand, body string) error {
	var job struct{ ID, State string }
	status, text, err := m.server.call(ctx, http.MethodPost, "/v1/plan?async=true", body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &job); err != nil || status != http.StatusAccepted {
		return fmt.Errorf("job: status %d, %w: %.300s", status, err, text)
	}
	path := "/v1/jobs/" + job.ID
	if rng.IntN(2) == 0 { // the stream ends with the job
		if err := m.expect(ctx, http.StatusOK, http.MethodGet, path+"/events", ""); err != nil {
			return err
		}
	} else if status, text, err = m.server.call(ctx, http.MethodDelete, path, ""); err != nil || status >= 300 && status != http.StatusConflict {
		return fmt.Errorf("cancel: status %d, %w: %.300s", status, err, text)
	}
	for range 3000 {
		if _, text, err = m.server.call(ctx, http.MethodGet, path, ""); err != nil {
			return err
		}
		if err := json.Unmarshal(text, &job); err != nil {
			return err
		}
		if job.State != "queued" && job.State != "running" {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("job %s is still %s", job.ID, job.State)
}

// found fails unless a server has all plans that were received.
func (m *mix) found(ctx context.Context, s *server) error {
	for id := range m.plans {
		status, text, err := s.call(ctx, http.MethodGet, "/v1/plans/"+id, "")
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("plan %s: status %d, %w: %.300s", id, status, err, text)
		}
	}
	return nil
}
