package main

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionOf(t *testing.T) {
	for _, c := range []struct{ stated, module, sum, want string }{
		{"0.1.0", "(devel)", "", "0.1.0"},
		{"0.1.0", "v0.2.0", "h1:x", "0.1.0"}, // a release that states its version
		{"0.1.0-dev", "(devel)", "", "0.1.0-dev"},
		{"0.1.0-dev", "v0.0.0-20260101000000-0123456789ab+dirty", "", "0.1.0-dev"}, // a checkout
		{"0.1.0-dev", "v0.2.0", "h1:x", "0.2.0"},                                   // go install
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: c.module, Sum: c.sum}}
		if got := versionOf(c.stated, info); got != c.want {
			t.Errorf("stated %q, module %q: got %q, want %q", c.stated, c.module, got, c.want)
		}
	}
}

// TestVersionFlag wants --version to print what the command version prints.
func TestVersionFlag(t *testing.T) {
	flag, command := runHere(t.Context(), quiet(), "--version"), runHere(t.Context(), quiet(), "version")
	if flag.code != exitOK || flag.stdout != command.stdout || !strings.Contains(flag.stdout, "\nmodel a100-80 ") {
		t.Errorf("got exit code %d and %q, want %q", flag.code, flag.stdout, command.stdout)
	}
}
