//go:build long

package store_test

import "testing"

// TestKillTwenty is TestKill with 20 kills.
func TestKillTwenty(t *testing.T) { killed(t, 20) }
