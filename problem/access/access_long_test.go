//go:build long

package access

import "testing"

func TestZipfOfManyRowsEqualsEnumeration(t *testing.T) { zipfEqualsEnumeration(t, 40_000) }
