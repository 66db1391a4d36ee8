//go:build long

package workload

import "testing"

func TestManyPoolsMatchPublishedLocality(t *testing.T) { poolsMatchPublishedLocality(t, 200) }
