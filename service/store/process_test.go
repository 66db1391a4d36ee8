package store_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/neuroshard/neuroshard/internal/must"
	"github.com/neuroshard/neuroshard/service/store"
)

// The test binary is also the second process of tests: with this variable it puts plans into
// the store of a folder.
const childVariable = "NEUROSHARD_STORE_TEST"

func TestMain(m *testing.M) {
	if task := os.Getenv(childVariable); task != "" {
		if err := putPlans(task, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// putPlans puts plans into a store and prints the number of each plan when its Put has
// returned. The task is "folder|first|count"; a count of 0 has no end.
func putPlans(task string, stdout io.Writer) error {
	parts := strings.Split(task, "|")
	first, err1 := strconv.Atoi(parts[1])
	count, err2 := strconv.Atoi(parts[2])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	ctx := context.Background()
	s, err := store.Open(ctx, parts[0], store.Options{})
	if err != nil {
		return err
	}
	for n := first; count == 0 || n < first+count; n++ {
		if _, err := s.Put(ctx, large(n)); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(stdout, n); err != nil {
			return err
		}
	}
	return s.Close()
}

// large returns a record of several pages, under one of three names.
func large(n int) store.Record {
	r := recordOf(n, string(rune('a'+n%3)))
	r.Problem = incompressible(n, 20_000)
	return r
}

// child starts the second process.
func child(t *testing.T, folder string, first, count int) (*exec.Cmd, *bufio.Scanner, *bytes.Buffer) {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%d|%d", childVariable, folder, first, count))
	cmd.Stderr = &stderr
	stdout := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	return cmd, bufio.NewScanner(stdout), &stderr
}

// holds fails unless the store has the plans first to end-1 as they were put.
func holds(t *testing.T, s *store.Store, first, end int) {
	t.Helper()
	for n := first; n < end; n++ {
		want := large(n)
		got, err := s.Get(t.Context(), want.ID)
		if err != nil || !bytes.Equal(got.Plan, want.Plan) || !bytes.Equal(got.Problem, want.Problem) || got.Name != want.Name {
			t.Fatalf("plan %d: got %v, want what was put", n, err)
		}
	}
}

// TestKill kills a process that puts plans: after each kill the store has each plan whose Put
// had returned.
func TestKill(t *testing.T) { killed(t, 2) }

func killed(t *testing.T, kills int) {
	folder := t.TempDir()
	next := 0
	for kill := range kills {
		cmd, numbers, stderr := child(t, folder, next, 0)
		for range 5 + 7*kill%20 {
			if !numbers.Scan() {
				t.Fatalf("the process ended: %v %s", cmd.Wait(), stderr)
			}
		}
		must.Do(t, cmd.Process.Kill())
		last := numbers.Text()
		for numbers.Scan() { // what it printed before it was killed
			last = numbers.Text()
		}
		_ = cmd.Wait()
		done, err := strconv.Atoi(last)
		if err != nil {
			t.Fatal(err)
		}
		s := must.Get(store.Open(t.Context(), folder, store.Options{}))(t)
		holds(t, s, 0, done+1)
		// One plan more may be there: the process was killed before it could print.
		entries, err := s.List(t.Context(), "", store.Page{Limit: 1})
		if err != nil || len(entries) != 1 || entries[0].Tables < done || entries[0].Tables > done+1 {
			t.Fatalf("got the last plan %+v, %v; want plan %d or the next", entries, err, done)
		}
		if found, err := s.Pragma(t.Context(), "integrity_check(1)"); err != nil || found != "ok" {
			t.Fatalf("got %s, %v, want a whole file", found, err)
		}
		next = entries[0].Tables + 1
		must.Do(t, s.Close())
	}
}

// TestSeveral opens a new file with several stores at once, of this process and of a second
// one, which all put plans and read them.
func TestSeveral(t *testing.T) {
	const stores, each = 3, 8
	folder := t.TempDir()
	cmd, numbers, stderr := child(t, folder, 1000, each)
	var wait sync.WaitGroup
	for i := range stores {
		wait.Go(func() {
			s, err := store.Open(t.Context(), folder, store.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			for n := i * 100; n < i*100+each; n++ {
				if _, err := s.Put(t.Context(), large(n)); err != nil {
					t.Error(err)
				}
				if _, err := s.Put(t.Context(), recordOf(9999, "shared")); err != nil {
					t.Error(err)
				}
				if _, err := s.Get(t.Context(), large(n).ID); err != nil {
					t.Error(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for numbers.Scan() {
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	s := open(t, folder, store.Options{})
	for i := range stores {
		holds(t, s, i*100, i*100+each)
	}
	holds(t, s, 1000, 1000+each)
	names, err := s.Names(t.Context(), store.Page{})
	total := 0
	for _, n := range names {
		total += n.Plans
	}
	if err != nil || len(names) != 4 || total != (stores+1)*each+1 {
		t.Errorf("got %+v, %v; want %d plans under 4 names", names, err, (stores+1)*each+1)
	}
}
