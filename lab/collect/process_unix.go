//go:build unix

package collect

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the command start in its own process group, which its children
// join. The children can then be ended with it, and a terminal's interrupt reaches
// this process alone.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the command and its children. If all have ended, the group no
// longer exists, and the error says so.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
