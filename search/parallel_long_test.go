//go:build long

package search_test

import "testing"

func TestMoreThreadsDoNotChangeTheSearch(t *testing.T) { threadsDoNotChangeTheSearch(t, 6, 3, 2, 5) }
