//go:build long

package search_test

import "testing"

func TestMoreThreadsDoNotChangeTheSearch(t *testing.T) { threadsDoNotChangeTheSearch(t, 5, 3) }
