package service

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/neuroshard/neuroshard/report/page"
	"github.com/neuroshard/neuroshard/service/store"
)

// Store keeps plans, as *store.Store does.
type Store interface {
	Put(ctx context.Context, r store.Record) (fresh bool, err error)
	Touch(ctx context.Context, id, name string, at time.Time) error
	Get(ctx context.Context, id string) (store.Record, error)
	Delete(ctx context.Context, id string) error
	List(ctx context.Context, name string, page store.Page) ([]store.Entry, error)
	Names(ctx context.Context, page store.Page) ([]store.Name, error)
	Check(ctx context.Context) error
}

// shelf finds kept plans, in memory or in the store.
type shelf struct {
	store Store
	// answers holds records by their ids, and other values under keys with a prefix: "body ",
	// "page ", "last " and "used ".
	answers *cache
	log     *slog.Logger
}

// shelved is a plan in memory.
type shelved struct {
	record *store.Record
	// saved is set if the store had the plan, at the time read.
	saved bool
	read  time.Time
}

// known returns the plan of an id from memory or from the store; nil if there is none. It looks into the
// store again after restTime, because another server with the same folder may delete the plan.
func (s *shelf) known(ctx context.Context, id string) (*store.Record, error) {
	value, _ := s.answers.get(id)
	inMemory, ok := value.(*shelved)
	if ok && (!inMemory.saved || time.Since(inMemory.read) < restTime) {
		return inMemory.record, nil
	}
	record, err := s.store.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		s.forget(id)
		return nil, nil
	case err != nil && ok:
		s.log.Error("the store could not be read", "id", id, "error", err)
		return inMemory.record, nil
	case err != nil:
		return nil, err
	}
	s.keep(&record, true)
	return &record, nil
}

// keep keeps a record in memory. saved says whether the store has it.
func (s *shelf) keep(record *store.Record, saved bool) {
	s.answers.put(record.ID, &shelved{record, saved, time.Now()}, len(record.Plan)+len(record.Problem)+len(record.Result))
}

// restTime is the shortest time between two notes that a plan without a name was used. The notes only
// decide which plan is deleted first, and each note is a write that waits for the disk.
const restTime = time.Minute

// touch makes a plan the last one of a name, unless it is that already. It reports whether the
// store has the plan.
func (s *shelf) touch(ctx context.Context, id, name string) bool {
	if last, ok := s.answers.get("last " + name); ok && last == id {
		return true
	}
	if used, ok := s.answers.get("used " + id); name == "" && ok && time.Since(used.(time.Time)) < restTime {
		return true
	}
	// The note is stored even if the client has disconnected.
	err := s.store.Touch(context.WithoutCancel(ctx), id, name, time.Now())
	switch {
	case errors.Is(err, store.ErrNotFound):
		s.answers.drop(id)
		return false
	case err != nil:
		s.log.Error("a name was not kept", "id", id, "error", err)
		return true
	}
	s.last(id, name)
	if name == "" {
		s.answers.put("used "+id, time.Now(), len(id))
	}
	return true
}

// last notes that a plan is the last one of a name.
func (s *shelf) last(id, name string) { s.answers.put("last "+name, id, len(name)+len(id)) }

// record returns a kept plan, or a refusal.
func (s *shelf) record(ctx context.Context, id string) (*store.Record, error) {
	if !validID(id) {
		return nil, noPlan(id)
	}
	record, err := s.known(ctx, id)
	if err == nil && record == nil {
		return nil, noPlan(id)
	}
	return record, err
}

func noPlan(id string) *Refusal {
	return refuse(http.StatusNotFound, typeNotFound, "there is no plan "+clip(id), "list the plans with GET /v1/plans")
}

// validID reports whether a text is an id of a plan.
func validID(id string) bool {
	return len(id) == 32 && strings.Trim(id, "0123456789abcdef") == ""
}

// forget drops a plan from memory.
func (s *shelf) forget(id string) {
	s.answers.drop(id)
	s.answers.drop("page " + id)
}

// draw keeps a document of the page in memory, and returns it as JSON.
func (s *shelf) draw(key string, d *page.Document) (text, error) {
	d.Format, d.Version = page.Format, page.FormatVersion
	encoded, err := json.Marshal(d)
	if err == nil {
		s.answers.put(key, text(encoded), len(encoded))
	}
	return encoded, err
}
