//go:build !linux

package collect

import "os/exec"

// start starts the command. If this process is killed, the command reads the end of its
// stdin, which asks it to end.
func start(cmd *exec.Cmd, _ <-chan struct{}) error { return cmd.Start() }
