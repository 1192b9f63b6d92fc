package doctor

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// onThrowawayThread runs fn on a thread that ends with it, so that fn may change the thread's namespaces.
func onThrowawayThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			// The main thread can't end. While this goroutine holds it, the next one gets another.
			done <- onThrowawayThread(fn)
			runtime.UnlockOSThread()
			return
		}
		// It is never unlocked, which ends the thread with the goroutine.
		done <- fn()
	}()
	return <-done
}
