//go:build long

package search_test

import "testing"

// TestManyFromAgainstBruteForce is TestFromAgainstBruteForce for more tasks.
func TestManyFromAgainstBruteForce(t *testing.T) { fromAgainstBruteForce(t, 50) }
