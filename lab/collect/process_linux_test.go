package collect

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A worker that does not read its stdin ends when its driver is killed.
func TestWorkerEndsWithItsDriver(t *testing.T) {
	note := filepath.Join(t.TempDir(), "note")
	driver := exec.Command(os.Args[0])
	driver.Env = append(os.Environ(), envCollector+"="+t.TempDir(), envCollectorFake+"=mute", envNote+"="+note)
	if err := driver.Start(); err != nil {
		t.Fatal(err)
	}
	worker := 0
	for start := time.Now(); worker == 0; time.Sleep(time.Millisecond) {
		content, _ := os.ReadFile(note)
		if lines := strings.Fields(string(content)); len(lines) > 1 && strings.HasSuffix(string(content), "\n") {
			worker, _ = strconv.Atoi(lines[len(lines)-1])
		}
		if time.Since(start) > hanging {
			t.Fatalf("the worker noted no pid, but %q", content)
		}
	}
	if !alive(worker) {
		t.Fatal("the worker ended before its driver")
	}
	_ = driver.Process.Kill()
	_ = driver.Wait()
	for start := time.Now(); alive(worker); time.Sleep(time.Millisecond) {
		if time.Since(start) > hanging {
			t.Fatalf("worker %d lives after its driver was killed", worker)
		}
	}
}
