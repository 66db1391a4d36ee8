//go:build unix

package collect

import (
	"os/exec"
	"syscall"
)

// ownGroup has the command start in a process group of its own, which its
// children join: they can then be ended with it, and a terminal's interrupt goes
// to this process alone.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the command and its children. Where all have ended, there is no
// such group any more, and the error says so.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
