package main

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionLine(t *testing.T) {
	for want, v := range map[string]versionJSON{
		"neuroshard 1.2.3 go1.26 linux/amd64":                                     {Version: "1.2.3"},
		"neuroshard 1.2.3 (commit 0123456789ab) go1.26 linux/amd64":               {Version: "1.2.3", Commit: "0123456789abcdef"},
		"neuroshard 1.2.3 (commit 0123, modified) go1.26 linux/amd64":             {Version: "1.2.3", Commit: "0123", Modified: true},
		"neuroshard 1.2.3-rc.1 (commit 0123456789ab) go1.26 linux/amd64":          {Version: "1.2.3-rc.1", Commit: "0123456789ab"},
		"neuroshard 0.1.0-dev (commit 0123456789ab, modified) go1.26 linux/amd64": {Version: "0.1.0-dev", Commit: "0123456789ab", Modified: true},
	} {
		v.Go, v.Platform = "go1.26", "linux/amd64"
		if got := v.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

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

func TestCommitOf(t *testing.T) {
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "-trimpath", Value: "true"}, {Key: "vcs.revision", Value: "0123"}, {Key: "vcs.modified", Value: "true"}}}
	if commit, modified := commitOf(info); commit != "0123" || !modified {
		t.Errorf("got %q, %v, want 0123, true", commit, modified)
	}
	if commit, modified := commitOf(&debug.BuildInfo{}); commit != "" || modified {
		t.Errorf("a build outside of a checkout: got %q, %v", commit, modified)
	}
}

// TestVersionFlag wants --version to print what the command version prints.
func TestVersionFlag(t *testing.T) {
	flag, command := runHere(t.Context(), quiet(), "--version"), runHere(t.Context(), quiet(), "version")
	if flag.code != exitOK || flag.stdout != command.stdout || !strings.Contains(flag.stdout, "\nmodel a100-80 ") {
		t.Errorf("got exit code %d and %q, want %q", flag.code, flag.stdout, command.stdout)
	}
}
