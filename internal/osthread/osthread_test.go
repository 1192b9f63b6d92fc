package osthread_test

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/osthread"
)

// TestThrowaway: fn has a thread to itself that is not the process's first one, and that ends.
func TestThrowaway(t *testing.T) {
	broken := errors.New("broken")
	var mu sync.Mutex
	threads := map[int]bool{}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			err := osthread.Throwaway(func() error {
				if unix.Gettid() == os.Getpid() {
					t.Error("it is the process's first thread")
				}
				// A thread that was used before would still have this.
				before, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
				if err != nil || before != 0 {
					t.Errorf("the thread is not new: %d, %v", before, err)
				}
				mu.Lock()
				defer mu.Unlock()
				threads[unix.Gettid()] = true
				return errors.Join(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), broken)
			})
			if !errors.Is(err, broken) {
				t.Errorf("error %v", err)
			}
		})
	}
	wg.Wait()
	deadline := time.After(20 * time.Second)
	for id := range threads {
		for gone := false; !gone; {
			_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", id))
			gone = errors.Is(err, os.ErrNotExist)
			select {
			case <-deadline:
				t.Fatalf("thread %d goes on", id)
			case <-time.After(time.Millisecond):
			}
		}
	}
}
