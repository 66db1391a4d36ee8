//go:build long

package search_test

import "testing"

func TestManyFindWhatFits(t *testing.T) { findsWhatFits(t, 0, 120, 4, 6, 24) }

func TestMoreMemoryFitsMany(t *testing.T) { moreMemoryFits(t, 0, 100, 60) }
