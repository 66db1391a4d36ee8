// Package fixedseed gives the property tests of the package that imports it a fixed seed,
// so that each run of the tests draws the same values: most tests import it for this effect
// alone. A run explores other values with `go test -rapid.seed=0`, which draws a seed, or
// with any other seed.
//
// The quick tests draw fewer values than those with the build tag long (checks.go,
// checks_long.go).
package fixedseed

import (
	"flag" //nolint:depguard // sets a flag of the library for tests, and reads none

	"pgregory.net/rapid"
)

// Seed is the seed of all property tests.
const Seed = "1"

// The call makes the library register its flags before init sets one of them.
var _ = rapid.Bool

// Few makes property tests draw fewer values until t ends. A test calls it if each value takes tens
// of milliseconds. Few changes nothing if the flag -rapid.checks states another number.
func Few(t interface{ Cleanup(func()) }) {
	if flag.Lookup("rapid.checks").Value.String() != checks {
		return
	}
	t.Cleanup(func() { set("rapid.checks", checks) })
	set("rapid.checks", few)
}

func init() {
	set("rapid.seed", Seed)
	set("rapid.checks", checks)
}

func set(name, value string) {
	if err := flag.Set(name, value); err != nil {
		panic(err)
	}
}
