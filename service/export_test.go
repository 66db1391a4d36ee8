package service

import (
	"slices"
	"time"
)

// Routes returns the patterns of all routes, for tests.
func (s *Service) Routes() []string { return slices.Sorted(slices.Values(s.mux.patterns)) }

// Streams takes a place of a stream of events, for tests.
func (s *Service) Streams() chan struct{} { return s.streams }

// Bodies takes memory of bodies, for tests. It reports whether there was so much.
func (s *Service) Bodies(weight int64) bool { return s.bodies.TryAcquire(weight) }

// BodyMemory is the memory for bodies, for tests.
func (s *Service) BodyMemory() int64 { return s.limits.bodyMemory() }

// Age makes the plan of an id in memory old, for tests: the store is asked again.
func (s *Service) Age(id string) {
	value, _ := s.shelf.answers.get(id)
	value.(*shelved).read = time.Time{}
}
