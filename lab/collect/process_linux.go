package collect

import (
	"os/exec"
	"runtime"
	"syscall"
)

// start starts the command so that the system ends it when this process ends, even by a
// signal that cannot be caught. The system watches the thread that starts the command, so
// that thread is kept until over is closed.
func start(cmd *exec.Cmd, over <-chan struct{}) error {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			<-over
		}
	}()
	return <-started
}
