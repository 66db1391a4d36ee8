//go:build !unix

package collect

import "os/exec"

// ownGroup does nothing: only Unix has process groups.
func ownGroup(*exec.Cmd) {}

// killGroup kills the command. Its children end when their pipes are closed.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
